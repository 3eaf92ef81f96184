"""Tests of the rows of RTen's tables: they agree with the generated module of an older rten-convert."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

import pytest

from formats.flatbuffer.rows import TableField
from tests.rten.rten_forms import ENUMS, TABLES, UNIONS

official = pytest.importorskip("rten_convert.schema_generated", reason="needs the package rten-convert")

PYTHON_TYPES = {"bool": "bool", "float": "float", "string": "str"}
SLOT_TYPES = {"bool": "Bool", "float": "Float32", "int": "Int32", "uint": "Uint32", "ulong": "Uint64"}
SLOT_TYPES |= {"ubyte": "Uint8", "ushort": "Uint16"}
NBYTES = {"byte": 1, "ubyte": 1, "float": 4, "int": 4, "uint": 4}

OFFICIAL_TABLES = sorted(
    name for name in dir(official) if inspect.isclass(getattr(official, name)) and hasattr(official, f"{name}Start")
)
OFFICIAL_ENUMS = sorted(
    name
    for name, value in vars(official).items()
    if inspect.isclass(value) and name not in OFFICIAL_TABLES
    if all(isinstance(number, int) for key, number in vars(value).items() if not key.startswith("__"))
)
CLASS_TEXTS = dict(
    re.findall(r"^class (\w+)\(object\):\n(.*?)(?=^class |\Z)", inspect.getsource(official), re.M | re.S)
)
ANNOTATION = r"self\.(\w+) = .*# type: (.*)"


class SlotRow(NamedTuple):
    """The calls with which a writer fills one slot."""

    slot: int
    name: str
    type: str
    default: Any


class Recorder:
    """Replaces a flatbuffers builder, and records the calls of the generated functions."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, Any]] = []
        self.element_nbytes = 0
        self.slot_count = 0

    def __getattr__(self, name: str) -> Any:
        slot_type = re.fullmatch("Prepend(.*?)(TRelative)?Slot", name)
        assert slot_type is not None, name
        return lambda slot, value, default: self.rows.append((slot, slot_type[1], default))

    def StartObject(self, slot_count: int) -> None:
        """Begin a table."""
        self.slot_count = slot_count

    def StartVector(self, element_nbytes: int, count: int, alignment: int) -> None:
        """Begin a vector."""
        self.element_nbytes = element_nbytes


def snake_case(name: str) -> str:
    """Return a CamelCase name as the schema writes it."""
    return re.sub("(?<=.)([A-Z])", r"_\1", name).lower()


def members(holder: Any) -> dict[str, int]:
    """Return the members of a generated enum or union."""
    return {name.rstrip("_"): number for name, number in vars(holder).items() if not name.startswith("__")}


def official_slots(table: str) -> tuple[int, list[SlotRow]]:
    """Return the number of slots of a table, and what its generated functions write there."""
    recorder = Recorder()
    getattr(official, f"{table}Start")(recorder)
    prefix = f"{table}Add"
    names = [name for name in dir(official) if name.startswith(prefix) and inspect.isfunction(getattr(official, name))]
    rows = []
    for name in names:
        getattr(official, name)(recorder, 1)
        slot, slot_type, default = recorder.rows.pop()
        rows.append(SlotRow(slot, snake_case(name.removeprefix(prefix)), slot_type, default))
    return recorder.slot_count, sorted(rows)


def our_slots(table: str) -> list[SlotRow]:
    """Return what our rows say about the slots of a table, in the same form."""
    rows = []
    for field in TABLES[table]:
        slot, slot_type, default = field.slot, "UOffset", field.default
        if field.type in UNIONS:
            rows.append(SlotRow(slot, f"{field.name}_type", "Uint8", 0))
            slot += 1
        elif field.type in ENUMS:
            slot_type = SLOT_TYPES[ENUMS[field.type].base]
            default = ENUMS[field.type].values[str(default)] if not field.optional else None
        elif field.type in SLOT_TYPES:
            slot_type = SLOT_TYPES[field.type]
        is_scalar = slot_type != "UOffset"
        rows.append(SlotRow(slot, field.name, slot_type, default if is_scalar else 0))
    return rows


def python_type(field: TableField) -> str:
    """Return the annotation of a field in the object API of an older version."""
    element = field.type.strip("[]")
    if element in UNIONS:
        known = members(getattr(official, element))
        return f"Union[{', '.join(['None', *(f'{name}T' for name in UNIONS[element] if name in known)])}]"
    name = f"{element}T" if element in TABLES else PYTHON_TYPES.get(element, "int")
    if field.optional or field.type in TABLES:
        return f"Optional[{name}]"
    return f"List[{name}]" if element != field.type else name


@pytest.mark.parametrize("name", OFFICIAL_TABLES)
def test_slots_agree(name: str) -> None:
    """Every slot has the same place, name, type and default, and our additional slots are all at the end."""
    slot_count, rows = official_slots(name)
    ours = our_slots(name)
    assert len(rows) == slot_count
    assert ours[:slot_count] == rows
    assert [row.slot for row in ours] == list(range(len(ours)))


@pytest.mark.parametrize("name", OFFICIAL_TABLES)
def test_types_agree(name: str) -> None:
    """The type of a field, and of the elements of a vector or a union, is that of the object API."""
    theirs = {snake_case(field): type_name for field, type_name in re.findall(ANNOTATION, CLASS_TEXTS[f"{name}T"])}
    slot_count, _ = official_slots(name)
    ours = {field.name: python_type(field) for field in TABLES[name] if field.slot < slot_count}
    assert {key: value for key, value in theirs.items() if key in ours} == ours


@pytest.mark.parametrize("name", OFFICIAL_TABLES)
def test_vector_elements_agree_in_size(name: str) -> None:
    """The elements of a vector have the size that the generated functions use; tables are offsets."""
    slot_count, _ = official_slots(name)
    for field in TABLES[name]:
        if field.type.startswith("[") and field.slot < slot_count:
            recorder = Recorder()
            camel_case = "".join(word.capitalize() for word in field.name.split("_"))
            getattr(official, f"{name}Start{camel_case}Vector")(recorder, 1)
            assert NBYTES.get(field.type.strip("[]"), 4) == recorder.element_nbytes


@pytest.mark.parametrize("name", OFFICIAL_ENUMS)
def test_members_agree(name: str) -> None:
    """Every member of an enum or a union has the same number, and our additional members come after the last."""
    theirs = members(getattr(official, name))
    ours = (
        {"NONE": 0} | {member: tag for tag, member in enumerate(UNIONS[name], 1)}
        if name in UNIONS
        else ENUMS[name].values
    )
    assert theirs.items() <= ours.items()
    assert all(number > max(theirs.values()) for member, number in ours.items() if member not in theirs)


def test_everything_official_is_known() -> None:
    """Every table, enum and union of that version is known."""
    assert set(OFFICIAL_TABLES) <= set(TABLES)
    assert set(OFFICIAL_ENUMS) <= set(ENUMS) | set(UNIONS)


def test_every_type_is_known() -> None:
    """Every row names a scalar, a string, or a type that has rows itself."""
    known = {*TABLES, *ENUMS, *UNIONS, *SLOT_TYPES, "string", "byte"}
    assert {field.type.strip("[]") for fields in TABLES.values() for field in fields} <= known
    assert {member for union in UNIONS.values() for member in union} <= set(TABLES)
