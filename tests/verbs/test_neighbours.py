"""What else lies in the folder of a model is not opened, or only once, and never decoded, by any verb in any run."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.cli.verbs import VERBS
from formats.onnxpb.external import other_graphs
from formats.onnxpb.wire import decoder
from tests.commands import run
from tests.verbs.test_model_files import model

COUNT = 12
_opened: Counter[str] | None = None  # how often each file was opened, while a test listens


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open" and arguments[1] is None:  # by `os.open`, as all files of models are
        _opened[Path(str(arguments[0])).name] += 1


sys.addaudithook(_listen)

# Per verb: commands that run one after the other, and how often each may open a neighbour. `in` is a model in one file,
# `data` one with a data file, `z` an archive.
ROWS: dict[str, list[tuple[str, int]]] = {
    "convert": [
        ("in.onnx new.onnx", 0),
        ("in.onnx new.onnx --force --clean --backup", 0),
        ("in.onnx new.onnx --force --clean --backup", 0),
        ("in.onnx new.rten", 0),
        ("in.onnx new.rten --force", 0),
        ("in.onnx new.onnxz", 0),
        ("in.onnx new.onnxz --force", 1),
        ("in.onnx new.onnxz --force --backup", 1),
        ("in.onnx new.onnxz --force --backup", 1),
        ("in.onnx ext.onnx --external-data --size-threshold 0", 0),
        ("in.onnx ext.onnx --external-data --size-threshold 0 --force", 1),
        ("in.onnx ext.onnx --external-data --size-threshold 0 --force --backup", 1),
        ("in.onnx ext.onnx --external-data --size-threshold 0 --force --backup --clean", 1),
        ("in.onnx ext.onnx --force --clean", 1),
        ("z.onnxz linked.onnx --link", 0),
        ("z.onnxz linked.onnx --link --force", 0),
    ],
    "batch": [
        ("in.onnx data.onnx --out b --parents --to onnxz", 0),
        ("in.onnx data.onnx --out b --to onnxz --force", 0),
        ("in.onnx --out . --to onnxz --jobs 1", 0),
        ("in.onnx --out . --to onnxz --jobs 1 --force", 1),
    ],
    "edit": [
        ("in.onnx edited.onnx --metadata a=b", 0),
        ("in.onnx edited.onnx --metadata a=b --force", 0),
        ("data.onnx data.onnx --metadata a=b --force", 0),
        ("z.onnxz --metadata a=b", 1),
    ],
    "extract": [("data.onnx part.onnx --outputs y1", 0), ("data.onnx part.onnx --outputs y1 --force", 1)],
    "merge": [
        ("in.onnx data.onnx joined.onnx --connect y2=y0", 0),
        ("in.onnx data.onnx joined.onnx --connect y2=y0 --force", 1),
    ],
    "inspect": [("in.onnx", 0), ("data.onnx", 0), ("z.onnxz", 0)],
    "verify": [("in.onnx", 0), ("data.onnx --data", 0), ("z.onnxz --data", 0)],
    "diff": [("in.onnx z.onnxz", 0), ("in.onnx data.onnx", 0)],
    "files": [("in.onnx", 0), ("z.onnxz", 1), ("data.onnx", 1)],
    "cp": [
        ("in.onnx c.onnx", 0),
        ("in.onnx c.onnx --force", 0),
        ("data.onnx d.onnx", 0),
        ("data.onnx d.onnx --force", 1),
        ("data.onnx d.onnx --force --backup", 1),
    ],
    "mv": [("in.onnx c.onnx", 0), ("z.onnxz y.onnxz", 1), ("data.onnx d.onnx", 1)],
    "rm": [("in.onnx", 0), ("z.onnxz", 1), ("data.onnx --all-data", 1)],
    "share": [
        ("in.onnx data.onnx --out . --external-data common.data --force", 1),
        ("in.onnx data.onnx --out s --parents", 0),
    ],
    "pack": [("in.onnx data.onnx p.onnxz", 0), ("in.onnx data.onnx p.onnxz --force", 0)],
    "unpack": [("z.onnxz u", 0)],
    "repair": [("in.onnx", 0), ("data.onnx", 0), ("z.onnxz", 0)],
    "completion": [("bash", 0)],
}
CASES = [(verb, number) for verb, rows in ROWS.items() for number in range(len(rows))]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a folder with three models and their neighbours, some of which have data files."""
    folder = tmp_path_factory.mktemp("start")
    formats.save(model(), folder / "in.onnx")
    formats.save(model(2), folder / "data.onnx", external_data=True)
    formats.save(model(), folder / "z.onnxz")
    for number in range(COUNT):
        formats.save(model(3), folder / f"neighbour{number}.onnx", external_data=number % 2 == 0)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_verb_has_a_row() -> None:
    """A new verb says what it does with neighbours."""
    assert [verb.name for verb in VERBS] == [*ROWS]


@pytest.mark.parametrize("verb", ROWS)
def test_neighbours_are_not_decoded(
    verb: str, start: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command opens a neighbour as often as its row says, and decodes none; all neighbours stay as they were."""
    global _opened
    decoded: Counter[str] = Counter()
    decode_in = decoder.decode_in

    def spy(family: Any, name: str, source: Any, *arguments: Any, **options: Any) -> Any:
        decoded.update(file.path.name for file in source.files())
        return decode_in(family, name, source, *arguments, **options)

    for name, data in start.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(decoder, "decode_in", spy)
    monkeypatch.setattr(other_graphs, "_answered", {})
    for words, times in ROWS[verb]:
        other_graphs._answered.clear()
        _opened = opened = Counter()
        try:
            done = run("formats", verb, *words.split())
        finally:
            _opened = None
        assert done.exit_code in ((0, 1) if verb == "diff" else (0,)), (words, done.output)
        most = {name: count for name, count in opened.items() if name.startswith("neighbour")}
        assert (words, times) == (words, max(most.values(), default=0))
        assert not [name for name in decoded if name.startswith("neighbour")], words
    assert all((tmp_path / name).read_bytes() == data for name, data in start.items() if name.startswith("neighbour"))
