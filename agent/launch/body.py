"""A command line, read, into the body of `POST /containers/create`, key for key as CLI 28 sends it."""

from __future__ import annotations

from agent.launch.cli import CommandLine
from agent.launch.config import config
from agent.launch.flags import gpus, networks, ports, volumes
from agent.launch.flags.kinds import Given, refuse
from agent.launch.flags.ports import Published
from agent.launch.flags.table import FLAGS
from agent.launch.golang import FALSE, Malformed
from agent.launch.host_config import host_config
from agent.launch.model import ClientFlags, ContainerLaunch, Context, LaunchWarning
from agent.launch.notice import notices
from agent.launch.platform import normal_platform
from agent.launch.reference import check_reference, is_identifier
from agent.launch.refusal import CliRejects, NotCarried

MOST_PORTS = 2 * 65536
"""Every port in two protocols: more is a slip of the pen."""


def launch_of(line: CommandLine, context: Context) -> ContainerLaunch:
    """The container that the CLI would ask for. Raises CliRejects, NotCarried and what files raise."""
    try:
        return _launch(line, context)
    except Malformed as error:
        raise CliRejects(word=_culprit(line, str(error)), why=str(error)) from error


def _launch(line: CommandLine, context: Context) -> ContainerLaunch:
    given = line.given
    _refuse_uncarried(line, context)
    refuse(given["pull"] not in ("always", "missing", "never", ""), f"invalid pull option: '{given['pull']}'")
    published = _published(given)
    body = config(line, context, published) | {"HostConfig": host_config(line, context, published)}
    body["NetworkingConfig"] = {"EndpointsConfig": networks.endpoints(given)}
    detached = given.on("detach")
    refuse(detached and bool(given["attach"]), "conflicting options: cannot specify both --attach and --detach")
    check_reference(line.image)
    refuse(given["pull"] == "always" and is_identifier(line.image), f"an image id cannot be pulled: {line.image}")
    return ContainerLaunch(
        name=given.text("name") or None,
        platform=_platform(given, context),
        body=body,
        client=_client(line),
        warnings=tuple(_warnings(line)),
        tool=line.tool,
    )


def _refuse_uncarried(line: CommandLine, context: Context) -> None:
    given = line.given
    for flag in FLAGS:
        why = "it is only supported on a Docker daemon running on Windows"
        refuse(flag.windows and flag.key in given.changed, f'"--{flag.name}": {why}')
    if given.on("use-api-socket"):
        why = "it hands the container this client's registry credentials, which no container body carries"
        raise NotCarried(word="--use-api-socket", why=why, how="mount what the container needs by name")
    if not _untrusted(given, context):
        why = "the CLI would ask a notary server for the image's signature"
        raise NotCarried(word="--disable-content-trust=false", why=why, how="name the image by its digest")


def _untrusted(given: Given, context: Context) -> bool:
    """Whether images are taken unsigned: always, unless the flag or the client's variable wants signatures."""
    if "disable-content-trust" in given.changed:
        return given.on("disable-content-trust")
    wanted = context.lookup("DOCKER_CONTENT_TRUST")
    return not wanted or wanted in FALSE


def _platform(given: Given, context: Context) -> str | None:
    """The flag, or else the variable that the client takes for its default."""
    text = given.text("platform") if "platform" in given.changed else context.lookup("DOCKER_DEFAULT_PLATFORM")
    if not text:
        return None
    try:
        return normal_platform(text)
    except Malformed as error:
        raise Malformed(f"error parsing specified platform: {error}") from error


def _published(given: Given) -> list[Published]:
    """Every port that is published. Raises NotCarried for more than there are."""
    out: list[Published] = []
    for spec in given["publish"]:
        out.extend(ports.publish(spec))
        if len(out) > MOST_PORTS:
            raise NotCarried(word=f"-p {spec}", why="there are not as many ports", how="publish the ports that serve")
    return out


def _client(line: CommandLine) -> ClientFlags:
    given = line.given
    return ClientFlags(
        detach=given.on("detach"),
        rm=given.on("rm"),
        interactive=given.on("interactive"),
        tty=given.on("tty"),
        attach=tuple(given["attach"]),
        pull=given.text("pull") or "missing",
        quiet=given.on("quiet"),
        sig_proxy=given.on("sig-proxy"),
        detach_keys=given.text("detach-keys"),
        cidfile=given.text("cidfile"),
        verb=line.verb,
    )


def _warnings(line: CommandLine) -> list[LaunchWarning]:
    found = gpus.warnings(line.written.get("gpus", []))
    found += volumes.warnings(line.written.get("volume", []))
    return found + notices(line)


def _culprit(line: CommandLine, why: str) -> str:
    """The word that the reason is about: the longest value that it quotes, else the image."""
    values = {text: flag for flag, texts in line.written.items() for text in texts if text and text in why}
    if values:
        text = max(values, key=len)
        return f"--{values[text]} {text}"
    flags = [flag for flag in line.written if f"--{flag}" in why]
    return f"--{flags[0]}" if flags else line.image
