"""Every verb, option and edit takes time and memory in proportion to what can be many.

By day, small sizes are timed in this process; `.ci/nightly` takes large ones, and their memory, in a process for each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from itertools import product
from math import log
from pathlib import Path

import pytest

from formats.onnxpb.encryption import crypt
from tests.growth import EDITS, IN_FOLDER, IN_MODEL, OF_FOLDERS, Cost, costs, make, resident_nbytes
from tests.routes import LINES
from tests.systems import NIGHT, OF_THE_DAY

pytestmark = pytest.mark.outer
MOST = 1.15 if NIGHT else 1.3  # of the exponent: 1 is linear, 2 quadratic; small sizes are measured less well
TRIES = 5  # another process can make a run longer, never shorter
TINY = 4
LEAST = Cost(0.1, 16 << 20) if NIGHT else Cost(0.02, sys.maxsize)  # less is not measured well; by day, no memory is
# The small and the large size of each kind.
BY_DAY = dict.fromkeys(IN_MODEL, (400, 4000)) | dict.fromkeys(IN_FOLDER, (50, 500))
BY_NIGHT = dict.fromkeys(IN_MODEL, (4000, 40_000)) | dict.fromkeys(IN_FOLDER, (500, 5000))
BY_DAY["external_weights"], BY_NIGHT["external_weights"] = BY_DAY["weights"], BY_NIGHT["weights"]
BY_NIGHT["functions"] = (1000, 10_000)  # onnx infers no shapes of a model with more
SIZES = BY_NIGHT if NIGHT else BY_DAY
# The sizes of each day of what once grew with the square, which small sizes do not always show.
EACH_DAY = dict.fromkeys(product(("rename all", "opset up"), ("branches",)), (2000, 20_000))
EACH_DAY |= dict.fromkeys(product(("cp", "data files replaced"), ("data_files",)), (1000, 10_000))
EACH_DAY["files of a folder", "models"] = BY_DAY["models"]
EACH_DAY |= dict.fromkeys(
    product(("verify of a folder", "repair of a folder", "rm of all in a folder"), ("models",)), (200, 2000)
)
CASES = [*product(EDITS, IN_MODEL), *product(LINES, SIZES), *product(OF_FOLDERS, IN_FOLDER)]
# The bytes of memory that each further weight in a data file may take.
BYTES = {
    "files data.onnx": 1300,
    "rm models/data.onnx": 1300,
    "mv models/data.onnx there/ --parents": 1300,
    "mv models/data.onnx models/moved.onnx": 1700,
    "cp models/data.onnx models/copy.onnx": 1700,
    "convert data.onnx new.onnxz": 1700,
    "convert data.onnx new.onnx --no-external-data": 1700,
    "convert data.onnx data.onnx --force": 1900,
    "edit data.onnx data.onnx --force --metadata a=b": 1900,
    "inspect data.onnx": 2000,
    "convert data.onnx new.onnx": 2100,
    "convert data.onnx new.rten": 2100,
    "diff data.onnx models/data.onnx": 2500,
}
FEW, MANY = (4000, 200_000) if NIGHT else (1000, 16_000)
PARTS = 20 if NIGHT else 24
PARTS_OF_EDITS = 5


def is_of_today(use: str, kind: str) -> bool:
    """Whether a case is in the part of the day: with small sizes, a fifth of the edits is."""
    parts = PARTS_OF_EDITS if use in EDITS and not NIGHT else PARTS
    return (use, kind) in EACH_DAY or zlib.crc32(f"{use} {kind}".encode()) % parts == OF_THE_DAY % parts


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, bool], Path]:
    """Return a function that makes the folder of a kind and size, or one for edits alone."""
    root = tmp_path_factory.mktemp("growth")

    def folder(kind: str, count: int, for_edits: bool) -> Path:
        path = root / f"{kind} {count} {for_edits}"
        if not path.exists():
            make(kind, count, path, for_edits=for_edits)
        return path

    return folder


def exponents(tiny: Cost, small: Cost, large: Cost, ratio: float) -> list[float]:
    """By which power of the size the time and the memory grow, without what a tiny size takes."""
    return [
        log(max(most - start, least) / max(some - start, least), ratio)
        for start, some, most, least in zip(tiny, small, large, LEAST, strict=True)
    ]


def test_exponents() -> None:
    """What does not depend on the size has no part in the exponent; what is too little to be measured is 0."""
    assert exponents(Cost(1, 0), Cost(2, 0), Cost(5, 0), 4) == [1, 0]
    assert exponents(Cost(1, 0), Cost(2, 0), Cost(17, 0), 4) == [2, 0]


def test_names() -> None:
    """No edit has the name of a command line, which would not be measured."""
    assert not EDITS.keys() & (LINES | OF_FOLDERS).keys()


@pytest.mark.parametrize(
    ("use", "kind"), sorted(filter(lambda case: is_of_today(*case), CASES), key=lambda case: case[1])
)
def test_work_grows_with_the_number(
    use: str, kind: str, folder_of: Callable[[str, int, bool], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can be many takes time and memory in proportion to how many there are."""
    monkeypatch.setattr(crypt, "KEY_ITERATIONS", 1)
    small, large = SIZES[kind] if NIGHT else EACH_DAY.get((use, kind), SIZES[kind])
    folders = [folder_of(kind, count, use in EDITS) for count in (TINY, small, large)]
    least = [Cost(float("inf"), sys.maxsize)] * len(folders)
    for _ in range(TRIES):
        least = [Cost(*map(min, old, new)) for old, new in zip(least, measured(use, folders), strict=True)]
        found = exponents(*least, ratio=large / small)
        if max(found) < MOST:
            break
    assert max(found) < MOST, least


def measured(use: str, folders: list[Path]) -> list[Cost]:
    """What a use takes in each folder; by night in a process that has nothing else in memory."""
    return measured_alone(use, folders) if NIGHT else costs(use, folders)


@pytest.mark.skipif(not resident_nbytes("VmHWM"), reason="needs the peak of memory, as Linux counts it")
@pytest.mark.parametrize("line", BYTES)
def test_an_external_weight_takes_little_memory(line: str, folder_of: Callable[[str, int, bool], Path]) -> None:
    """Each weight in a data file takes about a KiB, or little more in verbs that hold old and new places of all."""
    few, many = measured_alone(line, [folder_of("external_weights", count, False) for count in (FEW, MANY)])
    assert (many.nbytes - few.nbytes) / (MANY - FEW) <= BYTES[line]


def measured_alone(use: str, folders: list[Path]) -> list[Cost]:
    """What a use takes in each folder, in a process that has nothing else in memory."""
    command = [sys.executable, "-m", "tests.growth", use, *map(str, folders)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=True)
    return [Cost(*each) for each in json.loads(done.stdout)]
