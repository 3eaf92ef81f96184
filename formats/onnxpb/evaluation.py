"""What nodes compute from constants: onnxruntime computes it, or onnx, in a process of its own with limits.

onnxruntime's kernels run without optimisations of the graph; if it is not installed, onnx's reference evaluator runs.
Each result may be as large as the constants that its node takes, and an allowance.

The second part of the module runs in the process. A request is a model whose inputs are initializers, and the allowance
in bytes; its answer is a model with the results as initializers, and in the metadata, by the first output, why a node
has none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.errors import UnsupportedError
from formats.extras import needed
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS, dtypes
from formats.ir.model import Graph, Model, StringStringEntry, ValueInfo
from formats.ir.storage import data_type, from_numpy
from formats.onnxpb.limited_process import FOLDING, LimitedProcess, serve
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encoded
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.ir.model import Node, Tensor

    Run = Callable[[bytes, Sequence[str]], list[Tensor]]  # the values with these names

LARGER: Final = "a larger result"
UNKNOWN: Final = "no kernel, or too little memory"


class Evaluated(NamedTuple):
    """Results by the names of values, and by the first output of each node that has none, why."""

    results: dict[str, Tensor]
    reasons: dict[str, str]


def evaluated(model: Model, allowance: int) -> Evaluated:
    """What the nodes of a model compute from its initializers, of which each element is read.

    Raises: MissingPackageError if neither onnxruntime nor onnx is installed; UnsupportedError if a node ends their
    process, or takes too long.
    """
    word, data = _ask(model, allowance)
    if word == "model":
        return _read(data)
    # Each node alone, with what it takes: one of them may have ended the process, or all together need too much.
    graph = model.graph or Graph()
    known = {tensor.name or "": tensor for tensor in graph.initializer}
    whole = Evaluated({}, {})
    for node in graph.node:
        if not known.keys() >= {*filter(None, node.input)}:
            continue
        word, data = _ask(model_of(model, [node], known), allowance)
        name = next(filter(None, node.output))
        if word == "ended":
            raise UnsupportedError(
                "the process that computes constants ended, or took more than "
                f"{FOLDING.seconds:.0f} s, for the node {node.op_type} {node.name or name}; leave out `fold`"
            )
        part = _read(data) if word == "model" else Evaluated({}, {name: UNKNOWN})
        known.update(part.results)
        whole.results.update(part.results)
        whole.reasons.update(part.reasons)
    return whole


def _ask(model: Model, allowance: int) -> tuple[str, bytes]:
    return _PROCESS.ask(encoded(model), allowance)


def _read(data: bytes) -> Evaluated:
    answer = decode(Literal(data), Model)
    return Evaluated(
        {tensor.name or "": tensor for tensor in (answer.graph or Graph()).initializer},
        {entry.key or "": entry.value or "" for entry in answer.metadata_props},
    )


def model_of(model: Model, nodes: Sequence[Node], known: dict[str, Tensor]) -> Model:
    """A model of some nodes of another one, with what they take as initializers, and all that they make as outputs."""
    made = {name: None for node in nodes for name in node.output if name}
    taken = {name: None for node in nodes for name in node.input if name and name not in made}
    graph = Graph(
        node=[*nodes],
        name="constants",
        initializer=[known[name] for name in taken],
        output=[ValueInfo(name) for name in made],
    )
    sets = [entry for entry in model.opset_import if entry.domain in STANDARD_DOMAINS]
    return Model(ir_version=max(model.ir_version or 0, FIRST_WITH_CONSTANTS), opset_import=sets, graph=graph)


def new_process() -> LimitedProcess:
    """A process that computes."""
    return LimitedProcess("formats.onnxpb.evaluation", partial(needed, "onnx", "folded constants"), FOLDING)


_PROCESS = new_process()


# In the process


def main() -> None:
    """Answer requests until stdin ends."""
    serve(_begin)


def _begin() -> Callable[[bytes, list[int]], tuple[str, bytes]]:
    try:
        run = _with_onnxruntime()
    except ImportError:
        run = _with_onnx()
    return lambda data, numbers: ("model", _answer(data, run, *numbers))


def _with_onnxruntime() -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it would take more memory than the results need
    options.add_session_config_entry("session.disable_prepacking", "1")  # with it, rounding depends on the pieces
    options.log_severity_level = 4

    def run(data: bytes, names: Sequence[str]) -> list[Tensor]:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        values = session.run_with_ort_values(names, {})
        return [_checked(name, value.numpy(), value.element_type()) for name, value in zip(names, values, strict=True)]

    return run


def _with_onnx() -> Run:
    from onnx import load_model_from_string
    from onnx.reference import ReferenceEvaluator

    def run(data: bytes, names: Sequence[str]) -> list[Tensor]:
        values = ReferenceEvaluator(load_model_from_string(data)).run([*names], {})
        return [_checked(name, value) for name, value in zip(names, values, strict=True)]

    return run


def _checked(name: str, value: Any, elem_type: int | None = None) -> Tensor:
    """A result as a tensor. Raises: TypeError for one that is none, or whose elements are of another type in numpy."""
    tensor = from_numpy(value, name)
    if elem_type not in (None, tensor.data_type) or tensor.data_type == dtypes.STRING:
        raise TypeError(name)
    return tensor


def _answer(data: bytes, run: Run, allowance: int) -> bytes:
    model = decode(Literal(data), Model)
    graph = model.graph or Graph()
    known = {tensor.name or "": tensor for tensor in graph.initializer}
    given = {*known}
    reasons: dict[str, str] = {}
    nodes = graph.node
    try:
        together = _computed(model, nodes, known, run)
    except Exception:  # a node of them
        together = {}
    for node in nodes:
        if not known.keys() >= {*filter(None, node.input)}:
            continue
        try:
            made = [together[name] for name in node.output if name] if together else None
            results = made or [*_computed(model, [node], known, run).values()]
        except Exception:
            reasons[next(filter(None, node.output))] = UNKNOWN
            continue
        if sum(map(_nbytes, results)) > sum(_nbytes(known[name]) for name in {*node.input} - {""}) + allowance:
            reasons[next(filter(None, node.output))] = LARGER
        else:
            known.update((tensor.name or "", tensor) for tensor in results)
    new = Graph(initializer=[tensor for name, tensor in known.items() if name not in given])
    props = [StringStringEntry(key, value) for key, value in reasons.items()]
    return encoded(Model(graph=new, metadata_props=props))


def _computed(model: Model, nodes: Sequence[Node], known: dict[str, Tensor], run: Run) -> dict[str, Tensor]:
    one = model_of(model, nodes, known)
    names = [value.name or "" for value in (one.graph or Graph()).output]
    return dict(zip(names, run(encoded(one), names), strict=True))


def _nbytes(tensor: Tensor) -> int:
    return data_type(tensor).nbytes(tensor.dims)
