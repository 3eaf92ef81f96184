"""Behaviours of the texts, enums and containers of protobuf: functions of a namespace with the classes."""

from __future__ import annotations

import collections.abc
import copy
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf import json_format, text_format


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
    "slice_step": lambda o: (lambda m: [n.name for n in m.graph.node[::2]])(small_model(o)),
    "slice_neg": lambda o: [n.name for n in small_model(o).graph.node[-2:]],
    "slice_back": lambda o: [n.name for n in small_model(o).graph.node[::-1]],
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
    "remove_missing": lambda o: small_model(o).graph.node[0].input.remove("zz"),
    "remove_msg_missing": lambda o: small_model(o).graph.node.remove(o.NodeProto(name="no")),
    "insert_neg": lambda o: (lambda n: (n.input.insert(-1, "q"), list(n.input)))(small_model(o).graph.node[0]),
    "insert_far": lambda o: (lambda n: (n.input.insert(99, "q"), list(n.input)))(small_model(o).graph.node[0]),
    "append_none": lambda o: small_model(o).graph.node[0].input.append(None),
    "append_bytes": lambda o: (lambda n: (n.input.append(b"q"), list(n.input)))(small_model(o).graph.node[0]),
    "append_badbytes": lambda o: small_model(o).graph.node[0].input.append(b"\xff"),
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
    "int_np": lambda o: list(o.TensorProto(dims=[np.int32(3)]).dims),
    "int_big": lambda o: o.TensorProto(dims=[1 << 63]),
    "int_neg": lambda o: list(o.TensorProto(dims=[-(1 << 63)]).dims),
    "int32_big": lambda o: o.TensorProto(int32_data=[1 << 31]),
    "uint_neg": lambda o: o.TensorProto(uint64_data=[-1]),
    "float_int": lambda o: list(o.TensorProto(float_data=[1]).float_data),
    "float_str": lambda o: o.TensorProto(float_data=["a"]),
    "float_big": lambda o: list(o.TensorProto(float_data=[1e300]).float_data),
    "float_np": lambda o: list(o.TensorProto(float_data=np.arange(3, dtype="float32")).float_data),
    "float_round": lambda o: o.AttributeProto(f=0.1).f,
    "bytes_str": lambda o: o.AttributeProto(s="abc"),
    "bytes_ba": lambda o: o.AttributeProto(s=bytearray(b"abc")).s,
    "bytes_mv": lambda o: o.AttributeProto(s=memoryview(b"abc")).s,
    "str_int": lambda o: o.NodeProto(name=3),
    "enum_name": lambda o: o.AttributeProto(type="FLOAT").type,
    "enum_wrong": lambda o: o.AttributeProto(type="NOPE"),
    "enum_big": lambda o: o.AttributeProto(type=999),
    "enum_bool": lambda o: o.AttributeProto(type=True).type,
    "datatype_is_int": lambda o: o.TensorProto(data_type=999).data_type,
    "has_default": lambda o: o.NodeProto(name="").HasField("name"),
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
    "oneof_ctor": lambda o: o.TensorShapeProto.Dimension(dim_value=1, dim_param="a").WhichOneof("value"),
    "eq_diff_class": lambda o: o.NodeProto() == o.GraphProto(),
    "eq_none": lambda o: (o.NodeProto().__eq__(None), o.NodeProto() != 3),
    "eq_presence": lambda o: o.NodeProto(name="") == o.NodeProto(),
    "eq_nan": lambda o: o.AttributeProto(f=float("nan")) == o.AttributeProto(f=float("nan")),
    "eq_list": lambda o: (
        small_model(o).graph.node == small_model(o).graph.node,
        small_model(o).graph.node[0].input == ["x0"],
        small_model(o).graph.node[0].input == ("x0",),
    ),
    "lt": lambda o: o.NodeProto() < o.NodeProto(),
    "list_lt": lambda o: small_model(o).graph.node[0].input < ["z"],
    "add_lists": lambda o: small_model(o).graph.node[0].input.__add__(["a"]),
    "radd": lambda o: ["a"].__add__(small_model(o).graph.node[0].input),
    "mul": lambda o: small_model(o).graph.node[0].input * 2,
    "in_msgs": lambda o: (lambda m: (m.graph.node[0] in m.graph.node, "x0" in m.graph.node[0].input))(small_model(o)),
    "copy_method": lambda o: small_model(o).graph.node[0].input.copy(),
    "copy_copy_list": lambda o: copy.copy(small_model(o).graph.node[0].input),
    "deepcopy_list": lambda o: (lambda c: (type(c).__name__ != "x", list(c)))(
        copy.deepcopy(small_model(o).graph.node[0].input)
    ),
    "copy_msg": lambda o: (lambda m: (lambda c: (setattr(c.graph, "name", "z"), m.graph.name))(copy.copy(m)))(
        small_model(o)
    ),
    "deepcopy_memo": lambda o: (lambda m: (lambda p: p[0] is p[1])(copy.deepcopy([m, m])))(small_model(o)),
    "pickle": lambda o: pickle.loads(pickle.dumps(small_model(o))) == small_model(o),
    "str_node": lambda o: str(small_model(o)),
    "str_list": lambda o: str(small_model(o).graph.node[0].input),
    "repr_list": lambda o: repr(small_model(o).graph.node),
    "str_empty": lambda o: (str(o.NodeProto()), repr(o.NodeProto())),
    "format": lambda o: f"{small_model(o).graph.node[0]}",
    "bool_msg": lambda o: bool(o.NodeProto()),
    "bool_list": lambda o: (bool(small_model(o).graph.node), bool(o.NodeProto().input)),
    "len_msg": lambda o: len(o.NodeProto()),
    "iter_msg": lambda o: list(o.NodeProto()),
    "dict_of": lambda o: vars(o.NodeProto()),
    "setattr_new": lambda o: setattr(o.NodeProto(), "zz", 1),
    "setattr_class": lambda o: o.NodeProto.NAME_FIELD_NUMBER,
    "reversed": lambda o: [n.name for n in reversed(small_model(o).graph.node)],
    "sorted": lambda o: [n.name for n in sorted(small_model(o).graph.node, key=lambda n: n.name, reverse=True)],
    "sort_key": lambda o: (
        lambda m: (m.graph.node.sort(key=lambda n: n.name, reverse=True), [n.name for n in m.graph.node])
    )(small_model(o)),
    "sort_no_key": lambda o: small_model(o).graph.node.sort(),
    "sort_cmp": lambda o: (lambda n: (n.input.extend("ca"), n.input.sort(), list(n.input)))(
        small_model(o).graph.node[0]
    ),
    "merge_self": lambda o: (lambda m: (m.MergeFrom(m), len(m.graph.node)))(small_model(o)),
    "copyfrom_self": lambda o: (lambda m: (m.CopyFrom(m), len(m.graph.node)))(small_model(o)),
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
    "ctor_dict": lambda o: o.ModelProto(graph={"name": "q", "node": [{"op_type": "A"}]}),
    "ctor_none": lambda o: o.NodeProto(name=None, input=None),
    "ctor_msg_none": lambda o: o.ModelProto(graph=None).HasField("graph"),
    "ctor_wrong": lambda o: o.ModelProto(graph=o.NodeProto()),
    "ctor_list_in_sub": lambda o: o.ModelProto(graph=[1]),
    "iter_while_changing": lambda o: (
        lambda m: [(m.graph.node.remove(n) if n.name == "n1" else None, n.name)[1] for n in m.graph.node]
    )(small_model(o)),
    "iter_while_growing": lambda o: (
        lambda n: [(n.input.append("z") if len(n.input) < 4 else None, x)[1] for x in n.input]
    )(small_model(o).graph.node[0]),
    "parse_empty": lambda o: o.ModelProto.FromString(b"") == o.ModelProto(),
    "parse_str": lambda o: o.ModelProto.FromString("a"),
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
    "ser_det": lambda o: small_model(o).SerializeToString(deterministic=True) == small_model(o).SerializeToString(),
    "ser_partial": lambda o: small_model(o).SerializePartialToString() == small_model(o).SerializeToString(),
    "ser_pos": lambda o: small_model(o).SerializeToString(True),
    "bytesize": lambda o: small_model(o).ByteSize(),
    "listfields": lambda o: [(f.name, f.number) for f, _ in small_model(o).graph.ListFields()],
    "fields_by_number": lambda o: o.NodeProto.DESCRIPTOR.fields_by_number[3].name,
    "enum_items": lambda o: o.TensorProto.DataType.items()[:3],
    "enum_value": lambda o: o.TensorProto.DataType.Value("FLOAT"),
    "enum_name_np": lambda o: o.TensorProto.DataType.Name(np.int64(1)),
    "nested_class": lambda o: (
        o.TensorProto.Segment.__name__,
        o.TypeProto.Tensor.__qualname__,
        o.TypeProto.Tensor.DESCRIPTOR.full_name,
    ),
    "class_name": lambda o: (o.NodeProto.__name__, o.NodeProto.DESCRIPTOR.name),
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
    "which_bad": lambda o: o.TypeProto().WhichOneof(3),
    "has_repeated": lambda o: o.NodeProto().HasField("input"),
    "has_unknown": lambda o: o.NodeProto().HasField("zz"),
    "clear_unknown": lambda o: o.NodeProto().ClearField("zz"),
    "clear_ret": lambda o: (o.NodeProto(name="a").Clear(), small_model(o).ClearField("graph")),
    "init": lambda o: (o.NodeProto().IsInitialized(), o.NodeProto().FindInitializationErrors()),
    "hash": lambda o: hash(o.NodeProto()),
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
    "np_array": lambda o: np.array(o.TensorProto(dims=[1, 2]).dims).tolist(),
    "np_asarray_float": lambda o: str(np.asarray(o.TensorProto(float_data=[1.5]).float_data).dtype),
    "tuple": lambda o: tuple(o.TensorProto(dims=[1, 2]).dims),
    "star": lambda o: [*o.TensorProto(dims=[1, 2]).dims],
    "sum": lambda o: sum(o.TensorProto(dims=[1, 2]).dims),
    "ints_set": lambda o: (lambda t: (t.dims.__setitem__(0, 9), list(t.dims)))(o.TensorProto(dims=[1, 2])),
    "floats_set": lambda o: (lambda t: (t.float_data.__setitem__(0, 9), list(t.float_data)))(
        o.TensorProto(float_data=[1, 2])
    ),
    "floats_del": lambda o: (lambda t: (t.float_data.__delitem__(0), list(t.float_data)))(
        o.TensorProto(float_data=[1, 2])
    ),
    "assign_rep": lambda o: setattr(o.TensorProto(), "dims", [1]),
    "assign_msg": lambda o: setattr(o.ModelProto(), "graph", o.GraphProto()),
    "imul": lambda o: o.TensorProto(dims=[1]).dims.__imul__(2),
    "unknown_enum_kept": lambda o: (lambda a: (a.type, a.HasField("type"), a.SerializeToString()))(
        o.AttributeProto.FromString(b"\xa0\x01\xe7\x07")
    ),
    "ext": lambda o: o.NodeProto().Extensions,
    "ctor_kw_bytes_name": lambda o: o.NodeProto(name=b"ab").name,
    "surrogate": lambda o: o.NodeProto(name="\ud800"),
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
