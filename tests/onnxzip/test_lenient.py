"""Archives of other zip tools are read with notes if their meaning is clear; others are refused."""

from __future__ import annotations

import io
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import formats
from formats import onnxzip
from formats.errors import DecodeError, FormatError, OptionError
from formats.ir.model import Graph, Model, StringStringEntry, Tensor
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.plan import lay_out
from formats.tensordata.sources.source import Concat, Literal
from tests.onnxzip.archives import bytes_of
from tests.onnxzip.vector_rows.rows import ROWS
from tests.programs import need

DATA = bytes(range(16))
EXTERNAL = 1


def reference(**places: str) -> Tensor:
    """Return a tensor of 8 bytes in an entry."""
    entries = [StringStringEntry(*place) for place in {"location": "w", **places}.items()]
    return Tensor(name="t", dims=[8], data_type=2, data_location=EXTERNAL, external_data=entries)


def graph(*tensors: Tensor) -> bytes:
    """Return the serialised graph of these tensors."""
    model = Model(graph=Graph(initializer=list(tensors or (reference(),))))
    return Concat.of(*(write.source for write in lay_out(encode(model))[0])).read()


class Pipe:
    """A file that can only be appended to."""

    def __init__(self, buffer: io.BytesIO) -> None:
        self.write = buffer.write
        self.flush = buffer.flush


def zipped(
    *entries: tuple[str, bytes], change: Callable[[zipfile.ZipFile], None] | None = None, stream: bool = False
) -> bytes:
    """Return what `zipfile` writes for these entries; as a stream without seeking, sizes come after the data."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(Pipe(buffer) if stream else buffer, "w") as archive:  # type: ignore[arg-type]
        for name, data in entries:
            archive.writestr(name, data)
        if change:
            change(archive)
    return buffer.getvalue()


def read(data: bytes) -> tuple[Model, list[str]]:
    """Return the model, and the notes as text."""
    model, notes = onnxzip.CODEC.read_lenient(Literal(data), None)
    assert {"lenient"} >= {note.kind for note in notes}
    return model, [note.detail for note in notes]


def elements(model: Model) -> bytes:
    """Return the bytes of the only tensor."""
    assert model.graph is not None
    return model.graph.initializer[0].source().read()


def comment(archive: zipfile.ZipFile) -> None:
    """Give the archive a comment."""
    archive.comment = b"made by hand"


def entry_comment(archive: zipfile.ZipFile) -> None:
    """Give an entry a comment."""
    archive.infolist()[0].comment = b"weights"


def directory_first(archive: zipfile.ZipFile) -> None:
    """Reverse the directory."""
    archive.filelist.reverse()


def hide(archive: zipfile.ZipFile) -> None:
    """Remove an entry from the directory only."""
    archive.filelist.remove(archive.getinfo("hidden"))


W, PROTO = ("w", DATA[:8]), ("__MODEL_PROTO", graph())
ODD = [
    pytest.param(zipped(W, PROTO), "are not at a multiple of 64 bytes", id="unaligned"),
    pytest.param(zipped(W, PROTO, change=comment), "comment of 12 bytes", id="comment"),
    pytest.param(zipped(W, PROTO, change=entry_comment), "1 of 2 entries have comments", id="comment of an entry"),
    pytest.param(zipped(PROTO, W), "__MODEL_PROTO is not the last", id="order"),
    pytest.param(zipped(W, PROTO, change=directory_first), "not in the order of the entries", id="directory order"),
    pytest.param(zipped(W, PROTO, stream=True), "2 of 2 entries have their sizes after", id="data descriptors"),
    pytest.param(zipped(("d/", b""), W, PROTO), "1 of 3 entries are directories", id="directory"),
    pytest.param(zipped(W, ("README.md", b"hello"), PROTO), "1 entries belong to no tensor", id="unreferenced"),
    pytest.param(zipped(W, ("W", b"hello"), PROTO), "differ only in case", id="case"),
    pytest.param(zipped(W, ("hidden", b""), PROTO, change=hide), "36 bytes belong to no entry", id="hidden"),
    pytest.param(zipped(("m/w", DATA[:8]), ("m/__MODEL_PROTO", graph())), "in the directory 'm/'", id="in a directory"),
]


@pytest.mark.parametrize(("data", "note"), ODD)
def test_what_is_clear_is_read_and_told(data: bytes, note: str) -> None:
    """The model is read, and every deviation is reported."""
    model, notes = read(data)
    assert DATA[:8] == elements(model)
    assert [True] == [note in told for told in notes if note in told]


@pytest.mark.parametrize("data", [param.values[0] for param in ODD[1:]], ids=[str(param.id) for param in ODD[1:]])
def test_a_strict_reader_refuses_them(data: bytes) -> None:
    """Without `lenient`, none of them is read, except for an unaligned archive."""
    with pytest.raises(DecodeError):
        onnxzip.CODEC.read(Literal(data), None)


@pytest.mark.sample(3)
def test_our_own_archives_need_no_notes(shared_model: Path, tmp_path: Path) -> None:
    """A lenient reader reads an archive that a strict reader accepts in the same way and without a note."""
    formats.convert(shared_model, tmp_path / "m.onnxz")
    data = (tmp_path / "m.onnxz").read_bytes()
    assert (onnxzip.CODEC.read(Literal(data), None), []) == read(data)


def test_tensors_can_be_parts_of_an_entry() -> None:
    """Offset and length have the same meaning as in external data; a range outside of the entry is refused."""
    assert DATA[4:12] == elements(
        read(zipped(("w", DATA), ("__MODEL_PROTO", graph(reference(offset="4", length="8")))))[0]
    )
    for places in ({"offset": "9", "length": "8"}, {"offset": "-1"}, {"length": "9" * 30}, {"location": "v"}):
        with pytest.raises(FormatError):
            read(zipped(("w", DATA), ("__MODEL_PROTO", graph(reference(**places)))))


def compressed(archive: zipfile.ZipFile) -> None:
    """Add a compressed entry."""
    archive.writestr("c", bytes(100), zipfile.ZIP_DEFLATED)


def twice(archive: zipfile.ZipFile) -> None:
    """Add an entry with an existing name."""
    with pytest.warns(UserWarning):
        archive.writestr("w", DATA)


def link(archive: zipfile.ZipFile) -> None:
    """Add a symbolic link."""
    info = zipfile.ZipInfo("l")
    info.external_attr = 0o120777 << 16
    archive.writestr(info, b"/etc/passwd")


def edited(data: bytes, signature: bytes, offset: int, octets: bytes) -> bytes:
    """Return the archive with other bytes at `offset` from a signature."""
    place = data.index(signature) + offset
    return data[:place] + octets + data[place + len(octets) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(zipped(W, PROTO, change=compressed), "compressed", id="compressed"),
        pytest.param(zipped(W, PROTO, change=twice), "two entries are called 'w'", id="twice"),
        pytest.param(zipped(W, PROTO, change=link), "is a link", id="link"),
        pytest.param(zipped(W), "0 entries are called __MODEL_PROTO", id="no graph"),
        pytest.param(zipped(W, PROTO, ("a/__MODEL_PROTO", b"")), "2 entries are called __MODEL_PROTO", id="two graphs"),
        pytest.param(zipped(("x", b""), PROTO), "not an entry of the archive", id="missing"),
        pytest.param(zipped(W, PROTO) + b"\0", "follows it", id="trailing byte"),
        pytest.param(b"\0" + zipped(W, PROTO), "inserted before", id="byte in front"),
        pytest.param(zipped(("a\\w", DATA), PROTO), "programs read differently", id="backslash"),
        pytest.param(edited(zipped(W, PROTO), b"PK\1\2", 8, b"\1"), "encrypted", id="encrypted"),
        pytest.param(edited(zipped(W, PROTO), b"PK\1\2", 8, b"\0\x08"), "flags of entry", id="flags"),
        pytest.param(edited(zipped(W, PROTO), b"PK\3\4", 14, b"\0"), "crc32 of entry", id="checksum"),
        pytest.param(edited(zipped(W, PROTO), b"PK\3\4", 22, b"\7"), "size of entry", id="size"),
        pytest.param(edited(zipped(W, PROTO), b"PK\3\4", 30, b"v"), "another name", id="name"),
        pytest.param(edited(zipped(W, PROTO), b"PK\1\2", 42, b"\1"), "where the local header", id="offset"),
        pytest.param(edited(zipped(W, PROTO), b"PK\5\6", 10, b"\3"), "has 2 entries", id="count"),
        pytest.param(edited(zipped(W, PROTO), b"PK\5\6", 4, b"\1"), "multi-disk", id="disk"),
    ],
)
def test_what_is_not_clear_is_refused(data: bytes, reason: str) -> None:
    """If two programs could read different contents, or data are compressed, a lenient reader refuses it, too."""
    with pytest.raises(FormatError, match=reason):
        read(data)


def test_entries_that_overlap_are_refused() -> None:
    """Two entries of the directory at one offset are refused."""
    data = zipped(W, ("v", DATA[:8]), PROTO)
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    moved = data[: second + 42] + bytes(4) + data[second + 46 :]
    with pytest.raises(DecodeError, match=r"another name|overlaps"):
        read(moved)


def test_a_second_end_record_in_the_comment_is_refused() -> None:
    """A comment that is itself an end record makes a file ambiguous, so it is refused."""
    inner = b"PK\5\6" + bytes(18)
    with pytest.raises(DecodeError, match="2 end records"):
        read(zipped(W, PROTO, change=lambda archive: setattr(archive, "comment", inner)))


@pytest.mark.sample(5)
@pytest.mark.parametrize("flags", [["-0", "-r"], ["-0", "-r", "-fd"], ["-0", "-r", "-X", "-D"], ["-0", "-r", "-fz"]])
def test_archives_of_zip_are_read(tmp_path: Path, flags: list[str], command: Any) -> None:
    """An archive that Info-ZIP's `zip -0 -r` makes of an unpacked model converts only with `--lenient`."""
    need("zip")
    (tmp_path / "m" / "more").mkdir(parents=True)
    for name, data in (("w", DATA[:8]), ("__MODEL_PROTO", graph()), ("more/README", b"hello")):
        (tmp_path / "m" / name).write_bytes(data)
    subprocess.run(["zip", "-q", *flags, "a.onnxz", "m"], cwd=tmp_path, check=True)
    done = command("a.onnxz", "b.onnx")
    assert (1, True) == (done.returncode, done.stderr.startswith("convert: error: a.onnxz"))
    done = command("a.onnxz", "b.onnx", "--lenient", "--strict")
    assert (0, "") == (done.returncode, done.stderr)
    assert "note: passed over: " in done.stdout
    assert DATA[:8] == elements(formats.load(tmp_path / "b.onnx"))
    assert formats.load(tmp_path / "b.onnx") == formats.load(tmp_path / "a.onnxz", lenient=True)


def test_other_formats_have_no_lenient_reader(tiny_model: Path) -> None:
    """For formats without a lenient reader, `lenient` changes nothing."""
    assert formats.load(tiny_model) == formats.load(tiny_model, lenient=True)


def test_what_is_valid_is_read_alike() -> None:
    """An archive that is valid gives the same model, or an error of the same kind, without leniency and with it."""
    compared = 0
    for row in ROWS:
        if row.taken is None:
            continue
        source, found = Literal(bytes_of(row.taken)), list[Any]()
        for load in (onnxzip.CODEC.read, lambda *given: onnxzip.CODEC.read_lenient(*given)[0]):
            try:
                found.append(load(source, None))
            except (FormatError, OptionError) as error:
                found.append(isinstance(error, OptionError))
        assert found[0] == found[1], row.name
        compared += isinstance(found[0], Model)
    assert compared > 100


def test_bytes_and_paths_are_checked(tmp_path: Path) -> None:
    """`check` takes the bytes of an archive, or its path, and names the requirement that is broken."""
    data = zipped(("w", DATA[:8]), ("__MODEL_PROTO", graph()))
    (tmp_path / "m.onnxz").write_bytes(data)
    onnxzip.check(tmp_path / "m.onnxz")
    for given in (data[:-1], bytearray(data[:-1])):
        with pytest.raises(FormatError) as caught:
            onnxzip.check(given)
        assert caught.value.requirement == "Z-2.1"
