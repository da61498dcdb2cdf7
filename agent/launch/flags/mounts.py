"""`--mount`: a CSV record; keys in any case, options that belong to another type are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent.launch import golang
from agent.launch.flags.kinds import refuse
from agent.launch.golang import Malformed
from agent.launch.model import Context

SWITCHES = ("readonly", "ro", "volume-nocopy", "bind-nonrecursive")
RECURSION = {
    "enabled": "",
    "disabled": "NonRecursive",
    "writable": "ReadOnlyNonRecursive",
    "readonly": "ReadOnlyForceRecursive",
}


@dataclass(slots=True)
class _Mount:
    """A mount while its fields are read."""

    type: str = "volume"
    source: str = ""
    target: str = ""
    read_only: bool = False
    consistency: str = ""
    bind: dict[str, Any] | None = None
    volume: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    tmpfs: dict[str, Any] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    driver: str = ""


def read(value: str, context: Context) -> dict[str, Any]:
    """One mount, as in `HostConfig.Mounts`. Raises Malformed."""
    mount = _Mount()
    for text in golang.record(value):
        key, equals, content = text.partition("=")
        key = key.lower()
        refuse(not equals and key not in SWITCHES, f"invalid field '{text}' must be a key=value pair")
        _set(mount, key, content if equals else "true", text, context)
    _check(mount)
    return _body(mount)


def _set(mount: _Mount, key: str, content: str, text: str, context: Context) -> None:
    match key:
        case "type":
            mount.type = content.lower()
        case "source" | "src":
            mount.source = context.absolute(content) if content.startswith(".") else content
        case "target" | "dst" | "destination":
            mount.target = content
        case "readonly" | "ro":
            mount.read_only = _switch(key, content)
        case "consistency":
            mount.consistency = content.lower()
        case _ if key.startswith("bind-"):
            _set_bind(mount, key, content, text)
        case _ if key.startswith("tmpfs-"):
            _set_tmpfs(mount, key, content, text)
        case _:
            _set_volume(mount, key, content, text)


def _switch(key: str, content: str) -> bool:
    try:
        return golang.switch(content)
    except Malformed as error:
        raise Malformed(f"invalid value for {key}: {content}") from error


def _set_bind(mount: _Mount, key: str, content: str, text: str) -> None:
    bind = mount.bind if mount.bind is not None else {}
    match key:
        case "bind-propagation":
            bind["Propagation"] = content.lower()
        case "bind-nonrecursive":
            bind["NonRecursive"] = _switch(key, content)
        case "bind-recursive":
            refuse(content not in RECURSION, f"invalid value for bind-recursive: {content}")
            if not RECURSION[content]:
                return
            bind[RECURSION[content]] = True
        case _:
            raise Malformed(f"unexpected key '{key}' in '{text}'")
    mount.bind = bind


def _set_tmpfs(mount: _Mount, key: str, content: str, text: str) -> None:
    tmpfs = mount.tmpfs if mount.tmpfs is not None else {}
    try:
        match key:
            case "tmpfs-size":
                tmpfs["SizeBytes"] = golang.ram(content)
            case "tmpfs-mode":
                tmpfs["Mode"] = _octal(content)
            case _:
                raise Malformed(f"unexpected key '{key}' in '{text}'")
    except Malformed as error:
        raise Malformed(f"invalid value for {key}: {content}") from error
    mount.tmpfs = tmpfs


def _octal(text: str) -> int:
    if not text or any(char not in "01234567" for char in text) or int(text, 8) >= 2**32:
        raise Malformed(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text, 8)


def _set_volume(mount: _Mount, key: str, content: str, text: str) -> None:
    if key == "image-subpath":
        mount.image = {"Subpath": content}
        return
    volume = mount.volume if mount.volume is not None else {}
    name, _, rest = content.partition("=")
    match key:
        case "volume-nocopy":
            volume["NoCopy"] = _switch(key, content)
        case "volume-subpath":
            volume["Subpath"] = content
        case "volume-label":
            mount.labels[name] = rest
        case "volume-driver":
            mount.driver = content
        case "volume-opt":
            mount.options[name] = rest
        case _:
            raise Malformed(f"unexpected key '{key}' in '{text}'")
    mount.volume = volume


def _check(mount: _Mount) -> None:
    refuse(not mount.type, "type is required")
    refuse(not mount.target, "target is required")
    for options, kind in (
        (mount.bind, "bind"),
        (mount.volume, "volume"),
        (mount.image, "image"),
        (mount.tmpfs, "tmpfs"),
    ):
        refuse(
            options is not None and mount.type != kind, f"cannot mix '{kind}-*' options with mount type '{mount.type}'"
        )
    bind = mount.bind or {}
    if bind.get("ReadOnlyNonRecursive"):
        refuse(
            not mount.read_only, "option 'bind-recursive=writable' requires 'readonly' to be specified in conjunction"
        )
    if bind.get("ReadOnlyForceRecursive"):
        refuse(
            not mount.read_only, "option 'bind-recursive=readonly' requires 'readonly' to be specified in conjunction"
        )
        refuse(
            bind.get("Propagation") != "rprivate",
            "option 'bind-recursive=readonly' requires 'bind-propagation=rprivate' to be specified in conjunction",
        )


def _body(mount: _Mount) -> dict[str, Any]:
    body: dict[str, Any] = {"Type": mount.type, "Source": mount.source, "Target": mount.target}
    body |= {"ReadOnly": mount.read_only, "Consistency": mount.consistency}
    body = {key: value for key, value in body.items() if value}
    if mount.bind is not None:
        body["BindOptions"] = _given(mount.bind)
    if mount.volume is not None:
        driver = _given({"Name": mount.driver, "Options": mount.options})
        body["VolumeOptions"] = {**_given({**mount.volume, "Labels": mount.labels}), "DriverConfig": driver}
    if mount.image is not None:
        body["ImageOptions"] = _given(mount.image)
    if mount.tmpfs is not None:
        body["TmpfsOptions"] = _given(mount.tmpfs)
    return body


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
