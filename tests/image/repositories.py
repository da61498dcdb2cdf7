"""Repositories of the layout that the shipped profiles name, with small contents, and a base image for them.

The base has a real pip, a package `vllm` to be patched, and the engine simulator, so that what is built serves.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pip

from tests.lab import images
from tests.lab.engine import Engine
from tests.lab.gitserver import GitServer, git

PATCHED = "vllm/models/deepseek_v4_1"

BACKEND = '''
"""The smallest build backend: copies what is beside it into a wheel."""
import os, zipfile, pathlib

NAME = "{name}"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{{NAME}}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        for path in sorted(pathlib.Path(NAME).rglob("*.py")):
            wheel.write(path)
        wheel.writestr(f"{{NAME}}/built.py", f"ARCH = {{os.environ.get('TORCH_CUDA_ARCH_LIST', '')!r}}\\n")
        info = f"{{NAME}}-1.0.dist-info"
        wheel.writestr(f"{{info}}/METADATA", f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: 1.0\\n")
        about = ("Wheel-Version: 1.0", "Generator: x", "Root-Is-Purelib: true", "Tag: py3-none-any")
        wheel.writestr(f"{{info}}/WHEEL", "\\n".join(about) + "\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
'''
PYPROJECT = (
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "{name}"\n'
)

SCRIPT = '''
"""Idempotent: marks the model once, and needs the one before it."""
import pathlib, vllm

model = pathlib.Path(vllm.__file__).parent / "models/deepseek_v4_1/model.py"
text = model.read_text()
assert {before!r} in text, "cannot patch: " + {before!r} + " is not there"
if {mark!r} not in text:
    model.write_text(text + {mark!r} + "\\n")
'''


def project(name: str, **files: str) -> dict[str, str]:
    """A Python project that pip builds with nothing but itself."""
    own = {"pyproject.toml": PYPROJECT.format(name=name), "backend.py": BACKEND.format(name=name)}
    return own | ({f"{name}/__init__.py": ""} | files)


def script(mark: str, before: str) -> str:
    return SCRIPT.format(mark=f"# {mark}", before=before)


@dataclass(frozen=True, slots=True)
class Repositories:
    """Addresses and commits by the names that the profiles use."""

    urls: Mapping[str, str]
    commits: Mapping[str, str]


def pp4(server: GitServer) -> Repositories:
    """What the PP4 recipe is built from."""
    overlay = {f"overlay/vllm/overlaid/m{number:02}.py": f"N = {number}\n" for number in range(53)}
    overlay |= {f"overlay/{PATCHED}/model.py": "# overlay\n", "overlay/hybrid/hybrid_engram.py": "HYBRID = 1\n"}
    names = ("pp_relay_img_ids", "engram_sm80_fp8", "moe_cand_key_fix", "plugin_v150_shim")
    marks = ("overlay", *names)
    scripts = {f"patches/{name}.py": script(name, f"# {before}") for name, before in zip(names, marks, strict=False)}
    commits = {
        "dsv41reap-pp": server.commit("dsv41reap-pp", overlay | {"README.md": "overlay\n"}),
        "recipe": server.commit("recipe", scripts | {"bench/accept.py": "", "serve/launch-pp4.sh": ""}),
        "vllm-backport": server.commit("vllm-backport", {"ampere/sparse.py": "SM = 80\n", "other/x.py": ""}),
        "vllm-exl3": server.commit("vllm-exl3", project("vllm_exl3")),
        "shim": server.commit("vllm-exl3", {"vllm_exl3/v150.py": "FIXED = 1\n"}),
        "exllamav3": server.commit("exllamav3", project("exllamav3")),
    }
    git("-C", str(server.folder / "exllamav3"), "tag", "v1.5.0")
    return Repositories({name: server.url(name) for name in commits}, commits)


def deepinfer(server: GitServer) -> Repositories:
    """What the DeepInfer recipe is built from: both patches of option A, the second on top of the first."""
    model = f"{PATCHED}/model.py"
    first = f"--- a/{model}\n+++ b/{model}\n@@ -1 +1,2 @@\n BASE = 1\n+SM80 = 1\n"
    second = (
        f"--- a/{model}\n+++ b/{model}\n@@ -1,2 +1,3 @@\n BASE = 1\n SM80 = 1\n+DEEPINFER = 1\n"
        "--- /dev/null\n+++ b/vllm/pp_share.py\n@@ -0,0 +1 @@\n+SHARED = 1\n"
    )
    upstream = project("vllm", **{f"{PATCHED}/__init__.py": "", "vllm/models/__init__.py": "", model: "BASE = 1\n"})
    commits = {
        "vllm": server.commit("vllm", upstream),
        "deepinfer": server.commit(
            "deepinfer",
            {"patches/00-vllm-pr56201-sm80-base.patch": first, "patches/vllm-sm80-deepinfer.patch": second},
        ),
    }
    server.commit("vllm", {"vllm/later.py": "", model: "BASE = 2\n"})
    return Repositories({name: server.url(name) for name in commits}, commits)


def base_image(engine: Engine, folder: Path, reference: str) -> None:
    """The simulator's image with pip and a package `vllm` where packages belong."""
    images.simulator(engine, "simulator:base")
    site = engine.docker(
        "run",
        "--rm",
        "--entrypoint",
        "python3",
        "simulator:base",
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    ).strip()
    context = folder / "base"
    shutil.copytree(Path(pip.__file__).parent, context / "site/pip", ignore=shutil.ignore_patterns("__pycache__"))
    (context / "site/vllm/models").mkdir(parents=True)
    (context / "site/vllm/__init__.py").write_text("")
    (context / "site/vllm/models/__init__.py").write_text("")
    (context / "Dockerfile").write_text(f"FROM simulator:base\nCOPY site/ {site}/\n")
    engine.docker("build", "--quiet", "--tag", reference, str(context))
