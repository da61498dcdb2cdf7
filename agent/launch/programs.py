"""Which bare commands start something that serves, as the tools' own documents call them."""

from __future__ import annotations

from collections.abc import Sequence

_ALWAYS = frozenset(
    (
        "llama-server", "llama-cli", "llama-swap", "trtllm-serve", "trtllm-llmapi-launch", "torchrun", "accelerate",
        "deepspeed", "mpirun", "infinity_emb", "text-generation-launcher", "text-embeddings-router", "tabbyapi",
        "koboldcpp", "tritonserver", "local-ai", "uvicorn", "mlx_lm.server", "exllamav3-server", "ray",
    )
)  # fmt: skip
_WITH_VERB = {
    "vllm": ("serve", "run-batch", "bench", "chat", "complete"),
    "sglang": ("serve", "generate"),
    "sgl": ("serve",),
    "ollama": ("serve", "run"),
    "lmdeploy": ("serve",),
    "aphrodite": ("run",),
    "mlc_llm": ("serve",),
}
_UTILITIES = frozenset(
    (
        "echo", "printf", "cat", "cp", "mv", "rm", "ln", "ls", "tee", "sed", "awk", "grep", "find", "chmod", "chown",
        "curl", "wget", "tar", "unzip", "apt", "apt-get", "dnf", "yum", "brew", "conda", "source", ".", "set", "unset",
        "sleep", "wait", "kill", "pkill", "true", "false", "test", "[", "make", "cmake", "ninja", "nvidia-smi",
        "modprobe", "systemctl", "ssh", "scp", "rsync", "touch", "read", "exit", "return", "trap", "ulimit", "sysctl",
        "git", "docker", "podman", "nerdctl", "npm", "cargo", "go",
    )
)  # fmt: skip
"""Programs that never serve a model, so a text that holds one of them alone holds no launch."""
_PROMPTS = frozenset("$%>❯➜")
_PYTHON = ("python", "python3", "pypy3")
_SETUP_MODULES = ("pip", "venv", "ensurepip", "build", "compileall", "pytest", "http")


def serves(argv: Sequence[str]) -> bool:
    """Whether `argv` is a command line of an inference engine, or of a Python program that may be one."""
    name = program(argv)
    if name in _WITH_VERB:
        return len(argv) > 1 and argv[1] in _WITH_VERB[name]
    if name in _ALWAYS or name.startswith("llama-cli"):
        return True
    return name.rstrip("0123456789.") in _PYTHON and _python_serves(argv)


def _python_serves(argv: Sequence[str]) -> bool:
    """`-m MODULE` or a script; not `-c` and not a module that sets things up."""
    for at, word in enumerate(argv[1:], 1):
        if word == "-m":
            module = argv[at + 1] if at + 1 < len(argv) else ""
            return bool(module) and module.partition(".")[0] not in _SETUP_MODULES
        if not word.startswith("-"):
            return word.endswith(".py") and not word.endswith("setup.py")
        if word == "-c":
            return False
    return False


def program(argv: Sequence[str]) -> str:
    """The program's name without folders and `.exe`."""
    return argv[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if argv else ""


def is_utility(argv: Sequence[str]) -> bool:
    """Whether the program is one that every system has and that serves nothing."""
    return program(argv) in _UTILITIES


def is_prompt(argv: Sequence[str]) -> bool:
    """Whether a line was copied with the prompt of a terminal before it: no program is called so."""
    return bool(argv) and argv[0] in _PROMPTS
