"""Patterns of nodes: where a model has them, and other nodes in their place.

A pattern is a function that computes what the nodes do. Its first argument has the operators as methods, and the others
stand for any values, or for any values of attributes: `lambda op, x: op.Mul(x, op.Sigmoid(x))`.

Spec: onnx.proto, NodeProto; ONNX operators.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from formats.editing.inference import infer_following
from formats.editing.nodes import constant_node, make_node, value_of
from formats.editing.pruning import needed_for_training, prune_in
from formats.editing.renaming import apply
from formats.editing.scopes import (
    fresh,
    main_graph,
    names_taken,
    scope_of,
    subgraphs_of,
)
from formats.editing.surgery import bypass_in, in_order
from formats.editing.values import Value, Values
from formats.errors import EditError
from formats.ir import FIRST_WITH_CONSTANTS, ONNX, domain_key, dtypes
from formats.ir.copies import copied
from formats.ir.functions import functions_of, key_of
from formats.ir.model import Function, Graph, Node, OperatorSetId, entries
from formats.ir.storage import from_numpy
from formats.onnxpb.operator_sets import form_of, newest, versions_of
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from formats.ir.model import Model, Tensor

COMMUTATIVE: Final = frozenset(  # operators of which two inputs can change places
    ("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Mean", "Min", "Mul", "Or", "Sum", "Xor")
)
TOLERANCE: Final = 1e-5  # of floats in a pattern, relative
NUMBERS, EXACT = "biuf", "biucOSU"  # kinds of numpy: numbers that can be floats, and elements that must be the same
BYTE = 8  # bits


class Match(NamedTuple):
    """A place in a model that has a pattern: its nodes, in the order of the pattern, and what its arguments stand for.

    A value is a `Value`, or `None` if it is left out; an attribute is a number, a text, a list, a tensor or a graph.
    """

    nodes: tuple[Node, ...]
    values: Mapping[str, Any]


class _Variable(NamedTuple):
    """An argument of a pattern; one that `can_lack` may also stand for nothing."""

    name: str
    can_lack: bool


class _WantedNode(NamedTuple):
    """A node of a pattern."""

    number: int
    op_type: str
    domain: str
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]


class _WantedOutput(NamedTuple):
    """An output of a node of a pattern: the first one is number 0."""

    node: _WantedNode
    number: int


class _Operators:
    """Operators as methods: each adds a node."""

    def __init__(self, add: Callable[..., Any], nodes: tuple[Node, ...] = ()) -> None:
        self._add, self.nodes = add, nodes

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        return partial(self._add, op_type)


class _Pattern:
    """The nodes that a function computes with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._nodes: list[_WantedNode] = []
        _, *parameters = signature(function).parameters.values()
        variables = {each.name: _Variable(each.name, each.default is None) for each in parameters}
        made = function(_Operators(self._add), **variables)
        outputs = _listed(made)
        if not self._nodes or any(getattr(output, "node", None) is not self._nodes[-1] for output in outputs):
            raise EditError("a pattern must return what its last node makes")
        parts = [each for node in self._nodes for each in (*node.inputs, *node.attributes.values())]
        self.variables = {each.name for each in parts if isinstance(each, _Variable)}
        used = {each.node.number for each in parts if isinstance(each, _WantedOutput)}
        if len(used) < len(self._nodes) - 1:
            raise EditError("a pattern must use what each of its nodes makes")
        self.outputs: list[int] = [output.number for output in outputs]

    def _add(
        self, op_type: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> _WantedOutput | list[_WantedOutput]:
        self._nodes.append(_WantedNode(len(self._nodes), op_type, domain_key(domain), inputs, attributes))
        made = [_WantedOutput(self._nodes[-1], index) for index in range(outputs)]
        return made[0] if outputs == 1 else made

    def match(self, root: Node, values: Values) -> Match | None:
        """Where the pattern ends in a node, if the values in between are used by nothing else."""
        for found in _node_matches(self._nodes[-1], root, {}, values):
            nodes = tuple(found[number] for number in range(len(self._nodes)))
            inside = {id(node) for node in nodes}
            inner = [name for node in nodes[:-1] for name in node.output]
            inner += [name for index, name in enumerate(root.output) if index not in self.outputs]
            if all(name not in values.outputs and values.users.get(name, {}).keys() <= inside for name in inner):
                return Match(nodes, {name: value for name, value in found.items() if isinstance(name, str)})
        return None


def _node_matches(wanted: _WantedNode, node: Node, found: dict[Any, Any], values: Values) -> Iterator[dict[Any, Any]]:
    """The ways in which a node is that of the pattern: its nodes by number, and its arguments by name."""
    if wanted.number in found:
        if found[wanted.number] is node:
            yield found
        return
    if node.op_type != wanted.op_type or domain_key(node.domain) != wanted.domain:
        return
    if any(other is node for other in found.values()):  # each node of a pattern is another node of the model
        return
    found = {**found, wanted.number: node}
    attributes = {each.name: each for each in entries(node, "attribute")}
    for name, want in wanted.attributes.items():
        attribute = attributes.get(name)
        if attribute is not None and attribute.ref_attr_name:  # its value is not known
            return
        value = None if attribute is None else value_of(attribute)
        if isinstance(want, _Variable):
            if not _is_equal(found.setdefault(want.name, value), value):
                return
        elif not _is_equal(want, value):
            return
    names = [*node.input]
    while len(names) > len(wanted.inputs) and not names[-1]:
        names.pop()
    if len(names) > len(wanted.inputs):
        return
    names += [""] * (len(wanted.inputs) - len(names))
    orders = [names]
    if wanted.op_type in COMMUTATIVE and not wanted.domain and len(names) == 2 and names[0] != names[1]:
        orders.append(names[::-1])
    for order in orders:
        ways = [found]
        for want, name in zip(wanted.inputs, order, strict=True):
            ways = [new for way in ways for new in _value_matches(want, name, way, values)]
        yield from ways


def _value_matches(want: Any, name: str, found: dict[Any, Any], values: Values) -> Iterator[dict[Any, Any]]:
    """The ways in which a value is what the pattern wants."""
    name = values.same.get(name, name)
    if isinstance(want, _Variable):
        if want.name not in found and (name or want.can_lack):
            yield {**found, want.name: Value(name, values) if name else None}
        elif want.name in found and (found[want.name].name if found[want.name] else "") == name:
            yield found
    elif isinstance(want, _WantedOutput):
        maker = values.makers.get(name)
        if maker is not None and maker.output.index(name) == want.number:
            yield from _node_matches(want.node, maker, found, values)
    elif want is None or isinstance(want, str):
        if name == (want or ""):
            yield found
    elif _is_constant(want, name, values):
        yield found


def _is_constant(want: Any, name: str, values: Values) -> bool:
    """Whether a value is a constant with these elements; a number is also a list of it alone."""
    tensor, array = values.constants.get(name), np.asarray(want)
    if tensor is None or tensor.data_type == dtypes.STRING:
        return False
    if tensor.dims != [*array.shape] and not (array.ndim == 0 and tensor.dims == [1]):
        return False
    elements, row = tensor.numpy().reshape(array.shape), dtypes.BY_NUMBER[tensor.data_type or 0]
    if row.kind in "iu" and row.bits < BYTE:  # a type that numpy lacks
        elements = elements.astype("int8")
    return _is_equal(array, elements)


def _is_equal(want: Any, value: Any) -> bool:
    """Whether two numbers, texts, lists or arrays are equal, floats nearly so."""
    if want is None or value is None or isinstance(want, str):
        return want is value or want == value
    mine, theirs = np.asarray(want), np.asarray(value)
    if mine.shape != theirs.shape:
        return False
    if mine.dtype.kind == "U" and theirs.dtype.kind == "S":  # as ONNX has lists of texts
        mine = np.char.encode(mine, "utf-8")
    if mine.dtype.kind not in NUMBERS or theirs.dtype.kind in EXACT:
        return bool(mine.tolist() == theirs.tolist())
    with np.errstate(all="ignore"):  # a number may be too large for the type
        rounded = mine.astype(theirs.dtype).astype("float64")
    return np.allclose(theirs.astype("float64"), rounded, TOLERANCE, 0, True)


def matches_of(model: Model, pattern: Callable[..., Any]) -> list[Match]:
    """The places in the graphs and functions of a model that have a pattern."""
    wanted = _Pattern(pattern)
    matches: list[Match] = []
    roots: list[Graph | Function] = [main_graph(model), *model.functions]
    waiting: deque[tuple[Graph | Function, Values | None]] = deque((root, None) for root in roots)
    while waiting:
        message, outer = waiting.popleft()
        values = Values(model, message, outer)
        matches += filter(None, (wanted.match(node, values) for node in message.node))
        waiting += [(graph, values) for node in message.node for _, graph in subgraphs_of(node)]
    return matches


def rewrite_in(model: Model, pattern: Callable[..., Any], replacement: Callable[..., Any], before: Model) -> None:
    """Put other nodes in the place of those of a pattern; what nothing needs any more goes.

    `before` is the model without this edit.

    Raises: EditError if the pattern or the replacement is none; if the model's operator sets lack an operator; if the
    nodes do not fit each other.
    """
    rewriting = _Rewriting(model, _Pattern(pattern), replacement)
    changed = rewriting.rewrite(main_graph(model), model.opset_import)
    in_functions = {name for each in model.functions for name in rewriting.rewrite(each, each.opset_import)}
    if in_functions:
        changed.update(name for node in main_graph(model).node for name in node.output)
    if changed:
        bypass_in(model, lambda node: id(node) in rewriting.identities)
        in_order(model, own=True, must=True)
        prune_in(model)
        infer_following(model, before, changed, "the nodes in place of the pattern")


class _Rewriting:
    """A pattern in a model, and what takes its place."""

    def __init__(self, model: Model, pattern: _Pattern, replacement: Callable[..., Any]) -> None:
        self.model, self.pattern, self._replacement = model, pattern, replacement
        self._arguments = [*signature(replacement).parameters][1:]
        if unknown := {*self._arguments} - pattern.variables:
            raise EditError(f"the replacement takes {min(unknown)}, which the pattern does not have")
        self.taken = names_taken(model)
        self.numbers: dict[str, int] = {}  # the last ones of new names
        self._functions = functions_of(model.functions)
        self.identities: dict[int, Node] = {}  # which only say that two names mean one value

    def rewrite(self, message: Graph | Function, imports: list[OperatorSetId], outer: Values | None = None) -> set[str]:
        """Rewrite a graph or function and the graphs in it; return the values in it that may have other types now."""
        values = Values(self.model, message, outer)
        if message is self.model.graph:
            values.outputs |= needed_for_training(self.model)
        changed: set[str] = set()
        gone: dict[int, Node] = {}
        nodes: list[Node] = []
        for node in message.node:
            match = self.pattern.match(node, values)
            new = None if match is None else self._replaced(match, message, values)
            if match is None or new is None:
                nodes.append(node)
                continue
            for made in new:
                self._check(made, imports)
            nodes += new
            gone.update((id(old), old) for old in match.nodes)
            changed.update(node.output)
        message.node = [node for node in nodes if id(node) not in gone]
        for node in message.node:
            for _, graph in subgraphs_of(node):
                if self.rewrite(graph, imports, values):
                    changed.update(node.output)
        return changed

    def _replaced(self, match: Match, message: Graph | Function, values: Values) -> list[Node] | None:
        """The nodes in place of a match, or `None` if it stays."""
        new = _NewNodes(self, message, values)
        arguments = {name: match.values[name] for name in self._arguments}
        made = self._replacement(_Operators(new.add, match.nodes), **arguments)
        if made is None:
            return None
        results = [new.name_of(each) for each in _listed(made)]
        if len(results) != len(self.pattern.outputs):
            count = counted(len(self.pattern.outputs), "output")
            raise EditError(f"the pattern has {count}, but the replacement {len(results)}")
        for node in match.nodes:
            values.remove(node)
        root = match.nodes[-1]
        own = {name for node in new.nodes for name in node.output}
        names: dict[str, str] = {}  # the new names of new values: those of what they replace
        identities: list[Node] = []
        for number, result in zip(self.pattern.outputs, results, strict=True):
            old = root.output[number] if number < len(root.output) else ""
            if old and result in own and result not in names:
                names[result] = old
            elif old and result != old:
                identities.append(make_node("Identity", [names.get(result, result)], [old]))
        apply(scope_of(made_graph := Graph(node=new.nodes), ""), {id(made_graph): names}, {})
        for node in new.nodes:
            values.add(node)
        for identity in identities:
            values.take(identity.output[0], identity.input[0])
            self.identities[id(identity)] = identity
        if isinstance(message, Graph):
            message.initializer += new.tensors
        return [*new.nodes, *identities]

    def _check(self, node: Node, imports: list[OperatorSetId]) -> None:
        """Import the operator set of a node if the model does not.

        Raises: EditError if the set is one of ONNX's, and lacks the operator.
        """
        domain, operator = domain_key(node.domain), node.op_type or ""
        version = next((entry.version or 0 for entry in imports if domain_key(entry.domain) == domain), None)
        if version is None:
            version = 1
            imports.append(OperatorSetId(node.domain, version))
        if key_of(domain, operator, "") in self._functions or newest(domain or ONNX) is None:
            return
        form = form_of(domain or ONNX, operator, version)
        if form is None or form.inputs is None:
            first = min(versions_of(domain or ONNX, operator), default=version)
            since = f"; it came with {first}: convert the model with `opset`" if first > version else ""
            raise EditError(f"version {version} of the operator set {domain or ONNX} has no {operator}{since}")


class _NewNodes:
    """The nodes and constants that a replacement makes in a graph or function."""

    def __init__(self, rewriting: _Rewriting, message: Graph | Function, values: Values) -> None:
        self._rewriting, self._values = rewriting, values
        is_old = (rewriting.model.ir_version or 0) < FIRST_WITH_CONSTANTS
        self._needs_nodes = is_old or isinstance(message, Function)
        self.nodes: list[Node] = []
        self.tensors: list[Tensor] = []

    def add(
        self,
        op_type: str,
        *inputs: Any,
        outputs: int = 1,
        domain: str | None = None,
        like: Node | None = None,
        **attributes: Any,
    ) -> Value | list[Value]:
        """Add a node, with the attributes of the node that it is `like`, except for those that are given."""
        names = [self.name_of(value) for value in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self._new(op_type) for _ in range(outputs)]
        node = make_node(op_type, names, made, domain=domain, **attributes)
        if like is not None:
            node.name = like.name
            node.attribute += [copied(each) for each in entries(like, "attribute") if each.name not in attributes]
        self.nodes.append(node)
        results = [Value(name, self._values) for name in made]
        return results[0] if outputs == 1 else results

    def name_of(self, value: Any) -> str:
        """The name of a value; numbers and arrays become constants, and `None` is a value that is left out."""
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, Value):
            return value.name
        array = np.asarray(value)
        if not isinstance(value, (np.ndarray, np.generic)) and array.dtype.kind == "f":
            array = array.astype("float32")  # as the floats of a Constant
        tensor = from_numpy(array, self._new("constant"))
        if self._needs_nodes:
            self.nodes.append(constant_node(tensor))
        else:
            self.tensors.append(tensor)
            self._values.constants[tensor.name or ""] = tensor
        return tensor.name or ""

    def _new(self, name: str) -> str:
        return fresh(name, self._rewriting.taken, self._rewriting.numbers)


def _listed(made: Any) -> list[Any]:
    """One result, or several of them, as a list."""
    return [*made] if type(made) in (list, tuple) else [made]
