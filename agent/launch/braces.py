"""Brace expansion, as bash does it before anything else: `{a,b}` and `{1..3}` make several words; quotes stop it."""

from __future__ import annotations

import re
from itertools import pairwise

from agent.launch.refusal import ShellConstruct
from agent.launch.words import Literal, Part, Variable, Word

MOST_WORDS = 1000
MOST_BRACES = 50
LONGEST = 4000
"""Bounds of what is expanded: words made, opening braces, and letters of one word outside quotes."""

_SEQUENCE = re.compile(r"(-?[0-9]{1,6}|[A-Za-z])\.\.(-?[0-9]{1,6}|[A-Za-z])(?:\.\.(-?[0-9]{1,4}))?")


def braced(word: Word) -> list[Word]:
    """The words that `word` stands for; mostly itself alone. Raises ShellConstruct where they are too many."""
    if not any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in word):
        return [word]
    atoms: list[Part] = []
    for part in word:
        if isinstance(part, Literal) and not part.quoted:
            atoms.extend(Literal(char) for char in part.text)
        else:
            atoms.append(part)
    if len(atoms) > LONGEST or sum(1 for atom in atoms if _is(atom, "{")) > MOST_BRACES:
        raise ShellConstruct(word="{…}", why="so many braces outside quotes are no launch")
    words = _expand(atoms)
    if len(words) > 1:
        _refuse_glued(word)
    return [word] if len(words) == 1 and words[0] == atoms else [_joined(each) for each in words]


def _refuse_glued(word: Word) -> None:
    """`$A{1,2}` is `$A1` and `$A2` to bash."""
    for part, following in pairwise(word):
        bare = isinstance(part, Variable) and not part.quoted and not part.source.startswith("${")
        if bare and isinstance(following, Literal) and following.text.startswith("{"):
            raise ShellConstruct(word="".join(_source(each) for each in (part, following)), why="braces end its name")


def _source(part: Part) -> str:
    return part.source if isinstance(part, Variable) else part.text if isinstance(part, Literal) else "…"


def _expand(atoms: list[Part]) -> list[list[Part]]:
    at = 0
    while (at := _find(atoms, "{", at)) >= 0:
        end, commas = _matching(atoms, at)
        alternatives = _alternatives(atoms, at, end, commas) if end > 0 else None
        if alternatives is not None:
            return _product(atoms[:at], alternatives, _expand(atoms[end + 1 :]))
        at += 1
    return [atoms]


def _alternatives(atoms: list[Part], at: int, end: int, commas: list[int]) -> list[list[Part]] | None:
    if commas:
        edges = [at, *commas, end]
        pieces = [atoms[left + 1 : right] for left, right in pairwise(edges)]
        return _limited([word for piece in pieces for word in _expand(piece)])
    inside = atoms[at + 1 : end]
    text = "".join(atom.text for atom in inside if isinstance(atom, Literal) and not atom.quoted)
    found = _SEQUENCE.fullmatch(text) if len(text) == len(inside) else None
    return None if found is None else _sequence(found)


def _sequence(found: re.Match[str]) -> list[list[Part]] | None:
    first, last = found[1], found[2]
    if first.lstrip("-").isdecimal() != last.lstrip("-").isdecimal():
        return None
    letters = not first.lstrip("-").isdecimal()
    start, stop = (ord(first), ord(last)) if letters else (int(first), int(last))
    step = abs(int(found[3] or 1)) or 1
    numbers = range(start, stop + 1, step) if start <= stop else range(start, stop - 1, -step)
    if len(numbers) > MOST_WORDS:
        raise ShellConstruct(word=f"{{{found[0]}}}", why="it stands for too many words")
    wide = max(len(first), len(last)) if re.match(r"-?0[0-9]", first) or re.match(r"-?0[0-9]", last) else 0
    return [[Literal(chr(number) if letters else f"{number:0{wide}d}" if wide else str(number))] for number in numbers]


def _product(head: list[Part], middle: list[list[Part]], tails: list[list[Part]]) -> list[list[Part]]:
    if len(middle) * len(tails) > MOST_WORDS:
        raise ShellConstruct(word="{…}", why="it stands for too many words")
    return [[*head, *each, *tail] for each in middle for tail in tails]


def _limited(words: list[list[Part]]) -> list[list[Part]]:
    if len(words) > MOST_WORDS:
        raise ShellConstruct(word="{…}", why="it stands for too many words")
    return words


def _find(atoms: list[Part], char: str, at: int) -> int:
    return next((index for index in range(at, len(atoms)) if _is(atoms[index], char)), -1)


def _matching(atoms: list[Part], at: int) -> tuple[int, list[int]]:
    """Index of the closing brace (0: none) and of the commas between."""
    depth = 0
    commas: list[int] = []
    for index in range(at, len(atoms)):
        if _is(atoms[index], "{"):
            depth += 1
        elif _is(atoms[index], "}"):
            depth -= 1
            if depth == 0:
                return index, commas
        elif depth == 1 and _is(atoms[index], ","):
            commas.append(index)
    return 0, []


def _is(atom: Part, char: str) -> bool:
    return isinstance(atom, Literal) and not atom.quoted and atom.text == char


def _joined(atoms: list[Part]) -> Word:
    """Letters of one literal side by side, as one again."""
    out: list[Part] = []
    for atom in atoms:
        last = out[-1] if out else None
        if isinstance(atom, Literal) and isinstance(last, Literal) and not atom.quoted and not last.quoted:
            out[-1] = Literal(last.text + atom.text)
        else:
            out.append(atom)
    return tuple(out)
