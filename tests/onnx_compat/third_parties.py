"""Hands our messages to packages that take those of `onnx`, and compares what they give with the table of a document.

    python tests/onnx_compat/third_parties.py                           # with the packages of this Python
    python tests/onnx_compat/third_parties.py --python venv/bin/python  # with those of another one
    python tests/onnx_compat/third_parties.py --publish                 # also writes the table

Each job of `benchmarks/tools.py` that passes a message, and a few more, runs in processes of its own: with messages of
`onnx`; with ours, which `import formats.onnxpb as onnx` gives, and nothing else changed; and after `install()`. If a
package differs from its row, the exit code is 1. A package that is not installed is skipped by its name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import other_tool_jobs  # noqa: E402
import tool_jobs  # noqa: E402
import tools  # noqa: E402

DOCUMENT = ROOT / "docs" / "comparison.md"
TABLE = re.compile(
    r"(<!-- what packages take; tests/onnx_compat/third_parties.py writes it -->\n\n)(.*?)(\n<!-- end -->)", re.DOTALL
)
WAYS = ("onnx", "imported", "installed")
LONGEST = 300  # seconds of a process
# How a package asks what a message is: the attribute that it reads, and what the table calls it.
HOW = {"__class__": "`isinstance`", "DESCRIPTOR": "its descriptor", "SerializeToString": "its bytes"}


# Jobs that pass a message where those of the benchmark pass a path


def quantizes_a_message(folder: Path) -> Any:
    """The dynamic quantisation of onnxruntime."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(tool_jobs.loaded(folder), folder / "out.onnx")
    return folder / "out.onnx"


def quantizes_a_message_statically(folder: Path) -> Any:
    """The static quantisation of onnxruntime."""
    from onnxruntime.quantization import quantize_static

    quantize_static(tool_jobs.loaded(folder), folder / "out.onnx", tool_jobs.Inputs())
    return folder / "out.onnx"


def runs_a_message(folder: Path) -> Any:
    """A session of onnxruntime."""
    return tool_jobs.outputs(tool_jobs.loaded(folder).SerializeToString())


def goes_through_from_proto(folder: Path) -> Any:
    """The two functions of onnx-ir that programs use."""
    import onnx_ir

    return onnx_ir.to_proto(onnx_ir.from_proto(tool_jobs.loaded(folder)))


def infers_symbolic_shapes(folder: Path) -> Any:
    """The shapes of onnx-shape-inference."""
    import onnx_ir
    from onnx_shape_inference import infer_symbolic_shapes

    return onnx_ir.to_proto(infer_symbolic_shapes(onnx_ir.from_proto(tool_jobs.loaded(folder))))


def quantizes_with_neural_compressor(folder: Path) -> Any:
    """The weights in 4 bits of onnx-neural-compressor."""
    from onnx_neural_compressor.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(tool_jobs.loaded(folder), n_bits=4, block_size=16)
    quantizer.process()
    return getattr(quantizer.model, "model", quantizer.model)


OWN_JOBS: dict[str, dict[Callable[[Path], Any], str]] = {
    "onnxruntime": {
        quantizes_a_message: "`quantize_dynamic`",
        quantizes_a_message_statically: "`quantize_static`",
        runs_a_message: "run",
    },
    "onnx-ir": {goes_through_from_proto: "`from_proto`"},
    "onnx-shape-inference": {infers_symbolic_shapes: "infer shapes"},
    "onnx-neural-compressor": {quantizes_with_neural_compressor: "quantise to 4 bits"},
}
JOBS: dict[str, Callable[[Path], Any]] = {
    name: job
    for name, job in {**vars(tool_jobs), **vars(other_tool_jobs)}.items()
    if {"loaded", "inferred"} & set(getattr(getattr(job, "__code__", None), "co_names", ()))
}
JOBS |= {job.__name__: job for jobs in OWN_JOBS.values() for job in jobs}


class Row(NamedTuple):
    """A package: its release, how it asks what a message is, the jobs that give the same, and those that do not."""

    package: str
    release: str
    how: str
    done: dict[str, list[str]]
    failed: dict[str, list[str]]

    def cell(self, way: str) -> str:
        """What the table says of a way."""
        if not self.failed[way]:
            return "all"
        failed = ", ".join(self.failed[way])
        return f"all but {failed}" if self.done[way] else "none"

    @property
    def line(self) -> str:
        """The line of the table."""
        cells = self.package, self.release, self.how, self.cell("imported"), self.cell("installed")
        return f"| {' | '.join(cells)} |\n"


def packages() -> dict[str, dict[str, str]]:
    """The packages, each with its jobs and what the table calls them."""
    listed = {tool.name: {job: title for job, title in tool.jobs.items() if job in JOBS} for tool in tools.TOOLS}
    for package, jobs in OWN_JOBS.items():
        listed.setdefault(package, {}).update({job.__name__: title for job, title in jobs.items()})
    return {package: jobs for package, jobs in listed.items() if jobs}


# A process with one job


def watched(job: str) -> set[str]:
    """The attributes in `HOW` that the package of a job, or the job itself, reads of messages of ours from now on."""
    from formats.onnx_compat.protos.message import ProtoMessage

    asked: set[str] = set()
    others = {"formats", "google", tools.__name__, __name__}
    if job not in packages()["onnx"]:
        others.add("onnx")  # which packages use

    def read(message: Any, name: str) -> Any:
        if name in HOW and str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] not in others:
            asked.add(name)
        return object.__getattribute__(message, name)

    ProtoMessage.__getattribute__ = read  # type: ignore[method-assign,assignment]
    return asked


def child(name: str, way: str) -> None:
    """Do a job, and print what it gave and how it asked."""
    asked: set[str] = set()
    if way == "installed":
        import formats.onnxpb

        formats.onnxpb.install()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tool_jobs.build(Path("model.onnx"))
        if way == "imported":
            tool_jobs.MESSAGES[0] = "formats.onnxpb"
            asked = watched(name)
        try:
            found = tools.do(JOBS[name], Path(), 0)["found"]
        except ModuleNotFoundError as error:
            print("\n" + json.dumps({"missing": error.name}))
            return
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            found = None
        print("\n" + json.dumps({"found": found, "asked": sorted(asked)}))


def given(python: str, job: str, way: str) -> dict[str, Any]:
    """What a process of its own gives for a job."""
    command = [python, __file__, "--child", job, "--way", way]
    fixed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "ORT_LOG_LEVEL": "4"}
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | fixed, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return {"found": None, "asked": []}
    last = (run.stdout.strip().splitlines() or [""])[-1]
    found: dict[str, Any] = json.loads(last) if last.startswith("{") else {"found": None, "asked": []}
    if found.get("found") is None:
        print(f"  {job}, {way}: {(run.stderr.strip().splitlines() or ['nothing'])[-1]:.150}", file=sys.stderr)
    return found


def tried(python: str, package: str, jobs: dict[str, str]) -> Row | None:
    """The row of a package; `None` if it is not installed, or does none of its jobs with `onnx` either."""
    command = [python, "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return None
    done: dict[str, list[str]] = {way: [] for way in WAYS}
    failed: dict[str, list[str]] = {way: [] for way in WAYS}
    asked: set[str] = set()
    for job, title in jobs.items():
        theirs = given(python, job, WAYS[0]).get("found")
        if theirs is None:
            continue
        done[WAYS[0]].append(title)
        for way in WAYS[1:]:
            found = given(python, job, way)
            (done if found["found"] == theirs else failed)[way].append(title)
            asked.update(found["asked"])
    how = ", ".join(word for name, word in HOW.items() if name in asked) or "its fields"
    return Row(package, run.stdout.strip(), how, done, failed) if done[WAYS[0]] else None


# The table


def outcome(line: str) -> tuple[str, ...]:
    """What a line of the table says, without the release."""
    cells = [cell.strip() for cell in line.strip(" |\n").split(" | ")]
    return cells[0], *cells[2:]


def published() -> dict[str, str]:
    """The lines of the table in the document, by package."""
    match = TABLE.search(DOCUMENT.read_text(encoding="utf-8"))
    lines = match[2].splitlines()[2:] if match else []
    return {outcome(line)[0]: line for line in lines}


def main() -> None:
    """Try the packages, and compare the rows with the table, or publish them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publish", action="store_true", help="write the table of docs/comparison.md")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python that has the packages")
    parser.add_argument("--package", action="append", metavar="NAME", help="only this one; again for more")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.way)
        return
    known = published()
    lines, differing = dict(known), []
    for package, jobs in packages().items():
        if options.package and package not in options.package:
            continue
        row = tried(options.python, package, jobs)
        if row is None:
            print(f"{package}: skipped", file=sys.stderr)
            continue
        print(row.line, end="", flush=True)
        if package not in known or outcome(row.line) != outcome(known[package]):
            differing.append(package)
        lines[package] = row.line.rstrip("\n")
    if options.publish:
        head = "| package | release | knows a message by | by the import alone | after `install()` |\n"
        body = head + "|---|---|---|---|---|\n" + "".join(f"{line}\n" for line in lines.values())
        text = TABLE.sub(lambda match: match[1] + body + match[3], DOCUMENT.read_text(encoding="utf-8"))
        DOCUMENT.write_text(text, encoding="utf-8")
    elif differing:
        sys.exit(f"differs from the table: {', '.join(differing)}")


if __name__ == "__main__":
    main()
