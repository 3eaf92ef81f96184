"""Models with one fault each, and for each a valid model that is almost the same."""

# ruff: noqa: E501 - a model is a line

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import onnx
from onnx import helper, parser

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
MODEL = HEAD + "g (float[2] x) => (float[2] y) { y = Neg(x) }"
CHAIN = HEAD + "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Exp(b) }"
WEIGHT = HEAD + "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
FUNCTION = """<ir_version: 8, opset_import: ["" : 18, "d" : 1]>
g (float[2] x) => (float[2] y) { y = d.f(x) }
<opset_import: ["" : 18], domain: "d"> f (p) => (q) { q = Neg(p) }"""
BRANCH = (
    HEAD
    + """g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] r) { r = Neg(x) }, else_branch = e () => (float[2] s) { s = Abs(x) }>
}"""
)
LOOP = (
    HEAD
    + """g (int64 n, bool c, float[2] x) => (float[2] y) {
    y = Loop(n, c, x) <body = b (int64 i, bool k, float[2] p) => (bool o, float[2] q) { o = Identity(k) q = Neg(p) }>
}"""
)


class Fault(NamedTuple):
    """A model with a fault, and one without."""

    wrong: onnx.ModelProto
    right: onnx.ModelProto


def parsed(text: str) -> onnx.ModelProto:
    """Return the model of a text; without a head, it has the usual versions."""
    return parser.parse_model(text if text.startswith("<") else HEAD + text)


def changed(text: str, change: Callable[[onnx.ModelProto], object]) -> Fault:
    """Return the model of a text after a change, and before it."""
    wrong, right = parsed(text), parsed(text)
    change(wrong)
    return Fault(wrong, right)


def instead(text: str, old: str, new: str) -> Fault:
    """Return the model of a text with some of it replaced, and without."""
    assert text.count(old) == 1, (old, text)
    return Fault(parsed(text.replace(old, new)), parsed(text))


def both(wrong: str, right: str) -> Fault:
    """Return the models of two texts."""
    return Fault(parsed(wrong), parsed(right))


def attr(model: onnx.ModelProto) -> onnx.AttributeProto:
    """Return the first attribute of the first node."""
    return model.graph.node[0].attribute[0]


ONE = "g (float[2] x) => (float[2] y) { %s }"


def node(wrong: str, right: str) -> Fault:
    """Return models with these nodes."""
    return both(ONE % wrong, ONE % right)


SPARSE = "g (float[4] x) => (float[4] y) { y = Neg(x) }"


def with_sparse(
    dims: tuple[int, ...] = (4,),
    indices: tuple[int, ...] = (0, 2),
    dims_of_indices: tuple[int, ...] = (),
    index_type: int = 7,
) -> Fault:
    """Return a model with a sparse initialiser of this form, and one with a valid one."""

    def model(dims: tuple[int, ...], indices: tuple[int, ...], shape: tuple[int, ...], kind: int) -> onnx.ModelProto:
        values = helper.make_tensor("s", 1, [2], [1.0, 2.0])
        places = helper.make_tensor("si", kind, shape or [len(indices)], indices)
        found = parsed(SPARSE)
        found.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, list(dims)))
        return found

    return Fault(model(dims, indices, dims_of_indices, index_type), model((4,), (0, 2), (), 7))


def after(fault: Fault, change: Callable[[onnx.ModelProto], object]) -> Fault:
    """Return the models, the first with a change."""
    change(fault.wrong)
    return fault


def external(**entries: str) -> Fault:
    """Return a model whose weight is outside, at this place, and one with a valid place; the file has 8 bytes."""

    def model(places: dict[str, str]) -> onnx.ModelProto:
        found = parsed(WEIGHT)
        tensor = found.graph.initializer[0]
        del tensor.float_data[:]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in places.items():
            tensor.external_data.add(key=key, value=value)
        return found

    return Fault(model(entries), model({"location": "w.bin", "offset": "0", "length": "8"}))


def strings(*texts: bytes) -> Fault:
    """Return a model whose weight of dims [2] has these strings, and one with two."""

    def model(texts: tuple[bytes, ...]) -> onnx.ModelProto:
        found = parsed("g (string[2] x) => (string[2] y) { y = Identity(x) }")
        found.graph.initializer.add(name="w", data_type=8, dims=[2]).string_data.extend(texts)
        return found

    return Fault(model(texts), model((b"a", b"b")))


FAULTS: dict[str, Fault] = {
    # versions
    "no ir_version": changed(MODEL, lambda m: m.ClearField("ir_version")),
    "ir_version 0": changed(MODEL, lambda m: setattr(m, "ir_version", 0)),
    "negative ir_version": changed(MODEL, lambda m: setattr(m, "ir_version", -1)),
    "ir_version of the future": changed(MODEL, lambda m: setattr(m, "ir_version", 1000)),
    "no opset_import": changed(MODEL, lambda m: m.ClearField("opset_import")),
    "opset without version": changed(MODEL, lambda m: m.opset_import[0].ClearField("version")),
    "opset 0": changed(MODEL, lambda m: setattr(m.opset_import[0], "version", 0)),
    "negative opset": changed(MODEL, lambda m: setattr(m.opset_import[0], "version", -3)),
    "opset of the future": changed(MODEL, lambda m: setattr(m.opset_import[0], "version", 1000)),
    "two versions of a set": changed(MODEL, lambda m: m.opset_import.add(domain="", version=17)),
    "sets before ir_version 3": changed(MODEL, lambda m: setattr(m, "ir_version", 2)),
    "domain without import": instead(FUNCTION, ', "d" : 1]', "]"),
    "ml operator without import": both(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler(x) }',
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler(x) }',
    ),
    "initializer no input in ir_version 3": changed(WEIGHT, lambda m: setattr(m, "ir_version", 3)),
    "metadata key twice": changed(MODEL, lambda m: [m.metadata_props.add(key="a", value=v) for v in "bc"]),
    "bfloat16 before its ir_version": changed(
        MODEL.replace("float[2]", "bfloat16[2]"), lambda m: setattr(m, "ir_version", 3)
    ),
    # names
    "graph without a name": changed(MODEL, lambda m: m.graph.ClearField("name")),
    "no graph": changed(MODEL, lambda m: m.ClearField("graph")),
    "no nodes and no output": changed(MODEL, lambda m: m.graph.ClearField("node")),
    "input without a name": changed(
        MODEL, lambda m: m.graph.input.add().CopyFrom(helper.make_tensor_value_info("", 1, [2]))
    ),
    "output without a name": changed(
        MODEL, lambda m: m.graph.output.add().CopyFrom(helper.make_tensor_value_info("", 1, [2]))
    ),
    "initializer without a name": changed(WEIGHT, lambda m: m.graph.initializer[0].ClearField("name")),
    "input twice": changed(MODEL, lambda m: m.graph.input.append(m.graph.input[0])),
    "output twice": changed(MODEL, lambda m: m.graph.output.append(m.graph.output[0])),
    "initializer twice": changed(WEIGHT, lambda m: m.graph.initializer.append(m.graph.initializer[0])),
    "sparse initializer twice": after(
        with_sparse(), lambda m: m.graph.sparse_initializer.append(m.graph.sparse_initializer[0])
    ),
    "sparse and dense of one name": after(
        with_sparse(), lambda m: m.graph.initializer.append(helper.make_tensor("s", 1, [4], [0] * 4))
    ),
    "value made twice": both(ONE % "y = Neg(x) y = Abs(x)", ONE % "z = Neg(x) y = Abs(z)"),
    "value made twice by a node": both(
        "g (float[2] x) => (float[1] y) { y, y = Split <num_outputs = 2> (x) }",
        "g (float[2] x) => (float[1] y) { y, z = Split <num_outputs = 2> (x) }",
    ),
    "input made again": both(ONE % "x = Neg(x) y = Abs(x)", ONE % "z = Neg(x) y = Abs(z)"),
    "initializer made again": both(
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { w = Neg(x) y = Abs(w) }",
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { v = Neg(w) y = Add(v, x) }",
    ),
    "input of nothing": node("y = Add(x, q)", "y = Add(x, x)"),
    "output of nothing": node("z = Neg(x)", "y = Neg(x)"),
    "node out of order": both(ONE % "y = Abs(z) z = Neg(x)", ONE % "z = Neg(x) y = Abs(z)"),
    "own result": node("y = Add(x, y)", "y = Add(x, x)"),
    "cycle of two": both(ONE % "y = Add(x, z) z = Neg(y)", ONE % "y = Add(x, x) z = Neg(y)"),
    "cycle of three": both(
        ONE % "a = Add(x, c) b = Neg(a) c = Abs(b) y = Exp(c)", ONE % "a = Add(x, x) b = Neg(a) c = Abs(b) y = Exp(c)"
    ),
    "cycle through a branch": both(
        HEAD
        + """g (bool c, float[2] x) => (float[2] y) {
 y = If(c) <then_branch = t () => (float[2] r) { r = Neg(z) }, else_branch = e () => (float[2] s) { s = Abs(x) }> z = Neg(y) }""",
        BRANCH,
    ),
    "later value in a branch": both(
        HEAD
        + """g (bool c, float[2] x) => (float[2] y) {
 y = If(c) <then_branch = t () => (float[2] r) { r = Neg(z) }, else_branch = e () => (float[2] s) { s = Abs(x) }> z = Neg(x) }""",
        BRANCH,
    ),
    "duplicate node name": changed(CHAIN, lambda m: [setattr(n, "name", "same") for n in m.graph.node]),
    "no op_type": changed(MODEL, lambda m: m.graph.node[0].ClearField("op_type")),
    "neither inputs nor outputs": changed(MODEL, lambda m: m.graph.node.add(op_type="Neg")),
    "output with an empty name": changed(MODEL, lambda m: m.graph.node.add(op_type="Neg", input=["x"], output=[""])),
    # operators
    "unknown operator": node("y = Frobnicate(x)", "y = Neg(x)"),
    "unknown operator of ml": both(
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Frob(x) }',
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler(x) }',
    ),
    "operator of a newer set": both(ONE % "y = Gelu(x)", MODEL.replace("18", "20").replace("Neg", "Gelu")),
    "deprecated operator": both(ONE % "y = Upsample(x, x)", ONE % "y = Add(x, x)"),
    "wrong case of operator": node("y = relu(x)", "y = Relu(x)"),
    "too many inputs": node("y = Neg(x, x)", "y = Neg(x)"),
    "too few inputs": node("y = Add(x)", "y = Add(x, x)"),
    "no inputs": node("y = Neg()", "y = Neg(x)"),
    "too many outputs": node("y, z = Neg(x)", "y = Neg(x)"),
    "no outputs": changed(MODEL, lambda m: m.graph.node.add(op_type="Neg", input=["x"])),
    "omitted input": node('y = Add(x, "")', 'y = Clip(x, "", "")'),
    "unknown domain": both("g (float[2] x) => (float[2] y) { y = foo.bar.Neg(x) }", MODEL),
    # attributes
    "unknown attribute": node("y = Neg <alpha = 1.0> (x)", "y = Elu <alpha = 1.0> (x)"),
    "attribute of another type": node("y = Elu <alpha = 1> (x)", "y = Elu <alpha = 1.0> (x)"),
    "attribute twice": node("y = Elu <alpha = 1.0, alpha = 2.0> (x)", "y = Elu <alpha = 1.0> (x)"),
    "missing attribute": node("y = Cast(x)", "y = Cast <to = 1> (x)"),
    "attribute without a name": changed(ONE % "y = Elu <alpha = 1.0> (x)", lambda m: attr(m).ClearField("name")),
    "attribute without a type": changed(ONE % "y = Elu <alpha = 1.0> (x)", lambda m: attr(m).ClearField("type")),
    "attribute type and value differ": changed(
        ONE % "y = Elu <alpha = 1.0> (x)", lambda m: setattr(attr(m), "type", 2)
    ),
    "attribute of an unknown type": changed(
        ONE % "y = Elu <alpha = 1.0> (x)",
        lambda m: attr(m).ParseFromString(attr(m).SerializeToString() + b"\xa0\x01\x4d"),
    ),
    "attribute with two values": changed(ONE % "y = Elu <alpha = 1.0> (x)", lambda m: setattr(attr(m), "i", 2)),
    "reference to an attribute outside functions": changed(
        ONE % "y = Elu <alpha = 1.0> (x)", lambda m: (attr(m).ClearField("f"), setattr(attr(m), "ref_attr_name", "a"))
    ),
    "reference and value": changed(
        FUNCTION.replace("Neg(p)", "Elu <alpha = 1.0> (p)"),
        lambda m: setattr(m.functions[0].node[0].attribute[0], "ref_attr_name", "a"),
    ),
    "Cast to an unknown type": node("y = Cast <to = 99> (x)", "y = Cast <to = 1> (x)"),
    "Cast to UNDEFINED": node("y = Cast <to = 0> (x)", "y = Cast <to = 1> (x)"),
    "Constant without a value": both(
        "g () => (float[2] y) { y = Constant() }", "g () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }"
    ),
    "Constant with two values": both(
        "g () => (float y) { y = Constant <value_float = 1.0, value_int = 1> () }",
        "g () => (float y) { y = Constant <value_float = 1.0> () }",
    ),
    "axis out of range": node("y = Softmax <axis = 5> (x)", "y = Softmax <axis = 0> (x)"),
    "perm of another rank": node("y = Transpose <perm = [1, 0]> (x)", "y = Transpose <perm = [0]> (x)"),
    "value of an attribute that is none of its words": node(
        'y = ScatterElements <axis = 0, reduction = "frob"> (x, k, x)', "y = Neg(x)"
    ),
    # types
    "FLOAT into BitwiseAnd": both(
        ONE % "y = BitwiseAnd(x, x)", "g (int32[2] x) => (int32[2] y) { y = BitwiseAnd(x, x) }"
    ),
    "FLOAT into And": both(
        "g (float[2] x) => (bool[2] y) { y = And(x, x) }", "g (bool[2] x) => (bool[2] y) { y = And(x, x) }"
    ),
    "STRING into Neg": both("g (string[2] x) => (string[2] y) { y = Neg(x) }", MODEL),
    "two types for one variable": both(
        "g (float[2] x, int32[2] z) => (float[2] y) { y = Add(x, z) }",
        "g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }",
    ),
    "two types through a Cast": both(
        "g (float[2] x) => (float[2] y) { z = Cast <to = 7> (x) y = Add(x, z) }",
        "g (float[2] x) => (float[2] y) { z = Cast <to = 1> (x) y = Add(x, z) }",
    ),
    "two types through a Constant": both(
        "g (float[2] x) => (float[2] y) { z = Constant <value = int64[1] {1}> () y = Add(x, z) }",
        "g (float[2] x) => (float[2] y) { z = Constant <value = float[1] {1}> () y = Add(x, z) }",
    ),
    "two types with an initializer": both(
        "g (float[2] x) => (float[2] y) <int64[2] w = {1, 2}> { y = Add(x, w) }", WEIGHT
    ),
    "output of another type": both("g (float[2] x) => (int64[2] y) { y = Neg(x) }", MODEL),
    "value_info of another type": both(
        "g (float[2] x) => (float[2] y) <int64[2] z> { z = Neg(x) y = Abs(z) }",
        "g (float[2] x) => (float[2] y) <float[2] z> { z = Neg(x) y = Abs(z) }",
    ),
    "shape of Reshape is FLOAT": both(
        "g (float[2] x, float[1] s) => (float[2] y) { y = Reshape(x, s) }",
        "g (float[2] x, int64[1] s) => (float[2] y) { y = Reshape(x, s) }",
    ),
    "condition of If is FLOAT": instead(BRANCH, "bool c", "float c"),
    "type of Gather's indices": both(
        "g (float[2] x, float[2] i) => (float[2] y) { y = Gather(x, i) }",
        "g (float[2] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }",
    ),
    "type that came with a newer set": both(
        '<ir_version: 8, opset_import: ["" : 12]> g (bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }',
        '<ir_version: 8, opset_import: ["" : 14]> g (bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }',
    ),
    "initializer of another type than its input": both(
        "g (float[2] x, float[2] w) => (float[2] y) <int64[2] w = {1, 2}> { y = Neg(x) }",
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Neg(x) }",
    ),
    "initializer of another shape than its input": both(
        "g (float[2] x, float[3] w) => (float[2] y) <float[2] w = {1, 2}> { y = Neg(x) }",
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Neg(x) }",
    ),
    "initializer of another rank than its input": both(
        "g (float[2] x, float[1,2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
        "g (float[2] x, float[n] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
    ),
    "tensor where a sequence must be": both(
        "g (float[2] x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }",
        "g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }",
    ),
    "sequence where a tensor must be": both("g (seq(float[2]) x) => (float[2] y) { y = Neg(x) }", MODEL),
    "sequence of two types": both(
        "g (float[2] x, int64[2] z) => (seq(float[2]) y) { y = SequenceConstruct(x, z) }",
        "g (float[2] x, float[2] z) => (seq(float[2]) y) { y = SequenceConstruct(x, z) }",
    ),
    "optional where a tensor must be": both(
        "g (optional(float[2]) x) => (float[2] y) { y = Neg(x) }",
        "g (optional(float[2]) x) => (float[2] y) { y = OptionalGetElement(x) }",
    ),
    "ml operator with a STRING": both(
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g (string[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler(x) }',
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler(x) }',
    ),
    "type in a function": both(FUNCTION.replace("float[2]", "string[2]"), FUNCTION),
    "type in a branch": instead(BRANCH, "r = Neg(x)", "r = BitwiseNot(x)"),
    "branches of two types": instead(BRANCH, "(float[2] s) { s = Abs(x) }", "(int64[2] s) { s = Cast <to = 7> (x) }"),
    "output of a branch of another type": instead(BRANCH, "t () => (float[2] r)", "t () => (int64[2] r)"),
    # values
    "input without a type": changed(MODEL, lambda m: m.graph.input[0].ClearField("type")),
    "output without a type": changed(MODEL, lambda m: m.graph.output[0].ClearField("type")),
    "type that says nothing": changed(MODEL, lambda m: m.graph.input[0].type.Clear()),
    "input without elem_type": changed(MODEL, lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type")),
    "input of UNDEFINED": changed(MODEL, lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0)),
    "input of an unknown type": changed(MODEL, lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 77)),
    "input without a shape": changed(MODEL, lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
    "output without a shape": changed(MODEL, lambda m: m.graph.output[0].type.tensor_type.ClearField("shape")),
    "negative dim of an input": changed(
        MODEL, lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -1)
    ),
    "sequence without elements": changed(
        "g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }",
        lambda m: m.graph.input[0].type.sequence_type.ClearField("elem_type"),
    ),
    "map without a key": changed(
        "g (map(int64, float[2]) x) => (map(int64, float[2]) x) { }",
        lambda m: m.graph.input[0].type.map_type.ClearField("key_type"),
    ),
    # tensors
    "tensor of UNDEFINED": changed(WEIGHT, lambda m: setattr(m.graph.initializer[0], "data_type", 0)),
    "tensor of an unknown type": changed(WEIGHT, lambda m: setattr(m.graph.initializer[0], "data_type", 77)),
    "tensor with a negative dim": changed(WEIGHT, lambda m: m.graph.initializer[0].dims.__setitem__(0, -2)),
    "tensor with too few elements": changed(WEIGHT, lambda m: m.graph.initializer[0].float_data.pop()),
    "tensor with too many elements": changed(WEIGHT, lambda m: m.graph.initializer[0].float_data.append(1)),
    "tensor without data": changed(WEIGHT, lambda m: m.graph.initializer[0].ClearField("float_data")),
    "raw data of another length": changed(
        WEIGHT,
        lambda m: (
            m.graph.initializer[0].ClearField("float_data"),
            setattr(m.graph.initializer[0], "raw_data", bytes(7)),
        ),
    ),
    "data in the field of another type": changed(
        WEIGHT,
        lambda m: (m.graph.initializer[0].ClearField("float_data"), m.graph.initializer[0].int64_data.extend([1, 2])),
    ),
    "data in two fields": changed(WEIGHT, lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(8))),
    "empty tensor with data": changed(WEIGHT, lambda m: m.graph.initializer[0].dims.__setitem__(0, 0)),
    "too few strings": strings(b"a"),
    "strings in raw_data": after(strings(), lambda m: setattr(m.graph.initializer[0], "raw_data", b"ab")),
    "sparse without values": changed(SPARSE, lambda m: m.graph.sparse_initializer.add(dims=[4])),
    "sparse indices of another number": with_sparse(indices=(0, 1, 2)),
    "sparse indices of another type": with_sparse(index_type=6),
    "sparse index out of range": with_sparse(indices=(0, 9)),
    "sparse indices out of order": with_sparse(indices=(2, 0)),
    "sparse index twice": with_sparse(indices=(2, 2)),
    "negative sparse index": with_sparse(indices=(-1, 2)),
    "sparse indices of another rank": with_sparse(indices=(0, 1, 0, 2), dims_of_indices=(2, 2)),
    "sparse without dims": with_sparse(dims=()),
    "external data without a location": external(),
    "external data with an empty location": external(location=""),
    "external data at an absolute path": external(location="/etc/passwd", length="8"),
    "external data outside the folder": external(location="../w.bin", length="8"),
    "external data that is missing": external(location="none.bin"),
    "external data beyond the end": external(location="w.bin", offset="4", length="8"),
    "external data with a bad offset": external(location="w.bin", offset="x", length="8"),
    "external data with a negative offset": external(location="w.bin", offset="-1", length="8"),
    "external data of another length": external(location="w.bin", offset="0", length="4"),
    "external data that is a folder": external(location="folder"),
    "external and inline data": after(
        external(location="w.bin", offset="0", length="8"),
        lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(8)),
    ),
    # subgraphs
    "output of a branch is an outer value": changed(BRANCH, lambda m: setattr(attr(m).g.output[0], "name", "x")),
    "output of a branch is an outer initializer": both(
        HEAD
        + "g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = If(c) <then_branch = t () => (float[2] w) { }, else_branch = e () => (float[2] s) { s = Abs(x) }> }",
        HEAD
        + "g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] w) <float[2] w = {1, 2}> { }, else_branch = e () => (float[2] s) { s = Abs(x) }> }",
    ),
    "output of a loop is an outer value": instead(
        LOOP,
        "(bool o, float[2] q) { o = Identity(k) q = Neg(p) }",
        "(bool o, float[2] x) { o = Identity(k) q = Neg(p) }",
    ),
    "output of a branch is nothing": instead(BRANCH, "r = Neg(x)", "z = Neg(x)"),
    "branch hides an outer value": instead(
        BRANCH.replace("y = If", "z = Neg(x) y = If"),
        "t () => (float[2] r) { r = Neg(x) }",
        "t () => (float[2] z) { z = Neg(x) }",
    ),
    "initializer of a branch hides an outer value": instead(
        BRANCH, "t () => (float[2] r) { r = Neg(x) }", "t () => (float[2] r) <float[2] x = {1, 2}> { r = Neg(x) }"
    ),
    "input of a body hides an outer value": Fault(
        parsed(LOOP.replace("float[2] p", "float[2] x").replace("Neg(p)", "Neg(x)")), parsed(LOOP)
    ),
    "branch uses a value of the other branch": instead(BRANCH, "s = Abs(x)", "s = Abs(r)"),
    "graph uses a value of a branch": both(BRANCH.replace("}>", "}> z = Neg(r)"), BRANCH),
    "branch with an input": instead(BRANCH, "t ()", "t (float[2] i)"),
    "branches with other numbers of outputs": instead(
        BRANCH, "t () => (float[2] r) { r = Neg(x) }", "t () => (float[2] r, float[2] u) { r = Neg(x) u = Abs(x) }"
    ),
    "If without a branch": changed(BRANCH, lambda m: m.graph.node[0].attribute.pop()),
    "body with too few inputs": instead(LOOP, "(int64 i, bool k, float[2] p)", "(int64 i, bool p)"),
    "body with too few outputs": instead(LOOP, "(bool o, float[2] q) {", "(bool o) {"),
    "body of another type": Fault(
        parsed(LOOP.replace("float[2] p) => (bool o, float[2] q)", "int64[2] p) => (bool o, int64[2] q)")), parsed(LOOP)
    ),
    "condition of a body is FLOAT": instead(
        LOOP, "(bool o, float[2] q) { o = Identity(k)", "(float o, float[2] q) { o = Cast <to = 1> (k)"
    ),
    "subgraph without a name": changed(BRANCH, lambda m: attr(m).g.ClearField("name")),
    "node of a branch out of order": instead(BRANCH, "r = Neg(x)", "r = Neg(z) z = Abs(x)"),
    # functions
    "function that is missing": instead(FUNCTION, "d.f(x)", "d.h(x)"),
    "function without a name": changed(FUNCTION, lambda m: m.functions[0].ClearField("name")),
    "function without a domain": changed(FUNCTION, lambda m: m.functions[0].ClearField("domain")),
    "function twice": changed(FUNCTION, lambda m: m.functions.append(m.functions[0])),
    "function calls itself": both(
        FUNCTION.replace('<opset_import: ["" : 18], ', '<opset_import: ["" : 18, "d" : 1], ').replace(
            "q = Neg(p)", "q = d.f(p)"
        ),
        FUNCTION,
    ),
    "functions call each other": both(
        FUNCTION.replace('<opset_import: ["" : 18], ', '<opset_import: ["" : 18, "d" : 1], ').replace(
            "q = Neg(p)", "q = d.h(p)"
        )
        + '\n<opset_import: ["" : 18, "d" : 1], domain: "d"> h (p) => (q) { q = d.f(p) }',
        FUNCTION,
    ),
    "function input twice": changed(FUNCTION, lambda m: m.functions[0].input.append("p")),
    "function output twice": changed(FUNCTION, lambda m: m.functions[0].output.append("q")),
    "function attribute twice": changed(FUNCTION, lambda m: m.functions[0].attribute.extend(["a", "a"])),
    "function without opset_import": changed(FUNCTION, lambda m: m.functions[0].ClearField("opset_import")),
    "function of another opset": changed(FUNCTION, lambda m: setattr(m.functions[0].opset_import[0], "version", 1)),
    "function uses an outer value": instead(FUNCTION, "Neg(p)", "Neg(x)"),
    "function output of nothing": instead(FUNCTION, "q = Neg(p)", "z = Neg(p)"),
    "function node out of order": instead(FUNCTION, "q = Neg(p)", "q = Neg(z) z = Abs(p)"),
    "function makes a value twice": instead(FUNCTION, "q = Neg(p)", "q = Neg(p) q = Abs(p)"),
    "function refers to an attribute it does not have": changed(
        FUNCTION.replace("Neg(p)", "Elu <alpha = 1.0> (p)"),
        lambda m: (
            m.functions[0].node[0].attribute[0].ClearField("f"),
            setattr(m.functions[0].node[0].attribute[0], "ref_attr_name", "none"),
        ),
    ),
    "call with too many inputs": instead(FUNCTION, "d.f(x)", "d.f(x, x)"),
    "call with too many outputs": instead(FUNCTION, "y = d.f", "y, z = d.f"),
    "call without a required attribute": changed(
        FUNCTION.replace("Neg(p)", "Elu <alpha = 1.0> (p)"),
        lambda m: (
            m.functions[0].attribute.append("a"),
            m.functions[0].node[0].attribute[0].ClearField("f"),
            setattr(m.functions[0].node[0].attribute[0], "ref_attr_name", "a"),
        ),
    ),
    "call with an unknown attribute": instead(FUNCTION, "d.f(x)", "d.f <zz = 1> (x)"),
    "functions before ir_version 8": changed(FUNCTION, lambda m: setattr(m, "ir_version", 7)),
    "unknown operator in a function": instead(FUNCTION, "Neg(p)", "Frob(p)"),
    # shapes
    "MatMul of shapes that do not fit": both(
        "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }",
        "g (float[2,3] x, float[3,5] z) => (float[2,5] y) { y = MatMul(x, z) }",
    ),
    "Gemm of shapes that do not fit": both(
        "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = Gemm(x, z) }",
        "g (float[2,3] x, float[3,5] z) => (float[2,5] y) { y = Gemm(x, z) }",
    ),
    "Gemm of another rank": both(
        "g (float[2,3,1] x, float[3,5] z) => (float[2,5] y) { y = Gemm(x, z) }",
        "g (float[2,3] x, float[3,5] z) => (float[2,5] y) { y = Gemm(x, z) }",
    ),
    "Add of shapes that do not fit": both(
        "g (float[2] x, float[3] z) => (float[2] y) { y = Add(x, z) }",
        "g (float[2] x, float[1] z) => (float[2] y) { y = Add(x, z) }",
    ),
    "Max of shapes of which the first fits all": both(
        "g (float[1] x, float[2] z, float[3] w) => (float[n] y) { y = Max(x, z, w) }",
        "g (float[1] x, float[2] z, float[1] w) => (float[n] y) { y = Max(x, z, w) }",
    ),
    "Concat of ranks that do not fit": both(
        "g (float[2] x, float[2,2] z) => (float[4] y) { y = Concat <axis = 0> (x, z) }",
        "g (float[2] x, float[2] z) => (float[4] y) { y = Concat <axis = 0> (x, z) }",
    ),
    "Concat of dims that do not fit": both(
        "g (float[2,2] x, float[2,3] z) => (float[4,2] y) { y = Concat <axis = 0> (x, z) }",
        "g (float[2,2] x, float[3,2] z) => (float[5,2] y) { y = Concat <axis = 0> (x, z) }",
    ),
    "Conv with weights of another rank": both(
        "g (float[1,3,4,4] x, float[3,3] w) => (float[1,3,4,4] y) { y = Conv(x, w) }",
        "g (float[1,3,4,4] x, float[3,3,1,1] w) => (float[1,3,4,4] y) { y = Conv(x, w) }",
    ),
    "Conv with other channels": both(
        "g (float[1,3,4,4] x, float[3,5,1,1] w) => (float[1,3,4,4] y) { y = Conv(x, w) }",
        "g (float[1,3,4,4] x, float[3,3,1,1] w) => (float[1,3,4,4] y) { y = Conv(x, w) }",
    ),
    "Reshape to another number of elements": both(
        "g (float[2] x) => (float[3] y) <int64[1] s = {3}> { y = Reshape(x, s) }",
        "g (float[2] x) => (float[1,2] y) <int64[2] s = {1, 2}> { y = Reshape(x, s) }",
    ),
    "output of another shape": both("g (float[2] x) => (float[3] y) { y = Neg(x) }", MODEL),
    "output of another rank": both("g (float[2] x) => (float[2,1] y) { y = Neg(x) }", MODEL),
    "value_info of another rank": both(
        "g (float[2] x) => (float[2] y) <float[2,1,1] z> { z = Neg(x) y = Abs(z) }",
        "g (float[2] x) => (float[2] y) <float[2] z> { z = Neg(x) y = Abs(z) }",
    ),
    "function of a set that the model lacks": changed(
        FUNCTION.replace("Neg(p)", "Elu <alpha = 1.0> (p)"),
        lambda m: m.functions[0].opset_import.add(domain="ai.onnx.ml", version=3),
    ),
    "two spellings of the domain": changed(MODEL, lambda m: setattr(m.opset_import[0], "domain", "ai.onnx")),
    "operator that was removed": node("y = Affine <alpha = 1.0, beta = 1.0> (x)", "y = Neg(x)"),
    "operator of onnxruntime": both(
        '<ir_version: 8, opset_import: ["" : 14]> g (float[2] x, float[2] s) => (float[2] y) { y = SimplifiedLayerNormalization(x, s) }',
        MODEL,
    ),
    "attribute without a value": changed(
        "g () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }", lambda m: attr(m).ClearField("t")
    ),
    "declared dim differs": both(ONE.replace("=> (float[2] y)", "=> (float[3] y)") % "y = Neg(x)", MODEL),
    "no nodes and no operator set": changed(
        "g (float[2] x) => (float[2] x) { }", lambda m: m.ClearField("opset_import")
    ),
}
