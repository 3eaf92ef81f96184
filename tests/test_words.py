"""Tests of sizes as text, of lists of names, and of suggestions for names that do not exist."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import formats
from formats.options import size
from formats.words import SIZE_UNITS, counted, in_units, joined, listed, nearest, parse_size


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_999, "1.0 MB"),
        (410_200_000, "410.2 MB"),
        (1_340_000_000, "1.3 GB"),
        (2_500_000_000_000, "2500.0 GB"),
    ],
)
def test_sizes_are_in_powers_of_1000(nbytes: int, text: str) -> None:
    """Sizes have one decimal and the largest unit in which they are at least 1."""
    assert text == in_units(nbytes)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1k", 1024),
        ("1K", 1024),
        ("3M", 3 << 20),
        ("2G", 2 << 30),
        ("1kB", 1000),
        ("5MB", 5_000_000),
        ("5GiB", 5 << 30),
        ("5gib", 5 << 30),
        ("1.5G", 3 << 29),
        ("1.5 GB", 1_500_000_000),
        ("64k", 65_536),
        ("64KiB", 65_536),
        ("1_000_000", 1_000_000),
        (" 2 TB ", 2 * 10**12),
        ("100 bytes", 100),
        ("100B", 100),
        ("1.1K", 1126),
    ],
)
def test_sizes_have_units(text: str, nbytes: int) -> None:
    """K, M, G and T are powers of 1024, also with iB; with a B, they are powers of 1000."""
    assert nbytes == parse_size(text)


def test_sizes_are_exact() -> None:
    """A size of any number of digits is the exact product of number and unit, without the part of a byte."""
    rng = random.Random(1)
    for _ in range(3000):
        whole = str(rng.randrange(10 ** rng.randrange(1, 20)))
        number = f"{whole}.{rng.randrange(10**12):0{rng.randrange(1, 13)}}" if rng.random() < 0.7 else whole
        unit = rng.choice([name for name, nbytes in SIZE_UNITS.items() if "." not in number or nbytes > 1])
        cased = "".join(rng.choice([letter.lower(), letter]) for letter in unit)
        exact = Fraction(number) * SIZE_UNITS[unit]
        text = f"{number}{rng.choice(['', ' '])}{cased}"
        if 0 < exact < 1:
            with pytest.raises(ValueError, match="less than a byte"):
                parse_size(text)
        else:
            assert int(exact) == parse_size(text), text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "K",
            ".",
            ".5G",
            "1.G",
            "1.5",
            "-1",
            "+1",
            "1,5G",
            "1e9",
            "5X",
            "5GiBs",
            "5 G B",
            "1__0",
            "_1",
            "1_",
        ),
        *("٣K", "0x10", "1.5.5G", "0.0001K", "1._5G", "5Gi", "nan", "inf", "9" * 5000 + "."),
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """A text that is not a size is refused; the error of an option has examples of sizes."""
    with pytest.raises(ValueError, match=r"is not a size such as 4096|less than a byte"):
        parse_size(text)
    assert '4096, "64K" or "1.5GB"' in size().words


@pytest.mark.parametrize(
    ("count", "options", "text"),
    [
        (0, {}, ""),
        (3, {}, "x0, x1, x2"),
        (4, {}, "x0, x1, x2 and 1 more"),
        (2000, {}, "x0, x1, x2 and 1,997 more"),
        (4, {"joint": "; ", "noun": "node"}, "x0; x1; x2; and 1 more node"),
        (5, {"noun": "value"}, "x0, x1, x2 and 2 more values"),
    ],
)
def test_what_is_left_out_is_counted(count: int, options: dict[str, str], text: str) -> None:
    """A list has its first names, and the number of all others."""
    assert listed([f"x{number}" for number in range(count)], 3, **options) == text


def test_nouns_follow_their_numbers() -> None:
    """A counted noun is singular after 1 only, and numbers have commas."""
    assert ["0 places", "1 place", "1,000 places"] == [counted(number, "place") for number in (0, 1, 1000)]


def test_names_are_joined() -> None:
    """Commas are between all names but the last two."""
    assert ["", "a", "a and b", "a, b and c"] == [joined("abc"[:count]) for count in range(4)]
    assert "a or b" == joined(["a", "b"], "or")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose node has an output that is like the names that are asked for."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["data", "weight"], ["x1"]), helper.make_node("Relu", ["x1"], ["score"])]
    kinds = [value("data", TensorProto.FLOAT, ["batch"])], [value("score", TensorProto.FLOAT, ["batch"])]
    graph = helper.make_graph(nodes, "g", *kinds, [numpy_helper.from_array(np.ones(1, "float32"), "weight")])
    save(helper.make_model(graph), path := tmp_path_factory.mktemp("names") / "m.onnx")
    return path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"outputs": "score", "inputs": "x"}, "no value is called 'x'; the only input is data"),
        ({"outputs": "x"}, "no value is called 'x'; the only output is score"),
        ({"outputs": "scores"}, "no value is called 'scores'; did you mean score?"),
        ({"rename": {"x": "y"}}, "no value is called 'x'; there are data, score"),
        ({"dim": {"bach": 1}}, "no dim is called 'bach'; did you mean batch?"),
        ({"dim": {"x:0": 1}}, "no input is called 'x'; the only input is data"),
        ({"weights": {"x": np.ones(1, "float32")}}, "such as 'x'; the only weight is weight"),
        ({"metadata": {"x": ""}}, "the metadata has no key 'x', so it cannot be removed; there is none"),
    ],
)
def test_names_are_suggested_by_their_kind(model: Path, given: dict[str, object], words: str) -> None:
    """An unknown input gets names of inputs, an output those of outputs, and so do dims, weights and keys."""
    verb = formats.extract if "outputs" in given else formats.edit
    with pytest.raises(formats.EditError) as caught:
        verb(model, model.with_name("new.onnx"), **given)
    assert str(caught.value).endswith(words)


def test_inner_values_are_suggested_if_they_are_almost_the_same() -> None:
    """A value inside of the graph can be meant, too, if only a letter is wrong."""
    assert nearest("/conv/Relu_outptu_0", ["data"], ["/conv/Relu_output_0", "data"]).endswith("/conv/Relu_output_0?")
    assert nearest("x", ["data"], ["x1", "data"]) == "; there is only data"
