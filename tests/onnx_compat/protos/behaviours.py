"""Behaviours of protobuf's messages: each is a function of a namespace with the classes, run with both kinds."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
from google.protobuf import json_format, text_format
from google.protobuf.message import Message

NAN, INF = float("nan"), float("inf")
FLOATS = (
    0.0,
    -0.0,
    1.0,
    2.0,
    16777216.0,
    1e10,
    1e-7,
    1e16,
    1e22,
    0.1,
    1 / 3,
    3.4e38,
    1e-45,
    INF,
    -INF,
    NAN,
    123456789.0,
)


def floats_as_text(o: Any) -> Any:
    """Text of floats."""
    return [str(o.AttributeProto(f=value)) for value in FLOATS], [repr(o.AttributeProto(floats=[v])) for v in FLOATS]


def doubles_as_text(o: Any) -> Any:
    """Text of doubles."""
    return [str(o.TensorProto(double_data=[value])) for value in FLOATS]


def texts_as_text(o: Any) -> Any:
    """Text of texts and bytes."""
    values = ("", "a'b\"c", "ü\n\t\\", "\x00\x7f", "€😀")
    return [str(o.NodeProto(name=each)) for each in values], [str(o.AttributeProto(s=each.encode())) for each in values]


def text_of_everything(o: Any) -> Any:
    """Text of nested messages, enums and unknown fields."""
    model = o.ModelProto(
        graph={"node": [{"op_type": "A", "attribute": [{"name": "a", "type": 1, "t": {"dims": [1, 2]}}]}]}
    )
    unknown = o.NodeProto.FromString(b"\xf8\x7f\x05\xfa\x7f\x02ab\xf9\x7f12345678\xfd\x7f1234")
    return str(model), str(unknown), f"{model.graph}", repr(model.graph.node[0]), str(o.ModelProto())


def text_of_closed_enum(o: Any) -> Any:
    """Unknown numbers of enums stay unknown fields."""
    tensor = o.TensorProto.FromString(b"\x70\x63")
    attribute = o.AttributeProto.FromString(b"\xa0\x01\x63")
    return (
        tensor.HasField("data_location"), tensor.data_location, tensor.SerializeToString(), str(tensor),
        attribute.type, attribute.HasField("type"), attribute.SerializeToString(), attribute.ListFields() == [],
        attribute == o.AttributeProto(),
    )  # fmt: skip


def set_unknown_enum(o: Any) -> Any:
    """An unknown number is refused."""
    o.AttributeProto(type=99)


def set_enum_by_name(o: Any) -> Any:
    """A name of an enum."""
    message = o.AttributeProto(type="INT")
    message.type = "FLOAT"
    return message.type


def set_enum_by_wrong_name(o: Any) -> Any:
    """A wrong name of an enum."""
    o.AttributeProto().type = "WRONG"


def closed_enum_in_text(o: Any) -> Any:
    """Text with an unknown number."""
    text_format.Parse("type: 99", o.AttributeProto())


def invalid_utf8(o: Any) -> Any:
    """A text that is not UTF-8."""
    message = o.NodeProto.FromString(b"\x1a\x02\xff\xfe")
    return message.SerializeToString()


def invalid_utf8_read(o: Any) -> Any:
    """A text that is not UTF-8, read."""
    return o.NodeProto.FromString(b"\x1a\x02\xff\xfe").name


def invalid_utf8_text(o: Any) -> Any:
    """A text that is not UTF-8, as text."""
    return str(o.NodeProto.FromString(b"\x1a\x02\xff\xfe"))


def invalid_utf8_in_list(o: Any) -> Any:
    """Texts that are not UTF-8 in a list."""
    return list(o.NodeProto.FromString(b"\x0a\x02\xff\xfe").input)


def invalid_utf8_set(o: Any) -> Any:
    """Bytes that are not UTF-8 are refused."""
    o.NodeProto().name = b"\xff"


def surrogates_set(o: Any) -> Any:
    """A half of a pair is refused."""
    o.NodeProto().name = "\ud800"


def surrogates_appended(o: Any) -> Any:
    """A half of a pair is refused in a list."""
    o.NodeProto().input.append("\ud800")


def failed_parse_clears(o: Any) -> Any:
    """A failed parse leaves no old content."""
    message = o.NodeProto(name="old")
    try:
        message.ParseFromString(b"\x0a\x01a\x12\x7f")
    except Exception as error:
        return type(error).__mro__[-3].__name__, message.name, list(message.input)


def failed_merge(o: Any) -> Any:
    """A failed merge keeps the old content."""
    message = o.NodeProto(name="old")
    try:
        message.MergeFromString(b"\x0a\x01a\x12\x7f")
    except Exception:
        return message.name, list(message.input)


def failed_parse(o: Any) -> Any:
    """The error of a failed parse."""
    o.NodeProto.FromString(b"\x0a\x7f")


def parse_of_text(o: Any) -> Any:
    """A text is not bytes."""
    o.NodeProto().ParseFromString("abc")


def parse_of_none(o: Any) -> Any:
    """None is not bytes."""
    o.NodeProto().ParseFromString(None)


def parse_of_arrays(o: Any) -> Any:
    """Buffers of bytes."""
    data = b"\x1a\x01n"
    return [o.NodeProto.FromString(kind(data)).name for kind in (bytes, bytearray, memoryview)]


def is_message(o: Any) -> Any:
    """A message is one of protobuf."""
    return isinstance(o.NodeProto(), Message), issubclass(o.NodeProto, Message)


def options(o: Any) -> Any:
    """Options of descriptors."""
    descriptor = o.TensorProto.DESCRIPTOR
    return (
        str(descriptor.GetOptions()), str(descriptor.fields_by_name["float_data"].GetOptions()),
        descriptor.fields_by_name["float_data"].has_options, str(descriptor.enum_types[0].GetOptions()),
        descriptor.fields_by_name["dims"].has_options, str(o.TypeProto.DESCRIPTOR.oneofs[0].GetOptions()),
        descriptor.file.has_options, str(descriptor.file.GetOptions()),
    )  # fmt: skip


def descriptors_copied(o: Any) -> Any:
    """CopyToProto."""
    from google.protobuf import descriptor_pb2

    message, enum = descriptor_pb2.DescriptorProto(), descriptor_pb2.EnumDescriptorProto()
    o.NodeProto.DESCRIPTOR.CopyToProto(message)
    o.AttributeProto.DESCRIPTOR.enum_types[0].CopyToProto(enum)
    return message.SerializeToString(), enum.SerializeToString()


def types_of_the_file(o: Any) -> Any:
    """The types of the file."""
    file = o.NodeProto.DESCRIPTOR.file
    found = file.message_types_by_name["NodeProto"]
    return (
        found is o.NodeProto.DESCRIPTOR, sorted(file.message_types_by_name), sorted(file.enum_types_by_name),
        file.package, file.name, file.serialized_pb, len(file.dependencies), list(file.services_by_name),
        found._concrete_class is o.NodeProto,
    )  # fmt: skip


def fields_in_order(o: Any) -> Any:
    """The order of fields, and their indices."""
    return [[(f.name, f.index, f.number) for f in getattr(o, n).DESCRIPTOR.fields] for n in ("ModelProto", "TypeProto")]


def fields_compared(o: Any) -> Any:
    """What a field's descriptor says."""
    names = "name full_name number index type cpp_type is_repeated is_required is_extension is_packed has_presence "
    names += "has_default_value default_value json_name camelcase_name extension_scope TYPE_BOOL CPPTYPE_BOOL"
    fields = [field for name in ("NodeProto", "TensorProto") for field in getattr(o, name).DESCRIPTOR.fields]
    return [[getattr(field, name) for name in names.split()] for field in fields]


def enums_compared(o: Any) -> Any:
    """What an enum's descriptor says."""
    enum = o.TensorProto.DESCRIPTOR.enum_types_by_name["DataType"]
    value = enum.values_by_name["FLOAT"]
    return (
        enum.name, enum.full_name, enum.containing_type.name, value.name, value.number, value.index, value.type.name,
        value.has_options, o.TensorProto.DataType.DESCRIPTOR.full_name,
        o.TensorProto.DESCRIPTOR.EnumValueName("DataType", 1),
    )  # fmt: skip


def enum_errors(o: Any) -> Any:
    """A wrong number of an enum."""
    return o.TensorProto.DataType.Name(999)


def enum_in_annotations(o: Any) -> Any:
    """An enum is part of a type in an annotation, as nncf has it."""
    kind = o.TensorProto.DataType
    return str(kind | None)[-7:], str(kind | int)[-6:], kind.ValueType


def enum_in_annotation_on_the_right(o: Any) -> Any:
    """An enum on the right is an error."""
    return None | o.TensorProto.DataType


def enum_attribute(o: Any) -> Any:
    """A wrong name of an enum."""
    return o.TensorProto.DataType.WRONG


def enum_of_float(o: Any) -> Any:
    """A float is no number of an enum."""
    return o.TensorProto.DataType.Name(1.0)


def unknown_fields_seen(o: Any) -> Any:
    """UnknownFieldSet of protobuf."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    message = o.NodeProto.FromString(b"\xf8\x7f\x05\xfa\x7f\x02ab")
    return [(each.field_number, each.wire_type, each.data) for each in UnknownFieldSet(message)]


def unknown_fields_discarded(o: Any) -> Any:
    """DiscardUnknownFields."""
    message = o.GraphProto.FromString(b"\xf8\x7f\x05\x0a\x03\xf8\x7f\x05")
    before = message.SerializeToString()
    message.DiscardUnknownFields()
    return before, message.SerializeToString()


def containers_copied(o: Any) -> Any:
    """Deep copies of containers."""
    node = o.NodeProto(input=["a"], attribute=[{"name": "n"}])
    one, two = copy.deepcopy(node.input), copy.deepcopy(node.attribute)
    one.append("b")
    two.add(name="m")
    two[0].name = "changed"
    three = copy.deepcopy(o.TensorProto(dims=[1]).dims)
    three.extend([2])
    return list(one), [each.name for each in two], list(three), list(node.input), node.attribute[0].name


def containers_copied_shallowly(o: Any) -> Any:
    """Shallow copies of containers."""
    return copy.copy(o.NodeProto(input=["a"]).input)


def containers_pickled(o: Any) -> Any:
    """Pickles of containers."""
    return pickle.dumps(o.NodeProto(input=["a"]).input)


def containers_added(o: Any) -> Any:
    """A container and a list."""
    return operator.add(o.NodeProto(input=["a"]).input, ["b"])


def containers_in_place(o: Any) -> Any:
    """A container and += a list."""
    node = o.NodeProto(input=["a"])
    node.input += ["b"]
    return list(node.input)


def containers_hashed(o: Any) -> Any:
    """A container has no hash."""
    return hash(o.NodeProto().input)


def messages_hashed(o: Any) -> Any:
    """A message has no hash."""
    return hash(o.NodeProto())


def containers_compared(o: Any) -> Any:
    """Containers compared with others."""
    node = o.NodeProto(input=["a"])
    return node.input == ["a"], node.input == ("a",), node.input != ["b"], node.input == o.NodeProto(input=["a"]).input


def containers_as_text(o: Any) -> Any:
    """The text of containers."""
    return str(o.NodeProto(input=["a"]).input), repr(o.TensorProto(dims=[1, 2]).dims)


def containers_sliced(o: Any) -> Any:
    """Slices of containers."""
    tensor = o.TensorProto(dims=[1, 2, 3, 4])
    del tensor.dims[1:3]
    tensor.dims[0:1] = [7, 8]
    return list(tensor.dims), tensor.dims[-1], type(tensor.dims[0:2]).__name__


def index_errors(o: Any) -> Any:
    """An index outside."""
    return o.TensorProto(dims=[1]).dims[3]


def index_errors_of_messages(o: Any) -> Any:
    """An index outside, of messages."""
    return o.GraphProto().node[0]


def set_message_item(o: Any) -> Any:
    """A message in a list cannot be assigned."""
    graph = o.GraphProto(node=[{}])
    graph.node[0] = o.NodeProto()


def set_message(o: Any) -> Any:
    """A message cannot be assigned."""
    o.ModelProto().graph = o.GraphProto()


def set_unknown_field(o: Any) -> Any:
    """An unknown field cannot be assigned."""
    o.ModelProto().wrong = 1


def get_unknown_field(o: Any) -> Any:
    """An unknown field cannot be read."""
    return o.ModelProto().wrong


def has_unknown_field(o: Any) -> Any:
    """HasField of an unknown field."""
    return o.ModelProto().HasField("wrong")


def has_repeated_field(o: Any) -> Any:
    """HasField of a repeated field."""
    return o.ModelProto().HasField("opset_import")


def set_text_to_int(o: Any) -> Any:
    """An int for a text."""
    o.NodeProto().name = 3


def set_int_to_text(o: Any) -> Any:
    """A text for an int."""
    o.ModelProto().ir_version = "3"


def set_int_to_float(o: Any) -> Any:
    """A float for an int."""
    o.ModelProto().ir_version = 3.5


def set_int_to_whole_float(o: Any) -> Any:
    """A whole float for an int."""
    o.ModelProto().ir_version = 3.0


def set_int_to_bool(o: Any) -> Any:
    """A bool for an int."""
    o.ModelProto().ir_version = True
    return "taken"


def set_int_too_large(o: Any) -> Any:
    """An int that is too large."""
    o.ModelProto().ir_version = 1 << 63


def set_int32_too_large(o: Any) -> Any:
    """An int32 that is too large."""
    o.TensorProto().data_type = 1 << 31


def set_int_to_numpy(o: Any) -> Any:
    """Numbers of numpy."""
    message = o.TensorProto(dims=np.array([1, 2]), float_data=np.array([1.5], np.float32))
    message.data_type = np.int64(3)
    return message.SerializeToString()


def set_int_to_numpy_bool(o: Any) -> Any:
    """A bool of numpy."""
    o.ModelProto().ir_version = np.bool_(True)
    return "taken"


def set_bytes_to_text(o: Any) -> Any:
    """A text for bytes."""
    o.AttributeProto().s = "text"


def set_bytes_to_bytearray(o: Any) -> Any:
    """A bytearray for bytes."""
    o.AttributeProto().s = bytearray(b"a")
    return "taken"


def set_float_to_text(o: Any) -> Any:
    """A text for a float."""
    o.AttributeProto().f = "1"


def set_float_too_large(o: Any) -> Any:
    """A float that is too large becomes infinite."""
    message = o.AttributeProto(f=1e300, floats=[1e300, -1e300])
    return message.f, list(message.floats)


def set_none(o: Any) -> Any:
    """None for a field."""
    o.NodeProto().name = None


def none_in_constructor(o: Any) -> Any:
    """None in a constructor."""
    return o.NodeProto(name=None, input=None).SerializeToString()


def wrong_in_constructor(o: Any) -> Any:
    """A wrong field in a constructor."""
    o.NodeProto(wrong=1)


def wrong_type_in_constructor(o: Any) -> Any:
    """A wrong type in a constructor."""
    o.NodeProto(attribute=3)


def text_in_constructor(o: Any) -> Any:
    """A text where a list belongs."""
    return list(o.NodeProto(input="abc").input)


def append_wrong_message(o: Any) -> Any:
    """A wrong message in a list."""
    o.GraphProto().node.append(o.TensorProto())


def append_none(o: Any) -> Any:
    """None in a list."""
    o.NodeProto().input.append(None)


def extend_none(o: Any) -> Any:
    """None as a list."""
    node = o.NodeProto()
    node.input.extend(None)
    return list(node.input)


def copy_from_wrong(o: Any) -> Any:
    """CopyFrom another class."""
    o.NodeProto().CopyFrom(o.TensorProto())


def merge_from_none(o: Any) -> Any:
    """MergeFrom None."""
    o.NodeProto().MergeFrom(None)


def which_wrong_oneof(o: Any) -> Any:
    """WhichOneof of a wrong name."""
    o.TypeProto().WhichOneof("wrong")


def oneof_switched(o: Any) -> Any:
    """A member of a oneof clears the others."""
    dim = o.TensorShapeProto.Dimension(dim_value=3)
    dim.dim_param = "n"
    kind = o.TypeProto()
    kind.tensor_type.elem_type = 1
    kind.sequence_type.SetInParent()
    return dim.WhichOneof("value"), dim.dim_value, kind.WhichOneof("value"), kind.tensor_type.elem_type


def equality(o: Any) -> Any:
    """Equality of messages."""
    nan = o.AttributeProto(f=NAN)
    return (
        o.NodeProto() == o.NodeProto(), o.NodeProto() == o.TensorProto(), o.NodeProto() == None, nan == nan,  # noqa: E711
        o.AttributeProto(f=0.0) == o.AttributeProto(f=-0.0), o.AttributeProto(f=NAN) == o.AttributeProto(f=NAN),
        o.NodeProto(name="") == o.NodeProto(), o.NodeProto() != 3,
        o.TensorProto(float_data=[0.0]) == o.TensorProto(float_data=[-0.0]),
    )  # fmt: skip


def json_of_messages(o: Any) -> Any:
    """JSON of protobuf."""
    model = o.ModelProto(
        ir_version=3, graph={"node": [{"op_type": "A", "attribute": [{"f": 0.5, "type": 1, "s": b"x"}]}]}
    )
    made = json_format.MessageToJson(model)
    more = json_format.MessageToDict(model, preserving_proto_field_name=True)
    return made, more, json_format.Parse(made, o.ModelProto()).SerializeToString()


def text_of_protobuf(o: Any) -> Any:
    """Text by protobuf, and back."""
    model = o.ModelProto(
        ir_version=3, graph={"node": [{"op_type": "A", "attribute": [{"f": 0.5, "type": 1, "s": b"x"}]}]}
    )
    text = text_format.MessageToString(model)
    return text, text_format.MessageToString(model, as_one_line=True), text_format.Parse(text, o.ModelProto()) == model


def deletion(o: Any) -> Any:
    """A field cannot be deleted."""
    message = o.NodeProto(name="a")
    del message.name


def calls(o: Any) -> Any:
    """Methods that return nothing much."""
    message = o.NodeProto(name="a")
    return (
        message.IsInitialized(), message.FindInitializationErrors(), message.ByteSize(), message.Clear(),
        message.SerializePartialToString(), message.ParseFromString(b"\x1a\x01n"), message.MergeFromString(b""),
        message.HasExtension if hasattr(message, "HasExtension") and False else None,
    )  # fmt: skip


def attributes_of_classes(o: Any) -> Any:
    """Field numbers and inner classes."""
    return (
        o.NodeProto.NAME_FIELD_NUMBER, o.TypeProto.Tensor.__name__, o.TensorProto.FLOAT,
        o.TensorProto.DataType.keys()[:3],
        o.NodeProto.__name__, o.TypeProto.Tensor.DESCRIPTOR.full_name, o.TypeProto.Tensor.__qualname__,
    )  # fmt: skip


def pickled_messages(o: Any) -> Any:
    """Pickles and copies of messages."""
    message = o.ModelProto(graph={"name": "g"})
    return (
        pickle.loads(pickle.dumps(message)) == message,
        copy.copy(message) == message,
        copy.deepcopy([message]) == [message],
    )


def parts_after_clear(o: Any) -> Any:
    """Parts that were cleared stay usable."""
    model = o.ModelProto(graph={"name": "g"})
    graph = model.graph
    model.ClearField("graph")
    graph.name = "new"
    return model.HasField("graph"), graph.name


def field_set_by_number(o: Any) -> Any:
    """ListFields gives descriptors in the order of numbers."""
    model = o.ModelProto(ir_version=1, opset_import=[{}], producer_name="p", graph={})
    return [(field.name, field.number) for field, _ in model.ListFields()]


def sort_and_reverse(o: Any) -> Any:
    """Sorting a container."""
    tensor = o.TensorProto(dims=[3, 1, 2])
    tensor.dims.sort(reverse=True)
    node = o.GraphProto(node=[{"name": "b"}, {"name": "a"}])
    node.node.sort(key=lambda each: each.name)
    return list(tensor.dims), [each.name for each in node.node], tensor.dims.pop(), tensor.dims.remove(3)


def remove_missing(o: Any) -> Any:
    """Removing what is not there."""
    o.TensorProto(dims=[3]).dims.remove(4)


def pop_empty(o: Any) -> Any:
    """Popping from an empty container."""
    o.TensorProto().dims.pop()


def group_is_wrong(o: Any) -> Any:
    """A lone end of a group is an error."""
    o.NodeProto.FromString(b"\xfc\x7f")


def negative_length(o: Any) -> Any:
    """A length that is too large."""
    o.NodeProto.FromString(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
