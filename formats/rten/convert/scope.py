"""What is known about the values of a graph without running it: element types, dims, and small integer contents.

A `Scope` holds this knowledge for one graph. It is filled from front to back, one node at a time, in one pass. It is
never wrong for a valid model: if a rule is missing, or if it needs something unknown, the result is unknown.
"""

from __future__ import annotations

import struct
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Any

from formats.ir.dtypes import BOOL, BY_NUMBER, FLOAT16, INT64, count, numpy_dtype
from formats.rten.convert.value_types import (
    MAX_DIM,
    UNKNOWN,
    Dims,
    Interval,
    ValueType,
    declared_type,
    merged_type,
    nameless,
)
from formats.rten.graph.attributes import MALFORMED
from formats.rten.operators import spec_of
from formats.rten.operators.ranges import step_of
from formats.rten.operators.rules import INDEX_TYPES, MAX_CONTENTS
from formats.rten.types import BYTES, FLOATS, INT32_LIMITS, INTS, PARTLY_HELD, UNSIGNED, limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from formats.ir.model import Node, Tensor, ValueInfo
    from formats.rten.spec import OperatorSpec, Rule
    from formats.rten.target import Fault

MAX_COPIES = 8  # the number of copies of copies that are followed
MAX_RANGED = 1 << 16  # the most elements of a constant whose minimum and maximum are computed
RANGED = FLOATS | INTS | BYTES
MAX_INT32 = INT32_LIMITS[1]
MAX_FLOAT16 = 65504
MAX_ASKED = 24  # the nodes in a row that are asked for an interval
FLOAT_DIGITS, DOUBLE_DIGITS = 24, 53  # of two
MAX_STEP = 100  # the exponents of steps that are far from the ends of FLOAT
MAX_NUMBER = 1 << 60  # products of two such numbers are far from the ends of FLOAT


class Scope:
    """The values that the nodes of one graph can see, including those of the graphs around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.types: dict[str, ValueType] = {}
        self.tensors: dict[str, Tensor] = {}
        self.declared: dict[str, ValueType] = {}
        self.optionals: set[str] = set()
        self.ranges: dict[str, Interval] = {}  # of integers, and of what comes from integers or is bounded by others
        self.exceeding: set[str] = set()  # values of 64 bits or unsigned that may be outside of INT32
        self.expanded: set[tuple[str, str]] = set()  # a value, and another one that has its axes and possibly more
        self.shaped: dict[str, str] = {}  # by the name of a shape, the value that has it
        self._sequences: set[str] = set()
        self._safe: set[tuple[Fault, str]] = set()
        self._copies: dict[str, tuple[list[str], int]] = {}
        self._contents: dict[str, Dims | None] = {}
        self._finite: dict[str, bool] = {}
        self._intervals: dict[str, Interval] = {}  # of other values, computed when somebody asks
        self._made_by: dict[str, tuple[Node, Rule[Interval]]] = {}  # the nodes of floats
        self._asked = 0

    def _owner(self, name: str) -> Scope | None:
        """The innermost scope that has the value called `name`."""
        scope: Scope | None = self
        while scope is not None and name not in scope.types:
            scope = scope.outer
        return scope

    def type_of(self, name: str) -> ValueType:
        """What is known about the value called `name`."""
        owner = self._owner(name)
        return UNKNOWN if owner is None else owner.types[name]

    def constant(self, name: str) -> Tensor | None:
        """The initialiser called `name`, or `None` if the value is computed or given."""
        owner = self._owner(name)
        return None if owner is None else owner.tensors.get(name)

    def is_sequence(self, name: str) -> bool:
        """Whether a value is known to be a sequence of tensors."""
        owner = self._owner(name)
        return owner is not None and name in owner._sequences

    def is_optional(self, name: str) -> bool:
        """Whether a value is declared to be an optional."""
        owner = self._owner(name)
        return owner is not None and name in owner.optionals

    def range_of(self, name: str) -> Interval:
        """The interval of all elements of a value, as far as it is known."""
        owner = self._owner(name)
        if owner is None:
            return Interval()
        interval = owner.ranges.get(name) or owner._intervals.get(name)
        if interval is None:
            if name in owner._made_by and owner._asked == MAX_ASKED:
                return Interval()
            interval = owner._intervals[name] = owner._known_range(name)
        return interval

    def step_of(self, name: str) -> int | None:
        """The exponent of a power of two of which all elements are multiples, if one is known."""
        owner = self._owner(name)
        if owner is None or owner._asked == MAX_ASKED:
            return None
        if owner.types[name].elem_type not in FLOATS:
            return 0
        if name in owner.tensors:
            return _step(owner.tensors[name])
        if name not in owner._made_by:
            return None
        node, rule = owner._made_by[name]
        owner._asked += 1
        try:
            floats = [source for source in node.input if source and owner.type_of(source).elem_type in FLOATS]
            steps = [step for source in floats if (step := owner.step_of(source)) is not None]
            return step_of(rule, steps) if len(steps) == len(floats) else None
        finally:
            owner._asked -= 1

    def is_kept_by_float(self, name: str) -> bool:
        """Whether FLOAT has each number that a value can have: its multiples of a step are few enough."""
        (least, greatest), step = self.range_of(name), self.step_of(name)
        if least is None or greatest is None or step is None:
            return False
        return abs(step) <= MAX_STEP and max(-least, greatest) <= 2.0 ** (step + FLOAT_DIGITS)

    def has_numbers(self, name: str) -> bool:
        """Whether no element of a value can be NaN or infinite: it comes from integers and finite constants."""
        owner = self._owner(name)
        if owner is None or owner.types[name].elem_type is None:
            return False
        if owner.types[name].elem_type not in FLOATS:
            return True
        made_by = owner._made_by.get(name)
        if made_by is None and name not in owner.tensors:
            return False
        interval = self.range_of(name)
        if interval.least is None or interval.greatest is None or max(-interval.least, interval.greatest) > MAX_NUMBER:
            return False
        if made_by is None:
            return True
        # A chain of thousands of nodes would be a recursion as deep; beyond the limit, nothing is known.
        if owner._asked == MAX_ASKED:
            return False
        owner._asked += 1
        try:
            return all(owner.has_numbers(source) for source in made_by[0].input if source)
        finally:
            owner._asked -= 1

    def fits(self, name: str) -> bool:
        """Whether the numbers of an integer value are within the 32 bits that RTen has."""
        owner, elem_type = self._owner(name), self.type_of(name).elem_type
        if owner is None or elem_type not in PARTLY_HELD:
            return True
        return name not in owner.exceeding and held_range(elem_type).holds(self.range_of(name))

    def knows_numbers(self, names: Iterable[str]) -> bool:
        """Whether something is known about the numbers of all values: they are constants or come from integers."""
        for name in names:
            owner = self._owner(name)
            if owner is None or not (name in owner.tensors or name in owner.ranges):
                return False
        return True

    def _known_range(self, name: str) -> Interval:
        """The interval of a value of this scope, if no rule gives one."""
        if name in self._made_by:
            return self._computed_range(*self._made_by[name])
        contents, tensor = self.contents_of(name), self.tensors.get(name)
        if (
            contents is None
            and tensor is not None
            and tensor.data_type in RANGED
            and 0 < count(tensor.dims) <= MAX_RANGED
        ):
            array = tensor.numpy()
            if array.dtype.kind != "f" or (isfinite(array.min()) and isfinite(array.max())):
                return Interval(floor(array.min()), ceil(array.max()))
        elif contents and None not in contents:
            sizes = [dim for dim in contents if isinstance(dim, int)]
            of_names = [0, MAX_DIM] if len(sizes) < len(contents) else []  # a name of a dimension can be any size
            return Interval(min(sizes + of_names), max(sizes + of_names))
        elem_type = self.types[name].elem_type
        # No finite number of the type is larger.
        if elem_type == FLOAT16 and tensor is None:
            return Interval(-MAX_FLOAT16, MAX_FLOAT16)
        if elem_type not in INTS | BYTES:
            return Interval()
        least, greatest = held_range(elem_type)
        return Interval(max(least or 0, -MAX_INT32), greatest)  # a known value is never the least number

    def _computed_range(self, node: Node, rule: Rule[Interval]) -> Interval:
        """The interval of the floats that a node computes."""
        self._asked += 1
        try:
            return rule(node, self, [self.type_of(name) if name else UNKNOWN for name in node.input])
        except MALFORMED:
            return Interval()
        finally:
            self._asked -= 1

    def note_maker(self, node: Node, spec: OperatorSpec) -> None:
        """Remember which node computes floats, so that their interval can be computed when somebody asks for it."""
        rule, row = spec.outputs.range, spec.to_rten.row
        if rule is None:
            return
        names = node.output if row is not None and row.outputs is None else node.output[:1]
        for name in names:
            if self.types[name].elem_type in FLOATS:
                self._made_by[name] = node, rule

    def note_places(self, node: Node, spec: OperatorSpec, made: Iterable[str]) -> None:
        """Record the intervals of those outputs that find or count elements, whatever they are computed from."""
        types = [self.type_of(name) if name else UNKNOWN for name in node.input] if spec.outputs.places else []
        for place, rule in spec.outputs.places.items():
            for name in set(node.output[place : place + 1]).intersection(made):
                self.exceeding.discard(name)
                self._note_range(rule, node, types, [name])

    def _note_range(self, rule: Rule[Interval], node: Node, types: list[ValueType], outputs: Iterable[str]) -> None:
        """Record the interval of some outputs of a node, and which may leave the range of their type."""
        try:
            interval = rule(node, self, types)
        except MALFORMED:
            interval = Interval()
        for name in filter(None, outputs):
            elem_type = self.types[name].elem_type
            contents = self._contents.get(name)
            if contents and None not in contents:
                interval = self._known_range(name)  # exact contents say more than a rule
            if elem_type in FLOATS:
                self.ranges[name] = interval
            elif elem_type in INTS | BYTES:
                room = held_range(elem_type)  # the numbers that RTen has of the type
                if room.holds(interval):
                    self.ranges[name] = interval
                else:
                    self.ranges[name] = room
                    if elem_type in PARTLY_HELD:
                        self.exceeding.add(name)  # the legaliser reports it, unless it is a size or a place

    def is_shape(self, name: str) -> bool:
        """Whether a value is known to have the dims of a tensor."""
        owner = self._owner(name)
        return owner is not None and name in owner.shaped

    def is_natural(self, name: str) -> bool:
        """Whether a value is known to have no negative elements."""
        least = self.range_of(name).least
        return least is not None and least >= 0

    def add_safe(self, fault: Fault, name: str) -> str:
        """Record that a value was made so that a fault has no effect on operators that use it. Return the name."""
        self._safe.add((fault, name))
        return name

    def is_safe(self, fault: Fault, name: str) -> bool:
        """Whether a value was made so that a fault has no effect."""
        return (fault, name) in self._safe or (self.outer is not None and self.outer.is_safe(fault, name))

    def contents_of(self, name: str) -> Dims | None:
        """The elements of a small integer scalar or vector, as far as they are known."""
        owner = self._owner(name)
        if owner is None:
            return None
        if name not in owner._contents:
            tensor = owner.tensors.get(name)
            owner._contents[name] = None if tensor is None else _elements(tensor)
        return owner._contents[name]

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The elements of a small integer scalar or vector, if all of them are known numbers."""
        contents = self.contents_of(name)
        if contents is None:
            return None
        numbers = tuple(item for item in contents if isinstance(item, int))
        return numbers if len(numbers) == len(contents) else None

    def numbers(self, name: str) -> list[float] | None:
        """The elements of a constant, flat, as Python numbers; `None` if the value is not a constant.

        Raises: TensorDataError if the data cannot be read.
        """
        array = self.array(name)
        return None if array is None else array.astype(float).ravel().tolist()

    def array(self, name: str, depth: int = MAX_COPIES) -> np.ndarray[Any, np.dtype[Any]] | None:
        """The elements of a constant, or of a value computed from constants in at most `depth` steps, else `None`.

        Raises: TensorDataError if the data cannot be read.
        """
        tensor = self.constant(name)
        if tensor is not None:
            return tensor.numpy()
        owner = self._owner(name)
        names, elem_type = owner._copies.get(name, ([], 0)) if owner is not None else ([], 0)
        parts = [part for source in names if depth and (part := self.array(source, depth - 1)) is not None]
        if not names or len(parts) < len(names) or any(part.ndim > 1 for part in parts):
            return None
        import numpy

        whole = parts[0] if len(parts) == 1 else numpy.concatenate(parts)
        return whole.astype(numpy_dtype(elem_type))

    def is_finite(self, name: str) -> bool:
        """Whether no element of a constant of FLOAT is NaN or infinite."""
        owner = self._owner(name)
        if owner is None:
            return False
        if name not in owner._finite:
            data = owner.tensors[name].source().read()
            owner._finite[name] = all(map(isfinite, struct.unpack(f"<{len(data) // 4}f", data)))
        return owner._finite[name]

    def add_tensor(self, tensor: Tensor) -> None:
        """Record an initialiser."""
        name = tensor.name or ""
        self.types[name] = ValueType(tensor.data_type, tuple(tensor.dims))
        self.tensors[name] = tensor
        self.ranges.pop(name, None)  # if it is also an input, whose default it is

    def add_input(self, name: str, value_type: ValueType) -> None:
        """Record a value that comes from outside of the graph."""
        self.types[name] = known_type = merged_type(value_type, self.declared.get(name))
        if self.outer is None and known_type.elem_type in PARTLY_HELD:
            self.ranges[name] = Interval(0 if known_type.elem_type in UNSIGNED else -MAX_DIM, MAX_DIM)

    def declare(self, values: Iterable[ValueInfo]) -> None:
        """Read the declared types of the graph's values, which complete the inferred ones.

        Names of dimensions are used in the outermost graph only: in a loop's body, a name may mean a new size in each
        step.
        """
        for value in values:
            if value.name and value.type is not None:
                kind = declared_type(value.type)
                kind = kind if self.outer is None else nameless(kind)
                self.declared[value.name] = merged_type(
                    kind, self.declared.get(value.name)
                )  # an input may also be an output
                if value.type.optional_type is not None:
                    self.optionals.add(value.name)
                if value.type.sequence_type is not None:
                    self._sequences.add(value.name)

    def forget(self, name: str) -> None:
        """Forget a value, because it has a new name."""
        self.types.pop(name, None)
        self._contents.pop(name, None)

    def infer(self, node: Node) -> None:
        """Record the outputs of a node. From then on, knowledge about its inputs does not change."""
        spec = spec_of(node)
        if spec is not None and spec.domain and not spec.onnx_loader.is_native:
            spec = None
        declared = self.declared
        if spec is None:
            for name in node.output:
                self.types[name] = declared.get(name, UNKNOWN)
            return
        outputs = spec.outputs
        if outputs.makes_sequence:
            self._sequences.update(node.output)
        types = [self.type_of(name) if name else UNKNOWN for name in node.input]
        try:
            shapes = outputs.dims(node, self, types)
        except MALFORMED:
            shapes = ()
        try:
            elem_types = outputs.elements(node, self, types)
        except MALFORMED:
            elem_types = ()
        for place, name in enumerate(node.output):
            elem_type = elem_types[min(place, len(elem_types) - 1)] if elem_types else None
            inferred = ValueType(elem_type, shapes[place] if place < len(shapes) else None)
            self.types[name] = merged_type(inferred, declared[name]) if name in declared else inferred
        if outputs.is_copy:
            self._note_copy(node)
        if outputs.record is not None:
            outputs.record(node, self, types)
        if outputs.contents is not None:
            self._fold(node, outputs.contents, types)
        if outputs.range is not None and node.output:
            self.note_maker(node, spec)
            if self.types[node.output[0]].elem_type not in FLOATS or self._come_from_integers(node.input):
                self._note_range(outputs.range, node, types, node.output if len(elem_types) == 1 else node.output[:1])
            elif outputs.is_bounding:  # the rule also notes what RTen cannot know
                self._intervals[node.output[0]] = self._computed_range(node, outputs.range)
            self.note_places(node, spec, node.output)

    def _come_from_integers(self, names: Iterable[str]) -> bool:
        """Whether some values come from integers, and the others are constants or integers."""
        floats = [name for name in names if name and self.type_of(name).elem_type in FLOATS]
        return any(name in self.ranges for name in names) and self.knows_numbers(floats)

    def _note_copy(self, node: Node) -> None:
        """Remember the node and inputs of a small constant, so that it can be computed when it is needed."""
        elem_type, dims = self.types[node.output[0]] if node.output else UNKNOWN
        if elem_type in BY_NUMBER and dims is not None and len(dims) <= 1:
            self._copies[node.output[0]] = (node.input, elem_type)

    def _fold(self, node: Node, fold: Rule[Dims | None], types: list[ValueType]) -> None:
        name = node.output[0] if node.output else ""
        known_type = self.types.get(name, UNKNOWN)
        if known_type.dims is None or len(known_type.dims) > 1 or known_type.elem_type not in (*INDEX_TYPES, BOOL):
            return
        try:
            contents = fold(node, self, types)
        except MALFORMED:
            return
        length = known_type.dims[0] if known_type.dims else 1
        if contents is not None and len(contents) == length and len(contents) <= MAX_CONTENTS:
            low, high = limits(known_type.elem_type)
            self._contents[name] = tuple(  # they overflow as in their type: larger numbers would slow folding down
                (item - low) % (high - low + 1) + low if isinstance(item, int) else item for item in contents
            )


def _step(tensor: Tensor) -> int | None:
    """The exponent of the greatest power of two of which all elements of a constant of floats are multiples."""
    if tensor.data_type not in RANGED or count(tensor.dims) > MAX_RANGED:
        return None
    import numpy

    numbers = tensor.numpy().astype(numpy.float64).ravel()
    numbers = numbers[numbers != 0]
    if not numpy.isfinite(numbers).all():
        return None
    fractions, exponents = numpy.frexp(numbers)
    digits = (fractions * 2.0**DOUBLE_DIGITS).astype(numpy.int64)
    return int((exponents - DOUBLE_DIGITS + numpy.log2(digits & -digits)).min(initial=MAX_STEP))


def held_range(elem_type: int) -> Interval:
    """The range of an integer type in RTen."""
    least, greatest = limits(elem_type)
    return Interval(max(least, INT32_LIMITS[0]), min(greatest, INT32_LIMITS[1]))


def _elements(tensor: Tensor) -> Dims | None:
    """The elements of an initialiser if it is small, of integers, and has no more than one axis."""
    if len(tensor.dims) > 1 or tensor.data_type not in (*INDEX_TYPES, BOOL):
        return None
    if max(tensor.dims, default=0) > MAX_CONTENTS or min(tensor.dims, default=0) < 0:
        return None
    # INT32, INT64 and BOOL are the types of dims, axes and conditions.
    data = tensor.source().read()
    width, code = (1, "?") if tensor.data_type == BOOL else (8, "q") if tensor.data_type == INT64 else (4, "i")
    return tuple(map(int, struct.unpack(f"<{len(data) // width}{code}", data)))
