"""Every version of every ONNX operator has the recorded outcome, in RTen's releases and back in ONNX."""

from __future__ import annotations

import collections
import functools
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.options import OnnxOptions
from formats.rten import CODEC
from formats.rten.convert.refusal import RefusalError
from formats.rten.options import RtenOptions
from formats.rten.raising.model import raise_model
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten.evaluation import difference, evaluate, evaluate_in_onnxruntime, held
from tests.rten.historical import RANDOM, historical_cases, versions
from tests.rten.rten_outcomes import row_for, row_of
from tests.rten.rten_tables import DEVIATIONS, NOT_AS_IN_ONNXRUNTIME
from tests.runtime.runner import RELEASES
from tests.systems import NIGHT, OF_THE_DAY

EXPECTED = json.loads((Path(__file__).parents[1] / "historical_outcomes.json").read_text())
TOLERANCE = 2e-4  # some references have four digits
# Prefixes of the names of cases whose outputs differ from onnxruntime's, besides those that differ from the suite's.
DIFFERENT = (
    *DEVIATIONS,
    *NOT_AS_IN_ONNXRUNTIME,
    "test_dropout_default_mask",
    "dropout_mask",
)  # the mask that ONNX has had since version 12


def reference(case):
    """Return the outputs of a case by onnxruntime; if it does not run the version, those of the newer form."""
    try:
        if case.version.op_type in RANDOM:
            return case.outputs
        return list(map(typed, evaluate_in_onnxruntime(case.model, case.inputs), case.outputs))
    except Exception:  # for many reasons: no kernel, or an operator set that is too new or too old
        return case.outputs


def typed(found, wanted):
    """Return an output of onnxruntime, which gives small floats as bits, in the type that it should have."""
    return found.view(wanted.dtype) if getattr(wanted, "dtype", np.dtype(bool)).isbuiltin == 2 else found


def differences(case, outputs, wanted):
    """Describe how outputs differ; for random numbers, only their dims are compared."""
    pairs = list(zip(outputs, wanted, strict=True))
    if case.version.op_type in RANDOM:
        return "; ".join(f"{right.shape} became {got.shape}" for got, right in pairs if got.shape != right.shape)
    return "; ".join(text for pair in pairs if (text := difference(*pair, TOLERANCE)))


class Computer:
    """Computes the outputs of .rten files, once for equal files of different operator versions."""

    def __init__(self, runtimes, path):
        self.runtimes, self.path = runtimes, path
        self.known = {}

    def outputs(self, data, case):
        """Return the outputs by place, in releases of RTen and in the converted ONNX file; or an error."""
        key = case.name, data
        if key not in self.known:
            self.path.write_bytes(data)
            runs = {release: functools.partial(self.in_rten, runtime) for release, runtime in self.runtimes.items()}
            runs["onnx"] = self.in_onnx
            self.known[key] = {place: self.attempt(run, data, case) for place, run in runs.items()}
        return self.known[key]

    def attempt(self, run, data, case):
        """Return the outputs, or the error."""
        try:
            return run(data, case)
        except Exception as error:  # any exception, because all cases run in one test
            return f"{type(error).__name__}: {error}"

    def in_rten(self, runtime, _data, case):
        """Return the outputs of a release of the real runtime."""
        return runtime.run(self.path, {name: held(value) for name, value in case.inputs.items()})

    def in_onnx(self, data, case):
        """Return the outputs of a .rten file that is converted back to ONNX."""
        model = raise_model(CODEC.read(Literal(data), None)).model
        return evaluate(to_bytes(ONNX.plan(model, Path("m"), OnnxOptions())), case.inputs)


def outcomes_of(case, computer):
    """Return the outcome of a case by place, "right" or what is wrong; or only why it is refused.

    A place is a release of RTen, or `onnx` for the model that the file is converted back to.
    """
    try:
        data = to_bytes(CODEC.plan(ONNX.read(Literal(case.model), None), computer.path, RtenOptions()))
    except RefusalError as error:
        reasons = {f"{refusal.op_type}: {refusal.reason}" for refusal in error.refusals}
        return {"refused": "; ".join(sorted(reasons))}
    wanted = reference(case)
    return {
        place: got if isinstance(got, str) else differences(case, got, wanted) or "right"
        for place, got in computer.outputs(data, case).items()
    }


@pytest.fixture(scope="module")
def outcomes(runtimes, tmp_path_factory):
    """The outcome of each case of the versions of today."""
    computer = Computer(runtimes, tmp_path_factory.mktemp("historical") / "m.rten")
    return [(case, outcomes_of(case, computer)) for case in historical_cases() if is_of_today(case.version)]


def is_of_today(version):
    """Whether a version is in the third of today; by night, all are."""
    return NIGHT or zlib.crc32(str(version).encode()) % 3 == OF_THE_DAY % 3


def test_every_version_has_an_outcome():
    """All versions of all operators in the installed `onnx` are known, and each has a model."""
    assert {str(version) for found in versions().values() for version in found} == set(EXPECTED)


def test_outcomes(outcomes, runtimes, tmp_path):
    """Each version has as many right models as recorded, and the others are refused or differ as recorded.

    The outcomes are written to `outcomes.json` in the test's folder; those of all versions, which `FORMATS_NIGHT=1`
    gives, can replace `historical_outcomes.json` after an intended change.
    """
    versions_cases = {}
    for case, outcome in outcomes:
        versions_cases.setdefault(str(case.version), []).append((case.name, outcome))
    found = {}
    for version, cases in versions_cases.items():
        run = [
            number for number, (_, outcome) in enumerate(cases) if "refused" not in outcome
        ]  # the same name may occur twice
        right = {release: [number for number in run if cases[number][1][release] == "right"] for release in runtimes}
        row = row_of(right, {release: sorted({*run} - {*numbers}) for release, numbers in right.items()})
        found[version] = {
            key: sorted(cases[number][0] for number in value) if isinstance(value, list) else value
            for key, value in row.items()
        }
        refused = collections.Counter(outcome["refused"] for _, outcome in cases if "refused" in outcome)
        if refused:
            found[version]["refused"] = dict(refused)
    lines = (f"{json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in found.items())
    (tmp_path / "outcomes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert {name: row_for(row, runtimes) for name, row in EXPECTED.items() if is_of_today(name)} == found


@pytest.mark.parametrize("place", [*RELEASES, "onnx"])
def test_nothing_is_wrong(place, outcomes):
    """A model that is not refused is right, in the runtime and back in ONNX, if the runtime's operator is right."""
    texts = {
        f"{case.version} in {case.opset}: {case.name}": outcome[place]
        for case, outcome in outcomes
        if "refused" not in outcome and not case.name.startswith(DIFFERENT)
    }
    assert {} == {name: text for name, text in texts.items() if text != "right"}
