"""Requirements for archives that are too large to store: they become the vectors of `golden/large.json`."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from tests.onnxzip.archives import (
    MAX_16,
    MAX_32,
    PADDING,
    Member,
    end_records,
    external,
    extra,
    message,
    model,
    number,
    tag,
    tensor,
    varint,
    zip64,
)

LETTERS = 4
MANY = MAX_16


class Part(NamedTuple):
    """A part of a large archive: bytes, a number of zeros, or parts that are repeated `count` times.

    A repeated part with `letters` is a different word of this many letters each time, starting with "aaaa". One with
    `start` and `step` is a number of 4 bytes that grows.
    """

    data: bytes = b""
    zeros: int = 0
    count: int = 0
    parts: tuple[Part, ...] = ()
    letters: int = 0
    start: int = 0
    step: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the part in the form of the file of vectors."""
        if self.count:
            return {"count": self.count, "of": [part.to_json() for part in self.parts]}
        if self.zeros:
            return {"zeros": self.zeros}
        if self.letters:
            return {"letters": self.letters}
        return {"u32": [self.start, self.step]} if self.step else {"hex": self.data.hex()}

    @property
    def nbytes(self) -> int:
        """The size of the result of `made`, or of the zeros."""
        if self.count:
            return self.count * sum(part.nbytes for part in self.parts)
        return self.zeros or self.letters or (4 if self.step else len(self.data))

    def made(self, index: int = 0) -> bytes:
        """Return the bytes; `index` counts the repetitions."""
        if self.count:
            return repeated(self)
        if self.letters:
            places = reversed(range(self.letters))
            return bytes(ord("a") + index // 26**place % 26 for place in places)
        return struct.pack("<I", self.start + index * self.step) if self.step else self.data


@cache
def repeated(part: Part) -> bytes:
    """Return the bytes of a repeated part, which many rows have."""
    return b"".join(each.made(number) for number in range(part.count) for each in part.parts)


def many(count: int, with_zip64: bool, **end: int) -> list[Part]:
    """Return an archive with this many entries, all empty except the last."""
    empty = Member(b"aaaa")
    head, tail = empty.local_bytes().split(empty.name)
    central, rest = empty.central_bytes(0).split(empty.name)
    fields = tensor("aaaa", dims=(0,), places=external(location="aaaa"))
    before, after = message(5, fields).split(b"aaaa")
    weights = count - 1
    initializers = Part(count=weights, parts=(Part(before), Part(letters=LETTERS), Part(after)))
    start = b"".join((number(1, 10), tag(7, 2), varint(initializers.nbytes)))
    graph = start + initializers.made()
    last = Member(b"__MODEL_PROTO", graph)
    local = last.local_bytes().removesuffix(graph)
    step = len(head) + LETTERS + len(tail)
    listed_last = last.central_bytes(weights * step)
    listed = Part(
        count=weights,
        parts=(Part(central[:-4]), Part(step=step), Part(letters=LETTERS), *([Part(rest)] if rest else [])),
    )
    directory_nbytes = listed.nbytes + len(listed_last)
    offset = weights * step + len(local) + len(graph)
    return [
        Part(count=weights, parts=(Part(head), Part(letters=LETTERS), *([Part(tail)] if tail else []))),
        Part(local + start),
        initializers,
        listed,
        Part(listed_last + end_records(count, directory_nbytes, offset, with_zip64, **end)),
    ]


def large(
    nbytes: int,
    local: bytes = b"",
    central: bytes = b"",
    last: bytes | None = None,
    with_zip64: bool = True,
    fields: dict[str, int] | None = None,
    end: dict[str, int] | None = None,
) -> list[Part]:
    """Return an archive with an entry of this many zeros, its extra fields, and those of the graph's entry."""
    size = min(nbytes, MAX_32)
    changed = {"size": size, "packed": size} | (fields or {})
    first = Member(b"w", local_extra=local, central_extra=central).both(**changed)
    place = external(location="w", length=str(nbytes))
    graph = Member(b"__MODEL_PROTO", model(tensor(dims=(nbytes,), places=place)))
    head = first.local_bytes()
    offset = len(head) + nbytes
    graph.central_extra = zip64(offset) if last is None and offset >= MAX_32 else last or b""
    tail = graph.local_bytes()
    listed = first.central_bytes(0) + graph.central_bytes(min(offset, MAX_32))
    records = end_records(2, len(listed), offset + len(tail), with_zip64, **(end or {}))
    return [Part(head), Part(zeros=nbytes), Part(tail + listed + records)]


class LargeRow(NamedTuple):
    """Like `Row`, for archives that consist of parts."""

    requirement: str
    name: str
    refused: list[Part] | None
    reason: str
    taken: list[Part] | None
    breaks: str = ""


def ended(parts: list[Part], offset: int, *values: int) -> list[Part]:
    """Return an archive with other bytes in its zip64 structures; the offset counts from the zip64 end record."""
    *before, last = parts
    data = bytearray(last.data)
    start = data.rindex(b"PK\6\6") + offset
    data[start : start + len(values)] = values
    return [*before, Part(bytes(data))]


ZIP64 = many(MANY, True)
HEAD = 31  # the size of the local header of `w`
EDGE = MAX_32 - HEAD  # the size of `w` at which the offset of the graph needs zip64
FULL = zip64(MAX_32, MAX_32)
UNEQUAL = zip64(MAX_32, MAX_32 + 1)
BEYOND = large(MAX_32, FULL, FULL)
LARGE_ROWS = [
    LargeRow("Z-5.9", "other signature of the zip64 end record", ended(ZIP64, 3, 5), "the zip64 end record", ZIP64),
    LargeRow("Z-5.9", "other signature of the locator", ended(ZIP64, 59, 8), "the zip64 locator", ZIP64, "Z-5.8"),
    LargeRow("Z-5.10", "size of the record", ended(ZIP64, 4, 45), "extensible data", ZIP64),
    LargeRow("Z-5.10", "number of this disk", ended(ZIP64, 16, 1), "multi-disk", ZIP64),
    LargeRow("Z-5.10", "disk of the directory", ended(ZIP64, 20, 1), "multi-disk", ZIP64),
    LargeRow("Z-5.10", "free versions", None, "", ended(ZIP64, 12, 1, 2, 3, 4)),
    LargeRow("Z-5.11", "disk of the record", ended(ZIP64, 60, 1), "multi-disk", ZIP64),
    LargeRow("Z-5.11", "offset of the record", ended(ZIP64, 64, 1), "the zip64 locator points to", ZIP64),
    LargeRow("Z-5.11", "number of disks", ended(ZIP64, 72, 2), "multi-disk", ZIP64),
    LargeRow("Z-5.8", "65,535 entries", many(MANY, False), "the zip64 locator .* must be", many(MANY, True)),
    LargeRow(
        "Z-5.8",
        "65,534 entries",
        many(MANY - 1, True, entries=MAX_16, on_disk=MAX_16),
        "entries_on_disk is",
        many(MANY - 1, False),
    ),
    LargeRow(
        "Z-2.4",
        "65,534 entries, zip64 unmentioned",
        many(MANY - 1, True),
        "the directory ends at",
        None,
    ),
    LargeRow(
        "Z-5.1",
        "65,536 entries as none",
        many(MANY + 1, False, entries=0, on_disk=0),
        "0 entries need",
        many(MANY + 1, True),
    ),
    *(
        LargeRow(
            "Z-5.1",
            f"2**64 - {2**64 - count} entries",
            ended(ZIP64, 24, *struct.pack("<2Q", count, count)),
            "entries need",
            ZIP64,
        )
        for count in (1 << 62, 1 << 63, (1 << 64) - 1)
    ),
    LargeRow(
        "Z-5.9",
        "one number of entries of two",
        many(MANY, True, entries=0),
        "entries is 0 in the end",
        None,
    ),
    LargeRow(
        "Z-5.8", "directory beyond 4 GiB, no zip64", large(EDGE, with_zip64=False), "the zip64 locator", large(EDGE)
    ),
    LargeRow(
        "Z-5.8",
        "directory below 4 GiB",
        large(EDGE - 200, end={"offset": MAX_32}),
        "directory_offset is",
        large(EDGE - 200, with_zip64=False),
    ),
    LargeRow(
        "Z-2.4",
        "offset of the directory, lower 32 bits",
        large(EDGE, with_zip64=False, end={"offset": 114}),
        "the directory ends",
        large(EDGE),
    ),
    LargeRow(
        "Z-5.9",
        "offset of the directory told in part",
        large(EDGE, end={"offset": 114, "entries": MAX_16}),
        "in the end record",
        large(EDGE),
    ),
    LargeRow(
        "Z-5.6",
        "offset of 4 GiB - 1 without zip64",
        large(EDGE, last=b"\0\0\0\0"),
        "extra record 0x0000",
        large(EDGE),
        breaks="Z-5.5",
    ),
    LargeRow(
        "Z-5.6",
        "offset of 4 GiB - 1, no zip64 record",
        large(EDGE, last=zip64()),
        "must hold 1 values",
        large(EDGE),
    ),
    LargeRow(
        "Z-5.6",
        "offset of 4 GiB - 2 with zip64",
        large(EDGE - 1, last=zip64(MAX_32 - 1)),
        "must hold 0 values",
        large(EDGE - 1),
    ),
    LargeRow(
        "Z-5.5",
        "offset in a record of another kind",
        large(EDGE, last=extra(2, struct.pack("<Q", MAX_32))),
        "extra record 0x0002",
        large(EDGE),
    ),
    *(
        LargeRow(
            "Z-5.5",
            f"zip64 record of 8 bytes as one of {nbytes}",
            large(EDGE, last=struct.pack("<2HQ", 1, nbytes, MAX_32)),
            reason,
            large(EDGE),
        )
        for nbytes, reason in ((16, "extra"), (0, "extra"))
    ),
    LargeRow("Z-2.2", "offset of another place", large(EDGE, last=zip64(MAX_32 + 1)), "begins at byte", large(EDGE)),
    LargeRow(
        "Z-3.9", "4 GiB - 1, no zip64 in the local header", large(MAX_32, b"", FULL), "must hold 2 values", BEYOND
    ),
    LargeRow(
        "Z-3.9",
        "4 GiB - 2 with zip64",
        large(MAX_32 - 1, zip64(MAX_32 - 1, MAX_32 - 1)),
        "must hold 0 values",
        large(MAX_32 - 1),
    ),
    LargeRow(
        "Z-3.9",
        "4 GiB with a smaller size in the local header",
        large(MAX_32 + 1, FULL, zip64(MAX_32 + 1, MAX_32 + 1)),
        "differ from",
        large(MAX_32 + 1, zip64(MAX_32 + 1, MAX_32 + 1), zip64(MAX_32 + 1, MAX_32 + 1)),
    ),
    *(
        LargeRow("Z-3.6", f"sizes in full differ {where}", large(MAX_32, local, central), "differ|take", BEYOND, breaks)
        for where, local, central, breaks in (
            ("in the directory", FULL, UNEQUAL, ""),
            ("in the local header", UNEQUAL, FULL, "Z-3.9"),
            ("in both", UNEQUAL, UNEQUAL, ""),
        )
    ),
    LargeRow("Z-5.6", "4 GiB - 1, no zip64 in the directory", large(MAX_32, FULL), "must hold 2 values", BEYOND),
    LargeRow(
        "Z-5.6",
        "4 GiB - 1, zip64 with a needless offset",
        large(MAX_32, FULL, zip64(MAX_32, MAX_32, 0)),
        "must hold 2 values",
        BEYOND,
    ),
    LargeRow(
        "Z-3.7",
        "zip64 twice",
        large(MAX_32, FULL + FULL, FULL),
        "extra record 0x0001",
        large(MAX_32, PADDING + FULL, FULL),
    ),
    LargeRow(
        "Z-3.7",
        "zip64 before the padding, and a third record",
        large(MAX_32, FULL + PADDING + PADDING, FULL),
        "extra record 0x5a4f",
        large(MAX_32, FULL + PADDING, FULL),
    ),
    LargeRow("Z-5.5", "zip64 twice in the directory", large(MAX_32, FULL, FULL + FULL), "extra record 0x0001", BEYOND),
    LargeRow("Z-5.12", "version 20 of an entry with zip64", None, "", large(MAX_32, FULL, FULL, fields={"needed": 20})),
]
