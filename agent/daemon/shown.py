"""What is shown of a deployment: its board with every sentence behind the veil."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from agent.action.operation import Operation
from agent.action.store import Event
from agent.incident.veil import Veil
from agent.metrics.board import Board, Verified


class ShownBoards(Mapping[str, Board]):
    """The fleet's boards as anybody may see them; each is cleaned once, when it is first looked at."""

    def __init__(self, boards: Mapping[str, Board], veil: Veil, verified: Callable[[str], Verified]) -> None:
        self._boards = boards
        self._veil = veil
        self._verified = verified
        self._clean: dict[str, tuple[Board, Board]] = {}

    def __getitem__(self, slug: str) -> Board:
        board = self._boards[slug]
        known = self._clean.get(slug)
        if known is None or known[0] is not board:
            known = self._clean[slug] = (board, self.of(board))
        return known[1]

    def of(self, board: Board) -> Board:
        return replace(clean_board(board, self._veil), verified=self._verified(board.record.slug))

    def __iter__(self) -> Iterator[str]:
        for slug in self._clean.keys() - self._boards.keys():
            del self._clean[slug]
        return iter(self._boards)

    def __len__(self) -> int:
        return len(self._boards)


def clean_board(board: Board, veil: Veil) -> Board:
    """Sentences quote log lines and errors of others, and those quote what they were given."""
    record, verdict, refused = board.record, board.verdict, board.refused
    fault = replace(record.fault, why=veil.text(record.fault.why)) if record.fault else None
    if verdict is not None:
        evidence = tuple(veil.text(line) for line in verdict.evidence)
        verdict = replace(verdict, why=veil.text(verdict.why), evidence=evidence, figures=veil.clean(verdict.figures))
    return replace(
        board,
        record=replace(record, why=veil.text(record.why), step=veil.text(record.step), fault=fault),
        verdict=verdict,
        findings=tuple(
            replace(one, found=veil.text(one.found), hint=veil.text(one.hint), details=veil.clean(one.details))
            for one in board.findings
        ),
        refused=replace(refused, error=veil.clean(refused.error)) if refused else None,
        progress=veil.clean(board.progress),
    )


def clean_event(event: Event, veil: Veil) -> Event:
    return replace(event, text=veil.text(event.text), data=veil.clean(event.data))


def clean_operation(operation: Operation, veil: Veil) -> Operation:
    error = veil.clean(operation.error) if operation.error is not None else None
    return replace(operation, progress=veil.clean(operation.progress), error=error)
