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
    forest    the same with lists as scikit-learn's forests have them: trees that are numbered from 0, leaves, weights
    torchscript, dynamo  a transformer of that many small layers, with names, shapes, constants and metadata as
              PyTorch's older and newer exporter write them
    small     `examples/digits.onnx`, which has no count

Forms: `onnx` has everything in one file, `external` the weights in their own file, `shards` the same in 40 files,
`rten`, `ort`, `onnxz`, and `safetensors` the weights alone. Weights stream into the file one by one, so that no model
is too large to be made.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

SMALL = Path(__file__).resolve().parent.parent / "examples" / "digits.onnx"
WIDTH = 1024
JOINED = 1000
EXTERNAL_FILES = {"external": 1, "shards": 40}
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
    values: Sequence[onnx.ValueInfoProto] = ()


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


def forest(count: int) -> Content:
    """Complete trees of 2,047 nodes, half of which are leaves, until there are so many nodes."""
    random = np.random.default_rng(0)
    each = 2047
    ids = np.arange(count) % each
    trees = np.arange(count) // each
    is_leaf = 2 * ids + 2 >= np.minimum(each, count - trees * each)  # the children of node n are 2 n + 1 and 2 n + 2
    leaves = np.flatnonzero(is_leaf)
    node = onnx.NodeProto(
        op_type="TreeEnsembleRegressor", domain="ai.onnx.ml", name="forest", input=["x"], output=["y"]
    )
    ints = {
        "nodes_falsenodeids": np.where(is_leaf, 0, 2 * ids + 2),
        "nodes_featureids": np.where(is_leaf, 0, random.integers(0, 20, count)),
        "nodes_missing_value_tracks_true": np.zeros(count, int),
        "nodes_nodeids": ids,
        "nodes_treeids": trees,
        "nodes_truenodeids": np.where(is_leaf, 0, 2 * ids + 1),
        "target_ids": np.zeros(len(leaves), int),
        "target_nodeids": ids[leaves],
        "target_treeids": trees[leaves],
    }
    floats = {
        "nodes_hitrates": np.ones(count),
        "nodes_values": np.where(is_leaf, 0, random.normal(size=count)),
        "target_weights": random.normal(size=len(leaves)),
    }
    for name, numbers in ints.items():
        node.attribute.add(name=name, type=onnx.AttributeProto.INTS, ints=numbers)
    for name, numbers in floats.items():
        node.attribute.add(name=name, type=onnx.AttributeProto.FLOATS, floats=numbers)
    modes = [b"LEAF" if leaf else b"BRANCH_LEQ" for leaf in is_leaf]
    node.attribute.add(name="nodes_modes", type=onnx.AttributeProto.STRINGS, strings=modes)
    node.attribute.add(name="n_targets", type=onnx.AttributeProto.INT, i=1)
    node.attribute.add(name="post_transform", type=onnx.AttributeProto.STRING, s=b"NONE")
    return Content([node], value("x", np.dtype("float32"), "n", 20), [value("y", np.dtype("float32"), "n", 1)], [])


class Transformer:
    """A transformer as an exporter of PyTorch writes it, node by node."""

    HEADS, HEAD_WIDTH = 2, 16
    WIDTH = HEADS * HEAD_WIDTH
    FLOAT32, INT64 = np.dtype("float32"), np.dtype("int64")

    def __init__(self, *, dynamo: bool) -> None:
        self.dynamo = dynamo
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[Weight] = []
        self.values: list[onnx.ValueInfoProto] = []

    def node(self, scope: str, operator: str, inputs: list[str], dims: Sequence[int | str], **settings: Any) -> str:
        """The output of another node: a value with these dims."""
        index = len(self.nodes)
        place = scope.replace(".", "/")
        name = f"node_{operator}_{index}" if self.dynamo else f"/{place}/{operator}_{index}"
        output = f"val_{index}" if self.dynamo else f"/{place}/{operator}_{index}_output_0"
        node = helper.make_node(operator, inputs, [output], name, **settings)
        if self.dynamo:
            parts = scope.split(".")
            modules = [f"model.modules.{part.title()}" for part in parts]
            metadata = {
                "namespace": "/".join(f"{part}: {module}" for part, module in zip(parts, modules, strict=True)),
                "pkg.torch.onnx.class_hierarchy": str([*modules, f"aten.{operator.lower()}.default"]),
                "pkg.torch.onnx.fx_node": f"%{output} : [num_users=1] = call_function[target={operator}]",
                "pkg.torch.onnx.name_scopes": str([*parts, output]),
                "pkg.torch.onnx.stack_trace": "".join(
                    f'File "model/modules.py", line {line}, in forward\n    return self.{part}(hidden_states)\n'
                    for line, part in enumerate(parts, 100)
                ),
            }
            for key, text in metadata.items():
                node.metadata_props.add(key=key, value=text)
            self.values.append(value(output, self.FLOAT32, *dims))
        self.nodes.append(node)
        return output

    def weight(self, name: str, *dims: int) -> str:
        """The name of another weight."""
        self.weights.append(Weight(name, dims, self.FLOAT32))
        return name

    def numbers(self, scope: str, *elements: int) -> str:
        """The name of constant integers."""
        if self.dynamo:
            name = f"val_{len(self.nodes)}_{len(self.values)}"
        else:
            name = f"/{scope.replace('.', '/')}/Constant_{len(self.nodes)}_output_0"
        tensor = numpy_helper.from_array(np.array(elements, self.INT64))
        self.nodes.append(helper.make_node("Constant", [], [name], name.removesuffix("_output_0"), value=tensor))
        return name

    def linear(self, scope: str, hidden: str, before: int, after: int) -> str:
        """A product with a weight, and a bias."""
        name = f"{scope}.weight" if self.dynamo else f"onnx::MatMul_{1000 + len(self.weights)}"
        product = self.node(scope, "MatMul", [hidden, self.weight(name, before, after)], ["batch", "sequence", after])
        return self.node(scope, "Add", [self.weight(f"{scope}.bias", after), product], ["batch", "sequence", after])

    def normalised(self, scope: str, left: str, right: str) -> str:
        """The sum, normalised."""
        dims = ["batch", "sequence", self.WIDTH]
        names = [self.weight(f"{scope}.{name}", self.WIDTH) for name in ("weight", "bias")]
        total = self.node(scope, "Add", [left, right], dims)
        return self.node(scope, "LayerNormalization", [total, *names], dims, axis=-1, epsilon=1e-12)

    def head(self, scope: str, hidden: str, order: list[int]) -> str:
        """A projection, split into heads."""
        split = ["batch", "sequence", self.HEADS, self.HEAD_WIDTH]
        projected = self.linear(scope, hidden, self.WIDTH, self.WIDTH)
        shape = self.numbers(scope, 0, 0, self.HEADS, self.HEAD_WIDTH)
        parts = self.node(scope, "Reshape", [projected, shape], split, allowzero=0)
        return self.node(scope, "Transpose", [parts], [split[axis] for axis in order], perm=order)

    def layer(self, index: int, hidden: str) -> str:
        """Attention, and two products with Gelu between them."""
        scope = f"model.encoder.layer.{index}"
        attention, dims = f"{scope}.attention.self", ["batch", "sequence", self.WIDTH]
        query = self.head(f"{attention}.query", hidden, [0, 2, 1, 3])
        key = self.head(f"{attention}.key", hidden, [0, 2, 3, 1])
        values = self.head(f"{attention}.value", hidden, [0, 2, 1, 3])
        square = ["batch", self.HEADS, "sequence", "sequence"]
        scores = self.node(attention, "MatMul", [query, key], square)
        scores = self.node(attention, "Mul", [scores, "scale"], square)
        scores = self.node(attention, "Softmax", [scores], square, axis=-1)
        mixed = self.node(attention, "MatMul", [scores, values], ["batch", self.HEADS, "sequence", self.HEAD_WIDTH])
        swapped = ["batch", "sequence", self.HEADS, self.HEAD_WIDTH]
        mixed = self.node(attention, "Transpose", [mixed], swapped, perm=[0, 2, 1, 3])
        mixed = self.node(attention, "Reshape", [mixed, self.numbers(attention, 0, 0, self.WIDTH)], dims, allowzero=0)
        mixed = self.linear(f"{scope}.attention.output.dense", mixed, self.WIDTH, self.WIDTH)
        hidden = self.normalised(f"{scope}.attention.output.LayerNorm", mixed, hidden)
        wide, wide_dims = 4 * self.WIDTH, ["batch", "sequence", 4 * self.WIDTH]
        middle = self.linear(f"{scope}.intermediate.dense", hidden, self.WIDTH, wide)
        gelu = f"{scope}.intermediate.intermediate_act_fn"
        part = self.node(gelu, "Div", [middle, "root"], wide_dims)
        part = self.node(gelu, "Erf", [part], wide_dims)
        part = self.node(gelu, "Add", [part, "one"], wide_dims)
        part = self.node(gelu, "Mul", [middle, part], wide_dims)
        part = self.node(gelu, "Mul", [part, "half"], wide_dims)
        part = self.linear(f"{scope}.output.dense", part, wide, self.WIDTH)
        return self.normalised(f"{scope}.output.LayerNorm", part, hidden)

    def content(self, count: int) -> Content:
        """The model with so many layers."""
        for name in ("scale", "root", "one", "half"):
            self.weight(name)
        hidden = "hidden_states"
        for index in range(count):
            hidden = self.layer(index, hidden)
        ends = (value(name, self.FLOAT32, "batch", "sequence", self.WIDTH) for name in ("hidden_states", hidden))
        values = [known for known in self.values if known.name != hidden]
        return Content(self.nodes, next(ends), [*ends], self.weights, values)


def content(kind: str, count: int) -> Content:
    """The model of a kind."""
    if kind == "trees":
        return ensemble(count)
    if kind == "forest":
        return forest(count)
    if kind in ("torchscript", "dynamo"):
        return Transformer(dynamo=kind == "dynamo").content(count)
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
    after = onnx.GraphProto(input=[model.input], output=model.outputs, value_info=model.values).SerializeToString()
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


def write_external(path: Path, model: Content, files: int, *, sparse: bool) -> None:
    """An `.onnx` file whose weights are in so many files next to it, as many in each."""
    graph = helper.make_graph(model.nodes, "benchmark", [model.input], model.outputs)
    each = -(-len(model.weights) // files)
    for number, start in enumerate(range(0, len(model.weights), each)):
        data = path.with_name(f"model-{number}.data" if files > 1 else "model.data")
        weights = model.weights[start : start + each]
        with data.open("wb") as file:
            write_elements(file, weights, [b""] * len(weights), sparse=sparse)
            file.truncate(sum(weight.nbytes for weight in weights))
        offset = 0
        for weight in weights:
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
    elif form in EXTERNAL_FILES and kind == "small":
        onnx.save(onnx.load(SMALL), path, save_as_external_data=True, location="model.data", size_threshold=0)
    elif form in EXTERNAL_FILES:
        write_external(path, content(kind, count), EXTERNAL_FILES[form], sparse=kind == "sparse")
    else:
        from safetensors.numpy import save_file

        save_file(small_arrays() if kind == "small" else arrays(content(kind, count)), path)


def location(directory: Path, name: str) -> Path:
    """Where the model of a name is: each is in its own folder."""
    form = name.rpartition(".")[2]
    return directory / name / f"model.{'onnx' if form in EXTERNAL_FILES else form}"


def make(name: str, directory: Path, scale: float) -> Path:
    """The file of the model, which is there now."""
    path = location(directory, name)
    if not path.exists():
        path.parent.mkdir()
        stem, _, form = name.rpartition(".")
        kind, _, count = stem.partition("-")
        if form in ("onnxz", "ort", "rten"):
            import formats

            formats.convert(make(f"{stem}.onnx", directory, scale), path)
        else:
            write(path, kind, max(1, round(int(count or 1) * scale)), form)
    return path


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
