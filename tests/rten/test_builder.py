"""Buffers that we build are read back equal, by our reader and by the module that the FlatBuffers compiler generated.

This module is part of rten-convert, and also says what our reader must find in the files of rten-convert.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.errors import EncodeError
from formats.flatbuffer import builder
from formats.flatbuffer.builder import NAME, FormLayout, FormTable, FormTables, Gap, TableForm
from formats.flatbuffer.fbs import ConstantSpan, Table
from formats.flatbuffer.rows import TableField
from formats.tensordata.sources.source import Literal, Source
from tests.rten.rten_forms import ENUMS, TABLES, UNIONS, build, expanded, read

generated = pytest.importorskip("rten_convert.schema_generated", reason="needs the package rten-convert")

RANGES = {"byte": (-(2**7), 2**7 - 1), "ubyte": (0, 2**8 - 1), "int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1)}
RANGES["ulong"] = (0, 2**64 - 1)
SCALARS = {name: st.integers(*limits) | st.sampled_from(limits) for name, limits in RANGES.items()}
SCALARS["bool"] = st.booleans()
SCALARS["float"] = st.floats(width=32, allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
WEIGHTS = {"FloatData": "f4", "Int32Data": "i4", "Int8Data": "i1", "UInt8Data": "u1"}


def enum_members(name: str) -> st.SearchStrategy[str | int]:
    """Return a strategy for members of an enum by name, and sometimes a number that it does not have."""
    values = ENUMS[name].values
    return st.sampled_from(list(values)) | st.integers(len(values), 255)


Rows = Mapping[str, tuple[TableField, ...]]


def fields(table: str, field: TableField, rows: Rows, depth: int) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a field; up to `depth` tables of `rows` may be nested in it."""
    element = field.type.strip("[]")
    if table in WEIGHTS:
        return st.lists(SCALARS[element], max_size=5).map(lambda x: np.array(x, WEIGHTS[table]).tobytes())
    if element in UNIONS:
        members = st.sampled_from([member for member in UNIONS[element] if member in rows])
        return members.flatmap(lambda member: st.tuples(st.just(member), tables(member, rows, depth - 1)))
    if element in TABLES:
        inner = tables(element, rows, depth - 1)
        return st.lists(inner, max_size=3) if element != field.type else inner
    scalar = TEXTS if element == "string" else SCALARS[element] if element in SCALARS else enum_members(element)
    return st.lists(scalar, max_size=4).map(tuple) if element != field.type else scalar


@st.composite
def tables(draw: st.DrawFn, name: str, rows: Rows = TABLES, depth: int = 6) -> Table:
    """Draw a table with any of its fields; below a `depth` of 0, only with the required ones."""
    table = {}
    for field in rows[name]:
        is_nested = field.type.strip("[]") in {*TABLES, *UNIONS}
        if field.required or ((depth > 0 or not is_nested) and draw(st.booleans())):
            table[field.name] = draw(fields(name, field, rows, depth))
    return table


def joined(segments: list[bytes | Source]) -> bytes:
    """Return a whole buffer."""
    return b"".join(segment if isinstance(segment, bytes) else segment.read() for segment in segments)


def as_read(name: str, table: Table, rows: Rows = TABLES) -> Table:
    """Return a table as a reader that knows these rows returns it: with the defaults of the schema."""
    result = {}
    for field in rows[name]:
        element = field.type.strip("[]")
        value = table.get(field.name, field.default)
        if value is None:
            continue
        if element in UNIONS:
            value = value[0], as_read(*value, rows)
        elif field.type in TABLES:
            value = as_read(element, value, rows)
        elif element in TABLES:
            value = [as_read(element, inner, rows) for inner in value]
        result[field.name] = value
    return result


def with_bytes(table: Any, buffer: bytes) -> Any:
    """Return a table that was read, with the elements of its constants instead of their places."""
    if isinstance(table, ConstantSpan):
        return buffer[table.offset : table.offset + table.nbytes]
    if isinstance(table, dict):
        return {name: with_bytes(value, buffer) for name, value in table.items()}
    if isinstance(table, list):
        return [with_bytes(value, buffer) for value in table]
    if isinstance(table, tuple) and table and isinstance(table[0], str):
        return table[0], with_bytes(table[1], buffer)
    return table


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=12)
@given(data=st.data())
def test_reading_gives_back_what_was_built(name: str, data: st.DataObject) -> None:
    """Any table can be the root; it is read with its values, and with the defaults of omitted ones."""
    table = data.draw(tables(name))
    buffer = joined(build(table, name))
    assert with_bytes(read(buffer, name), buffer) == as_read(name, table)


def camel_case(name: str) -> str:
    """Return the name of a field in the official object API."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def official_rows() -> Rows:
    """Return the rows of the fields that the official module also knows."""
    known = {name: getattr(generated, f"{name}T")() for name in TABLES if hasattr(generated, f"{name}T")}
    return {
        name: tuple(field for field in TABLES[name] if hasattr(table, camel_case(field.name)))
        for name, table in known.items()
    }


def official_value(field: TableField, value: Any) -> Any:
    """Return a value of the official object API as our reader returns it."""
    element = field.type.strip("[]")
    if element in UNIONS:
        member = type(value).__name__[:-1]
        return member, official_table(member, value)
    if element in ENUMS:
        return next((name for name, number in ENUMS[element].values.items() if number == value), value)
    if field.type in TABLES:
        return official_table(element, value)
    if element in TABLES:
        return [official_table(element, inner) for inner in value]
    if element != field.type:
        return tuple(np.asarray(value).tolist())
    return value.decode() if isinstance(value, bytes) else value


def official_table(name: str, table: Any) -> Table:
    """Return a table of the official object API as our reader returns it, with the elements of constants as bytes."""
    result = {}
    for field in OFFICIAL_ROWS[name]:
        value = getattr(table, camel_case(field.name))
        if value is not None:
            in_bytes = name in WEIGHTS
            result[field.name] = (
                np.asarray(value, WEIGHTS[name]).tobytes() if in_bytes else official_value(field, value)
            )
    return result


OFFICIAL_ROWS = official_rows()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", OFFICIAL_ROWS)
@settings(max_examples=8)
@given(data=st.data())
def test_the_official_reader_finds_what_was_built(name: str, data: st.DataObject) -> None:
    """The object API that the FlatBuffers compiler generated finds the same values in all fields that it knows."""
    table = data.draw(tables(name, OFFICIAL_ROWS))
    read_back = getattr(generated, f"{name}T").InitFromPackedBuf(joined(build(table, name)), 0)
    assert official_table(name, read_back) == as_read(name, table, OFFICIAL_ROWS)


CONVERTED = """<ir_version: 8, opset_import: ["": 17]>
agraph (float[N, 3, 9] x, bool c, float[3] r) => (float[N, 2, M] y, float[N, 2, M] z, float e)
<float[2, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, float[1] one = {1}> {
    y = Conv <strides = [2], pads = [1, 1], kernel_shape = [3]> (x, w)
    z = If (c) <then_branch = t () => (a) { a = Add (y, one) }, else_branch = u () => (b) { b = Clip (y, , one) }>
    e = Einsum <equation = "i,i->"> (r, r)
}"""


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_rten_convert_are_read_as_the_official_reader_does(version: int, tmp_path: Path) -> None:
    """Subgraphs, captures, names, shapes, attributes and constants inside and outside the buffer are the same."""
    parser = pytest.importorskip("onnx.parser")
    converter = pytest.importorskip("rten_convert.converter")
    source, target = tmp_path / "model.onnx", tmp_path / "model.rten"
    source.write_bytes(parser.parse_model(CONVERTED).SerializeToString())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rten-convert", str(source), str(target), *(["--v1"] if version == 1 else [])])
        converter.main()
    buffer = target.read_bytes()[0 if version == 1 else 32 :]
    table = with_bytes(read(buffer), buffer)
    assert table == official_table("Model", generated.ModelT.InitFromPackedBuf(buffer, 0))
    again = joined(build(table))
    assert with_bytes(read(again), again) == table


NODES = [{"name": "x", "data": ("ValueNode", {"shape": [{"name": "N"}, {"value": 3}], "dtype": "Float"})}]
MODEL = {"schema_version": 1, "graph": {"nodes": NODES, "inputs": (0,), "outputs": (0,)}}


def test_the_runtime_loads_what_was_built(runtime: Any, tmp_path: Path) -> None:
    """RTen's own verifier accepts the buffer as a version 1 file, and its graph computes correctly."""
    path = tmp_path / "identity.rten"
    path.write_bytes(joined(build(MODEL)))
    x = np.ones((2, 3), "f4")
    np.testing.assert_array_equal(x, runtime.run(path, {"x": x})[0])


def test_scalars_equal_to_their_default_are_not_written() -> None:
    """Default values are not written, but a nullable scalar with value 0 and a negative zero are."""
    assert build({"to": "Int32"}, "CastAttrs") == build({"to": 0}, "CastAttrs") == build({}, "CastAttrs")
    assert build({"seed": 0}, "DropoutAttrs") != build({}, "DropoutAttrs")
    assert read(joined(build({"seed": 0}, "DropoutAttrs")), "DropoutAttrs") == {"seed": 0}
    negative_zero = read(joined(build({"value": -0.0}, "FloatScalar")), "FloatScalar")
    assert struct.pack("<f", negative_zero["value"]) == struct.pack("<f", -0.0)


NAMES = TEXTS | st.text("abc", max_size=20)
NUMBERS = st.integers(0, 2**31 - 1)


@st.composite
def forms(draw: st.DrawFn) -> tuple[TableForm, list[int]]:
    """Draw a form of nodes, and how many values its gaps have."""
    kind = draw(st.sampled_from(["ValueNode", "ConstantNode", "OperatorNode"]))
    table = draw(tables(kind, depth=3))
    gaps: list[int] = []
    for name in [name for name in ("data_offset", "inputs", "outputs") if name in table and draw(st.booleans())]:
        gaps.append(1 if name == "data_offset" else len(table[name]))
        table[name] = Gap(len(gaps) - 1)
    return TableForm({**({"name": NAME} if draw(st.booleans()) else {}), "data": (kind, table)}), gaps


@settings(max_examples=200)
@given(data=st.data())
def test_tables_of_forms_are_written_like_all_others(data: st.DataObject) -> None:
    """A table that is written in one step has the same values at each place as one that is written value by value."""
    drawn = data.draw(st.lists(forms(), min_size=1, max_size=3))
    nodes = []
    for form, gaps in data.draw(st.lists(st.sampled_from(drawn), max_size=30)):
        values = tuple(tuple(data.draw(NUMBERS) for _ in range(count)) for count in gaps)
        nodes.append(FormTable(form, data.draw(NAMES), values))
    model = {"schema_version": 1, "graph": {"nodes": FormTables(nodes)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "FEW_USES", 1)
        assert joined(build(model)) == joined(build(expanded(model)))


def like_a_large_graph(count: int) -> Table:
    """Return a model in which all nodes, except the first few of each kind, are written in one step."""
    attributes = {"kernel_size": (3, 3), "pads": (1, 1, 1, 1), "auto_pad": "NotSet"}
    operator = {"type": "MaxPool", "attrs": ("MaxPoolAttrs", attributes), "inputs": Gap(0), "outputs": Gap(1)}
    small = {"shape": (1,), "dtype": "Float32", "data": ("FloatData", {"data": Gap(0)})}
    large = {"shape": (), "dtype": "Int8", "data_offset": Gap(0)}  # a number of eight bytes
    kinds = [("ValueNode", {"dtype": "Float"}), ("ConstantNode", small), ("ConstantNode", large)]
    value, constant, offset = (TableForm({"name": NAME, "data": kind}) for kind in kinds)
    unnamed = TableForm({"data": ("OperatorNode", operator)})
    named = TableForm({"name": NAME, **unnamed.table})
    nodes = []
    for index in range(count):
        name = "n" * (index % 9) + "é" * (index % 10 == 1)
        nodes += [FormTable(value, name), FormTable(constant, name, ((struct.pack("<f", index),),))]
        nodes += [FormTable(offset, name, ((index,),)), FormTable(named, name, ((index, -1), (index + 1,)))]
        nodes += [FormTable(unnamed, "", ((index, 7), (index + 1,)))] * (index % 3)
    return {"schema_version": 1, "graph": {"nodes": FormTables(nodes)}}


def test_the_official_reader_finds_the_tables_of_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are written in one step have the given names, ids, elements and offsets."""
    model, wholes, packed = like_a_large_graph(300), 0, FormLayout.packed

    def counted(*arguments: Any) -> bytes:
        nonlocal wholes
        wholes += 1
        return packed(*arguments)

    monkeypatch.setattr(FormLayout, "packed", counted)
    buffer = joined(build(model))
    assert wholes > len(model["graph"]["nodes"]) / 2
    assert joined(build(expanded(model))) == buffer
    assert official_table("Model", generated.ModelT.InitFromPackedBuf(buffer, 0)) == as_read("Model", expanded(model))


def test_graphs_in_tables_of_forms() -> None:
    """A form may contain tables of forms, and they do not fill its gaps."""
    inner = TableForm({"name": NAME, "data": ("ValueNode", {})})
    branch = {"nodes": FormTables(FormTable(inner, f"inner{index}") for index in range(20))}
    operator = {"type": "If", "attrs": ("IfAttrs", {"then_branch": branch}), "inputs": Gap(0)}
    outer = TableForm({"name": NAME, "data": ("OperatorNode", operator)})
    nodes = FormTables(FormTable(outer, f"node{n}", ((n,),)) for n in range(20))
    model = {"schema_version": 1, "graph": {"nodes": nodes}}
    assert joined(build(model)) == joined(build(expanded(model)))


@pytest.mark.parametrize(
    ("name", "ids", "where", "message"),
    [("fine", (1 << 31,), "inputs", "does not fit"), ("\ud800", (1,), "name", "UTF-8")],
)
def test_what_has_no_place_in_tables_of_forms_is_refused(name: str, ids: tuple[int], where: str, message: str) -> None:
    """Wrong values give the same error as in tables that are written value by value, with a layout and without."""
    form = TableForm({"name": NAME, "data": ("OperatorNode", {"inputs": Gap(0)})})
    for count in (0, 1, 30):
        nodes = [FormTable(form, name, (ids,)), *[FormTable(form, "okay", ((1,),))] * count]  # written from the end
        with pytest.raises(EncodeError, match=message) as caught:
            build({"graph": {"nodes": FormTables(nodes)}})
        assert (caught.value.where or "").split(".")[:3] == ["Model", "graph", "nodes[0]"]
        assert (caught.value.where or "").endswith(where)


def test_tables_of_forms_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are written in one step count as many, and are nested as deeply, as those written value by value."""
    model = like_a_large_graph(200)
    count = str(expanded(model)).count("{")  # each is a table
    monkeypatch.setattr(builder, "MAX_TABLES", count)
    assert build(model)
    monkeypatch.setattr(builder, "MAX_TABLES", count - 1)
    with pytest.raises(EncodeError, match="the graph is too large"):
        build(model)


def test_sources_become_segments() -> None:
    """Elements of a constant and texts that are sources are not copied, and their offsets are aligned."""
    weights, text = Literal(bytes(range(12))), Literal("Größe".encode())
    constant = {"shape": (3,), "data": ("FloatData", {"data": weights})}
    nodes = [{"name": text, "data": ("ConstantNode", constant)}, *NODES]
    segments = build({"schema_version": 1, "graph": {"nodes": nodes}})
    assert [segment for segment in segments if not isinstance(segment, bytes)] == [text, weights]
    buffer = joined(segments)
    node = read(buffer)["graph"]["nodes"][0]
    span = node["data"][1]["data"][1]["data"]
    assert (node["name"], span.nbytes, span.offset % 4) == ("Größe", 12, 0)
    assert bytes(range(12)) == buffer[span.offset : span.offset + span.nbytes]


def test_the_size_is_a_multiple_of_eight() -> None:
    """The size is a multiple of 8, so that buffers can follow each other and numbers of 8 bytes are aligned."""
    constant = {"shape": (), "dtype": "Int8", "data_offset": 1 << 40}
    for text in ("", "a", "ab", "abc", "abcd"):
        buffer = joined(build({"graph": {"nodes": [{"name": text, "data": ("ConstantNode", constant)}]}}))
        assert len(buffer) % 8 == 0
        assert read(buffer)["graph"]["nodes"][0]["data"] == ("ConstantNode", constant)


def test_the_root_and_its_vtable_come_first() -> None:
    """The start of the file identifies it, whatever other tables have the same shape."""
    nodes = [
        {"data": ("OperatorNode", {"attrs": ("RandomNormalAttrs", {"mean": 1.0, "scale": 1.0, "seed": 1.0})})}
    ] * 99
    buffer = joined(build({"schema_version": 1, "graph": {"nodes": nodes}, "metadata": {}}))
    (root,) = struct.unpack_from("<I", buffer)
    vtable = root - struct.unpack_from("<i", buffer, root)[0]
    assert 0 < root < 16
    assert 0 < vtable < 64


def test_the_same_model_gives_the_same_bytes() -> None:
    """Building again, or from a dict in another order, gives the same bytes."""
    reordered = dict(reversed(MODEL.items()))
    assert build(MODEL) == build(MODEL) == build(reordered)


@pytest.mark.parametrize(
    ("root", "table", "where", "message"),
    [
        ("Model", {}, "Model.graph", "not valid without"),
        ("Model", {"graph": {}, "grph": {}}, "Model", "no field grph"),
        ("Model", {"graph": {"nodes": [{}, {"nam": ""}]}}, "Model.graph.nodes[1]", "no field nam"),
        ("Node", {"data": ("Node", {})}, "Node.data", "no member Node"),
        ("CastAttrs", {"to": "Int64"}, "CastAttrs.to", "no member Int64"),
        ("CastAttrs", {"to": 256}, "CastAttrs", "does not fit"),
        ("GatherAttrs", {"axis": 1 << 31}, "GatherAttrs", "does not fit"),
        ("GatherAttrs", {"axis": 0.5}, "GatherAttrs", "does not fit"),
        ("EluAttrs", {"alpha": 1e39}, "EluAttrs", "does not fit"),
        ("Graph", {"inputs": (1, -1)}, "Graph.inputs", "does not fit"),
        ("FloatData", {"data": b"123"}, "FloatData.data", "3 bytes"),
        ("Dim", {"name": "\ud800"}, "Dim.name", "UTF-8"),
    ],
)
def test_what_has_no_place_is_refused(root: str, table: Table, where: str, message: str) -> None:
    """The error about a value that does not fit says what is wrong, and where in the model."""
    with pytest.raises(EncodeError, match=message) as caught:
        build(table, root)
    assert where == caught.value.where


def nested_model(levels: int) -> Table:
    """Return a model of this many nested graphs, the innermost with a constant."""
    data = ("FloatData", {"data": bytes(4)})
    graph = {"nodes": [{"data": ("ConstantNode", {"shape": (), "data": data})}]}
    for _ in range(levels):
        graph = {"nodes": [{"data": ("OperatorNode", {"type": "If", "attrs": ("IfAttrs", {"then_branch": graph})})}]}
    return {"schema_version": 1, "graph": graph}


def test_nesting_ends_where_that_of_rten_does() -> None:
    """14 nested graphs are built and read, 15 are refused, and so is a table that contains itself."""
    assert read(joined(build(nested_model(14))))["schema_version"] == 1
    with pytest.raises(EncodeError, match="nested too deeply"):
        build(nested_model(15))
    endless: Table = {}
    endless["nodes"] = [{"data": ("OperatorNode", {"attrs": ("LoopAttrs", {"body": endless})})}]
    with pytest.raises(EncodeError, match="nested too deeply"):
        build({"graph": endless})


def test_more_tables_than_rten_reads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph with more tables than RTen reads is refused, and the error says what to omit."""
    monkeypatch.setattr(builder, "MAX_TABLES", 5)
    assert build(MODEL | {"graph": {"nodes": [{}] * 3}})
    with pytest.raises(EncodeError, match="the graph is too large"):
        build(MODEL | {"graph": {"nodes": [{}] * 4}})


class Claimed(Literal):
    """A source that has only a size."""

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Return just under 2 GiB."""
        return (1 << 31) - 200


def test_more_than_two_gibibytes_are_refused_before_anything_is_read() -> None:
    """More than 2 GiB is refused before anything is read, and the error says what to do."""
    constants = [{"data": ("ConstantNode", {"shape": (), "data": ("Int8Data", {"data": Claimed(b"")})})}]
    assert build({"graph": {"nodes": constants}})
    with pytest.raises(EncodeError, match="version 2"):
        build({"graph": {"nodes": constants * 2}})
