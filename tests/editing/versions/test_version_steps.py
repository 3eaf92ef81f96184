"""Each version of each operator of ONNX has a row, and a model in an old form computes the same in every other one."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import formats
from formats.editing.versions import node_conversion, operator_sets, version_steps
from formats.editing.versions.operator_sets import with_opset
from formats.errors import UnsupportedError
from formats.ir import MACHINE_LEARNING
from formats.onnxpb.operator_sets import is_same_text
from formats.tensordata.plan import RARE, SPECIAL
from tests.rten.historical import RANDOM, historical_cases, versions
from tests.systems import NIGHT

pytest.importorskip("onnx", minversion="1.22")
SEED = zlib.crc32(os.environ.get("FORMATS_SEED", "1").encode())
CASES = 0 if NIGHT else 30  # of each kind; 0 means all
ALIKE_DOMAINS = ("", MACHINE_LEARNING)

# Where the other side is wrong or has no kernel, if one of both models is in a set from the first to the last.
FAULTS_OF_OTHERS = {
    "AveragePool": (1, 6, "the reference evaluator of onnx counts pads"),
    "GlobalLpPool": (22, 28, "onnxruntime has no kernel"),
    "MaxRoiPool": (22, 28, "onnxruntime has no kernel"),
    "OptionalHasElement": (28, 28, "onnxruntime has no kernel"),
    "LSTM": (1, 6, "the reference evaluator of onnx ignores lengths"),
    "Optional": (28, 28, "onnxruntime has no kernel"),
    "OptionalGetElement": (28, 28, "onnxruntime has no kernel"),
    "Range": (1, 10, "the reference evaluator of onnx gives results of a Loop another rank"),
}


def is_known(operator: str, *opsets: int) -> bool:
    """Return whether a fault of others keeps two models from being compared."""
    first, last, _ = FAULTS_OF_OTHERS.get(operator, (0, -1, ""))
    return operator in RANDOM or any(first <= opset <= last for opset in opsets)


class Step(NamedTuple):
    """Two neighbouring versions of an operator."""

    older: Any
    newer: Any

    def __str__(self) -> str:
        """Return its name in messages."""
        return (
            f"{self.newer.domain or 'ai.onnx'}.{self.newer.name} {self.older.since_version} {self.newer.since_version}"
        )


def steps() -> Iterator[Step]:
    """Yield all pairs of neighbouring versions."""
    by_name: dict[tuple[str, str], list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in ALIKE_DOMAINS:
            by_name.setdefault((schema.domain, schema.name), []).append(schema)
    for schemas in by_name.values():
        yield from itertools.starmap(Step, itertools.pairwise(sorted(schemas, key=lambda each: each.since_version)))


def test_each_step_has_a_row() -> None:
    """Nobody has to guess: each version of each operator is compared with the one before it."""
    missing = [
        str(step)
        for step in steps()
        if version_steps.step_to(step.newer.domain, step.newer.name, step.newer.since_version) is None
    ]
    assert missing == []


def test_each_row_is_a_step() -> None:
    """No row names a version that an operator does not have, and none has two rows."""
    known = {(step.newer.name, step.newer.since_version) for step in steps() if not step.newer.domain}
    same = [(name, version) for version, names in version_steps.SAME.items() for name in names.split()]
    assert sorted({*same, *version_steps.STEPS} - known) == []
    assert sorted({*same} & version_steps.STEPS.keys()) == []
    assert len(same) == len({*same})
    assert [row for row in same if is_same_text("ai.onnx", *row)] == []


def test_what_is_the_same_has_the_same_parts() -> None:
    """A row without a rewriting loses no attribute, input or output, and changes no default."""
    for step in steps():
        row = version_steps.step_to(step.newer.domain, step.newer.name, step.newer.since_version)
        older, newer = step
        if row is None or row.up is not version_steps.unchanged:
            continue
        for name, attribute in older.attributes.items():
            assert name in newer.attributes or name == "linear_before_reset", step
            same = newer.attributes[name]
            assert same.type == attribute.type, step
            defaults = [helper.get_attribute_value(each.default_value) if each.default_value.type else None
                        for each in (attribute, same)]  # fmt: skip
            assert defaults[0] == defaults[1] or defaults[0] == b"foward", (step, name)
        assert len(older.inputs) <= len(newer.inputs), step
        assert older.min_input >= newer.min_input or older.name == "OptionalHasElement", step


def run(model: bytes, inputs: dict[str, Any]) -> list[Any] | None:
    """Return what onnxruntime makes, or onnx's reference evaluator where that has no kernel; `None` if neither runs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for make in (
        lambda: onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]),
        lambda: ReferenceEvaluator(onnx.load_from_string(model)),
    ):
        try:
            session = make()
            names = getattr(session, "input_names", None) or [each.name for each in session.get_inputs()]
            return session.run(None, {name: inputs[name] for name in names})  # type: ignore[no-any-return]
        except Exception:
            continue
    return None


def is_close(first: Any, second: Any) -> bool:
    """Return whether two results are the same, up to the rounding of other kernels."""
    if isinstance(first, list) or isinstance(second, list):
        return type(first) is type(second) and len(first) == len(second) and all(map(is_close, first, second))
    if first is None or second is None:
        return first is second
    left, right = np.asarray(first), np.asarray(second)
    if (left.shape, left.dtype) != (right.shape, right.dtype):
        return False
    if left.dtype.kind in "fc":
        tolerance = 1e-3 if left.dtype.itemsize > 2 else 2e-2
        return np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
    if left.dtype.kind in "OUSbiu":
        return bool((left == right).all())
    return np.allclose(left.astype("float32"), right.astype("float32"), rtol=0.1, atol=0.1, equal_nan=True)


def as_it_is(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return the model."""
    return model


def without_shapes(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return it with unknown ranks."""
    for value in (*model.graph.input, *model.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return model


def with_defaults(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return it with the defaults of all attributes written out."""
    for node in model.graph.node:
        schema, present = defs.get_schema(node.op_type, opset), {each.name for each in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in present and attribute.default_value.type:
                node.attribute.append(attribute.default_value)
                node.attribute[-1].name = name
    return model


def has_graphs(model: onnx.ModelProto) -> bool:
    """Return whether a node has a graph."""
    return any(each.type in (5, 10) for node in model.graph.node for each in node.attribute)


def in_branch(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return it with the nodes in both branches of an If."""
    if has_graphs(model):
        return None
    branches = []
    for word in ("then", "else"):
        branch = onnx.GraphProto(name=word)
        branch.node.extend(model.graph.node)
        branch.initializer.extend(model.graph.initializer)
        branch.output.extend(model.graph.output)
        ends = {value.name: f"{word}_{value.name}" for value in branch.output}
        for node in branch.node:
            node.input[:] = [ends.get(name, name) for name in node.input]
            node.output[:] = [ends.get(name, name) for name in node.output]
        for value in branch.output:
            value.name = ends[value.name]
        branches.append(branch)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "which"))
    names = [value.name for value in model.graph.output]
    model.graph.node.append(helper.make_node("If", ["which"], names, then_branch=branches[0], else_branch=branches[1]))
    return model


def in_function(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return it with the nodes in a function, which says nothing of its types."""
    if has_graphs(model):
        return None
    names = [each.name for each in (*model.graph.input, *model.graph.initializer)]
    ends = [value.name for value in model.graph.output]
    sets = [helper.make_opsetid("", opset)]
    model.functions.append(helper.make_function("me", "F", names, ends, [*model.graph.node], sets))
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("F", names, ends, domain="me"))
    model.opset_import.append(helper.make_opsetid("me", 1))
    return model


@pytest.mark.outer
@pytest.mark.parametrize("variant", [as_it_is, without_shapes, with_defaults, in_branch, in_function])
def test_old_forms_compute_the_same(variant: Any) -> None:
    """Models of every version of every operator, in other operator sets, are right, told or refused: none is wrong."""
    pick = random.Random(f"{SEED} {variant.__name__}")
    cases = [*historical_cases()]
    failures: list[str] = []
    right = 0
    for case in pick.sample(cases, min(CASES, len(cases))) if CASES else cases:
        proto = variant(onnx.load_from_string(case.model), case.opset)
        if proto is None:
            continue
        given = proto.SerializeToString()
        expected = run(given, dict(case.inputs))
        numbers = [each.since for each in versions()[case.version.op_type]]
        ends = pick.sample([*numbers, *(number - 1 for number in numbers if number > 1)], min(3, len(numbers)))
        for wanted in sorted({*ends, defs.onnx_opset_version()} - {case.opset}):
            where = f"{case.name}: {case.version}, {case.opset} -> {wanted}"
            try:
                new, done = with_opset(formats.loads(given, format="onnx"), wanted)
            except UnsupportedError:
                continue
            data = formats.dumps(new, "onnx")
            if is_valid(given) and not is_valid(data):
                failures.append(f"{where}: not valid")
                continue
            if is_known(case.version.op_type, case.opset, wanted) or done.losses:
                continue
            wanted_results = case.outputs if expected is None else expected
            results = run(data, dict(case.inputs))
            if results is None:
                if expected is not None and wanted >= 7:  # onnxruntime has no kernels before
                    failures.append(f"{where}: does not run")
            elif is_close(results, wanted_results) or is_close(results, case.outputs):
                right += 1
            else:
                failures.append(f"{where}: another result")
    assert failures == []
    assert right or not CASES


def is_valid(model: bytes) -> bool:
    """Return whether onnx's checker accepts a model."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


X = np.arange(24, dtype="float32").reshape(1, 2, 3, 4)


def made(nodes: list[Any], opset: int, constants: Any = (), x: Any = X) -> formats.Model:
    """Return a model of nodes from `x` to `y`."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info("x", kind, x.shape), onnx.ValueInfoProto(name="y")]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=10,
    )
    return formats.loads(onnx.shape_inference.infer_shapes(proto).SerializeToString(), format="onnx")


NODE = helper.make_node
NEARER = np.array([1, 1, 0.5, 2], "float32")
LIFTED: dict[str, tuple[list[Any], int, dict[str, Any], int]] = {
    "a linear Upsample is asymmetric": (
        [NODE("Upsample", ["x", "s"], ["y"], mode="linear")],
        9,
        {"s": np.array([1, 1, 2, 3], "float32")},
        21,
    ),
    "a Resize that halves": ([NODE("Resize", ["x", "s"], ["y"], mode="nearest")], 10, {"s": NEARER}, 13),
    "a Hardmax of several axes": ([NODE("Hardmax", ["x"], ["y"], axis=1)], 12, {}, 13),
    "scales of groups": (
        [NODE("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=1)],
        18,
        {"s": np.array([2], "float32"), "b": np.array([1], "float32")},
        21,
    ),
    "scales of groups that older sets lack": (
        [NODE("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=1)],
        21,
        {"s": np.array([2, 3], "float32"), "b": np.array([1, 0], "float32")},
        13,
    ),
    "pads of some axes": (
        [NODE("Pad", ["x", "p", "", "a"], ["y"])],
        18,
        {"p": np.array([1, 2, 0, 1]), "a": np.array([-1, 1])},
        13,
    ),
    "images at places": (
        [NODE("Identity", ["x"], ["h"]), NODE("GridSample", ["h", "g"], ["y"], mode="linear")],
        20,
        {"g": np.linspace(-1, 1, 24, dtype="float32").reshape(1, 3, 4, 2)},
        16,
    ),
    "regions": (
        [NODE("RoiAlign", ["x", "r", "i"], ["y"], output_height=2, output_width=2)],
        10,
        {"r": np.array([[0, 0, 2, 2]], "float32"), "i": np.array([0])},
        16,
    ),
    "sizes of some axes": (
        [NODE("Resize", ["x", "", "", "z"], ["y"], axes=[3, 2], mode="nearest")],
        18,
        {"z": np.array([8, 6])},
        13,
    ),
    "an uneven split": (
        [NODE("Split", ["x"], ["p", "q"], axis=2, num_outputs=2), NODE("Concat", ["q", "p"], ["y"], axis=2)],
        18,
        {},
        13,
    ),
    "a batch that comes first": (
        [
            NODE("Squeeze", ["x", "a"], ["h"]),
            NODE("GRU", ["h", "w", "r"], ["", "y"], hidden_size=2, layout=1),
        ],
        14,
        {"a": np.array([0]), "w": np.ones((1, 6, 4), "float32") / 9, "r": np.ones((1, 6, 2), "float32") / 3},
        13,
    ),
    "a reduction over no axes": (
        [NODE("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)],
        13,
        {},
        11,
    ),
    "a mask that is not used": ([NODE("Dropout", ["x"], ["y"], ratio=0.3)], 7, {}, 22),
}


@pytest.mark.parametrize("name", LIFTED)
def test_forms_that_other_converters_get_wrong(name: str) -> None:
    """What changes its meaning or its parts between two versions computes the same in both."""
    nodes, opset, constants, wanted = LIFTED[name]
    model = made(nodes, opset, constants)
    new, done = with_opset(model, wanted)
    before, after = (run(formats.dumps(each, "onnx"), {"x": X}) for each in (model, new))
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-5)
    assert done.losses == ()


REFUSED = {
    "a Resize between two places": (
        [NODE("Resize", ["x", "s"], ["y"], mode="nearest")],
        10,
        {"s": np.array([1, 1, 0.7, 1], "float32")},
        11,
        "does not say which places of its input it reads for a scale of 0.7",
    ),
    "a batch in training": (
        [NODE("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"], is_test=0)],
        6,
        {"s": np.ones(2, "float32")},
        7,
        "it is in training mode",
    ),
    "pads that wrap": ([NODE("Pad", ["x", "p"], ["y"], mode="wrap")], 19, {"p": np.ones(8, "int64")}, 18, "'wrap'"),
    "regions with a shift": (
        [NODE("RoiAlign", ["x", "r", "i"], ["y"])],
        16,
        {"r": np.array([[0, 0, 2, 2]], "float32"), "i": np.array([0])},
        15,
        "does not shift its regions by half a pixel",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_says_why(name: str) -> None:
    """A node that has no form is refused in the words of ONNX."""
    nodes, opset, constants, wanted, words = REFUSED[name]
    with pytest.raises(UnsupportedError) as caught:
        with_opset(made(nodes, opset, constants), wanted)
    assert words in str(caught.value)


def test_a_version_that_nobody_compared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a row, a node is refused, not believed to be the same."""
    monkeypatch.delitem(version_steps.STEPS, ("Reshape", 14))
    with pytest.raises(UnsupportedError, match="it is not known here what changed in version 14 of Reshape"):
        with_opset(made([NODE("Reshape", ["x", "s"], ["y"])], 13, {"s": np.array([-1])}), 14)


def test_a_mask_is_told() -> None:
    """What ONNX does not define in one of both versions is told."""
    model = made([NODE("Dropout", ["x"], ["y", "m"]), NODE("Identity", ["m"], ["z"])], 7)
    _, done = with_opset(model, 12)
    assert [loss.detail[:45] for loss in done.losses] == ["a Dropout that drops nothing has a mask of tr"]


def test_all_differences_are_told() -> None:
    """A node that differs in two ways is told twice, and the one that everybody sees decides the verdict."""
    nodes = [NODE("Dropout", ["x"], ["y", "m"], is_test=0, ratio=0.5), NODE("Identity", ["m"], ["z"])]
    _, done = with_opset(made(nodes, 6), 13)
    assert sorted((loss.detail.split(",")[0], loss.seen) for loss in done.losses) == [
        ("Dropout drops elements in training before version 7; here it drops none", SPECIAL),
        ("a Dropout that drops nothing has a mask of true from version 12 on; before", RARE),
    ]


def test_types_of_functions_come_from_their_calls() -> None:
    """A function says nothing of its types; those of its calls decide whether an older form has them."""
    model = made([NODE("Cast", ["x"], ["h"], to=16), NODE("Abs", ["h"], ["g"]), NODE("Cast", ["g"], ["y"], to=1)], 13)
    proto = formats.to_onnx(model)
    body = [NODE("Abs", ["a"], ["b"])]
    proto.functions.append(helper.make_function("me", "F", ["a"], ["b"], body, [helper.make_opsetid("", 13)]))
    proto.opset_import.append(helper.make_opsetid("me", 1))
    proto.graph.node[1].op_type, proto.graph.node[1].domain = "F", "me"
    with pytest.raises(UnsupportedError, match=r"functions\[0\]\.node\[0\] \(Abs\): Abs accepts no tensor\(bfloat16\)"):
        with_opset(formats.from_onnx(proto), 12)


def test_malformed_nodes_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes that no version allows are an error of ours, not of Python."""
    for module in (operator_sets, node_conversion):  # onnx itself may end the process for such nodes
        monkeypatch.setattr(module, "inferred", lambda model: None)
    nodes = [
        (NODE("LpPool", ["x"], ["y"], p=float("nan"), kernel_shape=[1, 1]), 1, 2),
        (NODE("Cast", ["x"], ["y"], to=-100), 13, 1),
        (NODE("Tile", ["x", "k", "a"], ["y"]), 1, 6),
        (NODE("Transpose", ["x"], ["y"], perm="text"), 13, 1),
        (NODE("Resize", ["x", "a", "k", "k"], ["y"], axes=[9]), 18, 11),
    ]
    constants = {"a": np.array(99), "k": np.array([], "int64")}
    for node, given, wanted in nodes:
        tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3, 4]) for name in "xy"]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:], tensors)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", given)], ir_version=10)
        with contextlib.suppress(formats.FormatError):
            with_opset(formats.from_onnx(proto), wanted)
