"""The end of an engine's log: bounded, and of now."""

from __future__ import annotations

from agent.container.port import LogLine
from agent.engines.model import FailureClass, LogEvent
from agent.engines.vllm import Vllm
from agent.samples.logs import KEPT_LINES, LONGEST_LINE, LogTail


def test_a_flood_of_lines_stays_bounded() -> None:
    """A zombie wrote 148,000 lines in two hours; the newest are kept, and a line has an end."""
    tail = LogTail(lambda _: None)
    for number in range(KEPT_LINES + 10):
        tail.add(LogLine(f"{number} " + "x" * 2 * LONGEST_LINE))
    assert len(tail.lines) == KEPT_LINES
    assert tail.lines[0].text.startswith("10 ")
    assert len(tail.lines[-1].text) <= LONGEST_LINE + 2


def test_what_was_taken_is_not_taken_again() -> None:
    """Each event is in one sample."""
    tail = LogTail(lambda text: LogEvent(text))
    tail.add(LogLine("one"))
    assert tail.take() == ((LogEvent("one"),), 1)
    assert tail.take() == ((), 0)


def test_lines_that_must_be_seen_are_seen_once_for_all() -> None:
    """Also when they have left the kept lines."""
    tail = LogTail(lambda _: None, wanted=("graphs captured", "never"))
    tail.add(LogLine("INFO graphs captured in 3 s"))
    for _ in range(KEPT_LINES):
        tail.add(LogLine("x"))
    assert tail.unseen() == ("never",)


def test_what_an_adopted_engine_complained_of_before_it_was_ready_was_not_its_end() -> None:
    """It serves in spite of it; what was written since, while nobody looked, may be its end."""
    bad = LogEvent("boom", failure=FailureClass.CUDA_FAULT, hang=True)
    tail = LogTail(lambda _: bad, ready_at=100.0)
    tail.add(LogLine("old", 99.0))
    tail.add(LogLine("new", 101.0))
    events, _ = tail.take()
    assert [(event.failure, event.hang) for event in events] == [(None, False), (FailureClass.CUDA_FAULT, True)]


def test_a_record_in_json_is_read_whole_and_kept_short() -> None:
    """A traceback in one line is longer than what is kept of a line, and its cause stands at its end."""
    tail = LogTail(Vllm().read_log)
    trace = "Traceback\\n" + "  File core.py\\n" * 600 + "torch.OutOfMemoryError: CUDA out of memory."
    tail.add(LogLine(f'{{"level": "ERROR", "message": "EngineCore failed to start.", "exc_info": "{trace}"}}'))
    assert len(tail.lines[0].text) <= LONGEST_LINE + 2
    assert [event.failure for event in tail.take()[0]] == [FailureClass.GPU_OOM]


def test_compilers_of_an_adopted_engines_start_are_not_at_work_now() -> None:
    """Its log is read from the beginning: lines before it was ready say nothing of the present."""
    jit = LogEvent("compiles", jit=True)
    tail = LogTail(lambda _: jit, ready_at=100.0)
    tail.add(LogLine("old", 99.0))
    tail.add(LogLine("new", 101.0))
    events, _ = tail.take()
    assert [event.jit for event in events] == [False, True]
