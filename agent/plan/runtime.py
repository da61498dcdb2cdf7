"""What will run it: a container or a plain process; and a launch of the one kind as the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.launch.expand import Expander
from agent.launch.inline import word_of
from agent.launch.model import CommandLaunch, ContainerLaunch, Context
from agent.launch.read import launch_from_words
from agent.plan.trouble import NoProcess
from agent.profile.document import Profile
from agent.settings.model import Settings

DOCKER = "docker"
PROCESS = "process"


def runtime_of(
    launch: ContainerLaunch | CommandLaunch | None,
    profile: Profile,
    settings: Settings,
    answering: frozenset[str] | None,
) -> tuple[str, str]:
    """The runtime, and whose word that is.

    Without a word of the site: Docker for a container and for a command that an image is known for, where an Engine
    answers or nobody looked; else the process runtime.
    """
    if profile.runtime is not None and profile.runtime.value != "auto":
        return profile.runtime.value, profile.runtime.origin("runtime")
    if settings.runtime != "auto":
        return settings.runtime, "agent.yaml runtime"
    if isinstance(launch, CommandLaunch) and not has_image(profile):
        return PROCESS, "the launch is a bare command and no image is known for it"
    if answering is not None and DOCKER not in answering:
        return _without_docker(launch, profile)
    if launch is None:
        return DOCKER, "nothing is said of a launch"
    return DOCKER, "the launch is a container's" if isinstance(launch, ContainerLaunch) else "an image is known for it"


def _without_docker(launch: ContainerLaunch | CommandLaunch | None, profile: Profile) -> tuple[str, str]:
    """A process where the launch can be one; else Docker all the same, and preflight says what is not there."""
    nobody = "no container engine answers on this host yet"
    if isinstance(launch, ContainerLaunch) and (obstacle := no_process(launch)):
        return DOCKER, f"the launch is a container's: {obstacle}; {nobody}"
    if profile.image.steps:
        return DOCKER, f"its image is built, and a process would run what is installed here instead; {nobody}"
    return PROCESS, "no container engine answers on this host"


def no_process(launch: ContainerLaunch) -> str:
    """Why a container's launch cannot be a plain process; empty where it can."""
    body, host = launch.body, launch.body.get("HostConfig") or {}
    mounts = [*(host.get("Binds") or ()), *(str(mount.get("Source")) for mount in host.get("Mounts") or ())]
    if mounts:
        return f"its launch mounts {mounts[0]}" + (f" and {len(mounts) - 1} more" if len(mounts) > 1 else "")
    if not body.get("Entrypoint"):
        return f"only the image {body.get('Image')} says which program its words are for"
    return ""


def has_image(profile: Profile) -> bool:
    """Whether a profile says in what image a bare command runs."""
    image = profile.image
    return bool(image.reference or image.base or image.steps)


def wrapped(
    command: CommandLaunch, image: str, flags: Sequence[str], context: Context
) -> ContainerLaunch | CommandLaunch:
    """A bare command as the container that `docker run FLAGS IMAGE COMMAND` would be. Raises LaunchRefused."""
    expander = Expander(context)
    given = [expander.joined(word_of(flag)) for flag in flags]
    expander.check()
    env = [word for name, value in command.env.items() for word in ("-e", f"{name}={value}")]
    words = ["docker", "run", *given, *env, "--entrypoint", command.argv[0], image, *command.argv[1:]]
    return launch_from_words(words, context, expander)


def default_flags(port: int | None, cards: bool) -> list[str]:
    """What a bare command needs in a container: the cards, shared memory for its workers, its port on loopback."""
    published = ["-p", f"127.0.0.1:{port}:{port}"] if port else []
    return [*(["--gpus", "all"] if cards else []), "--ipc=host", *published]


def unwrapped(launch: ContainerLaunch, slug: str) -> CommandLaunch:
    """A container's command as a plain process. Raises NoProcess where the container is more than its command."""
    if why := no_process(launch):
        how = "state launch.line in the site profile, with the paths of this host, or run a container engine"
        raise NoProcess(slug=slug, why=why, how=how)
    body = launch.body
    argv = (*body["Entrypoint"], *(body.get("Cmd") or ()))
    return CommandLaunch(argv, env_of(body), body.get("WorkingDir") or None, launch.warnings)


def env_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The variables that a body sets."""
    return {name: value for name, _, value in (word.partition("=") for word in body.get("Env") or ())}


def process_body(command: CommandLaunch) -> dict[str, Any]:
    """A command in the keys of a container's body that a process has too."""
    env = [f"{name}={value}" for name, value in command.env.items()]
    return {"Cmd": list(command.argv), "Env": env, "WorkingDir": command.cwd or ""}
