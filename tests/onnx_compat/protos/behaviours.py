"""Behaviours of protobuf's messages: each is a function of a namespace with the classes, run with both kinds.

Those that are one expression are in `BEHAVIOURS`.
"""

from __future__ import annotations

import collections.abc
import copy
import pickle
import struct
from collections.abc import Callable
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


def set_enum_by_name(o: Any) -> Any:
    """A name of an enum."""
    message = o.AttributeProto(type="INT")
    message.type = "FLOAT"
    return message.type


def closed_enum_in_text(o: Any) -> Any:
    """Text with an unknown number."""
    text_format.Parse("type: 99", o.AttributeProto())


def invalid_utf8(o: Any) -> Any:
    """A text that is not UTF-8."""
    message = o.NodeProto.FromString(b"\x1a\x02\xff\xfe")
    return message.SerializeToString()


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


def enums_compared(o: Any) -> Any:
    """What an enum's descriptor says."""
    enum = o.TensorProto.DESCRIPTOR.enum_types_by_name["DataType"]
    value = enum.values_by_name["FLOAT"]
    return (
        enum.name, enum.full_name, enum.containing_type.name, value.name, value.number, value.index, value.type.name,
        value.has_options, o.TensorProto.DataType.DESCRIPTOR.full_name,
        o.TensorProto.DESCRIPTOR.EnumValueName("DataType", 1),
    )  # fmt: skip


def enum_in_annotations(o: Any) -> Any:
    """An enum is part of a type in an annotation, as nncf has it."""
    kind = o.TensorProto.DataType
    return str(kind | None)[-7:], str(kind | int)[-6:], kind.ValueType


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


def containers_in_place(o: Any) -> Any:
    """A container and += a list."""
    node = o.NodeProto(input=["a"])
    node.input += ["b"]
    return list(node.input)


def set_message_item(o: Any) -> Any:
    """A message in a list cannot be assigned."""
    graph = o.GraphProto(node=[{}])
    graph.node[0] = o.NodeProto()


def set_int_to_numpy(o: Any) -> Any:
    """Numbers of numpy."""
    message = o.TensorProto(dims=np.array([1, 2]), float_data=np.array([1.5], np.float32))
    message.data_type = np.int64(3)
    return message.SerializeToString()


def set_int_to_numpy_bool(o: Any) -> Any:
    """A bool of numpy."""
    o.ModelProto().ir_version = np.bool_(True)
    return "taken"


def pop_empty(o: Any) -> Any:
    """Popping from an empty container."""
    o.TensorProto().dims.pop()


def group_is_wrong(o: Any) -> Any:
    """A lone end of a group is an error."""
    o.NodeProto.FromString(b"\xfc\x7f")


def negative_length(o: Any) -> Any:
    """A length that is too large."""
    o.NodeProto.FromString(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")


def small_model(o: Any) -> Any:
    """Return a small model."""
    model = o.ModelProto(ir_version=8)
    model.graph.name = "g"
    for index in range(4):
        model.graph.node.add(op_type="A", name=f"n{index}", input=[f"x{index}"], output=[f"x{index + 1}"])
    model.graph.input.add(name="x0").type.tensor_type.shape.dim.add(dim_value=2)
    return model


def error_of(do: Callable[[], Any]) -> str:
    """Return the class of an error."""
    try:
        do()
    except Exception as error:
        return type(error).__name__
    return ""


BEHAVIOURS: dict[str, Callable[[Any], Any]] = {
    "floats_as_text": lambda o: (
        [str(o.AttributeProto(f=value)) for value in FLOATS],
        [repr(o.AttributeProto(floats=[v])) for v in FLOATS],
    ),
    "doubles_as_text": lambda o: [str(o.TensorProto(double_data=[value])) for value in FLOATS],
    "invalid_utf8_text": lambda o: str(o.NodeProto.FromString(b"\x1a\x02\xff\xfe")),
    "invalid_utf8_in_list": lambda o: list(o.NodeProto.FromString(b"\x0a\x02\xff\xfe").input),
    "is_message": lambda o: (isinstance(o.NodeProto(), Message), issubclass(o.NodeProto, Message)),
    "fields_in_order": lambda o: [
        [(f.name, f.index, f.number) for f in getattr(o, n).DESCRIPTOR.fields] for n in ("ModelProto", "TypeProto")
    ],
    "enum_in_annotation_on_the_right": lambda o: None | o.TensorProto.DataType,
    "enum_of_float": lambda o: o.TensorProto.DataType.Name(1.0),
    "containers_copied_shallowly": lambda o: copy.copy(o.NodeProto(input=["a"]).input),
    "containers_pickled": lambda o: pickle.dumps(o.NodeProto(input=["a"]).input),
    "containers_as_text": lambda o: (str(o.NodeProto(input=["a"]).input), repr(o.TensorProto(dims=[1, 2]).dims)),
    "get_unknown_field": lambda o: o.ModelProto().wrong,
    "attributes_of_classes": lambda o: (
        (
            o.NodeProto.NAME_FIELD_NUMBER,
            o.TypeProto.Tensor.__name__,
            o.TensorProto.FLOAT,
            o.TensorProto.DataType.keys()[:3],
            o.NodeProto.__name__,
            o.TypeProto.Tensor.DESCRIPTOR.full_name,
            o.TypeProto.Tensor.__qualname__,
        )
    ),
    "slice_step": lambda o: (lambda m: [n.name for n in m.graph.node[::2]])(small_model(o)),
    "slice_neg": lambda o: [n.name for n in small_model(o).graph.node[-2:]],
    "index_err": lambda o: small_model(o).graph.node[9],
    "index_type": lambda o: small_model(o).graph.node["a"],
    "index_bool": lambda o: small_model(o).graph.node[True].name,
    "del_step": lambda o: (lambda m: (m.graph.node.__delitem__(slice(None, None, 2)), [n.name for n in m.graph.node]))(
        small_model(o)
    ),
    "set_slice_scalars": lambda o: (lambda n: (n.input.__setitem__(slice(0, 1), ["a", "b"]), list(n.input)))(
        small_model(o).graph.node[0]
    ),
    "set_step_slice": lambda o: (
        lambda n: (n.input.extend("bcd"), n.input.__setitem__(slice(None, None, 2), ["1", "2"]), list(n.input))
    )(small_model(o).graph.node[0]),
    "set_step_wrong": lambda o: (
        lambda n: (n.input.extend("bcd"), n.input.__setitem__(slice(None, None, 2), ["1"]), list(n.input))
    )(small_model(o).graph.node[0]),
    "pop_scalar": lambda o: (lambda n: (n.input.pop(), list(n.input)))(small_model(o).graph.node[0]),
    "pop_index": lambda o: (lambda m: (m.graph.node.pop(1).name, len(m.graph.node)))(small_model(o)),
    "pop_far": lambda o: small_model(o).graph.node.pop(10),
    "remove_scalar": lambda o: (lambda n: (n.input.remove("b"), list(n.input)))(o.NodeProto(input=list("abcb"))),
    "reverse_scalars": lambda o: (lambda n: (n.input.reverse(), list(n.input)))(o.NodeProto(input=list("abc"))),
    "remove_missing": lambda o: small_model(o).graph.node[0].input.remove("zz"),
    "remove_msg_missing": lambda o: small_model(o).graph.node.remove(o.NodeProto(name="no")),
    "extend_str": lambda o: (lambda n: (n.input.extend("pq"), list(n.input)))(small_model(o).graph.node[0]),
    "extend_gen": lambda o: (lambda n: (n.input.extend(c for c in "pq"), list(n.input)))(small_model(o).graph.node[0]),
    "extend_none": lambda o: small_model(o).graph.node[0].input.extend(None),
    "extend_empty": lambda o: (lambda n: (n.attribute.extend([]), n.HasField("name")))(small_model(o).graph.node[0]),
    "extend_wrong_msg": lambda o: small_model(o).graph.node.extend([o.TensorProto()]),
    "extend_partial": lambda o: (
        lambda m: (error_of(lambda: m.graph.node.extend([o.NodeProto(), 3])), len(m.graph.node))
    )(small_model(o)),
    "extend_partial_ints": lambda o: (lambda t: (error_of(lambda: t.dims.extend([1, "a"])), list(t.dims)))(
        o.TensorProto()
    ),
    "int_float": lambda o: o.TensorProto(dims=[1.0]),
    "int_float_frac": lambda o: o.TensorProto(dims=[1.5]),
    "bytes_mv": lambda o: o.AttributeProto(s=memoryview(b"abc")).s,
    "enum_bool": lambda o: o.AttributeProto(type=True).type,
    "datatype_is_int": lambda o: o.TensorProto(data_type=999).data_type,
    "has_sub": lambda o: (lambda m: (m.graph, m.HasField("graph"))[1])(o.ModelProto()),
    "has_sub_set": lambda o: (lambda m: (m.graph.SetInParent(), m.HasField("graph"))[1])(o.ModelProto()),
    "has_sub_by_clear": lambda o: (lambda m: (m.graph.ClearField("name"), m.HasField("graph"))[1])(o.ModelProto()),
    "has_sub_list": lambda o: (lambda m: (len(m.graph.node), m.HasField("graph"))[1])(o.ModelProto()),
    "has_sub_extend_empty": lambda o: (lambda m: (m.graph.node.extend([]), m.HasField("graph"))[1])(o.ModelProto()),
    "has_sub_del": lambda o: (lambda m: (m.graph.node.__delitem__(slice(None)), m.HasField("graph"))[1])(
        o.ModelProto()
    ),
    "has_sub_default_assign": lambda o: (lambda m: (setattr(m.graph, "name", ""), m.HasField("graph"))[1])(
        o.ModelProto()
    ),
    "del_attr": lambda o: delattr(small_model(o).graph, "name"),
    "oneof_switch": lambda o: (
        lambda d: (
            setattr(d, "dim_param", "n"),
            d.WhichOneof("value"),
            setattr(d, "dim_value", 0),
            d.WhichOneof("value"),
            d.dim_param,
        )
    )(o.TensorShapeProto.Dimension()),
    "oneof_clear": lambda o: (lambda d: (setattr(d, "dim_param", "n"), d.ClearField("value"), d.WhichOneof("value")))(
        o.TensorShapeProto.Dimension()
    ),
    "oneof_sub": lambda o: (
        lambda t: (
            t.tensor_type.SetInParent(),
            t.WhichOneof("value"),
            t.sequence_type.elem_type.SetInParent(),
            t.WhichOneof("value"),
            t.HasField("tensor_type"),
        )
    )(o.TypeProto()),
    "eq_list": lambda o: (
        small_model(o).graph.node == small_model(o).graph.node,
        small_model(o).graph.node[0].input == ["x0"],
        small_model(o).graph.node[0].input == ("x0",),
    ),
    "lt": lambda o: o.NodeProto() < o.NodeProto(),
    "list_lt": lambda o: small_model(o).graph.node[0].input < ["z"],
    "radd": lambda o: ["a"].__add__(small_model(o).graph.node[0].input),
    "mul": lambda o: small_model(o).graph.node[0].input * 2,
    "in_msgs": lambda o: (lambda m: (m.graph.node[0] in m.graph.node, "x0" in m.graph.node[0].input))(small_model(o)),
    "copy_method": lambda o: small_model(o).graph.node[0].input.copy(),
    "deepcopy_list": lambda o: (lambda c: (type(c).__name__ != "x", list(c)))(
        copy.deepcopy(small_model(o).graph.node[0].input)
    ),
    "copy_msg": lambda o: (lambda m: (lambda c: (setattr(c.graph, "name", "z"), m.graph.name))(copy.copy(m)))(
        small_model(o)
    ),
    "deepcopy_memo": lambda o: (lambda m: (lambda p: p[0] is p[1])(copy.deepcopy([m, m])))(small_model(o)),
    "str_node": lambda o: str(small_model(o)),
    "repr_of_little": lambda o: (repr(o.ModelProto(ir_version=8)), repr(o.GraphProto()), repr(o.FunctionProto())),
    "array_of_no_texts": lambda o: [
        np.array(empty).dtype.str
        for empty in (o.NodeProto().input, o.AttributeProto().strings, o.TensorProto().string_data)
    ],
    "empty_packed": lambda o: [
        (tensor.ByteSize(), tensor.SerializeToString(), tensor == o.TensorProto())
        for tensor in map(o.TensorProto.FromString, (b"\x22\0", b"\x2a\0", b"\x3a\0", b"\x52\0", b"\x5a\0"))
    ],
    "print_unknown": lambda o: text_format.MessageToString(
        o.NodeProto.FromString(b"\xf8\x3f\x05"), print_unknown_fields=True
    ),
    "module_of_class": lambda o: (o.NodeProto.__module__, repr(o.NodeProto)),
    "load_nothing": lambda o: o.load(None),
    "parse_a_str": lambda o: o.NodeProto.FromString("abc"),
    "repr_list": lambda o: repr(small_model(o).graph.node),
    "str_empty": lambda o: (str(o.NodeProto()), repr(o.NodeProto())),
    "format": lambda o: f"{small_model(o).graph.node[0]}",
    "bool_msg": lambda o: bool(o.NodeProto()),
    "bool_list": lambda o: (bool(small_model(o).graph.node), bool(o.NodeProto().input)),
    "len_msg": lambda o: len(o.NodeProto()),
    "iter_msg": lambda o: list(o.NodeProto()),
    "dict_of": lambda o: vars(o.NodeProto()),
    "setattr_new": lambda o: setattr(o.NodeProto(), "zz", 1),
    "reversed": lambda o: [n.name for n in reversed(small_model(o).graph.node)],
    "sorted": lambda o: [n.name for n in sorted(small_model(o).graph.node, key=lambda n: n.name, reverse=True)],
    "sort_key": lambda o: (
        lambda m: (m.graph.node.sort(key=lambda n: n.name, reverse=True), [n.name for n in m.graph.node])
    )(small_model(o)),
    "sort_no_key": lambda o: small_model(o).graph.node.sort(),
    "sort_cmp": lambda o: (lambda n: (n.input.extend("ca"), n.input.sort(), list(n.input)))(
        small_model(o).graph.node[0]
    ),
    "copyfrom_part": lambda o: (lambda m: (m.graph.node[0].CopyFrom(m.graph.node[1]), m.graph.node[0].name))(
        small_model(o)
    ),
    "copyfrom_own_sub": lambda o: (
        lambda t: (
            t.sequence_type.elem_type.tensor_type.SetInParent(),
            t.CopyFrom(t.sequence_type.elem_type),
            t.WhichOneof("value"),
        )
    )(o.TypeProto()),
    "held_after_clear": lambda o: (
        lambda m: (lambda n: (m.ClearField("graph"), n.name, len(m.graph.node)))(m.graph.node[0])
    )(small_model(o)),
    "held_after_del": lambda o: (
        lambda m: (lambda n: (m.graph.node.__delitem__(0), n.name, setattr(n, "name", "k"), m.graph.node[0].name))(
            m.graph.node[0]
        )
    )(small_model(o)),
    "held_list_after_clear": lambda o: (
        lambda m: (lambda held: (m.graph.ClearField("node"), len(held), len(m.graph.node)))(m.graph.node)
    )(small_model(o)),
    "held_after_parse": lambda o: (
        lambda m: (lambda n: (m.ParseFromString(small_model(o).SerializeToString()), n.name))(m.graph.node[0])
    )(small_model(o)),
    "held_after_pop": lambda o: (lambda m: (lambda n: (m.graph.node.pop(0), n.name))(m.graph.node[0]))(small_model(o)),
    "add_kwargs": lambda o: (lambda m: (m.graph.node.add(op_type="Z", input=["a"]).op_type, len(m.graph.node)))(
        small_model(o)
    ),
    "add_wrong": lambda o: small_model(o).graph.node.add(zzz=1),
    "add_pos": lambda o: small_model(o).graph.node.add("a"),
    "ctor_msg_none": lambda o: o.ModelProto(graph=None).HasField("graph"),
    "ctor_list_in_sub": lambda o: o.ModelProto(graph=[1]),
    "iter_while_changing": lambda o: (
        lambda m: [(m.graph.node.remove(n) if n.name == "n1" else None, n.name)[1] for n in m.graph.node]
    )(small_model(o)),
    "iter_while_growing": lambda o: (
        lambda n: [(n.input.append("z") if len(n.input) < 4 else None, x)[1] for x in n.input]
    )(small_model(o).graph.node[0]),
    "parse_empty": lambda o: o.ModelProto.FromString(b"") == o.ModelProto(),
    "parse_trailing": lambda o: o.NodeProto.FromString(b"\x1a\x01a\x00"),
    "parse_unknown": lambda o: o.NodeProto.FromString(b"\x1a\x01a\xf8\x7f\x05").SerializeToString(),
    "parse_dup": lambda o: o.NodeProto.FromString(b"\x1a\x01a\x1a\x01b").name,
    "parse_wrongtype": lambda o: o.NodeProto.FromString(b"\x18\x05").SerializeToString(),
    "parse_unpacked": lambda o: list(o.TensorProto.FromString(b"\x08\x05\x0a\x02\x06\x07").dims),
    "parse_packed_float": lambda o: list(
        o.TensorProto.FromString(b"\x25" + struct.pack("<f", 1.5) + b"\x22\x04" + struct.pack("<f", 2)).float_data
    ),
    "parse_packed_cut": lambda o: o.TensorProto.FromString(b"\x22\x03abc"),
    "parse_merge_sub": lambda o: (lambda m: (m.graph.name, len(m.graph.node)))(
        o.ModelProto.FromString(b"\x3a\x02\x0a\x00\x3a\x03\x12\x01q")
    ),
    "parse_long_varint": lambda o: o.TensorProto.FromString(b"\x08" + b"\xff" * 9 + b"\x01").dims[0],
    "parse_too_long_varint": lambda o: o.TensorProto.FromString(b"\x08" + b"\xff" * 10 + b"\x01"),
    "parse_int32_trunc": lambda o: o.TensorProto.FromString(b"\x10\x81\x80\x80\x80\x10").data_type,
    "parse_field0": lambda o: o.NodeProto.FromString(b"\x02\x01a"),
    "parse_group_ok": lambda o: o.NodeProto.FromString(b"\xfb\x7f\xfc\x7f").SerializeToString(),
    "parse_bad_utf8": lambda o: o.NodeProto.FromString(b"\x1a\x01\xff").name,
    "merge_return": lambda o: (o.NodeProto().MergeFromString(b"\x1a\x01a"), o.NodeProto().ParseFromString(b"")),
    "ser_pos": lambda o: small_model(o).SerializeToString(True),
    "enum_name_np": lambda o: o.TensorProto.DataType.Name(np.int64(1)),
    "json": lambda o: json_format.MessageToJson(small_model(o)),
    "json_parse": lambda o: json_format.Parse('{"irVersion":"3","graph":{"name":"a"}}', o.ModelProto()).graph.name,
    "json_unknown": lambda o: json_format.Parse('{"zz":1}', o.ModelProto()),
    "json_ignore": lambda o: (
        json_format.Parse('{"zz":1}', o.ModelProto(), ignore_unknown_fields=True) == o.ModelProto()
    ),
    "json_defaults": lambda o: json_format.MessageToDict(
        o.NodeProto(name=""), always_print_fields_with_no_presence=True
    ),
    "text": lambda o: text_format.MessageToString(small_model(o)),
    "text_short": lambda o: text_format.MessageToString(small_model(o), as_one_line=True),
    "text_parse_err": lambda o: text_format.Parse("nope: 1", o.ModelProto()),
    "text_parse": lambda o: (
        text_format.Parse('graph { name: "a" node { op_type: "B" } }', o.ModelProto()).graph.node[0].op_type
    ),
    "has_unknown": lambda o: o.NodeProto().HasField("zz"),
    "clear_ret": lambda o: (o.NodeProto(name="a").Clear(), small_model(o).ClearField("graph")),
    "isinstance_seq": lambda o: (
        lambda c: [
            isinstance(c, k)
            for k in (
                collections.abc.Sequence,
                collections.abc.MutableSequence,
                list,
                collections.abc.Iterable,
                collections.abc.Hashable,
            )
        ]
    )(o.NodeProto().input),
    "tuple": lambda o: tuple(o.TensorProto(dims=[1, 2]).dims),
    "star": lambda o: [*o.TensorProto(dims=[1, 2]).dims],
    "sum": lambda o: sum(o.TensorProto(dims=[1, 2]).dims),
    "imul": lambda o: o.TensorProto(dims=[1]).dims.__imul__(2),
    "unknown_enum_kept": lambda o: (lambda a: (a.type, a.HasField("type"), a.SerializeToString()))(
        o.AttributeProto.FromString(b"\xa0\x01\xe7\x07")
    ),
    "ext": lambda o: o.NodeProto().Extensions,
    "deep_unset_chain": lambda o: (lambda m: (m.graph.node, m.graph.input, m.SerializeToString()))(o.ModelProto())[2],
    "attach_deep": lambda o: (
        lambda v: (setattr(v.type.tensor_type, "elem_type", 1), v.HasField("type"), v.type.HasField("tensor_type"))
    )(o.ValueInfoProto()),
    "two_handles": lambda o: (lambda m: (lambda a, c: (setattr(a, "name", "q"), c.name))(m.graph, m.graph))(
        o.ModelProto()
    ),
    "identity": lambda o: (lambda m: (m.graph is m.graph, m.graph.node is m.graph.node))(small_model(o)),
    "identity_items": lambda o: (
        lambda m: (lambda held: [a is c for a, c in zip(held, m.graph.node, strict=True)])(list(m.graph.node))
    )(small_model(o)),
}
