"""`--platform`: a specifier into the normal form that the CLI sends (containerd's platform rules)."""

from __future__ import annotations

import re

from agent.launch.golang import Malformed

_PART = re.compile(r"[A-Za-z0-9_.-]+")
_SYSTEM = re.compile(r"([A-Za-z0-9_-]+)(?:\(([A-Za-z0-9_.-]*)\))?")

SYSTEMS = frozenset(
    (
        "aix", "android", "darwin", "dragonfly", "freebsd", "hurd", "illumos", "ios", "js", "linux", "nacl",
        "netbsd", "openbsd", "plan9", "solaris", "windows", "zos",
    )
)  # fmt: skip
ARCHITECTURES = frozenset(
    (
        "386", "amd64", "amd64p32", "arm", "armbe", "arm64", "arm64be", "ppc64", "ppc64le", "loong64", "mips",
        "mipsle", "mips64", "mips64le", "mips64p32", "mips64p32le", "ppc", "riscv", "riscv64", "s390", "s390x",
        "sparc", "sparc64", "wasm",
    )
)  # fmt: skip
_ARCHITECTURE_NAMES = {
    "i386": ("386", ""),
    "x86_64": ("amd64", None),
    "x86-64": ("amd64", None),
    "amd64": ("amd64", None),
    "aarch64": ("arm64", None),
    "arm64": ("arm64", None),
    "armhf": ("arm", "v7"),
    "armel": ("arm", "v6"),
    "arm": ("arm", None),
}
_ARM_VARIANTS = {"": "v7", "7": "v7", "5": "v5", "6": "v6", "8": "v8"}


def normal_platform(text: str, architecture: str = "amd64") -> str:
    """`linux/arm64/v8` and its shorter spellings as `os/arch[/variant]`. Raises Malformed.

    `architecture` is the client's own, which an operating system named alone takes.
    """
    if "*" in text:
        raise Malformed(f'"{text}": wildcards not yet supported: invalid argument')
    parts = text.split("/", 2)
    system = _system(parts[0], text)
    for part in parts[1:]:
        if not _PART.fullmatch(part):
            raise Malformed(f'"{part}" is an invalid component of "{text}": invalid argument')
    if len(parts) == 1:
        return _single(parts[0], system, text, architecture)
    machine, variant = _architecture(parts[1], parts[2] if len(parts) == 3 else "")
    if len(parts) == 2 and machine == "arm" and variant == "v7":
        variant = ""
    if len(parts) == 3 and machine == "arm64" and variant == "" and parts[2].lower() in ("8", "v8"):
        variant = "v8"
    return "/".join(part for part in (system, machine, variant) if part)


def _system(text: str, whole: str) -> str:
    found = _SYSTEM.fullmatch(text)
    if not found:
        raise Malformed(f'"{text}" is an invalid OS component of "{whole}": invalid argument')
    name = found[1].lower()
    return "darwin" if name == "macos" else name


def _single(word: str, system: str, text: str, architecture: str) -> str:
    """One word is an operating system, or else an architecture of linux."""
    if system in SYSTEMS:
        return f"{system}/{architecture}"
    machine, variant = _architecture(word, "")
    if machine == "arm" and variant == "v7":
        variant = ""
    if machine in ARCHITECTURES:
        return "/".join(part for part in ("linux", machine, variant) if part)
    raise Malformed(f'"{text}": unknown operating system or architecture: invalid argument')


def _architecture(machine: str, variant: str) -> tuple[str, str]:
    machine, variant = machine.lower(), variant.lower()
    name, fixed = _ARCHITECTURE_NAMES.get(machine, (machine, None))
    if fixed is not None:
        variant = fixed
    elif (name == "amd64" and variant == "v1") or (name == "arm64" and variant in ("8", "v8")):
        variant = ""
    elif name == "arm":
        variant = _ARM_VARIANTS.get(variant, variant)
    return name, variant
