"""The shipped build plans, run by a real Engine on a base of a real registry and sources of a real git server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.docker_runtime import DockerRuntime
from agent.adapters.image_archive import AllSources
from agent.adapters.image_build import CPU_SHARES, EngineBuilder
from agent.adapters.image_context import TarContexts
from agent.adapters.image_locks import DiskLocks
from agent.image.build import Overlays, Workshop
from agent.image.dockerfile import LABEL
from agent.image.trouble import BaseLacks, BuildFailed
from agent.plan.image import image_plan
from agent.plan.model import ImagePlan, Plan
from agent.profile.document import Profile
from agent.profile.layers import layered, validate
from agent.profile.load import shipped
from agent.settings.model import Settings
from tests.image.plans import Heard, plan_of
from tests.image.repositories import Repositories, base_image, deepinfer, pp4
from tests.lab.engine import Engine
from tests.lab.gitserver import GitServer

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PP4 = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
DEEPINFER = "deepseek-v4-1-flash-sm80-deepinfer-kernel-port-6x-a100-dspark-k5"


def supplied(slug: str, repositories: Repositories, base: str) -> ImagePlan:
    """The shipped profile, with what a site says over it: where the sources are here, and what is not stated."""
    profile = shipped(slug)
    assert profile is not None
    sources = {
        name: {"git": repositories.urls[name]} | ({} if source.tag else {"commit": repositories.commits[name]})
        for name, source in profile.image.sources.items()
    }
    site = validate({"image": {"base": base, "sources": sources}}, "site")
    merged: Profile = layered([("profile", profile), ("site profile", site)])
    plan, _ = image_plan("built:v1", merged.image, Settings(image="build"), {})
    assert plan.how == "build"
    return plan


def with_shim(plan: ImagePlan, commit: str) -> ImagePlan:
    """The commit that the recipe names is none of these repositories: another one stands for it."""
    text = json.dumps(plan.steps).replace('"94c29ba"', f'"{commit[:7]}"')
    return replace(plan, steps=tuple(json.loads(text)))


class Host:
    """An Engine with a base image, and agents on it."""

    def __init__(self, engine: Engine, folder: Path, base: str) -> None:
        self.engine = engine
        self.folder = folder
        self.base = base
        self.runtime = DockerRuntime(engine.docker_host)
        self.builder = EngineBuilder(engine.docker_host)
        self.locks = DiskLocks(folder / "locks")
        self.overlays = Overlays(self.workshop())

    def workshop(self, **more: Any) -> Workshop:
        sources, contexts = AllSources(self.folder / "cache"), TarContexts(self.folder / "contexts")
        return Workshop(self.runtime, self.builder, sources, contexts, self.locks, **more)

    async def docker(self, *words: str) -> str:
        return await asyncio.to_thread(self.engine.docker, *words)

    async def python(self, image: str, code: str) -> str:
        return (await self.docker("run", "--rm", "--entrypoint", "python3", image, "-c", code)).strip()

    async def close(self) -> None:
        await self.runtime.close()
        await self.builder.close()


@pytest.fixture
async def host(own_engine: Engine, lab_registry: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    """The base image is in the registry, and not on the Engine."""
    reference = f"{lab_registry}/vllm/vllm-openai:deepseekv41-flash-0909"

    def prepare() -> None:
        base_image(own_engine, tmp_path, reference)
        own_engine.docker("push", "--quiet", reference)
        own_engine.docker("rmi", "--force", reference)

    await asyncio.to_thread(prepare)
    host = Host(own_engine, tmp_path / "host", reference)
    yield host
    await host.close()


def plan(image: ImagePlan, slug: str, plan_id: str = "p1") -> Plan:
    return plan_of(image, slug, plan_id)


async def test_the_pp4_recipe_s_image_is_built_and_serves(host: Host, git_server: GitServer) -> None:
    """54 files, hybrid, ampere, the patch scripts in order, plugin and extension; then again, changed, and at once."""
    repositories = pp4(git_server)
    image_steps = with_shim(supplied(PP4, repositories, host.base), repositories.commits["shim"])
    heard = Heard()
    began = time.monotonic()
    image = await host.overlays(plan(image_steps, PP4), heard)
    first = time.monotonic() - began
    assert image.reference.startswith(f"recipe-agent/{PP4}:")
    code = (
        "import vllm.models.deepseek_v4_1.ampere.sparse as a, hybrid_engram, vllm_exl3.built, exllamav3.built as e;"
        "import vllm.overlaid.m52; print(open(vllm.models.deepseek_v4_1.__path__[0] + '/model.py').read(), e.ARCH)"
    )
    told = await host.python(image.reference, code)
    marks = ("overlay", "pp_relay_img_ids", "engram_sm80_fp8", "moe_cand_key_fix", "plugin_v150_shim")
    assert told.split() == [word for mark in marks for word in ("#", mark)] + ["8.0"]
    assert any("step 9 of 9 (build the extension exllamav3" in text for text in heard.texts)
    assert any("vllm-exl3 (AGPL-3.0)" in text for text in heard.texts)
    lock = await host.locks.read("p1")
    assert lock is not None
    assert lock.sources["exllamav3"].commit == repositories.commits["exllamav3"]
    assert lock.base is not None
    assert (lock.base.digest or "").startswith("sha256:")
    assert len([path for path in lock.files if path.startswith("steps/01/")]) == 54

    began = time.monotonic()
    assert await Overlays(host.workshop())(plan(image_steps, PP4, "p2"), Heard()) == image
    again = time.monotonic() - began  # far below a second where the machine has no other work
    assert again < max(3.0, first / 3), f"the build took {first:.1f} s, and {again:.1f} s with nothing to do"

    await serves(host, image.reference)


async def serves(host: Host, reference: str) -> None:
    words = ("--entrypoint", "vllm", reference, "serve", "/models/x", "--port", "8095")
    container = (await host.docker("run", "-d", "-e", "SIM_SCALE=0.001", *words)).strip()
    probe = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8095/health', timeout=2).status)"
    for _ in range(100):
        answer = await asyncio.to_thread(host.engine.docker, "exec", container, "python3", "-c", probe, check=False)
        if answer.strip() == "200":
            break
        await asyncio.sleep(0.1)
    assert answer.strip() == "200", await host.docker("logs", container)
    await host.docker("rm", "--force", container)


async def test_the_deepinfer_recipe_s_image_is_built_from_both_patches(host: Host, git_server: GitServer) -> None:
    """Option A: upstream at its base commit, both patches in order, installed."""
    repositories = deepinfer(git_server)
    image = await host.overlays(plan(supplied(DEEPINFER, repositories, host.base), DEEPINFER), Heard())
    code = (
        "import vllm.models.deepseek_v4_1.model as m, vllm.pp_share as s; print(m.BASE, m.SM80, m.DEEPINFER, s.SHARED)"
    )
    assert await host.python(image.reference, code) == "1 1 1 1"


def steps(url: str, commit: str, *entries: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return ({"source": {"name": "s", "git": url, "commit": commit}}, *entries)


def script(name: str) -> dict[str, Any]:
    return {"run": {"source": "s", "script": f"patches/{name}.py"}}


async def test_a_build_goes_on_from_where_it_stopped(host: Host, git_server: GitServer) -> None:
    """A failing step, then its mended script: what was finished is not done again; nothing half has a name."""
    mark = "import pathlib, time; p = pathlib.Path('/marks'); p.open('a').write('{0} %s\\n' % time.time_ns())\n"
    files = {f"patches/{name}.py": mark.format(name) for name in "abc"}
    broken = files | {"patches/b.py": "print('looking'); raise SystemExit('no match for the anchor')\n"}
    first = git_server.commit("s", broken)
    entries = tuple(script(name) for name in "abc")
    image = ImagePlan("x:1", "build", base=host.base, steps=steps(git_server.url("s"), first, *entries))
    before = {one.id for one in await host.builder.made()}
    with pytest.raises(BuildFailed) as caught:
        await host.overlays(plan(image, "tiny"), Heard())
    assert caught.value.text.endswith("its last line: no match for the anchor")
    assert "step 2 of 3 (run patches/b.py of s) failed" in caught.value.text
    # one is written to standard output, the other to standard error: which comes first, nobody knows
    assert sorted(caught.value.details["output"][-2:]) == ["looking", "no match for the anchor"]
    assert "recipe-agent/tiny" not in await host.docker("images")
    half = [one for one in await host.builder.made() if not one.names and one.id not in before]
    assert {one.slug for one in half} == {"tiny"}

    mended = git_server.commit("s", files)
    heard = Heard()
    image = replace(image, steps=steps(git_server.url("s"), mended, *entries))
    built = await host.overlays(plan(image, "tiny"), heard)
    assert "instructions were there" in heard.texts[-1]
    marks = (await host.docker("run", "--rm", "--entrypoint", "cat", built.reference, "/marks")).splitlines()
    assert [line.split()[0] for line in marks] == ["a", "b", "c"]
    changed = git_server.commit("s", {"patches/c.py": mark.format("d")})
    third = await host.overlays(
        plan(replace(image, steps=steps(git_server.url("s"), changed, *entries)), "tiny", "p2"), Heard()
    )
    later = (await host.docker("run", "--rm", "--entrypoint", "cat", third.reference, "/marks")).splitlines()
    assert later[:2] == marks[:2]
    assert later[2].startswith("d ")

    lacks = replace(image, steps=steps(git_server.url("s"), mended, {"files": {"exist": ["{package:nowhere}/x"]}}))
    with pytest.raises(BaseLacks, match="it has no package nowhere"):
        await host.overlays(plan(lacks, "tiny", "p3"), Heard())
    assert LABEL in await host.docker("inspect", third.reference)


AGENT = """
import asyncio, json, sys
sys.path.insert(0, {repository!r})
from pathlib import Path
from agent.plan.model import ImagePlan
from tests.image.plans import plan_of
from tests.image.test_real_build import Host

class Engine:
    docker_host = {docker_host!r}

async def main():
    host = Host(Engine(), Path({folder!r}), {base!r})
    image = ImagePlan("x:1", "build", base={base!r}, steps=tuple(json.loads({steps!r})))
    await host.overlays(plan_of(image, "tiny"), lambda said: print(said["text"], flush=True))

asyncio.run(main())
"""


async def test_a_killed_agent_and_a_restarted_engine_leave_no_half_image(host: Host, git_server: GitServer) -> None:
    """The next build goes on from the last finished step, and the one that the Engine dropped goes on by itself."""
    wait = "import time; print('waiting', flush=True); time.sleep({0}); open('/done', 'w')\n"
    commit = git_server.commit("s", {"patches/a.py": "import os; os.mkdir('/a')\n", "patches/b.py": wait.format(4)})
    entries = steps(git_server.url("s"), commit, script("a"), script("b"))
    code = AGENT.format(
        repository=str(Path(__file__).parents[2]),
        docker_host=host.engine.docker_host,
        folder=str(host.folder),
        base=host.base,
        steps=json.dumps(entries),
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    while b"waiting" not in (line := await process.stdout.readline()):
        assert line, "it ended before it built"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined]
    assert "recipe-agent/tiny" not in await host.docker("images")

    image = ImagePlan("x:1", "build", base=host.base, steps=entries)
    heard = Heard()

    async def restart(_: float) -> None:
        if not host.engine.answers():  # it may be asked more than once
            await asyncio.to_thread(host.engine.start)

    task = asyncio.ensure_future(Overlays(host.workshop(sleep=restart))(plan(image, "tiny"), heard))
    while not any("waiting" in text for text in heard.texts):
        await asyncio.sleep(0.05)
        assert not task.done()
    running = (await host.docker("ps", "--quiet")).split()
    shares = await host.docker("inspect", "--format", "{{.HostConfig.CpuShares}}", *running)
    assert set(shares.split()) == {str(CPU_SHARES)}  # a serving engine has 1024
    await asyncio.to_thread(host.engine.end, signal.SIGKILL)
    built = await task
    assert "instructions were there" in heard.texts[-1]
    assert (
        await host.python(built.reference, "import os; print(os.path.isdir('/a'), os.path.exists('/done'))")
        == "True True"
    )
