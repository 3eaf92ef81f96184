"""What is known about one operator: an `OperatorSpec`, and its parts.

Spec: RTen, schema.fbs and the operator readers; ONNX, Operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from formats.rten.target import RELEASES, Fault, Release
from formats.rten.types import INT32_LIMITS

if TYPE_CHECKING:
    from formats.ir.model import Node, Tensor
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, Interval, ValueType
    from formats.rten.graph.makers import Makers
    from formats.rten.operators.shared.deviations import Deviation
    from formats.rten.target import Target

STANDARD_DOMAINS: Final = (None, "", "ai.onnx")
MICROSOFT: Final = "com.microsoft"
MACHINE_LEARNING: Final = "ai.onnx.ml"
PREVIEW: Final = "ai.onnx.preview"
TRAINING: Final = "ai.onnx.preview.training"
RTEN_DOMAIN: Final = "rten"  # of the nodes of a model that was read from a .rten file

# `(node, context)`: the nodes that compute the same, in order, or `None` to leave the node as it is.
Rewriting: TypeAlias = "Callable[[Node, Context], list[Node] | None]"
# `(node, context)`, for RTen's node with ONNX's inputs: the nodes that compute the same in ONNX.
Raising: TypeAlias = "Callable[[Node, Context], list[Node]]"
# `(node, context)`: how RTen's results differ from ONNX's for the same node; empty if they do not.
DeviationRule: TypeAlias = "Callable[[Node, Context], Sequence[Deviation]]"
# `(node, scope, types of the inputs)`: what is known about the outputs. See `rules.py`.
DimsRule: TypeAlias = "Callable[[Node, Scope, list[ValueType]], Sequence[Dims | None]]"
ContentsRule: TypeAlias = "Callable[[Node, Scope, list[ValueType]], Dims | None]"
RangeRule: TypeAlias = "Callable[[Node, Scope, list[ValueType]], Interval]"
# `(node, types of the inputs, place of the output)`: the element type of an output.
ElementRule: TypeAlias = "Callable[[Node, list[ValueType], int], int | None]"
# `(node, types of the inputs)`: the inputs of the node's subgraph.
BodyRule: TypeAlias = "Callable[[Node, list[ValueType]], list[ValueType]]"
# `(scope, name of the first input, type of the output)`: whether the output has the same numbers in FLOAT.
ExactRule: TypeAlias = "Callable[[Scope, str, int], bool]"
# `(node)`: whether something is true of the node.
NodeTest: TypeAlias = "Callable[[Node], bool]"
# `(node)`: the tensor that a node without inputs stands for.
ConstantRule: TypeAlias = "Callable[[Node], Tensor]"
# `(node, scope)`: record what the node says of several values together.
Record: TypeAlias = "Callable[[Node, Scope], None]"


class Folding(NamedTuple):
    """How to find the nodes that a rewriting wrote for one node, of which the last has one of the operators `last`.

    `fold` gets that node and the makers of values, and returns the one node, or `None`. `last` is a function, because
    the module of a family is imported before those of all operators that it uses.
    """

    last: Callable[[], tuple[OperatorSpec, ...]]
    fold: Callable[[Node, Makers], Node | None]


class FieldKind(Enum):
    """How to convert between the value of an ONNX attribute and that of a field of an attribute table."""

    INT = "INT"  # must fit the field
    BOUND = "BOUND"  # an integer; the nearest one that fits has the same meaning
    BOOL = "BOOL"  # an ONNX integer
    FLOAT = "FLOAT"
    INTS = "INTS"
    STRING = "STRING"
    CHOICE = "CHOICE"  # an ONNX string or integer, an enumerator of RTen
    SCALAR = "SCALAR"  # an ONNX tensor of one element, a union of RTen
    GRAPH = "GRAPH"


class Field(NamedTuple):
    """One field of an attribute table, and the ONNX attribute that it comes from."""

    name: str
    kind: FieldKind
    default: Any = None  # the meaning of an absent attribute, in ONNX terms; None leaves the field absent
    attribute: str = ""  # if ONNX has another name
    choices: Mapping[Any, str | None] = {}  # ONNX value to enumerator; of several, reading returns the first
    minimum: int = INT32_LIMITS[0]  # for an integer; 0 means an unsigned field
    required: bool = False  # by ONNX
    since: Release = RELEASES[0]  # the first release that reads the field; others ignore it

    @property
    def onnx_name(self) -> str:
        """The name of the ONNX attribute."""
        return self.attribute or self.name


ONES: Final = ((1,), (1, 1), (1, 1, 1))  # lists with a value without effect for each axis
ANY: Final = ("any",)  # an attribute that does not change what inference computes, or is implied by the inputs


R = TypeVar("R", bound=Rewriting)  # keeps the names of the parameters
REASONS: WeakKeyDictionary[Rewriting, str] = WeakKeyDictionary()  # why a rewriting is needed, for reports


def because(reason: str) -> Callable[[R], R]:
    """A decorator for a rewriting: the reason for it is in the report if RTen loads the node as it was."""

    def with_reason(rewriting: R) -> R:
        REASONS[rewriting] = reason
        return rewriting

    return with_reason


def axis_field(default: int | None) -> Field:
    """The field of an axis; required if there is no default."""
    return Field("axis", FieldKind.INT, default, required=default is None)


def sizes_field(name: str, attribute: str = "", *, since: Release = RELEASES[0]) -> Field:
    """A field of sizes, which are not negative."""
    return Field(name, FieldKind.INTS, attribute=attribute, minimum=0, since=since)


KEEP_DIMS: Final = Field("keep_dims", FieldKind.BOOL, 1, "keepdims")


class Row(NamedTuple):
    """How a .rten file stores an operator. `inputs` and `outputs` are the most that it accepts; `None`: no limit."""

    inputs: int | None
    outputs: int | None = 1
    attrs: str = ""  # the attribute table
    fields: tuple[Field, ...] = ()
    neutral: Mapping[str, tuple[Any, ...]] = {}  # attributes without a field, and their values without effect
    optional: bool = False  # the attribute table may be missing; then its defaults apply
    since: Release = RELEASES[0]  # the first release that has the operator


class OnnxForm(NamedTuple):
    """How RTen's ONNX loader reads an operator, if its row does not say so, and since when ONNX has this form.

    The loader stops at an attribute that it does not read, and at a value that it does not accept.

    Spec: RTen, op_registry/onnx_registry.rs; ONNX, Changelog.md.
    """

    row: Row | None = None  # for an operator that only the ONNX loader has
    takes: Mapping[str, tuple[Any, ...]] = {}  # attributes without a field, and the accepted values
    inputs: Mapping[str, int] = {}  # attributes of older operator sets, and the indices of the inputs that replace them
    defaults: Mapping[str, Any] = {}  # the meaning of a missing attribute, if it differs from ONNX
    is_native: bool = False  # its kernel computes the same as ONNX Runtime's operator for every node that it accepts
    native_if: Callable[[Node, Scope], bool] | None = None  # the nodes for which that is true, if not all
    ranks: Mapping[int, int] = {}  # the axes that inputs of a native operator must have
    # Omitted lists of a window: the entries for each axis of the kernel, and their value.
    omitted: Mapping[str, tuple[int, int]] = {}
    pads_alike: bool = False  # it computes the same for SAME_UPPER and for the pads that this means
    reads_constant: NodeTest | None = None  # whether it reads a node that stands for a tensor
    lacks_outputs: tuple[int, ...] = ()  # indices of missing outputs before the last one
    version: int = 13  # the first operator set with the form that rewritings write, including types
    versions: Mapping[str, int] = {}  # the same for an attribute


PLAIN_FORM: Final = OnnxForm()


class Subgraphs(NamedTuple):
    """The graphs in a node, for the conversion back to ONNX: how the types of their values follow from the node.

    The first inputs of a graph are scalars. The further ones are the node's inputs from `carried` on, and the graph
    returns them in the same types. If `carried` is `None`, a graph has no inputs. The outputs of the node are those of
    the graph after the first ones.
    """

    attributes: tuple[str, ...]
    inputs: tuple[int, ...] = ()  # the element types of the first inputs
    carried: int | None = None
    outputs: tuple[int, ...] = ()  # the element types of the first outputs


class Signature(NamedTuple):
    """The element types that inputs have in ONNX, because RTen has only one type of integer.

    `inputs` has a letter for each input; the last letter is for all further inputs. `output` is the letter of the first
    output. An integer of RTen is INT32, INT64 or BOOL in ONNX. A letter means the types that an input accepts. It says
    nothing about inputs that are not integers. A capital letter is a type that several inputs and outputs of a node
    share.

        N  one type of numbers           A  the same, or BOOL        I  INT32 or INT64, shared by indices
        i  INT32 or INT64                l  INT64                    w  INT32
        n  the same, or no integer       v  INT64, or no integer     b  BOOL
                                                                     m  BOOL, or no integer
        E  the tensors of a sequence     S  a sequence of these      x  whatever the value has

    Spec: ONNX, Operators, the type constraints of operator set 24, without the types for which onnxruntime 1.31 has no
    kernels.
    """

    inputs: str
    output: str = ""

    def letters(self, count: int) -> str:
        """The letters of `count` inputs."""
        return (self.inputs + self.inputs[-1:] * count)[:count]


UNTYPED: Final = Signature("x")


def of_input(place: int) -> ElementRule:
    """The element type of an input."""

    def rule(node: Node, types: list[ValueType], output: int) -> int | None:
        return types[place].elem_type

    return rule


OF_FIRST: Final = (of_input(0),)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OperatorSpec:
    """All that is known about one operator, in its newest form. It is also a symbol: each operator has one object."""

    name: str = field(kw_only=False)
    row: Row | None = field(default=None, kw_only=False)  # in a .rten file; `None`: no release of RTen has it
    domain: str = ""

    # What is known about its outputs.
    dims: DimsRule | None = None
    elements: tuple[ElementRule, ...] = OF_FIRST  # for each output; the last is for all further ones
    contents: ContentsRule | None = None  # the contents of a small integer output
    range: RangeRule | None = None  # the interval of the integers of its outputs
    places: RangeRule | None = None  # the interval of its second output, if that has places in the first input
    exact_if: ExactRule | None = None  # whether it rounds nothing, if its rule for intervals does not say so
    is_bounding: bool = False  # one known input limits its output, whatever the others contain
    body: BodyRule | None = None  # the inputs of its subgraph
    makes_sequence: bool = False
    sizes: tuple[int, ...] = ()  # the inputs that are dims, or numbers of elements
    sizes_from: tuple[int, ...] = ()  # the inputs whose elements or products are in an output
    is_copy: bool = False  # a small constant that it computes from constants can be read like one
    constant: ConstantRule | None = None  # it is no node in RTen, but a tensor of the graph
    record: Record | None = None

    # What a difference in the last bit becomes. See `decisive.py`.
    rounds: NodeTest | None = None  # whether it rounds, truncates or compares its inputs
    passes_on: bool = False  # its outputs have the elements of its inputs, moved or changed a little
    asks_if_rounded: bool = False  # how it is rewritten depends on whether its result is rounded or compared

    # How it is rewritten.
    older: tuple[Rewriting, ...] = ()
    rewritings: tuple[Rewriting, ...] = ()
    narrow: Rewriting | None = None
    is_plain: bool = False  # only its attributes, types and used outputs decide how it is rewritten
    faults: tuple[Fault, ...] = ()  # that its rewritings avoid, or that its deviation reports
    bounds: tuple[int, ...] = ()  # the inputs in which any large number means "no limit"

    onnx: OnnxForm = PLAIN_FORM  # for RTen's ONNX loader

    # On the way back to ONNX.
    signature: Signature = UNTYPED
    ranks: Mapping[int, int] = field(default_factory=dict)  # the axes that an input must have; RTen accepts any number
    subgraphs: Subgraphs | None = None  # the graphs in it
    carries_sequences: bool = False  # it passes on both tensors and sequences
    raised: Raising | None = None  # if ONNX writes the node differently
    foldings: tuple[Folding, ...] = ()  # find the nodes that its rewritings write, to write it again
    raised_version: int = 0  # the operator set with the written form, if it is newer than others need
    raised_deviations: DeviationRule | None = None  # of ONNX's node, from what RTen computes
    # On the way to RTen: what RTen computes otherwise of a node as we write it, on ties, NaN, signed zero, half steps.
    deviations: DeviationRule | None = None
    unspecified: DeviationRule | None = None  # if ONNX does not define the result, and RTen and onnxruntime differ

    def row_for(self, target: Target) -> Row | None:
        """How the loader of the target reads the operator; `None` if one of the releases lacks it."""
        row = self.onnx.row or self.row if target.is_onnx else self.row
        return row if row is not None and target.has(row) else None

    @property
    def all_rewritings(self) -> tuple[Rewriting, ...]:
        """The rewritings that a node goes through, in order."""
        narrow = () if self.narrow is None else (self.narrow,)
        return (*self.older, *self.rewritings, *narrow)
