"""The outcome of a graph: what RTen and onnxruntime compute from what it becomes, and what the reports explain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

import formats
from tests.rten.random_graphs.builder import LIMIT, WIDES
from tests.rten.random_graphs.graph import Graph, everything, free_names, run_in_onnxruntime
from tests.runtime.runner import Runner, RunnerError

NEWEST_RELEASE = "0.27"  # of RTen: .rten files are converted for the .onnx loader of this one
HELD_AS = {  # the type that RTen uses for each other one
    **dict.fromkeys(("int64", "bool", "int16", "uint16", "uint32", "uint64"), "int32"),
    **dict.fromkeys(("float16", "float64"), "float32"),
}
EXPLAIN_NOTHING = frozenset(("interface_type", "widened"))  # among the losses that matter


SUMS = (
    *("Attention", "Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "LayerNormalization", "MatMul", "RNN"),
    *("ReduceMean", "ReduceSum", "Softmax"),
)  # the operators whose results depend on the order in which a kernel adds


class Outcome(NamedTuple):
    """The outcome of a graph: one word, and the details."""

    kind: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether the outcome is a fault."""
        return self.kind not in ("right", "refused", "told")


def held(value: Any) -> Any:
    """Return a value in RTen's types."""
    if isinstance(value, list):
        return [held(part) for part in value]
    array = np.asarray(value)
    if array.dtype.name in WIDES:
        array = np.clip(array, None if array.dtype.kind == "u" else -LIMIT, LIMIT - 1)
    return np.asarray(array.astype(HELD_AS.get(array.dtype.name, array.dtype.name)))


def difference(want: Sequence[Any], found: Sequence[Any]) -> str:
    """Describe how results differ; empty if they are the same except for rounding."""
    return next((text for _, text in differences(want, found)), "")


def differences(want: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Describe the outputs that differ, by their places; the place is negative if their number is wrong."""
    if len(want) != len(found):
        yield -1, f"{len(found)} outputs for {len(want)}"
        return
    for place, (expected, got) in enumerate(zip(want, found, strict=True)):
        if text := _difference(expected, got):
            yield place, f"output {place} {text}"


def _difference(expected: Any, got: Any) -> str:
    first, second = held(expected), held(got)
    if first.shape != second.shape:
        return f"has dims {second.shape} for {first.shape}"
    if first.dtype != second.dtype:
        return f"is {second.dtype} for {first.dtype}"
    known = first[np.isfinite(first)].astype(float)
    scale = max(1.0, float(np.abs(known).max(initial=0))) if first.dtype.kind == "f" else 0
    tolerance = 2e-3 if np.asarray(expected).dtype == np.float16 else 2e-4
    if np.allclose(second.astype(float), first.astype(float), rtol=0, atol=tolerance * scale, equal_nan=True):
        return ""
    return f"is {np.asarray(second).ravel()[:6]} for {np.asarray(first).ravel()[:6]}"


class Surroundings(NamedTuple):
    """What an output is computed from: the operators, and whether there are special values."""

    op_types: frozenset[str]
    is_finite: bool
    has_empty: bool
    names: frozenset[str] = frozenset()  # of its nodes, which are those of their outputs, and of constants
    types: frozenset[str] = frozenset()  # of elements


def surroundings(graph: Graph, output: str, values: Mapping[str, Any]) -> Surroundings:
    """Return what one output is computed from; `values` are those of the graph."""
    model = graph.model
    bodies = {function.name: list(function.node) for function in model.functions}
    needed, op_types, made, seen = {output}, set(), set(), []

    def enter(nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            op_types.add(node.op_type)
            enter(bodies.get(node.op_type, ()) if node.domain == "local" else ())
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    enter(attribute.g.node)
                    seen.extend(map(numpy_helper.to_array, attribute.g.initializer))

    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(free_names([node]))
            made.update(node.output)
            enter([node])
    for name, value in values.items():
        if name in needed:
            seen += value if isinstance(value, list) else [value]
    seen += [numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name in needed]
    floats = [array for array in map(np.asarray, seen) if array.dtype.kind == "f"]
    is_finite = all(bool(np.all(np.isfinite(array)) and np.all(np.abs(array) < 1e10)) for array in floats)
    types = frozenset(np.asarray(array).dtype.name.upper() for array in seen)
    has_empty = any(np.asarray(array).size == 0 for array in seen)
    names = frozenset() if model.functions else frozenset(needed | made)  # the nodes of functions get other names
    return Surroundings(frozenset(op_types), is_finite, has_empty, names, types)


# Where onnxruntime stops if there are no samples, no places or no pixels, as its own operators do not.
NEEDS_ELEMENTS = ("cpu/llm/attention", "cpu/nn/pool_attributes")
OF_ALL = frozenset(("clamped", "precision", "rounded"))  # losses about constants and types, wherever these are
NAMES = re.compile(r"\(([^()]*)\)$")  # at the end of a loss
FLOAT_TYPES = {"FLOAT16": "FLOAT16", "DOUBLE": "FLOAT64"}  # their names in losses and in numpy
SPECIAL = ("NaN", "infinit", "-inf")  # words in deviations about numbers that are not finite, or huge


def explains(loss: Any, around: Surroundings, *, back: bool = False) -> bool:
    """Whether a loss can explain that an output differs: it is about an operator and values that it depends on."""
    if loss.kind in EXPLAIN_NOTHING or not (loss.matters or loss.kind == "deviation"):
        return False
    if loss.kind not in ("deviation", "range"):
        types = [ours for theirs, ours in FLOAT_TYPES.items() if theirs in loss.detail]
        return loss.kind in OF_ALL and (back or not types or not around.types.isdisjoint(types) or not around.types)
    if not back and not is_about(loss, around):
        return False
    op_type, _, sentence = loss.detail.partition(": ")
    if op_type not in around.op_types and not back:  # the way back has other operators
        return False

    def may_be(part: str) -> bool:
        if "no elements" in part:
            return around.has_empty
        return not around.is_finite or not any(word in part for word in SPECIAL)

    return any(map(may_be, sentence.split("; ")))


def is_of_nothing(error: Exception, graph: Graph) -> bool:
    """Whether onnxruntime stops because tensors have no elements, in an operator that another one became."""
    if not any(place in str(error) for place in NEEDS_ELEMENTS):
        return False
    return any(not isinstance(value, list) and np.size(value) == 0 for value in everything(graph).values())


def stops_at_nothing(graph: Graph, report: Any) -> bool:
    """Whether a report says that RTen fails for tensors without elements, of a node that an empty output is made by."""
    values = everything(graph)
    for value in graph.model.graph.output:
        around = surroundings(graph, value.name, values)
        told = [loss for loss in report.losses if "RTen fails" in loss.detail or "RTen stops" in loss.detail]
        if around.has_empty and any("no elements" in loss.detail and is_about(loss, around) for loss in told):
            return True
    return False


def is_about(loss: Any, around: Surroundings) -> bool:
    """Whether a loss names a node that an output depends on; a loss of more than three nodes has names of some only."""
    found = NAMES.search(loss.detail)
    names = found[1] if found else " more"
    if " more" in names or not around.names or ".g." in loss.where:
        return True
    return any(name in around.names or name.partition("/")[0] in around.names for name in names.split(", "))


TRIES = 12  # changes of last bits


def is_of_last_bits(graph: Graph, values: Mapping[str, Any], place: int, found: Any) -> bool:
    """Whether onnxruntime computes the same if what its nodes compute differs in the last bits of float32.

    Constants and inputs stay: what is exactly halfway between two steps before any sum explains nothing.
    """
    rng, wanted = np.random.default_rng(0), held(values.get(graph.model.graph.output[place].name))
    got = held(found)
    if wanted.shape != got.shape:
        return False
    left = ~np.isclose(got.astype(float), wanted.astype(float), rtol=1e-3, atol=1e-3, equal_nan=True)
    for _ in range(TRIES):
        model = onnx.ModelProto()
        model.CopyFrom(graph.model)
        del model.graph.node[:]
        for node in graph.model.graph.node:
            model.graph.node.add().CopyFrom(node)
            for at, name in enumerate(node.output):
                value = values.get(name)
                if node.op_type in SUMS and isinstance(value, np.ndarray) and value.dtype == np.float32:
                    model.graph.node[-1].output[at] = f"{name}/sum"
                    factor = np.asarray(1 + rng.choice((-1, 1), value.shape) * 2.0**-22, np.float32)
                    model.graph.initializer.append(numpy_helper.from_array(factor, f"{name}/bits"))
                    model.graph.node.add().CopyFrom(helper.make_node("Mul", [f"{name}/sum", f"{name}/bits"], [name]))
        try:
            other = held(run_in_onnxruntime(model, graph.feeds)[place])
        except Exception:
            return False
        if other.shape == got.shape:
            left &= ~np.isclose(got.astype(float), other.astype(float), rtol=1e-3, atol=1e-3, equal_nan=True)
        if not left.any():
            return True
    return False


class Bench:
    """Runs graphs in all runtimes."""

    def __init__(self, runners: Mapping[str, Runner], folder: Path, **options: Any) -> None:
        self.runners = runners
        self.folder = folder
        self.options = options

    def outcome(self, graph: Graph) -> Outcome:
        """Return the outcome of a graph."""
        try:
            want = run_in_onnxruntime(graph.model, graph.feeds)
        except Exception as error:
            return Outcome("right", f"not valid: {error}")
        source, target = self.folder / "m.onnx", self.folder / "m.rten"
        source.write_bytes(graph.model.SerializeToString())
        try:
            report = formats.convert(source, target, overwrite=True, **self.options)
        except formats.FormatError as error:
            kind = "endless" if "its rewriting does not end" in str(error) else "refused"
            return Outcome(kind, str(error))
        except Exception as error:
            return Outcome("error", repr(error))
        feeds = {name: held(value) for name, value in graph.feeds.items()}
        results = {}
        for release, runner in self.runners.items():
            try:
                results[release] = runner.run(target, feeds)
            except RunnerError as error:
                if error.stage != "load" and stops_at_nothing(graph, report):
                    return Outcome("told", error.message)
                return Outcome("load" if error.stage == "load" else "run", f"{release}: {error.message}")
        values = everything(graph) if any(difference(want, found) for found in results.values()) else {}
        told = ""
        for release, found in results.items():
            wrong, explained = self.unexplained(graph, values, want, found, report)
            if wrong:
                return Outcome("wrong", f"{release}: {wrong}")
            told = told or explained
        back = self.way_back(target, graph, results) or self.for_loader(source, graph, want, values)
        if back is not None:
            return back
        return Outcome("told", told) if told else Outcome("right")

    def unexplained(
        self,
        graph: Graph,
        values: Mapping[str, Any],
        want: Sequence[Any],
        results: Sequence[Any],
        report: Any,
        *,
        back: bool = False,
    ) -> tuple[str, str]:
        """Return the first difference that no report explains, and the first that a report explains."""
        wrong = told = ""
        for place, text in differences(want, results):
            around = surroundings(graph, graph.model.graph.output[place].name, values)
            if place >= 0 and any(explains(loss, around, back=back) for loss in report.losses):
                told = told or text
            elif place >= 0 and not back and is_of_last_bits(graph, values, place, results[place]):
                continue
            else:
                wrong = wrong or text
        return wrong, told

    def way_back(self, target: Path, graph: Graph, results: Mapping[str, list[Any]]) -> Outcome | None:
        """Return what is wrong with the .onnx file that the .rten file becomes, or `None`."""
        back = self.folder / "back.onnx"
        try:
            formats.convert(target, back, overwrite=True, runtime="rten")
            wrong = self.in_onnx_loader(back, graph, results)
            report = formats.convert(target, back, overwrite=True)
        except Exception as error:
            return Outcome("back", repr(error))
        if wrong:
            return Outcome("loader", wrong)
        model = onnx.load(back)
        kinds = {
            value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.input
        }
        feeds = {name: held(graph.feeds[name]).astype(kind) for name, kind in kinds.items()}
        try:
            found = run_in_onnxruntime(model, feeds)
        except Exception as error:
            return None if is_of_nothing(error, graph) else Outcome("back", str(error))
        values = everything(graph) if any(difference(wanted, found) for wanted in results.values()) else {}
        for release, wanted in results.items():
            wrong, _ = self.unexplained(graph, values, wanted, found, report, back=True)
            if wrong:
                return Outcome("back", f"{release}: {wrong}")
        return None

    def for_loader(self, source: Path, graph: Graph, want: list[Any], values: Mapping[str, Any]) -> Outcome | None:
        """Return what is wrong with the .onnx file that the graph becomes for RTen's ONNX loader, or `None`."""
        if NEWEST_RELEASE not in self.runners:
            return None
        path = self.folder / "for_rten.onnx"
        try:
            report = formats.convert(source, path, overwrite=True, runtime="rten", **self.options)
            model = onnx.load(path)
            kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
            feeds = {name: held(graph.feeds[name]).astype(helper.tensor_dtype_to_np_dtype(kind))
                     for name, kind in kinds.items() if name in graph.feeds}  # fmt: skip
            elsewhere = run_in_onnxruntime(model, feeds)
        except formats.FormatError as error:
            return Outcome("runtime", f"refused, but not as .rten: {error}")
        except Exception as error:
            return None if is_of_nothing(error, graph) else Outcome("runtime", repr(error))
        try:
            feeds = {name: held(value) for name, value in graph.feeds.items()}
            found = self.runners[NEWEST_RELEASE].run(path, feeds)
        except RunnerError as error:
            return Outcome("runtime", f"{error.stage}: {error.message}")
        for results in (found, elsewhere):
            if difference(want, results):
                values = values or everything(graph)
                wrong, _ = self.unexplained(graph, values, want, results, report)
                if wrong:
                    return Outcome("runtime", f"{'RTen' if results is found else 'onnxruntime'}: {wrong}")
        return None

    def in_onnx_loader(self, back: Path, graph: Graph, results: Mapping[str, list[Any]]) -> str:
        """Return how the .onnx file differs from the .rten file in the same runtime, whatever is reported."""
        if NEWEST_RELEASE not in results:
            return ""
        feeds = {name: held(value) for name, value in graph.feeds.items()}
        try:
            found = self.runners[NEWEST_RELEASE].run(back, feeds)
        except RunnerError as error:
            return f"{error.stage}: {error.message}"
        return difference(results[NEWEST_RELEASE], found)
