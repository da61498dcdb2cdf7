"""`--gpus`: a CSV record of `count`, `device`, `driver`, `capabilities`, `options`; a bare word is a count."""

from __future__ import annotations

from typing import Any

from agent.launch import golang
from agent.launch.flags.kinds import refuse
from agent.launch.golang import Malformed
from agent.launch.model import Context, LaunchWarning

KEYS = ("driver", "count", "device", "capabilities", "options")


def read(value: str, _: Context) -> dict[str, Any]:
    """One device request. Raises Malformed."""
    request: dict[str, Any] = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": None, "Options": {}}
    seen: set[str] = set()
    for field in golang.record(value):
        key, equals, content = field.partition("=")
        refuse(key in seen, f"gpu request key '{key}' can be specified only once")
        seen.add(key)
        if not equals:
            seen.add("count")
            request["Count"] = _count(key)
        else:
            _set(request, key, content, field)
    if "count" not in seen and request["DeviceIDs"] is None:
        request["Count"] = 1
    request["Capabilities"] = [[*(request["Capabilities"] or []), "gpu"]]
    return request


def _count(text: str) -> int:
    if text == "all":
        return -1
    try:
        return golang.integer(text, base=10)
    except Malformed as error:
        why = str(error).rpartition(": ")[2]
        raise Malformed(f'invalid count ({text}): value must be either "all" or an integer: {why}') from error


def _set(request: dict[str, Any], key: str, content: str, field: str) -> None:
    match key:
        case "driver":
            request["Driver"] = content
        case "count":
            request["Count"] = _count(content)
        case "device":
            request["DeviceIDs"] = content.split(",")
        case "capabilities":
            request["Capabilities"] = content.split(",")
        case "options":
            for option in golang.record(content):
                name, _, text = option.partition("=")
                request["Options"][name] = text
        case _:
            raise Malformed(f"unexpected key '{key}' in '{field}'")


def warnings(values: list[str]) -> list[LaunchWarning]:
    """What `--gpus` says that nobody means, by the texts that were given."""
    return [warning for value in values if (warning := _warning(value)) is not None]


def _warning(value: str) -> LaunchWarning | None:
    fields = golang.record(value)
    keys = [field.partition("=")[0] for field in fields]
    numbers = [field for field in fields if "=" not in field and field != "all"]
    devices = [field.removeprefix("device=") for field in fields if field.startswith("device=")]
    if devices and (numbers or any(key == "count" for key in keys)):
        wanted = ",".join([*devices, *numbers])
        return LaunchWarning(
            "gpus.ids_lost",
            f"--gpus {value} asks for a count and for device ids at once: the ids after the comma are lost and the "
            "container cannot start",
            f"""--gpus '"device={wanted}"'""",
        )
    if len(numbers) > 1:
        return LaunchWarning(
            "gpus.count_of_list",
            f"--gpus {value} asks for {numbers[-1]} cards of Docker's choice, not for the cards {','.join(numbers)}",
            f"""--gpus '"device={",".join(numbers)}"'""",
        )
    if numbers == ["0"]:
        return LaunchWarning(
            "gpus.count_zero", f"--gpus {value} asks for no card at all, not for card 0", "--gpus device=0"
        )
    return None
