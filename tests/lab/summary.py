"""The last line of a test run: how many passed, failed and were skipped; a pytest plug-in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter

# What pytest counts apart, and what it amounts to.
MEANS = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped", "xfailed": "skipped"}


def count(reporter: TerminalReporter) -> str:
    """`N passed, N failed, N skipped`; a fixture that broke counts as failed."""
    counts: Counter[str] = Counter()
    for kind, reports in reporter.stats.items():
        counts[MEANS.get(kind, "other")] += len(reports)
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Prints it after everything else."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, TerminalReporter) and not session.config.option.collectonly:
        reporter.write_line(f"tests: {count(reporter)}")
