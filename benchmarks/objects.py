"""Compares objects of `formats.onnxpb` with those of `onnx`: the same jobs, in one process, by CPU time.

    python benchmarks/objects.py                    # prints the table
    python benchmarks/objects.py --publish          # also writes objects.json and the table of docs/comparison.md

The models are a transformer as PyTorch's exporter writes it. A job of a library is done with each of the two; a tool
that imports `onnx` itself runs as it is, and again after `formats.onnxpb.install()`. Both must give the same bytes.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import documents
import models
import onnx
import work

import formats.onnxpb

RESULTS = Path(__file__).with_name("objects.json")
DOCUMENT = documents.ROOT / "docs" / "comparison.md"
MODELS = ("small.onnx", "torchscript-2.onnx", "torchscript-40.onnx", "nodes-40000.onnx")  # tools: not the last one
SAME = 1.3  # a ratio up to this, or its inverse, counts as the same time
BUILT = 2000
MANY_NODES = 40
ROUNDS, LEAST_SECONDS = 9, 0.02  # a job that is shorter is repeated, with objects of its own each time


class Job(NamedTuple):
    """What is done, and what it may cost: `limit` times what it costs with `onnx`, or no limit.

    `least_limit` is the limit for a model of fewer than MANY_NODES.
    """

    name: str
    limit: float | None
    prepare: Callable[[Any, Path], Any]
    work: Callable[[Any, Any], Any]
    is_tool: bool = False
    least_limit: float | None = None


class Figure(NamedTuple):
    """What a job cost with a model of so many nodes, in seconds."""

    job: str
    nodes: int
    theirs: float
    ours: float
    limit: float | None

    @property
    def ratio(self) -> float:
        """How many times as long ours takes."""
        return self.ours / self.theirs

    @property
    def verdict(self) -> str:
        """How it compares, in a word."""
        return "faster" if self.ratio < 1 / SAME else "same" if self.ratio <= SAME else "slower"


def path_of(_: Any, path: Path) -> Path:
    """The file."""
    return path


def new_path(_: Any, path: Path) -> Path:
    """The file; that with the result does not exist."""
    path.with_suffix(".written").unlink(missing_ok=True)
    return path


def data_of(_: Any, path: Path) -> bytes:
    """The bytes of the file."""
    return path.read_bytes()


def parsed(library: Any, path: Path) -> Any:
    """The message, of which nothing was read."""
    return library.ModelProto.FromString(path.read_bytes())


def read(library: Any, path: Path) -> Any:
    """The message, all of which was read."""
    model = parsed(library, path)
    work.read_graph_of_messages(model)
    return model


def two(library: Any, path: Path) -> Any:
    """Two equal messages, of which everything was read."""
    return read(library, path), read(library, path)


def copied(library: Any, model: Any) -> Any:
    """A message that was made equal to another one by `CopyFrom`."""
    new = library.ModelProto()
    new.CopyFrom(model)
    return new


def check(library: Any, model: Any) -> Any:
    """What the checker returns about the model."""
    return importlib.import_module(f"{library.__name__}.checker").check_model(model)


def resave(library: Any, path: Path) -> Any:
    """The model was loaded and saved."""
    written = path.with_suffix(".written")
    library.save(library.load(path), written)
    return written


def quantize(_: Any, path: Path) -> Any:
    """The file of the model with integer weights, made by onnxruntime."""
    written = path.with_suffix(".written")
    importlib.import_module("onnxruntime.quantization").quantize_dynamic(path, written)
    return written


def infer_symbols(_: Any, model: Any) -> Any:
    """The model with shapes, made by onnxruntime."""
    module = importlib.import_module("onnxruntime.tools.symbolic_shape_infer")
    return module.SymbolicShapeInference.infer_shapes(model, auto_merge=True)


def change_each(library: Any, data: bytes) -> Any:
    """The bytes of the model with another name for each node."""
    model = library.ModelProto.FromString(data)
    rename(library, model)
    return model.SerializeToString()


def iterate(_: Any, model: Any) -> Any:
    """The types and names of all nodes."""
    return [(node.op_type, node.name) for node in model.graph.node]


def rename(_: Any, model: Any) -> Any:
    """The model with another name for each node."""
    for node in model.graph.node:
        node.name = f"changed/{node.name}"
    return model


def keep_some(_: Any, model: Any) -> Any:
    """The model with only some of its nodes."""
    kept = [node for node in model.graph.node if node.op_type != "Constant"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def insert(library: Any, model: Any) -> Any:
    """The model with a node more after every ten."""
    for index in range(0, len(model.graph.node), 10):
        model.graph.node.insert(index, library.NodeProto(op_type="Identity", input=["x"], output=[f"y{index}"]))
    return model


def build(library: Any, _: Any) -> Any:
    """A graph of new nodes."""
    make_node = importlib.import_module(f"{library.__name__}.helper").make_node
    nodes = [make_node("Conv", [f"x{i}", "w"], [f"x{i + 1}"], f"n{i}", kernel_shape=[3, 3]) for i in range(BUILT)]
    return library.GraphProto(node=nodes)


def of_module(module: str, function: str, *arguments: Any) -> Callable[[Any, Any], Any]:
    """A tool: a function of a module that imports `onnx`."""
    return lambda _, model: getattr(importlib.import_module(module), function)(model, *arguments)


def add_prefix(_: Any, model: Any) -> Any:
    """The model with a prefix before all of its names."""
    return importlib.import_module("onnx.compose").add_prefix(model, "first/")


JOBS = (
    Job("parse", None, data_of, lambda library, data: library.ModelProto.FromString(data)),
    Job("serialise what was parsed", None, parsed, lambda _, model: model.SerializeToString()),
    Job("load, save", 1, new_path, resave, least_limit=2),
    Job("parse, change each node, serialise", 3, data_of, change_each),
    Job("iterate over nodes", 2, parsed, iterate),
    Job("rename nodes", 2, parsed, rename),
    Job("filter nodes", 4, parsed, keep_some),
    Job("insert nodes", 2, parsed, insert),
    Job("deep copy of what nobody read", 3, parsed, lambda _, model: copy.deepcopy(model)),
    Job("deep copy of what was read", 8, read, lambda _, model: copy.deepcopy(model)),
    Job("`CopyFrom`", 8, read, copied),
    Job("equality", 5, two, lambda _, models: models[0] == models[1]),
    Job("`str`", None, parsed, lambda _, model: str(model)),
    Job("`check_model`", 2, parsed, check),
    Job(f"build {BUILT:,} nodes", 5, path_of, build),
    Job("`onnx.shape_inference`", 2, parsed, of_module("onnx.shape_inference", "infer_shapes"), is_tool=True),
    Job(
        "`onnx.version_converter`", 2, parsed, of_module("onnx.version_converter", "convert_version", 20), is_tool=True
    ),
    Job("`onnx.compose.add_prefix`", 2, parsed, add_prefix, is_tool=True),
    Job("`onnx.printer`", 2, parsed, of_module("onnx.printer", "to_text"), is_tool=True),
    Job("`onnx.inliner`", 2, parsed, of_module("onnx.inliner", "inline_local_functions"), is_tool=True),
    Job("onnxruntime: symbolic shapes", 2, parsed, infer_symbols, is_tool=True),
    Job("onnxruntime: `quantize_dynamic`", 2, new_path, quantize, is_tool=True),
)


def seconds_of(job: Job, library: Any, path: Path) -> tuple[float, bytes]:
    """The CPU time of a job once, and what it gave as bytes."""
    spent, count = 0.0, 0
    result: Any = None
    while spent < LEAST_SECONDS:
        result = None  # so that no job frees what the one before it made
        given = job.prepare(library, path)
        gc.collect(0)
        start = time.process_time()
        result = job.work(library, given)
        spent += time.process_time() - start
        count += 1
    return spent / count, bytes_of(result)


def bytes_of(result: Any) -> bytes:
    """What a job gave, in a form that can be compared."""
    if isinstance(result, Path):
        return result.read_bytes()
    return result.SerializeToString() if hasattr(result, "SerializeToString") else repr(result).encode()


def measure(job: Job, path: Path, rounds: int) -> Figure:
    """What a job costs with both, in turn; the medians.

    Raises: ValueError if they do not give the same.
    """
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        theirs, expected = seconds_of(job, onnx, path)
        if job.is_tool:
            with formats.onnxpb.install():
                ours, found = seconds_of(job, onnx, path)
        else:
            ours, found = seconds_of(job, formats.onnxpb, path)
        if found != expected:
            raise ValueError(f"{job.name} does not give the same with formats.onnxpb")
        spent[0].append(theirs)
        spent[1].append(ours)
    nodes = BUILT if job.work is build else len(onnx.load(path).graph.node)
    limit = job.least_limit if job.least_limit is not None and nodes < MANY_NODES else job.limit
    return Figure(job.name, nodes, *map(statistics.median, spent), limit)


def table(figures: list[Figure]) -> str:
    """The table of docs/comparison.md."""
    lines = ["| job | nodes | `onnx` | `formats.onnxpb` | ratio | at most | |", "|---|--:|--:|--:|--:|--:|---|"]
    for figure in figures:
        limit = "" if figure.limit is None else f"{figure.limit:g}{'' if figure.ratio <= figure.limit else ' (missed)'}"
        costs = f"{figure.theirs * 1e3:,.3f} ms | {figure.ours * 1e3:,.3f} ms | {documents.figure(figure.ratio)}"
        lines.append(f"| {figure.job} | {figure.nodes:,} | {costs} | {limit} | {figure.verdict} |")
    return "\n".join(lines) + "\n"


def current(text: str, figures: list[Figure]) -> str:
    """The text of the document with the table of these figures in it."""
    return documents.current(text, [table(figures)], "objects.py")


def known() -> list[Figure]:
    """The published figures."""
    return [Figure(*row) for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]]


def main() -> None:
    """The table is printed, and published if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publish", action="store_true", help="write objects.json and docs/comparison.md")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="%(default)s by default")
    options = parser.parse_args()
    logging.disable()  # what onnxruntime recommends before it quantises
    with tempfile.TemporaryDirectory() as directory:
        paths = [models.make(name, Path(directory), 1) for name in MODELS]
        figures = [
            measure(job, path, options.rounds)
            for job in JOBS
            for path in (paths[:1] if job.work is build else paths[:3] if job.is_tool else paths)
        ]
    print(table(figures), end="")
    if options.publish:
        versions = {"onnx": onnx.__version__, "protobuf": importlib.import_module("google.protobuf").__version__}
        rows = ",\n  ".join(json.dumps(figure) for figure in figures)
        RESULTS.write_text(f'{{"versions": {json.dumps(versions)}, "rows": [\n  {rows}\n]}}\n', encoding="utf-8")
        DOCUMENT.write_text(current(DOCUMENT.read_text(encoding="utf-8"), figures), encoding="utf-8")


if __name__ == "__main__":
    main()
