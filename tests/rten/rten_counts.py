"""Models in which one number is huge: each attribute, constant of integers and dim of an input, of every operator.

`python tests/rten/rten_counts.py` converts all of them for RTen, and for RTen's own ONNX loader, with limits of
time and memory for each, and prints those that need more, as JSON.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import formats
from tests.rten import rten_cases

HUGE = (1 << 31, 1 << 62)
MODELS_OF_AN_OPERATOR = 3
MAX_MODEL_BYTES = 20_000
SECONDS = 5.0
MEMORY_BYTES = 3 << 30
INTEGERS = {onnx.TensorProto.INT64: "int64", onnx.TensorProto.INT32: "int32"}


class TooLongError(BaseException):
    """A conversion takes too long."""


def examples() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield models of every operator: those of the specification, and the cases of these tests."""
    seen: Counter[str] = Counter()
    for test in load_model_tests(kind="node"):
        model = test.model
        if model is None or model.ByteSize() > MAX_MODEL_BYTES:
            continue
        operators = ",".join(sorted({node.op_type for node in model.graph.node}))
        seen[operators] += 1
        if seen[operators] <= MODELS_OF_AN_OPERATOR:
            yield test.name, with_constants(model, test.data_sets[0][0])
    groups = (value for value in vars(rten_cases).values() if isinstance(value, list))
    for case in (case for group in groups for case in group if isinstance(case, rten_cases.Case)):
        yield case.name, case.proto()


def with_constants(model: onnx.ModelProto, inputs: Sequence[Any]) -> onnx.ModelProto:
    """Return the model with its integer inputs as constants."""
    for number, value in reversed([*enumerate(model.graph.input)]):
        if value.type.tensor_type.elem_type in INTEGERS and isinstance(inputs[number], np.ndarray):
            model.graph.initializer.append(numpy_helper.from_array(inputs[number], value.name))
            del model.graph.input[number]
    return model


def changed(model: onnx.ModelProto) -> Iterator[tuple[str, bytes]]:
    """Yield the model with each integer in turn replaced by a huge one: in attributes, in constants, and in dims."""
    for huge in HUGE:
        for value in model.graph.input:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                kept_dim = dim.SerializeToString()
                dim.dim_value = huge
                yield f"{value.name} axis {axis} {huge}", model.SerializeToString()
                dim.ParseFromString(kept_dim)
        for node in model.graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.INT:
                    before, attribute.i = attribute.i, huge
                    yield f"{node.op_type} {attribute.name} {huge}", model.SerializeToString()
                    attribute.i = before
                for place in {0, len(attribute.ints) - 1} if attribute.ints else ():
                    kept = list(attribute.ints)
                    attribute.ints[place] = huge
                    yield f"{node.op_type} {attribute.name}[{place}] {huge}", model.SerializeToString()
                    attribute.ints[:] = kept
        for tensor in model.graph.initializer:
            if tensor.data_type not in INTEGERS:
                continue
            array = numpy_helper.to_array(tensor)
            largest = min(huge, np.iinfo(array.dtype).max)
            kept_tensor = tensor.SerializeToString()
            for place in {0, array.size - 1} if array.size else ():
                numbers = array.copy().reshape(-1)
                numbers[place] = largest
                tensor.CopyFrom(numpy_helper.from_array(numbers.reshape(array.shape), tensor.name))
                yield f"constant {tensor.name}[{place}] {largest}", model.SerializeToString()
                tensor.ParseFromString(kept_tensor)


def convert(data: bytes) -> str:
    """Convert a model for RTen, for its ONNX loader, exactly, and back; return what was wrong, or nothing."""
    for exact in (False, True):
        try:
            written = bytes(formats.dumps(formats.loads(data, format="onnx"), "rten", exact=exact))
            formats.dumps(formats.loads(written, format="rten"), "onnx")
        except (formats.FormatError, OSError):
            pass
    try:
        formats.dumps(formats.loads(data, format="onnx"), "onnx", runtime="rten")
    except (formats.FormatError, OSError):
        pass
    return ""


def late(*_: Any) -> NoReturn:
    """End a conversion."""
    raise TooLongError


def main() -> None:
    """Convert all models of which the number is in a part of all, as in `2/3`."""
    part, parts = map(int, (sys.argv[1] if len(sys.argv) > 1 else "1/1").split("/"))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, late)
    count, wrong = 0, []
    for number, (name, model) in enumerate(examples()):
        if number % parts != part - 1:
            continue
        for what, data in changed(model):
            count += 1
            began = time.process_time()
            signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)
            try:
                convert(data)
            except (TooLongError, Exception) as error:
                wrong.append(f"{name}: {what}: {type(error).__name__} {error}")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if time.process_time() - began > SECONDS:
                wrong.append(f"{name}: {what}: {time.process_time() - began:.1f} s")
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) >> 10  # not the starter's
    print(json.dumps({"count": count, "wrong": wrong, "peak_mib": peak}))


if __name__ == "__main__":
    main()
