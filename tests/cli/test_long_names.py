"""Names in a model have any length; what the commands say on stderr stays readable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from formats.cli.columns import MAX_LINE, cut
from formats.cli.verbs import VERBS
from tests import commands

LONG = "x" * 6000

# Each works on what the lines before it have written, if they could.
LINES = (
    "inspect m.onnx --nodes --shapes --macs --dim n=1",
    "verify m.onnx --data",
    "convert m.onnx o.rten",
    "convert m.onnx o.ort",
    "convert m.onnx o.onnxz",
    "convert m.onnx o.textproto",
    "convert m.onnx o.json",
    "convert m.onnx split.onnx --external-data --one-file-per-tensor --size-threshold 0",
    "convert m.onnx - --to onnx",
    "convert m.onnx - --to onnx --dtype float16",
    "convert m.onnx o.onnx --opset 9",
    "convert m.onnx o.onnx --runtime rten --force",
    "convert m.onnx o.onnx --weights-dtype int4 --int32 --force",
    "convert m.onnx n.onnx --same-data --strict",
    *(f"convert o.{name} o2.rten" for name in ("onnxz", "ort", "json", "textproto")),
    "convert o.rten o2.onnx",
    *(f"verify o.{name}" for name in ("rten", "ort", "onnxz")),
    "batch m.onnx --out batch --to rten --jobs 1",
    "edit m.onnx e.onnx --fold --prune --dim n=1",
    "edit m.onnx e.onnx --rename none=u",
    "edit m.onnx e.onnx --bypass none",
    "edit m.onnx e.onnx --set-operator n1=none",
    "edit m.onnx e.onnx --add-output none",
    "edit m.onnx e.onnx --weights none.npz",
    "edit m.onnx e.onnx --input-to-initializer none=none.npy",
    "extract m.onnx e.onnx --outputs none",
    "extract m.onnx e.npy --tensor none",
    "merge m.onnx plain.onnx b.onnx --connect y=a --prefix b/",
    "diff m.onnx plain.onnx",
    "files m.onnx",
    "cp m.onnx copy.onnx",
    "mv copy.onnx moved.onnx --dry-run",
    "rm m.onnx --dry-run",
    "share m.onnx plain.onnx --out shared",
    "pack m.onnx plain.onnx p.onnxz",
    "unpack p.onnxz unpacked",
    "repair m.onnx",
)


def plain() -> onnx.ModelProto:
    """A model with each kind of text: of nodes, subgraphs, functions, types, metadata and data files."""
    values = {name: helper.make_tensor_value_info(name, 1, ["n", 32]) for name in "asuvy"}
    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(op_type, ["t"], [end])], name, [], [values[end]])
        for name, op_type, end in (("then", "Identity", "u"), ("else", "Neg", "v"))
    }
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["s"], name="n1", doc_string="text"),
        helper.make_node("Custom", ["s"], ["t"], name="n2", domain="my", number=1.0, text="text", texts=["a", "b"]),
        helper.make_node("If", ["c"], ["y"], name="n3", **branches),
    ]
    weight = onnx.TensorProto(name="w", data_type=1, dims=[32, 32], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", "4096"), ("checksum", "text")):
        weight.external_data.add(key=key, value=value)
    inputs = [values["a"], helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [values["y"]], [weight], "text", [values["s"]])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "Custom", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], opsets[:1])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function], producer_name="text")
    model.producer_version, model.domain, model.doc_string = "text", "text", "text"
    helper.set_model_props(model, {"key": "value"})
    return model


def texts(message: Any, place: str = "") -> Iterator[tuple[str, Any, Any, int]]:
    """Each text in a message: its place, the message that has it, the field, and which one of the field it is."""
    for field, value in message.ListFields():
        for index, one in enumerate(value if field.is_repeated else [value]):
            name = f"{place}.{field.name}[{index}]" if field.is_repeated else f"{place}.{field.name}"
            if field.type == field.TYPE_MESSAGE:
                yield from texts(one, name)
            elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
                yield name, message, field, index


@pytest.mark.sample(12)
@pytest.mark.parametrize("place", [place for place, *_ in texts(plain())])
def test_no_line_of_an_error_is_long(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever text of a model has 6,000 letters, in each format, no verb prints it whole on stderr."""
    monkeypatch.chdir(tmp_path)
    model = plain()
    _, message, field, index = next(each for each in texts(model) if each[0] == place)
    value = LONG if field.type == field.TYPE_STRING else LONG.encode()
    if field.is_repeated:
        getattr(message, field.name)[index] = value
    else:
        setattr(message, field.name, value)
    for name, each in (("m", model), ("plain", plain())):
        Path(f"{name}.onnx").write_bytes(each.SerializeToString())
    Path("w.data").write_bytes(bytes(4096))
    np.savez("none.npz", none=np.ones((2, 2), "float32"))
    np.save("none.npy", np.ones((2, 2), "float32"))
    for line in LINES:
        said = commands.run("formats", *line.split()).stderr
        assert [] == [text[:300] for text in said.splitlines() if len(text) > MAX_LINE], line
        assert "bug in formats" not in said


def test_every_verb_is_tried() -> None:
    """A new verb is among the lines."""
    assert {verb.name for verb in VERBS} == {line.split()[0] for line in LINES} | {"completion"}


@pytest.mark.parametrize("name", [LONG, "\n" * 6000, "x y" * 2000, "é" * 6000, "a.b/" * 1500])
def test_a_long_name_is_cut_in_its_middle(name: str) -> None:
    """What is before and behind the name stays, such as the advice."""
    line = cut(f"error: m.onnx: no weight is called {name!r}; the only weight is {name}; see `formats inspect`")
    assert line.startswith("error: m.onnx: no weight is called ")
    assert line.endswith("; see `formats inspect`")
    assert len(line) <= MAX_LINE
    assert cut("a short line") == "a short line"


def test_a_refusal_by_a_batch_is_that_of_a_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error with several reasons comes from another process with a line for each, as it does from the same one."""
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("None1", ["x"], ["t"]), helper.make_node("None2", ["t"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), "m.onnx")
    alone = commands.run("formats", "convert", "m.onnx", "m.rten").stderr.splitlines()
    assert len(alone) == 3
    batch = commands.run("formats", "batch", "m.onnx", "--out", "out", "--to", "rten", "--jobs", "1").stderr
    assert [line.removeprefix("formats: ") for line in alone] == batch.splitlines()
