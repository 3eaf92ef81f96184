"""Operators of ONNX's preview domains: attention with subgraphs inside, and the steps of training.

Spec: ONNX, Operators.md, ai.onnx.preview and ai.onnx.preview.training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

from formats.ir import PREVIEW, TRAINING
from formats.ir.attributes import attribute_named, get_float, get_int, get_string
from formats.ir.dtypes import DOUBLE, FLOAT, INT64
from formats.ir.functions import expand_call
from formats.ir.model import Function, Node
from formats.ir.node_order import defined, mentioned
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import make_node
from formats.rten.operators import shape
from formats.rten.spec import OperatorSpec, Outputs, ToRten, because, unknown


def _precision(node: Node, types: list[ValueType]) -> int:
    """The element type in which probabilities are computed."""
    return get_int(node, "softmax_precision") or (DOUBLE if types[0].elem_type == DOUBLE else FLOAT)


def _modified(node: Node, context: Context, name: str, value: str) -> str:
    """The value after the subgraph of an attribute, if there is one, whose nodes are put here."""
    attribute = attribute_named(node, name)
    graph = None if attribute is None else attribute.g
    if graph is None:
        return value
    sizes = len(graph.input), len(graph.output)
    if sizes != (1, 1):
        raise Refused(f"has a {name} of {sizes[0]} inputs and {sizes[1]} outputs; it must have one each")
    parameter, result_name = graph.input[0].name or "", graph.output[0].name or ""
    used = {used for inner in graph.node for used in mentioned(inner)} | {result_name, ""}
    captured = sorted(used - defined(graph) - {""})  # they become further inputs of a function
    constants = [make_node("Constant", [], [one.name or ""], value=one) for one in graph.initializer]
    end = context.names.new(f"{result_name}/{name}")  # so that an input may be the result
    nodes = [*constants, *graph.node, make_node("Identity", [result_name], [end])]
    function = Function(input=[parameter, *captured], output=[end], node=nodes)
    result = context.names.new(f"{node.output[0]}/{name}")
    call = Node(op_type=name, input=[value, *captured], output=[result])
    for inner in expand_call(call, function, context.names):
        if inner.op_type == "Constant":
            tensor = next(attribute.t for attribute in inner.attribute if attribute.t is not None)
            context.constants.add_tensor(replace(tensor, name=inner.output[0]))
        else:
            context.emit(inner)
    return result


def flex_attention(node: Node, context: Context) -> list[Node] | None:
    """Write it as products and a softmax, with the nodes of its subgraphs between them."""
    op = context.op
    query, key, value = (context.input(place) for place in range(3))
    elem_type = _precision(node, [context.scope.type_of(query)])
    heads, shared = (shape.sizes_of(context, name, 1, 2) for name in (query, key))
    groups = op("Div", heads, shared)
    batch, rows = shape.sizes_of(context, query, 0, 1), shape.sizes_of(context, query, 2, 4)
    apart = shape.joined(context, batch, shared, groups, rows)
    scale = _root_of_scale(node, context, query)
    query, key = (op("Mul", name, scale) for name in (query, key))
    query = op("Reshape", query, apart, allowzero=1)  # batch, shared heads, heads of each, rows, width
    two = context.int64([2])
    # Query heads that share a head of keys get an axis of their own: batch, shared heads, heads of each, rows, width.
    columns = op("Transpose", op("Unsqueeze", key, two), perm=[0, 1, 2, 4, 3])  # batch, shared heads, 1, width, keys
    scores = context.cast(op("MatMul", query, columns), elem_type)
    sizes = shape.joined(context, batch, heads, shape.sizes_of(context, scores, 3, 5))
    scores = op("Reshape", scores, sizes, allowzero=1)  # batch, heads, rows, keys
    scores = _modified(node, context, "score_mod", scores)
    shares = _modified(node, context, "prob_mod", op("Softmax", scores, axis=-1))
    sizes = shape.joined(context, batch, shared, groups, shape.sizes_of(context, shares, 2, 4))
    shares = op("Reshape", shares, sizes, allowzero=1)  # batch, shared heads, heads of each, rows, keys
    values = op("Unsqueeze", context.cast(value, elem_type), two)  # batch, shared heads, 1, keys, width
    result = op("MatMul", shares, values)
    sizes = shape.joined(context, batch, heads, shape.sizes_of(context, result, 3, 5))
    result = op("Reshape", result, sizes, allowzero=1)  # batch, heads, rows, width
    return context.replace(context.cast(result, context.elem_type(value) or FLOAT))


def _root_of_scale(node: Node, context: Context, query: str) -> str:
    """The root of the factor of scores, by which both sides are multiplied."""
    if attribute_named(node, "scale") is not None:
        return context.scalar(sqrt(get_float(node, "scale")), like=query)
    width = shape.sizes_of(context, query, 3, 4)
    sizes = context.scope.ints(width)
    if sizes and sizes[0]:
        return context.scalar(sizes[0] ** (-1 / 4), like=query)
    root = context.op("Sqrt", context.op("Sqrt", context.cast(width, FLOAT)))
    return context.cast(context.op("Div", context.array([1.0]), root), context.elem_type(query) or FLOAT)


def _flex_body(node: Node, scope: Scope, types: list[ValueType]) -> list[ValueType]:
    return [ValueType(_precision(node, types), (None,) * 4)]


FlexAttention = OperatorSpec(
    "FlexAttention", Outputs(body_inputs=_flex_body), ToRten(rewritings=(flex_attention,)), domain=PREVIEW
)


class _Step:
    """One step of training: the learning rate, the number of steps before, and arithmetic on tensors and numbers."""

    def __init__(self, node: Node, context: Context) -> None:
        self.context = context
        self.rate, self.count = (self._scalar(context.input(place)) for place in (0, 1))
        self._numbers = {name: get_float(node, name) for name in ("alpha", "beta", "epsilon", "decay_factor")}
        self.post = get_float(node, "norm_coefficient_post")
        self._norm = get_float(node, "norm_coefficient")
        self.is_nesterov = get_string(node, "mode", "standard") == "nesterov"

    def _scalar(self, name: str) -> str:
        return name if self.context.rank(name) == 0 else self.context.op("Reshape", name, [])

    def __getitem__(self, name: str) -> float:
        return self._numbers[name]

    def op(self, operator: str, first: str | float, second: str | float) -> str:
        """An operator of two values; numbers have the type of the learning rate."""
        operands = (x if isinstance(x, str) else self.context.scalar(x, like=self.rate) for x in (first, second))
        return self.context.op(operator, *operands)

    def add(self, first: str | float, second: str | float) -> str:
        """The sum."""
        return self.op("Add", first, second)

    def times(self, first: str | float, second: str | float) -> str:
        """The product."""
        return self.op("Mul", first, second)

    def root(self, value: str) -> str:
        """The square root, and epsilon."""
        return self.add(self.context.op("Sqrt", value), self["epsilon"])

    def is_later(self) -> str:
        """Whether there were steps before."""
        return self.context.op("Greater", self.count, self.context.scalar(0, elem_type=INT64))

    def slope(self, value: str, gradient: str) -> str:
        """The gradient, with that of the regularisation."""
        return self.add(self.times(self._norm, value), gradient)

    def steps(self) -> str:
        """The number of steps before, as a float."""
        return self.context.cast(self.count, self.context.elem_type(self.rate) or FLOAT)


# Spec: ONNX, Operators.md, ai.onnx.preview.training: Adagrad, Momentum and Adam, in the names of their formulas.


def _adagrad(step: _Step, value: str, gradient: str, squares: str) -> tuple[str, ...]:
    rate = step.op("Div", step.rate, step.add(step.times(step.steps(), step["decay_factor"]), 1.0))
    slope = step.slope(value, gradient)  # with the regularisation
    squares = step.add(squares, step.times(slope, slope))
    change = step.op("Div", step.times(rate, slope), step.root(squares))
    return step.op("Sub", value, change), squares


def _momentum(step: _Step, value: str, gradient: str, speed: str) -> tuple[str, ...]:
    slope = step.slope(value, gradient)
    factors = (step.context.scalar(number, like=step.rate) for number in (step["beta"], 1.0))
    factor = step.context.op("Where", step.is_later(), *factors)
    speed = step.add(step.times(step["alpha"], speed), step.times(factor, slope))
    change = step.add(slope, step.times(step["alpha"], speed)) if step.is_nesterov else speed
    return step.op("Sub", value, step.times(step.rate, change)), speed


def _adam(step: _Step, value: str, gradient: str, speed: str, squares: str) -> tuple[str, ...]:
    slope = step.slope(value, gradient)
    speed = step.add(step.times(step["alpha"], speed), step.times(1.0 - step["alpha"], slope))
    squares = step.add(step.times(step["beta"], squares), step.times(1.0 - step["beta"], step.times(slope, slope)))
    before = step.steps()
    lost = [step.op("Sub", 1.0, step.op("Pow", step[name], before)) for name in ("beta", "alpha")]
    rate = step.times(step.rate, step.context.op("Sqrt", lost[0]))
    rate = step.context.op("Where", step.is_later(), step.op("Div", rate, lost[1]), step.rate)
    change = step.times(rate, step.op("Div", speed, step.root(squares)))
    return step.times(1.0 - step.post, step.op("Sub", value, change)), speed, squares


def _optimizer(name: str, update: Callable[..., tuple[str, ...]], states: int) -> OperatorSpec:
    """The operator that updates some tensors, each with its gradient and states."""

    @because("RTen has no operators for training, so the step becomes arithmetic")
    def optimizer(node: Node, context: Context) -> list[Node] | None:
        step, kinds = _Step(node, context), 2 + states
        count = (len(node.input) - 2) // kinds
        updated = [
            update(step, *(context.input(2 + kind * count + place) for kind in range(kinds))) for place in range(count)
        ]
        return context.replace(*(results[kind] for kind in range(1 + states) for results in updated))

    return OperatorSpec(name, Outputs(elements=unknown), ToRten(rewritings=(optimizer,)), domain=TRAINING)


Adagrad = _optimizer("Adagrad", _adagrad, 1)
Adam = _optimizer("Adam", _adam, 2)
Momentum = _optimizer("Momentum", _momentum, 1)
