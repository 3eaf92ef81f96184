"""The message classes and enums of ONNX, made from the schema: the names that programs import from `onnx`.

    from formats.onnx_compat.protos.classes import ModelProto, TensorProto

Each is a thin wrapper of the IR: `wrap` and `unwrap` convert between them at no cost.

Spec: onnx.proto.
"""

from __future__ import annotations

from typing import Any

from formats.ir.model import MESSAGE_CLASSES
from formats.onnx_compat.protos.descriptor import DESCRIPTORS, ENUM_DESCRIPTORS, Descriptor, Enum
from formats.onnx_compat.protos.field_properties import property_of
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnxpb.wire.schema import ENUMS


def _message_class(descriptor: Descriptor) -> type[ProtoMessage]:
    """The class of a message, with its fields, their numbers and its enums."""
    members: dict[str, Any] = {
        "__slots__": (),
        "__doc__": descriptor.ir_class.__doc__,
        "__module__": __name__,
        "__qualname__": descriptor.scoped_name,
        "DESCRIPTOR": descriptor,
        "_properties": {field.name: property_of(field) for field in descriptor.fields},
    }
    members.update(members["_properties"])
    for field in descriptor.fields:
        members[f"{field.name.upper()}_FIELD_NUMBER"] = field.number
    for enum in descriptor.enum_types:
        members[enum.name] = Enum(enum)
        members.update({value.name: value.number for value in enum.values})
    descriptor._concrete_class = type(ProtoMessage)(descriptor.name, (ProtoMessage,), members)
    found: type[ProtoMessage] = descriptor._concrete_class
    return found


CLASSES = {name: _message_class(descriptor) for name, descriptor in DESCRIPTORS.items()}
for _name, _descriptor in DESCRIPTORS.items():
    if _descriptor.containing_type:
        setattr(CLASSES[_descriptor.containing_type.scoped_name], _descriptor.name, CLASSES[_name])


def wrap(ir: Any) -> Any:
    """The message over an object of the IR; a change of one is a change of the other.

    Raises: TypeError if `ir` is not an object of the IR.
    """
    if not isinstance(ir, MESSAGE_CLASSES):
        raise TypeError(f"expected an object of formats.ir.model, got {type(ir).__name__}")
    return CLASSES[ir.message]._of(ir)


def unwrap(message: Any) -> Any:
    """The object of the IR under a message; objects of the IR are returned as they are.

    A message of `onnx` gives a new object, with a copy of its values.

    Raises: TypeError for anything else.
    """
    if isinstance(message, ProtoMessage):
        return message._ir
    if isinstance(message, MESSAGE_CLASSES):
        return message
    name = getattr(getattr(message, "DESCRIPTOR", None), "name", None)
    if name in CLASSES and (taken := CLASSES[name]._taken(message)) is not None:
        return taken._ir
    raise TypeError(f"expected a message of formats.onnxpb or a model of formats, got {type(message).__name__}")


globals().update({name: cls for name, cls in CLASSES.items() if not cls.DESCRIPTOR.containing_type})
for _name, _values in ENUMS.items():
    if "." not in _name:
        globals().update({_name: Enum(ENUM_DESCRIPTORS[_name]), **_values})
