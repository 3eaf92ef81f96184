"""Runs ONNX models in programs by others, with inputs in the types that these need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - gives numpy the names of the types that it lacks
import numpy as np
import pytest

NEWEST_SET = re.compile(r"official support for domain ai\.onnx is till opset (\d+)")
"""What onnxruntime says of an operator set that came after it."""

JUDGES_SINCE = (1, 24)  # a release of onnxruntime
INT32 = np.iinfo(np.int32)
# How far numbers may differ that were rounded to a half-precision type somewhere, relative to the largest.
TYPE_TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2}


def need_judge() -> None:
    """Skip a test if onnxruntime is too old to judge it, as the newest for Python 3.10 is."""
    import onnxruntime

    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < JUDGES_SINCE:
        pytest.skip("needs onnxruntime 1.24 or later: older ones lack kernels, or compute some operators otherwise")


def evaluate(data: bytes, inputs: Mapping[str, Any], *, optimize: bool = True) -> list[Any]:
    """Return the outputs of onnxruntime, or of ONNX's reference implementation if onnxruntime has no kernel.

    An optimised model may hide or bring faults of onnxruntime.

    An input is an array, or a list of arrays for a sequence; it is converted to the type that the model declares.
    """
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        return evaluate_in_onnxruntime(data, inputs, optimize=optimize)
    except state.NotImplemented:
        pass
    except state.Fail as error:
        if "ConvInteger" not in str(error):  # its kernel does not accept a zero point for each channel
            raise
    import onnx
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load_from_string(data)).run(None, _given(data, inputs))


def session(data: bytes, options: Any = None) -> Any:
    """Return a session of onnxruntime; its newest operator set replaces one that it lacks if the nodes mean the same.

    The newest onnxruntime for Python 3.10 lacks operator set 24, which all nodes have that a conversion to RTen writes.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(data, options, providers=providers)
    except state.Fail as error:
        if not (newest := NEWEST_SET.search(str(error))) or (older := with_older_set(data, int(newest[1]))) is None:
            raise
    return onnxruntime.InferenceSession(older, options, providers=providers)


def with_older_set(data: bytes, version: int) -> bytes | None:
    """Return the same model with an older operator set of ONNX; `None` if that lacks the form or meaning of a node."""
    import onnx

    model = onnx.load_from_string(data)
    bodies = [model.graph, *model.functions]
    while bodies:
        for node in bodies.pop().node:
            if node.domain in ("", "ai.onnx") and not _is_in(node, version):
                return None
            for attribute in node.attribute:
                bodies += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        for each in imports:
            if each.domain in ("", "ai.onnx"):
                each.version = min(each.version, version)
    return model.SerializeToString()


def _is_in(node: Any, version: int) -> bool:
    """Return whether an operator set has the operator, with the attributes and inputs of a node."""
    from onnx import defs

    if node.op_type == "Attention" or not defs.has(node.op_type, max_inclusive_version=version):
        return False  # set 24 reads a mask with one column in another way
    schema = defs.get_schema(node.op_type, version)
    return len(node.input) <= schema.max_input and all(each.name in schema.attributes for each in node.attribute)


def evaluate_in_onnxruntime(data: bytes, inputs: Mapping[str, Any], *, optimize: bool = True) -> list[Any]:
    """Return the outputs of onnxruntime for inputs as in `evaluate`; raise whatever it raises."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(session(data, options).run(None, _given(data, inputs)))


def held(value: Any) -> Any:
    """Return an array, or a list of arrays, with elements in the types that RTen uses."""
    if isinstance(value, list):
        return [held(element) for element in value]
    array = np.asarray(value)
    if array.dtype.isbuiltin == 2:  # a type of ml_dtypes
        return array.astype({"int": np.int8, "uin": np.uint8}.get(array.dtype.name[:3], np.float32))
    if array.dtype in (np.int16, np.uint16, np.uint32, np.uint64, np.int64):
        return array.clip(INT32.min if array.dtype.kind == "i" else 0, INT32.max).astype(np.int32)
    return array


def _given(data: bytes, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a model in the types that it declares."""
    return {name: _converted(inputs[name], dtype) for name, dtype in _input_types(data)}


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
    """Say how two outputs differ in shape or value, whatever their types; "" if they agree.

    The tolerance is relative to the largest magnitude; integers must be equal, up to the range of 32 bits.
    """
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(got, list) or len(got) != len(wanted):
            return f"a sequence of {len(wanted)} became {got!r:.60}"
        return next((text for pair in zip(got, wanted, strict=True) if (text := difference(*pair, tolerance))), "")
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return f"shape {wanted.shape} became {got.shape}"
    if not re.search("float|double", wanted.dtype.name):
        same = np.array_equal(*(held(array).astype(np.int64) for array in (got, wanted)))
        return "" if same else f"{wanted.ravel()[:6]} became {got.ravel()[:6]}"
    tolerance = max(tolerance, TYPE_TOLERANCES.get(wanted.dtype.name, 0))
    got = got.astype(np.float64)
    with np.errstate(over="ignore"):
        wanted = wanted.astype(np.float32).astype(np.float64)
    finite = np.isfinite(wanted)
    largest = np.abs(wanted[finite]).max(initial=np.finfo(np.float32).tiny)
    same = np.array_equal(got[~finite], wanted[~finite], equal_nan=True)
    same = same and np.abs(got[finite] - wanted[finite]).max(initial=0) <= tolerance * largest
    return "" if same else f"{wanted.ravel()[:6]} became {got.ravel()[:6]}"
