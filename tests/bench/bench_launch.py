"""How long it takes to read a launch: the recipe's argument list, a script, a compose file, text of a megabyte.

    python -m tests.bench.bench_launch

Needs nothing but this interpreter. Prints one line of JSON; ends with 1 when a text of the largest size that is read,
or of a megabyte, takes longer than 1 s of this process's own time (the best of several runs: a busy machine says
nothing about the program).
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable

from agent.errors import AgentError
from agent.launch.model import LARGEST, ContainerLaunch, Context
from agent.launch.read import read_argv, read_compose, read_shell
from agent.launch.write import to_docker_run

HEAVY_S = 1.0
RUNS = 3
SITE = Context({"HOME": "/home/a", "TOKEN": "x", "A": "x y " * 50}, {"id -u": "1000"}, "/srv")
LINE = (
    "docker run -d --name engine --gpus '\"device=0,1\"' --ipc=host --ulimit memlock=-1 -v $HOME/models:/models:ro "
    "-p 8000:8000 -e HF_TOKEN=$TOKEN -u $(id -u) image:tag serve /models/m --tensor-parallel-size 2 "
    '--speculative-config \'{"method": "x", "n": 5}\''
)
WORDS = shlex.split(LINE.replace("$(id -u)", "1000"))
SCRIPT = "git clone https://h/o/r\nexport A=1\n" + "\n".join([LINE] * 50)
COMPOSE = "services:\n" + "".join(
    f"  s{number}: {{image: vllm/x, command: serve m --port 8000, gpus: all, ports: ['{8000 + number}:8000']}}\n"
    for number in range(50)
)
HEAVY = ("'", '"', "$(", "${a:-", "(", "\n", "x ${a-\n", "{a,b}", "export A=$A$A\n", "~ ", "a && ", "docker run img\n")


def main() -> int:
    launch = read_argv(WORDS, SITE)
    assert isinstance(launch, ContainerLaunch)
    figures = {
        "argv_s": best(lambda: read_argv(WORDS, SITE)),
        "shell_line_s": best(lambda: read_shell(LINE, SITE)),
        "script_50_launches_s": best(lambda: read_shell(SCRIPT, SITE)),
        "compose_50_services_s": best(lambda: read_compose(COMPOSE, SITE)),
        "write_back_s": best(lambda: to_docker_run(launch)),
        "heavy_largest_s": max(best(heavy(unit, LARGEST - 100)) for unit in HEAVY),
        "heavy_1mb_s": max(best(heavy(unit, 1_000_000)) for unit in HEAVY),
    }
    print(json.dumps({name: round(seconds, 5) for name, seconds in figures.items()}))
    return 1 if max(figures["heavy_largest_s"], figures["heavy_1mb_s"]) > HEAVY_S else 0


def best(work: Callable[[], object]) -> float:
    """Seconds of this process's own time, of the fastest of some runs."""
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def heavy(unit: str, size: int) -> Callable[[], None]:
    """Read a text of one thing over and over, as shell and within a command."""
    text = (unit * (size // len(unit) + 1))[:size]

    def work() -> None:
        for form in ("{}", "docker run img {}"):
            try:
                read_shell(form.format(text), SITE)
            except AgentError:
                continue  # refusing it is an answer as well

    return work


if __name__ == "__main__":
    raise SystemExit(main())
