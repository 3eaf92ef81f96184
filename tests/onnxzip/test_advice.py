"""Errors about refused archives: they name the requirement that the archive breaks, and say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import formats
from formats.errors import DecodeError, FormatError
from tests.commands import run
from tests.onnxzip.archives import (
    PADDING,
    Member,
    Zip,
    bytes_of,
    external,
    message,
    number,
    of,
    one,
    tensor,
    with_extra,
)
from tests.onnxzip.vector_rows.rows import ROWS

FOREIGN = bytes_of(with_extra(b"", PADDING))
COMPRESSED = bytes_of(one(method=8))
WRONG_LENGTH = bytes_of(of(tensor(places=external(location="w", length="7"))))
NO_MODEL = next(bytes_of(row.taken) for row in ROWS if not row.is_model and row.taken is not None)
LENIENT = "if another zip tool made the file, `formats convert --lenient` reads it"
ADVICE = [
    (FOREIGN, f"(.onnxz 1.0, Z-5.5); {LENIENT}"),
    (COMPRESSED, "(.onnxz 1.0, Z-3.4); unpack it and archive the files again with `zip -0`"),
    (WRONG_LENGTH, "(.onnxz 1.0, Z-7.5)"),
    (NO_MODEL, "; the archive is valid, but the graph in it is not"),
]


@pytest.mark.parametrize(("data", "advice"), ADVICE)
@pytest.mark.parametrize("verb", ["inspect", "verify", "diff", "convert"])
def test_every_command_says_what_is_broken_and_what_to_do(verb: str, data: bytes, advice: str, tmp_path: Path) -> None:
    """A refused archive is one error with the number of the requirement, and with what to do, if that is known."""
    path = tmp_path / "a.onnxz"
    path.write_bytes(data)
    others = {"diff": [path], "convert": [tmp_path / "b.onnx"]}.get(verb, [])
    done = run("formats", verb, path, *others)
    assert {"diff": 2}.get(verb, 1) == done.exit_code  # 1 means that models differ
    assert done.output.splitlines()[0].endswith(advice)
    assert [path] == list(tmp_path.iterdir())


def test_remedy_works(tmp_path: Path) -> None:
    """`--lenient` reads the archive for whose error it is suggested, and writes a valid archive."""
    (tmp_path / "a.onnxz").write_bytes(FOREIGN)
    assert 0 == run("formats", "convert", "--lenient", tmp_path / "a.onnxz", tmp_path / "b.onnxz").exit_code
    found = formats.verify(tmp_path / "b.onnxz")
    assert {"V204"} == {error.code for error in found.errors}  # the small graph in it imports no operator set


def test_lenient_is_offered_only_where_it_helps() -> None:
    """`--lenient` does not accept an ambiguous archive either, and the error does not suggest it."""
    offered = set()
    for row in ROWS:
        if row.refused is not None:
            try:
                formats.loads(bytes_of(row.refused), format="onnxz")
            except FormatError as error:
                if LENIENT in str(error):
                    offered.add(row.requirement)
    assert {"Z-3.3", "Z-3.7", "Z-4.2", "Z-5.2", "Z-5.5", "Z-7.11"} <= offered
    assert offered.isdisjoint({"Z-2.5", "Z-3.4", "Z-6.1", "Z-7.3", "Z-7.10"})


def test_programs_find_the_number(tmp_path: Path) -> None:
    """The number is an attribute of the error, and is in the JSON of the command."""
    path = tmp_path / "a.onnxz"
    path.write_bytes(FOREIGN)
    with pytest.raises(DecodeError) as caught:
        formats.load(path)
    assert "Z-5.5" == caught.value.requirement
    said = run("formats", "convert", path, tmp_path / "b.onnx", "--json")
    assert "Z-5.5" == json.loads(said.stdout)["error"]["requirement"]


def test_graph_that_is_wrong_is_no_cut_file() -> None:
    """If the graph in a complete archive ends too early, the error does not suggest an incomplete download."""
    with pytest.raises(FormatError) as caught:
        formats.loads(NO_MODEL)
    assert "cut short" not in str(caught.value)


def test_graph_that_is_wrong_where_it_is_not_decoded_is_refused(tmp_path: Path) -> None:
    """An undecoded node among many is checked, too, on read and on write."""
    right, wrong = (message(1, message(5, message(1, b"axis"), field)) for field in (number(3, 1), message(6, b"\xff")))
    for nodes, is_right in (([right] * 2000, True), ([*[right] * 1000, wrong, *[right] * 1000], False)):
        graph = message(7, *nodes)
        (tmp_path / "m.onnx").write_bytes(graph)
        data = Zip([Member(b"__MODEL_PROTO", graph)]).bytes()
        if is_right:
            formats.loads(data)
            formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz")
        else:
            with pytest.raises(DecodeError, match=r"Z-6\.1"):
                formats.loads(data)
            with pytest.raises(DecodeError, match="wire type 7 does not exist"):
                formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnxz")
            assert not (tmp_path / "n.onnxz").exists()


def test_repair_says_that_an_archive_is_not_valid(tmp_path: Path) -> None:
    """`repair` cures interrupted writes; of an archive that another tool made, it says why readers refuse it."""
    path = tmp_path / "a.onnxz"
    path.write_bytes(FOREIGN)
    done = run("formats", "repair", path)
    assert 1 == done.exit_code
    assert "this is no valid archive" in done.output
    assert "--lenient" in done.output
    assert "Z-5.5" in formats.repair(path).refused
