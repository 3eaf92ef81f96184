"""The faults on `docs/rten_faults.md` and `docs/onnxruntime_faults.md`: models with inputs, and what comes out.

`python tests/rten/fault_pages.py FOLDER` writes all models there. Without a folder, it writes
`tests/runtime/0.27/faults.rs`, the program of the lines of Rust on the first page. `--run NAME` runs a model in
onnxruntime, as some faults end the process. `tests/rten/test_faults.py` checks that the pages are true.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser
from onnx import helper

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "runtime" / "0.27" / "faults.rs"
PAGES = {name: (ROOT / "docs" / f"{name}_faults.md").read_text(encoding="utf-8") for name in ("rten", "onnxruntime")}
SECTION = re.compile(
    r"^### `(?P<name>\w+)`\n\n.+\n\n"
    r"```text\n(?P<model>[^`]+)```\n\n"
    r"(?:```rust\n(?P<rust>[^`]+)```\n\n)?"
    r"```text\n"
    r"(?:(?P<inputs>.+)\n\n)?"
    r"(?P<release>.+?) {2,}(?P<found>.+)\n"
    r"(?P<source>.+?) {2,}(?P<wanted>.+)\n"
    r"```$",
    re.MULTILINE,
)
SHOWN = re.compile(r"(?P<name>\w+) = \[(?P<numbers>[^]]*)\](?:, dims \[(?P<dims>[^]]*)\])?")
RUST_TENSOR = re.compile(r"let (?P<name>\w+) = .*from_data\(&\[(?P<dims>[^]]*)\], vec!\[(?P<numbers>[^]]*)\]\);")
RUST_NUMBER = re.compile(r"let (?P<name>\w+) = Tensor::from\((?P<numbers>\S+)\);(?P<dims>)")
ARM = "        // the lines of one model, in an arm of its own, and ...\n"  # stands for the arms on the page
NOTE = "// The program of docs/rten_faults.md; tests/rten/fault_pages.py writes it.\n"


class Fault(NamedTuple):
    """A model that shows a fault: what a release has `found`, outputs or its last words, and what is `wanted`."""

    name: str
    proto: onnx.ModelProto
    rust: str
    inputs: Mapping[str, np.ndarray[Any, Any]]
    release: str
    found: list[Any] | str  # an array is a list, if the page has no dims
    wanted: list[Any] | str  # words, if ONNX does not define a result
    source: str  # of `wanted`


def _arrays(pattern: re.Pattern[str], text: str) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for match in pattern.finditer(text):
        numbers, dims = [_number(number) for number in match["numbers"].split(", ") if number], match["dims"]
        arrays[match["name"]] = (
            numbers if dims is None else np.array(numbers).reshape([int(dim) for dim in dims.split(", ") if dim])
        )
    return arrays


def _number(text: str) -> float:
    return float(text.removeprefix("f32::").partition("_")[0])


def _faults(page: str) -> list[Fault]:
    faults = []
    for section in SECTION.finditer(page):
        proto, rust = onnx.parser.parse_model(section["model"]), section["rust"] or ""
        given = _arrays(SHOWN, section["inputs"] or "") | _arrays(RUST_TENSOR, rust) | _arrays(RUST_NUMBER, rust)
        inputs = {
            value.name: given[value.name].astype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
            for value in proto.graph.input
        }
        found, wanted = (list(_arrays(SHOWN, section[part]).values()) or section[part] for part in ("found", "wanted"))
        faults.append(Fault(section["name"], proto, rust, inputs, section["release"], found, wanted, section["source"]))
    return faults


OF_RTEN, OF_ONNXRUNTIME = (_faults(page) for page in PAGES.values())


def program() -> str:
    """Return the program that runs all models of the first page."""
    arms = "".join(f'"{fault.name}" => {{\n{textwrap.indent(fault.rust, "    ")}}}\n' for fault in OF_RTEN)
    text = PAGES["rten"].split("```rust\n")[1].split("```")[0]
    return NOTE + text.replace("fn main", "#[rustfmt::skip] // as on the page\nfn main").replace(
        ARM, textwrap.indent(arms, " " * 8)
    )


def run_in_onnxruntime(fault: Fault) -> list[np.ndarray[Any, Any]]:
    """Return the outputs of onnxruntime, which may end the process."""
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    is_optimized = fault.release.endswith("optimised")
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if is_optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(fault.proto.SerializeToString(), options, providers=providers)
    return session.run(None, dict(fault.inputs))  # type: ignore[no-any-return]


def main() -> None:
    """Write the program, or the models into a folder; or run one model and print its outputs."""
    if sys.argv[1:2] == ["--run"]:
        (fault,) = (fault for fault in OF_ONNXRUNTIME if fault.name == sys.argv[2])
        print(json.dumps([[array.shape, array.ravel().tolist()] for array in run_in_onnxruntime(fault)]))
    elif len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for fault in OF_RTEN + OF_ONNXRUNTIME:
            (folder / f"{fault.name}.onnx").write_bytes(fault.proto.SerializeToString())
    else:
        PROGRAM.write_text(program(), encoding="utf-8")


if __name__ == "__main__":
    main()
