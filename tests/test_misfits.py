"""A value of a wrong type in any field of a model is one clear error that names its place, whatever is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats.ir.model import MESSAGE_CLASSES, SOURCE_FIELDS
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.schema import MESSAGES, MessageField
from formats.tensordata.plan import lay_out

WRONG: dict[str, Any] = {
    "array": np.zeros(3),
    "text": "text",
    "number": 7,
    "dict": {"a": 1},
    "object": object(),
    "onnx": onnx.NodeProto(name="n"),
    "message": formats.OperatorSetId("", 1),
    "list": [7],
    "list with None": [None],
    "list in a list": [["a"]],
    "numpy integer": np.int64(7),
    "numpy float": np.float32(0.5),
}
KINDS: dict[str, tuple[type, ...]] = {  # what fits, besides numbers of numpy with such a value
    "string": (str,),
    "bytes": (bytes, bytearray, memoryview),
    "float": (int, float),
    "double": (int, float),
}


def fits(row: MessageField, value: Any) -> bool:
    """Return whether a value belongs into a field."""
    if row.label == "repeated":
        return isinstance(value, list) and all(fits(row._replace(label="optional"), each) for each in value)
    if row.kind == "message":
        return getattr(type(value), "message", None) == row.type_name
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    return isinstance(value, KINDS.get(row.kind, (int,)))


def cases() -> Iterator[Any]:
    """Yield every field of every message with every value."""
    for kind in MESSAGE_CLASSES:
        for row in MESSAGES[kind.message]:
            for name, value in WRONG.items():
                if row.name not in SOURCE_FIELDS[kind.message]:
                    yield pytest.param(kind, row, value, id=f"{kind.__name__}.{row.name}={name}")


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind,row,value", [*cases()])
def test_a_value_fits_or_is_refused_with_its_place(kind: type[Any], row: MessageField, value: Any) -> None:
    """A value that fits is written; any other is an error with the place of the value."""
    message = kind(**{row.name: value})
    if fits(row, value):
        assert b"".join(bytes(write.source.view()) for write in lay_out(encode(message))[0])
        return
    with pytest.raises(formats.EncodeError, match="does not fit the type of this field") as caught:
        encode(message)
    assert re.fullmatch(rf"{row.name}(\[\d+\])?", str(caught.value.where))
    assert "\n" not in str(caught.value)


WAYS = {
    "dumps onnx": lambda model: formats.dumps(model, "onnx"),
    "dumps external": lambda model: formats.dumps(model, "onnxz"),
    "dumps rten": lambda model: formats.dumps(model, "rten"),
    "dumps json": lambda model: formats.dumps(model, "json"),
    "dumps text": lambda model: formats.dumps(model, "textproto"),
    "to onnx": formats.to_onnx,
    "to onnx_ir": formats.to_onnx_ir,
    "session": formats.onnxruntime_session,
}


@pytest.mark.parametrize("way", WAYS)
def test_an_array_is_not_a_tensor(way: str, digits: Any) -> None:
    """An array among the initialisers is named with its place, and the error says how to make a tensor of it."""
    model = formats.load(digits)
    count = len(model.graph.initializer)
    model.graph.initializer.append(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(formats.EncodeError, match=r"formats\.from_numpy\(array, name\)") as caught:
        WAYS[way](model)
    assert f"graph.initializer[{count}]" == caught.value.where
