"""The real RTen runtime runs the files of the codec, and computes what ONNX says."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest

from formats.errors import FormatError
from formats.ir.model import Graph
from formats.onnxpb.codecs import CODEC as ONNX
from formats.rten import CODEC
from formats.rten.convert.refusal import RefusalError
from formats.rten.graph.attribute_tables import encode_attributes
from formats.rten.graph.attributes import make_node
from formats.rten.options import RtenOptions
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.corpus import BackendCase, backend_cases, backend_files
from tests.rten.evaluation import difference, held
from tests.rten.rten_forms import build
from tests.rten.rten_operators import HELD
from tests.rten.rten_outcomes import row_for, row_of
from tests.rten.rten_tables import DEVIATIONS
from tests.runtime.runner import RunnerError
from tests.systems import NIGHT

# The largest allowed deviation, relative to the largest magnitude of the reference. The runtime computes in float32
# what a half-precision type rounds after every operator: errors of 11 bits, or 8 for bfloat16, add up over a model's
# depth. In a quantised model, a float with another last bit can be rounded to the next of 256 steps, and the steps of
# several layers add up; a wrong scale or zero point would be wrong by the whole magnitude.
TOLERANCE = 1e-4
TOLERANCES = {"fp16": 1e-2, "qdq8": 5e-2, "dynq8": 5e-2}


def converted(data, path, **options):
    """Write the .rten form of an .onnx file, and return its bytes."""
    model = ONNX.read(Literal(data), None)
    made = to_bytes(CODEC.plan(model, path, RtenOptions(**options)))
    path.write_bytes(made)
    return made


@pytest.mark.parametrize("version", [1, 2])
def test_shared_models(shared_model, version, runtimes, tmp_path):
    """Every exported model gives the same outputs as in onnxruntime, from both versions of file."""
    data = shared_model.read_bytes()
    reference = np.load(shared_model.with_suffix(".npz"))
    path = tmp_path / "m.rten"
    made = converted(data, path, rten_version=version)
    inputs = {key.removeprefix("in_"): reference[key] for key in reference.files if key.startswith("in_")}
    wanted = [reference[f"out_{number}"] for number in range(len(reference.files) - len(inputs))]
    tolerance = TOLERANCES.get(shared_model.stem.rpartition(".")[2], TOLERANCE)
    for release, runtime in runtimes.items():
        outputs = runtime.run(path, inputs)
        differences = [difference(*pair, tolerance) for pair in zip(outputs, wanted, strict=True)]
        assert [""] * len(wanted) == differences, release
    again = CODEC.read(Literal(made), path)
    assert made == to_bytes(CODEC.plan(again, path, RtenOptions(rten_version=version)))
    assert made == converted(data, path, rten_version=version)


def test_constants_of_all_kinds(make, runtime, tmp_path):
    """Small and large, scalar and empty constants of every type are written correctly."""
    rng = np.random.default_rng(0)
    arrays = {}
    for dtype in ("float32", "float16", "float64", "int8", "uint8", "int32", "int64", "bool", "int16", "uint16"):
        for shape in ((), (3,), (0, 4), (17, 3)):
            arrays[f"{dtype}{len(arrays)}"] = (rng.random(shape) * 100).astype(dtype)
    constants = [make.tensor(name, array, array.dtype) for name, array in arrays.items()]
    graph = make.graph(outputs=[make.value(t.name, t.data_type) for t in constants], constants=constants)
    path = tmp_path / "m.rten"
    for version in (1, 2):
        path.write_bytes(to_bytes(CODEC.plan(make.model(graph), path, RtenOptions(rten_version=version))))
        outputs = runtime.run(path, {})
        assert [""] * len(arrays) == [
            difference(got, wanted, 1e-7) for got, wanted in zip(outputs, arrays.values(), strict=True)
        ]


def test_unknown_dimensions_are_independent(make, runtime, tmp_path):
    """Inputs whose sizes are unknown in the model may have different sizes, with shapes that are computed at load."""
    values = [make.value(name, 1, [None, "?", -1]) for name in ("a", "b")]
    for value in values:
        value.type.tensor_type.shape.dim[0].dim_value = None
    nodes = [make.node("Shape", [name], [f"{name}_shape"]) for name in ("a", "b")]
    nodes.append(make.node("Sub", ["a_shape", "b_shape"], ["y"]))
    path = tmp_path / "m.rten"
    model = make.model(make.graph(nodes, values, [make.value("y", 7, [3])]))
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions())))
    inputs = {"a": np.zeros((1, 2, 3), np.float32), "b": np.zeros((4, 4, 4), np.float32)}
    assert [[-3, -2, -1]] == [output.tolist() for output in runtime.run(path, inputs)]


REQUIRED = {
    int: 1,
    list: [1, 1],
    str: "a->a",
    Graph: Graph(),
}


def attribute_table(spec):
    """Return the attribute table of a node with only the attributes that it needs."""
    required = {field.onnx_name: REQUIRED[field.kind] for field in spec.to_rten.row.fields if field.required}
    problems = []
    table = encode_attributes(spec, make_node(spec.name, [], [], **required), lambda *_: {"nodes": []}, problems)
    assert [] == problems
    return table


@pytest.fixture
def stage(runtime, tmp_path):
    """Load an operator with this many inputs; return at which stage it failed, and why."""

    def run(spec, inputs, attrs):
        operator = {"type": spec.name, "inputs": tuple(range(inputs)), "outputs": (inputs,), "attrs": attrs}
        nodes = [{"name": f"v{number}", "data": ("ValueNode", {})} for number in range(inputs + 1)]
        nodes.append({"data": ("OperatorNode", operator)})
        graph = {"nodes": nodes, "inputs": tuple(range(inputs)), "outputs": (inputs,)}
        path = tmp_path / "m.rten"
        path.write_bytes(b"".join(build({"schema_version": 1, "graph": graph})))
        try:
            runtime.run(path, {})
        except RunnerError as error:
            return error.stage, error.message
        return "", ""

    return run


MORE_INPUTS = {"Dropout": ("0.26", 3)}  # inputs that operators accept since a release; our files do not need them


@pytest.mark.parametrize("spec", HELD.values(), ids=lambda spec: spec.name)
def test_rows_agree_with_the_loader(spec, stage, runtime):
    """The loader knows the operator, accepts the number of inputs in its row, and its attribute table."""
    row, attrs = spec.to_rten.row, attribute_table(spec)
    since, more = MORE_INPUTS.get(spec.name, (runtime.release, row.inputs))
    inputs = more if runtime.release >= since else row.inputs
    where, reason = stage(spec, 12 if inputs is None else inputs, attrs)
    if runtime.release < str(row.since):
        assert ("load", "not supported") == (where, reason[-len("not supported") :])
        return
    assert "load" != where, reason
    if inputs is not None:
        where, reason = stage(spec, inputs + 1, attrs)
        assert ("load", True) == (where, f"maximum is {inputs}" in reason)
    if row.attrs:
        where, reason = stage(spec, 1 if row.inputs else 0, None)
        assert ("load" == where) == (not row.optional), reason


EXPECTED = Path(__file__).parent / "backend_outcomes.json"
STEP = 1 if NIGHT else 3  # between the operator tests whose form is changed
RANDOM = "test_bernoulli"  # few bits, which may equal those of the reference by chance


def outcomes_of(cases, runtimes, path, **options):
    """Return the outcomes of the cases in each release: for each outcome, the ids with a reason.

    They are converted once, so a refused case is refused in all releases.
    """
    outcomes = {release: {"right": {}, "wrong": {}, "refused": {}, "failed": {}, "error": {}} for release in runtimes}
    for case in cases:
        attempt = None
        try:
            converted(case.model, path, **options)
        except RefusalError as error:
            attempt = "refused", sorted({f"{refusal.op_type}: {refusal.reason}" for refusal in error.refusals})
        except FormatError as error:
            attempt = "error", str(error)
        inputs = {name: held(value) for name, value in case.inputs.items()}
        for release, runtime in runtimes.items():
            outcome, reason = attempt or outcome_in(runtime, path, inputs, case)
            outcomes[release][outcome][case.id] = reason
    return outcomes


def outcome_in(runtime, path, inputs, case):
    """Return the outcome of a case in one release, with a reason."""
    try:
        outputs = runtime.run(path, inputs)
    except RunnerError as error:
        return "failed", str(error)
    pairs = zip(outputs, case.outputs.values(), strict=True)
    differences = [text for pair in pairs if (text := difference(*pair, TOLERANCE))]
    return "wrong" if differences else "right", "; ".join(differences)


def unexpected(outcomes):
    """Return, by release, the cases that are not right, refused or a known deviation of the runtime."""
    found = {}
    for release, of_release in outcomes.items():
        wrong = {name: text for name, text in of_release["wrong"].items() if not name.startswith(tuple(DEVIATIONS))}
        if bad := wrong | of_release["failed"] | of_release["error"]:
            found[release] = bad
    return found


def file_cases():
    """Yield the old files of the `onnx` package that have inputs and outputs next to them."""
    for name, path in backend_files():
        data = path.parent / "test_data_set_0"
        if data.exists():
            model = onnx.load(path)
            constants = {tensor.name for tensor in model.graph.initializer}
            inputs = [value.name for value in model.graph.input if value.name not in constants]
            yield BackendCase(
                name,
                path.read_bytes(),
                {value: stored(data / f"input_{number}.pb") for number, value in enumerate(inputs)},
                {value.name: stored(data / f"output_{number}.pb") for number, value in enumerate(model.graph.output)},
            )


def stored(path):
    """Return the tensor in a file, with strings as bytes."""
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def constant_cases():
    """Yield the operator tests with their short vectors and scalars as constants, as real models have them."""
    for case in backend_cases():
        model = onnx.ModelProto.FromString(case.model)
        inputs = dict(case.inputs)
        for value in list(model.graph.input)[1:]:
            array = inputs[value.name]
            if isinstance(array, np.ndarray) and array.ndim < 2 and array.size <= 8 and array.dtype.kind in "if":
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
                model.graph.input.remove(value)
                del inputs[value.name]
        if len(inputs) < len(case.inputs):
            yield case._replace(model=model.SerializeToString(), inputs=inputs)


def undeclared_cases():
    """Yield the operator tests with dims that are known only at run time, and RTen's output dims as another output.

    At load, RTen folds everything that it considers constant, so a wrongly inferred size or rank is visible.
    """
    shapes, given = "all_shapes", "given"
    for case in backend_cases():
        model = onnx.ModelProto.FromString(case.model)
        graph = model.graph
        for value in graph.input:
            for number, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"{value.name} {number}"
        parts, wanted = [given], [np.array([7])]  # a model with two outputs that are the same constant does not load
        for value in graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
                dims, rank = f"{value.name} dims", f"{value.name} rank"
                graph.node.append(onnx.helper.make_node("Shape", [value.name], [dims]))
                graph.node.append(onnx.helper.make_node("Shape", [dims], [rank]))
                parts += dims, rank
                wanted += np.array(case.outputs[value.name].shape), np.array([case.outputs[value.name].ndim])
        graph.node.append(onnx.helper.make_node("Concat", parts, [shapes], axis=0))
        graph.input.append(onnx.helper.make_tensor_value_info(given, onnx.TensorProto.INT64, [1]))
        graph.output.append(onnx.helper.make_tensor_value_info(shapes, onnx.TensorProto.INT64, None))
        yield case._replace(
            model=model.SerializeToString(),
            inputs={**case.inputs, given: np.array([7])},
            outputs={**case.outputs, shapes: np.concatenate(wanted)},
        )


def sliced_cases():
    """Yield the operator tests with matrices that are slices of a larger value, which nothing else uses.

    RTen slices such a value in place, so the operator gets a value that is not contiguous, and that it may change.
    """
    for case in backend_cases():
        model = onnx.ModelProto.FromString(case.model)
        graph = model.graph
        opset = next((entry.version for entry in model.opset_import if entry.domain == ""), 0)
        sliced = {}
        for value in graph.input:
            elem_type, array = value.type.tensor_type.elem_type, case.inputs[value.name]
            if opset >= 13 and elem_type in (1, 6, 7) and np.ndim(array) >= 2 and array.shape[-1]:
                sliced[value.name] = f"{value.name} sliced"
                ends = {f"{value.name} {end}": number for end, number in (("begin", 0), ("end", array.shape[-1]))}
                for end, number in {**ends, f"{value.name} axis": -1}.items():
                    graph.initializer.append(onnx.numpy_helper.from_array(np.array([number]), end))
        for node in graph.node:
            node.input[:] = [sliced.get(name, name) for name in node.input]
        for name, part in sliced.items():
            bounds = [f"{name} {bound}" for bound in ("begin", "end", "axis")]
            graph.node.insert(0, onnx.helper.make_node("Slice", [f"{name} twice", *bounds], [part]))
            graph.node.insert(0, onnx.helper.make_node("Concat", [name, name], [f"{name} twice"], axis=-1))
        if sliced:
            yield case._replace(model=model.SerializeToString())


@pytest.mark.parametrize(
    ("cases", "minimum"),
    [
        (constant_cases, 630),
        (file_cases, 130),
        (undeclared_cases, 1490),
        (sliced_cases, 1010),
    ],
    ids=["constants", "files", "undeclared", "sliced"],
)
def test_backend(cases, minimum, runtimes, tmp_path):
    """The operator tests of ONNX, and its old files, are right or refused; at least as many are right as before."""
    outcomes = outcomes_of(islice(cases(), 0, None, STEP), runtimes, tmp_path / "m.rten")
    assert {} == unexpected(outcomes)
    assert minimum // STEP <= min(len(of_release["right"]) for of_release in outcomes.values())


@pytest.mark.parametrize("mode", ["native", "exact"])
def test_backend_nodes(mode, runtimes, tmp_path):
    """Each operator test of ONNX has its recorded outcome: right, refused for the same reasons, or deviating.

    The outcomes are written to `outcomes.json` in the test's folder, which can replace `backend_outcomes.json` after an
    intended change.
    """
    outcomes = outcomes_of(backend_cases(), runtimes, tmp_path / "m.rten", exact=mode == "exact")
    assert {} == unexpected(outcomes)
    right, deviating = (
        {
            release: [name for name in of_release[outcome] if not name.startswith(RANDOM)]
            for release, of_release in outcomes.items()
        }
        for outcome in ("right", "wrong")
    )
    by_reason = {}
    for name, reasons in next(iter(outcomes.values()))["refused"].items():
        by_reason.setdefault("; ".join(reasons), []).append(name)
    found = {**row_of(right, deviating), "refused": by_reason}
    (tmp_path / "outcomes.json").write_text(json.dumps(found, indent=1, sort_keys=True))
    assert row_for(json.loads(EXPECTED.read_text())[mode], runtimes) == found
