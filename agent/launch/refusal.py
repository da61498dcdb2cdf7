"""Why a launch cannot be converted: always the word that is in the way, and what to do about it."""

from __future__ import annotations

from typing import ClassVar

from agent.errors import Refused


class LaunchRefused(Refused):
    """A launch that has no exact meaning here. Subclasses say which kind of obstacle it is."""

    code: ClassVar[str] = "convert.refused"
    message: ClassVar[str] = "cannot convert the launch: {why}"
    hint: ClassVar[str] = ""


class CliRejects(LaunchRefused):
    """The docker CLI itself says no to this command; `details["flag"]` names the flag where one is at fault."""

    code = "convert.cli_rejects"
    message = "cannot convert the launch: the docker CLI rejects {word!r}: {why}"
    hint = "correct the command where it was published; docker itself would not start it"


class UnknownFlag(CliRejects):
    """A flag that `docker run` does not have."""

    code = "convert.unknown_flag"
    message = "cannot convert the launch: {word} is no flag of docker {verb}"
    hint = "{how}"


class UnknownVariable(LaunchRefused):
    """Variables without a value; `details["missing"]` lists all of them, in the order of their appearance."""

    code = "convert.unknown_variable"
    message = "cannot convert the launch: no value is known for {names}"
    hint = "give each one as NAME=VALUE in the variables file (--env-file) or the site's variables"


class UnknownSubstitution(LaunchRefused):
    """Commands within the launch whose output only the author's machine knows; `details["missing"]` lists them."""

    code = "convert.substitution"
    message = "cannot convert the launch: no value is known for {commands}"
    hint = "give it with --substitute 'COMMAND=VALUE'; nothing is run to find out"


class UnknownDirectory(LaunchRefused):
    """A path that is relative to a working directory nobody named."""

    code = "convert.no_cwd"
    message = "cannot convert the launch: {word!r} is relative, and the directory that it is meant from is not known"
    hint = "name it with --cwd, or write the path in full"


class FileUnread(LaunchRefused):
    """A file of the client's that the command reads, and whose text was not given."""

    code = "convert.file"
    message = "cannot convert the launch: {flag} wants the file {path!r}: {why}"
    hint = "put the file there, or take the flag out of the launch"


class ShellConstruct(LaunchRefused):
    """Shell syntax with a meaning that only a shell could give."""

    code = "convert.shell"
    message = "cannot convert the launch: {word!r} needs a shell: {why}"
    hint = "write the command without it; no shell is ever run"


class Placeholder(LaunchRefused):
    """A place that the author left to be filled in (`<MODEL>`); `details["missing"]` has it."""

    code = "convert.placeholder"
    message = "cannot convert the launch: {word} is a place to be filled in"
    hint = "put the real value there"


class NoLaunch(LaunchRefused):
    """Text in which nothing starts an engine."""

    code = "convert.no_launch"
    message = "cannot convert the launch: {why}"
    hint = "expected is a docker, podman or nerdctl run or create, or a bare command line"


class NotCarried(LaunchRefused):
    """Something that the target form has no words for."""

    code = "convert.not_carried"
    message = "cannot convert the launch: {word}: {why}"
    hint = "{how}"


class BadCompose(LaunchRefused):
    """A compose file that is not one, or a service that says what no container body can."""

    code = "convert.compose"
    message = "cannot convert the compose file: {where}: {why}"
    hint = "{how}"


class OtherDocument(LaunchRefused):
    """JSON that is something else than a launch; its keys would pass for the words of a command."""

    code = "convert.other_document"
    message = "cannot convert {name}: {why}"
    hint = "{how}"
