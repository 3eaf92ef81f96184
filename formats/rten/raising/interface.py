"""The inputs and outputs of a model: their types in RTen, and their types in ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import EncodeError
from formats.ir.dtypes import DATA_TYPES, FLOAT, INT32, type_name
from formats.rten.raising.kinds import ValueKind, declared, found_by_use
from formats.rten.types import HOLDERS
from formats.tensordata.plan import DOCUMENTATION, INTERFACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Graph, ValueInfo
    from formats.rten.convert.loss_report import Losses


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
        elem_type, is_sequence = found_by_use(name, self._graph)
        if name in self._pins:
            elem_type = HOLDERS[self._pins[name]].number
        elif elem_type is None:
            detail = "inputs of unknown type are taken to be float32"
            self._losses.add("assumed_type", detail, self._places[name], name, seen=INTERFACE)
        return ValueKind(elem_type or FLOAT, is_sequence)

    def wanted(self, name: str, kind: ValueKind) -> int:
        """The element type in ONNX of an input or output with type `kind` in the graph: the pinned type, or RTen's.

        Raises: EncodeError for a pinned type for which RTen would have used another one.
        """
        if name not in self._wanted:
            self._wanted[name] = self._decided(name, kind)
        return self._wanted[name]

    def _decided(self, name: str, kind: ValueKind) -> int:
        held, pinned, place = HOLDERS[kind.elem_type].number, self._pins.get(name), self._places[name]
        if pinned is None:
            if held == INT32:
                detail = "32-bit integers may have been INT64, BOOL or another type; `pin` restores it"
                self._losses.add("forgotten", detail, place, name, seen=DOCUMENTATION)
            return held
        if HOLDERS[pinned].number != held or (kind.is_sequence and pinned != held):
            what = f"a sequence of {type_name(held)}" if kind.is_sequence else type_name(held)
            raise EncodeError(f"{name!r} is {what} and cannot be pinned to {type_name(pinned)}", where=place)
        return pinned


def _number(text: str, name: str) -> int:
    """The element type with the name `text`, in ONNX's or numpy's notation."""
    for row in DATA_TYPES:
        if row.number in HOLDERS and text.lower() in (row.name.lower(), row.numpy_name):
            return row.number
    known = ", ".join(row.numpy_name for row in DATA_TYPES if row.number in HOLDERS)
    raise EncodeError(f"{name!r} cannot be pinned to {text!r}; the types are {known}")
