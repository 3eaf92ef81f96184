"""The message classes and enums of ONNX, made from the schema: the names that programs import from `onnx`.

    from formats.onnx_compat.protos.classes import ModelProto, TensorProto

They have the values of the IR's messages: `wrap` and `unwrap` make one of the other. Both share weights.

Spec: onnx.proto.
"""

from __future__ import annotations

from typing import Any

from formats.ir.copies import copied
from formats.ir.model import MESSAGE_CLASSES
from formats.onnx_compat.protos.copies import adopted, containers_made, in_ir, stored_bytes
from formats.onnx_compat.protos.descriptor import DESCRIPTORS, ENUM_DESCRIPTORS, Descriptor, EnumTypeWrapper
from formats.onnx_compat.protos.field_properties import RepeatedProperty, property_of
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnxpb.wire.schema import ENUMS
from formats.onnxpb.wire.tables import Family, tables_of


def _message_class(descriptor: Descriptor) -> type[ProtoMessage]:
    """The class of a message, with its fields, their numbers and its enums."""
    fields = descriptor.fields
    oneofs = descriptor.oneofs_by_name
    members: dict[str, Any] = {
        "__doc__": descriptor.ir_class.__doc__,
        "__module__": __name__,
        "__qualname__": descriptor.scoped_name,
        "DESCRIPTOR": descriptor,
        "_properties": {field.name: property_of(field) for field in fields},
        "_oneofs": {name: tuple(field.name for field in oneof.fields) for name, oneof in oneofs.items()},
        "_singular": frozenset(field.name for field in fields if not field.is_repeated),
    }
    for field, shown in zip(fields, members["_properties"].values(), strict=True):
        members[field.name] = shown if hasattr(shown, "__get__") else field.default_value
        members[f"{field.name.upper()}_FIELD_NUMBER"] = field.number
    for enum in descriptor.enum_types:
        members[enum.name] = EnumTypeWrapper(enum)
        members.update({value.name: value.number for value in enum.values})
    descriptor._concrete_class = type(ProtoMessage)(descriptor.name, (ProtoMessage,), members)
    message_class: type[ProtoMessage] = descriptor._concrete_class
    return message_class


CLASSES = {name: _message_class(descriptor) for name, descriptor in DESCRIPTORS.items()}
for _class in CLASSES.values():
    for _property in _class._properties.values():
        if isinstance(_property, RepeatedProperty):
            _property.connect()
_FAMILY = Family(CLASSES, bytes, stored_bytes, True, containers_made)
ProtoMessage._tables = tables_of(_FAMILY)
for _name, _descriptor in DESCRIPTORS.items():
    if _descriptor.containing_type:
        setattr(CLASSES[_descriptor.containing_type.scoped_name], _descriptor.name, CLASSES[_name])


def wrap(ir: Any) -> Any:
    """A message with the values of an object of the IR, of which it shares only the weights.

    Raises: TypeError if `ir` is not an object of the IR.
    """
    if not isinstance(ir, MESSAGE_CLASSES):
        raise TypeError(f"expected an object of formats.ir.model, got {type(ir).__name__}")
    return adopted(copied(ir))


def unwrap(message: Any) -> Any:
    """An object of the IR with the values of a message, of which it shares only the weights.

    Objects of the IR are returned as they are. Messages of `onnx` are taken, too.

    Raises: TypeError for anything else.
    """
    if isinstance(message, MESSAGE_CLASSES):
        return message
    name = getattr(getattr(message, "DESCRIPTOR", None), "scoped_name", None)
    name = name or getattr(getattr(message, "DESCRIPTOR", None), "name", None)
    if name in CLASSES and (taken := CLASSES[name]._taken(message)) is not None:
        return in_ir(taken)
    raise TypeError(f"expected a message of formats.onnxpb or a model of formats, got {type(message).__name__}")


globals().update({name: cls for name, cls in CLASSES.items() if not cls.DESCRIPTOR.containing_type})
for _name, _values in ENUMS.items():
    if "." not in _name:
        globals().update({_name: EnumTypeWrapper(ENUM_DESCRIPTORS[_name]), **_values})
