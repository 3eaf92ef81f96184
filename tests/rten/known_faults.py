"""The faults of RTen and onnxruntime in `rten_faults.toml` and `onnxruntime_faults.toml`.

`python -m tests.rten.known_faults FOLDER` writes each model with its inputs, as ONNX's own tests of runtimes have them.
`--run NAME` runs a model in onnxruntime, as some faults end the process. `tests/rten/test_faults.py` checks the rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Fault(NamedTuple):
    """A model that shows a fault: what a release has `found`, outputs or its last words, and what is `wanted`."""

    name: str
    proto: onnx.ModelProto
    inputs: Mapping[str, np.ndarray[Any, Any]]
    found: list[Any] | str  # an array is a list, if its dims do not matter
    wanted: list[Any] | str  # words, if ONNX does not define a result
    source: str  # of `wanted`
    release: str  # the newest of onnxruntime that was seen with it
    is_optimised: bool


def rows(runtime: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the data file about `rten` or `onnxruntime`, by the names of the faults."""
    return tomllib.loads(Path(__file__).with_name(f"{runtime}_faults.toml").read_text(encoding="utf-8"))


def _array(stated: Any) -> Any:
    return np.array(stated["numbers"]).reshape(stated["dims"]) if isinstance(stated, dict) else stated


def _outputs(stated: Any) -> list[Any] | str:
    return stated if isinstance(stated, str) else [_array(output) for output in stated.values()]


def _fault(name: str, row: dict[str, Any]) -> Fault:
    proto = onnx.parser.parse_model(row["model"])
    inputs = {
        value.name: _array(row["inputs"][value.name]).astype(
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
        for value in proto.graph.input
    }
    found, wanted = _outputs(row["found"]), _outputs(row["wanted"])
    release, is_optimised = row.get("release", ""), row.get("is_optimised", False)
    return Fault(name, proto, inputs, found, wanted, row.get("source", "ONNX"), release, is_optimised)


OF_RTEN, OF_ONNXRUNTIME = (
    [_fault(name, row) for name, row in rows(runtime).items()] for runtime in ("rten", "onnxruntime")
)


def run_in_onnxruntime(fault: Fault) -> list[np.ndarray[Any, Any]]:
    """Return the outputs of onnxruntime, which may end the process."""
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fault.is_optimised else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(fault.proto.SerializeToString(), options, providers=providers)
    return session.run(None, dict(fault.inputs))  # type: ignore[no-any-return]


def main() -> None:
    """Write the models and their inputs into a folder, or run one model and print its outputs."""
    if sys.argv[1] == "--run":
        (fault,) = (fault for fault in OF_ONNXRUNTIME if fault.name == sys.argv[2])
        print(json.dumps([[array.shape, array.ravel().tolist()] for array in run_in_onnxruntime(fault)]))
        return
    for fault in OF_RTEN + OF_ONNXRUNTIME:
        folder = Path(sys.argv[1]) / fault.name / "test_data_set_0"
        folder.mkdir(parents=True)
        (folder.parent / "model.onnx").write_bytes(fault.proto.SerializeToString())
        for number, (name, array) in enumerate(fault.inputs.items()):
            (folder / f"input_{number}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


if __name__ == "__main__":
    main()
