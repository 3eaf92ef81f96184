"""Two models as one: outputs of the first become inputs of the second.

First both get the same version of each operator set, because a model imports a set in one version. Then names of dims,
values, nodes and functions that meet are told apart, and the graphs are put together.

Spec: onnx.proto, ModelProto; ONNX IR, "Names Within a Graph"; ONNX, "Versioning.md".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.dims import set_symbols, symbols_of
from formats.editing.extraction import all_nodes
from formats.editing.options import Edit, EditResult
from formats.editing.renaming import Renamer
from formats.editing.scopes import fresh, main_graph, pair_of, scope_of, shape_of
from formats.editing.versions.operator_sets import version_of, with_opset
from formats.errors import EditError, UnsupportedError
from formats.ir import ONNX, domain_key, dtypes
from formats.ir.copies import copied
from formats.ir.functions import functions_of, key_of
from formats.ir.model import EXTERNAL, StringStringEntry, entries
from formats.tensordata.plan import USE, Loss
from formats.tensordata.sources.source import FileSpan
from formats.words import counted, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats.editing.scopes import NameScope
    from formats.ir.model import Graph, Model, Tensor, ValueInfo


def with_same_sets(first: Model, second: Model) -> tuple[Model, Model, EditResult]:
    """Both models with the same version of each operator set that both import, and what was converted.

    The newer version of ONNX's own operators counts, or the older one if a node cannot be converted to the newer. Of
    ONNX's other sets, the older version counts.

    Raises: UnsupportedError if a node cannot be converted; EditError for two versions of a set of somebody else;
    MissingPackageError if onnx is needed, but not installed.
    """
    result = EditResult()
    versions_now = version_of(first.opset_import), version_of(second.opset_import)
    if None not in versions_now and versions_now[0] != versions_now[1]:
        older, newer = sorted(version or 0 for version in versions_now)
        try:
            first, second, result = _in_set(first, second, newer)
        except UnsupportedError as error:
            try:
                first, second, result = _in_set(first, second, older)
            except UnsupportedError:
                raise error from None
    for domain, versions in sorted(_versions_in_both(first, second).items()):
        if domain.startswith(f"{ONNX}."):
            first, second, done = _in_set(first, second, min(versions), domain)
            result += done
        elif not (_has_all(first, domain) and _has_all(second, domain)):
            reason = "and nobody knows what changed between them"
            raise EditError(f"the models import {domain} {versions[0]} and {versions[1]}, {reason}")
    return first, second, result


def _in_set(first: Model, second: Model, version: int, domain: str = "") -> tuple[Model, Model, EditResult]:
    """Both models with this version of a set of ONNX, its own operators or another one, and what was converted."""
    first, of_first = with_opset(first, version, domain)
    second, of_second = with_opset(second, version, domain)
    return first, second, of_first + of_second


def join_imports(first: Model, second: Model) -> None:
    """Import in the first model what the second one imports; versions that still differ mean nothing."""
    imports = {domain_key(entry.domain): entry for entry in first.opset_import}
    for entry in second.opset_import:
        if domain_key(entry.domain) in imports:
            mine = imports[domain_key(entry.domain)]
            mine.version = max(mine.version or 0, entry.version or 0)
        else:
            first.opset_import.append(copied(entry))


def _versions_in_both(first: Model, second: Model) -> dict[str, tuple[int, int]]:
    """The versions of the sets that both import, but not in the same one, without ONNX's own."""
    mine = {domain_key(entry.domain): entry.version or 0 for entry in first.opset_import}
    theirs = {domain_key(entry.domain): entry.version or 0 for entry in second.opset_import}
    both = (domain for domain in mine.keys() & theirs.keys() if domain)
    return {domain: (mine[domain], theirs[domain]) for domain in both if mine[domain] != theirs[domain]}


def _has_all(model: Model, domain: str) -> bool:
    """Whether the model itself defines all operators of a set that it uses."""
    own = {(function.domain or "", function.name) for function in model.functions}
    nodes = all_nodes([main_graph(model), *model.functions])
    return all((domain, node.op_type) in own for node in nodes if node.domain == domain)


class _Link(NamedTuple):
    """A value of the first model that becomes an input of the second."""

    output: ValueInfo
    input: ValueInfo

    @property
    def name(self) -> str:
        """What an error says of it."""
        return f"{self.output.name}={self.input.name}"


def merge_in(first: Model, second: Model, connect: Sequence[tuple[str, str]], prefix: str = "") -> EditResult:
    """Add the second model to the first one; both belong to the caller, and the second must not be used any more.

    `connect` has pairs of an output (or an input) of the first model and an input of the second. All names of the
    second begin with `prefix`; then those that meet names of the first get a number.

    Raises: EditError for an unknown name, or for values that do not fit each other.
    """
    links = _links(first, second, connect)
    # Said first, in the words of the caller: what follows renames values of the second model.
    edits = [Edit("merge", f"{link.output.name} is the input {link.input.name} of the second model") for link in links]
    join_imports(first, second)
    result = _join_dims(first, second, links)
    shared = _shared_weights(main_graph(first), main_graph(second))
    result += _name_apart(
        first, second, {link.input.name or "": link.output.name or "" for link in links} | shared, prefix
    )
    _join_functions(first, second)
    _join_graphs(main_graph(first), main_graph(second), links, shared)
    result += EditResult(losses=tuple(_join_facts(first, second)))
    if not links:
        edits = [Edit("merge", "nothing is connected: the models stand side by side")]
    if shared:
        edits.append(Edit("merge", f"{counted(len(shared), 'weight')} of both stored once"))
    return EditResult(tuple(edits)) + result


def _links(first: Model, second: Model, connect: Sequence[tuple[str, str]]) -> list[_Link]:
    """The values that are connected, checked."""
    links: dict[str, _Link] = {}  # by the name of the input
    ends = {value.name or "": value for value in (*main_graph(first).input, *main_graph(first).output)}
    starts = {value.name or "": value for value in main_graph(second).input}
    for given in connect:
        output, name = pair_of(*given, ends, starts)
        if output not in ends:
            outputs = [value.name or "" for value in main_graph(first).output]
            raise EditError(f"the first model has no output {output!r}{nearest(output, outputs, kind='output')}")
        if name not in starts:
            raise EditError(f"the second model has no input {name!r}{nearest(name, starts, kind='input')}")
        if name in links:
            raise EditError(f"the input {name} is connected twice")
        links[name] = _Link(ends[output], starts[name])
    for link in links.values():
        _check_types(link)
    return [*links.values()]


def _check_types(link: _Link) -> None:
    """Raises EditError if the types or the ranks of connected values differ."""
    output, taken = link.output.type, link.input.type
    if output is None or taken is None:
        return
    tensors = [kind.tensor_type for kind in (output, taken) if kind.tensor_type is not None]
    if len(tensors) < 2:
        if tensors or _field(output) != _field(taken):
            raise EditError(f"{link.name}: one is a tensor, and the other is not, or of another kind")
        return
    types = [tensor.elem_type for tensor in tensors]
    if all(types) and types[0] != types[1]:
        raise EditError(
            f"{link.name}: the output is {dtypes.type_name(types[0])}, the input {dtypes.type_name(types[1])}"
        )
    shapes = [shape_of(value) for value in link]
    if shapes[0] is not None and shapes[1] is not None and len(shapes[0].dim) != len(shapes[1].dim):
        ranks = [len(shape.dim) for shape in shapes if shape is not None]
        raise EditError(f"{link.name}: the output has {counted(ranks[0], 'dim')}, the input {ranks[1]}")


def _field(kind: Any) -> str | None:
    return next((name for name in type(kind).oneof if getattr(kind, name) is not None), None)


def _join_dims(first: Model, second: Model, links: Sequence[_Link]) -> EditResult:
    """Dims of connected values are the same; other names of dims that meet are told apart.

    Raises: EditError if two sizes differ.
    """
    # New sizes and names of dims, by their names in the first and in the second model: {"batch": 1, "length": "n"}.
    mine: dict[str, int | str] = {}
    theirs: dict[str, int | str] = {}
    for link in links:
        for axis, (one, other) in enumerate(_pairs(link)):
            size, wanted = one.dim_value, other.dim_value
            if size is not None and wanted is not None and size != wanted:
                raise EditError(f"{link.name}: axis {axis} of the output is {size}, and of the input {wanted}")
            if one.dim_param and wanted is not None:
                if mine.setdefault(one.dim_param, wanted) != wanted:
                    raise EditError(f"{link.name}: {one.dim_param} would be {mine[one.dim_param]} and {wanted}")
            elif other.dim_param and (size is not None or one.dim_param):
                new: Any = one.dim_param if size is None else size
                set_before = theirs.setdefault(other.dim_param, new)
                if isinstance(set_before, int) and isinstance(new, int) and set_before != new:
                    raise EditError(f"{link.name}: {other.dim_param} would be {set_before} and {new}")
    theirs = {name: mine.get(size, size) if isinstance(size, str) else size for name, size in theirs.items()}
    of_first, of_second = symbols_of(first), symbols_of(second)
    taken = {*of_first, *of_second}
    for name in of_second:
        if name in of_first and name not in theirs:
            theirs[name] = fresh(name, taken)
    result = set_symbols(first, mine, of_first) if mine else EditResult()
    if theirs:
        set_symbols(second, theirs, of_second)
    return result


def _pairs(link: _Link) -> Iterable[Any]:
    shapes = [shape_of(value) for value in link]
    return [] if shapes[0] is None or shapes[1] is None else zip(shapes[0].dim, shapes[1].dim, strict=True)


def _shared_weights(first: Graph, second: Graph) -> dict[str, str]:
    """The weights of the second graph that are weights of the first: the same bytes of a file, with one type."""
    fixed = {value.name for graph in (first, second) for value in (*graph.input, *graph.output)}
    places: dict[tuple[Any, ...], Tensor] = {}
    for tensor in first.initializer:
        if tensor.name not in fixed and (place := _place(tensor)) is not None:
            places.setdefault(place, tensor)
    shared = {}
    for tensor in second.initializer:
        same = places.get(_place(tensor) or ())
        if same is not None and tensor.name not in fixed:
            shared[tensor.name or ""] = same.name or ""
    return shared


def _place(tensor: Tensor) -> tuple[Any, ...] | None:
    """Where the bytes of a tensor are, if they are a range of a file, and what they mean."""
    source = tensor.external_source if tensor.data_location == EXTERNAL else tensor.raw_data
    if not isinstance(source, FileSpan) or not source.nbytes:
        return None
    path = os.path.realpath(source.file.path) if source.file.is_local else source.file
    return path, source.file.nbytes, source.file_offset, source.nbytes, tensor.data_type, *tensor.dims


def _name_apart(first: Model, second: Model, given_names: Mapping[str, str], prefix: str) -> EditResult:
    """Give the values and nodes of the second model names that the first one does not have.

    `given_names` are the new names of its connected inputs and shared weights, which are values of the first model.
    """
    outer, inner = scope_of(main_graph(first), "graph"), scope_of(main_graph(second), "graph")
    own = {name: None for scope in inner.all_inner() for name in sorted(scope.defined)}
    taken = {name for scope in outer.all_inner() for name in scope.defined | scope.used}
    names = dict(given_names)
    busy = taken | own.keys()
    numbers: dict[str, int] = {}
    for name in own:
        if name not in given_names:
            new = prefix + name
            if new in taken or (prefix and new in own):
                new = fresh(new, busy, numbers)
            taken.add(new)
            busy.add(new)
            names[name] = new
    changed = {old: new for old, new in names.items() if old != new}
    for scope in inner.all_inner():
        Renamer(changed.get, {}).rename(scope.message)
    _name_nodes_apart(outer, inner, prefix)
    edits = []
    for kind, values in (("input", main_graph(second).input), ("output", main_graph(second).output)):
        before = {new: old for old, new in changed.items() if old not in given_names and new != prefix + old}
        edits += [
            Edit("rename", f"the {kind} {before[value.name or '']} of the second model is now {value.name}")
            for value in values
            if value.name in before
        ]
    return EditResult(tuple(edits))


def _name_nodes_apart(outer: NameScope, inner: NameScope, prefix: str) -> None:
    taken = {node.name for scope in outer.all_inner() for node in scope.message.node if node.name}
    numbers: dict[str, int] = {}
    for scope in inner.all_inner():
        for node in scope.message.node:
            if node.name:
                node.name = prefix + node.name
                if node.name in taken:
                    node.name = fresh(node.name, taken, numbers)


def _join_functions(first: Model, second: Model) -> None:
    """Add the functions of the second model; one that differs from one of the first with its name gets a number."""
    of_first = functions_of(first.functions)
    taken = {function.name or "" for function in (*first.functions, *second.functions)}
    new_names: dict[Any, str] = {}
    for key, function in functions_of(second.functions).items():
        if key not in of_first or of_first[key] != function:
            first.functions.append(function)
            if key in of_first:
                new_names[key] = fresh(function.name or "", taken)
    for node in all_nodes([main_graph(second), *second.functions]):
        node.op_type = new_names.get(key_of(node.domain, node.op_type, node.overload), node.op_type)
    for key, function in functions_of(second.functions).items():
        function.name = new_names.get(key, function.name)


def _join_graphs(graph: Graph, other: Graph, links: Sequence[_Link], shared: Mapping[str, str]) -> None:
    """Add the nodes and values of the second graph, whose names are apart, to the first one."""
    linked = {link.output.name for link in links}
    starts = {id(link.input) for link in links}
    outputs = {value.name: value for value in graph.output if value.name not in linked}
    for value in other.output:
        outputs.setdefault(value.name, value)
    ends = [link.output for link in links]
    inputs = [*graph.input, *(value for value in other.input if id(value) not in starts)]
    named = {*outputs, *(value.name for value in inputs)}
    described = {
        value.name: value
        for value in reversed([*entries(graph, "value_info"), *ends, *entries(other, "value_info")])
        if value.name not in named
    }
    there = {*shared.values(), *linked}
    graph.input, graph.output, graph.value_info = inputs, [*outputs.values()], [*reversed(described.values())]
    graph.node = [*graph.node, *other.node]
    graph.initializer = [*graph.initializer, *(tensor for tensor in other.initializer if tensor.name not in there)]
    for field in ("sparse_initializer", "quantization_annotation"):
        setattr(graph, field, [*entries(graph, field), *entries(other, field)])
    graph.name = "_".join(dict.fromkeys(filter(None, (graph.name, other.name))))


def _join_facts(first: Model, second: Model) -> Iterable[Loss]:
    """Join what the models say of themselves; the first counts where they differ; the losses name what is left out."""
    first.ir_version = max(first.ir_version or 0, second.ir_version or 0)
    facts = {entry.key: entry.value for entry in first.metadata_props}
    for entry in second.metadata_props:
        if entry.key not in facts:
            first.metadata_props.append(StringStringEntry(entry.key, entry.value))
        elif facts[entry.key] != entry.value:
            yield Loss("metadata", "metadata_props", f"{entry.key} of the second model is left out", USE)
    for model, which in ((first, "first"), (second, "second")):
        if entries(model, "training_info"):
            yield Loss(
                "training_info", "training_info", f"the information for training the {which} model is left out", USE
            )
    first.training_info = []
    devices = {configuration.name: configuration for configuration in first.configuration}
    for configuration in second.configuration:
        if configuration.name not in devices:
            first.configuration.append(configuration)
        elif devices[configuration.name] != configuration:
            detail = f"the devices {configuration.name} of the second model are left out"
            yield Loss("configuration", "configuration", detail, USE)
