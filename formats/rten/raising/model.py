"""A complete model in RTen's form, in ONNX's operators.

RTen has four element types. If a file lacks something of its source model, this is the loss "forgotten". If RTen
computes something else than ONNX, this is the loss "deviation".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from formats.errors import EncodeError
from formats.ir import ir_version_with
from formats.ir.attributes import get_int
from formats.ir.dtypes import DATA_TYPES, FLOAT, INT32, type_name
from formats.ir.model import Graph, Model, Node, OperatorSetId, ValueInfo
from formats.ir.node_order import Names, graphs_below
from formats.rten.convert.budget import budget_of
from formats.rten.convert.context import ValueNames
from formats.rten.graph.attributes import attributes_key
from formats.rten.graph.uses import used_and_read, with_reached_names
from formats.rten.operators import SPECS
from formats.rten.raising.graphs import GraphRaiser, Surroundings
from formats.rten.raising.kinds import ValueKind, declared, found_by_use
from formats.rten.types import HOLDERS
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, Loss, Losses

# The operator set of the result: the oldest one that has all operators in use, since most programs can run it. The next
# one, 22, has new forms of operators that onnxruntime 1.31 cannot run (Multinomial and other random numbers).
VERSION: Final = 21
CEIL_MODE: Final = 22  # from this version on, windows that begin in the padding at the end do not count


class Raised(NamedTuple):
    """A model of ONNX's operators, and its losses, of this conversion or an earlier one."""

    model: Model
    losses: tuple[Loss, ...]


def raise_model(model: Model, pin_types: Mapping[str, str] | None = None) -> Raised:
    """The model in operators of ONNX; the given one is not changed, and weights are shared.

    Raises: EncodeError for a model that is not well formed, and for types that are not possible.
    """
    losses = Losses()
    graph = model.graph or Graph()
    version = _version(graph)
    detail = "a .rten file does not say which operator set the model used"
    losses.add("forgotten", detail, "opset_import", f"now {version}", seen=DOCUMENTATION)
    interface = Interface(graph, pin_types or {}, losses)
    surroundings = Surroundings(ValueNames(*used_and_read(model)), Names(), losses, version)
    raiser = GraphRaiser(graph, surroundings, interface=interface)
    for value in graph.input:
        raiser.add_input(value, interface.of_input(value))
    with budget_of(model):
        raiser.run()
    raised = replace(
        model,
        ir_version=ir_version_with(version),
        opset_import=[OperatorSetId(domain="", version=version)],
        graph=with_reached_names(raiser.finish())[0],
    )
    return Raised(raised, losses.lines())


def _version(graph: Graph) -> int:
    """The operator set that a graph needs."""
    version = VERSION
    seen: dict[tuple[str | None, bytes | None], Node] = {}  # a node for each operator with some attributes
    for _, inner in graphs_below(graph):
        for node in inner.node:
            seen.setdefault((node.op_type, attributes_key(node)), node)
    for node in seen.values():
        spec = SPECS.get(node.op_type or "")
        version = max(version, CEIL_MODE if get_int(node, "ceil_mode") else 0, spec.to_onnx.version if spec else 0)
    return version


class Interface:
    """The types of the inputs and outputs of a model.

    Raises: EncodeError for a pinned type or a pinned name that does not exist.
    """

    def __init__(self, graph: Graph, pin_types: Mapping[str, str], losses: Losses) -> None:
        self._graph = graph
        self._losses = losses
        self._wanted: dict[str, int] = {}
        self._pins = {name: _number(text, name) for name, text in pin_types.items()}
        self._places: dict[str, str] = {}
        for field in ("input", "output"):
            for index, value in enumerate(getattr(graph, field)):
                self._places.setdefault(value.name or "", f"graph.{field}[{index}]")
        self._outputs = {name for name, place in self._places.items() if place.startswith("graph.output")}
        for name in self._pins:
            if name not in self._places:
                raise EncodeError(f"no input or output is called {name!r}; the names are {', '.join(self._places)}")

    def is_output(self, name: str) -> bool:
        """Whether a value is an output of the model."""
        return name in self._outputs

    def of_input(self, value: ValueInfo) -> ValueKind:
        """The type of an input in RTen: from the file, or else from the nodes that use it."""
        elem_type = declared(value).elem_type
        name = value.name or ""
        if elem_type is not None:
            return ValueKind(elem_type)
        elem_type, is_sequence = found_by_use(name, self._graph)  # the file does not say it
        if name in self._pins:
            elem_type = HOLDERS[self._pins[name]].number
        elif elem_type is None:
            detail = "inputs of unknown type are taken to be float32"
            self._losses.add("assumed_type", detail, self._places[name], name, seen=INTERFACE)
        return ValueKind(elem_type or FLOAT, is_sequence)

    def wanted(self, name: str, kind: ValueKind) -> int:
        """The element type in ONNX of an input or output with type `kind` in the graph: the pinned type, or RTen's.

        Raises: EncodeError for a type that RTen does not have, and for a pinned type for which RTen would have used
        another one.
        """
        if name not in self._wanted:
            self._wanted[name] = self._decided(name, kind)
        return self._wanted[name]

    def _decided(self, name: str, kind: ValueKind) -> int:
        holder, pinned, place = HOLDERS.get(kind.elem_type), self._pins.get(name), self._places[name]
        if holder is None:
            text = f"{name!r} has elements of type {type_name(kind.elem_type)}, which RTen does not have"
            raise EncodeError(text, where=place)
        rten_type = holder.number
        if pinned is None:
            if rten_type == INT32:
                detail = "32-bit integers may have been INT64, BOOL or another type; `pin` restores it"
                self._losses.add("forgotten", detail, place, name, seen=DOCUMENTATION)
            return rten_type
        if HOLDERS[pinned].number != rten_type or (kind.is_sequence and pinned != rten_type):
            text = f"a sequence of {type_name(rten_type)}" if kind.is_sequence else type_name(rten_type)
            raise EncodeError(f"{name!r} is {text} and cannot be pinned to {type_name(pinned)}", where=place)
        return pinned


def _number(text: str, name: str) -> int:
    """The element type with the name `text`, in ONNX's or numpy's notation."""
    for row in DATA_TYPES:
        if row.number in HOLDERS and text.lower() in (row.name.lower(), row.numpy_name):
            return row.number
    names = ", ".join(row.numpy_name for row in DATA_TYPES if row.number in HOLDERS)
    raise EncodeError(f"{name!r} cannot be pinned to {text!r}; the types are {names}")
