"""Runs ONNX models as others run them, with inputs in whatever types these want."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - gives numpy the names of the types that it lacks
import numpy as np

INT32 = np.iinfo(np.int32)
# How far numbers may be off that were rounded to a half type somewhere, relative to the largest.
TYPE_TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2}


def evaluate(data: bytes, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of onnxruntime, or of ONNX's reference where onnxruntime has no kernel.

    An input is an array or, for a sequence, a list of arrays; they are converted to the types that the model declares.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    given = {name: _converted(inputs[name], text) for name, text in _input_types(data)}
    try:
        return onnxruntime.InferenceSession(data, options).run(None, given)
    except state.NotImplemented:
        pass
    except state.Fail as error:
        if "ConvInteger" not in str(error):  # whose kernel does not take a zero point for each channel
            raise
    import onnx
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load_from_string(data)).run(None, given)


def _input_types(data: bytes) -> list[tuple[str, np.dtype[Any]]]:
    import onnx

    types = []
    for value in onnx.load_from_string(data).graph.input:
        kind = value.type
        while not kind.HasField("tensor_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        types.append((value.name, onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)))
    return types


def _converted(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, list):
        return [_converted(element, dtype) for element in value]
    array = np.asarray(value, order="C")
    if dtype == np.int32 and array.dtype.kind in "iu":
        array = array.clip(INT32.min if array.dtype.kind == "i" else 0, INT32.max)
    return np.asarray(array, dtype)


def difference(got: Any, wanted: Any, tolerance: float) -> str:
    """Return in words how two outputs differ in shape or value, "" if they agree, whatever their types.

    The tolerance is of the largest magnitude; integers must be equal, as far as 32 bits hold them.
    """
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(got, list) or len(got) != len(wanted):
            return f"a sequence of {len(wanted)} became {got!r:.60}"
        return next((text for pair in zip(got, wanted, strict=True) if (text := difference(*pair, tolerance))), "")
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return f"shape {wanted.shape} became {got.shape}"
    if not re.search("float|double", wanted.dtype.name):
        same = np.array_equal(got.astype(np.int64), _converted(wanted.astype(np.int64), np.dtype(np.int32)))
        return "" if same else f"{wanted.ravel()[:6]} became {got.ravel()[:6]}"
    tolerance = max(tolerance, TYPE_TOLERANCES.get(wanted.dtype.name, 0))
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    largest = np.abs(wanted[finite]).max(initial=np.finfo(np.float32).tiny)
    same = np.array_equal(got[~finite], wanted[~finite], equal_nan=True)
    same = same and np.abs(got[finite] - wanted[finite]).max(initial=0) <= tolerance * largest
    return "" if same else f"{wanted.ravel()[:6]} became {got.ravel()[:6]}"
