"""The golden archive, byte by byte, the test vectors, and the numbers of the specification."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

from formats import onnxzip
from formats.tensordata.sources.source import Literal
from tests.systems import PATIENCE_SECONDS

GOLDEN = Path(__file__).with_name("golden")
SMALL = GOLDEN / "small.onnxz"
VECTORS = GOLDEN / "vectors.json"
SPECIFICATION = Path(__file__).parents[2] / "docs" / "onnxz.md"


def test_writer_makes_the_golden_archive() -> None:
    """The script next to the golden archive still makes the same bytes."""
    assert SMALL.read_bytes() == runpy.run_path(str(GOLDEN / "make.py"))["archive"]()


def test_reader_gives_the_golden_model() -> None:
    """The golden archive contains the model that its script made."""
    assert runpy.run_path(str(GOLDEN / "make.py"))["model"]() == onnxzip.CODEC.read(Literal(SMALL.read_bytes()), None)


def test_golden_archive_is_shown() -> None:
    """The text next to the golden archive has every byte of it, at the offset that it shows."""
    shown = bytearray()
    for line in SMALL.with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        offset, octets = line[:4], line[6:53]
        assert int(offset, 16) == len(shown)
        shown += bytes.fromhex(octets)
    assert SMALL.read_bytes() == shown
    assert f"[An archive of {len(shown)} bytes]" in SPECIFICATION.read_text(encoding="utf-8")


def test_vectors_are_those_of_the_reader() -> None:
    """The script next to the vectors still makes the same ones, and the Rust crate has the same ones."""
    script = runpy.run_path(str(GOLDEN / "vectors.py"))
    for name, content in script["files"]().items():
        for folder in script["FOLDERS"]:
            assert (folder / name).read_text(encoding="utf-8") == content
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert len({vector["name"] for vector in vectors}) == len(vectors) > 400
    assert f"{len(vectors)} test vectors" in SPECIFICATION.with_name("rfc.md").read_text(encoding="utf-8")


def requirements() -> dict[str, str]:
    """Return the requirements of the specification by their numbers."""
    document = SPECIFICATION.read_text(encoding="utf-8")
    return dict(re.findall(r"^- \*\*(Z-\d+\.\d+)\*\* (.*?)(?=^- \*\*Z-|^\S|\Z)", document, re.MULTILINE | re.DOTALL))


def test_every_must_has_a_vector_that_is_refused_and_one_that_is_taken() -> None:
    """Each MUST about the bytes of a file is tested both ways, and vectors name existing requirements."""
    numbers = requirements()
    assert len(numbers) > 60
    vectors = json.loads(VECTORS.read_text(encoding="utf-8")) + json.loads((GOLDEN / "large.json").read_text())
    refused = {vector["requirement"] for vector in vectors if "refused" in vector}
    taken = {vector["requirement"] for vector in vectors if "taken" in vector}
    must = {number for number, text in numbers.items() if "MUST" in text and "Z-2" <= number < "Z-8"}
    assert must <= refused & taken
    assert refused | taken <= set(numbers)
    assert {vector["breaks"] for vector in vectors if "refused" in vector} <= must


def test_numbers_in_the_code_are_those_of_the_specification() -> None:
    """Each requirement that the code names is in the specification, and each MUST about files is in the code."""
    code = "".join(path.read_text(encoding="utf-8") for path in Path(onnxzip.__file__).parent.rglob("*.py"))
    told = set(re.findall(r"\bZ-\d+\.\d+\b", code))
    numbers = requirements()
    assert told <= set(numbers)
    assert {number for number, text in numbers.items() if "MUST" in text and "Z-2" <= number < "Z-8"} <= told


def test_published_vectors_are_complete_and_the_same_twice(tmp_path: Path) -> None:
    """The zip file has a file and a line for each archive of the vectors, with its verdict and SHA-256."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        command = [sys.executable, GOLDEN / "published.py", tmp_path / folder]
        subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    one, two = (tmp_path / folder / "onnxz-vectors-1.0.zip" for folder in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    archive = zipfile.ZipFile(one)
    root = zipfile.Path(archive, "onnxz-vectors-1.0/")
    header, *lines = (line.split("\t") for line in (root / "vectors.tsv").read_text(encoding="utf-8").splitlines())
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    expected = [(each[verdict], verdict) for each in vectors for verdict in ("refused", "taken") if verdict in each]
    found = [((root / row["file"]).read_bytes(), row) for row in rows]
    assert expected == [(data.hex(), row["strict"]) for data, row in found]
    assert all(row["sha256"] == hashlib.sha256(data).hexdigest() for data, row in found)
    assert sum(row["loading"] == "refused" for row in rows) == sum("loading" in each for each in vectors) > 150
    others = {"README.txt", "vectors.tsv", "small.onnxz", "small.txt", "large.json"}
    names = {info.filename.removeprefix("onnxz-vectors-1.0/") for info in archive.infolist()}
    assert others | {row["file"] for row in rows} == names
    assert len(names) == len({name.casefold() for name in names}) == len(archive.infolist())
