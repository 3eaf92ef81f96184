"""Writes a model in the versions and the type that a caller chose, or that a release of onnxruntime reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from formats.codecs.lookup import ONNXRUNTIME
from formats.codecs.onnxruntime_releases import (
    NEWEST,
    RELEASES,
    SMALL_CONSTANTS,
    WITH_ALLOWZERO,
    first_reading,
    has_no_kernel,
    lacks,
    limits_of,
    newest_with_kernels,
    operators_of,
)
from formats.editing.options import Edit, EditResult
from formats.editing.surgery import in_order
from formats.editing.versions.ir_versions import with_ir_version
from formats.editing.versions.operator_rewritings import EMPTY
from formats.editing.versions.operator_sets import version_of, with_opset
from formats.errors import UnsupportedError
from formats.ir import MACHINE_LEARNING, STANDARD_DOMAINS, walk
from formats.ir.attributes import attribute_named
from formats.ir.copies import copied
from formats.onnxpb.value_types import type_uses
from formats.onnxruntime.layouts import UnknownBlockError, Usual, in_usual_layout
from formats.tensordata.plan import INTERFACE, RESULTS, SPECIAL, USE, Loss
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.codecs.onnxruntime_releases import Operators
    from formats.ir.model import Model
    from formats.verbs.choices import RuntimeOptions


def in_versions(model: Model, options: RuntimeOptions) -> tuple[Model, EditResult]:
    """The model in the chosen versions and type, and what was done.

    A release of onnxruntime lowers only what it cannot read. What another one wrote in a layout for its own machine
    comes back into the usual layout.

    Raises: UnsupportedError that names what stands in the way; MissingPackageError if onnx is needed and missing.
    """
    opsets, ir_version, named = dict(options.opset or {}), options.ir_version, options.named
    release = named.release or NEWEST if named is not None and named.name == ONNXRUNTIME else None
    result = EditResult()
    if release is not None:
        row = RELEASES[release]
        if named is not None and named.release is None:
            words = f"`runtime=onnxruntime` without a release means {NEWEST}, the newest that is known here"
            result += EditResult(losses=(Loss("runtime", "", words, USE),))
        model, losses = _in_usual_layout(model)
        result += EditResult(losses=losses)
        given = max([0, *_versions(model)])
        most = min(given, row.opset)
        newest = newest_with_kernels(_operators(model).onnx, most, release) or most
        if newest < given:
            opsets.setdefault("", newest)
        if ir_version is None and (model.ir_version or 0) > row.ir_version:
            ir_version = row.ir_version
        if (version_of(model.opset_import, MACHINE_LEARNING) or 0) > row.ml_opset:
            opsets.setdefault(MACHINE_LEARNING, row.ml_opset)
    if opsets or options.dtype is not None or options.int32 or options.weights_dtype is not None:
        model, more = in_order(model)
        result += more
    for domain, version in opsets.items():
        model, more = with_opset(model, version, domain)
        result += more
    for dtype in filter(None, (options.dtype, "int32" if options.int32 else None)):
        model, more = _with_dtype(model, dtype, options, release)
        result += more
    if options.weights_dtype is not None and (named is None or release is not None):
        model, more = with_integer_weights(model, options)
        result += more
    if ir_version is not None:
        model, more = with_ir_version(model, ir_version)
        result += more
    elif release is None and "" in opsets:
        model, more = _in_version_of_set(model, opsets[""])
        result += more
    if release is not None:
        if lacks(release, WITH_ALLOWZERO):
            model, more = _without_allowzero(model, release)
            result += more
        result += EditResult(losses=tuple(_refused(model, release)))
    return model, result


def _with_dtype(model: Model, dtype: str, options: RuntimeOptions, release: str | None) -> tuple[Model, EditResult]:
    """The model with floats or integers of a type; weights that are integers stay such if others become integers."""
    from formats.editing.element_types.conversion import to_dtype  # few conversions need it

    return to_dtype(
        model,
        dtype,
        keep_io_types=options.keep_io_types,
        keep=options.keep or (),
        lacks=None if release is None else partial(has_no_kernel, release),
        keep_integers=options.weights_dtype is not None,
    )


def with_integer_weights(model: Model, options: RuntimeOptions) -> tuple[Model, EditResult]:
    """The model with weights of the chosen type, in the operators that the chosen runtime has for them.

    Raises: UnsupportedError if the runtime has none.
    """
    from formats.editing.element_types import weight_quantization as quantization  # few conversions need it

    type_name, named = options.weights_dtype or "", options.named
    bits, _ = quantization.WEIGHT_TYPES[type_name]
    if named is None:
        forms = quantization.OF_ONNX
    elif named.name == ONNXRUNTIME:
        forms = quantization.forms_for_release(named.release or NEWEST, bits)
    elif type_name != "int4":
        raise UnsupportedError(f"{named.name} computes with weights in int4, but not in {type_name}")
    else:
        forms = quantization.OF_RTEN
    return quantization.quantize_weights(
        model, type_name, forms, block=options.block or quantization.BLOCK, keep=options.keep or ()
    )


def _without_allowzero(model: Model, release: str) -> tuple[Model, EditResult]:
    """The model without `allowzero`, with which this release takes no dim of -1; exporters often set it."""
    new = copied(model)
    places: list[str] = []
    for where, nodes in walk.node_lists(new):
        for index, node in enumerate(nodes):
            attribute = attribute_named(node, "allowzero")
            if attribute is not None and attribute.i and node.domain in STANDARD_DOMAINS:  # only Reshape has it
                node.attribute.remove(attribute)
                places.append(walk.inner_place(where, "node", index))
    if not places:
        return model, EditResult()
    why = f"onnxruntime {release} takes no dim of -1 with it"
    edit = Edit("opset", f"{counted(len(places), 'Reshape')} without allowzero, since {why}")
    return new, EditResult((edit,), (Loss("opset", places[0], EMPTY, SPECIAL),))


def _in_version_of_set(model: Model, opset: int) -> tuple[Model, EditResult]:
    """The model in an IR version that releases with this operator set read, or in the least one that it needs."""
    first = first_reading(opset)
    if first is None or (model.ir_version or 0) <= RELEASES[first].ir_version:
        return model, EditResult()
    wanted = RELEASES[first].ir_version
    for version in range(wanted, model.ir_version or 0):
        try:
            new, result = with_ir_version(model, version)
        except UnsupportedError as error:
            reason = error.reason
            continue
        (edit, *others) = result.edits
        edit = edit._replace(
            detail=f"{edit.detail}, which onnxruntime {first} reads, the first with operator set {opset}"
        )
        if version == wanted:
            return new, EditResult((edit, *others), result.losses)
        return new, result + EditResult(losses=(_newer_version(version, wanted, reason),))
    return model, EditResult(losses=(_newer_version(model.ir_version or 0, wanted, reason),))


def _newer_version(version: int, wanted: int, reason: str) -> Loss:
    detail = f"the IR version is {version}, and programs of the time of the operator set read {wanted}: {reason}"
    return Loss("ir_version", "", detail, USE)


def _refused(model: Model, release: str) -> Iterator[Loss]:
    """What is known to keep a release from the model, although it reads its versions."""
    for limit in limits_of(model, _operators(model), type_uses(model)):
        if limit.stops(release) and not limit.reason.startswith(SMALL_CONSTANTS):  # these come into the graph
            later = f"; {limit.first} is the first that has" if limit.first else ""
            detail = f"onnxruntime {release} does not run the model: {limit.reason}{later}"
            yield Loss("runtime", "", detail, INTERFACE)


def _operators(model: Model) -> Operators:
    return operators_of(node for _, nodes in walk.node_lists(model) for node in nodes)


def _in_usual_layout(model: Model) -> Usual:
    """The model without the layout of another machine; nodes of an unknown form stay for onnxruntime as they are.

    Raises: UnknownBlockError.
    """
    try:
        return in_usual_layout(model)
    except UnknownBlockError:
        raise
    except UnsupportedError as error:
        stay = "operators stay in a layout that is right only on machines like the one that wrote it"
        detail = f"{stay}, since {error.reason}; {error.remedy}"
        return Usual(model, (Loss("layout", error.where or "graph", detail, RESULTS),))


def _versions(model: Model) -> list[int]:
    """The versions of ONNX's own operators that a model and its functions import."""
    imports = (model.opset_import, *(each.opset_import for each in model.functions))
    return [version for each in imports if (version := version_of(each)) is not None]
