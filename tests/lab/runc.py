"""Takes out of a container's configuration what this machine's kernel would refuse, before runc reads it.

A machine without CAP_SYS_RESOURCE may not raise RLIMIT_MEMLOCK (`--ulimit memlock=-1`) and may not give a capability
that it lacks (`--privileged`). On a machine that may, nothing is changed. Called with runc's own arguments.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

UNLIMITED = resource.RLIM_INFINITY
CAPABILITY_NUMBERS = {"CAP_SYS_RESOURCE": 24}


def main(arguments: list[str]) -> int:
    """Rewrites `config.json` of the folder that `--bundle` names (create) or the file that `--process` names (exec)."""
    may_raise, lacks = may_raise_memlock(), lacking()
    if bundle := _value(arguments, "--bundle"):
        path = Path(bundle) / "config.json"
        configuration = json.loads(path.read_text())
        relax(configuration["process"], may_raise, lacks)
        path.write_text(json.dumps(configuration))
    if process := _value(arguments, "--process"):
        configuration = json.loads(Path(process).read_text())
        relax(configuration, may_raise, lacks)
        Path(process).write_text(json.dumps(configuration))
    return 0


def _value(arguments: list[str], flag: str) -> str | None:
    return arguments[arguments.index(flag) + 1] if flag in arguments else None


def relax(process: dict[str, Any], may_raise: bool, lacks: set[str]) -> None:
    """Removes the memlock limit where it may not be raised, and the capabilities that the machine lacks."""
    if not may_raise:
        process["rlimits"] = [limit for limit in process.get("rlimits") or [] if limit["type"] != "RLIMIT_MEMLOCK"]
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name not in lacks]


def may_raise_memlock() -> bool:
    """Whether the kernel lets this process have no limit; tried, since it depends on namespaces too."""
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (UNLIMITED, UNLIMITED))
    except (ValueError, OSError):
        return False
    return True


def lacking() -> set[str]:
    """The capabilities of interest that are not in this process's bounding set."""
    status = Path("/proc/self/status").read_text()
    bounding = int(next(line for line in status.splitlines() if line.startswith("CapBnd:")).split()[1], 16)
    return {name for name, number in CAPABILITY_NUMBERS.items() if not bounding >> number & 1}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
