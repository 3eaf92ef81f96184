"""How a node is written in the version of its operator next to its own, where the text of the node must change.

Each function takes a node of one version and adds what it becomes to a form. `..._up` makes the newer form of the
older one, `..._down` the older one of the newer. Where there is no other form, it raises NoFormError with the reason.

Spec: ONNX docs, Changelog.md, each version compared with the one before it; Operators.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from formats.editing.versions.node_forms import NoFormError
from formats.ir import dtypes
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from formats.editing.versions.node_forms import LoneNode, NodeForm

    Rewriting: TypeAlias = Callable[[LoneNode, NodeForm], None]

FROM_THE_END: Final = "before version 11, no axis counts from the end"
INDICES: Final = "a negative index counts from the end, which {} does not define before version 11"
SCAN: Final = "before version 9, Scan has an axis for batches, and nothing converts it"


def unchanged(old: LoneNode, new: NodeForm) -> None:
    """The same node: its text means the same in both versions."""
    new.keep()


def refused(reason: str) -> Rewriting:
    """The node has no other form."""

    def refuse(old: LoneNode, new: NodeForm) -> None:
        raise NoFormError(reason)

    return refuse


def dropped(*names: str) -> Rewriting:
    """The node without attributes that say nothing."""
    return lambda old, new: new.keep(drop=names)


def renamed(**names: str) -> Rewriting:
    """The node with other names of attributes."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        values = {new_name: old.value(name) for name, new_name in names.items() if old.attribute(name) is not None}
        new.keep(drop=names, **values)

    return rewrite


def without_ones(name: str) -> Rewriting:
    """The node without a list of ones, which means the same as none."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        new.keep(drop=[name] if all(number == 1 for number in old.value(name, [])) else ())

    return rewrite


def with_default(*drop: str, **attributes: Any) -> Rewriting:
    """The node with these attributes where it leaves them out, because their defaults differ."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        new.keep(drop=drop, **{name: value for name, value in attributes.items() if old.attribute(name) is None})

    return rewrite


def only(name: str, *values: str, since: int) -> Rewriting:
    """The node, unless an attribute has a value that only the newer version has."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        if (value := old.value(name, values[0])) not in values:
            raise NoFormError(f"before version {since}, its {name} cannot be {value!r:.80}")
        new.keep()

    return rewrite


def constant_of(old: LoneNode, index: int, what: str) -> Any:
    """The elements of an input, as a list. Raises: NoFormError if it is no constant."""
    value = old.constant(old.input(index))
    if value is None:
        raise NoFormError(f"its {what} is an attribute in the older version, and here no constant")
    return value.ravel().tolist()


# Attributes that became inputs


def inputs_of(*names: str, drop: Sequence[str] = ()) -> Rewriting:
    """Attributes of integers, or of one number of the type of the data, become inputs behind the data."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        inputs = [old.input(0)]
        for name in names:
            value = old.value(name)
            if value is None:
                inputs.append("")
            elif isinstance(value, float):
                inputs.append(new.constant(value, data_type(old).number, name))
            else:
                is_list = isinstance(value, list)
                of_floats = is_list and any(isinstance(each, float) for each in value)
                kind = dtypes.FLOAT if of_floats else dtypes.INT64
                inputs.append(new.constant([*value] if is_list else [value], kind, name))
        new.keep(inputs=inputs, drop=[*names, *drop])

    return rewrite


def attributes_of(*names: str, single: Sequence[str] = ()) -> Rewriting:
    """Constant inputs behind the data become attributes, those of `single` with one number."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        attributes: dict[str, Any] = {}
        for index, name in enumerate(names, 1):
            if not old.input(index):
                continue
            value = constant_of(old, index, name)
            if name in single and len(value) != 1:
                raise NoFormError(f"its {name} has {len(value)} elements")
            if name in single:
                value = int(value[0]) if name == "k" else float(value[0])
            if value != []:
                attributes[name] = value
        new.keep(inputs=[old.input(0)], **attributes)

    return rewrite


def data_type(old: LoneNode) -> dtypes.DataType:
    """The element type of the data of a node. Raises: NoFormError if it is not known."""
    row = old.elem_type(old.input(0))
    if row is None:
        raise NoFormError("an attribute becomes an input of the type of its data, which is not known")
    return row


slice_up = inputs_of("starts", "ends", "axes")


def slice_down(old: LoneNode, new: NodeForm) -> None:
    """Steps have no older form, unless all are 1."""
    if old.input(4) and any(step != 1 for step in constant_of(old, 4, "steps")):
        raise NoFormError("before version 10, it has no steps")
    values = {
        name: constant_of(old, at, name) for at, name in enumerate(("starts", "ends", "axes"), 1) if old.input(at)
    }
    new.keep(inputs=[old.input(0)], **{name: value for name, value in values.items() if value != []})


# What a reduction over no axes still computes of each element
_OF_EACH: Final = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceSumSquare": "Mul"}


def axes_down(old: LoneNode, new: NodeForm) -> None:
    """The axes of a reduction as an attribute; one over no axes, which older versions lack, by another operator."""
    axes = constant_of(old, 1, "axes") if old.input(1) else []
    if not axes and old.value("noop_with_empty_axes", 0):
        operator = _OF_EACH.get(old.operator, "Identity")
        inputs = [old.input(0)] * (2 if operator == "Mul" else 1)
        new.add(operator, inputs, old.output(0))
        return
    new.keep(inputs=[old.input(0)], drop=["noop_with_empty_axes"], axes=axes or None)


# Axes and indices counted from the end


def from_start(axes: Iterable[int], rank: int) -> list[int]:
    """Axes counted from the start, of which some may count from the end."""
    return [axis + rank if axis < 0 else axis for axis in axes]


def axis_down(old: LoneNode, new: NodeForm) -> None:
    """Axes in attributes, counted from the start."""
    counted: dict[str, Any] = {}
    for name in ("axis", "axes"):
        value = old.value(name)
        axes = value if isinstance(value, list) else [] if value is None else [value]
        if any(axis < 0 for axis in axes):
            rank = old.rank(old.input(0), FROM_THE_END) + (len(axes) if old.operator == "Unsqueeze" else 0)
            axes = from_start(axes, rank)
            counted[name] = axes if isinstance(value, list) else axes[0]
    new.keep(**counted)


def indices_down(old: LoneNode, new: NodeForm) -> None:
    """Negative indices are told, unless all are known."""
    indices = old.constant(old.input(1))
    if indices is None or (indices < 0).any():
        new.tell(INDICES.format(old.operator), RARE)
    axis_down(old, new)


def one_hot_down(old: LoneNode, new: NodeForm) -> None:
    """Negative indices are told; its axis could always count from the end."""
    indices = old.constant(old.input(0))
    if indices is None or (indices < 0).any():
        new.tell(INDICES.format(old.operator), RARE)
    new.keep()


def slice_axes_down(old: LoneNode, new: NodeForm) -> None:
    """The axes of a Slice, counted from the start."""
    inputs = [*old.node.input]
    if old.input(3):
        axes = constant_of(old, 3, "axes")
        if any(axis < 0 for axis in axes):
            rank = old.rank(old.input(0), FROM_THE_END)
            inputs[3] = new.integers(from_start(axes, rank), "axes")
    new.keep(inputs=inputs)


# Broadcasting before version 7: the second input lies in the first at `axis`


def broadcast_up(old: LoneNode, new: NodeForm) -> None:
    """Axes of size one, so that the second input lies where `axis` said."""
    axis, second = old.value("axis"), old.input(1)
    if old.value("broadcast", 0) and axis is not None:
        why = "`axis` says where its second input lies in the first"
        rank, own = old.rank(old.input(0), why), old.rank(second, why)
        missing = rank - own - (axis + rank if axis < 0 else axis)
        if missing > 0:
            second = new.add("Unsqueeze", [second], "aligned", like=second, axes=[*range(own, own + missing)])
    new.keep(inputs=[old.input(0), second], drop=["axis", "broadcast"])


def broadcast_down(old: LoneNode, new: NodeForm) -> None:
    """The second input as a part of the first one's dims, without its axes of size one at both ends."""
    first, second = (old.dims(old.input(index)) for index in (0, 1))
    if first is None or second is None:
        raise NoFormError("before version 7, an input is part of the other one, and their dims are not known")
    if None not in first and first == second:
        new.keep()
        return
    core = [*second]
    while core and core[-1] == 1:
        core.pop()
    trailing = len(second) - len(core)
    leading = next((index for index, dim in enumerate(core) if dim != 1), len(core))
    core = core[leading:]
    start = len(first) - trailing - len(core)
    if len(second) > len(first) or (core and (start < 0 or None in core or first[start : start + len(core)] != core)):
        raise NoFormError("before version 7, its second input must be a part of the first one's dims")
    name = old.input(1)
    if leading or trailing:
        axes = [*range(leading), *range(len(second) - trailing, len(second))]
        name = new.add("Squeeze", [name], "part", like=name, axes=axes)
    new.keep(inputs=[old.input(0), name], broadcast=1, axis=start if core else None)


def equal_dims_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 8, all inputs have the same dims."""
    dims = [old.dims(name) for name in old.node.input]
    if any(each is None or None in each or each != dims[0] for each in dims):
        raise NoFormError("before version 8, all of its inputs must have the same dims")
    new.keep()


def prelu_up(old: LoneNode, new: NodeForm) -> None:
    """A slope for each channel gets axes of size one behind it."""
    slope = old.input(1)
    dims = old.dims(slope)
    if dims is None:
        raise NoFormError("the dims of its slope are not known")
    missing = old.rank(old.input(0), "its slope belongs to the channels") - 2
    if len(dims) == 1 and dims[0] != 1 and missing > 0:
        slope = new.add("Unsqueeze", [slope], "aligned", like=slope, axes=[*range(1, missing + 1)])
    new.keep(inputs=[old.input(0), slope])


def prelu_down(old: LoneNode, new: NodeForm) -> None:
    """A slope for each channel, without the axes behind it."""
    data, slope = old.dims(old.input(0)), old.dims(old.input(1))
    if data is None or slope is None or None in slope:
        raise NoFormError("before version 7, its slope has one axis, and the dims here are not known")
    at = len(slope) - len(data) + 1  # of the channels, the second axis of the data
    others = [dim for index, dim in enumerate(slope) if index != at]
    if any(dim != 1 for dim in others):
        raise NoFormError("before version 7, its slope is one number, or one for each channel")
    name = old.input(1)
    if others:
        axes = [index for index in range(len(slope)) if index != (at if 0 <= at < len(slope) else 0)]
        name = new.add("Squeeze", [name], "slope", like=name, axes=axes)
    new.keep(inputs=[old.input(0), name])


def gemm_down(old: LoneNode, new: NodeForm) -> None:
    """The last input is a part of the result."""
    dims = old.dims(old.input(2))
    result = old.dims(old.output(0))
    is_whole = dims is not None and result is not None and None not in dims and dims == result
    is_row = dims is not None and len(dims) < 2
    if not is_whole and not is_row:
        raise NoFormError("before version 7, its last input has the dims of the result, or is one row of it")
    new.keep(broadcast=None if is_whole else 1)


def gemm_inputs_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 11, Gemm has all inputs: it adds zero."""
    inputs = [*old.node.input]
    if not old.input(2):
        inputs = [*inputs[:2], new.constant([0], data_type(old).number, "zero")]
    new.keep(inputs=inputs)
