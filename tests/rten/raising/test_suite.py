"""From ONNX to RTen and back: every operator test of ONNX still gives the right outputs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from formats.errors import UnsupportedError
from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.options import OnnxOptions
from formats.rten import CODEC
from formats.rten.options import RtenOptions
from formats.rten.raising.model import raise_model
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.corpus import backend_cases
from tests.rten.evaluation import difference, evaluate, need_judge
from tests.systems import NIGHT

pytestmark = pytest.mark.outer  # it takes more than ten seconds
TOLERANCE = 2e-4  # some references have four digits

# Cases in which the .rten file computes something else, and its ONNX form does the same.
WRONG_IN_RTEN = {
    "test_maxunpool_export_with_output_shape": "places are counted in the output, as onnxruntime does",
    "test_bernoulli": "random numbers",
    "test_bernoulli_double": "random numbers",
    "test_bernoulli_double_expanded": "random numbers",
    "test_bernoulli_expanded": "random numbers",
    "test_bernoulli_seed": "random numbers",
    "test_bernoulli_seed_expanded": "random numbers",
}
# Cases in which onnxruntime computes something else, from the ONNX form and from the original.
WRONG_IN_ONNXRUNTIME = {
    "test_resize_downsample_scales_cubic_align_corners": "the length of the axis before it is rounded",
    "test_resize_downsample_scales_linear_align_corners": "the length of the axis before it is rounded",
}
MINIMUM_RIGHT = 1500
STEP = 1 if NIGHT else 3  # between the tests
MAXIMUM_REFUSED = 57


def outcome(case, path):
    """Return "refused", "right", or a description of what is wrong."""
    try:
        plan = CODEC.plan(ONNX.read(Literal(case.model), None), path, RtenOptions())
    except UnsupportedError:
        return "refused"
    raised = raise_model(CODEC.read(Literal(to_bytes(plan)), None))
    data = to_bytes(ONNX.plan(raised.model, path, OnnxOptions()))
    try:
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
        outputs = evaluate(data, case.inputs)
    except Exception as error:  # any exception, because all cases run in one test
        return f"{type(error).__name__}: {error}"
    pairs = zip(outputs, case.outputs.values(), strict=True)
    return next((text for pair in pairs if (text := difference(*pair, TOLERANCE))), "right")


@pytest.fixture(scope="module")
def outcomes():
    """The outcome of the operator tests of ONNX."""
    return {case.id: outcome(case, Path("m")) for case in backend_cases()[::STEP]}


def test_all_is_right(outcomes):
    """A model that RTen supports becomes valid ONNX again and gives the right outputs, if the .rten file does."""
    need_judge()
    wrong = {name: text for name, text in outcomes.items() if text not in ("right", "refused")}
    assert {} == {name: text for name, text in wrong.items() if name not in {**WRONG_IN_RTEN, **WRONG_IN_ONNXRUNTIME}}


def test_most_are_there(outcomes):
    """As many operator tests are right as ever before, and no more are refused."""
    assert MINIMUM_RIGHT // STEP <= sum(text == "right" for text in outcomes.values())
    assert MAXIMUM_REFUSED >= sum(text == "refused" for text in outcomes.values())
