"""Makes a model of the benchmark: `python benchmarks/models.py NAME DIRECTORY SCALE` prints the path.

A name is `<kind>-<count>.<form>`, such as `float32-256.onnx`; the count is multiplied by SCALE. Kinds:

    float32   a chain of matrix products, each with a weight of 4 MiB
    float16   the same with weights of 2 MiB, of a type that RTen has to widen
    int64     a chain of sums, each with a weight of 8 MiB, of a type that RTen has to narrow
    sparse    as float32, but all weights are holes in the file
    nodes     small convolutions, and sums with a constant of 4 bytes, in turn
    tensors   tensors of 1 KiB, joined a thousand at a time
    typed     two sums, with so many numbers in `float_data` and in `int64_data`
    unpacked  the same, each number behind a tag of its own
    trees     one node, a tree ensemble, whose nine lists have that many elements each
    small     `examples/digits.onnx`, which has no count

Forms: `onnx` has everything in one file, `external` the weights in their own file, `rten`, `onnxz`, and
`safetensors` the weights alone. Weights stream into the file one by one, so that no model is too large to be made.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

SMALL = Path(__file__).resolve().parent.parent / "examples" / "digits.onnx"
WIDTH = 1024
JOINED = 1000
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
OPERATOR_SETS = [helper.make_operatorsetid("", 17), helper.make_operatorsetid("ai.onnx.ml", 3)]


class Weight(NamedTuple):
    """A constant tensor whose elements are yet to be made."""

    name: str
    dims: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return int(np.prod(self.dims)) * self.dtype.itemsize

    def proto(self) -> onnx.TensorProto:
        """The tensor without its elements."""
        return onnx.TensorProto(name=self.name, dims=self.dims, data_type=helper.np_dtype_to_tensor_dtype(self.dtype))

    def elements(self, random: np.random.Generator) -> Array:
        """Random elements that RTen can hold."""
        if self.dtype.kind == "i":
            return random.integers(0, 1 << 30, self.dims, self.dtype)
        return random.random(self.dims, np.float32).astype(self.dtype, copy=False)


class Content(NamedTuple):
    """A model without the elements of its weights."""

    nodes: list[onnx.NodeProto]
    input: onnx.ValueInfoProto
    outputs: list[onnx.ValueInfoProto]
    weights: list[Weight]


def value(name: str, dtype: np.dtype[Any], *dims: int | str) -> onnx.ValueInfoProto:
    """An input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), dims)


def chain(count: int, dtype: np.dtype[Any]) -> Content:
    """Large weights: of matrix products, or of sums where the type is an integer."""
    operator = "Add" if dtype.kind == "i" else "MatMul"
    weights = [Weight(f"w{index}", (WIDTH, WIDTH), dtype) for index in range(count)]
    nodes = [
        helper.make_node(operator, [f"x{index}", weight.name], [f"x{index + 1}"], f"layer{index}")
        for index, weight in enumerate(weights)
    ]
    ends = (value(name, dtype, WIDTH, WIDTH) for name in ("x0", f"x{count}"))
    return Content(nodes, next(ends), [*ends], weights)


def many_nodes(count: int) -> Content:
    """Many nodes with attributes, and half as many tiny weights."""
    dtype = np.dtype("float32")
    settings: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1], "group": 1}
    nodes, weights = [], [Weight("w", (4, 4, 3, 3), dtype)]
    for index in range(count):
        inputs, outputs, name = [f"x{index}"], [f"x{index + 1}"], f"layer.{index}"
        if index % 2:
            weights.append(Weight(f"b{index}", (1,), dtype))
            nodes.append(helper.make_node("Add", [*inputs, f"b{index}"], outputs, name))
        else:
            nodes.append(helper.make_node("Conv", [*inputs, "w"], outputs, name, **settings))
    ends = (value(name, dtype, 1, 4, 8, 8) for name in ("x0", f"x{count}"))
    return Content(nodes, next(ends), [*ends], weights)


def many_tensors(count: int) -> Content:
    """Many small tensors, just large enough to move out of the graph."""
    dtype = np.dtype("float32")
    weights = [Weight(f"layer.{index}.weight", (256,), dtype) for index in range(count)]
    nodes, outputs = [], []
    for start in range(0, count, JOINED):
        names = [weight.name for weight in weights[start : start + JOINED]]
        nodes.append(helper.make_node("Concat", ["x", *names], [f"y{start}"], f"joined{start}", axis=0))
        outputs.append(value(f"y{start}", dtype, 256 * (len(names) + 1)))
    return Content(nodes, value("x", dtype, 256), outputs, weights)


def ensemble(count: int) -> Content:
    """Trees of so many nodes in all."""
    random = np.random.default_rng(0)
    node = onnx.NodeProto(op_type="TreeEnsembleRegressor", domain="ai.onnx.ml", input=["x"], output=["y"])
    for name in ("featureids", "treeids", "nodeids", "truenodeids", "falsenodeids", "missing_value_tracks_true"):
        numbers = random.integers(0, 1 << (1 if name.startswith("missing") else 20), count)
        node.attribute.add(name=f"nodes_{name}", type=onnx.AttributeProto.INTS, ints=numbers)
    for name in ("values", "hitrates"):
        node.attribute.add(name=f"nodes_{name}", type=onnx.AttributeProto.FLOATS, floats=random.random(count))
    modes = [b"LEAF" if is_leaf else b"BRANCH_LEQ" for is_leaf in random.integers(0, 2, count)]
    node.attribute.add(name="nodes_modes", type=onnx.AttributeProto.STRINGS, strings=modes)
    ends = (value(name, np.dtype("float32"), "n", 1) for name in ("x", "y"))
    return Content([node], next(ends), [*ends], [])


def content(kind: str, count: int) -> Content:
    """The model of a kind."""
    if kind == "trees":
        return ensemble(count)
    if kind == "nodes":
        return many_nodes(count)
    if kind == "tensors":
        return many_tensors(count)
    return chain(count, np.dtype("float32" if kind == "sparse" else kind))


# Files


def field(number: int, nbytes: int) -> bytes:
    """The tag and the length of a field of `nbytes` bytes in a protobuf message."""
    encoded = bytearray()
    for rest in (number << 3 | 2, nbytes):
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
    return bytes(encoded)


def write_inline(path: Path, model: Content, *, sparse: bool) -> None:
    """An `.onnx` file with all weights in it, of whatever size, has its fields in the order of their numbers."""
    heads = []
    for weight in model.weights:
        head = weight.proto().SerializeToString() + field(9, weight.nbytes)  # raw_data
        heads.append(field(5, len(head) + weight.nbytes) + head)  # initializer
    before = onnx.GraphProto(node=model.nodes, name="benchmark").SerializeToString()
    after = onnx.GraphProto(input=[model.input], output=model.outputs).SerializeToString()
    sizes = (len(before), *map(len, heads), *(weight.nbytes for weight in model.weights), len(after))
    with path.open("wb") as file:
        file.write(onnx.ModelProto(ir_version=8).SerializeToString() + field(7, sum(sizes)) + before)  # graph
        write_elements(file, model.weights, heads, sparse=sparse)
        file.write(after + onnx.ModelProto(opset_import=OPERATOR_SETS).SerializeToString())


def write_elements(file: BinaryIO, weights: Iterable[Weight], heads: Iterable[bytes], *, sparse: bool = False) -> None:
    """The elements of all weights are in the file, each behind its head."""
    random = np.random.default_rng(0)
    for weight, head in zip(weights, heads, strict=True):
        file.write(head)
        if sparse:
            file.seek(weight.nbytes, os.SEEK_CUR)
        else:
            file.write(weight.elements(random).data)


def write_external(path: Path, model: Content) -> None:
    """An `.onnx` file whose weights are in a file next to it."""
    data = path.with_name("model.data")
    with data.open("wb") as file:
        write_elements(file, model.weights, [b""] * len(model.weights))
    graph = helper.make_graph(model.nodes, "benchmark", [model.input], model.outputs)
    offset = 0
    for weight in model.weights:
        tensor = weight.proto()
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (("location", data.name), ("offset", offset), ("length", weight.nbytes)):
            tensor.external_data.add(key=key, value=str(text))
        graph.initializer.append(tensor)
        offset += weight.nbytes
    path.write_bytes(helper.make_model(graph, opset_imports=OPERATOR_SETS, ir_version=8).SerializeToString())


def arrays(model: Content) -> dict[str, Array]:
    """The weights by name."""
    random = np.random.default_rng(0)
    return {weight.name: weight.elements(random) for weight in model.weights}


def small_arrays() -> dict[str, Array]:
    """The weights of the small model by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(SMALL).graph.initializer}


def typed(count: int, weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    """Two sums of so many numbers, with these weights."""
    nodes = [helper.make_node("Add", pair, [pair[1] + "s"]) for pair in (["x", "w"], ["k", "i"])]
    inputs, outputs = (
        [value(name, np.dtype(dtype), count) for name, dtype in zip(names, ("float32", "int64"), strict=True)]
        for names in (("x", "k"), ("ws", "is"))
    )
    graph = helper.make_graph(nodes, "benchmark", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=OPERATOR_SETS, ir_version=8)


def write_typed(path: Path, count: int) -> None:
    """An `.onnx` file whose numbers are in typed fields."""
    random = np.random.default_rng(0)
    weights = [
        onnx.TensorProto(name="w", dims=[count], data_type=1, float_data=random.random(count, np.float32)),
        onnx.TensorProto(name="i", dims=[count], data_type=7, int64_data=random.integers(0, 1 << 28, count)),
    ]
    path.write_bytes(typed(count, weights).SerializeToString())


def write_unpacked(path: Path, count: int) -> None:
    """An `.onnx` file whose numbers are in typed fields, each behind a tag; an integer takes four bytes."""
    random = np.random.default_rng(0)
    elements = random.integers(0x80, 0x100, (2, count, 5), np.uint8)
    elements[:, :, 0] = [[0x25], [0x38]]  # the tags of `float_data` and `int64_data`
    elements[0, :, 1:] = random.random(count, np.float32).view(np.uint8).reshape(count, 4)
    elements[1, :, 4] = elements[1, :, 4] & 0x7E | 1  # the last byte of a varint, not zero
    heads = [onnx.TensorProto(name=name, dims=[count], data_type=number) for name, number in (("w", 1), ("i", 7))]
    tensors = [head.SerializeToString() + fields.tobytes() for head, fields in zip(heads, elements, strict=True)]
    model = typed(count, [])
    graph = model.graph.SerializeToString() + b"".join(field(5, len(tensor)) + tensor for tensor in tensors)
    model.ClearField("graph")
    path.write_bytes(model.SerializeToString() + field(7, len(graph)) + graph)


def write(path: Path, kind: str, count: int, form: str) -> None:
    """The model of a kind is in the file, in a form that needs no other model."""
    if form == "onnx" and kind == "small":
        shutil.copyfile(SMALL, path)
    elif kind == "typed":
        write_typed(path, count)
    elif kind == "unpacked":
        write_unpacked(path, count)
    elif form == "onnx":
        write_inline(path, content(kind, count), sparse=kind == "sparse")
    elif form == "external" and kind == "small":
        onnx.save(onnx.load(SMALL), path, save_as_external_data=True, location="model.data", size_threshold=0)
    elif form == "external":
        write_external(path, content(kind, count))
    else:
        from safetensors.numpy import save_file

        save_file(small_arrays() if kind == "small" else arrays(content(kind, count)), path)


def location(directory: Path, name: str) -> Path:
    """Where the model of a name is: each is in its own folder."""
    form = name.rpartition(".")[2]
    return directory / name / f"model.{'onnx' if form == 'external' else form}"


def make(name: str, directory: Path, scale: float) -> Path:
    """The file of the model, which is there now."""
    path = location(directory, name)
    if not path.exists():
        path.parent.mkdir()
        stem, _, form = name.rpartition(".")
        kind, _, count = stem.partition("-")
        if form in ("rten", "onnxz"):
            import formats

            formats.convert(make(f"{stem}.onnx", directory, scale), path)
        else:
            write(path, kind, max(1, round(int(count or 1) * scale)), form)
    return path


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
