"""What can be wrong with bytes, with JSON and with names. Pure and seeded: the same Random gives the same damage."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    Mutation = Callable[[bytes, Random, Sequence[bytes]], bytes]

DIGITS = re.compile(rb"[0-9]+")
LARGEST = 256 * 1024  # of a mutated file: sizes beyond are the matter of memory.py
LONG = 70_000  # longer than a chunk of the readers
DEPTHS = (3, 100, 400, 900, 960, 975, 985, 992, 1000, 5_000, 50_000)  # around Python's own limit of 1000

# Texts that hurt: a terminal, a path, a clock, an encoding, a parser of numbers.
TEXTS = (
    "",
    "x",
    "\x00",
    "a\x00b",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31m\x85\x90",
    "\u202eevil\u2066\u200f",
    "\u2028\u2029\ufeff",
    "\ud800",
    "a\udcffb",
    "\U0001f600" * 40,
    "line\nbreak\r\ttab",
    "..",
    "../../../../etc/hostname",
    "/",
    "~",
    "a" * 300,
    "é" * 200,
    "-",
    "--json",
    "%s%n{0}",
    "１２",
    "²",
    "+1_0",
    "0",
    "-1",
    "4711",
    "9" * 19,
    "9" * 400,
    "nan",
    "inf",
    "2026-13-99T99:99:99Z",
    "2026-02-30T00:00:00Z",
    "2026-11-15T18:36:nanZ",
    "2026-11-15T18:36:-1e308Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59-23:59",
    "1970-01-01T00:00:00Z",
    "boot:1:1",
    "boot:-1:1",
)
NUMBERS: tuple[Any, ...] = (
    0,
    1,
    -1,
    True,
    False,
    1.5,
    -0.0,
    255,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**18,
    10**30,
    1e11,
    1e15,
    1e18,
    1e308,
    -1e308,
    5e-324,
)
# What Python reads as a number, and what no JSON has, or not everybody can read.
LITERALS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e400",
    "1E+999999999",
    "9" * 400,
    "9" * 4299,
    "9" * 4300,
    "9" * 5000,
    "-" + "9" * 4300,
    "01",
    "1.",
    "+1",
    "0x10",
    "'x'",
    "undefined",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"\\x"',
    '"\t"',
)
INSERTS = (
    b"\0",
    b"\0" * 100,
    b"\n",
    b"\r\n",
    b"\x1b[2J",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",  # a surrogate as UTF-8
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\xc2\x9b",
    b"\\",
    b'"',
    b"{",
    b"}",
    b"[",
    b",",
    b":",
    b" ",
    b"9",
    b"-",
)
NAMES = (
    b"new\nline",
    b"\x1b[31mred",
    b"\xff\xfe",
    b"\xc2\x9b31m",
    b"\xe2\x80\xae",
    b"..x",
    b"...",
    b"-rf",
    b" ",
    b"a" * 255,
    b"%00",
    b"0",
    b"4294967297",
    b"99999999999999999999",
    b"\xc2\xb2",
    b"~",
    b"*",
)


def mutate(data: bytes, rng: Random, others: Sequence[bytes] = ()) -> bytes:
    """One to three damages. `others`: what may get mixed in, lines of other files and of other agents."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(data, rng, others)
    return data[:LARGEST]


# Bytes


def flip(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if found else 0):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def overwrite(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A block of one byte, as a disk or a crash leaves it."""
    if not data:
        return data
    at, size = rng.randrange(len(data)), rng.choice((1, 4, 16, 512, 4096))
    return data[:at] + bytes([rng.choice((0, 255, 32, 10, 0x7F))]) * min(size, len(data) - at) + data[at + size :]


def cut(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """At any place, at the end of a line, behind a bracket, in the middle of a character; the head or the tail."""
    places = [0, 1, len(data) // 2, max(0, len(data) - 1), rng.randrange(len(data) + 1)]
    for mark in (b"\n", b"{", b":", b'"', b"\xc3", b"\xe2", b"\\"):
        at = data.find(mark, rng.randrange(len(data) + 1))
        places += [at, at + 1] if at >= 0 else []
    at = rng.choice(places)
    return data[:at] if rng.random() < 0.8 else data[at:]


def insert(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    for _ in range(rng.choice((1, 1, 4))):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(INSERTS) + data[at:]
    return data


def replace_whole(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    return rng.choice(
        (
            b"",
            b"\n",
            b"\0" * 4096,
            b"null",
            b"[]",
            b"{}",
            b"{}\n" * 1000,
            b"\n" * LONG,
            b'"' + b"a" * LONG,
            b"[" * 100_000,
            b'{"a":' * 30_000,
            data + data,
            data.rstrip(b"\n"),
            data.replace(b"\n", b"\r\n"),
            data.replace(b"\n", b" "),
            data.decode(errors="replace").encode("utf-16"),
            rng.choice(others) if others else b"x",
        )
    )


def number(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A number in the text becomes another one, whatever the format is."""
    found = DIGITS.search(data, rng.randrange(len(data) + 1)) or DIGITS.search(data)
    if found is None:
        return data
    other = rng.choice((*map(str, NUMBERS), *LITERALS)).encode()
    return data[: found.start()] + other + data[found.end() :]


# Lines


def lines(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    found = data.split(b"\n")
    at = rng.randrange(len(found))
    foreign = rng.choice(others).split(b"\n") if others else [b"{}"]
    match rng.randrange(8):
        case 0:
            found.insert(at, found[at])
        case 1:
            del found[at]
        case 2:
            rng.shuffle(found)
        case 3:
            found.insert(at, rng.choice(foreign))
        case 4:
            found[at] += b" " * LONG + b"x"
        case 5:
            other = rng.randrange(len(found))
            found[at], found[other] = found[other], found[at]
        case 6:
            found[at:] = found[at:][:1] * 50
        case 7:
            del found[at : at + rng.randrange(1, 20)]
    return b"\n".join(found)


# JSON: the whole text, or one of its lines


class Raw:
    """A piece of text that stands for a value as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def structure(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    text = data.decode(errors="surrogateescape")
    try:
        return write(mutate_value(json.loads(text), rng), rng).encode(errors="surrogatepass")
    except (ValueError, RecursionError):
        pass
    found = text.split("\n")
    order = list(range(len(found)))
    rng.shuffle(order)
    for at in order[:20]:
        try:
            value = json.loads(found[at])
            if isinstance(value, (dict, list)):
                found[at] = write(mutate_value(value, rng), rng)
                break
        except (ValueError, RecursionError):
            continue
    return "\n".join(found).encode(errors="surrogatepass")


def mutate_value(value: Any, rng: Random) -> Any:
    """One or a few of the values inside become something else: by key, in any depth."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(places_in(value))
        if not places:
            return odd_value(rng, value)
        holder, key = rng.choice(places)
        match rng.randrange(12):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(TEXTS)] = holder.pop(key)
            case 2:  # the value of some other key
                other, name = rng.choice(places)
                holder[key] = other[name] if other[name] is not holder else None
            case 3:
                holder[key] = [holder[key]]
            case 4:
                holder[key] = {"x": holder[key]}
            case 5 if isinstance(holder[key], str):
                holder[key] += rng.choice(TEXTS)
            case _:
                holder[key] = odd_value(rng, holder[key])
        value = json_copy(value)
    return value


def places_in(value: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    if depth > 12:
        return []
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        found += places_in(value[key], depth + 1)
    return found


def json_copy(value: Any) -> Any:
    """So that what was put in twice is two things."""
    if isinstance(value, dict):
        return {key: json_copy(inner) for key, inner in value.items()}
    return [json_copy(inner) for inner in value] if isinstance(value, list) else value


def odd_value(rng: Random, old: object = None) -> Any:
    match rng.randrange(9):
        case 0:
            return None
        case 1:
            return rng.choice(([], {}, [None], [[]], [{}], {"": None}, {"type": {}}, ["x", 1, None]))
        case 2 | 3:
            return rng.choice(TEXTS)
        case 4 | 5:
            return rng.choice(NUMBERS)
        case 6:
            return Raw(rng.choice(LITERALS))
        case 7:
            return Raw(nested(rng))
        case _:
            return str(old) if not isinstance(old, str) else rng.choice((1, [old], {old: old}, old * 2, old[:-1]))


def nested(rng: Random) -> str:
    depth = rng.choice(DEPTHS)
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"type":', "}]")))
    return opening * depth + "1" + closing * (depth if rng.random() < 0.9 else depth - 1)


def write(value: Any, rng: Random) -> str:
    """As json.dumps does, with what is raw as it is, and now and then a key twice."""
    pieces: list[str] = []

    def stand_in(one: object) -> str:
        assert isinstance(one, Raw)
        pieces.append(one.text)
        return f"@raw-{len(pieces) - 1}@"

    ascii_only = rng.random() < 0.5
    separators = rng.choice((None, (",", ":"), (" , ", " : ")))
    text = json.dumps(value, default=stand_in, ensure_ascii=ascii_only, separators=separators)
    for at, piece in enumerate(pieces):
        text = text.replace(f'"@raw-{at}@"', piece)
    if isinstance(value, dict) and value and rng.random() < 0.1:
        key = json.dumps(rng.choice(list(value)))
        text = text[:-1] + f", {key}: {rng.choice(('null', '[]', '{}', '1', json.dumps(rng.choice(TEXTS))))}}}"
    return text


MUTATIONS: tuple[Mutation, ...] = (
    flip,
    overwrite,
    cut,
    cut,
    insert,
    replace_whole,
    number,
    lines,
    lines,
    structure,
    structure,
    structure,
    structure,
    structure,
)
