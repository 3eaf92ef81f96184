"""A file written for a release of RTen runs in that release; by default, files run in all of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import formats
from formats.errors import EncodeError, FormatError, OptionError
from formats.onnxpb.codecs import CODEC as ONNX
from formats.rten import CODEC
from formats.rten.convert.legalize import legalize
from formats.rten.options import RtenOptions
from formats.rten.target import (
    ALL_RELEASES,
    ONNX_LOADER,
    RELEASES,
    RTEN_0_25,
    RTEN_0_26,
    RTEN_0_27,
    Fault,
    Target,
    parse_target,
)
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.corpus import backend_cases
from tests.rten.evaluation import difference, held
from tests.rten.rten_cases import CASES
from tests.runtime.runner import RunnerError
from tests.systems import NIGHT

PACKAGE = Path(formats.__file__).parent
BY_NAME = {case.name: case for case in CASES}
NEWEST = str(RELEASES[-1])
TOLERANCE = 1e-4
# Cases in which RTen computes with rounded sizes, like onnxruntime; by default, `exact` refuses them.
AS_ONNXRUNTIME = {"test_resize_downsample_scales_linear_align_corners"}


def test_releases_are_in_order() -> None:
    """The releases are sorted from the oldest to the newest."""
    assert sorted(RELEASES) == list(RELEASES)
    assert ALL_RELEASES.oldest == RELEASES[0]
    assert ONNX_LOADER.oldest == RELEASES[-1]


@pytest.mark.parametrize("release", RELEASES)
def test_targets_are_parsed(release) -> None:
    """A release is parsed from its version."""
    assert Target(release) == parse_target(str(release))


@pytest.mark.parametrize("text", ["0.24", "0.27.0", "", "newest", "1"])
def test_unknown_releases_are_refused(text) -> None:
    """The error lists the known releases."""
    with pytest.raises(
        EncodeError, match=rf"{re.escape(repr(text))} is not a known release of RTen; the releases are 0\.25, 0\.26"
    ):
        parse_target(text)


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        (Fault("always"), [True, True, True]),
        (Fault("mended", until=RTEN_0_26), [True, False, False]),
        (Fault("mended late", until=RTEN_0_27), [True, True, False]),
        (Fault("new", since=RTEN_0_26), [True, True, True]),
        (Fault("in one", since=RTEN_0_26, until=RTEN_0_27), [True, True, False]),
    ],
)
def test_faults_matter_where_a_release_has_them(fault, wanted) -> None:
    """A target deviates if any of its releases does."""
    assert [Target(release).deviates(fault) for release in (RTEN_0_25, RTEN_0_26, RTEN_0_27)] == wanted


def test_versions_stand_in_one_module() -> None:
    """No module of the codec contains the version of a release as text: they use the constants of `target.py`."""
    pattern = re.compile(r"RTen\s0\.\d|\b0\.2[5-9]\b")
    found = [path for path in (PACKAGE / "rten").rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))]
    assert [] == found


def op_types(case, target) -> list[str]:
    """Return the operators that a case's nodes become."""
    result = legalize(case.model(), case.exact, target)
    assert result.refusals == ()
    return sorted(node.op_type or "" for node in result.model.graph.node)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "op_type"),
    [
        ("cum_sum_exclusive", "CumSum"),
        ("reduce_log_sum", "ReduceLogSum"),
        ("reduce_log_sum_exp", "ReduceLogSumExp"),
        ("lp_normalization", "LpNormalization"),
    ],
)
def test_what_newer_releases_have_is_written_for_them(name, op_type) -> None:
    """An operator that is rewritten by default stays unchanged if all releases of the target run it."""
    case = BY_NAME[name]
    assert [op_type] == op_types(case, Target(RTEN_0_26))
    assert [op_type] != op_types(case, ALL_RELEASES)


def result_in(runtime, case, path, **options):
    """Return the bytes of a converted case, and how its outputs differ; `None` if it is refused."""
    try:
        model = ONNX.read(Literal(case.model), None)
        made = to_bytes(CODEC.plan(model, path, RtenOptions(**options)))
    except FormatError:
        return b"", None
    path.write_bytes(made)

    def run() -> str:
        try:
            outputs = runtime.run(path, {name: held(value) for name, value in case.inputs.items()})
        except RunnerError as error:
            return str(error)
        pairs = zip(outputs, case.outputs.values(), strict=True)
        return "; ".join(text for pair in pairs if (text := difference(*pair, TOLERANCE)))

    return made, run


@pytest.mark.parametrize("exact", [False, True] if NIGHT else [False])
def test_node_suite_for_the_newest_release(exact, runtimes, tmp_path) -> None:
    """Written for the newest release, all operator tests of ONNX stay right there, some of them in another form."""
    if NEWEST not in runtimes:
        pytest.skip(f"needs RTen {NEWEST} in RTEN_RELEASES")
    runtime, lost, changed = runtimes[NEWEST], {}, 0
    for case in backend_cases():
        before, run_before = result_in(runtime, case, tmp_path / "all.rten", exact=exact)
        after, run_after = result_in(runtime, case, tmp_path / "newest.rten", exact=exact, release=NEWEST)
        if before == after:
            continue
        changed += 1
        is_right = run_after is not None and not run_after()
        was_right = run_before is not None and not run_before()
        if not is_right and (was_right or not before) and case.id not in AS_ONNXRUNTIME:
            lost[case.id] = "refused" if run_after is None else run_after()
    assert {} == lost
    assert changed >= 30


def test_a_file_for_the_newest_release_is_refused_by_none_before_it_silently(runtimes, tmp_path) -> None:
    """Additions of 0.26 to the .rten schema do not load in 0.25, so 0.25 cannot compute something else."""
    case = BY_NAME["reduce_log_sum"]
    if str(RTEN_0_25) not in runtimes:
        pytest.skip(f"needs RTen {RTEN_0_25} in RTEN_RELEASES")
    path = tmp_path / "m.rten"
    model = ONNX.read(Literal(case.proto().SerializeToString()), None)
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions(release=NEWEST))))
    with pytest.raises(RunnerError, match="load"):
        runtimes[str(RTEN_0_25)].run(path, {name: np.asarray(value) for name, value in case.inputs.items()})


@pytest.mark.parametrize(("option", "word"), [({"release": NEWEST}, "runtime"), ({"exact": True}, "exact")])
def test_a_model_in_operators_of_rten_is_for_no_release(option, word, tmp_path) -> None:
    """A model in RTen's form is written back unchanged, so options about rewriting ONNX's operators are refused."""
    model = ONNX.read(Literal(BY_NAME["cum_sum_exclusive"].proto().SerializeToString()), None)
    path = tmp_path / "m.rten"
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions())))
    with pytest.raises(OptionError, match=f"`{word}` is for models with ONNX operators"):
        CODEC.plan(CODEC.read(Literal(path.read_bytes()), path), path, RtenOptions(**option))


@pytest.mark.parametrize(
    ("attributes", "operator", "releases"),
    [
        ({}, "CumSum", ("0.25", "0.26", "0.27")),
        ({"exclusive": 1}, "CumSum", ("0.26", "0.27")),
        ({}, "ReduceLogSum", ("0.26", "0.27")),
    ],
)
def test_a_file_is_read_by_the_releases_that_know_its_operators(attributes, operator, releases, tmp_path) -> None:
    """The releases begin with the first one that has each operator, and each field with a value."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    y.type.tensor_type.shape.dim[1].dim_value = 3 if operator == "CumSum" else 1
    axis = numpy_helper.from_array(np.array(1 if operator == "CumSum" else [1]), "axis")
    node = helper.make_node(operator, ["x", "axis"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", [x], [y], [axis])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten", runtime="rten==0.27")
    assert formats.inspect(tmp_path / "m.rten").releases == {"rten": releases}
