# What a developer types. Everything is made in the checkout: .venv (Python packages) and .lab (programs for the tests).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.ONESHELL:
.DEFAULT_GOAL := help

VENV := .venv
PYTHON_OF_VENV := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
IN_LAB := $(PYTHON_OF_VENV) -m tests.lab.inside
SOAK_MINUTES ?= 60

# A slow network is waited for; set them in the environment to wait otherwise.
export PIP_DEFAULT_TIMEOUT ?= 60
export PIP_RETRIES ?= 10
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv lint test test-long test-engines test-gpu demo bench soak clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

venv: $(INSTALLED) ## Python packages into .venv

$(INSTALLED): pyproject.toml Makefile
	@python=$$(tests/lab/newest-python)
	@echo "making $(VENV) with $$python"
	@"$$python" -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --editable '.[dev]'
	@touch $@

lint: venv ## style, types, layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --explicit-package-bases tests/lab
	$(VENV)/bin/lint-imports --no-cache

test: venv ## every tier that fits this machine, in the lab's namespaces where they can be had
	@$(PYTHON_OF_VENV) -m tests.lab.parts $(ARGS)

test-long: venv ## what waits for minutes: rates through the daemon, a short soak, packages on whole Debian hosts
	@$(PYTHON_OF_VENV) -m tests.lab.prepare
	@$(IN_LAB) --if-possible -- $(PYTHON_OF_VENV) -m pytest -m long $(ARGS)

test-engines: venv ## real engines on the CPU
	@$(IN_LAB) --if-possible -- $(PYTHON_OF_VENV) -m pytest -m llamacpp $(ARGS)

test-gpu: venv ## the tier for a host with an NVIDIA GPU: its own driver, its own Docker Engine
	@$(PYTHON_OF_VENV) -m pytest tests/gpu -m gpu -s $(ARGS)

demo: venv ## deploy, stall, restart, ready again: on this machine, in under two minutes
	@$(PYTHON_OF_VENV) -m tests.lab.demo

bench: venv ## what is promised of time and memory, and what is measured here
	@$(IN_LAB) --if-possible --with exporter -- $(PYTHON_OF_VENV) -m tests.bench $(ARGS)

soak: venv ## a fault every minute for SOAK_MINUTES: nothing may grow
	@SOAK_MINUTES=$(SOAK_MINUTES) $(IN_LAB) --if-possible -- $(PYTHON_OF_VENV) -m tests.soak

clean: ## forget what was made
	rm -rf $(VENV) .lab build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find agent tests -name __pycache__ -type d -prune -exec rm -rf {} +
