"""Follows the types and dims of values from node to node, and finds those that an operator does not take.

A value whose type is not known, such as the result of an operator in another domain, is not checked.

Spec: ONNX docs, "Operators.md": the type constraints of operators; "IR.md".
"""

from __future__ import annotations

from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir import FIRST_WITH_CONSTANTS, FIRST_WITH_OPERATOR_SETS, ONNX, walk
from formats.ir.copies import content
from formats.ir.model import entries
from formats.onnxpb.operator_sets import form_of, newest, signature_of
from formats.onnxpb.value_types import operator_type_text, tensor_text, types_made
from formats.verbs.verifying.dims import differ, dims_of_results, dims_problem, dims_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.ir.model import Attribute, Dimension, Function, Graph, Model, Node, OperatorSetId, Type
    from formats.onnxpb.operator_sets import TypeSignature
    from formats.verbs.verifying.dims import Dim, Dims

    Problem = tuple[str, str, str]

MAX_FORMS = 4  # of the inputs of one function for which it is followed
MAX_DEPTH = 100  # of graphs and functions in each other
FEW = 6  # types that a message lists


class TypeAndDims(NamedTuple):
    """The type of a value, "" if it is not known, and its dims."""

    type: str
    dims: Dims | None = None


if TYPE_CHECKING:
    Inputs = tuple[TypeAndDims | None, ...]  # of a node; `None` for one that is not known


class Made(NamedTuple):
    """What a node makes, and what is wrong with it, as (code, place in the node, detail)."""

    kinds: Sequence[TypeAndDims | None]
    problems: Sequence[Problem]


class CheckedPart:
    """The operator sets of the main graph or of a function, and what is known of its nodes by their form."""

    def __init__(self, imports: Iterable[OperatorSetId], ir_version: int) -> None:
        self.versions = {entry.domain or ONNX: entry.version or 0 for entry in imports}
        if ir_version < FIRST_WITH_OPERATOR_SETS:
            self.versions.setdefault(ONNX, 1)
        self.made: dict[Any, Made] = {}


def type_problems(model: Model) -> list[Problem]:
    """What is wrong with the types and dims of the values of a model, as (code, place, detail)."""
    if model.graph is None:
        return []
    check = _TypeCheck(model)
    check.graph("graph", model.graph, CheckedPart(model.opset_import, check.ir_version), None, 0)
    return check.problems


class _TypeCheck:
    """The check of a model. `types` has what is known of the values of the graph at hand and of those around it."""

    def __init__(self, model: Model) -> None:
        self.problems: list[Problem] = []
        self.ir_version = model.ir_version or 0
        self.types: dict[str, TypeAndDims] = {}
        self._functions: dict[tuple[str, str, str], tuple[int, Function, CheckedPart]] = {}
        for index, each in enumerate(model.functions):
            part = CheckedPart(each.opset_import, self.ir_version)
            self._functions[each.domain or ONNX, each.name or "", each.overload or ""] = index, each, part
        self._calls: dict[tuple[Any, ...], list[TypeAndDims | None]] = {}
        self._forms: dict[int, int] = {}

    def graph(
        self, where: str, graph: Graph, part: CheckedPart, input_types: Sequence[TypeAndDims | None] | None, depth: int
    ) -> list[TypeAndDims | None]:
        """Check a graph, and return what is known of its outputs; `input_types` are the inputs of a graph in a node."""
        before: dict[str, TypeAndDims | None] = {}  # what the names of this graph meant around it
        types = self.types
        is_inner = input_types is not None
        for index, value in enumerate(entries(graph, "input")):
            name, kind = value.name or "", _of_type(value.type)
            if input_types is not None and index < len(input_types):
                kind = self._input(f"{where}.input[{index}]", name, kind, input_types[index])
            self._set(name, kind, before, is_inner)
        inputs = {value.name or "" for value in entries(graph, "input")}
        for index, tensor in enumerate(entries(graph, "initializer")):
            name, kind = tensor.name or "", TypeAndDims(tensor_text(tensor.data_type), tuple(tensor.dims))
            if name in inputs:
                self._default(f"{where}.initializer[{index}]", name, kind, types.get(name))
            else:
                self._set(name, kind, before, is_inner)
        for sparse in entries(graph, "sparse_initializer"):
            if (values := sparse.values) is not None:
                kind = TypeAndDims(tensor_text(values.data_type), tuple(sparse.dims))
                self._set(values.name or "", kind, before, is_inner)
        types.pop("", None)
        declared = {
            value.name or "": kind
            for value in (*entries(graph, "value_info"), *entries(graph, "output"))
            if (kind := _of_type(value.type)) is not None
        }
        self._nodes(where, entries(graph, "node"), part, declared, before if is_inner else None, depth)
        outputs = []
        for index, value in enumerate(entries(graph, "output")):
            kind, told = types.get(value.name or ""), declared.get(value.name or "")
            if kind is not None and told is not None and value.name in inputs and _have_other_types(kind, told):
                detail = f"the graph has {value.name!r:.80} of type {kind.type}, but the output declares {told.type}"
                self.problems.append(("V513", f"{where}.output[{index}]", detail))
            outputs.append(kind or told)
        for name, kind in before.items():
            if kind is None:
                types.pop(name, None)
            else:
                types[name] = kind
        return outputs

    def _set(self, name: str, kind: TypeAndDims | None, before: dict[str, TypeAndDims | None], is_inner: bool) -> None:
        """Say what a name means in a graph."""
        if is_inner and name not in before:
            before[name] = self.types.get(name)
        if kind is not None:
            self.types[name] = kind
        else:
            self.types.pop(name, None)

    def _nodes(
        self,
        where: str,
        nodes: Sequence[Node],
        part: CheckedPart,
        declared: dict[str, TypeAndDims],
        before: dict[str, TypeAndDims | None] | None,
        depth: int,
    ) -> None:
        """Check nodes in their order; `before` is missing for the main graph, whose names nobody needs later."""
        types = self.types
        for index, node in enumerate(nodes):  # there may be very many, and most are like others
            outputs = entries(node, "output")
            inputs = tuple(map(types.get, entries(node, "input")))
            attributes = content(entries(node, "attribute"))
            key = node.domain, node.op_type, attributes, inputs, len(outputs)
            made = part.made.get(key)
            if made is None:
                made = self._made(where, index, node, part, inputs, depth)
                if attributes is not None and not self._called(node):  # a call has an overload
                    part.made[key] = made
            if made.problems:
                place = walk.inner_place(where, "node", index)
                for code, step, detail in made.problems:
                    self.problems.append((code, f"{place}.{step}" if step else place, detail))
            if before is not None:  # a name of an inner graph may hide one around it, whose type comes back later
                for name in outputs:
                    self._set(name, None, before, is_inner=True)
            for name, kind in zip(outputs, made.kinds, strict=False):
                told = declared.get(name)
                if told is not None and told != kind:
                    types[name] = self._result(where, index, node, name, kind, told)
                elif kind is not None:
                    types[name] = kind

    def _result(
        self, where: str, index: int, node: Node, name: str, kind: TypeAndDims | None, told: TypeAndDims
    ) -> TypeAndDims:
        """What is known of a result that is also declared."""
        if kind is None:
            return told
        if _have_other_types(kind, told):
            place = walk.inner_place(where, "node", index)
            detail = (
                f"{node.op_type or '':.80} makes {name!r:.80} of type {kind.type}, but the model declares {told.type}"
            )
            self.problems.append(("V513", place, detail))
            return kind
        if _have_other_dims(kind, told):
            place = walk.inner_place(where, "node", index)
            detail = f"{name!r:.80} has dims {dims_text(kind.dims)}, but the model declares {dims_text(told.dims)}"
            self.problems.append(("V522", place, detail))
            return kind
        dims = told.dims if kind.dims is None or told.dims is None else _merged(kind.dims, told.dims)
        return TypeAndDims(kind.type or told.type, kind.dims if dims is None else dims)

    def _input(
        self, where: str, name: str, declared: TypeAndDims | None, kind: TypeAndDims | None
    ) -> TypeAndDims | None:
        """What is known of an input of a graph in a node."""
        if declared is None or kind is None:
            return declared or kind
        if _have_other_types(declared, kind):
            detail = f"the input {name!r:.80} is declared as {declared.type}, but the node gives it {kind.type}"
            self.problems.append(("V514", where, detail))
        return declared

    def _default(self, where: str, name: str, kind: TypeAndDims, told: TypeAndDims | None) -> None:
        """Check an initialiser that is the default of an input."""
        if told is None:
            return
        if _have_other_types(kind, told):
            detail = f"the initialiser {name!r:.80} is {kind.type}, but the input is {told.type}"
            self.problems.append(("V509", where, detail))
        elif _have_other_dims(kind, told):
            dims = dims_text(kind.dims), dims_text(told.dims)
            self.problems.append(
                ("V509", where, f"the initialiser {name!r:.80} has dims {dims[0]}, but the input {dims[1]}")
            )

    def _made(self, where: str, index: int, node: Node, part: CheckedPart, inputs: Inputs, depth: int) -> Made:
        """What a node makes of its inputs."""
        domain, name = node.domain or ONNX, node.op_type or ""
        count = len(entries(node, "output"))
        nothing: list[TypeAndDims | None] = [None] * count
        if (called := self._called(node)) is not None:
            return Made([*self._call(called, inputs, depth), *nothing][:count], ())
        inner = [(each, each.g) for each in entries(node, "attribute") if each.g is not None]
        version = part.versions.get(domain)
        limit = newest(domain)
        row = None
        if version is not None and limit is not None and version <= limit:
            form = form_of(domain, name, version)
            if form is not None and form.inputs is not None and form.inputs.least <= len(inputs) <= form.inputs.most:
                row = signature_of(domain, name, version)  # else another check has refused the node
        problems = [] if row is None else _type_problems(f"{name} of version {version}", row, inputs)
        if inner:
            return self._with_graphs(walk.inner_place(where, "node", index), node, inner, part, inputs, problems, depth)
        if row is None or version is None or problems:
            return Made(nothing, problems)
        types = types_made(node, _texts(inputs), {}, part.versions)
        dims: Sequence[Dims | None] = ()
        if domain == ONNX:
            dims_given = [None if kind is None else kind.dims for kind in inputs]
            if detail := dims_problem(node, version, dims_given):
                problems = [("V521", "", detail)]
            else:
                dims = dims_of_results(node, version, dims_given)
        kinds = [TypeAndDims(text or "", own_dims) for text, own_dims in zip_longest(types[:count], dims[:count])]
        return Made([*kinds, *nothing][:count], problems)

    def _called(self, node: Node) -> tuple[int, Function, CheckedPart] | None:
        """The function of the model that a node calls."""
        if not self._functions:
            return None
        return self._functions.get((node.domain or ONNX, node.op_type or "", node.overload or ""))

    def _call(self, called: tuple[int, Function, CheckedPart], inputs: Inputs, depth: int) -> list[TypeAndDims | None]:
        """What a call of a function makes; its nodes are checked for the first forms of its inputs."""
        index, function, part = called
        key = (index, *inputs)
        if (outputs := self._calls.get(key)) is not None:
            return outputs
        unknown: list[TypeAndDims | None] = [None] * len(function.output)
        self._calls[key] = unknown  # also if the function calls itself
        self._forms[index] = self._forms.get(index, 0) + 1
        if depth > MAX_DEPTH or self._forms[index] > MAX_FORMS:
            return unknown
        around, self.types = (
            self.types,
            {name: kind for name, kind in zip(function.input, inputs, strict=False) if kind is not None},
        )
        declared = {value.name or "": kind for value in function.value_info if (kind := _of_type(value.type))}
        self._nodes(f"functions[{index}]", function.node, part, declared, None, depth + 1)
        self._calls[key] = outputs = [self.types.get(name) for name in function.output]
        self.types = around
        return outputs

    def _with_graphs(
        self,
        where: str,
        node: Node,
        inner: Sequence[tuple[Attribute, Graph]],
        part: CheckedPart,
        inputs: Inputs,
        problems: list[Problem],
        depth: int,
    ) -> Made:
        """What a node makes that has graphs in its attributes."""
        count = len(entries(node, "output"))
        nothing: list[TypeAndDims | None] = [None] * count
        name = node.op_type if (node.domain or ONNX) == ONNX else ""
        wanted: Sequence[TypeAndDims | None] = ()
        if name == "Loop":
            wanted = [TypeAndDims("tensor(int64)"), TypeAndDims("tensor(bool)"), *map(_without_dims, inputs[2:])]
        elif name == "Scan" and part.versions.get(ONNX, 0) > 8:
            wanted = [*map(_without_dims, inputs)]
        results: dict[str, list[str]] = {}
        for attribute, graph in inner:
            if name in ("If", "Loop", "Scan"):
                version = part.versions.get(ONNX, 0)
                problems += self._number_problems(name, attribute.name or "", graph, len(inputs), count, version)
            if entries(graph, "node") and depth < MAX_DEPTH:  # there may be very many graphs without nodes
                place = walk.inner_place(walk.inner_place(where, "attribute", None, attribute), "g")
                results[attribute.name or ""] = _texts(self.graph(place, graph, part, wanted, depth + 1))
        if name == "If":
            for index, (one, other) in enumerate(
                zip(*islice(results.values(), 2), strict=False) if len(results) > 1 else ()
            ):
                if one and other and one != other:
                    detail = f"output {index} is {one} in one branch and {other} in the other"
                    problems.append(("V514", "", detail))
        elif name == "Loop":
            for index, (kind, text) in enumerate(zip(inputs[2:], results.get("body", [])[1:], strict=False)):
                if kind and kind.type and text and kind.type != text and not _holds(text, kind.type):
                    detail = f"the body makes value {index} of type {text}, but the loop begins with {kind.type}"
                    problems.append(("V514", "", detail))
        if problems:
            return Made(nothing, problems)
        types = types_made(node, _texts(inputs), results, part.versions)[:count]
        return Made([*map(TypeAndDims, types), *nothing][:count], ())

    def _number_problems(
        self, name: str, attribute: str, graph: Graph, inputs: int, outputs: int, version: int
    ) -> list[Problem]:
        """What is wrong with the numbers of inputs and outputs of a graph in If, Loop or Scan."""
        are_inputs = self.ir_version < FIRST_WITH_CONSTANTS
        constants = {tensor.name for tensor in entries(graph, "initializer")} if are_inputs else set()
        has_inputs = sum(value.name not in constants for value in entries(graph, "input"))
        has_outputs = len(entries(graph, "output"))
        wanted = {
            "If": (0, outputs),
            "Loop": (2 + max(inputs - 2, 0), 1 + outputs),
            "Scan": (inputs - (version == 8), outputs),
        }.get(name)
        if wanted is None or wanted == (has_inputs, has_outputs):
            return []
        detail = (
            f"the graph has {has_inputs} inputs and {has_outputs} outputs, but {name} needs {wanted[0]} and {wanted[1]}"
        )
        return [("V409", f'attribute["{attribute}"].g', detail)]


def _of_type(declared: Type | None) -> TypeAndDims | None:
    """What a declared type says."""
    if declared is None:
        return None
    if (tensor := declared.tensor_type) is None:
        return TypeAndDims(operator_type_text(declared))
    dims = None if tensor.shape is None else tuple(map(_dim, tensor.shape.dim))
    return TypeAndDims(tensor_text(tensor.elem_type), dims)


def _without_dims(kind: TypeAndDims | None) -> TypeAndDims | None:
    return TypeAndDims(kind.type) if kind is not None and kind.type else None


def _have_other_types(one: TypeAndDims, other: TypeAndDims) -> bool:
    """Whether the types are known and differ."""
    return bool(one.type and other.type) and one.type != other.type


def _have_other_dims(one: TypeAndDims, other: TypeAndDims) -> bool:
    """Whether the dims are known and cannot be those of one value."""
    if one.dims is None or other.dims is None:
        return False
    return len(one.dims) != len(other.dims) or any(map(differ, one.dims, other.dims))


def _texts(kinds: Sequence[TypeAndDims | None]) -> list[str]:
    """The types, as `value_types.py` has them."""
    return ["" if kind is None else kind.type for kind in kinds]


def _holds(text: str, outer: str) -> bool:
    """Whether a type is what an optional of the other holds: a loop may begin with none."""
    return outer == f"optional({text})"


def _type_problems(operator: str, row: TypeSignature, inputs: Sequence[TypeAndDims | None]) -> list[Problem]:
    """Which inputs have a type that the operator does not take."""
    problems: list[Problem] = []
    bound: dict[str, tuple[int, str]] = {}
    if not row.inputs:
        return problems
    for index, kind in enumerate(inputs):
        if kind is None or not kind.type:
            continue
        formal = row.inputs[min(index, len(row.inputs) - 1)]  # the last one stands for all that are left
        allowed = row.allowed(formal)
        if kind.type not in allowed:
            detail = f"{operator} does not take {kind.type} as input {index}, but {_few(allowed)}"
            problems.append(("V511", "", detail))
        elif formal.is_same:
            other, wanted = bound.setdefault(formal.name, (index, kind.type))
            if wanted != kind.type:
                detail = f"input {other} of {operator} is {wanted}, but input {index} is {kind.type}"
                problems.append(("V512", "", f"{detail}; they must have one type"))
    return problems


def _few(types: Iterable[str]) -> str:
    names = sorted(types)
    return " or ".join(filter(None, (", ".join(names[:FEW]), f"{len(names) - FEW:,} more" if len(names) > FEW else "")))


def _dim(dim: Dimension) -> Dim:
    """What is known of a dim; some exporters write one that is not fixed as 0 or -1."""
    if dim.dim_value is not None:
        return dim.dim_value if dim.dim_value > 0 else None
    return dim.dim_param or None


def _merged(dims: Dims, others: Dims) -> Dims:
    """What both dims say together."""
    return tuple(b if a is None or isinstance(b, int) else a for a, b in zip(dims, others, strict=True))
