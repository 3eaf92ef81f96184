"""Models with references in place of their weights, for programs that need only the rest of a model.

    shell = without_weights(model)
    result = with_weights(infer(shell), shell)

So `check_model` and `infer_shapes` of `onnx` need little memory for models of any size.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from formats.errors import TensorDataError
from formats.ir import dtypes, walk
from formats.ir.copies import copied
from formats.ir.model import EXTERNAL, Model, StringStringEntry, remove_field
from formats.ir.storage import STORAGE, entries_of, location_of
from formats.onnx_compat.loading import AT_ONCE_BYTES
from formats.onnx_compat.protos.classes import ModelProto, unwrap
from formats.onnx_compat.protos.copies import adopted
from formats.onnxpb.inference import INDICES, SMALL_BYTES, SMALL_INDICES_BYTES
from formats.tensordata.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Tensor

LOCATION = "formats.weights"  # of each reference; the number of the weight is its offset
WITHOUT_FILE = "#formats.weights"  # the same, for the checker of `onnx`, which wants a file behind any other location


def without_weights(model: Any) -> ModelProto:
    """A copy of a model with references in place of its raw data of more than 1 KiB, or 64 KiB of integers.

    Serialised, it is small; in memory, it shares the weights of the model, for `with_weights`.

    For example:

        >>> shell = formats.onnxpb.without_weights(formats.load("model.onnx"))
        >>> len(shell.SerializeToString()) < 2000
        True

    Raises: TypeError for anything but a model.
    """
    return _with_references(model, LOCATION)


def _with_references(model: Any, location: str) -> ModelProto:
    shell = copied(model) if isinstance(model, Model) else unwrap(model)
    if not isinstance(shell, Model):
        raise TypeError(f"expected a model, got {type(model).__name__}")
    count = 0
    for _, tensor in walk.movable_tensors(shell, SMALL_BYTES):
        if _is_weight(tensor):
            tensor.external_source, tensor.raw_data, tensor.data_location = tensor.raw_data, None, EXTERNAL
            tensor.external_data = [StringStringEntry("location", location), StringStringEntry("offset", str(count))]
            count += 1
    proto: ModelProto = adopted(shell)
    return proto


def _is_weight(tensor: Tensor) -> bool:
    """Whether a tensor has only raw data, which fit its dims, and say nothing about shapes."""
    row, data = dtypes.BY_NUMBER.get(tensor.data_type or 0), tensor.raw_data
    if data is None or row is None or not row.bits or row.bits == 6:  # of 6 bits, the checker looks at the padding
        return False
    if any(vars(tensor).get(name) for name in STORAGE - {"raw_data"}) or min(tensor.dims, default=0) < 0:
        return False
    most = SMALL_INDICES_BYTES if row.number in INDICES else SMALL_BYTES
    return data.nbytes > most and data.nbytes == row.nbytes(tensor.dims)


def with_weights(model: Any, shell: Any) -> ModelProto:
    """A copy of a model that was made of `shell`, with the weights in place of the references to them.

    For example:

        >>> shell = formats.onnxpb.without_weights(formats.load("model.onnx"))
        >>> inferred = formats.onnxpb.shape_inference.infer_shapes(shell)
        >>> model = formats.onnxpb.with_weights(inferred, shell)
        >>> len(model.graph.initializer[2].raw_data)
        6912

    Raises: TensorDataError for a reference that `shell` does not have.
    """
    new = unwrap(model)
    known = {tuple(entries_of(tensor)): tensor.external_source for _, tensor in walk.external_tensors(unwrap(shell))}
    for where, tensor in walk.external_tensors(new):
        source = known.get(tuple(entries_of(tensor)))
        if location_of(tensor) != LOCATION:
            tensor.external_source = source
        elif source is None:
            raise TensorDataError(f"the model without weights has no weight for {tensor.name!r:.80}", where=where)
        else:
            tensor.raw_data, tensor.external_source = source, None
            remove_field(tensor, "external_data")
            tensor.data_location = None
    proto: ModelProto = adopted(new)
    return proto


# Functions of `onnx`


def checks_any_size(check_model: Callable[..., None]) -> Callable[..., None]:
    """The function `check_model` of `onnx.checker`, which gets references if the model is large."""

    @wraps(check_model)
    def check(model: Any, *arguments: Any, **options: Any) -> None:
        check_model(_lightened(model, WITHOUT_FILE), *arguments, **options)

    return check


def infers_any_size(infer_shapes: Callable[..., Any]) -> Callable[..., Any]:
    """The function `infer_shapes` of `onnx.shape_inference`, which gets references if the model is large."""

    @wraps(infer_shapes)
    def infer(model: Any, *arguments: Any, **options: Any) -> Any:
        light = _lightened(model, LOCATION)
        inferred = infer_shapes(light, *arguments, **options)
        return with_weights(inferred, light) if isinstance(light, ModelProto) else inferred

    return infer


def _lightened(model: Any, location: str) -> Any:
    """A model of ours without its weights if these are many, else its bytes; anything else as it is."""
    if type(model) is not ModelProto:
        return model
    segments = model._segments()
    if sum(part.nbytes for part in segments if isinstance(part, Source)) > AT_ONCE_BYTES:
        light = _with_references(model, location)
        if all(location_of(tensor) == location for _, tensor in walk.external_tensors(unwrap(light))):
            return light  # other references mean files that the functions of `onnx` look for
    return b"".join([part if isinstance(part, bytes) else part.view() for part in segments])
