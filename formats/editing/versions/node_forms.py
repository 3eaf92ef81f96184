"""A node without its neighbours, and the nodes that it becomes in another version of its operator set.

The values of such a node are called `i0`, `i1` and so on, and `o0`, `o1`. So equal nodes become the same nodes, and
each form is worked out once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.nodes import make_attribute, make_node, value_of
from formats.errors import UnsupportedError
from formats.ir import dtypes
from formats.ir.attributes import attribute_named
from formats.ir.copies import copied
from formats.ir.model import (
    Attribute,
    Dimension,
    Graph,
    Node,
    Tensor,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
    entries,
)
from formats.ir.storage import from_numpy
from formats.onnxpb.inference import without_large_data
from formats.onnxpb.wire.encoder import encoded
from formats.tensordata.plan import SPECIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy

    from formats.tensordata.plan import Seen


class NoFormError(UnsupportedError):
    """A node has no form in another version of its operator set, for this reason."""


class LoneNode(NamedTuple):
    """A node without its neighbours.

    `types` are those that are known, by the names of the values; `constants` the inputs whose content is known.
    """

    node: Node
    types: Mapping[str, Type]
    constants: Mapping[str, Tensor]

    @property
    def key(self) -> bytes:
        """A key that is equal for nodes that become the same nodes."""
        inputs, outputs = (
            [ValueInfo(name, self.types.get(name)) for name in names if name and name not in self.constants]
            for names in (self.node.input, self.node.output)
        )
        tensors = [replace(tensor, name=name) for name, tensor in self.constants.items()]
        return encoded(Graph(node=[self.node], input=inputs, output=outputs, initializer=tensors), without_large_data)

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self.node.op_type or ""

    def attribute(self, name: str) -> Attribute | None:
        """The attribute with this name.

        Raises: NoFormError if it is an attribute of the function around the node.
        """
        attribute = attribute_named(self.node, name)
        if attribute is not None and attribute.ref_attr_name:
            raise NoFormError(f"its {name} has a value only where its function is called")
        return attribute

    def value(self, name: str, default: Any = None) -> Any:
        """The value of an attribute: a number, a text, a list of numbers or of bytes, or a tensor."""
        attribute = self.attribute(name)
        return default if attribute is None else value_of(attribute)

    def input(self, index: int) -> str:
        """The name of an input; empty if the node does not have it."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def output(self, index: int) -> str:
        """The name of an output; empty if the node does not have it."""
        return self.node.output[index] if index < len(self.node.output) else ""

    def elem_type(self, name: str) -> dtypes.DataType | None:
        """The element type of a value, or `None` if it is not known."""
        kind = self.types.get(name)
        tensor_type = kind.tensor_type if kind is not None else None
        return dtypes.BY_NUMBER.get(tensor_type.elem_type or 0) if tensor_type is not None else None

    def dims(self, name: str) -> list[int | None] | None:
        """The dims of a value, `None` for one that is not known, or for all if their number is not known."""
        if name in self.constants:
            return [*self.constants[name].dims]
        kind = self.types.get(name)
        shape = kind.tensor_type.shape if kind is not None and kind.tensor_type is not None else None
        return None if shape is None else [dim.dim_value for dim in shape.dim]

    def rank(self, name: str, why: str) -> int:
        """The number of dims of a value. Raises: NoFormError if it is not known; `why` says what needs it."""
        dims = self.dims(name)
        if dims is None:
            raise NoFormError(f"{why}, and the rank of its data is not known")
        return len(dims)

    def constant(self, name: str) -> numpy.ndarray[Any, Any] | None:
        """The elements of a value, or `None` if it is no small constant."""
        return self.constants[name].numpy() if name in self.constants else None


class NodeForm:
    """The nodes and constants that take the place of a node, and what they compute differently."""

    def __init__(self, lone: LoneNode) -> None:
        self.lone = lone
        self.nodes: list[Node] = []
        self.constants: dict[str, Tensor] = {}
        self.types: dict[str, Type] = {}  # of the new values, as far as they are known
        self.differences: dict[str, Seen] = {}  # what differs, and when it can be seen
        self.is_defined = False  # by other operators

    def keep(
        self,
        *,
        op_type: str | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        drop: Iterable[str] = (),
        **attributes: Any,
    ) -> None:
        """Keep the node, with other inputs and outputs, without some attributes, and with these new ones."""
        node = copied(self.lone.node)
        node.op_type = op_type or node.op_type
        if inputs is not None:
            node.input = [*inputs]
            while node.input and not node.input[-1]:
                node.input.pop()
        if outputs is not None:
            node.output = [*outputs]
        gone = {*drop, *attributes}
        node.attribute = [attribute for attribute in entries(node, "attribute") if attribute.name not in gone]
        node.attribute += [make_attribute(name, value) for name, value in attributes.items() if value is not None]
        self.nodes.append(node)

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str,
        *,
        like: str = "",
        dims: Sequence[int | None] | None = None,
        **attributes: Any,
    ) -> str:
        """Add a node with one output, whose elements are of the type of the value `like`; return the output's name."""
        self.nodes.append(make_node(op_type, inputs, [output], **attributes))
        if like and (row := self.elem_type(like)) is not None:
            shape = None if dims is None else TensorShape([Dimension(dim) for dim in dims])
            self.types[output] = Type(tensor_type=TensorType(row.number, shape))
        return output

    def elem_type(self, name: str) -> dtypes.DataType | None:
        """The element type of a value of the node, or of a new one."""
        return LoneNode(self.lone.node, {**self.lone.types, **self.types}, {}).elem_type(name)

    def constant(self, value: Any, elem_type: int, name: str) -> str:
        """Add a constant with the elements `value` of an element type of ONNX; return its name."""
        import numpy

        self.constants[name] = from_numpy(numpy.array(value, dtypes.numpy_dtype(elem_type)), name)
        return name

    def integers(self, value: Any, name: str) -> str:
        """Add a constant of INT64; return its name."""
        return self.constant(value, dtypes.INT64, name)

    def tell(self, text: str, seen: Seen = SPECIAL) -> None:
        """Add what the new nodes compute differently, and when it can be seen."""
        self.differences.setdefault(text, seen)


def lone_node(node: Node, types: Callable[[str], Type | None], constants: Callable[[str], Tensor | None]) -> LoneNode:
    """A node without its neighbours, its subgraphs and what only people read."""
    inputs = [f"i{index}" if name else "" for index, name in enumerate(node.input)]
    outputs = [f"o{index}" if name else "" for index, name in enumerate(node.output)]
    attributes = [
        attribute
        for attribute in entries(node, "attribute")
        if attribute.g is None and not entries(attribute, "graphs")
    ]
    names = [*zip((*inputs, *outputs), (*node.input, *node.output), strict=True)]
    kinds = {new: kind for new, name in names if name and (kind := types(name)) is not None}
    tensors = {
        new: replace(tensor, name=new, doc_string=None, metadata_props=[])
        for new, name in zip(inputs, node.input, strict=True)
        if name and (tensor := constants(name)) is not None
    }
    domain = node.domain or None
    return LoneNode(Node(inputs, outputs, None, node.op_type, domain, attribute=attributes), kinds, tensors)
