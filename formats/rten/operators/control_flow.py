"""Operators with subgraphs: branches and loops.

Spec: ONNX, Operators.md, If, Loop and Scan.
"""

from __future__ import annotations

from formats.ir.attributes import attribute_named, get_int, get_ints
from formats.ir.dtypes import BOOL, FLOAT, INT64, numpy_dtype
from formats.ir.model import Graph, Node, ValueInfo
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import UNKNOWN, Dims, ValueType, declared_type, nameless
from formats.rten.graph.attributes import make_node
from formats.rten.operators import shape
from formats.rten.operators.rules import normalize
from formats.rten.spec import Field, OperatorSpec, Outputs, Row, Subgraphs, ToOnnx, ToRten, because, unknown
from formats.rten.types import INT64_MAX


def _subgraph_outputs(node: Node) -> list[list[ValueType]]:
    """The types that each subgraph of a node declares for its outputs."""
    graphs = [attribute.g for attribute in node.attribute if attribute.g is not None]
    return [
        [UNKNOWN if value.type is None else nameless(declared_type(value.type)) for value in graph.output]
        for graph in graphs
    ]


def _common(first: Dims | None, second: Dims | None) -> Dims | None:
    """The dims that two values have in common."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(one if one == other else None for one, other in zip(first, second, strict=True))


def branch_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims that all branches have in common."""
    first, second = _subgraph_outputs(node)
    return [_common(one.dims, other.dims) for one, other in zip(first, second, strict=True)]


def _branch_elements(node: Node, scope: Scope, types: list[ValueType]) -> list[int | None]:
    """The element types of the outputs of the first branch."""
    return [value_type.elem_type for value_type in _subgraph_outputs(node)[0]]


If = OperatorSpec(
    "If",
    Outputs(branch_dims, _branch_elements),
    ToRten(
        Row(
            1, None, "IfAttrs", (Field("then_branch", Graph, required=True), Field("else_branch", Graph, required=True))
        )
    ),
    ToOnnx("b", subgraphs=Subgraphs(("then_branch", "else_branch"))),
)


def loop_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Carried values have the dims that stay the same in a step. Collected ones have a row for each step."""
    output_types = _subgraph_outputs(node)[0][1:]
    carried = [_common(entry.dims, kind.dims) for entry, kind in zip(types[2:], output_types, strict=False)]
    return carried + [None if kind.dims is None else (None, *kind.dims) for kind in output_types[len(carried) :]]


def _loop_elements(node: Node, scope: Scope, types: list[ValueType]) -> list[int | None]:
    """The element types of the outputs of the body, after its condition."""
    return [value_type.elem_type for value_type in _subgraph_outputs(node)[0][1:]]


def loop_raised(node: Node, context: Context) -> list[Node]:
    """The same for the values that a loop carries. The two inputs before them may be omitted, but keep their places."""
    return context.changed([*[*node.input, "", ""][:2], *filter(None, node.input[2:])])


def _has_steps(context: Context) -> bool:
    """Whether a loop is known to run its body at least once."""
    count, condition = context.optional(0), context.optional(1)
    if count and (context.scope.range_of(count).least or 0) < 1:
        return False
    return not condition or context.scope.ints(condition) in ((1,), (True,))


@because("RTen's Loop fails if it collects outputs and runs no steps, so an If guards it")
def loop(node: Node, context: Context) -> list[Node] | None:
    attribute, states = attribute_named(node, "body"), node.input[2:]
    body = None if attribute is None else attribute.g
    if body is None or len(node.output) <= len(states) or _has_steps(context):
        return None
    collected = [
        UNKNOWN if value.type is None else declared_type(value.type) for value in body.output[1 + len(states) :]
    ]
    if any(kind.elem_type is None for kind in collected):
        return None
    # The If runs the same loop, which then has at least one step, or returns the states and empty collected outputs.
    # `inner` has at least one step, `other` none.
    always, inner, other = context.scalar(1, elem_type=BOOL), context.nested(), context.nested()
    count, starts = context.optional(0), context.optional(1) or always
    if count:
        one = context.int64_scalar(1)
        starts = context.op("And", starts, context.op("GreaterOrEqual", count, one))
        count = inner.op("Max", count, one)
    results = inner.op_outputs("Loop", [count, always, *states], len(node.output), body=body)
    without_steps = [other.op("Identity", state) for state in states]
    for kind in collected:
        dims = [dim if isinstance(dim, int) else 0 for dim in kind.dims or ()]
        zero = from_numpy(budget.zeros(1, numpy_dtype(kind.elem_type or FLOAT)))
        without_steps.append(other.op("ConstantOfShape", [0, *dims], value=zero))
    branches = {
        name: Graph(name=name, node=branch.emitted, output=[ValueInfo(name=value) for value in values])
        for name, branch, values in (("then_branch", inner, results), ("else_branch", other, without_steps))
    }
    one_truth = context.op("Reshape", starts, []) if context.rank(starts) != 0 else starts
    return context.replace(*context.op_outputs("If", [one_truth], len(results), **branches))


def loop_body(node: Node, scope: Scope, types: list[ValueType]) -> list[ValueType]:
    """The step, the condition, and the carried values, whose dims may change in each step."""
    return [ValueType(INT64, ()), ValueType(BOOL, ()), *(ValueType(entry.elem_type) for entry in types[2:])]


Loop = OperatorSpec(
    "Loop",
    Outputs(loop_dims, _loop_elements, body_inputs=loop_body),
    ToRten(Row(None, None, "LoopAttrs", (Field("body", Graph, required=True),)), rewritings=(loop,)),
    ToOnnx(
        "lbx",
        subgraphs=Subgraphs(("body",), (INT64, BOOL), carried=2, outputs=(BOOL,)),
        carries_sequences=True,
        rewriting=loop_raised,
    ),
)


def _scan_of_batch(node: Node, context: Context, body: Graph) -> list[Node]:
    """In operator set 8, all had a batch axis first: a loop over the samples, each of which is scanned."""
    if context.optional(0):
        raise Refused("has sequences of different lengths", "convert the model to operator set 9 or newer")
    samples = shape.length_of(context, context.input(1), 0)  # the data are samples, steps, ...
    scanned = get_int(node, "num_scan_inputs")
    inner = context.nested()
    number, condition, goes_on = (
        context.names.new(f"{node.output[0]}/{what}") for what in ("sample", "condition", "goes_on")
    )
    results = inner.op_outputs(
        "Scan",
        [inner.op("Gather", name, number, axis=0) for name in node.input[1:]],
        len(node.output),
        body=body,
        num_scan_inputs=scanned,
        scan_input_directions=get_ints(node, "directions") or [0 for _ in budget.steps(scanned)],
    )
    inner.emit(make_node("Identity", [condition], [goes_on]))
    graph = Graph(
        name=body.name,
        node=inner.emitted,
        input=[context.value_info(name, kind, ()) for name, kind in ((number, INT64), (condition, BOOL))],
        output=[context.value_info(goes_on, BOOL, ()), *(ValueInfo(name=name) for name in results)],
    )
    always = context.scalar(1, elem_type=BOOL)
    return context.replace(*context.op_outputs("Loop", [samples, always], len(results), body=graph))


def _collected(node: Node, context: Context, results: list[str]) -> list[str]:
    """The collected outputs. Their steps are in the order, and along the axis, that the attributes name."""
    backwards = get_ints(node, "scan_output_directions") or [0] * len(results)
    axes = get_ints(node, "scan_output_axes") or [0] * len(results)
    collected = []
    for name, back, axis in zip(results, backwards, axes, strict=True):
        value = name
        if back:
            last = context.int64([-1])
            value = context.op("Slice", value, last, [-INT64_MAX], [0], last)
        if axis:  # the steps are collected along the first axis, and move to the one that is named
            rank = context.known_rank(value)
            order = list(range(1, rank))
            order.insert(normalize(axis, rank), 0)
            value = context.op("Transpose", value, perm=order)
        collected.append(value)
    return collected


def scan(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Loop whose body slices its inputs."""
    attribute = attribute_named(node, "body")
    if attribute is None or attribute.g is None:
        raise Refused("has no body")
    if context.version < 9:
        return _scan_of_batch(node, context, attribute.g)
    body, scanned = attribute.g, get_int(node, "num_scan_inputs")
    count = len(node.input) - scanned
    if not 0 <= count < len(node.input) == len(body.input):
        raise Refused(f"has {len(node.input)} inputs, of which it scans {scanned}, but its body has {len(body.input)}")
    states, data = node.input[:count], node.input[count:]  # carried from step to step, and scanned
    axes = get_ints(node, "scan_input_axes") or [0 for _ in budget.steps(scanned)]
    backwards = get_ints(node, "scan_input_directions") or [0 for _ in budget.steps(scanned)]
    axis = normalize(axes[0], context.known_rank(data[0]))
    steps = shape.length_of(context, data[0], axis)
    # The Scan's body becomes that of a Loop, which first gathers its slices of the scanned inputs.
    inner = context.nested()
    iteration, condition = (context.names.new(f"{node.output[0]}/{what}") for what in ("step", "goes_on"))
    mirrored = ""
    for place, value in enumerate(body.input[count:]):
        index = iteration
        if backwards[place]:
            mirrored = mirrored or inner.op("Sub", inner.op("Sub", steps, 1), iteration)
            index = mirrored
        inner.emit(make_node("Gather", [data[place], index], [value.name or ""], axis=axes[place]))
    goes_on = context.names.new(f"{node.output[0]}/goes_on")
    graph = Graph(
        name=body.name,
        node=[*inner.emitted, *body.node, make_node("Identity", [condition], [goes_on])],
        initializer=body.initializer,
        input=[context.value_info(iteration, INT64, ()), context.value_info(condition, BOOL, ()), *body.input[:count]],
        output=[context.value_info(goes_on, BOOL, ()), *body.output],
        value_info=body.value_info,
    )
    always = context.scalar(1, elem_type=BOOL)
    results = list(context.op_outputs("Loop", [steps, always, *states], len(node.output), body=graph))
    return context.replace(*results[:count], *_collected(node, context, results[count:]))


def scan_body(node: Node, scope: Scope, types: list[ValueType]) -> list[ValueType]:
    """The states, and the slices of the scanned inputs."""
    count = len(types) - get_int(node, "num_scan_inputs")
    axes = get_ints(node, "scan_input_axes") or [0] * len(types)
    return [*types[:count], *(_without(entry, axis) for entry, axis in zip(types[count:], axes, strict=False))]


def _without(value_type: ValueType, axis: int) -> ValueType:
    """The type of a slice along an axis."""
    dims = value_type.dims
    if dims is None or not -len(dims) <= axis < len(dims):
        return ValueType(value_type.elem_type)
    axis %= len(dims)
    return ValueType(value_type.elem_type, dims[:axis] + dims[axis + 1 :])


Scan = OperatorSpec("Scan", Outputs(elements=unknown, body_inputs=scan_body), ToRten(rewritings=(scan,)))
