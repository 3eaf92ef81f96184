"""Models of every version of every ONNX operator: nodes written for newer versions, in the form of each version.

If a version cannot express a node, or does not allow its types, there is no model; `onnx` itself decides this.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from tests.corpus import backend_cases
from tests.rten.rten_cases import CASES, FOUR, IMAGE, Case, X, float32, node, one

NEWEST = defs.onnx_opset_version()
MAX_CONSTANT = 8  # the number of elements of an input that becomes a constant
MAX_OF_NEWEST = 6  # the number of models of a version that other tests cover


class Version(NamedTuple):
    """A version of an operator, and the first and the last operator set that contains it."""

    op_type: str
    since: int
    last: int

    def __str__(self) -> str:
        """Return its name in messages and files."""
        return f"{self.op_type} {self.since}"


class HistoricalCase(NamedTuple):
    """A model that uses a version, its inputs, and the outputs of its newer form."""

    name: str
    version: Version
    opset: int
    model: bytes
    inputs: Mapping[str, Any]
    outputs: list[Any]


class _Written(NamedTuple):
    """A model as its author wrote it, for an operator set."""

    name: str
    opset: int
    model: onnx.ModelProto
    inputs: Mapping[str, Any]
    outputs: list[Any]


RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
"""Operators for whose outputs only the dims are known."""


def _graph(nodes: list[onnx.NodeProto], inputs: str, outputs: str) -> onnx.GraphProto:
    """Return a subgraph; its values are vectors of four floats, or scalars of the type in `name:type`."""
    values = []
    for text in (inputs, outputs):
        pairs = [name.partition(":")[::2] for name in text.split()]
        values.append([helper.make_tensor_value_info(n, int(kind or 1), [] if kind else None) for n, kind in pairs])
    return helper.make_graph(nodes, "body", *values)


OTHERS = [
    one("mean_variance_normalization_axes", 13, "MeanVarianceNormalization", {"x": IMAGE}, axes=[0, 2, 3]),
    one("max_roi_pool", 1, "MaxRoiPool", {"x": IMAGE, "r": float32(0, 0, 0, 5, 5)[None]}, pooled_shape=[2, 2]),
    one("max_roi_pool_22", 22, "MaxRoiPool", {"x": IMAGE, "r": float32(0, 0, 0, 5, 5)[None]}, pooled_shape=[2, 2],
        EXPECTED=[]),
    one("multinomial", 22, "Multinomial", {"x": X[0]}, sample_size=5, EXPECTED=[np.zeros((3, 5))]),
    one("random_normal", 22, "RandomNormal", {}, shape=[2, 3], EXPECTED=[np.zeros((2, 3))]),
    one("random_normal_like", 22, "RandomNormalLike", {"x": X}, EXPECTED=[X]),
    one("random_uniform", 22, "RandomUniform", {}, shape=[2, 3], high=2.0, EXPECTED=[np.zeros((2, 3))]),
    one("random_uniform_like", 22, "RandomUniformLike", {"x": X}, EXPECTED=[X]),
    one("upsample_1", 1, "Upsample", {"x": IMAGE}, height_scale=2.0, width_scale=3.0,
        EXPECTED=[IMAGE.repeat(2, 2).repeat(3, 3)]),
    one("upsample_10", 10, "Upsample", {"x": IMAGE}, "x s", CONSTANTS={"s": float32(1, 1, 2, 3)},
        EXPECTED=[IMAGE.repeat(2, 2).repeat(3, 3)]),
    one("scatter_11", 11, "Scatter", {"x": X, "i": np.zeros((2, 1, 4), np.int64), "u": X[:, 1:2]}, axis=1,
        EXPECTED=[np.concatenate([X[:, 1:2], X[:, 1:]], 1)]),
    one("global_lp_pool_22", 22, "GlobalLpPool", {"x": IMAGE}, EXPECTED=[(IMAGE**2).sum((2, 3), keepdims=True) ** 0.5]),
    one("if", 25, "If", {"c": np.array(True)},
        then_branch=_graph([node("Constant", "", "y", value=numpy_helper.from_array(X))], "", "y"),
        else_branch=_graph([node("Constant", "", "y", value=numpy_helper.from_array(-X))], "", "y")),
    one("loop", 25, "Loop", {"n": np.int64(3), "c": np.array(True), "x": FOUR}, OUTPUTS=("y", "all"),
        body=_graph([node("Identity", "c", "d"), node("Add", "a a", "b"), node("Neg", "b", "m")],
                    "i:7 c:9 a", "d:9 b m")),
    one("scan", 25, "Scan", {"s": FOUR, "x": X[0]}, OUTPUTS=("y", "all"), num_scan_inputs=1,
        body=_graph([node("Add", "a b", "c"), node("Mul", "c b", "d")], "a b", "c d")),
    Case("optional", 28, [node("Optional", "x", "o"), node("OptionalGetElement", "o")], {"x": X}, expected=[X]),
    Case("sequence_length", 11,
         [node("SequenceEmpty", "", "s"), node("SequenceInsert", "s x", "t"), node("SequenceErase", "t", "e"),
          node("SequenceLength", "e")],
         {"x": X}),
]  # fmt: skip


@functools.cache
def versions() -> dict[str, list[Version]]:
    """Return the versions of each operator of the standard domain, the oldest first."""
    found: dict[str, list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema.since_version)
    ends = {name: [*sorted(since), NEWEST + 1] for name, since in sorted(found.items())}
    return {
        name: [Version(name, since, after - 1) for since, after in itertools.pairwise(numbers)]
        for name, numbers in ends.items()
    }


def historical_cases() -> Iterator[HistoricalCase]:
    """Yield the models of each version, alternately for the first and the last operator set that contains it.

    In models for the last one, short vectors and scalars are constants.
    """
    by_type: dict[str, list[_Written]] = {}
    for written in _all_written():
        for op_type in {found.op_type for found in written.model.graph.node}:
            by_type.setdefault(op_type, []).append(written)
    for op_type, found in versions().items():
        for version in found:
            yield from _cases_of(version, by_type.get(op_type, []))


def _cases_of(version: Version, by: list[_Written]) -> Iterator[HistoricalCase]:
    """Yield the models of one version."""
    ends = version.since, version.last
    places = list(enumerate(by)) if len(by) > 1 else [(0, by[0]), (1, by[0])] if by else []
    made = (case for place, written in places if (case := _said(written, version, ends[place % 2])))
    yield from itertools.islice(made, MAX_OF_NEWEST if version.last == NEWEST else None)


def _all_written() -> Iterator[_Written]:
    """Yield the operator tests of `onnx` with one node, and our own small models."""
    for given in backend_cases():
        model = onnx.ModelProto.FromString(given.model)
        if len(model.graph.node) == 1 and not model.graph.node[0].domain:
            opset = next(entry.version for entry in model.opset_import if not entry.domain)
            yield _Written(given.id, opset, model, given.inputs, list(given.outputs.values()))
    for case in (*CASES, *OTHERS):
        if not any(node.domain for node in case.nodes) and not case.exact:
            yield _Written(case.name, case.version, case.proto(), case.inputs, case.reference())


def _said(written: _Written, version: Version, opset: int) -> HistoricalCase | None:
    """Return the model for an operator set, if this can express it."""
    model = onnx.ModelProto()
    model.CopyFrom(written.model)
    inputs = dict(written.inputs)
    if opset == version.last > version.since:
        _make_constant(model.graph, inputs)
    try:
        _say_graph(model.graph, inputs, written.opset, opset)
    except Unsayable:
        return None
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", opset))
    model.ir_version = 10
    typed = _typed(model, opset)
    if typed is None:
        return None
    given = {value.name: inputs[value.name] for value in model.graph.input}
    return HistoricalCase(written.name, version, opset, typed.SerializeToString(), given, written.outputs)


def _make_constant(graph: onnx.GraphProto, inputs: dict[str, Any]) -> None:
    """Make constants of short vectors and scalars among the inputs, except the first."""
    for value in list(graph.input)[1:]:
        array = inputs.get(value.name)
        if isinstance(array, np.ndarray) and array.ndim < 2 and array.size <= MAX_CONSTANT and array.dtype.kind in "if":
            graph.initializer.append(numpy_helper.from_array(array, value.name))
            graph.input.remove(value)
            del inputs[value.name]


def _typed(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return the model with the output types of the version, or `None` if `onnx` says it is invalid."""
    declared = {value.name: value.type for value in model.graph.output}
    surroundings = onnx.checker.C.CheckerContext()
    surroundings.ir_version, surroundings.opset_imports = model.ir_version, {"": opset}
    for value in model.graph.output:
        value.ClearField("type")
    try:
        typed = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        for node in model.graph.node:
            # The checker treats a deprecated operator as an error, runtimes do not.
            if not defs.get_schema(node.op_type, opset).deprecated:
                onnx.checker.check_node(node, surroundings)
    except (onnx.checker.ValidationError, shape_inference.InferenceError):
        return None
    for value in typed.graph.output:
        if value.type.WhichOneof("value") is None:
            value.type.CopyFrom(declared[value.name])
    return typed


class Unsayable(Exception):
    """An older version cannot express a node."""


def _need(holds: object) -> None:
    """Check a condition; raise an error if it is false."""
    if not holds:
        raise Unsayable


class Draft:
    """A node that is being rewritten to an older form, and what is known about the values around it."""

    def __init__(self, node: onnx.NodeProto, values: dict[str, Any]) -> None:
        self.node = node
        self.values = values
        self.constants: dict[str, np.ndarray] = {}

    def value(self, place: int) -> Any:
        """Return the value of an input, `None` if it is omitted."""
        name = self.node.input[place] if place < len(self.node.input) else ""
        _need(not name or name in self.values)
        return self.values[name] if name else None

    def shape(self, place: int) -> tuple[int, ...]:
        """Return the dims of an input."""
        return np.shape(self.value(place))

    def numbers(self, place: int) -> list[Any] | None:
        """Return the elements of an input."""
        value = self.value(place)
        return None if value is None else np.asarray(value).ravel().tolist()

    def number(self, place: int) -> Any:
        """Return the element of an input."""
        return next(iter(self.numbers(place) or []), None)

    def attribute(self, name: str) -> Any:
        """Return the value of an attribute, `None` if it is missing."""
        found = next((attribute for attribute in self.node.attribute if attribute.name == name), None)
        return None if found is None else helper.get_attribute_value(found)

    def take(self, name: str, default: Any = None) -> Any:
        """Remove an attribute, and return its value."""
        value = self.attribute(name)
        if value is None:
            return default
        kept = [attribute for attribute in self.node.attribute if attribute.name != name]
        del self.node.attribute[:]
        self.node.attribute.extend(kept)
        return value

    def say(self, *inputs: str, **attributes: Any) -> None:
        """Give the node other inputs, if any, and new values of attributes; `None` removes one."""
        if inputs:
            self.node.input[:] = inputs
        for name, value in attributes.items():
            self.take(name)
            if value is not None:
                self.node.attribute.append(helper.make_attribute(name, value))

    def constant(self, name: str, value: Any) -> str:
        """Return the name of a new constant."""
        self.constants[f"{self.node.output[0]}_{name}"] = self.values[f"{self.node.output[0]}_{name}"] = value
        return f"{self.node.output[0]}_{name}"


def _axes(draft: Draft) -> None:
    axes, noop = draft.numbers(1), draft.take("noop_with_empty_axes")
    _need(axes or not noop)
    draft.say(draft.node.input[0], axes=axes or None)


def _bounds(draft: Draft) -> None:
    low, high = draft.number(1), draft.number(2)
    draft.say(draft.node.input[0], min=low and float(low), max=high and float(high))


def _slice(draft: Draft) -> None:
    _need(set(draft.numbers(4) or [1]) == {1})
    draft.say(draft.node.input[0], starts=draft.numbers(1), ends=draft.numbers(2), axes=draft.numbers(3))


def _tile(draft: Draft) -> None:
    repeats = draft.numbers(1) or []
    axes = [axis for axis, count in enumerate(repeats) if count != 1]
    _need(len(axes) == 1)
    names = ("tiles", np.float32(repeats[axes[0]])), ("axis", np.float32(axes[0]))
    draft.say(draft.node.input[0], *(draft.constant(name, value[None]) for name, value in names))


def _pads(draft: Draft) -> None:
    value = draft.number(2)
    draft.say(draft.node.input[0], pads=draft.numbers(1), value=value and float(value))


def _split_evenly(draft: Draft) -> None:
    _need(draft.shape(0)[draft.attribute("axis") or 0] % draft.take("num_outputs", 1) == 0)


def _broadcast(draft: Draft) -> None:
    first, second = draft.shape(0), draft.shape(1)
    if first != second:
        _need(len(second) < len(first) and first[len(first) - len(second) :] == second)
        draft.say(broadcast=1)


def _same_shapes(draft: Draft) -> None:
    _need(len({draft.shape(place) for place in range(len(draft.node.input))}) == 1)


def _slope(draft: Draft) -> None:
    _need(draft.shape(1) in ((), (1,), draft.shape(0)))


def _training(draft: Draft) -> None:
    _need(not draft.take("training_mode"))
    del draft.node.output[1:]


def _ratio(draft: Draft) -> None:
    _need(not draft.number(2))
    draft.take("seed")
    draft.say(draft.node.input[0], ratio=draft.number(1))


def _summand(draft: Draft) -> None:
    if len(draft.node.input) < 3:
        draft.say(*draft.node.input[:2], draft.constant("zero", np.zeros(1, draft.value(0).dtype)))


def _broadcast_summand(draft: Draft) -> None:
    draft.say(broadcast=1)


def _type_name(draft: Draft) -> None:
    number = draft.take("to")
    _need(number <= onnx.TensorProto.COMPLEX128)
    draft.say(to=onnx.TensorProto.DataType.Name(number))


def _axis(draft: Draft) -> None:
    axis = draft.number(2)
    draft.say(*draft.node.input[:2], axis=axis)


def _two_dimensional(draft: Draft) -> None:
    mode = (draft.take("mode") or b"linear").decode()
    draft.say(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def _empty_inputs(draft: Draft) -> None:
    data, *others = draft.node.input
    empty = draft.constant("empty", np.zeros(0, np.float32))
    draft.say(data, *(name or empty for name in [*others, "", ""][:2]), *others[2:])


def _scales(draft: Draft) -> None:
    _need(draft.numbers(2))
    draft.say(draft.node.input[0], draft.node.input[2])


def _constant(draft: Draft) -> None:
    for name, dtype in (("float", np.float32), ("floats", np.float32), ("int", np.int64), ("ints", np.int64)):
        value = draft.take(f"value_{name}")
        if value is not None:
            draft.say(value=numpy_helper.from_array(np.array(value, dtype)))


def _to_attribute(name: str, place: int) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        draft.say(*draft.node.input[:place], **{name: draft.numbers(place)})

    return change


def _saying(**attributes: Any) -> Callable[[Draft], None]:
    return lambda draft: draft.say(**attributes)


_REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
_ROWS: tuple[tuple[str, int, Callable[[Draft], None]], ...] = (
    (_REDUCTIONS, 18, _axes),
    ("ReduceSum", 13, _axes),
    ("Squeeze Unsqueeze", 13, _to_attribute("axes", 1)),
    ("Clip", 11, _bounds),
    ("Slice", 10, _slice),
    ("Tile", 6, _tile),
    ("Pad", 18, lambda draft: _need(draft.value(3) is None)),
    ("Pad", 11, _pads),
    ("Pad", 2, lambda draft: draft.say(paddings=draft.take("pads"))),
    ("Split", 18, _split_evenly),
    ("Split", 13, _to_attribute("split", 1)),
    ("TopK", 10, lambda draft: draft.say(draft.node.input[0], k=draft.number(1))),
    ("Reshape", 5, _to_attribute("shape", 1)),
    ("Add And Div Equal Greater Less Mul Or Pow Sub Xor", 7, _broadcast),
    ("Max Mean Min Sum", 8, _same_shapes),
    ("PRelu", 7, _slope),
    ("BatchNormalization", 14, _training),
    ("Dropout", 12, _ratio),
    ("BatchNormalization Dropout", 7, _saying(is_test=1)),
    ("BatchNormalization", 6, _saying(consumed_inputs=[0, 0, 0, 1, 1])),
    ("Gemm", 11, _summand),
    ("Gemm", 7, _broadcast_summand),
    ("Cast", 6, _type_name),
    ("DFT", 20, _axis),
    ("GroupNormalization", 21, lambda draft: _need(draft.shape(1) == (draft.attribute("num_groups"),))),
    ("GridSample", 20, _two_dimensional),
    ("Resize", 13, _empty_inputs),
    ("Resize", 11, _scales),
    ("Constant", 12, _constant),
    ("GlobalLpPool LpPool", 2, lambda draft: draft.say(p=float(draft.take("p", 2)))),
    ("Scan", 9, lambda draft: _need(False)),  # all of its values had a batch axis
)  # fmt: skip
CHANGES = {op: [(before, change) for ops, before, change in _ROWS if op in ops.split()] for op in versions()}
"""Differences of older versions: for each operator, its form before an operator set, the newest first."""


def _say_graph(graph: onnx.GraphProto, known: Mapping[str, Any], written: int, opset: int) -> None:
    """Rewrite the nodes of a graph to their older forms.

    Raises: Unsayable if there are none.
    """
    values = dict(known)
    values.update((tensor.name, numpy_helper.to_array(tensor)) for tensor in graph.initializer)
    for found in graph.node:
        draft = Draft(found, values)
        for attribute in found.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _say_graph(attribute.g, values, written, opset)
            elif found.op_type == "Constant" and attribute.name == "value":
                values[found.output[0]] = numpy_helper.to_array(attribute.t)
        for before, change in CHANGES[found.op_type]:
            if opset < before <= written:
                change(draft)
        _drop_defaults(draft, written, opset)
        graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in draft.constants.items())
    used = {name for found in graph.node for name in found.input}
    for field in (graph.input, graph.initializer):
        for value in list(field):
            if value.name not in used and value.name in known:
                field.remove(value)


def _drop_defaults(draft: Draft, written: int, opset: int) -> None:
    """Drop attributes that an older version lacks, if they only express its fixed behaviour."""
    try:
        newer, older = (defs.get_schema(draft.node.op_type, number) for number in (written, opset))
    except defs.SchemaError:
        raise Unsayable from None
    _need(older.since_version <= newer.since_version)
    for attribute in list(draft.node.attribute):
        if attribute.name not in older.attributes:
            _need(attribute.name in newer.attributes)
            default = newer.attributes[attribute.name].default_value
            _need(default.name and helper.get_attribute_value(default) == helper.get_attribute_value(attribute))
            draft.take(attribute.name)
