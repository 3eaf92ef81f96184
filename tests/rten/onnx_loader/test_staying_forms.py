"""Each form of a node that RTen's ONNX loader reads is one that a test has run in RTen, or it is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corpus import backend_cases
from rten_cases import CASES
from staying_forms import all_forms, forms_in

from formats.onnxpb.codecs import CODEC as ONNX
from formats.rten.onnx_loader.runnable import runnable
from formats.rten.target import ONNX_LOADER
from formats.tensordata.sources.source import Literal

NOT_RUN = Path(__file__).parents[1] / "forms_not_run.json"


@pytest.mark.outer
def test_forms_that_stay_are_run(tmp_path: Path) -> None:
    """`test_runnable.py` runs all these models in RTen; the forms that none of them has are listed, and no others.

    Operators in the list are always rewritten, or only random graphs have them. The list is written to `not_run.json`
    in the test's folder: a form that is new in it needs a case in `rten_cases.py`.
    """
    given = [case.model() for case in CASES if not case.exact]
    given += [ONNX.read(Literal(case.model), None) for case in backend_cases()]
    made = [found.model for found in map(runnable, given) if found.error is None]
    left = sorted(" ".join(form).strip() for form in all_forms(ONNX_LOADER) - forms_in(made, ONNX_LOADER))
    (tmp_path / "not_run.json").write_text(json.dumps(left, indent=1) + "\n")
    assert json.loads(NOT_RUN.read_text()) == left
