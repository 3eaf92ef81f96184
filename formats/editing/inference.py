"""Types and shapes of values, inferred again after an edit.

Exporters write dims that are computed from others as texts, such as "batch*seq" and "(s0 - 1)//2 + 1"; the last part of
the module reads them.
"""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_dims, all_graphs, all_messages, main_graph, names_used, shape_of, shapes_of
from formats.errors import EditError, MissingPackageError, UnsupportedError
from formats.ir import dtypes, walk
from formats.ir.attributes import label_of
from formats.ir.copies import copied, shallow
from formats.ir.model import Dimension, Graph, Model, Type, entries
from formats.onnxpb.inference import inferred
from formats.tensordata.plan import INTERFACE, USE, Loss
from formats.words import cached_if_short, counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from formats.ir.model import TensorShape, ValueInfo

DIMS = "these dims"  # which an error names
RECURRENT = ("GRU", "LSTM", "RNN")
TOO_LARGE = "the model has more than 2 GiB without its weights, too much for onnx"
GENERATED = "unk__"  # the start of names that onnx gives to dims


def infer_in(model: Model) -> None:
    """Add the types and shapes that onnx infers to the main graph and its subgraphs; what is stated stays.

    Raises: MissingPackageError if onnx is not installed; EditError if the model contradicts itself.
    """
    with_types = inferred(model, strict=True)
    if with_types is None:
        raise EditError(TOO_LARGE)
    _add(model, with_types)


def infer_known_in(model: Model) -> list[str]:
    """Do what `infer_in` does as far as it is possible, and return what is not known for which reason, or was wrong."""
    try:
        with_types, is_stale = _checked(model, model)
    except (MissingPackageError, UnsupportedError) as error:
        return [f"nothing is inferred; {error.message}"]
    if with_types is None:
        return [f"nothing is inferred; the model contradicts itself, or {TOO_LARGE}"]
    corrected = [loss.detail for loss in _corrected(model, with_types)] if is_stale else []
    _add(model, with_types)
    return corrected


def _add(model: Model, with_types: Model) -> None:
    """Add inferred types and shapes to the graphs of a model where it does not state them."""
    names = _stated_names(model)
    for graph, other in zip(all_graphs(model), all_graphs(with_types), strict=True):
        inferred_values = _named([*other.value_info, *other.output])
        for value in (*graph.output, *graph.value_info):
            new = inferred_values.get(value.name or "")
            shape = shape_of(value)
            if new is not None and (value.type is None or (value.type.tensor_type is not None and shape is None)):
                value.type = new.type
            elif new is not None and shape is not None and (other_shape := shape_of(new)) is not None:
                _fill(shape, other_shape, names)
        stated = _named([*graph.value_info, *graph.output])
        graph.value_info += [value for value in other.value_info if value.name not in stated]
        for value in graph.value_info:
            for dim in (dim for shape in shapes_of(value.type) for dim in shape.dim):
                if value.name not in stated:
                    _without_generated(dim, names)


class _Stated(NamedTuple):
    """A value, and the dims that the model stated for it."""

    value: ValueInfo
    dims: list[Dimension]


def infer_again(model: Model, before: Model, changed: Mapping[str, Collection[int | str | None]]) -> EditResult:
    """Shapes that follow from the inputs `changed` are dropped, and shapes are inferred where onnx is installed.

    `changed` has the dims that the axes of inputs had. What the model said of values that follow from an axis with a
    size may be true of this size only. If an axis had a name, or nothing, that was true of every size, and what is not
    inferred stays, but for this name. `before` is the model without any edit: what contradicts itself there is no
    reason to refuse.

    Raises: EditError if the model does not fit its new shapes.
    """
    dropped, outputs, stated = _dropped(model, changed)
    why = ""
    count = 0
    stale: list[Loss] = []
    try:
        with_types, is_stale = _checked(model, before)
    except MissingPackageError as error:
        with_types, is_stale, why = None, False, f"; {error.message}"
    if with_types is not None:
        _check_reshapes(with_types)
        _check_states(with_types)
        if is_stale:
            stale = [*_corrected(model, with_types)]
        count = _take(model, with_types, dropped)
    _restore(model, dropped, stated)
    edits = (Edit("dim", f"{counted(count, 'shape')} inferred again"),) if count else ()
    described = _named(main_graph(model).value_info)
    still_dropped = {name: value for name, value in dropped.items() if name not in described}
    less_known = [old.value for old in outputs if _is_less_known(old)]
    return EditResult(edits, (*stale, *_losses_of(still_dropped, less_known, why)))


def check_again(model: Model, before: Model, what: str, *, must: bool = False) -> EditResult:
    """Shapes that are wrong after an edit of nodes are inferred again; `what` says which edit in an error.

    `before` is the model without any edit.

    Raises: EditError if the nodes do not fit each other; MissingPackageError if it is a `must`, but onnx is not
    installed.
    """
    try:
        with_types, is_stale = _checked(model, before, what)
    except MissingPackageError as error:
        if must:
            raise
        detail = f"it is not checked whether the shapes that the model states are right; {error.message}"
        return EditResult(losses=(Loss("shape", "graph", detail, INTERFACE),))
    if with_types is None:
        return EditResult()
    _check_reshapes(with_types, what)
    return EditResult(losses=tuple(_corrected(model, with_types)) if is_stale else ())


def infer_following(model: Model, before: Model, changed: Collection[str], what: str) -> None:
    """What the model states of the values that follow from `changed` ones is inferred again, or dropped.

    Outputs keep what is stated, if nothing is inferred. `before` and `what` are those of `check_again`.

    Raises: EditError if the nodes do not fit each other.
    """
    graph = main_graph(model)
    names = after(graph, changed)
    stated = {value.name for message in all_messages(model) for value in entries(message, "value_info")}
    outputs = {value.name: value.type for value in graph.output if value.name in names}
    for node in graph.node:
        if not names.isdisjoint(node.output):
            for _, subgraph in walk.graphs(node):
                subgraph.value_info = []
    graph.value_info = [value for value in graph.value_info if value.name not in names]
    for value in graph.output:
        value.type = None if value.name in outputs else value.type
    try:
        with_types, _ = _checked(model, before, what)
    except MissingPackageError:
        with_types = None
    if with_types is not None:
        for mine, theirs in zip(all_graphs(model), all_graphs(with_types), strict=True):
            here = _named(mine.value_info)
            mine.value_info += [value for value in theirs.value_info if value.name in stated and value.name not in here]
        for value in main_graph(with_types).output:
            if value.name in outputs and value.type is not None and value.type != Type():
                outputs[value.name] = value.type
    for value in graph.output:
        if value.name in outputs:
            value.type = outputs[value.name]


def _checked(model: Model, before: Model, what: str = DIMS) -> tuple[Model | None, bool]:
    """The model with inferred shapes, and whether the model states some that are wrong, which were not used.

    There are no inferred shapes if the old model contradicts itself, too, and nothing can be said.

    Raises: EditError if the model contradicts itself.
    """
    try:
        return inferred(model, strict=True), False
    except EditError as error:
        wrong = error.message  # the error itself would keep files open
    try:
        return inferred(without_stated(model), strict=True), True
    except EditError:
        pass
    try:
        inferred(without_stated(before), strict=True)
    except EditError:
        return inferred(model), False
    raise EditError(f"the model does not fit {what}: {wrong}")


def without_stated(model: Model) -> Model:
    """The model without what its main graph states of the shapes of inner values and outputs."""
    new = shallow(model)
    new.graph = graph = shallow(main_graph(model))
    graph.value_info = []
    graph.output = [copied(value) for value in graph.output]
    for value in graph.output:
        if value.type is not None and value.type.tensor_type is not None:
            value.type.tensor_type.shape = None
    return new


def is_contradiction(shape: TensorShape, other: TensorShape) -> bool:
    """Whether no value can have both shapes."""
    return len(shape.dim) != len(other.dim) or any(
        None not in (mine.dim_value, theirs.dim_value) and mine.dim_value != theirs.dim_value
        for mine, theirs in zip(shape.dim, other.dim, strict=True)
    )


def _corrected(model: Model, with_types: Model) -> Iterator[Loss]:
    """Take inferred shapes for the inner values and outputs of which the model states wrong ones; the reports of it."""
    names = _stated_names(model)
    graph, other = main_graph(model), main_graph(with_types)
    new = _named([*other.value_info, *other.output])
    outputs = _named(graph.output)
    for value in (*entries(graph, "value_info"), *graph.output):
        shape, right = shape_of(value), shape_of(new[value.name or ""]) if value.name in new else None
        if shape is None or right is None or not is_contradiction(shape, right):
            continue
        shape.dim = copied(right).dim
        for dim in shape.dim:
            _without_generated(dim, names)
        detail = f"the stated shape of {value.name} was wrong, and is inferred again"
        yield Loss("shape", "graph", detail, INTERFACE if value.name in outputs else USE)


def _dropped(
    model: Model, changed: Mapping[str, Collection[int | str | None]]
) -> tuple[dict[str, ValueInfo], list[_Stated], list[_Stated]]:
    """Drop what the model says of values that follow from some inputs: the shapes of inner values and of outputs.

    Return the inner values, what was stated of outputs, and what was true of every size.
    """
    graph = main_graph(model)
    names = after(graph, changed)
    of_a_size = after(graph, {name for name, dims in changed.items() if any(isinstance(dim, int) for dim in dims)})
    symbols = {dim for dims in changed.values() for dim in dims if isinstance(dim, str)}
    gone = {value.name or "": value for value in graph.value_info if value.name in names}
    graph.value_info = [value for value in graph.value_info if value.name not in names]
    outputs = [_Stated(value, _without(shape_of(value), ())) for value in graph.output if value.name in names]
    forgotten = [(old.value, old.value.name in of_a_size) for old in outputs]
    for node in graph.node if names else ():
        if not names.isdisjoint(used := names_used(node)):
            for _, subgraph in walk.graphs(node):
                values = (*subgraph.output, *entries(subgraph, "value_info"))
                forgotten += [(value, not of_a_size.isdisjoint(used)) for value in values]
    every = [*((value, name in of_a_size) for name, value in gone.items()), *forgotten]
    stated = [_Stated(value, _without(shape_of(value), symbols)) for value, is_of_a_size in every if not is_of_a_size]
    for value, _ in forgotten:
        for shape in shapes_of(value.type):
            shape.dim = [Dimension(denotation=dim.denotation) for dim in shape.dim]
    return gone, outputs, stated


def _without(shape: TensorShape | None, symbols: Collection[str]) -> list[Dimension]:
    """The dims of a shape, unknown where these names stand."""
    return [
        Dimension(denotation=dim.denotation)
        if dim.dim_param and (dim.dim_param in symbols or not names_in_dim(dim.dim_param).isdisjoint(symbols))
        else dim
        for dim in (() if shape is None else shape.dim)
    ]


def _restore(model: Model, dropped: Mapping[str, ValueInfo], stated: Sequence[_Stated]) -> None:
    """State again what was true of every size, where nothing was inferred."""
    graph = main_graph(model)
    here = _named(graph.value_info)
    for value, dims in stated:
        shape = shape_of(value)
        if value is dropped.get(value.name or "") and value.name not in here:
            if shape is not None and all(map(_is_known_dim, dims)):
                shape.dim = dims
                graph.value_info.append(value)
        elif shape is not None and len(shape.dim) == len(dims):
            shape.dim = [new if _is_known_dim(new) else old for new, old in zip(shape.dim, dims, strict=True)]


def after(graph: Graph, names: Collection[str]) -> set[str]:
    """The names of the values of a graph that are computed from some others, with these."""
    following = set(names)
    for node in graph.node:
        if not following.isdisjoint(names_used(node)):
            following.update(filter(None, node.output))
    return following


def _is_known_dim(dim: Dimension) -> bool:
    return dim.dim_value is not None or bool(dim.dim_param)


def _losses_of(dropped: Mapping[str, object], outputs: Collection[ValueInfo], why: str) -> Iterator[Loss]:
    """The reports of what is not known any more."""
    for value in outputs:
        detail = f"the dims of the output {value.name} are not known any more{why}"
        yield Loss("shape", "graph.output", detail, INTERFACE)
    if dropped:
        yield Loss("value_info", "graph.value_info", f"{counted(len(dropped), 'inner shape')} dropped{why}", USE)


def _is_less_known(old: _Stated) -> bool:
    """Whether a dim of a value was known that is not known any more."""
    shape = shape_of(old.value)
    return shape is not None and any(
        _is_known_dim(before) and not _is_known_dim(now) for before, now in zip(old.dims, shape.dim, strict=False)
    )


def _named(values: Collection[ValueInfo]) -> dict[str, ValueInfo]:
    return {value.name or "": value for value in values}


def _take(model: Model, with_types: Model, dropped: Mapping[str, ValueInfo]) -> int:
    """Take inferred shapes for outputs, for inner values that the model describes, and for those that were dropped.

    Subgraphs have such outputs and inner values, too.
    Return the number of values of which more is known.
    """
    names = _stated_names(model)
    more = 0
    for graph, other in zip(all_graphs(model), all_graphs(with_types), strict=True):
        inferred_values = _named([*other.value_info, *other.output])
        for value in (*graph.output, *entries(graph, "value_info")):
            shape, inferred_value = shape_of(value), inferred_values.get(value.name or "")
            new = None if inferred_value is None else shape_of(inferred_value)
            more += shape is not None and new is not None and _fill(shape, new, names)
    inferred_values = _named([*main_graph(with_types).value_info, *main_graph(with_types).output])
    for name, value in dropped.items():
        new = shape_of(inferred_values[name]) if name in inferred_values else None
        if new is not None and (tensor := getattr(value.type, "tensor_type", None)) is not None:
            tensor.shape = new
            for dim in new.dim:
                _without_generated(dim, names)
            main_graph(model).value_info.append(value)
            more += 1
    return more


def _stated_names(model: Model) -> set[str]:
    """The names of dims in a model; onnx generates none of them."""
    return {dim.dim_param for dim in all_dims(model) if dim.dim_param}


def _fill(shape: TensorShape, new: TensorShape, names: Collection[str]) -> bool:
    """Take the dims of another shape that are not known here, or only by name; whether there were any."""
    if len(shape.dim) != len(new.dim):
        return False
    changed = False
    for mine, other in zip(shape.dim, new.dim, strict=True):
        _without_generated(other, names)
        if mine.dim_value is None and other.dim_value is not None:
            mine.dim_value = other.dim_value
        elif mine.dim_value is None and not mine.dim_param and other.dim_param:
            mine.dim_param = other.dim_param
        else:
            continue
        changed = True
    return changed


def _without_generated(dim: Dimension, names: Collection[str]) -> None:
    """Remove a name that onnx generated, which is not among the names in the model."""
    if (dim.dim_param or "").startswith(GENERATED) and dim.dim_param not in names:
        dim.dim_param = None


def _check_reshapes(model: Model, what: str = DIMS) -> None:
    """Raises EditError for a Reshape whose constant shape has another number of elements than its input now has."""
    graph = main_graph(model)
    values = _named([*graph.value_info, *graph.input, *graph.output])
    for node in graph.node:
        if node.op_type == "Reshape" and node.input and node.output:
            before, after_it = (_sizes(values.get(name)) for name in (node.input[0], node.output[0]))
            if before is None or after_it is None or None in before or None in after_it:
                continue
            if dtypes.count(before) != dtypes.count(after_it):  # type: ignore[arg-type]  # all are numbers
                name = label_of(node)
                raise EditError(f"the model does not fit {what}: Reshape {name} turns {before} into {after_it}")


def _check_states(model: Model) -> None:
    """Raises EditError for an LSTM, GRU or RNN whose states or lengths have another batch size than its input.

    Spec: ONNX operators, LSTM: the attribute `layout` says whether the batch is the first axis or the second.
    """
    graph = main_graph(model)
    shapes = {value.name or "": _sizes(value) or [] for value in (*graph.value_info, *graph.input, *graph.output)}
    shapes |= {tensor.name or "": [*tensor.dims] for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type not in RECURRENT or not node.input:
            continue
        axis = 0 if any(attribute.name == "layout" and attribute.i for attribute in entries(node, "attribute")) else 1
        batches = [  # of X, sequence_lens, initial_h and initial_c
            (shapes[name][axis_of_batch], name)
            for index, axis_of_batch in ((0, axis), (4, 0), (5, axis), (6, axis))
            for name in node.input[index : index + 1]
            if axis_of_batch < len(shapes.get(name, ())) and shapes[name][axis_of_batch] is not None
        ]
        other = next((batch for batch in batches if batch[0] != batches[0][0]), None)
        if other is not None:
            name = label_of(node)
            both = f"{batches[0][0]} in {batches[0][1]} and of {other[0]} in {other[1]}"
            raise EditError(f"the model does not fit these dims: {node.op_type} {name} has a batch of {both}")


def _sizes(value: ValueInfo | None) -> list[int | None] | None:
    """The sizes of the dims of a value, `None` for those that are not known; `None` without a shape."""
    shape = None if value is None else shape_of(value)
    return None if shape is None else [dim.dim_value for dim in shape.dim]


# Computed dims


MAX_CHARACTERS = 500
MAX_DIGITS = 20
LARGEST = (1 << 63) - 1

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# What Python's parser may get: other texts of a file bring warnings, or letters that Python takes for others.
_EXPRESSION = re.compile(r"(?: |\d+(?!\w)|[A-Za-z_]\w*|//|[-+*%(),])*", re.ASCII)
_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS = {"max": max, "Max": max, "min": min, "Min": min}


def names_in_dim(text: str) -> set[str]:
    """The names of other dims in the name of a dim, if that is computed from them; otherwise the name itself."""
    if _WORD.fullmatch(text) or _parsed(text) is None:
        return {text}
    return {word for word in _WORD.findall(text) if word not in _FUNCTIONS}


def replaced(text: str, name: str, value: int | str) -> int | str | None:
    """The dim after another dim got a value or a name: a size, a text, or `None` if it is no possible size."""
    if text == name:
        return value
    if name not in names_in_dim(text):
        return text
    text = _WORD.sub(lambda word: str(value) if word[0] == name else word[0], text)
    if names_in_dim(text):
        return text
    try:
        size = _computed(_parsed(text))
    except (ArithmeticError, ValueError):
        return None
    return size if 0 <= size <= LARGEST else None


@cached_if_short
def _parsed(text: str) -> ast.expr | None:
    """The expression, or `None` if the text is just a name."""
    if len(text) > MAX_CHARACTERS or not _EXPRESSION.fullmatch(text) or re.search(rf"\d{{{MAX_DIGITS}}}", text):
        return None
    try:
        expression = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return expression if _is_arithmetic(expression) else None


def _is_arithmetic(expression: ast.expr) -> bool:
    if isinstance(expression, ast.BinOp):
        return (
            type(expression.op) in _OPERATORS and _is_arithmetic(expression.left) and _is_arithmetic(expression.right)
        )
    if isinstance(expression, ast.UnaryOp):
        return isinstance(expression.op, ast.USub) and _is_arithmetic(expression.operand)
    if isinstance(expression, ast.Call):
        is_known = isinstance(expression.func, ast.Name) and expression.func.id in _FUNCTIONS
        return (
            is_known and bool(expression.args) and not expression.keywords and all(map(_is_arithmetic, expression.args))
        )
    return isinstance(expression, ast.Name) or (isinstance(expression, ast.Constant) and type(expression.value) is int)


def _computed(expression: Any) -> int:
    if isinstance(expression, ast.BinOp):
        result: int = _OPERATORS[type(expression.op)](_computed(expression.left), _computed(expression.right))
        if abs(result) > LARGEST:
            raise OverflowError(result)
        return result
    if isinstance(expression, ast.UnaryOp):
        return -_computed(expression.operand)
    if isinstance(expression, ast.Call):
        return int(_FUNCTIONS[expression.func.id](map(_computed, expression.args)))  # type: ignore[attr-defined]  # a name
    return int(expression.value)
