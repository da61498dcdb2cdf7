"""Images made from this machine, since no registry can be relied on: Python with the engine simulator, and busybox.

    images.simulator(docker_engine, "pp4-exl3:v14")     # `docker run --entrypoint vllm pp4-exl3:v14 serve MODEL …`
    images.busybox(docker_engine, "busybox:lab")

Python, its library and the shared objects that they need lie in the image where they lie on the host, so that Python
finds itself; nothing is installed and no distribution is assumed. The archives are kept in the lab's folder under a
name made from their content.
"""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.lab import packages
from tests.lab.engine import Engine
from tests.lab.place import REPOSITORY, lab_folder

SIMULATOR = REPOSITORY / "tests" / "lab" / "simulator"
SIMULATOR_HOME = "/opt/lab"
PATH = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# How recipes start an engine (`vllm serve …`, `python3 -m sglang.launch_server …`, `llama-server …`), as the simulator
# wants to hear it.
VLLM, SGLANG, LLAMACPP = (), ("sglang.launch_server",), ("llama-server",)

# Parts of Python's library that no engine needs; they are two thirds of its weight.
UNUSED = re.compile(
    r"(^|/)(test|tests|idlelib|ensurepip|lib2to3|tkinter|turtledemo|pydoc_data|site-packages|dist-packages|config-[^/]*)/"
    r"|_test[a-z]*\.|_tkinter\.|xxlimited|\.opt-[12]\.pyc$|\.pyc\.\d+$|\.a$"
)
UNUSED_BY_BUILDS = re.compile(UNUSED.pattern.replace("ensurepip|", ""))

# What wheels may take for granted (PEP 600: the C library's parts, and those of the compiler).
OF_ANY_DISTRIBUTION = (
    *("libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1", "libresolv.so.2"),
    *("libgcc_s.so.1", "libstdc++.so.6"),
)


def simulator(engine: Engine, *tags: str, source: Path = SIMULATOR) -> None:
    """Gives `engine` an image with Python and the engine simulator, under each of the names `tags`."""
    key = _key(*_python_identity(), *(piece for path in _sources(source) for piece in (path.name, path.read_bytes())))
    give(
        engine,
        f"simulator-{key}",
        tags,
        lambda path: _write(path, _add_shell, lambda image: _add_simulator(image, source)),
    )


def busybox(engine: Engine, *tags: str) -> None:
    """Gives `engine` an image with a shell and small programs, under each of the names `tags`."""
    give(engine, f"busybox-{_key()}", tags, lambda path: _write(path, _add_shell))


def python(engine: Engine, wheels: Path, *tags: str) -> None:
    """Gives `engine` an image to build others from: a shell, Python with venv and pip, and `wheels` as /wheels."""
    files = sorted(wheels.iterdir())

    def add(image: Image) -> None:
        _add_files(image, _beside_c(*OF_ANY_DISTRIBUTION))
        for path in python_files(UNUSED_BY_BUILDS):
            image.file(path)
        image.link("/usr/local/bin/python3", str(interpreter()))
        for path in files:
            image.file(path, f"/wheels/{path.name}")

    name = f"python-{_key(*_python_identity(), *(path.name for path in files))}"
    # Root's folder is open: this machine's Python may lie in it, and anybody has to reach it.
    give(engine, name, tags, lambda path: _write(path, _add_shell, add, home=0o755))


def write_engine(path: Path, *beside: str) -> None:
    """Writes an archive for `docker import --change PATH` with Python and the engine simulator alone.

    It needs nothing but this machine, so that any Engine can have it. `beside`: names of further libraries, which are
    taken from where the C library lies, as far as they are there.
    """
    _write(path, lambda image: _add_simulator(image, SIMULATOR), lambda image: _add_files(image, _beside_c(*beside)))


def _beside_c(*names: str) -> list[Path]:
    """Libraries that lie where the C library does, as far as they are there."""
    home = next(one.parent for one in _shared_objects([interpreter()]) if one.name.startswith("libc.so"))
    return [home / name for name in names if (home / name).exists()]


def _add_files(image: Image, paths: list[Path]) -> None:
    for path in paths:
        image.file(path)


def give(engine: Engine, name: str, tags: tuple[str, ...], write: Callable[[Path], None]) -> None:
    """Gives `engine` the image `name` (KIND-KEY) under each of the names `tags`; `write` makes its archive."""
    own = f"recipe-agent-lab/{name.replace('-', ':')}"
    if not engine.docker("image", "ls", "--quiet", own):
        engine.docker("import", "--change", PATH, str(_archive(name, write)), own)
    for tag in tags:
        engine.docker("tag", own, tag)


class Image:
    """A root file system that is being written, with what every program expects."""

    def __init__(self, archive: tarfile.TarFile, home: int) -> None:
        self._archive = archive
        self._seen: set[str] = set()
        for folder in ("/tmp", "/root", "/var/tmp"):  # world-writable where a host's are
            self.folder(folder, home if folder == "/root" else 0o1777)
        self.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        self.text("/etc/group", "root:x:0:\nnogroup:x:65534:\n")

    def folder(self, path: str, mode: int) -> None:
        """An empty folder."""
        entry = self._entry(path, mode)
        entry.type = tarfile.DIRTYPE
        self._archive.addfile(entry)

    def text(self, path: str, content: str, mode: int = 0o644) -> None:
        """A file of this content."""
        self._bytes(self._entry(path, mode), content.encode())

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        entry = self._entry(path, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._archive.addfile(entry)

    def file(self, source: Path, path: str | None = None) -> None:
        """A file of the host's, at its own place or at `path`; what a link points at. Its time is kept, to the second:
        Python holds it against the one in its compiled files."""
        where = path or str(source)
        if where in self._seen:
            return
        self._seen.add(where)
        entry = self._entry(where, source.stat().st_mode & 0o755)
        entry.mtime = int(source.stat().st_mtime)
        self._bytes(entry, source.read_bytes())

    def _bytes(self, entry: tarfile.TarInfo, content: bytes) -> None:
        entry.size = len(content)
        self._archive.addfile(entry, io.BytesIO(content))

    def _entry(self, path: str, mode: int) -> tarfile.TarInfo:
        entry = tarfile.TarInfo(path.removeprefix("/"))
        entry.mode = mode
        return entry


def _archive(name: str, write: Callable[[Path], None]) -> Path:
    """The image's file in the lab's folder, made when it is not there; older ones of its kind go."""
    home = lab_folder() / "images"
    path = home / f"{name}.tar"
    with packages.locked(home / "lock"):
        if not path.is_file():
            draft = path.with_suffix(".draft")
            write(draft)
            for older in home.glob(f"{name.partition('-')[0]}-*.tar"):
                older.unlink()
            draft.rename(path)
    return path


def _write(path: Path, *parts: Callable[[Image], None], home: int = 0o700) -> None:
    with tarfile.open(path, "w") as archive:
        image = Image(archive, home)
        for part in parts:
            part(image)


def _add_shell(image: Image) -> None:
    program = next(packages.fetch(packages.ENGINE).glob("**/bin/busybox"))
    image.file(program, "/bin/busybox")
    for name in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            image.link(f"/bin/{name}", "busybox")
    image.link("/usr/bin/env", "/bin/busybox")


def _add_simulator(image: Image, source: Path) -> None:
    for path in python_files():
        image.file(path)
    image.link("/usr/local/bin/python3", str(interpreter()))
    for path in _sources(source):
        image.file(path, f"{SIMULATOR_HOME}/simulator/{path.relative_to(source)}")
    image.text("/usr/local/bin/vllm", _launcher(*VLLM), 0o755)
    image.text("/usr/local/bin/llama-server", _launcher(*LLAMACPP), 0o755)
    for name, content in {"__init__": "", "launch_server": _launcher(*SGLANG)}.items():
        image.text(f"{_library()}/sglang/{name}.py", content)


def _launcher(*words: str) -> str:
    """A program that starts the simulator with these words before its own; a recipe may set PYTHONPATH for itself."""
    return (
        "#!/usr/local/bin/python3\n"
        "import runpy, sys\n"
        f'sys.path.insert(0, "{SIMULATOR_HOME}")\n'
        f"sys.argv[1:1] = {list(words)}\n"
        'runpy.run_module("simulator", run_name="__main__", alter_sys=True)\n'
    )


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def interpreter() -> Path:
    """The interpreter that the virtual environment was made with."""
    return Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}").resolve()


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def python_files(unused: re.Pattern[str] = UNUSED) -> Iterator[Path]:
    """The interpreter, its library and the shared objects that they need, each where it lies on this machine."""
    library = _library()
    paths = sorted(path for path in library.rglob("*") if path.is_file())
    found = [path for path in paths if not unused.search(str(path.relative_to(library)))]
    yield interpreter()
    yield from found
    yield from _shared_objects([interpreter(), *(path for path in found if path.suffix == ".so")])


def _shared_objects(programs: list[Path]) -> list[Path]:
    """The libraries that the dynamic loader finds for them here, and the loader itself."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    return sorted({Path(path) for path in re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", listed, re.MULTILINE)})


def _python_identity() -> tuple[str, ...]:
    return (sys.version, sys.base_prefix, str(interpreter().stat().st_mtime_ns))


def _key(*pieces: str | bytes) -> str:
    """A name for an image of these pieces, made in the way that this file says."""
    own = (Path(__file__).read_bytes(), packages.fetch(packages.ENGINE).name)
    digest = hashlib.sha256()
    for piece in (*own, *pieces):
        digest.update(hashlib.sha256(piece.encode() if isinstance(piece, str) else piece).digest())
    return digest.hexdigest()[:12]
