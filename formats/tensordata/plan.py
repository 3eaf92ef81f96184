"""Plans: which bytes are written to which place. A plan is pure data, and is made without a disk access.

A serialised file is a sequence of segments; `lay_out` turns them into placed writes; a `WritePlan` is the files of
one model with everything that the engine needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from typing import Literal as OneOf  # `Literal` is a source

from formats.tensordata.sources.source import READ_BYTES, Concat, Literal, Source
from formats.words import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from formats.tensordata.file import File
    from formats.tensordata.sources.digest import Digester


SMALL_BYTES = 64 << 10  # a smaller source costs more as a separate write than as a copy through a buffer
MAX_NAMES: Final = 3  # in the short form of a loss


class Align(NamedTuple):
    """Padding with zeros up to the next multiple of `alignment` bytes from the start of the file."""

    alignment: int


Segment: TypeAlias = bytes | Source | Align


# When a loss can be seen, the likely before the rare. The first three matter.
RESULTS: Final = "results"  # the numbers that the model computes from ordinary inputs
INTERFACE: Final = "interface"  # what callers of the model and readers of its files see, such as types and metadata
RANGE: Final = "range"  # numbers beyond what the target holds, such as integers of more than 32 bits
RARE: Final = "rare"  # finite numbers in rare places: half steps, ties, what ONNX does not define
USE: Final = "use"  # how the files can be used; the model is the same
SPECIAL: Final = "special"  # only NaN, infinities and empty tensors
DOCUMENTATION: Final = "documentation"  # nothing that a run can show
Seen: TypeAlias = OneOf["results", "interface", "range", "rare", "use", "special", "documentation"]
SEEN: Final[tuple[Seen, ...]] = (RESULTS, INTERFACE, RANGE, RARE, USE, SPECIAL, DOCUMENTATION)
MATTERING: Final[tuple[Seen, ...]] = (RESULTS, INTERFACE, RANGE)
# The kinds of the losses that can matter, which `allow` names, and what each is about.
ALLOWED_KINDS: Final[Mapping[str, str]] = {
    "assumed_type": "the type of an input that nothing determines",
    "browser_limit": "a file that is too large for browsers",
    "clamped": "integers of constants beyond 32 bits",
    "default_input": "the possibility for a caller to replace a constant",
    "depth": "so many nodes in a row that RTen needs a larger stack",
    "deviation": "what a runtime computes otherwise than ONNX defines",
    "dim": "a dim that nodes need otherwise",
    "dtype": "numbers that are too large for the new type",
    "external_data": "tensors whose data are in another file",
    "interface_type": "the type of an input or output",
    "layout": "weights in an order that is only likely, or right on one kind of machine",
    "metadata": "metadata of the model",
    "no_kernel": "operators that onnxruntime has no kernel for",
    "own_operators": "operators of one runtime, which others may not have",
    "peer_limit": "a file that is too large for another reader of its format",
    "precision": "numbers of a type that is computed in 32 bits",
    "protobuf_limit": "a file that is too large for onnx and onnxruntime",
    "range": "integers that may exceed 32 bits",
    "rounded": "digits of constants",
    "runtime": "what the named release of a runtime does not run",
    "segment": "tensors in segments",
    "shape": "the shape of an output",
    "shared_data": "another model whose data file changes",
    "stale_link": "a linked graph whose archive changes",
    "training_info": "how the model is trained",
    "type": "the type of an input or output that nothing determines",
    "unauthenticated": "parts of an encrypted model that nothing protects",
    "unknown_fields": "fields that the format does not define",
}


class Loss(NamedTuple):
    """Something that a conversion changes or drops."""

    kind: str  # a stable word for programs, such as "clamped" or "doc_string"
    where: str  # a dotted place in the model
    detail: str  # one sentence for people
    seen: Seen = RESULTS  # when it can be seen: this decides the order of a report, and what matters
    unwanted: bool = False  # it matters in any case, because `exact` asked for a result without it
    short: str = ""  # the sentence with a long list cut, if `detail` has one

    @property
    def summary(self) -> str:
        """The sentence with long lists cut."""
        return self.short or self.detail

    @property
    def matters(self) -> bool:
        """Whether it is a warning, which `--strict` refuses; others are notes."""
        return self.unwanted or self.seen in MATTERING

    def to_json(self) -> dict[str, Any]:
        """The loss in strings and truth values."""
        return {
            "kind": self.kind,
            "where": self.where,
            "detail": self.detail,
            "seen": self.seen,
            "matters": self.matters,
        }


@dataclass(slots=True)
class Losses:
    """Losses of the same kind and text as one loss, with the names of what they are about."""

    # By kind, text, when it can be seen, and whether it is unwanted: the places and names.
    _groups: dict[tuple[str, str, Seen, bool], list[tuple[str, str]]] = field(default_factory=dict)

    def add(
        self, kind: str, detail: str, where: str, name: str | None = None, *, seen: Seen, unwanted: bool = False
    ) -> None:
        """Record that something at `where`, called `name`, is lost."""
        self._groups.setdefault((kind, detail, seen, unwanted), []).append((where, name or where or "model"))

    def lines(self) -> tuple[Loss, ...]:
        """One loss for each group, at the first place of the group, with each name once."""
        losses = []
        for (kind, detail, seen, unwanted), places in self._groups.items():
            names = list(dict.fromkeys(name for _, name in places))
            short = f"{detail} ({listed(names, MAX_NAMES)})" if len(names) > MAX_NAMES else ""
            losses.append(Loss(kind, places[0][0], f"{detail} ({', '.join(names)})", seen, unwanted, short))
        return tuple(losses)


def losses_in_order(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """The losses, those that matter first, and the likely before the rare."""
    return tuple(sorted(losses, key=lambda loss: (not loss.matters, SEEN.index(loss.seen))))


class Digest(NamedTuple):
    """The checksum of some bytes; `key` names it in the results."""

    key: str
    algorithm: str | Callable[[], Digester]  # "crc32", "sha256", or a function that makes another digester


class PlacedWrite(NamedTuple):
    """A source for `file_offset` (bytes from the start of the output file)."""

    file_offset: int
    source: Source
    digest: Digest | None = None
    label: str = ""

    @property
    def end(self) -> int:
        """The file offset of the first byte after this write."""
        return self.file_offset + self.source.nbytes


class LateWrite(NamedTuple):
    """Bytes of a known size and place, whose value depends on digests of the bytes that were written before.

    `render` gets the digests by key, each in its usual byte form (a CRC-32 as 4 bytes, big-endian, in the order of its
    hexadecimal form), and returns exactly `nbytes` bytes.
    """

    file_offset: int
    nbytes: int
    render: Callable[[Mapping[str, bytes]], bytes]
    label: str = ""

    @property
    def end(self) -> int:
        """The file offset of the first byte after this write."""
        return self.file_offset + self.nbytes


class FilePlan(NamedTuple):
    """One output file: its size in bytes, and the writes that fill it. All other bytes are zero."""

    path: Path
    nbytes: int
    writes: tuple[PlacedWrite, ...]
    late_writes: tuple[LateWrite, ...] = ()


class Renamed(NamedTuple):
    """The complete file at `old`, which is open as `file`, gets the name `path` as well; its bytes are not touched.

    With `moves`, it gets that name in place of the old one, in the same folder.
    """

    path: Path
    file: File
    old: Path
    moves: bool = False


LEFT_BEHIND = "left_behind"  # the kind of a loss: a data file of a replaced model that stays
OWNER_ACCESS = 0o600  # the owner of a new file can read and write it, even if the source file is write-protected


class Permissions(NamedTuple):
    """The maximum permissions of the files of a plan, in the bits of `chmod`; the umask removes more.

    `decrypted` content may be nowhere on a disk but in the files of the plan.
    """

    new: int = 0o666
    replaced: int = 0o777  # for the permissions of a file that existed before
    decrypted: bool = False


class WritePlan(NamedTuple):
    """All output files of one model, companions first and the model last; or of `models` that share companions.

    `digests` are computed over sources that are not written themselves, such as the hash of a source file. `settings`
    are JSON values that a program needs to load the files, and `usage` is a sentence about what a runtime needs for it.
    The files `used`, by path, are parts of the new model that stay as they are. If `replaced` is given, the model that
    is replaced must still be that file: otherwise another process may have removed what the new one uses. Graphs
    in the same folder that are in `goes` are removed before the files take their places: their data files move.
    """

    files: tuple[FilePlan, ...]
    digests: tuple[tuple[Digest, Source], ...] = ()
    losses: tuple[Loss, ...] = ()
    permissions: Permissions = Permissions()
    models: int = 1  # this number of files, at the end, refer to the other files
    settings: Mapping[str, Any] | None = None
    usage: str = ""
    used: Mapping[Path, File] = MappingProxyType({})
    replaced: File | None = None
    goes: tuple[File, ...] = ()

    @property
    def nbytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.nbytes for file in self.files)


def lay_out(
    segments: Iterable[Segment], *, file_offset: int = 0, small_bytes: int = 0
) -> tuple[list[PlacedWrite], int]:
    """The place of every segment when they follow each other from `file_offset` on, and the offset after the last.

    Neighbouring literal bytes, and sources of less than `small_bytes`, become one write. Empty segments need no write.
    """
    writes: list[PlacedWrite] = []
    parts: list[Source] = []  # of the write that begins at `start`
    pending: list[bytes] = []  # the part after them
    start = position = file_offset

    def end_part() -> None:
        if pending:
            parts.append(Literal(b"".join(pending)))
            pending.clear()

    def end_write() -> None:
        end_part()
        if parts:
            writes.append(PlacedWrite(start, parts[0] if len(parts) == 1 else Concat.of(*parts)))
            parts.clear()

    for segment in segments:
        if isinstance(segment, Align):
            segment = bytes(-position % segment.alignment)
        if isinstance(segment, bytes):
            if segment:
                pending.append(segment)
                position += len(segment)
        elif nbytes := segment.nbytes:
            is_small = nbytes < small_bytes
            if not is_small or position + nbytes - start > READ_BYTES:
                end_write()
                start = position
            end_part()
            parts.append(segment)
            position += nbytes
            if not is_small:
                end_write()
                start = position
    end_write()
    return writes, position


def check_plan(plan: WritePlan) -> None:
    """Check that the writes of each file are disjoint and inside it, that no digest key repeats, and that paths differ.

    Raises: ValueError, because a wrong plan is a mistake of the codec, not of the user.
    """
    paths = [str(file.path).casefold() for file in plan.files]  # some systems treat these as equal
    if len(set(paths)) != len(paths):
        raise ValueError("two files of one plan have the same path")
    keys = [write.digest.key for file in plan.files for write in file.writes if write.digest]
    keys += [digest.key for digest, _ in plan.digests]
    if len(set(keys)) != len(keys):
        raise ValueError("two digests of one plan have the same key")
    for file in plan.files:
        position = 0
        writes: list[PlacedWrite | LateWrite] = sorted(
            (*file.writes, *file.late_writes), key=lambda write: (write.file_offset, write.end)
        )
        for write in writes:
            if write.file_offset < position:
                raise ValueError(f"two writes overlap at byte {write.file_offset} of {file.path}")
            position = write.end
        if position > file.nbytes:
            raise ValueError(f"a write ends at byte {position} of {file.path}, planned as {file.nbytes} bytes")
