"""The values of a model on their way to float16: which type each one has, and who needs it in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from formats.ir.copies import copied
from formats.ir.dtypes import FLOAT, FLOAT16
from formats.onnxpb.value_types import type_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Type

Kind: TypeAlias = Literal["tensor", "held", "other"]  # a float32 tensor, a sequence or optional of such, or neither
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

    def settle(self, fresh: Callable[[str], str]) -> None:
        """Choose a type for a constant, and names for both types where both are needed."""
        if self.native is None:
            self.native = self.public or (FLOAT16 if FLOAT16 in self.wanted else FLOAT)
        public = self.public or self.native
        self.names[public] = self.name
        for each in {self.native, *self.wanted} - {public}:
            self.names[each] = fresh(f"{self.name}_{SUFFIXES[each]}")

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
