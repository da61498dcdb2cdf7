"""Build steps as a Dockerfile that a person can read, and what has to lie in its build context (pure)."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.image.buildplan import BuildPlan, SourceSpec
from agent.image.trouble import BuildIncomplete
from agent.profile.steps import Apply, Copy, Extension, Files, Pip, Run, Step
from agent.quantity import counted

HOME = "/opt/recipe-agent"
"""Where the sources lie in the image: scripts and builds run there as in their author's checkout."""
LABEL = "recipe-agent.image"
"""On every image that is built, unfinished ones too: what may be pruned, by slug."""

_PIP = "python3 -m pip install --no-cache-dir"
_PIP_WORDS = (
    "PIP_ROOT_USER_ACTION=ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    "PIP_BREAK_SYSTEM_PACKAGES=1",  # for bases that call their Python externally managed
)
"""As variables of the build, which pip of any age takes, and which do not stay in the image."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+@~-]+")
_PLACE = re.compile(r"\{[^{}]*\}")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_IMAGE = re.compile(r"[A-Za-z0-9_./:@+-]+")


@dataclass(frozen=True, slots=True)
class Base:
    """The base image. `word` is what FROM says: by digest or id, so that nothing moves under a build.

    `places`: `{site_packages}` and `{package:NAME}` as they are in it; a place that is not known yet stays as it is.
    """

    reference: str
    word: str
    user: str = ""
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PathFact:
    """What a path of a source is."""

    folder: bool
    shebang: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What fetching the sources told: commits by source, paths by source and path, steps that are left out and why."""

    commits: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[tuple[str, str], PathFact] = field(default_factory=dict)
    left_out: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of the build context: a path of a source, in the state after its first `revision` patches.

    A folder's entries land in `into`, a file lands there under its own name. `path` "" is the whole source.
    """

    step: int
    into: str
    source: str
    revision: int
    path: str = ""
    without: frozenset[str] = frozenset()
    files: int | None = None
    """How many files there must be."""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """`steps`: of each instruction, the step that it belongs to (0 is none); `titles`: what each step does.

    `texts`: small files of the context.
    """

    text: str
    contents: tuple[Content, ...]
    texts: Mapping[str, str]
    steps: tuple[int, ...]
    titles: Mapping[int, str] = field(default_factory=dict)


def write(plan: BuildPlan, base: Base, known: Known | None = None) -> Dockerfile:
    """The Dockerfile of a plan. Raises BuildIncomplete for what cannot be written into one."""
    writer = _Writer(plan, base, known or Known())
    writer.head()
    for number, step in enumerate(plan.steps, 1):
        writer.step(number, step)
    writer.foot()
    text = "\n".join(writer.lines) + "\n"
    return Dockerfile(text, tuple(writer.contents), writer.texts, tuple(writer.steps), writer.titles)


def places_in(plan: BuildPlan) -> tuple[str, ...]:
    """The placeholders that the base image has to tell."""
    texts: list[str] = []
    for step in plan.steps:
        if step.copy_ is not None:
            texts.append(step.copy_.to)
        if step.apply is not None:
            texts.append(step.apply.onto)
        if step.files is not None:
            texts += step.files.exist
    return tuple(dict.fromkeys(place for text in texts for place in _PLACE.findall(text)))


def where_of(spec: SourceSpec, commit: str | None) -> str:
    """A source's state as it stands in comments."""
    if spec.archive:
        return f"sha256 {spec.sha256}"
    tag = f" (tag {spec.tag})" if spec.tag else ""
    return f"{commit or spec.commit or 'commit not known yet'}{tag}"


class _Writer:
    """Lines in order, with what they need from the context."""

    def __init__(self, plan: BuildPlan, base: Base, known: Known) -> None:
        self.lines: list[str] = []
        self.contents: list[Content] = []
        self.texts: dict[str, str] = {}
        self.steps: list[int] = []
        self.titles: dict[int, str] = {}
        self._plan = plan
        self._base = base
        self._known = known
        self._number = 0
        self._revisions: dict[str, int] = {}
        self._here: set[str] = set()
        """Folders of sources that lie in the image already."""

    def head(self) -> None:
        plan, base = self._plan, self._base
        count = counted(len(plan.steps), "step")
        self.lines += [f"# The image of {plan.slug}: {base.reference} and {count} on top, made by recipe-agent.", "#"]
        for spec in plan.sources.values():
            state = where_of(spec, self._known.commits.get(spec.name))
            text = f"{spec.name}: {spec.url} {state}, license {spec.license or 'not stated'}"
            self.lines += [f"# {_CONTROL.sub(' ', text)}"]
        self.lines += [""]
        if not _IMAGE.fullmatch(base.word) or not _IMAGE.fullmatch(base.reference):
            raise self._refusal(f"{base.reference!r} is no image")
        self._instruct(f"FROM {base.word}")
        if base.user:
            self._instruct("USER root")
        self._instruct(f"LABEL {LABEL}={_quoted(plan.slug)}")
        if any(step.pip is not None or step.extension is not None for step in plan.steps):
            for word in _PIP_WORDS:
                self._instruct(f"ARG {word}")

    def foot(self) -> None:
        if self._base.user:
            self.lines += [""]
            self._instruct(f"USER {self._path(self._base.user, 'the user of the base image')}")

    def step(self, number: int, step: Step) -> None:
        self._number = number
        if why := self._known.left_out.get(number):
            self._comment(f"{step.kind} is left out: {why}")
        elif step.apply is not None:
            self._apply(step.apply)
        elif step.copy_ is not None:
            self._copy(step.copy_)
        elif step.run is not None:
            self._run(step.run)
        elif step.pip is not None:
            self._pip(step.pip)
        elif step.extension is not None:
            self._extension(step.extension)
        elif step.env is not None:
            self._env(step.env)
        elif step.files is not None:
            self._files(step.files)

    def _apply(self, apply: Apply) -> None:
        """Onto a source: done where the sources are kept, before anything is built. Onto the image: within it."""
        patches = ", ".join(apply.patches)
        before = not apply.onto.startswith(("{", "/"))
        where = ", before the build, each checked first" if before else ""
        self._comment(f"apply {patches} of {apply.source} to {apply.onto}{where}")
        if before:
            self._revisions[apply.onto] = self._revisions.get(apply.onto, 0) + 1
            return
        into = self._folder()
        words = [f"cd {shlex.quote(self._place(apply.onto))}"]
        for number, patch in enumerate(apply.patches):
            self._content(f"{into}/{number}", apply.source, patch)
            name = shlex.quote(f"{HOME}/{into}/{number}/{posixpath.basename(patch)}")
            words.append(f"git apply --check {name} && git apply {name}")
        self._instruct(f"COPY {into}/ {HOME}/{into}/")
        self._shell(" && ".join(words))

    def _copy(self, copy: Copy) -> None:
        count = f" ({counted(copy.files, 'file')})" if copy.files is not None else ""
        self._comment(f"copy {copy.path} of {copy.source}{count}")
        into, to = self._folder(), self._place(copy.to)
        self._content(into, copy.source, copy.path, copy.files)
        if self._is_folder(copy.source, copy.path):
            self._instruct(f"COPY {into}/ {to.rstrip('/')}/")
        else:
            name = self._path(posixpath.basename(copy.path), "the file")
            self._instruct(f"COPY {into}/{name} {to}")

    def _run(self, run: Run) -> None:
        again = ", idempotent" if run.idempotent else ""
        only = "".join(f", only where {name} is older than {commit}" for name, commit in (run.before or {}).items())
        self._comment(f"run {run.script} of {run.source}{again}{only}")
        tree = self._tree(run.source, without=self._scripts(run.source))
        into = self._folder()
        self._content(into, run.source, run.script, executable=True)
        script = self._path(run.script, "the script")
        self._instruct(f"COPY {into}/ {_join(tree, posixpath.dirname(script))}/")
        words = [*self._interpreter(run), f"./{script}", *(self._words(word) for word in run.arguments)]
        self._shell(f"cd {tree} && {shlex.join(words)}")

    def _scripts(self, source: str) -> frozenset[str]:
        """All scripts that steps run come just before their step: a changed one leaves what was done before it."""
        return frozenset(one.run.script for one in self._plan.steps if one.run is not None and one.run.source == source)

    def _interpreter(self, run: Run) -> list[str]:
        fact = self._known.paths.get((run.source, run.script))
        if fact is not None and fact.shebang:
            return []
        return ["python3"] if run.script.endswith(".py") else ["sh"]

    def _pip(self, pip: Pip) -> None:
        no_deps = " --no-deps" if pip.no_deps else ""
        if pip.source is None:
            self._requirement(pip.requirement or "", no_deps)
            return
        self._comment(f"pip install {pip.source}{no_deps}")
        self._install(pip.source, no_deps, "")

    def _requirement(self, requirement: str, options: str) -> None:
        self._comment(f"pip install {requirement}")
        if "--hash=" not in requirement or requirement.startswith("-"):
            raise self._refusal(f"{requirement!r} has no --hash=sha256:…, so that it may be anything")
        into = self._folder()
        self.texts[f"{into}/requirements.txt"] = self._words(requirement) + "\n"
        self._instruct(f"COPY {into}/ {HOME}/{into}/")
        self._shell(f"{_PIP}{options} --require-hashes -r {HOME}/{into}/requirements.txt")

    def _extension(self, extension: Extension) -> None:
        """Compiled against the PyTorch that is in the image, which an isolated build would not see."""
        self._comment(f"build the extension {extension.source} for compute capability {extension.arch}")
        arch = f"TORCH_CUDA_ARCH_LIST={shlex.quote(self._words(extension.arch or ''))} "
        self._install(extension.source, " --no-deps --no-build-isolation", arch)

    def _install(self, source: str, options: str, environment: str) -> None:
        spec = self._plan.sources[source]
        tree = self._tree(source)
        if (spec.archive or "").endswith(".whl"):
            self._shell(f"{_PIP}{options} {tree}/{self._path(posixpath.basename(spec.archive or ''), 'the wheel')}")
            return
        # there is no .git in the image, where setuptools-scm would look for a version
        state = (self._known.commits.get(source) or spec.commit or spec.sha256 or "")[:12]
        version = f'SETUPTOOLS_SCM_PRETEND_VERSION="${{SETUPTOOLS_SCM_PRETEND_VERSION:-0+g{state}}}" '
        self._shell(f"{environment}{version}{_PIP}{options} {tree}")

    def _env(self, env: Mapping[str, str]) -> None:
        self._comment("set " + ", ".join(env))
        for name, value in env.items():
            if not _NAME.fullmatch(name):
                raise self._refusal(f"{name!r} is no name of a variable")
            self._instruct(f"ENV {name}={_quoted(self._words(value))}")

    def _files(self, files: Files) -> None:
        self._comment("check that " + ", ".join([*files.exist, *(f"{name} imports" for name in files.imports)]))
        checks = [f"test -e {shlex.quote(self._place(path))}" for path in files.exist]
        for name in files.imports:
            if not _MODULE.fullmatch(name):
                raise self._refusal(f"{name!r} is no name of a module")
        if files.imports:
            checks.append(f"python3 -c {shlex.quote('import ' + ', '.join(files.imports))}")
        if checks:
            self._shell(" && ".join(checks))

    def _tree(self, source: str, without: frozenset[str] = frozenset()) -> str:
        """The source as it is by now, in the image; brought there the first time that it is asked for."""
        revision = self._revisions.get(source, 0)
        folder = f"sources/{self._path(source, 'the source')}" + (f".{revision}" if revision else "")
        if folder not in self._here:
            self._here.add(folder)
            self.contents.append(Content(self._number, folder, source, revision, without=without))
            self._instruct(f"COPY {folder}/ {HOME}/{folder}/")
        return f"{HOME}/{folder}"

    def _folder(self) -> str:
        return f"steps/{self._number:02}"

    def _content(
        self, into: str, source: str, path: str, files: int | None = None, *, executable: bool = False
    ) -> None:
        revision, inner = self._revisions.get(source, 0), "" if path == "." else path.strip("/")
        self.contents.append(Content(self._number, into, source, revision, inner, files=files, executable=executable))

    def _is_folder(self, source: str, path: str) -> bool:
        """Until the source is here, a name without a suffix is taken for a folder's."""
        fact = self._known.paths.get((source, path))
        return fact.folder if fact is not None else "." not in posixpath.basename(path.rstrip("/"))

    def _place(self, text: str) -> str:
        """A path of the image with its placeholders filled in."""
        for place, path in self._base.places.items():
            text = text.replace(place, path)
        bare = _PLACE.sub("/x", text)
        if not bare.startswith("/") or ".." in bare.split("/") or not _PLAIN_PATH.fullmatch(bare):
            raise self._refusal(f"{text!r} is not the whole path of a place in the image")
        return text

    def _path(self, text: str, what: str) -> str:
        parts = text.split("/")
        if not _PLAIN_PATH.fullmatch(text) or text.startswith(("/", "-")) or ".." in parts:
            raise self._refusal(f"{what} has a name that has no place in a Dockerfile: {text!r}")
        return text

    def _words(self, text: str) -> str:
        if _CONTROL.search(text):
            raise self._refusal(f"{text!r} holds a control character")
        return text

    def _refusal(self, why: str) -> BuildIncomplete:
        advice = "correct the step in a site profile (image.steps)"
        return BuildIncomplete(reference=self._plan.reference, why=f"step {self._number}: {why}", advice=advice)

    def _comment(self, text: str) -> None:
        self.titles[self._number] = _CONTROL.sub(" ", text)
        self.lines += ["", f"# {self._number}. {self.titles[self._number]}"]

    def _shell(self, words: str) -> None:
        self._instruct(f"RUN {words}")

    def _instruct(self, line: str) -> None:
        self.lines.append(line)
        self.steps.append(self._number)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if name else folder


def _quoted(text: str) -> str:
    """A value of ENV or LABEL, which expand variables and end at a quote."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'
