"""Tests of the rows of ONNX messages: they equal the descriptors of the installed `onnx` package."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField

pytest.importorskip("onnx", reason="needs the package onnx")
FILES = [importlib.import_module(f"onnx.{name}").DESCRIPTOR for name in ("onnx_ml_pb2", "onnx_data_pb2")]

KINDS = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool"}
KINDS |= {9: "string", 11: "message", 12: "bytes", 13: "uint32", 14: "enum"}  # FieldDescriptorProto.Type


def official_messages(descriptors: Any) -> dict[str, Any]:
    """Return the descriptors and all descriptors nested in them, by full name without the package."""
    found: dict[str, Any] = {}
    for descriptor in descriptors:
        found[descriptor.full_name.removeprefix("onnx.")] = descriptor
        found |= official_messages(descriptor.nested_types)
    return found


def official_enums() -> dict[str, Any]:
    """Return every enum descriptor, by full name without the package."""
    enums = [enum for file in FILES for enum in file.enum_types_by_name.values()]
    for descriptor in OFFICIAL.values():
        enums += descriptor.enum_types
    return {enum.full_name.removeprefix("onnx."): enum for enum in enums}


def official_row(field: Any) -> MessageField:
    """Return what the row of this field descriptor must say."""
    named = field.message_type or field.enum_type
    return MessageField(
        number=field.number,
        name=field.name,
        kind=KINDS[field.type],
        label="repeated" if field.is_repeated else "required" if field.is_required else "optional",
        type_name=named.full_name.removeprefix("onnx.") if named else "",
        packed=field.is_packed,
        oneof=field.containing_oneof.name if field.containing_oneof else "",
    )


OFFICIAL = official_messages(message for file in FILES for message in file.message_types_by_name.values())
OFFICIAL_ENUMS = official_enums()


def test_messages_are_those_of_the_onnx_package() -> None:
    """Our rows and the package have the same messages, including nested ones."""
    assert set(OFFICIAL) == set(MESSAGES)


@pytest.mark.parametrize("name", sorted(set(OFFICIAL) & set(MESSAGES)))
def test_fields_are_those_of_the_onnx_package(name: str) -> None:
    """Number, name, kind, label, type, packedness and oneof agree, and rows are sorted by number."""
    assert sorted(official_row(field) for field in OFFICIAL[name].fields) == list(MESSAGES[name])


def test_enums_are_those_of_the_onnx_package() -> None:
    """Our rows and the package have the same enums."""
    assert set(OFFICIAL_ENUMS) == set(ENUMS)


@pytest.mark.parametrize("name", sorted(set(OFFICIAL_ENUMS) & set(ENUMS)))
def test_enum_values_are_those_of_the_onnx_package(name: str) -> None:
    """Names and numbers agree; if two official names share a number, the rows have one of them."""
    official = {value.name: value.number for value in OFFICIAL_ENUMS[name].values}
    assert set(official.values()) == set(ENUMS[name].values())
    assert ENUMS[name].items() <= official.items()


def test_every_named_type_is_a_key() -> None:
    """Every row of kind message or enum names an existing type, and no other row names a type."""
    for rows in MESSAGES.values():
        for row in rows:
            keys = {"message": MESSAGES.keys(), "enum": ENUMS.keys()}.get(row.kind, {""})
            assert row.type_name in keys
