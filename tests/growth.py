"""Models and folders in which something is many, and the measure of a command line or an edit in them.

    python -m tests.growth 'to rten' FOLDER FOLDER

prints what it takes in a copy of each folder. Each kind adds to all models of `make_folder`, or to its files.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.onnxpb.encryption import crypt
from tests.commands import run
from tests.routes import LINES, make_folder, make_models

FLOATS = TensorProto.FLOAT


def number(name: str) -> onnx.TensorProto:
    """A weight of one number."""
    return numpy_helper.from_array(np.ones(1, "float32"), name)


def begin(model: onnx.ModelProto, nodes: list[onnx.NodeProto], last: str) -> None:
    """Put nodes, and one that does nothing, in front of the others, which get `last` in place of the model's input."""
    others = [*model.graph.node]
    others[0].input[0] = "begun"
    del model.graph.node[:]
    model.graph.node.extend([*nodes, helper.make_node("Identity", [last], ["begun"]), *others])


def nodes(model: onnx.ModelProto, count: int) -> None:
    """Nodes in a row, half of which do nothing, with described values."""
    first = model.graph.input[0]
    names = [first.name, *(f"t{index}" for index in range(count))]
    made = [
        helper.make_node("Identity" if index % 2 else "Relu", names[index : index + 1], names[index + 1 : index + 2])
        for index in range(count)
    ]
    for name in names[1::2]:
        model.graph.value_info.add(name=name, type=first.type)
    begin(model, made, names[-1])


def weights(model: onnx.ModelProto, count: int) -> None:
    """Nodes in a row, each with a weight."""
    names = [model.graph.input[0].name, *(f"t{index}" for index in range(count))]
    made = [helper.make_node("Add", [names[index], f"k{index}"], [names[index + 1]]) for index in range(count)]
    model.graph.initializer.extend([number(f"k{index}") for index in range(count)])
    begin(model, made, names[-1])


def uses(model: onnx.ModelProto, count: int) -> None:
    """Nodes that all use one value, and one that uses all of theirs."""
    first = model.graph.input[0].name
    made = [helper.make_node("Identity", [first], ["t"])]
    made += [helper.make_node("Add", ["t", f"k{index}"], [f"t{index}"]) for index in range(count)]
    made.append(helper.make_node("Sum", [f"t{index}" for index in range(count)], ["sum of all"]))
    model.graph.initializer.extend([number(f"k{index}") for index in range(count)])
    begin(model, made, "sum of all")


def constants(model: onnx.ModelProto, count: int) -> None:
    """Nodes in a row with constants that other nodes compute from weights and shapes."""
    names = [model.graph.input[0].name, *(f"t{index}" for index in range(count // 4))]
    made = []
    for index, (before, after) in enumerate(pairwise(names)):
        made.append(helper.make_node("Constant", [], [f"c{index}"], value=number("")))
        made.append(helper.make_node("Neg", [f"c{index}"], [f"d{index}"]))
        made.append(helper.make_node("Shape", [before], [f"s{index}"]))
        made.append(helper.make_node("Add", [before, f"d{index}"], [after]))
    begin(model, made, names[-1])


def branches(model: onnx.ModelProto, count: int, depth: int = 1) -> None:
    """Nodes with subgraphs, in which all values have equal names, and which use values of outside."""
    last = model.graph.input[0].name
    model.graph.initializer.extend([number("k"), numpy_helper.from_array(np.array(True), "yes")])
    made = []
    for index in range(count // (4 * depth)):
        branch: list[onnx.NodeProto] = []
        for _ in range(depth):
            graphs = {}
            for name in ("then", "else"):
                inner = [helper.make_node("Add", [last, "k"], ["a"]), *branch, helper.make_node("Relu", ["a"], ["b"])]
                ends = [helper.make_tensor_value_info("b", FLOATS, None)]
                graphs[f"{name}_branch"] = helper.make_graph(inner, name, [], ends)
                branch = []
            branch = [helper.make_node("If", ["yes"], ["c"], **graphs)]
        branch[0].output[0] = last = f"t{index}"
        made += branch
    begin(model, made, last)


def nested(model: onnx.ModelProto, count: int) -> None:
    """Nodes with subgraphs of eight levels."""
    branches(model, count, 8)


def functions(model: onnx.ModelProto, count: int) -> None:
    """A function for each node."""
    names = [model.graph.input[0].name, *(f"t{index}" for index in range(count))]
    model.ir_version = max(model.ir_version, 8)
    model.opset_import.append(helper.make_opsetid("own", 1))
    for index in range(count):
        body = [helper.make_node("Identity", ["given"], ["same"]), helper.make_node("Relu", ["same"], ["made"])]
        made = helper.make_function("own", f"F{index}", ["given"], ["made"], body, model.opset_import[:1])
        model.functions.append(made)
    calls = [helper.make_node(f"F{index}", [names[index]], [names[index + 1]], domain="own") for index in range(count)]
    begin(model, calls, names[-1])


def ends(model: onnx.ModelProto, count: int) -> None:
    """Inputs and outputs, each with a name of a dim."""
    begin(model, [], model.graph.input[0].name)
    for index in range(count // 2):
        names = (f"x{index}", f"y{index}")
        start, end = (helper.make_tensor_value_info(name, FLOATS, [f"n{index}", 4, 1, 1]) for name in names)
        model.graph.input.append(start)
        model.graph.output.append(end)
        model.graph.node.append(helper.make_node("Relu", names[:1], names[1:]))


def metadata(model: onnx.ModelProto, count: int) -> None:
    """Entries of metadata, and domains."""
    begin(model, [], model.graph.input[0].name)
    helper.set_model_props(model, {f"key{index}": f"value{index}" for index in range(count // 2)})
    model.opset_import.extend([helper.make_opsetid(f"domain{index}", 1) for index in range(count // 2)])


def summed(model: onnx.ModelProto, count: int) -> None:
    """Weights that one node sums."""
    names = [f"k{index}" for index in range(count)]
    model.graph.initializer.extend(map(number, names))
    begin(model, [helper.make_node("Sum", [model.graph.input[0].name, *names], ["sum of all"])], "sum of all")


def put_outside(folder: Path, count: int, add: Callable[[onnx.ModelProto, int], None], location: str) -> None:
    """Add weights to the models that have data files, each in the file with its number, or all in the same."""
    for name in ("data.onnx", "models/data.onnx"):
        model = onnx.load(folder / name, load_external_data=False)
        add(model, count)
        for index, tensor in enumerate(model.graph.initializer[-count:]):
            with (folder / name).with_name(location.format(index)).open("ab") as file:
                places = {
                    "location": Path(file.name).name,
                    "offset": file.tell(),
                    "length": file.write(tensor.raw_data),
                }
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in places.items():
                tensor.external_data.add(key=key, value=str(value))
        onnx.save(model, folder / name)


def data_files(folder: Path, count: int) -> None:
    """A model in as many data files as it has weights."""
    put_outside(folder, count, weights, "k{}.bin")


def external_weights(folder: Path, count: int) -> None:
    """A model with many weights in one data file."""
    put_outside(folder, count, summed, "all.bin")


def models(folder: Path, count: int) -> None:
    """Models in the folder, half of which have a data file."""
    pieces = [(folder / name).read_bytes() for name in ("m.onnx", "data.onnx", "weights.bin")]
    for place in (folder, folder / "models"):
        for index in range(count // 2):
            (place / f"a{index}.onnx").write_bytes(pieces[0])
            (place / f"b{index}.onnx").write_bytes(pieces[1].replace(b"weights.bin", b"%011d" % index))
            (place / f"{index:011d}").write_bytes(pieces[2])


def entries(folder: Path, count: int) -> None:
    """Models and other files in an archive."""
    for index in range(count // 2):
        (folder / f"note{index}").write_text("note")
    names = [folder / f"note{index}" for index in range(count // 2)]
    more = [f"m{index}={folder / 'image.onnx'}" for index in range(count // 2)]
    places = [f"files/note{index}={name}" for index, name in enumerate(names)]
    parts = [f"a={folder / 'm.onnx'}", folder / "wide.onnx", *more, *places]
    formats.pack(parts, folder / "two.onnxz", overwrite=True)


OF_FOLDERS = {f"{verb} of a folder": f"{verb} models" for verb in ("files", "inspect", "verify", "repair")}
OF_FOLDERS["rm of all in a folder"] = "rm models/*.onnx"
IN_MODEL: dict[str, Callable[[onnx.ModelProto, int], None]] = {
    made.__name__: made for made in (nodes, weights, uses, constants, branches, nested, functions, ends, metadata)
}
IN_FOLDER: dict[str, Callable[[Path, int], None]] = {
    made.__name__: made for made in (data_files, external_weights, models, entries)
}


def make(kind: str, count: int, folder: Path, *, for_edits: bool = False) -> None:
    """Write the folder of all command lines, or the models for edits, in which there are so many more of a kind."""
    folder.mkdir()
    if for_edits:
        make_models(folder, lambda model: IN_MODEL[kind](model, count))
    elif kind in IN_MODEL:
        make_folder(folder, lambda model: IN_MODEL[kind](model, count))
    else:
        make_folder(folder)
        IN_FOLDER[kind](folder, count)


def all_names(model: Any) -> dict[str, str]:
    """New names for all values of the main graph."""
    names = {output for node in model.graph.node for output in node.output}
    return {name: f"new_{name}" for name in names | {value.name for value in model.graph.input}}


def with_layouts(model: Any) -> Any:
    """The model with uint8 inputs, and another layout of all inputs and outputs."""
    names = [value.name for value in (*model.graph.input, *model.graph.output)]
    inputs = [value.name for value in model.graph.input]
    return model.edit(uint8_input=inputs, scale="1/255", layout=dict.fromkeys(names, "NHWC"))


EDITS: dict[str, Callable[[Any], object]] = {
    "rename all": lambda model: model.rename(all_names(model)),
    "bypass": lambda model: model.bypass("Identity"),
    "bypass by name": lambda model: model.edit(bypass="Identity"),
    "add outputs": lambda model: model.edit(add_output="all"),
    "remove outputs": lambda model: model.edit(
        add_output="all", remove_output=[node.output[0] for node in model.graph.node[1:]]
    ),
    "prefix": lambda model: model.edit(prefix="a/"),
    "node settings": lambda model: model.edit(
        set_operator={node.output[0]: node.op_type for node in model.graph.node},
        set_attribute={f"{node.output[0]}.axis": 1 for node in model.graph.node if node.op_type == "Concat"},
    ),
    "strip": lambda model: model.edit(strip_docs=True, strip_training=True),
    "fold": lambda model: model.edit(fold=True),
    "uint8 and layout": with_layouts,
    "prune": lambda model: model.edit(prune=True),
    "dedup": lambda model: formats.dumps(model, "onnx", dedup=True),
    "weights as inputs and back": lambda model: model.edit(
        initializer_to_input=[tensor.name for tensor in model.graph.initializer] or None
    ).edit(input_to_initializer={tensor.name: tensor for tensor in model.graph.initializer}),
    "extract the last output": lambda model: model.extract(outputs=[model.graph.output[-1].name]),
    "merge with itself": lambda model: model.merge(model),
    "merge in a row": lambda model: model.merge(model, {model.graph.output[0].name: model.graph.input[0].name}),
    "merge with a prefix": lambda model: model.merge(model, prefix="second/"),
    "a dim": lambda model: model.edit(dim={model.graph.input[0].type.tensor_type.shape.dim[0].dim_param: 2}),
    "dims": lambda model: model.edit(dim={f"{value.name}:0": 2 for value in model.graph.input}),
    "opset up": lambda model: formats.dumps(model, "onnx", opset=18),
    "opset down": lambda model: formats.dumps(model, "onnx", opset=13),
    "all in float16": lambda model: formats.dumps(model, "onnx", dtype="float16"),
    "float16 but most": lambda model: formats.dumps(
        model, "onnx", dtype="float16", keep=[node.name for node in model.graph.node if node.name] or ["MatMul"]
    ),
    "int32": lambda model: formats.dumps(model, "onnx", int32=True),
    "float32": lambda model: formats.dumps(model, "onnx", dtype="float32"),
    "int4": lambda model: formats.dumps(model, "onnx", weights_dtype="int4", runtime="onnxruntime"),
    "int4 of plain ONNX": lambda model: formats.dumps(model, "onnx", weights_dtype="int4"),
    "sort": lambda model: model.sort(),
    "find": lambda model: model.find(lambda op, x, y: op.Add(op.Identity(x), y)),
    "rewrite": lambda model: model.rewrite(lambda op, x: op.Identity(x), lambda op, x: op.Abs(op.Abs(x))),
    "rewrite to nothing": lambda model: model.rewrite(lambda op, x: op.Identity(x), lambda op, x: x),
    "values": lambda model: model.values(),
    "to onnxz": lambda model: formats.dumps(model, "onnxz"),
    "to rten": lambda model: formats.dumps(model, "rten"),
    "to ort": lambda model: formats.dumps(model, "ort"),
    "to json": lambda model: formats.dumps(model, "json"),
    "for rten": lambda model: formats.dumps(model, "onnx", runtime="rten"),
    "for onnxruntime": lambda model: formats.dumps(model, "onnx", runtime="onnxruntime==1.16"),
}


class Cost(NamedTuple):
    """Seconds on the processor, and the peak of memory in bytes above what the process had before."""

    seconds: float
    nbytes: int


def resident_nbytes(name: str) -> int:
    """A size of this process, as Linux counts it; elsewhere 0."""
    status = Path("/proc/self/status")
    found = re.search(rf"{name}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


@contextmanager
def copy_of(template: Path) -> Iterator[None]:
    """A context in which the working folder is a copy of a folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(shutil.copytree(template, Path(place) / "folder"))
        try:
            yield
        finally:
            os.chdir(before)


def words_of(use: str) -> list[str]:
    """The words of a command line in the working folder; patterns of files are expanded as a shell does."""
    words = (LINES | OF_FOLDERS).get(use, use).split()
    return [each for word in words for each in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]


def cost(use: str, template: Path) -> Cost:
    """What a command line, by its name or itself, or an edit of a model, takes in a copy of a folder."""
    with copy_of(template):
        gc.collect()
        gc.disable()  # as in a command; else only the larger sizes are searched for garbage
        if Path("/proc/self/clear_refs").exists():
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        held, before = resident_nbytes("VmRSS"), time.process_time()
        if use in EDITS:
            EDITS[use](formats.load("image.onnx" if use == "uint8 and layout" else "m.onnx"))
        else:
            run("formats", *words_of(use))
        gc.enable()
        return Cost(time.process_time() - before, resident_nbytes("VmHWM") - held)


def costs(use: str, folders: Sequence[str | Path]) -> list[Cost]:
    """What a use takes in each folder, after one run in the first, which imports what it needs."""
    return [cost(use, Path(folder)) for folder in (folders[0], *folders)][1:]


if __name__ == "__main__":
    crypt.KEY_ITERATIONS = 1
    print(json.dumps(costs(sys.argv[1], sys.argv[2:])))
