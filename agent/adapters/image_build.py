"""Images built by a Docker Engine, through its API alone.

The classic builder is used, which every Engine from 20.10 on has (`POST /build` without `version`; with the containerd
image store since 24.0, moby/moby#45526), and not BuildKit:

- it takes CPU shares, so that a build beside a serving engine yields to it; BuildKit ignores them;
- its finished steps are images that carry our label: they are there when a build goes on after it died, they are
  listed and pruned by us, and no garbage collector of a cache of fixed size takes them (an image here has 30 GB);
- it says in plain words which step it is at, and takes a context in the request itself, which BuildKit could not with
  the containerd image store before 27.5 (moby/moby#49194).

What BuildKit is better at (stages side by side, mounts, secrets, several platforms) no list of steps asks for. Its
client would be a program (`docker buildx`) that many hosts lack. To be looked at again when an Engine drops the classic
builder: `POST /build?version=2` with the same context builds the same Dockerfile (tried with 20.10).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import requests
from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound

from agent.adapters.docker_calls import Calls, Stream
from agent.adapters.docker_errors import FOREIGN, DockerFailed, words_of
from agent.adapters.image_context import CannotWrite
from agent.errors import InvalidInput
from agent.image.dockerfile import LABEL
from agent.image.port import BuildEvent, InstructionFailed, Made
from agent.image.room import Store
from agent.image.trouble import BaseLacks

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The kernel's words → registries'."""
CPU_SHARES = 128
"""Of 1024 that a container has by default: a build gets what a serving engine leaves."""
SILENCE_S = 3600.0
"""A compiler may say nothing for long; an Engine that hangs is noticed by everything else that asks it."""
LOOK_S = 60.0
"""For looking into a base image: starting Python takes a second, on a busy host some more."""

_STEP = re.compile(r"Step (\d+)/(\d+) : ")
_CACHED = " ---> Using cache"
_NOISE = re.compile(r" ---> |Removing intermediate container |Successfully (built|tagged) ")

# Found without importing them, which would want a GPU.
LOOK = """
import importlib.util, json, sys, sysconfig
found = {"": sysconfig.get_path("purelib")}
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    found[name] = next(iter(spec.submodule_search_locations or ()), None) if spec else None
print(json.dumps(found))
"""


class EngineBuilder:
    """Builds on the Engine at `host`."""

    def __init__(self, host: str, timeout_s: float = 30.0, cpu_shares: int = CPU_SHARES) -> None:
        self._calls = Calls(host, timeout_s)
        self._cpu_shares = cpu_shares

    async def places(self, image: str, packages: Sequence[str]) -> Mapping[str, str]:
        """Asked of the image's own Python, in a container without a network that is gone afterwards."""
        look = partial(look_into, image=image, packages=packages)
        code, out, err = await self._calls.run(f"look into {image}", look, LOOK_S)
        if code != 0:
            last = err.strip().splitlines()[-1:] or [f"exit status {code}"]
            raise BaseLacks(what="Python packages", reference=image, why=f"its python3 does not answer: {last[0]}")
        found: Mapping[str, str | None] = json.loads(out)
        for name, path in found.items():
            if path is None:
                raise BaseLacks(what=f"{{package:{name}}}", reference=image, why=f"it has no package {name}")
        return {f"{{package:{name}}}" if name else "{site_packages}": str(path) for name, path in found.items()}

    async def user(self, image: str) -> str:
        document = await self._calls.run(f"look at {image}", lambda client: inspect(client, image))
        return str((document.get("Config") or {}).get("User") or "")

    async def build(self, context: IO[bytes], tag: str) -> AsyncIterator[BuildEvent]:
        """Dropping the connection, as a killed agent does, ends the build; finished steps stay."""

        def read(stream: Stream[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
            response = stream.hold(self._post(context, tag))
            return (json.loads(line) for line in response.iter_lines() if line.strip())

        fold = Fold()
        try:
            async with aclosing(Stream(read).batches(SILENCE_S)) as batches:
                async for batch in batches:
                    for message in batch:
                        for event in fold.note(message):
                            yield event
        except (*FOREIGN, ValueError) as error:
            raise self._trouble(tag, error) from error
        if not fold.finished:
            raise DockerFailed(action=f"build {tag}", why="the Engine ended the stream before the image was there")

    async def made(self) -> tuple[Made, ...]:
        def ask(client: APIClient) -> tuple[Made, ...]:
            return tuple(map(made_of, client.images(all=True, filters={"label": LABEL})))

        return await self._calls.run("list built images", ask)

    async def remove(self, image: str) -> bool:
        return await self._calls.run(f"remove {image}", partial(removed, image=image))

    async def store(self) -> Store:
        """The room that is left where the Engine keeps its images, and the layers that it has."""
        return await self._calls.run("ask Docker for its room", look_at_store, LOOK_S)

    async def save(self, image: str, path: Path) -> int:
        save = partial(saved, image=image, path=path)
        return await self._calls.run(f"save {image}", save, SILENCE_S)

    async def load(self, path: Path) -> None:
        await self._calls.run(f"load {path}", partial(loaded, path=path), SILENCE_S)

    async def close(self) -> None:
        """Let go of the connections."""
        self._calls.close()

    def _post(self, context: IO[bytes], tag: str) -> requests.Response:
        # the tag is given when everything is finished; containers of steps go, also of one that failed
        params: dict[str, str | int] = {"t": tag, "rm": 1, "forcerm": 1, "cpushares": self._cpu_shares}
        return self._calls.post("/build", params, {"Content-Type": "application/x-tar"}, SILENCE_S, context)

    def _trouble(self, tag: str, error: BaseException) -> Exception:
        if isinstance(error, APIError) and (error.status_code or 0) < 500:
            return InstructionFailed(words_of(error))  # a Dockerfile that it does not take
        if isinstance(error, ValueError) and not isinstance(error, FOREIGN):
            return DockerFailed(action=f"build {tag}", why="the Engine's stream broke in the middle of a line")
        return self._calls.trouble(f"build {tag}", error)


class Fold:
    """What a build's stream says, instruction by instruction."""

    def __init__(self) -> None:
        self.finished = False
        self._at, self._of = 0, 0

    def note(self, message: Mapping[str, Any]) -> Iterator[BuildEvent]:
        """Raises InstructionFailed with the Engine's words."""
        if error := message.get("error"):
            raise InstructionFailed(" ".join(str(error).split()))
        if "ID" in (message.get("aux") or {}):
            self.finished = True
        text = str(message.get("stream") or "")
        # a step's own output may look the same, though hardly count on
        if (step := _STEP.match(text)) and int(step[1]) == self._at + 1:
            self._at, self._of = int(step[1]), int(step[2])
            yield BuildEvent(self._at, self._of)
        elif text.startswith(_CACHED):
            yield BuildEvent(self._at, self._of, cached=True)
        elif text.strip() and not _NOISE.match(text):
            yield BuildEvent(self._at, self._of, output=text)


def inspect(client: APIClient, image: str) -> Mapping[str, Any]:
    document: Mapping[str, Any] = client.inspect_image(image)  # type: ignore[no-untyped-call]
    return document


def look_into(client: APIClient, image: str, packages: Sequence[str]) -> tuple[int, str, str]:
    """Exit code and both outputs of `LOOK` in a container of an image."""
    body = {
        "Image": image,
        "Entrypoint": ["python3"],
        "Cmd": ["-c", LOOK, *packages],
        "Labels": {LABEL: "look"},
        "NetworkDisabled": True,
        "HostConfig": {"NetworkMode": "none", "CpuShares": CPU_SHARES},
    }
    container = client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
    try:
        client.start(container)
        code = int(client.wait(container, timeout=int(LOOK_S))["StatusCode"])
        out, err = (
            client.logs(container, stdout=wanted, stderr=not wanted).decode(errors="replace")
            for wanted in (True, False)
        )
        return code, out, err
    except APIError as error:
        if "executable file not found" in words_of(error) or "no such file" in words_of(error):
            return 127, "", "there is none"
        raise
    finally:
        with suppress(NotFound):
            client.remove_container(container, force=True, v=True)


def look_at_store(client: APIClient) -> Store:
    info = client.info()
    layers: set[str] = set()
    for image in client.images(quiet=True):
        with suppress(ImageNotFound):  # removed meanwhile
            layers |= set((inspect(client, str(image)).get("RootFS") or {}).get("Layers") or ())
    folder, machine = str(info.get("DockerRootDir") or ""), str(info.get("Architecture") or "")
    return Store(folder, room_in(folder), layers, ARCHITECTURES.get(machine, machine))


def room_in(folder: str) -> int | None:
    """Bytes that are free for those who are not root; None where it cannot be seen."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def removed(client: APIClient, image: str) -> bool:
    """Whether it is gone; False where a container or another image needs it."""
    try:
        client.remove_image(image)
    except ImageNotFound:
        return True
    except APIError as error:
        if error.status_code == 409:
            return False
        raise
    return True


def saved(client: APIClient, image: str, path: Path) -> int:
    """Raises CannotWrite where the file cannot be written."""
    draft = path.with_name(f".{path.name}.new")
    size = 0
    parts = client.get_image(image)
    try:
        with draft.open("wb") as file:
            for part in parts:
                size += file.write(part)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except requests.RequestException:
        raise  # an OSError as well, and of the Engine
    except OSError as error:
        raise CannotWrite(folder=path.parent, why=error.strerror or error) from error
    finally:
        draft.unlink(missing_ok=True)
    return size


def loaded(client: APIClient, path: Path) -> None:
    """Raises InvalidInput for what is no saved image."""
    try:
        with path.open("rb") as file:
            for message in client.load_image(file):  # type: ignore[no-untyped-call]
                if error := message.get("error"):
                    raise InvalidInput(what=str(path), why=str(error))
    except FileNotFoundError as error:
        raise InvalidInput(what=str(path), why="there is no such file") from error


def made_of(entry: Mapping[str, Any]) -> Made:
    """From GET /images/json."""
    names = tuple(name for name in entry.get("RepoTags") or () if name != "<none>:<none>")
    return Made(
        id=str(entry["Id"]),
        slug=str((entry.get("Labels") or {}).get(LABEL) or ""),
        names=names,
        size=int(entry.get("Size") or 0),
        created=float(entry.get("Created") or 0),
        parent=str(entry["ParentId"]) if entry.get("ParentId") else None,
    )
