"""The values of a model on their way to float16: which type each one has, and who needs it in the other.

The elements of weights are converted when they are read, a block at a time.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, TypeAlias

from formats.editing.options import counted
from formats.editing.scopes import fresh
from formats.ir.copies import copied
from formats.ir.dtypes import FLOAT, FLOAT16
from formats.ir.storage import with_raw_data
from formats.onnxpb.value_types import type_text
from formats.tensordata.plan import RANGE, RARE, RESULTS, Loss
from formats.tensordata.sources.source import Literal
from formats.words import in_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Tensor, Type
    from formats.tensordata.plan import Seen
    from formats.tensordata.sources.transform import Beyond


Kind: TypeAlias = typing.Literal[
    "tensor", "held", "other"
]  # a float32 tensor, a sequence or optional of such, or neither
SUFFIXES = {FLOAT: "float32", FLOAT16: "float16"}


class Value:
    """A value: its name in the model, and the types that it has and that others want.

    `native` is the type in which it is made; none yet for a constant, which gets the one that its users want. `public`
    is the one that has the old name.
    """

    def __init__(self, name: str, kind: Kind, native: int | None, public: int | None = None) -> None:
        self.name, self.kind, self.native, self.public = name, kind, native, public
        self.is_beyond = False  # a constant that float16 cannot hold
        self.wanted: dict[int, str] = {}  # and the first place that wants each type
        self.names: dict[int, str] = {}

    def settle(self, taken: set[str]) -> None:
        """Choose a type for a constant, and names that are not taken for both types where both are needed."""
        if self.native is None:
            self.native = self.public or (FLOAT16 if FLOAT16 in self.wanted else FLOAT)
        public = self.public or self.native
        self.names[public] = self.name
        for other in {self.native, *self.wanted} - {public}:
            name = f"{self.name}_{SUFFIXES[other]}"
            self.names[other] = fresh(name, taken) if name in taken else name
            taken.add(name)

    @property
    def cast_to(self) -> int | None:
        """The type to which it must be cast, besides the one that it has."""
        return next((each for each in self.names if each != self.native), None)

    def named(self, number: int) -> str:
        """The name under which the value has a type; a value that is no float has only one."""
        return self.names[number] if self.kind != "other" else self.name


def kind_of(text: str) -> Kind:
    """What a value of this type is; the type is written as in ONNX's operator sets."""
    inner = text
    while inner.startswith(("seq(", "optional(")):
        inner = inner[inner.index("(") + 1 : -1]
    return "other" if inner != "tensor(float)" else "tensor" if inner == text else "held"


def with_element(type_: Type | None, number: int) -> Type | None:
    """The type with another type of elements in place of float32."""
    if type_ is None or kind_of(type_text(type_)) == "other":
        return type_
    new = copied(type_)
    inner: Type | None = new
    while inner is not None and inner.tensor_type is None:
        outer = inner.sequence_type or inner.optional_type
        inner = None if outer is None else outer.elem_type
    if inner is not None and inner.tensor_type is not None:
        inner.tensor_type.elem_type = number
    return new


SMALL_BYTES = 1024  # converted at once
LOST: tuple[tuple[str, str, str, Seen], ...] = (
    ("large", "too large for float16", "65504 with its sign", RESULTS),
    ("unlimited", "so large that they mean no limit", "65504 with its sign", RANGE),
    ("small", "too near zero for float16", "the least one with its sign, 6e-08", RARE),
)


class Halved:
    """The tensors that became float16, and their numbers that float16 cannot hold."""

    def __init__(self) -> None:
        self.count = self.nbytes = 0
        self._found: dict[int, tuple[Tensor, Beyond]] = {}
        self._moved: dict[str, Beyond] = {}

    def beyond(self, tensor: Tensor) -> Beyond:
        """The numbers that float16 cannot hold, which are counted once."""
        from formats.tensordata.sources.transform import beyond_half

        if id(tensor) not in self._found:
            self._found[id(tensor)] = tensor, beyond_half(tensor.source())  # the tensor is held, so its identity stays
        return self._found[id(tensor)][1]

    def of(self, tensor: Tensor, place: str) -> Tensor:
        """A float32 tensor as float16."""
        from formats.tensordata.sources.transform import halve

        source = tensor.source()
        if any(found := self.beyond(tensor)):
            self._moved[place] = found
        self.count, self.nbytes = self.count + 1, self.nbytes + source.nbytes
        converted = halve().of(source)
        new = with_raw_data(tensor, Literal(converted.read()) if source.nbytes <= SMALL_BYTES else converted)
        new.data_type = FLOAT16
        return new

    def sentence(self) -> str:
        """What was done."""
        sizes = f"{in_units(self.nbytes)} -> {in_units(self.nbytes // 2)}"
        return f"{counted(self.count, 'weight')} became float16, {sizes}"

    def losses(self) -> Iterator[Loss]:
        """The numbers that became others, apart from rounding."""
        for field, what, became, seen in LOST:
            counts = {place: number for place, found in self._moved.items() if (number := getattr(found, field))}
            if counts:
                tensors = f"of {counted(len(counts), 'weight')}"
                detail = f"{counted(sum(counts.values()), 'number')} {tensors} {what}; each became {became}"
                yield Loss("dtype", next(iter(counts)), detail, seen)
