"""Values become outputs, and outputs become inner values; what stays an output has the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from tests import commands
from tests.editing.nested_models import nested, results
from tests.editing.test_tripping_models import INPUTS
from tests.editing.tripping_models import tripping


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """The model of the file m.onnx in the current folder, which has the inner value `chosen` and the weight `w`."""
    monkeypatch.chdir(tmp_path)
    proto = nested()
    del proto.graph.output[1]
    onnx.save(proto, "m.onnx")
    return proto


@pytest.mark.parametrize(
    "words,names",
    [
        (["chosen"], ["y", "chosen"]),
        (["ch*", "y"], ["y", "chosen"]),
        (["all"], ["y", "chosen"]),
        (["w,chosen"], ["y", "w", "chosen"]),
    ],
)
def test_values_become_outputs(words: list[str], names: list[str], model: onnx.ModelProto, tmp_path: Path) -> None:
    """Values are named, match a pattern, or are all that nodes make; types are inferred; the numbers are theirs."""
    given = [option for word in words for option in ("--add-output", word)]
    assert commands.run("formats", "edit", "m.onnx", "new.onnx", *given).exit_code == 0
    new = onnx.load("new.onnx")
    onnx.checker.check_model(new, full_check=True)
    assert sorted(value.name for value in new.graph.output) == sorted(names)
    inputs: dict[str, Any] = {"x": np.array([1, 2], "float32"), "first": np.array(True), "second": np.array(True)}
    found = dict(zip([value.name for value in new.graph.output], results(new, tmp_path, **inputs), strict=True))
    x = inputs["x"] + 5
    for name, expected in {"y": x * 2, "chosen": x, "w": [5]}.items():
        if name in names:
            np.testing.assert_array_equal(found[name], expected)
    library = formats.load("m.onnx").edit(add_output=words[0].split(",") if len(words) == 1 else words)
    assert library == formats.load("new.onnx")


@pytest.mark.parametrize("seed", range(6))
def test_outputs_of_any_model_stay_the_same(seed: int, tmp_path: Path) -> None:
    """With all values as outputs, and without them again, models made to trip edits compute the same."""
    old, new, back = (tmp_path / name for name in ("old.onnx", "new.onnx", "back.onnx"))
    onnx.save(tripping(seed), old)
    names = [value.name for value in formats.load(old).graph.output]
    formats.edit(old, new, add_output="all")
    more = [value.name or "" for value in formats.load(new).graph.output][len(names) :]
    assert more
    formats.edit(new, back, remove_output=more)
    assert formats.load(back).graph.output == formats.load(old).graph.output
    for inputs in INPUTS:
        given = {value.name: inputs[value.name] for value in onnx.load(old).graph.input}
        wanted = results(onnx.load(old), tmp_path, **given)
        for path in (new, back):
            onnx.checker.check_model(path, full_check=True)
            for before, after in zip(wanted, results(onnx.load(path), tmp_path, **given)[: len(names)], strict=True):
                np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    "words,message",
    [
        ("--add-output chosn", "no value is called 'chosn'; did you mean chosen"),
        ("--add-output x", "x is an input of the model"),
        ("--remove-output chosen", "no output is called 'chosen'; the only output is y"),
        ("--remove-output y*", "the model would have no output"),
    ],
)
def test_mistakes_are_told(words: str, message: str, model: onnx.ModelProto) -> None:
    """A name that does not fit is an error that says why, and nothing is written."""
    done = commands.run("formats", "edit", "m.onnx", "new.onnx", *words.split())
    assert done.exit_code == 1
    assert message in done.stderr
    assert not Path("new.onnx").exists()
