"""Runs tools that import `onnx` as they are, and after `formats.onnxpb.install()`, and compares what they give.

    python benchmarks/tools.py                          # prints the table
    python benchmarks/tools.py --publish                # also writes tools.json and the table of docs/comparison.md
    python benchmarks/tools.py --job halves --job slims # only these
    python benchmarks/tools.py --python venv/bin/python # with the tools of another Python, which needs `formats`, too

Each run is a process of its own, which does the job several times: the times are the medians of CPU time without the
first, and the memory is the peak of the process. A tool that is not installed is skipped by its name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import documents
import numpy
import other_tool_jobs
import tool_jobs

RESULTS = Path(__file__).with_name("tools.json")
DOCUMENT = documents.ROOT / "docs" / "comparison.md"
SAME = 1.3  # a ratio up to this, or its inverse, counts as the same time
TIMES, LEAST_SECONDS = 7, 2.0  # a job that takes long is done less often
LONGEST = 300  # seconds of a process
MIB = 1 << 20
MISSING = "missing "  # what a process says of a tool that is not installed


JOBS: dict[str, Callable[[Path], Any]] = vars(tool_jobs) | vars(other_tool_jobs)


class Tool(NamedTuple):
    """A tool, by the name of its package, and its jobs: the function and what the table calls it."""

    name: str
    jobs: dict[str, str]


TOOLS = (
    Tool(
        "onnx",
        {
            "checks": "check",
            "infers_shapes": "infer shapes",
            "infers_with_data": "infer shapes, with data",
            "converts_versions": "convert the version",
            "merges": "merge models",
            "extracts": "extract a part",
            "prints": "print",
            "parses_text": "parse text",
            "prints_graphs": "print a graph",
            "evaluates": "evaluate",
            "sets_dims": "set dims",
            "replaces_constants": "replace weights",
            "moves_weights_out": "move weights out",
            "writes_text": "write and read textproto",
        },
    ),
    Tool(
        "onnxruntime",
        {
            "quantizes_dynamically": "quantise dynamically",
            "quantizes_statically": "quantise statically, QDQ",
            "quantizes_to_operators": "quantise statically, operators",
            "prepares_quantization": "prepare quantisation",
            "quantizes_to_bits": "quantise to 4 bits",
            "quantizes_to_bnb4": "quantise to 4 bits, bitsandbytes",
            "infers_symbols": "infer symbolic shapes",
            "fixes_shapes": "fix dims",
            "updates_opset": "update the opset",
            "converts_to_ort": "convert to .ort",
            "checks_for_mobiles": "check for mobiles",
            "halves_of_transformers": "transformers: float16",
            "optimizes_transformers": "transformers: optimise",
            "sorts_and_prunes": "transformers: sort and prune",
            "calibrates": "calibrate",
            "augments_to_debug": "outputs to debug quantisation",
        },
    ),
    Tool("onnxruntime-extensions", {"builds_preprocessing": "add preprocessing"}),
    Tool("onnxsim", {"simplifies": "simplify"}),
    Tool("onnxslim", {"slims": "slim"}),
    Tool("onnxoptimizer", {"optimizes": "optimise"}),
    Tool(
        "onnxconverter-common",
        {"halves": "float16", "mixes_precision": "mixed precision", "optimizes_commonly": "optimise"},
    ),
    Tool("onnx-shrink-ray", {"shrinks_weights": "quantise weights"}),
    Tool("qonnx", {"cleans_for_qonnx": "clean up", "lowers_for_qonnx": "lower batch normalisation"}),
    Tool("onnx-graphsurgeon", {"surveys": "rename, sort, export", "folds_with_surgeon": "fold constants"}),
    Tool("polygraphy", {"loads_with_polygraphy": "load, change outputs, save"}),
    Tool("onnx-ir", {"goes_through_ir": "from and to messages", "loads_with_ir": "load and save"}),
    Tool(
        "onnxscript",
        {
            "optimizes_with_onnxscript": "optimise",
            "rewrites_with_onnxscript": "rewrite",
            "converts_with_onnxscript": "convert the version",
            "builds_with_onnxscript": "build",
        },
    ),
    Tool("spox", {"builds_with_spox": "build", "inlines_with_spox": "inline a model"}),
    Tool(
        "onnx-array-api",
        {
            "builds_with_array_api": "build",
            "translates_to_code": "translate to code",
            "builds_graphs_with_array_api": "optimise",
        },
    ),
    Tool("onnx-safetensors", {"moves_to_safetensors": "move weights", "saves_safetensors": "save weights"}),
    Tool("skl2onnx", {"converts_scikit": "convert a forest"}),
    Tool("onnxmltools", {"converts_lightgbm": "convert LightGBM"}),
    Tool("openvino", {"reads_with_openvino": "convert a message", "reads_files_with_openvino": "run a file"}),
    Tool("nncf", {"compresses_with_nncf": "quantise"}),
    Tool("emx-onnx-cgen", {"generates_c": "generate C"}),
    Tool("onnx-tool", {"profiles": "profile", "rewrites_with_onnx_tool": "rewrite"}),
    Tool("diffonnx", {"compares": "compare"}),
    Tool("sclblonnx", {"edits_with_sclblonnx": "edit"}),
    Tool("sne4onnx", {"by_sne4onnx": "extract"}),
    Tool("snc4onnx", {"by_snc4onnx": "combine"}),
    Tool("sio4onnx", {"by_sio4onnx": "change dims"}),
    Tool("sor4onnx", {"by_sor4onnx": "rename"}),
    Tool("sog4onnx", {"by_sog4onnx": "make an operator"}),
    Tool("scs4onnx", {"by_scs4onnx": "share weights"}),
    Tool("sng4onnx", {"names_operators": "name operators"}),
    Tool("soc4onnx", {"changes_opset": "change the opset"}),
    Tool("onnx-conv2matmul", {"rewrites_convolutions": "rewrite convolutions"}),
    Tool("onnxcli", {"infers_by_command": "infer shapes"}),
    Tool("ndonnx", {"computes_with_ndonnx": "build"}),
    Tool("onnxifier", {"runs_passes": "run passes"}),
    Tool("sbi4onnx", {"by_sbi4onnx": "set the batch"}),
    Tool("sde4onnx", {"by_sde4onnx": "erase texts"}),
    Tool("ssc4onnx", {"by_ssc4onnx": "count operators"}),
    Tool("svs4onnx", {"by_svs4onnx": "switch values"}),
    Tool("soa4onnx", {"by_soa4onnx": "add outputs"}),
    Tool("sod4onnx", {"by_sod4onnx": "remove outputs"}),
    Tool("snd4onnx", {"by_snd4onnx": "remove a node"}),
    Tool("sna4onnx", {"by_sna4onnx": "add a node"}),
    Tool("scc4onnx", {"by_scc4onnx": "change the order of dims"}),
    Tool("onnx2json", {"by_onnx2json": "convert to JSON"}),
    Tool("json2onnx", {"by_json2onnx": "convert from JSON"}),
)


class Row(NamedTuple):
    """What a job of a tool cost with `onnx` and after `install`, in seconds of CPU and bytes; `None` if it failed."""

    tool: str
    job: str
    theirs: float
    ours: float
    their_bytes: int
    our_bytes: int
    same: bool

    @property
    def verdict(self) -> str:
        """How it compares, in a word."""
        if not self.same:
            return "differs"
        ratio = self.ours / self.theirs
        return "faster" if ratio < 1 / SAME else "same" if ratio <= SAME else "slower"


def plain(value: Any) -> Any:
    """What a job gave, in a form that two processes can compare: messages as their bytes, files as theirs."""
    if hasattr(value, "SerializeToString"):
        return [type(value).__name__, hashlib.sha256(value.SerializeToString()).hexdigest()]
    if isinstance(value, Path):
        return hashlib.sha256(value.read_bytes()).hexdigest()
    if hasattr(value, "tobytes"):
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, (int, float, str)) else repr(value)


def do(job: Callable[[Path], Any], folder: Path, times: int) -> dict[str, Any]:
    """Do a job several times here: what it gave, the CPU time of each, and the peak memory of this process."""
    spent: list[float] = []
    found: Any = None
    while len(spent) <= times and (len(spent) < 2 or sum(spent) < LEAST_SECONDS):
        random.seed(0)  # tools make names of random letters
        numpy.random.seed(0)
        start = time.process_time()
        found = job(folder)
        spent.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"found": plain(found), "seconds": statistics.median(spent[1:] or spent), "peak": peak}


def child(job: str, *, is_installed: bool, times: int) -> None:
    """Print what `do` gives, in a process that does only this."""
    if is_installed:
        import formats.onnxpb

        formats.onnxpb.install()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tool_jobs.build(Path("model.onnx"))
        try:
            print("\n" + json.dumps(do(JOBS[job], Path(), times)))
        except ModuleNotFoundError as error:
            print(f"\n{MISSING}{error.name}")


def measured(python: str, job: str, *, is_installed: bool, times: int = TIMES) -> dict[str, Any] | str:
    """What a process of its own gives for a job, or the last line of its error."""
    command = [python, __file__, "--times", str(times), "--child", job, *(["--installed"] if is_installed else [])]
    fixed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "ORT_LOG_LEVEL": "4"}
    environment = os.environ | fixed | {"PYTHONPATH": str(documents.ROOT)}
    try:
        run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return "takes too long"
    last = (run.stdout.strip().splitlines() or [""])[-1]
    if run.returncode == 0 and last.startswith(MISSING):
        return last
    if run.returncode or not last.startswith("{"):
        return (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
    found: dict[str, Any] = json.loads(last)
    return found


def compared(python: str, tool: str, job: str, title: str, times: int = TIMES) -> Row | str:
    """The row of a job, or why there is none."""
    theirs = measured(python, job, is_installed=False, times=times)
    if isinstance(theirs, str):
        return f"{tool}: {title}: skipped: {theirs}"
    ours = measured(python, job, is_installed=True, times=times)
    if isinstance(ours, str):
        print(f"{tool}: {title}: after install(): {ours}", file=sys.stderr)
        return Row(tool, title, theirs["seconds"], 0, theirs["peak"], 0, same=False)
    is_same = ours["found"] == theirs["found"]
    return Row(tool, title, theirs["seconds"], ours["seconds"], theirs["peak"], ours["peak"], same=is_same)


def table(rows: list[Row]) -> str:
    """The table of docs/comparison.md."""
    lines = [
        "| tool | job | `onnx` | after `install` | ratio | memory | result | time |",
        "|---|---|--:|--:|--:|--:|---|---|",
    ]
    for row in rows:
        costs = f"{row.theirs * 1e3:,.1f} ms | {row.ours * 1e3:,.1f} ms | {documents.figure(row.ours / row.theirs)}"
        memory = f"{(row.our_bytes - row.their_bytes) / MIB:+,.0f} MiB"
        result = "same" if row.same else "differs"
        lines.append(f"| {row.tool} | {row.job} | {costs} | {memory} | {result} | {row.verdict} |")
    return "\n".join(lines) + "\n"


def summary(rows: list[Row]) -> str:
    """How many jobs of how many tools give the same, and how their times compare."""
    tools = len({row.tool for row in rows})
    counts = {word: sum(row.verdict == word for row in rows) for word in ("faster", "same", "slower", "differs")}
    same = len(rows) - counts["differs"]
    times = f"{counts['faster']} are faster, {counts['same']} take the same time, {counts['slower']} are slower"
    return f"{len(rows)} jobs of {tools} tools: {same} give the same; {times}.\n"


def current(text: str, rows: list[Row]) -> str:
    """The text of the document with the table of these rows in it."""
    return documents.current(text, [f"{summary(rows)}\n{table(rows)}"], "tools.py")


def known() -> list[Row]:
    """The published rows."""
    return [Row(*row) for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]]


def main() -> None:
    """The table is printed, and published if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publish", action="store_true", help="write tools.json and docs/comparison.md")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python that has the tools")
    parser.add_argument("--job", action="append", metavar="NAME", help="only this job; again for more")
    parser.add_argument("--times", type=int, default=TIMES, metavar="N", help="%(default)s by default")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--installed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, is_installed=options.installed, times=options.times)
        return
    rows: list[Row] = []
    for tool in TOOLS:
        for job, title in tool.jobs.items():
            if options.job and job not in options.job:
                continue
            found = compared(options.python, tool.name, job, title, options.times)
            if isinstance(found, str):
                print(found, file=sys.stderr)
            else:
                print(f"{tool.name}: {title}: {found.verdict}", file=sys.stderr)
                rows.append(found)
    print(summary(rows) + "\n" + table(rows), end="")
    if options.publish:
        lines = ",\n  ".join(json.dumps(row) for row in rows)
        RESULTS.write_text(f'{{"rows": [\n  {lines}\n]}}\n', encoding="utf-8")
        DOCUMENT.write_text(current(DOCUMENT.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
