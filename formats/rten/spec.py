"""What is known about one operator: an `OperatorSpec` in four parts. What a part does not say has a default.

`Outputs` says what is known of the outputs of a node before it runs, `ToRten` how a node becomes one that RTen loads,
`ToOnnx` how RTen's node becomes ONNX's again, and `OnnxLoader` what RTen's own loader of .onnx files takes.

Spec: RTen, schema.fbs and the operator readers; ONNX, Operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    from formats.rten.target import Target
    from formats.tensordata.plan import Seen

RTEN_DOMAIN: Final = "rten"  # of the nodes of a model that was read from a .rten file


class Deviation(NamedTuple):
    """How RTen's results differ, as a report says it after the operator's name, and when one can see it.

    Each is a constant of its operator's module. What differs for ordinary numbers and what differs for NaN are two.
    """

    detail: str
    seen: Seen
    is_of_nothing: bool = False  # it is about tensors without elements, and not about NaN


# The functions in a spec. There are three kinds of them, by what they get:
#
# A rule gets a node, its scope and the types of its inputs (for an omitted one, the unknown type), and returns what is
# known of the node. It may raise any LookupError, TypeError, ValueError or ArithmeticError for a malformed node, which
# means that nothing is known. It knows the newest form of its operator only.
T = TypeVar("T")
Rule: TypeAlias = "Callable[[Node, Scope, list[ValueType]], T]"
# A rewriting gets a node and the context in which it makes others. It returns the nodes that compute the same, in
# order, or `None` to leave the node as it is; it raises `Refused` if there is no way. A rule for deviations gets the
# same, and says how RTen's results differ from ONNX's for the node.
Rewriting: TypeAlias = "Callable[[Node, Context], list[Node] | None]"
DeviationRule: TypeAlias = "Callable[[Node, Context], Sequence[Deviation]]"
# A test gets a node alone, and says whether something is true of it.
NodeTest: TypeAlias = "Callable[[Node], bool]"


class Folding(NamedTuple):
    """How to find the nodes that a rewriting wrote for one node, of which the last has one of the operators `last`.

    `fold` gets that node and the makers of values, and returns the one node, or `None`.
    """

    last: tuple[str, ...]
    fold: Callable[[Node, Makers], Node | None]


class Field(NamedTuple):
    """One field of an attribute table, and the ONNX attribute that it comes from."""

    name: str
    kind: type[Any]  # of the ONNX attribute: int, bool, float, str, list (of integers), Tensor (of one element), Graph
    default: Any = None  # the meaning of an absent attribute, in ONNX terms; None leaves the field absent
    attribute: str = ""  # if ONNX has another name
    choices: Mapping[Any, str | None] = {}  # ONNX value to enumerator of RTen; of several, reading returns the first
    minimum: int = INT32_LIMITS[0]  # for an integer; 0 means an unsigned field
    is_bound: bool = False  # of integers that do not fit, the nearest one that fits has the same meaning
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
    return Field("axis", int, default, required=default is None)


def sizes_field(name: str, attribute: str = "", *, since: Release = RELEASES[0]) -> Field:
    """A field of sizes, which are not negative."""
    return Field(name, list, attribute=attribute, minimum=0, since=since)


KEEP_DIMS: Final = Field("keep_dims", bool, 1, "keepdims")


class Row(NamedTuple):
    """How a .rten file stores an operator. `inputs` and `outputs` are the most that it accepts; `None`: no limit."""

    inputs: int | None
    outputs: int | None = 1
    attrs: str = ""  # the attribute table
    fields: tuple[Field, ...] = ()
    neutral: Mapping[str, tuple[Any, ...]] = {}  # attributes without a field, and their values without effect
    optional: bool = False  # the attribute table may be missing; then its defaults apply
    since: Release = RELEASES[0]  # the first release that has the operator


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


def unknown(node: Node, scope: Scope, types: list[ValueType]) -> Sequence[Any]:
    """Nothing is known."""
    return ()


def of_input(place: int) -> Rule[Sequence[int | None]]:
    """The element type of an input."""
    return lambda node, scope, types: (types[place].elem_type,)


OF_FIRST: Final = of_input(0)


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What is known of the outputs of a node before it runs; `rules.py` and `ranges.py` have what operators share."""

    dims: Rule[Sequence[Dims | None]] = unknown  # of each output; a dim is a size, a name of a size, or `None`
    elements: Rule[Sequence[int | None]] = OF_FIRST  # their element types; the last is for all further outputs
    contents: Rule[Dims | None] | None = None  # the elements of a small integer output, so that sizes are known
    range: Rule[Interval] | None = None  # the least and greatest integer of the outputs: RTen has only 32 bits
    places: Mapping[int, Rule[Interval]] = field(default_factory=dict)  # the outputs that find or count elements
    exact_if: Rule[bool] | None = None  # whether it rounds nothing, if its rule for ranges does not say so
    is_bounding: bool = False  # one known input limits its output, whatever the others contain
    body_inputs: Rule[list[ValueType]] | None = None  # the types of the inputs of its subgraph
    makes_sequence: bool = False
    sizes: tuple[int, ...] = ()  # the inputs that are dims, or numbers of elements
    sizes_from: tuple[int, ...] = ()  # the inputs whose elements or products are in an output
    moves: tuple[int, ...] = ()  # the inputs whose elements are in the output, and no others
    is_copy: bool = False  # a small constant that it computes from constants can be read like one
    record: Rule[None] | None = None  # records in the scope what a node says of several values together
    rounds: NodeTest | None = None  # whether it rounds, truncates or compares, so that the last bit matters
    passes_on: bool = False  # its outputs have the elements of its inputs, moved or changed a little


@dataclass(frozen=True, slots=True, eq=False)
class ToRten:
    """The way to RTen: how a .rten file stores the operator, how other forms are rewritten, and what then differs."""

    row: Row | None = None  # in a .rten file; `None`: no release of RTen has it
    older: tuple[Rewriting, ...] = ()  # of forms of older operator sets, which run first
    rewritings: tuple[Rewriting, ...] = ()  # of forms that RTen lacks or computes otherwise
    narrow: Rewriting | None = None  # how integers of fewer bits are computed in 32 bits; it runs last
    is_plain: bool = False  # only its attributes, types and used outputs decide how it is rewritten
    asks_if_rounded: bool = False  # how it is rewritten depends on whether its result is rounded or compared
    constant: Callable[[Node], Tensor] | None = None  # the tensor that a node stands for, if it is no node in RTen
    bounds: tuple[int, ...] = ()  # the inputs in which any large number means "no limit"
    faults: tuple[Fault, ...] = ()  # of some releases, which its rewritings avoid or its deviations report
    deviations: DeviationRule | None = None  # of a node as it is written: on ties, NaN, signed zero, half steps
    unspecified: DeviationRule | None = None  # where ONNX defines no result, and RTen and onnxruntime differ

    @property
    def all_rewritings(self) -> tuple[Rewriting, ...]:
        """The rewritings that a node goes through, in order."""
        return (*self.older, *self.rewritings, *(() if self.narrow is None else (self.narrow,)))


@dataclass(frozen=True, slots=True, eq=False)
class ToOnnx:
    """The way back, from RTen's node to ONNX's.

    RTen has only one type of integer, which is INT32, INT64 or BOOL in ONNX. `inputs` has a letter for each input: the
    types that it accepts. The last letter is for all further ones; `output` is the letter of the first output.
    A letter says nothing about inputs that are not integers. A capital letter is a type that several inputs and outputs
    of a node share.

        N  one type of numbers           A  the same, or BOOL        I  INT32 or INT64, shared by indices
        i  INT32 or INT64                l  INT64                    w  INT32
        n  the same, or no integer       v  INT64, or no integer     b  BOOL
                                                                     m  BOOL, or no integer
        E  the tensors of a sequence     S  a sequence of these      x  whatever the value has

    Spec: ONNX, Operators, the type constraints of operator set 24, without the types for which onnxruntime 1.31 has no
    kernels.
    """

    inputs: str = "x"
    output: str = ""
    ranks: Mapping[int, int] = field(default_factory=dict)  # the axes that an input must have; RTen accepts any number
    subgraphs: Subgraphs | None = None  # the graphs in it
    carries_sequences: bool = False  # it passes on both tensors and sequences
    rewriting: Rewriting | None = None  # of RTen's node with ONNX's inputs, if ONNX writes it otherwise
    version: int = 0  # the operator set with the written form, if it is newer than others need
    foldings: tuple[Folding, ...] = ()  # find the nodes that its rewritings for RTen write, to write it again
    deviations: DeviationRule | None = None  # of ONNX's node, from what RTen computes

    def letters(self, count: int) -> str:
        """The letters of `count` inputs."""
        return (self.inputs + self.inputs[-1:] * count)[:count]


@dataclass(frozen=True, slots=True, eq=False)
class OnnxLoader:
    """What RTen's own loader of .onnx files takes, where the row does not say so, and since when ONNX has this form.

    The loader stops at an attribute that it does not read, and at a value that it does not accept.

    Spec: RTen, op_registry/onnx_registry.rs; ONNX, Changelog.md.
    """

    row: Row | None = None  # for an operator that only this loader has, or reads in another form
    takes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # attributes without a field: accepted values
    inputs: Mapping[str, int] = field(default_factory=dict)  # attributes of older sets: the inputs that replace them
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of missing attributes, where ONNX has others
    is_native: bool = False  # its kernel computes the same as ONNX Runtime's operator for every node that it accepts
    native_if: Rule[bool] | None = None  # the nodes for which that is true, if not all
    ranks: Mapping[int, int] = field(default_factory=dict)  # the axes that inputs of a native operator must have
    # Omitted lists of a window: the entries for each axis of the kernel, and their value.
    omitted: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    pads_alike: bool = False  # it computes the same for SAME_UPPER and for the pads that this means
    reads_constant: NodeTest | None = None  # whether it reads a node that stands for a tensor
    lacks_outputs: tuple[int, ...] = ()  # indices of missing outputs before the last one
    version: int = 13  # the first operator set with the form that rewritings write, including types
    versions: Mapping[str, int] = field(default_factory=dict)  # the same for an attribute


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSpec:
    """All that is known about one operator, in its newest form, in four parts."""

    name: str
    outputs: Outputs = Outputs()
    to_rten: ToRten = ToRten()
    to_onnx: ToOnnx = ToOnnx()
    onnx_loader: OnnxLoader = OnnxLoader()
    domain: str = ""

    def row_for(self, target: Target) -> Row | None:
        """How the loader of the target reads the operator; `None` if one of the releases lacks it."""
        row = self.onnx_loader.row or self.to_rten.row if target.is_onnx else self.to_rten.row
        return row if row is not None and target.has(row) else None


def rewritten(domain: str, **rewritings: Rewriting) -> tuple[OperatorSpec, ...]:
    """Operators of a domain of which nothing is known but how to write them with others, by their names."""
    return tuple(
        OperatorSpec(name, to_rten=ToRten(rewritings=(rewriting,)), domain=domain)
        for name, rewriting in rewritings.items()
    )
