"""How Go reads numbers, switches, durations and CSV: the CLI's flags are read by Go's rules, not Python's.

Sources: the documentation of Go's `strconv`, `time.ParseDuration`, `encoding/csv` and `math/big`, and go-units.
"""

from __future__ import annotations

import re
from fractions import Fraction

TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

INT64 = 2**63

_PREFIXED = re.compile(r"0(?:[xX](?P<x>[0-9a-fA-F]+)|[bB](?P<b>[01]+)|[oO]?(?P<o>[0-7]+))\Z")
_UNDERSCORES = re.compile(r"(?:0[xXbBoO]_?)?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*\Z")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+\Z")
_FLOAT_UNDERSCORES = re.compile(r"[^_]*(?:(?:[0-9a-fA-F]|0[xX])_[0-9a-fA-F][^_]*)+")
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)\Z|nan\Z", re.IGNORECASE)
_PART = re.compile(r"(?P<whole>[0-9]*)(?P<fraction>\.[0-9]*)?(?P<unit>[^0-9.]*)")

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What `unicode.IsSpace` takes for a blank; Python has a few more."""


class Malformed(ValueError):
    """A value that Go's reader turns down; the text is the reason."""


def switch(text: str) -> bool:
    """`strconv.ParseBool`."""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise Malformed(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def integer(text: str, *, bits: int = 64, base: int = 0) -> int:
    """`strconv.ParseInt`: base 0 knows 0x, 0o, 0b, a leading 0 as octal, and underscores."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    value = _digits(digits, base, f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = -value if sign == "-" else value
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise Malformed(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def unsigned(text: str, *, bits: int = 64, base: int = 0) -> int:
    """`strconv.ParseUint`: as `integer`, with no sign at all."""
    value = _digits(text, base, f'strconv.ParseUint: parsing "{text}": invalid syntax')
    if value >= 2**bits:
        raise Malformed(f'strconv.ParseUint: parsing "{text}": value out of range')
    return value


def _digits(text: str, base: int, reason: str) -> int:
    if base == 0 and "_" in text:
        if not _UNDERSCORES.match(text):
            raise Malformed(reason)
        text = text.replace("_", "")
    if not text.isascii():
        raise Malformed(reason)
    if base == 0 and (found := _PREFIXED.match(text)):
        kind = found.lastgroup or "o"
        return _number(found.group(kind), {"x": 16, "b": 2, "o": 8}[kind])
    if not text.isdecimal() or (base == 0 and len(text) > 1 and text[0] == "0"):
        raise Malformed(reason)
    return _number(text, 10)


def _number(digits: str, base: int) -> int:
    """Far beyond 64 bits only the fact counts; Python refuses to read thousands of digits."""
    digits = digits.lstrip("0")
    return int(digits or "0", base) if len(digits) <= 70 else 2**80


def floating(text: str) -> float:
    """`strconv.ParseFloat` to 64 bits."""
    reason = f'strconv.ParseFloat: parsing "{text}": invalid syntax'
    plain = text
    if "_" in plain:
        if not _FLOAT_UNDERSCORES.fullmatch(plain):
            raise Malformed(reason)
        plain = plain.replace("_", "")
    if _SPECIAL.match(plain):
        return float(plain)
    if _HEX_FLOAT.match(plain):
        return _in_range(plain)
    if not _FLOAT.match(plain):
        raise Malformed(reason)
    value = float(plain)
    if value in (float("inf"), float("-inf")):
        raise Malformed(f'strconv.ParseFloat: parsing "{text}": value out of range')
    return value


def _in_range(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError as error:
        raise Malformed(f'strconv.ParseFloat: parsing "{text}": value out of range') from error


def whole(value: float) -> int:
    """A float as amd64 turns it into an int64: what does not fit becomes the smallest one."""
    if value != value or not -float(INT64) <= value < float(INT64):
        return -INT64
    return int(value)


def duration(text: str) -> int:
    """`time.ParseDuration`, in nanoseconds."""
    reason = f'time: invalid duration "{text}"'
    negative, rest = text[:1] == "-", text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest:
        raise Malformed(reason)
    total = 0
    while rest:
        step, rest = _part(text, rest, reason)
        total += step
        if total > INT64 or (total == INT64 and not negative):
            raise Malformed(reason)
    return -total if negative else total


def _part(text: str, rest: str, reason: str) -> tuple[int, str]:
    found = _PART.match(rest)
    if found is None or not (found["whole"] or (found["fraction"] or ".") != "."):
        raise Malformed(reason)
    unit = found["unit"]
    if not unit:
        raise Malformed(f'time: missing unit in duration "{text}"')
    if unit not in NANOSECONDS:
        raise Malformed(f'time: unknown unit "{unit}" in duration "{text}"')
    value = Fraction(int((found["whole"] or "0")[:40])) * NANOSECONDS[unit]
    if found["fraction"]:
        value += int(Fraction("0" + (found["fraction"] + "0")[:40]) * NANOSECONDS[unit])
    return int(value), rest[found.end() :]


def record(text: str) -> list[str]:
    """The first record of `encoding/csv` with its defaults. Raises Malformed as the reader does."""
    line = text.lstrip("\n") if text.strip("\n") else ""
    if not line:
        raise Malformed("EOF")
    fields: list[str] = []
    at = 0
    while True:
        value, at, more = _field(line, at)
        fields.append(value)
        if not more:
            return fields


def _field(line: str, at: int) -> tuple[str, int, bool]:
    if line[at : at + 1] == '"':
        return _quoted(line, at + 1)
    end = min(index for index in (line.find(",", at), line.find("\n", at), len(line)) if index >= 0)
    value = line[at:end]
    if (quote := value.find('"')) >= 0:
        raise Malformed(f'parse error on line 1, column {at + quote + 1}: bare " in non-quoted-field')
    return value, end + 1, line[end : end + 1] == ","


def _quoted(line: str, at: int) -> tuple[str, int, bool]:
    out: list[str] = []
    while (end := line.find('"', at)) >= 0:
        out.append(line[at:end])
        after = line[end + 1 : end + 2]
        if after == '"':
            out.append('"')
            at = end + 2
            continue
        if after in ("", ",", "\n"):
            return "".join(out), end + 2, after == ","
        raise Malformed(f'parse error on line 1, column {end + 1}: extraneous or missing " in quoted-field')
    raise Malformed(f'parse error on line 1, column {len(line) + 1}: extraneous or missing " in quoted-field')


def rational(text: str) -> Fraction:
    """`big.Rat.SetString`: a fraction, or a number with a decimal point or an exponent of ten (`e`) or two (`p`)."""
    reason = f"failed to parse {text} as a rational number"
    plain = text.replace("_", "") if re.fullmatch(r"[^_]+(?:_[^_]+)*", text) else text
    if found := re.fullmatch(r"([+-]?[0-9]{1,40})/([0-9]{1,40})", plain):
        if int(found[2]) == 0:
            raise Malformed(reason)
        return Fraction(int(found[1]), int(found[2]))
    if re.fullmatch(r"[+-]?0[xXbBoO][0-9a-fA-F]{1,15}", plain):
        return Fraction(integer(plain))
    found = re.fullmatch(r"([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))(?:([eEpP])([+-]?[0-9]{1,2}))?", plain)
    if not found:
        raise Malformed(reason)
    base = 2 if found[2] in ("p", "P") else 10
    return Fraction(found[1].rstrip(".")) * Fraction(base) ** int(found[3] or 0)


_SIZES = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def ram(text: str) -> int:
    """go-units' `RAMInBytes`: `16g`, `10.24gb`, `1 GiB`; powers of 1024, in bytes."""
    at = max((text.rfind(char) for char in "0123456789. "), default=-1)
    if at < 0:
        raise Malformed(f"invalid size: '{text}'")
    number, suffix = (text[:at] if text[at] == " " else text[: at + 1]), text[at + 1 :].lower()
    size = floating(number)
    if size < 0:
        raise Malformed(f"invalid size: '{text}'")
    if suffix in ("", "b"):
        return whole(size)
    if suffix[0] not in _SIZES or suffix[1:] not in ("", "b", "ib"):
        raise Malformed(f"invalid suffix: '{suffix}'")
    return whole(size * 1024 ** _SIZES[suffix[0]])
