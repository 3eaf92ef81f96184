"""The readers in Python, Rust, JavaScript and C agree on each file: all accept it, with equal offsets, or none does.

If a refused file breaks several requirements, the readers may report different ones.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import formats
from formats import onnxzip
from formats.codecs.contract import ReadOptions
from formats.errors import FormatError
from formats.onnxzip.graph import check_external, visit_graph
from formats.onnxzip.reader import read_contents, read_entries
from formats.tensordata.sources.source import Literal
from tests.onnxzip import c_reader, rust_reader
from tests.onnxzip.vector_rows.large import LARGE_ROWS
from tests.programs import need
from tests.systems import NIGHT, PATIENCE_SECONDS

pytestmark = pytest.mark.outer

GOLDEN = Path(__file__).with_name("golden")
ROOT = Path(__file__).parents[2]
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"size_threshold": 1},
    {"alignment": 1},
    {"alignment": 4096},
    {"size_threshold": 100_000, "dedup": True},
)
CONTAINER_MUTANTS = GRAPH_MUTANTS = 3000 if NIGHT else 1000
TELLING = (0x00, 0x01, 0x02, 0x07, 0x08, 0x0D, 0x10, 0x2A, 0x39, 0x45, 0x6A, 0x70, 0x7F, 0x80, 0xFE, 0xFF)
"""Bytes that have a meaning in zip or in Protocol Buffers."""
Verdict = dict[str, Any]


def of_python(path: Path) -> Verdict:
    """Return the verdict of our own reader, in the form of the others."""
    source = Literal(path.read_bytes())
    refusals = [
        refusal(lambda: onnxzip.check(source)),
        refusal(lambda: onnxzip.CODEC.read(source, None, last_model(source))),
    ]
    if refusals != ["", ""]:
        assert all(refusals), f"{path.name}: to check it and to read its model differ: {refusals}"
        return {"ok": False, "requirement": refusals[0]}
    places = {entry.name: [entry.name, entry.payload_offset, entry.nbytes] for entry in read_entries(source)}
    contents = read_contents(source)
    sizes = {entry.name: entry.nbytes for entry in contents.tensors}
    tensors: list[list[Any]] = []
    for entry in contents.graphs.values():
        _, offset, nbytes = places[entry.name]
        graph = source.slice(offset, nbytes)
        visit_graph(graph, lambda tensor: tensors.append(places[check_external(tensor, sizes)]))
    digest = hashlib.sha256(path.read_bytes()[offset : offset + nbytes]).hexdigest()
    return {"ok": True, "graph": digest, "entries": [*places.values()], "tensors": tensors}


def last_model(source: Literal) -> ReadOptions:
    """Return the options that choose the last model, if there is one."""
    try:
        return ReadOptions(model=onnxzip.CODEC.bundle(source).models[-1])
    except FormatError:
        return ReadOptions()


def refusal(read: Callable[[], object]) -> str:
    """Return the number of the requirement that a file breaks, or nothing if only its graph is not an ONNX model."""
    try:
        read()
    except FormatError as error:
        return error.requirement or ""
    return ""


def of_program(command: list[str | Path], paths: list[Path]) -> list[Verdict]:
    """Return the verdict of another reader on each file."""
    lines = "".join(f"{path}\n" for path in paths)
    done = subprocess.run(
        command, input=lines, capture_output=True, encoding="utf-8", timeout=PATIENCE_SECONDS, check=True
    )
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(paths)
    return verdicts


def comparable(verdict: Verdict) -> Verdict:
    """Return the part of a verdict on which readers must agree; the order of tensors may differ."""
    if not verdict["ok"]:
        return {"ok": False}
    return {**verdict, "tensors": sorted(verdict["tensors"])}


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the C reader; a wrong access to memory, or undefined behaviour, ends it with an error."""
    folder = tmp_path_factory.mktemp("c")
    return c_reader.built("readers/c/tests/verdicts.c", folder / "verdicts", *c_reader.SANITIZERS)


@pytest.fixture
def programs(c_program: Path) -> dict[str, list[str | Path]]:
    """The commands of the other readers; each reads a path per line and prints a verdict per line."""
    need("node")
    javascript = ROOT / "readers" / "js" / "tests" / "verdicts.js"
    return {"Rust": [rust_reader.program("verdicts")], "JavaScript": ["node", javascript], "C": [c_program]}


@pytest.fixture
def compare(programs: dict[str, list[str | Path]]) -> Callable[[list[Path]], list[Verdict]]:
    """Return a function that compares the verdicts of the readers on files, and returns them."""

    def compare(paths: list[Path]) -> list[Verdict]:
        ours = [of_python(path) for path in paths]
        for language, command in programs.items():
            theirs = of_program(command, paths)
            for path, our, their in zip(paths, ours, theirs, strict=True):
                assert their["ok"] or their["requirement"], f"{language}, {path.name}: {their}"
                assert comparable(our) == comparable(their), f"{language}, {path.name}: {our} and {their}"
        return ours

    return compare


def vectors() -> Iterator[tuple[str, bytes]]:
    """Yield the test vectors, each with `taken` or `refused`."""
    for vector in json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8")):
        for kind in vector.keys() & {"taken", "refused"}:
            yield kind, bytes.fromhex(vector[kind])


def seeds() -> list[bytes]:
    """Return small valid archives, each once."""
    found = {data for kind, data in vectors() if kind == "taken" and len(data) < 2000}
    return sorted(found | {(GOLDEN / "small.onnxz").read_bytes()})


def written(contents: list[bytes], folder: Path) -> list[Path]:
    """Return new files with the contents."""
    paths = [folder / f"{number}.onnxz" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def mutant(rng: random.Random, data: bytes, foreign: bytes) -> bytes:
    """Return bytes with changes in one to four places, partly pieces of other archives."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(8)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(changed):
            changed[at] = rng.choice(TELLING)
        elif kind == 2 and at < len(changed):
            changed[at] = (changed[at] + rng.choice((-1, 1))) % 256
        elif kind == 3:
            del changed[at : at + rng.choice((1, 2, 4, 20))]
        elif kind == 4:
            changed[at:at] = bytes(rng.choice(TELLING) for _ in range(rng.choice((1, 2, 4))))
        elif kind == 5:
            start = rng.randrange(len(foreign))
            piece = foreign[start : start + rng.choice((2, 8, 30, 46))]
            changed[at : at + rng.choice((0, len(piece)))] = piece
        elif kind == 6:
            value = rng.choice((0, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 1 << 31, len(changed)))
            changed[at : at + 4] = struct.pack("<I", value)
        else:
            end = rng.randrange(at, len(changed) + 1)
            changed[at:at] = changed[at : min(end, at + 64)]
    return bytes(changed)


def with_graph(archive: bytes, graph: bytes) -> bytes:
    """Return an archive with the entries of another one and this graph, written by Python's `zipfile`."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        for entry in read_entries(Literal(archive)):
            name, start = entry.name, entry.payload_offset
            payload = graph if name == "__MODEL_PROTO" else archive[start : start + entry.nbytes]
            target.writestr(zipfile.ZipInfo(name), payload)
    return made.getvalue()


def test_vectors(compare: Callable[..., list[Verdict]], tmp_path: Path) -> None:
    """All readers accept or refuse each test vector, as it says."""
    kinds, contents = zip(*vectors(), strict=True)
    verdicts = compare(written([*contents], tmp_path))
    assert [verdict["ok"] for verdict in verdicts] == [kind == "taken" for kind in kinds]


def test_large_vectors(programs: dict[str, list[str | Path]], tmp_path: Path) -> None:
    """All readers agree on the vectors over 4 GiB, or with 65,535 entries; `test_reader.py` tests ours."""
    paths, taken = [], []
    for row in LARGE_ROWS:
        for is_taken, parts in ((False, row.refused), (True, row.taken)):
            if parts is not None:
                paths.append(tmp_path / f"{len(paths)}.onnxz")
                taken.append(is_taken)
                with paths[-1].open("wb") as file:
                    for part in parts:
                        if part.zeros:
                            file.truncate(file.seek(part.zeros, io.SEEK_CUR))
                        else:
                            file.write(part.made())
    for language, command in programs.items():
        verdicts = of_program(command, paths)
        assert [verdict["ok"] for verdict in verdicts] == taken, language


def test_archives_of_models(compare: Callable[..., list[Verdict]], shared_models: list[Path], tmp_path: Path) -> None:
    """All readers accept what we write, and find the same entries, tensors and graph."""
    paths = []
    for model in (*shared_models, ROOT / "examples" / "digits.onnx"):
        for number, options in enumerate(SETTINGS):
            paths.append(tmp_path / f"{model.stem}.{number}.onnxz")
            formats.convert(model, paths[-1], **options)
    verdicts = compare(paths)
    assert all(verdict["ok"] for verdict in verdicts)
    assert sum(len(verdict["tensors"]) for verdict in verdicts) > 10 * len(paths)


def test_mutants_of_containers(compare: Callable[..., list[Verdict]], tmp_path: Path) -> None:
    """All readers agree on archives with changes anywhere."""
    rng = random.Random(1)
    originals = seeds()
    contents = [mutant(rng, rng.choice(originals), rng.choice(originals)) for _ in range(CONTAINER_MUTANTS)]
    verdicts = compare(written(contents, tmp_path))
    broken = {verdict["requirement"].split(".")[0] for verdict in verdicts if not verdict["ok"]}
    assert broken >= {"Z-2", "Z-3", "Z-4", "Z-5", "Z-6", "Z-7"}
    assert sum(verdict["ok"] for verdict in verdicts) > CONTAINER_MUTANTS / 50


def test_mutants_of_graphs(compare: Callable[..., list[Verdict]], shared_models: list[Path], tmp_path: Path) -> None:
    """All readers agree on valid archives whose graph has changes anywhere."""
    rng = random.Random(2)
    originals = seeds()
    for model in shared_models[::6]:  # one or two of each exporter; few changes in them hit an important byte
        formats.convert(model, tmp_path / "m.onnxz", overwrite=True)
        originals.append((tmp_path / "m.onnxz").read_bytes())
    graphs = {archive: graph_of(archive) for archive in originals}
    contents = []
    for _ in range(GRAPH_MUTANTS):
        archive = rng.choice(originals)
        contents.append(with_graph(archive, mutant(rng, graphs[archive], rng.choice([*graphs.values()]))))
    verdicts = compare(written(contents, tmp_path))
    assert {verdict["requirement"][:3] for verdict in verdicts if not verdict["ok"]} == {"Z-6", "Z-7"}
    assert sum(verdict["ok"] for verdict in verdicts) > GRAPH_MUTANTS / 20


def graph_of(archive: bytes) -> bytes:
    """Return the bytes of the graph of an archive."""
    entry = read_entries(Literal(archive))[-1]
    return archive[entry.payload_offset : entry.payload_offset + entry.nbytes]
