"""Our messages do what protobuf's do: the same results, and errors of the same classes."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import formats.onnxpb

_NAMES = runpy.run_path(str(Path(__file__).with_name("behaviours.py")))
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: value
    for name, value in _NAMES.items()
    if getattr(value, "__module__", None) == "<run_path>" and name not in ("small_model", "error_of")
}
FUNCTIONS.update(_NAMES["BEHAVIOURS"])
ON_PURPOSE = {
    "dict_of": "`vars` of a message has the fields that are set, where protobuf gives what is in its class",
    "extend_partial": "`extend` appends all or nothing, where protobuf appends what is in front of a wrong message",
    "pop_far": "`pop` with an index behind the end is an error, where protobuf removes the last",
    "failed_merge": "a failed merge changes nothing, where protobuf keeps what came before the damage",
    "failed_parse_clears": "a failed parse leaves an empty message, where protobuf keeps what came before the damage",
    "fields_in_order": "descriptors list fields by number, where protobuf has the order of the file",
    "isinstance_seq": "containers are lists, so that Python reads them fast, where protobuf's are sequences",
    "module_of_class": "classes are in a module of `formats`, under which pickle finds them",
    "print_unknown": "the same as `unknown_fields_seen`: protobuf's printer asks native code for unknown fields",
    "radd": "the same: a list can be extended by a container with `+`",
    "unknown_fields_seen": "native code of protobuf reads only its own messages; `install()` and ours read both",
}


def outcome(function: Callable[[Any], Any], namespace: Any) -> Any:
    """Return the result, or the names of the classes of the error."""
    try:
        return plain(function(namespace))
    except Exception as error:
        return {each.__name__ for each in type(error).__mro__ if not each.__module__.startswith("formats.")}


def plain(value: Any) -> Any:
    """Return a result whose parts can be compared: NaN as a text."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return "nan" if isinstance(value, float) and value != value else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_as_protobuf(name: str) -> None:
    """A behaviour is the same with both kinds of classes, except for a few."""
    expected, found = outcome(FUNCTIONS[name], onnx), outcome(FUNCTIONS[name], formats.onnxpb)
    if isinstance(expected, set) and isinstance(found, set):
        found &= expected
    assert (expected != found) == (name in ON_PURPOSE), (expected, found)


def test_unknown_fields_after_install() -> None:
    """After `install()`, protobuf's UnknownFieldSet reads our messages, and its own as before."""
    import google.protobuf.unknown_fields

    data = b"\xf8\x7f\x05\xfa\x7f\x02ab"
    theirs = onnx.NodeProto.FromString(data)
    with formats.onnxpb.install():
        for message in (onnx.NodeProto.FromString(data), theirs):
            found = google.protobuf.unknown_fields.UnknownFieldSet(message)
            assert [(2047, 5), (2047, b"ab")] == [(each.field_number, each.data) for each in found]
    assert "google" in google.protobuf.unknown_fields.UnknownFieldSet.__module__


@pytest.mark.parametrize(
    "value", [0.1, 1 / 3, 1e10, 123456789.0, 2.5e-8, 1e300, -7.0, 5e-324, 16777217.0, 1e15, 1e16, 1e17]
)
def test_text_of_floats(value: float) -> None:
    """Floats and doubles are shown as protobuf's native code shows them."""
    for kind in ({"f": value}, {"floats": [value, -value]}):
        assert str(onnx.AttributeProto(**kind)) == str(formats.onnxpb.AttributeProto(**kind))
    assert str(onnx.TensorProto(double_data=[value])) == str(formats.onnxpb.TensorProto(double_data=[value]))
