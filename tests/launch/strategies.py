"""Command lines that lie close to the edges of the docker CLI's flags."""

from __future__ import annotations

import string

from hypothesis import strategies as st

SIZES = [
    "16g",
    "10.24gb",
    "1.5t",
    "512MiB",
    "0",
    "-1",
    "1e3",
    "16 GB",
    "1_0",
    "+5",
    "",
    "g",
    "0x1p4",
    "9e18g",
    ".5k",
    "5.b",
]
NUMBERS = ["0", "1", "-1", "010", "0x10", "0b11", "0o7", "1_000", "+3", "99999999999999999999", "", "1.5", "_1", "1__0"]
TIMES = ["30s", "1m30s", "0", "1h", "-5s", "1.5s", "30", "5x", ".5m", "1us", "1µs", "", "s", "+1s", "9999999h", "1d"]
PORTS = [
    "8000", "8000:80", "127.0.0.1:8000:80", "[::1]:1:2", "::1:8000:80", "8000-8002:9000-9002", "1-3:5", "80/udp",
    "0:80",
    "target=80,published=8080", "localhost:1:2", "70000:80", ":80", "80:", "127.0.0.1::80", "a:80", "1-2:3-5",
    "080:80",
    "target=80,protocol=udp", "published=1", "80/tcp/udp", "1.2.3.4:5-6:7-8/sctp",
]  # fmt: skip
BINDS = [
    "/a:/b", "/a:/b:ro", "/a:/b:ro,z", "./a:/b", "../a:/b", ".:/x", "~/a:/b", "vol:/b", "a:/b", "/a", "v",
    "C:\\m:/m", "c:/m:/m",
    "/a:/b:ro:x", ":/b", "/a:", "", "1:/b", "\\\\pipe:/x", "a:b:c", "é:/b", "...:/x",
]  # fmt: skip
MOUNTS = [
    "type=bind,source=/a,target=/b", "type=bind,src=./a,dst=/b,ro", "source=v,target=/b",
    "type=tmpfs,target=/t,tmpfs-size=1g",
    "type=bind,source=/a,target=/b,readonly=true", "type=bind,source=/a",
    "type=volume,source=v,target=/b,volume-nocopy",
    "type=tmpfs,target=/t,tmpfs-mode=1777", "type=image,source=x,target=/y,image-subpath=z", "readonly,dst=/b",
    "type=,dst=/b",
    "type=bind,src=/a,dst=/b,bind-recursive=writable,ro", "type=bind,src=/a,dst=/b,bind-propagation=rslave",
    "TYPE=bind,SRC=/a,DST=/b",
    "type=volume,src=v,dst=/b,volume-opt=a=b,volume-label=c,volume-driver=d", '"type=bind","source=/a,b","target=/c"',
    "type=bind,src=/a,dst=/b,bind-nonrecursive", "type=volume,dst=/b,volume-subpath=s", "consistency=cached,dst=/b",
]  # fmt: skip
GPUS = [
    "all", "1", "-1", "0", "device=0", '"device=0,1"', "device=0,1", "0,1", "all,capabilities=utility", "count=2",
    "driver=nvidia,count=all",
    '"device=0,1",capabilities=compute', "none", "", "count=1,device=0", '"capabilities=a,b"', "options=a=b",
    '"options=a=b,c"', "all,all",
    "device=", "+1", "capabilities=gpu", "driver=cdi,device=nvidia.com/gpu=0", "'all'",
]  # fmt: skip
DEVICES = [
    "/dev/kfd", "/dev/a:/dev/b", "/dev/a:/dev/b:rw", "/dev/a:r", "nvidia.com/gpu=all", "nvidia.com/gpu=0:1",
    "vendor/class=x", "kfd",
    "a/b=c", "/dev/a:", "", "x:/dev/y", "/dev/../a", "nvidia.com/gpu=0,1", "nvidia.com/gp-=0", "nv./gpu=0",
    "/dev/a:/dev/b:rwmr",
]  # fmt: skip
NETWORKS = [
    "host", "none", "bridge", "default", "mynet", "container:x", "name=mynet,alias=a", "name=n,ip=1.2.3.4",
    "host,alias=x", "",
    "name=n,driver-opt=a=b", "name=n,gw-priority=5", "name=n,mac-address=02:42:ac:11:00:02", "alias=a",
    "name=n,link-local-ip=x", "a=b",
    "name=host,ip6=::1", "Name=N,ALIAS=A",
]  # fmt: skip
TEXTS = [
    "",
    "x",
    "a b",
    "a=b",
    "=",
    "-x",
    "--",
    "é",
    "a,b",
    "a:b",
    '"',
    "'",
    "\\",
    "a\tb",
    "0",
    "true",
    "A=b=c",
    " x",
    "x ",
]
HOSTS = [
    "a:1.2.3.4",
    "a=1.2.3.4",
    "a:::1",
    "a=[::1]",
    "a:host-gateway",
    "a",
    "a:notip",
    "=1.2.3.4",
    "a:[]",
    "a=b:1.2.3.4",
    "a: 1.1.1.1",
]
ULIMITS = [
    "memlock=-1",
    "memlock=-1:-1",
    "nofile=1:2",
    "nofile=2:1",
    "stack=67108864",
    "bogus=1",
    "core",
    "nofile=1:-1",
    "cpu=",
    "rss=1:2:3",
]
BOOLS = ["true", "false", "1", "0", "t", "F", "TRUE", "yes", "", "True"]
IMAGES = [
    "img", "img:tag", "reg:5000/a/b:c", "a@sha256:" + "a" * 64, "a:t@sha256:" + "b" * 64, "a@sha256:abc", "UPPER/a",
    "a:b:c", "a/", "A",
    "sha256:" + "a" * 64, "c" * 64, "[::1]:5000/a", "localhost/a", "LOCALHOST/b", "a__b", "a_-b", "http://a/b", "",
    "a..b", "a/B:c", "x.y/z",
    "docker.io/a", "a:" + "t" * 129, "d" * 260, "a@md5:" + "a" * 32, "a:_x", "a/b@", "index.docker.io/A/b",
]  # fmt: skip

VALUES: dict[str, list[str]] = {
    "shm-size": SIZES, "memory": SIZES, "memory-swap": SIZES, "memory-reservation": SIZES, "kernel-memory": SIZES,
    "cpu-shares": NUMBERS, "cpu-quota": NUMBERS, "cpu-period": NUMBERS, "blkio-weight": NUMBERS,
    "pids-limit": NUMBERS,
    "oom-score-adj": NUMBERS, "memory-swappiness": [*NUMBERS, "60", "101"], "stop-timeout": NUMBERS,
    "health-retries": NUMBERS,
    "cpus": ["1", "1.5", "0.000000001", "1/2", "1e-9", "1e-10", "x", "", "-1", "0x10", "1_0", "1p2", "1/0", ".5",
    "5."],
    "health-interval": TIMES, "health-timeout": TIMES, "health-start-period": TIMES, "health-start-interval": TIMES,
    "publish": PORTS, "expose": ["80", "80/udp", "80-82", "82-80", "x", "", "80:80", "80/foo", "0", "70000",
    "80/TCP"],
    "volume": BINDS, "mount": MOUNTS, "gpus": GPUS, "device": DEVICES, "network": NETWORKS, "net": NETWORKS,
    "add-host": HOSTS,
    "ulimit": ULIMITS, "env": ["A=1", "A=2", "USER", "NOPE", "", "=x", "A", "B=a b", "A B=c", "é=1", "PWD"],
    "label": ["a=b", "a", "=x", "", "a b=c", "a=", "a=c", " a=b"], "annotation": TEXTS, "log-opt": TEXTS,
    "log-driver": ["", "none", "json-file", "x"], "storage-opt": ["size=1G", "a", "", "=x"], "tmpfs": ["/t",
    "/t:size=1g", "t", "", "/t:a:b"],
    "sysctl": ["net.a=1", "kernel.shmmax=1", "a=b", "net.a", "", "fs.mqueue.a=b", "kernel.foo=1"],
    "restart": ["always", "no", "on-failure:3", "on-failure:x", "", "unless-stopped", ":3", "no:1", "a:b:c",
    "always:-1", "on-failure:"],
    "ipc": ["host", "private", "container:x", "", "foo"], "pid": ["host", "container:x", "", "foo", "container:"],
    "uts": ["host", "", "foo"], "userns": ["host", "", "keep-id"], "cgroupns": ["host", "private", "", "foo"],
    "security-opt": ["seccomp=unconfined", "seccomp:unconfined", "no-new-privileges", "apparmor=x", "label:disable",
    "systempaths=unconfined",
                     "foo", "", "seccomp=", "=x", "a:b", "seccomp=builtin", "no-new-privileges:true"],
    "cap-add": ["SYS_PTRACE", "CAP_SYS_NICE", "all", "ALL", "", "x y", "sys_nice"], "cap-drop": ["ALL", "net_raw",
    ""],
    "entrypoint": TEXTS, "name": TEXTS, "user": TEXTS, "workdir": TEXTS, "hostname": TEXTS, "runtime": TEXTS,
    "group-add": TEXTS,
    "platform": ["linux/amd64", "linux/arm64", "arm64", "linux", "bogus", "linux/arm/7", "linux/amd64/v1", "", "*",
    "a/b/c/d", "LINUX/X86_64",
                 "windows(1)/amd64", "linux/", "armhf", "linux/arm64/v8", "aarch64"],
    "pull": ["always", "missing", "never", "", "bogus"], "attach": ["stdin", "STDOUT", "stderr", "foo", ""],
    "network-alias": ["a", "b"], "ip": ["1.2.3.4", "x", ""], "ip6": ["::1"], "link": ["a:b", "a", "", "a:b:c"],
    "link-local-ip": ["169.254.1.1"], "mac-address": ["02:42:ac:11:00:02", "x", "", "02-42-ac-11-00-02",
    "0242.ac11.0002"],
    "dns": ["1.1.1.1", "::1", "x", "", " 1.1.1.1", "1.2.3", "fe80::1%eth0"], "dns-search": ["a.b", ".", "", "a b",
    "1.2", "a.b.", ":a"],
    "dns-option": TEXTS, "device-cgroup-rule": ["c 189:* rmw", "a *:* r", "c 1:1", "x 1:1 r", "c *:* rwmr"],
    "device-read-bps": ["/dev/a:1mb", "/dev/a", "/dev/a:-1", "a:1", "/dev/a:"], "device-write-iops": ["/dev/a:10",
    "/dev/a:1k", "/dev/a:0"],
    "blkio-weight-device": ["/dev/a:500", "/dev/a:5", "/dev/a:0", "/dev/a:x"], "health-cmd": ["x", "",
    "curl x || exit 1"],
    "volumes-from": ["a", "b:ro", ""], "volume-driver": ["", "d"], "stop-signal": ["SIGINT", ""],
    "cgroup-parent": TEXTS,
    "cpuset-cpus": ["0-3", "", "x"], "isolation": ["", "default"], "domainname": TEXTS, "detach-keys": ["", "ctrl-a"],
}  # fmt: skip
SWITCHES = [
    "detach", "interactive", "tty", "rm", "privileged", "init", "read-only", "publish-all", "no-healthcheck",
    "oom-kill-disable",
    "sig-proxy", "quiet",
]  # fmt: skip
SHORT = {
    "publish": "p", "volume": "v", "env": "e", "memory": "m", "user": "u", "workdir": "w", "hostname": "h",
    "label": "l", "attach": "a",
    "cpu-shares": "c", "detach": "d", "interactive": "i", "tty": "t", "publish-all": "P", "quiet": "q",
}  # fmt: skip

_EDIT = st.sampled_from([*string.ascii_letters, *string.digits, *",=:/.-_+ \"'[]%@*", ",a=b", "=true", "-2", "é"])


@st.composite
def values(draw: st.DrawFn, name: str) -> str:
    """A value from the pool of its flag, as it is or with a small edit."""
    value = draw(st.sampled_from(VALUES[name]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        at = draw(st.integers(0, len(value)))
        cut = draw(st.integers(0, 1))
        value = value[:at] + draw(st.one_of(st.just(""), _EDIT)) + value[at + cut :]
    return value


@st.composite
def flag_words(draw: st.DrawFn) -> list[str]:
    """One flag in one of its spellings."""
    if draw(st.integers(0, 5)) == 0:
        return [draw(_switch())]
    name = draw(st.sampled_from(sorted(VALUES)))
    value = draw(values(name))
    letter = SHORT.get(name)
    spellings = [[f"--{name}", value], [f"--{name}={value}"]]
    if letter:
        spellings += [[f"-{letter}", value], [f"-{letter}{value}"], [f"-{letter}={value}"], [f"-it{letter}", value]]
    return draw(st.sampled_from(spellings))


@st.composite
def _switch(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(SWITCHES))
    if draw(st.booleans()):
        return f"--{name}"
    if name in SHORT and draw(st.booleans()):
        return f"-{SHORT[name]}" + draw(st.sampled_from(["", "it", "=false", "=x"]))
    return f"--{name}={draw(st.sampled_from(BOOLS))}"


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """`docker run|create …` with a few flags, an image and a command."""
    verb = draw(st.sampled_from([["run"], ["run"], ["create"], ["container", "run"]]))
    flags = [word for words in draw(st.lists(flag_words(), min_size=0, max_size=4)) for word in words]
    image = draw(st.one_of(st.just("img"), st.just("img"), st.sampled_from(IMAGES), _edited_image()))
    command = draw(st.lists(st.sampled_from([*TEXTS, "--gpus", "serve"]), max_size=2))
    return ["docker", *verb, *flags, *draw(st.sampled_from([[], [], ["--"]])), image, *command]


@st.composite
def _edited_image(draw: st.DrawFn) -> str:
    value = draw(st.sampled_from(IMAGES))
    at = draw(st.integers(0, len(value)))
    return value[:at] + draw(_EDIT) + value[at:]
