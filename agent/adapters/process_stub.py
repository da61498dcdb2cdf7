"""The wrapper around one engine that runs as a plain process: what a container's shim is to Docker.

Run as a file, `python -I -S process_stub.py FOLDER CWD MAX_BYTES FILES GROUP`, in a session of its own. It outlives the
agent, and it is there because only a parent learns an exit status: with the engine as the agent's own child, the
status would be lost with every restart of the agent. It costs one bare interpreter (about 9 MB), so it imports nothing
beyond `os`, `sys`, `select`, `signal`, `time` and `ctypes`, and nothing of the agent.

In FOLDER it reads `argv` and `environ` (words ended by NUL; they may hold secrets and are removed once used) and
writes, each file whole or not at all:

- `started`: pid and start time (clock ticks since boot) of the engine and of itself, the boot's id, the time, and the
  control group that is this engine's alone, with its inode: only where GROUP is `own` and nobody else is in it
- `failed`: why the program could not be executed
- `exited`: exit code as Docker counts it (128 + signal), the signal or 0, the time, and how many processes of that
  control group the kernel ended for memory, null where nobody knows
- `asked`: a line for each stop that was asked of the wrapper by a signal (`kill` of it is this runtime's `docker stop`)
- `log`: output, written by the engine itself, so that the engine does not depend on the wrapper's life;
  `log.times`: the time at which the log had reached a length, twice a second while it grows;
  `log.first`: the offset of the oldest line that is kept; what lay in front of it is a hole, which takes no room;
  `log.base` and `log.<offset>`: what was moved away in front, where the file system has no holes

It is a subreaper: whatever the engine starts, in a session of its own or orphaned, comes back to it. When the engine
ends, it ends the rest, as the end of a container's first process does.
"""

# Neither pathlib nor contextlib: what is imported here lives in memory as long as the engine.
# ruff: noqa: PTH104, PTH108, PTH116, PTH123, PTH208, SIM105

import ctypes
import os
import select
import signal
import sys
import time

TICK_S, INSIST_S = 0.5, 600
PR_SET_CHILD_SUBREAPER = 36
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
COPY, LONGEST_LINE, PAGE = 1 << 20, 1 << 16, 4096
CGROUPS = "/sys/fs/cgroup"
TREES = (("", CGROUPS), ("", CGROUPS + "/unified"), ("name=systemd", CGROUPS + "/systemd"))
"""Where systemd puts processes, by the name in /proc/PID/cgroup and the mount point: version 2, hybrid, version 1."""
PUNCH_HOLE, KEEP_SIZE = 0x02, 0x01  # fallocate(2)
TAKEN = "argv.taken"


def main(folder: str, cwd: str, max_bytes: int, files: int, group: str) -> int:
    """Start the engine, keep its log, and write down how it ended."""
    umask = os.umask(0o077)
    os.chdir(folder)
    ears = listen()
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The agent's unit may give it capabilities to look at other users' processes; no engine gets them.
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    own = own_group() if group == "own" else ("", 0)  # before the engine is in it as well
    os.rename("argv", TAKEN)  # of two wrappers of one folder, one starts an engine
    pid, error = launch(words(TAKEN), words("environ"), cwd, (log, umask))
    try:
        write("failed", error) if error else write("started", about(pid, own))
    except OSError:  # nobody would know of it, nor end it: it can be started again
        end_the_rest(ears)
        os.rename(TAKEN, "argv")
        raise
    for name in ("environ", TAKEN):
        os.unlink(name)
    if not error:
        watch(pid, Log(log, max_bytes, files), ears, own[0])
        end_the_rest(ears)
    return int(bool(error))


def about(pid: int, own: "tuple[str, int]") -> str:
    return (
        f'{{"pid": {pid}, "start": {start_time(pid)}, "wrapper": {os.getpid()}, '
        f'"wrapper_start": {start_time(os.getpid())}, "boot": "{boot_id()}", "at": {time.time():.6f}, '
        f'"group": "{escaped(own[0])}", "group_inode": {own[1]}}}'
    )


def listen() -> int:
    """From now on the signals that we watch for arrive as bytes in a pipe.

    Not `sigtimedwait`: CPython 3.11's returns an uninitialised siginfo when a stop and continue interrupts it late,
    which may read as a signal that nobody sent.
    """
    ears, mouth = os.pipe()
    os.set_blocking(ears, False)
    os.set_blocking(mouth, False)
    signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    for number in WATCHED:
        signal.signal(number, lambda number, frame: None)
    return ears


def hear(ears: int) -> bytes:
    """Wait a tick at most; the numbers of the signals that came."""
    select.select([ears], [], [], TICK_S)
    try:
        return os.read(ears, 4096)
    except BlockingIOError:
        return b""


def words(name: str) -> list[bytes]:
    with open(name, "rb") as file:
        return file.read().split(b"\0")[:-1]


def write(name: str, text: str) -> None:
    """A file that is there whole or not at all."""
    with open(name + ".new", "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(name + ".new", name)


def append(name: str, line: bytes) -> None:
    """A whole line at a file's end, or none of it: a disk that is full may take half of one (write(2))."""
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        before = os.fstat(file).st_size
        if os.write(file, line) < len(line):
            os.ftruncate(file, before)
            raise OSError(f"{name}: there is room for half a line")
    finally:
        os.close(file)


def say(text: str) -> None:
    try:
        os.write(2, f"{time.time():.3f} {text}\n".encode())
    except OSError:
        pass


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; the name before them may hold anything."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode("ascii").split()


def start_time(pid: int) -> int:
    return int(stat(pid)[19])


def own_group() -> "tuple[str, int]":
    """Folder and inode of the control group that holds this process and no other; empty where it is shared.

    A name may come again after its unit has ended, an inode does not as long as the host runs.
    """
    paths = group_paths()
    for name, root in TREES:
        folder = root + paths.get(name, "/")
        try:
            with open(folder + "/cgroup.procs", "rb") as file:
                if file.read().split() == [b"%d" % os.getpid()]:
                    return folder, os.stat(folder).st_ino
        except OSError:
            continue
    return "", 0


def group_paths() -> "dict[str, str]":
    """Where this process is, by controller; the empty one is version 2 (cgroups(7))."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    return {name: path for _, names, path in lines for name in names.split(",")}


def oom_kills(group: str) -> str:
    """How many processes of its own control group the kernel has ended for memory, as JSON.

    `oom_kill` counts every kind of OOM killer (cgroup-v2.rst, memory.events; version 1: memory.oom_control). Version 1
    has one tree a controller, and in the one of memory the unit's own group may be missing.
    """
    found = [group + "/memory.events"] if group else []
    held = group_paths().get("memory", "")
    if group and held.rpartition("/")[2] == group.rpartition("/")[2]:
        found.append(CGROUPS + "/memory" + held + "/memory.oom_control")
    for name in found:
        try:
            with open(name, encoding="ascii") as file:
                return str(int(dict(line.split() for line in file)["oom_kill"]))
        except (OSError, ValueError, KeyError):
            continue
    return "null"


def escaped(text: str) -> str:
    """Inside a JSON string: unit names are escaped with backslashes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def launch(argv: list[bytes], environ: list[bytes], cwd: str, given: tuple[int, int]) -> tuple[int, str]:
    """Pid of the engine, or why it could not be executed."""
    env = dict(entry.split(b"=", 1) for entry in environ)
    ear, mouth = os.pipe()  # closed by a successful exec
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # no handler of ours may run in the child
    pid = os.fork()
    if pid == 0:
        become(argv, env, cwd, given, mouth)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.close(mouth)
    with os.fdopen(ear, "rb") as reader:
        error = reader.read().decode("utf-8", "replace")
    if error:
        os.waitpid(pid, 0)
    return pid, error


def become(argv: list[bytes], env: dict[bytes, bytes], cwd: str, given: tuple[int, int], mouth: int) -> None:
    """In the child: the engine itself, with its log and its umask. Never returns."""
    try:
        log, umask = given
        os.setsid()
        os.umask(umask)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # Python ignores these for itself, and an ignored signal stays ignored across exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, *WATCHED):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except OSError as error:
        where = cwd if error.filename == cwd else os.fsdecode(argv[0])
        os.write(mouth, f"{where}: {error.strerror}".encode())
    finally:
        os._exit(127)


def watch(main_pid: int, log: "Log", ears: int, group: str) -> None:
    """Until the engine has ended: reap what ends, pass on what is asked, keep the log's times and bounds."""
    status, unnoted = None, list[bytes]()
    while status is None:
        for number in hear(ears):
            if number != signal.SIGCHLD:
                ask(main_pid, number, unnoted)
        status = reap(main_pid)
        if status is None:
            log.tick()
    log.tick()
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.WEXITSTATUS(status)
    insist(unnoted, f'{{"code": {code}, "signal": {number}, "at": {time.time():.6f}, "oom_kills": {oom_kills(group)}}}')


def ask(pid: int, number: int, unnoted: "list[bytes]") -> None:
    """Somebody signalled the wrapper: note it, at the engine's end where the disk is full now, and pass it on."""
    line = b"%.6f %s\n" % (time.time(), signal.Signals(number).name[3:].encode())
    try:
        append("asked", line)
    except OSError:
        unnoted.append(line)
    os.kill(pid, number)


def insist(unnoted: "list[bytes]", exited: str) -> None:
    """Write down the end, also where the disk is full for a while; what is left of the engine does not wait for it."""
    deadline = time.monotonic() + INSIST_S
    while True:
        try:
            while unnoted:
                append("asked", unnoted[0])
                del unnoted[0]
            return write("exited", exited)
        except OSError:
            if time.monotonic() > deadline:
                raise
            kill_children()
            time.sleep(TICK_S)


def reap(main_pid: int) -> "int | None":
    """Collect whatever has ended; the status of the engine once it is among them."""
    found, pid = None, -1
    while pid:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        found = status if pid == main_pid else found
    return found


def end_the_rest(ears: int) -> None:
    """KILL every child until none is left; their own children come back to us as they end."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        kill_children()
        hear(ears)


def kill_children() -> None:
    """All whose parent we are."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(stat(int(name))[1]) == os.getpid():
                os.kill(int(name), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue  # ended meanwhile


class Log:
    """When the log had reached which length, and its bounds. Offsets count from the very first byte."""

    def __init__(self, log: int, max_bytes: int, files: int) -> None:
        self.log, self.max_bytes, self.files = log, max_bytes, files
        self.base, self.noted, self.first, self.trouble = 0, 0, 0, ""
        self.holes = self.punch(1 << 40, PAGE)  # far behind the end, where nothing is: to learn whether it can be done

    def tick(self) -> None:
        """A full disk costs times and bounds for a while, never the engine or the knowledge of its end."""
        try:
            self.note()
            if self.holes and self.max_bytes and self.noted - self.first >= self.max_bytes * self.files:
                self.drop()
            elif not self.holes and self.max_bytes and self.noted - self.base >= self.max_bytes:
                self.rotate()
            self.trouble = ""
        except OSError as error:
            if str(error) != self.trouble:  # once, not twice a second for as long as it lasts
                self.trouble = str(error)
                say(f"log: {error}")

    def note(self) -> None:
        end = self.base + os.fstat(self.log).st_size
        if end != self.noted:
            append("log.times", b"%.6f %d\n" % (time.time(), end))
            self.noted = end

    def punch(self, offset: int, length: int) -> bool:
        """Give back the room of these bytes, which read as zeros from now on; the rest stays where it is."""
        numbers = ctypes.c_int64(offset), ctypes.c_int64(length)
        return bool(ctypes.CDLL(None).fallocate(self.log, PUNCH_HOLE | KEEP_SIZE, *numbers) == 0)

    def drop(self) -> None:
        """Forget the oldest lines. The engine holds the file open and writes at its end, which nothing here touches,
        so no byte of it is lost. ext4, XFS, Btrfs, tmpfs and NFS 4.2 can do this (fallocate(2))."""
        first = self.noted - self.max_bytes * (self.files - 1)
        with open("log", "rb") as file:
            file.seek(first)
            first += file.read(LONGEST_LINE).find(b"\n") + 1
        write("log.first", str(first))  # before they are gone: readers look whether it changed while they read
        self.first = first
        self.punch(0, first - first % PAGE)
        self.keep_times(first)

    def rotate(self) -> None:
        """Copy and truncate, since the engine holds the file open: for file systems without holes.

        A line that is written between the last copied byte and the truncation is lost: microseconds, once per
        `max_bytes`. Until the new base is written, readers take the end of the file with the old base for it.
        """
        name = f"log.{self.base:016d}"
        with open("log", "rb") as source, open(name + ".new", "wb") as target:
            while chunk := source.read(COPY):
                target.write(chunk)
            target.flush()
            while chunk := source.read(COPY):
                os.write(target.fileno(), chunk)
            copied = source.tell()
            os.ftruncate(self.log, 0)
            os.rename(name + ".new", name)
        self.base += copied
        self.noted = self.base
        write("log.base", str(self.base))
        self.prune()

    def prune(self) -> None:
        """Keep `files` files with the current one."""
        kept = sorted(name for name in os.listdir(".") if name.startswith("log.") and name[4:].isdigit())
        while len(kept) > max(self.files - 1, 0):
            os.unlink(kept.pop(0))
        self.keep_times(int(kept[0][4:]) if kept else self.base)

    def keep_times(self, first: int) -> None:
        """Only those of bytes that are kept."""
        with open("log.times", "rb") as file:
            lines = [line for line in file if int(line.split()[1]) > first]
        with open("log.times.new", "wb") as file:
            file.writelines(lines)
        os.rename("log.times.new", "log.times")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
