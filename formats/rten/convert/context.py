"""What a rewriting works with: the surroundings of the node, and the nodes that replace it.

A rewriting is a function `(node, context)`. It returns the nodes that compute the same, in order, or `None` to leave
the node as it is; it never changes the node that it was given. What it returns is legalised again, as operators of
the newest form, so it may use any operator that has a rewriting itself. It raises `Refused` if there is no way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from formats.ir.dtypes import FLOAT, numpy_dtype, type_name
from formats.ir.model import Dimension, Node, TensorShape, TensorType, Type, ValueInfo
from formats.ir.node_order import Names
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.graph.attributes import make_attribute, make_node, with_fields
from formats.rten.operators import SPECS, spec_of
from formats.rten.target import ALL_RELEASES
from formats.rten.types import BYTES, FLOATS, INTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np

    from formats.ir.model import Tensor
    from formats.rten.convert.value_types import Dims
    from formats.rten.spec import Deviation, OperatorSpec
    from formats.rten.target import Target

NEWEST = 24  # the operator set of rewritten nodes; the forms that they use are the same in all later operator sets


# An input of a new node: the name of a value, or a constant: a float for a scalar of FLOAT, an integer for a scalar of
# INT64, and several integers for a vector of INT64.
Input: TypeAlias = "str | float | Iterable[int]"


class ValueNames(Names):
    """The names of values that a model uses, and new names. `read` has the names that a node or a caller reads.

    The set is kept: names that are read later join it.
    """

    def __init__(self, used: Iterable[str], read: set[str]) -> None:
        super().__init__(used)
        self.take(read)
        read.discard("")  # an omitted value
        self._read = read
        self.decisive: set[str] = set()  # those that are rounded or compared

    def add_read(self, names: Iterable[str]) -> None:
        """Note that something uses values, whose names are new."""
        self._read.update(names)

    def is_read(self, name: str) -> bool:
        """Whether anything uses the value with that name."""
        return name in self._read


class Constants:
    """The initialisers that rewriting adds to one graph; equal ones are shared."""

    def __init__(self, scope: Scope, names: ValueNames) -> None:
        self.tensors: list[Tensor] = []
        self.scope = scope
        self._names = names
        self._by_value: dict[Any, str] = {}
        self._scalars: dict[str, str] = {}  # the constants that scalars were made of

    def add(self, array: np.ndarray[Any, Any]) -> str:
        """The name of an initialiser with the elements of `array`, which count in the budget."""
        budget.count_elements(array.size)
        key = (array.dtype.name, array.shape, array.tobytes())
        name = self._by_value.get(key)
        if name is None:
            name = self._by_value[key] = self._names.new("constant")
            self.add_tensor(from_numpy(array, name))
        return name

    def add_tensor(self, tensor: Tensor) -> str:
        """The name of an initialiser made elsewhere. That name is not used anywhere else."""
        self.tensors.append(tensor)
        self.scope.add_tensor(tensor)
        return tensor.name or ""

    def add_scalar(self, name: str, tensor: Tensor) -> str:
        """The name of a scalar with the element of a constant called `name`."""
        scalar = self._names.new(f"{name}/scalar")
        self._scalars[scalar] = name
        return self.add_tensor(with_fields(tensor, name=scalar, dims=[]))

    def is_scalar_of(self, scalar: str, name: str) -> bool:
        """Whether a constant is a scalar that was made from another constant."""
        return self._scalars.get(scalar) == name


class Context:
    """The surroundings of one node while it is rewritten."""

    def __init__(
        self,
        node: Node,
        version: int,
        scope: Scope,
        names: ValueNames,
        constants: Constants,
        exact: bool = False,
        target: Target = ALL_RELEASES,
    ) -> None:
        self.node = node
        self.version = version
        self.scope = scope
        self.names = names
        self.constants = constants
        self.exact = exact
        self.target = target
        self.emitted: list[Node] = []
        self.deviations: list[tuple[Deviation, bool]] = []

    def nested(self) -> Context:
        """A context for the nodes of a subgraph, which see the values around it."""
        inner = Scope(self.scope)
        return Context(self.node, self.version, inner, self.names, self.constants, self.exact, self.target)

    # What is known.

    def has(self, operator: str) -> bool:
        """Whether all releases of the target have an operator of ONNX."""
        return SPECS[operator].row_for(self.target) is not None

    @property
    def operator(self) -> OperatorSpec:
        """The operator of the node.

        Raises: Refused if it is not known.
        """
        operator = spec_of(self.node)
        if operator is None:
            raise Refused("is not a known operator")
        return operator

    def input(self, place: int) -> str:
        """The name of a required input.

        Raises: Refused if the node has none at that place.
        """
        name = self.optional(place)
        if not name:
            raise Refused(f"lacks input {place}")
        return name

    def optional(self, place: int) -> str:
        """The name of an input, empty if it is omitted."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def wanted(self, place: int) -> bool:
        """Whether a node or the caller of the model uses an output."""
        return place < len(self.node.output) and self.names.is_read(self.node.output[place])

    def elem_type(self, name: str) -> int | None:
        """The element type of a value."""
        return self.scope.type_of(name).elem_type if name else None

    def dims(self, name: str) -> Dims | None:
        """The dims of a value."""
        return self.scope.type_of(name).dims if name else None

    def rank(self, name: str) -> int | None:
        """The number of dims of a value."""
        dims = self.dims(name)
        return None if dims is None else len(dims)

    def known_rank(self, name: str) -> int:
        """The number of dims of a value.

        Raises: Refused if it is unknown.
        """
        rank = self.rank(name)
        if rank is None:
            raise Refused(f"needs the rank of {name!r}, which is unknown", "infer the model's shapes first")
        return rank

    def static_dims(self, name: str, first: int = 0) -> tuple[int, ...]:
        """The dims of a value from axis `first` on.

        Raises: Refused if one of them is not a known number.
        """
        dims = self.dims(name)
        sizes = () if dims is None else tuple(dim for dim in dims[first:] if isinstance(dim, int))
        if dims is None or len(sizes) != len(dims[first:]):
            shown = "unknown" if dims is None else str(list(dims))
            raise Refused(f"needs fixed dims for {name!r}, but they are {shown}", "fix the sizes of the model's inputs")
        return sizes

    def static_ints(self, name: str) -> tuple[int, ...]:
        """The elements of a small integer vector or scalar.

        Raises: Refused if they are not known before the model runs.
        """
        contents = self.scope.ints(name)
        if contents is None:
            raise Refused(f"needs the value of {name!r}, which is known only when the model runs", "make it constant")
        return contents

    def is_float(self, name: str) -> bool:
        """Whether the elements of a value are floats, as far as is known."""
        return self.elem_type(name) in FLOATS

    def is_integer(self, name: str) -> bool:
        """Whether the elements of a value are known to be integers or truth values."""
        elem_type = self.elem_type(name)
        return elem_type in INTS or elem_type in BYTES

    def report(self, deviation: Deviation, *, is_defined: bool = True) -> None:
        """Report how the results of the new nodes differ for special values, from ONNX or from onnxruntime.

        They differ only from onnxruntime if ONNX does not define the result (`is_defined` is false), or if onnxruntime
        deviates from it.
        """
        self.deviations.append((deviation, is_defined))

    # Constants.

    def int64(self, values: Iterable[int]) -> str:
        """A constant vector of INT64."""
        import numpy

        return self.constants.add(numpy.array(budget.as_list(values), dtype=numpy.int64))

    def int64_scalar(self, value: int) -> str:
        """A constant scalar of INT64."""
        import numpy

        return self.constants.add(numpy.array(value, dtype=numpy.int64))

    def scalar(self, value: float, like: str = "", elem_type: int | None = None) -> str:
        """A constant scalar of the given type, else of the type of the value `like`. FLOAT if that is unknown."""
        import numpy

        number = elem_type or self.elem_type(like) or FLOAT
        return self.constants.add(numpy.array(value).astype(numpy_dtype(number)))

    def array(self, values: Any, elem_type: int = FLOAT) -> str:
        """A constant with the elements of nested lists or an array."""
        import numpy

        return self.constants.add(numpy.asarray(budget.as_list(values)).astype(numpy_dtype(elem_type)))

    def _constant(self, value: float | Iterable[int]) -> str:
        if isinstance(value, float):
            return self.scalar(value)
        return self.int64_scalar(value) if isinstance(value, int) else self.int64(value)

    def check_size(self, *dims: int) -> None:
        """Count the elements of a constant that is about to be made.

        Raises: Refused if it has more than the conversion may make.
        """
        budget.count_elements(*dims)

    # Results.

    def op(self, operator: str, *inputs: Input, **attributes: Any) -> str:
        """Emit a node of one of ONNX's operators with one output, and return the name of the output."""
        return self.op_outputs(operator, inputs, 1, **attributes)[0]

    def op_outputs(self, operator: str, inputs: Sequence[Input], count: int, **attributes: Any) -> tuple[str, ...]:
        """Emit a node, and return the names of its `count` outputs."""
        present = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        while present and not present[-1]:  # inputs that are omitted at the end
            present.pop()
        # New names tell where their values come from.
        stem = next((name for name in self.node.output if name), self.node.op_type or "")
        budget.count_nodes(1 + count)
        outputs = tuple(self.names.new(f"{stem}/{operator}") for _ in range(count))
        node = make_node(operator, present, outputs, **attributes)
        self.emitted.append(node)
        self.scope.infer(node)
        return outputs

    def copy(self, inputs: Sequence[str], operator: str = "", without: Collection[str] = (), **attributes: Any) -> str:
        """Emit the node with other inputs, as a standard operator, and return its first output.

        The caller may leave out some of the attributes, and may give others.
        """
        node = self.changed(inputs, without, **attributes)[-1]
        op_type = operator or node.op_type
        outputs = [self.names.new(f"{self.node.output[0]}/{op_type}")]
        self.emit(replace(node, op_type=op_type, output=outputs, name=None, domain=None))
        return outputs[0]

    def emit(self, node: Node) -> None:
        """Emit a node made elsewhere."""
        budget.count_nodes(1)
        self.emitted.append(node)
        self.scope.infer(node)

    def cast(self, name: str, elem_type: int) -> str:
        """The value with another element type, or the value itself if it already has that type."""
        return name if self.elem_type(name) == elem_type else self.op("Cast", name, to=elem_type)

    def replace(self, *values: str) -> list[Node]:
        """The emitted nodes. `values` are the outputs of the node that these nodes replace.

        Raises: Refused if an output of the node is used but has no new value.
        """
        outputs = self.node.output
        for place in range(len(values), len(outputs)):  # outputs without a value
            if self.wanted(place):
                raise Refused(f"has output {place}, which RTen cannot compute", "drop that output")
        renamed: dict[str, str] = {}  # from the new names of values to those of the outputs
        produced = {name for node in self.emitted for name in node.output}
        for value, output in zip(values, outputs, strict=False):
            if not output or not value:
                continue
            if value in produced and value not in renamed:
                renamed[value] = output
            else:
                # The value is a constant, an input, or that of another output.
                self.emitted.append(make_node("Identity", [value], [output]))
        for node in self.emitted:
            node.input = [renamed.get(name, name) for name in node.input]
            node.output = [renamed.get(name, name) for name in node.output]
        for value in renamed:
            self.scope.forget(value)
        return self.emitted

    def changed(
        self, inputs: Iterable[str] | None = None, without: Collection[str] = (), **attributes: Any
    ) -> list[Node]:
        """The emitted nodes, and the node with other inputs, without some attributes, and with new values of others."""
        replaced = {*without, *attributes}
        remaining = [attribute for attribute in self.node.attribute if attribute.name not in replaced]
        remaining += (make_attribute(name, value) for name, value in attributes.items() if value is not None)
        names = list(self.node.input if inputs is None else inputs)
        return [*self.emitted, with_fields(self.node, input=names, attribute=remaining)]

    def value_info(self, name: str, elem_type: int, dims: Dims | None = None) -> ValueInfo:
        """An input or output of a subgraph. Only its dims that are sizes are kept, without names."""
        shape = None
        if dims is not None:
            sizes = (dim if isinstance(dim, int) else None for dim in dims)
            shape = TensorShape(dim=[Dimension() if size is None else Dimension(dim_value=size) for size in sizes])
        return ValueInfo(name=name, type=Type(tensor_type=TensorType(elem_type=elem_type, shape=shape)))

    def describe(self, name: str) -> str:
        """The element type of a value, for a message."""
        return type_name(self.elem_type(name))
