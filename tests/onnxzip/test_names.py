"""Names of entries: readable, allowed everywhere, and all different."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.onnxzip.names import CUT_BYTES, EntryNames, are_entry_names, is_entry_name

CASES = [
    ("encoder.layer.0.weight", "encoder_layer_0_weight"),
    ("/model/MatMul_output::0", "model_MatMul_output_0"),
    ("0.weight", "_0_weight"),
    ("__MODEL_PROTO", "MODEL_PROTO"),
    ("größe", "gr_e"),
    ("重み", "here"),
    ("", "here"),
    ("../../etc/passwd", "etc_passwd"),
    ("C:\\weights", "C_weights"),
    ("a\0b", "a_b"),
    ("a__b__", "a_b"),
    ("NUL", "NUL_2"),
    ("com1", "com1_2"),
    ("com10", "com10"),
    ("x" * 300, "x" * CUT_BYTES),
    ("\ud800", "here"),
]


@pytest.mark.parametrize(("wish", "name"), CASES)
def test_name_reads_like_the_tensors(wish: str, name: str) -> None:
    """A tensor's name becomes a similar identifier, or its place if no character is left."""
    assert EntryNames().add(wish, "here") == name


def test_clashes_are_numbered_without_regard_to_case() -> None:
    """Names that differ only in case or punctuation get numbers, and no number makes a name that exists."""
    names = EntryNames()
    assert ["a_b", "A_B_2", "a_b_3", "a_b_2_2", "a_b_4"] == [
        names.add(wish, "here") for wish in ("a.b", "A.B", "a/b", "a_b_2", "a b")
    ]


def test_nothing_usable_still_gives_a_name() -> None:
    """If no suggested name has a usable character, the name is "tensor"."""
    assert EntryNames().add("", "€") == "tensor"


@pytest.mark.parametrize(("name", "allowed"), [("w\n", False), ("w٣", False), ("con_", True), ("_0", True)])
def test_grammar(name: str, allowed: bool) -> None:
    """An entry's name is a C identifier in ASCII, whole; the vectors have more of them."""
    assert is_entry_name(name) is allowed


@given(st.lists(st.text()))
def test_any_names_give_allowed_and_different_ones(wishes: list[str]) -> None:
    """Whatever names tensors have, their entries have allowed names that differ even without case."""
    names = EntryNames()
    given_names = [names.add(wish, f"graph.initializer[{index}]") for index, wish in enumerate(wishes)]
    assert all(is_entry_name(name) and not name.endswith("_") for name in given_names)
    assert len({name.lower() for name in given_names}) == len(wishes)


@given(st.lists(st.sampled_from(["a", "A", "a_2", "a.2", "a_2_2", "a_3"])))
def test_names_are_deterministic(wishes: list[str]) -> None:
    """The same tensors in the same order get the same names, each with the same beginning as its tensor's name."""
    first, second = EntryNames(), EntryNames()
    given_names = [first.add(wish) for wish in wishes]
    assert given_names == [second.add(wish) for wish in wishes]
    assert all(name.startswith(re.sub(r"\W", "_", wish)) for name, wish in zip(given_names, wishes, strict=True))


NAMES = ["w", "_0", "0", "a.b", "é", "w" * 256, "con", "COM1", "__MODEL_PROTO_a", "__x", "files/a.b", "files/nul.c", ""]


@pytest.mark.parametrize("name", NAMES)
def test_list_of_names_has_the_verdict_of_each(name: str) -> None:
    """A list of names is allowed if each of them is."""
    assert is_entry_name(name) == are_entry_names(["a", name, "b"])
