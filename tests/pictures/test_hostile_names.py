"""No name in a model becomes an element, an attribute or a change of direction in a picture or a table."""

from __future__ import annotations

import unicodedata
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import formats
from formats import Graph, Model, Node, OperatorSetId, StringStringEntry, Tensor
from formats.tensordata.sources.source import Literal
from tests.commands import run

NAMES = {
    "plain": "model.layer.weight",
    "script": "<script>alert(1)</script>",
    "attribute": "\"' onload='alert(1)' x=\"",
    "end of a section": "]]>--></title></style></svg></table><img src=x onerror=alert(1)>",
    "entity": "&lt;b&gt; &#60;b&#62; &amp; &nosuch; &",
    "place in a template": "{wide} {0} %s %(title)s ${x}",
    "bidi": "\u202eabc\u2066def\u2069\u200f\u061c",
    "control": "nul\0 bell\7 escape\x1b[31m line\n\r\u2028 \ufffe\ufdd0",
    "combining": "a" + "\u0300" * 200,
    "wide": "\N{CJK UNIFIED IDEOGRAPH-6A21}" * 200,
    "words": "module.layer/" * 300,
    "long": "x" * 10_000,
}
MAX_BYTES = 60_000  # of the pictures of models with a name of 10,000 characters in every place
# The elements that have no end tag, and the attributes whose values a browser loads or runs.
VOID = {"meta", "br", "img", "link", "input", "hr"}


def named(name: str, value: float) -> Model:
    """Return a model in which everything has this name."""
    big = formats.from_numpy(np.full(3000, value, "float32"), name)
    other = Tensor(name=f"{name}.{name}", dims=[1000], data_type=1, raw_data=Literal(bytes(4000)), doc_string=name)
    node = Node(name=name, op_type=name, domain=name, input=[name, f"{name}.{name}"], output=[f"{name}/y"])
    graph = Graph(
        name=name,
        node=[node],
        initializer=[big, other],
        input=[formats.make_value_info(f"{name}/x", "float32", [name])],
        output=[formats.make_value_info(f"{name}/y", "float32", [name])],
        doc_string=name,
    )
    return Model(
        ir_version=8,
        opset_import=[OperatorSetId("", 17), OperatorSetId(name, 1)],
        graph=graph,
        producer_name=name,
        metadata_props=[StringStringEntry(key=name, value=f"{name}{value}")],
    )


class Seen(HTMLParser):
    """The elements of a text of HTML with the names of their attributes, which must be closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.opened: list[str] = []
        self.feed(text)
        self.close()
        assert not self.opened

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(sorted(name for name, _ in attrs))))
        if tag not in VOID:
            self.opened.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(sorted(name for name, _ in attrs))))

    @override
    def handle_endtag(self, tag: str) -> None:
        assert tag == self.opened.pop()


def elements_of_xml(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """Return the elements of a text of XML with the names of their attributes."""
    return {(each.tag, tuple(sorted(each.attrib))) for each in ET.fromstring(text).iter()}


def all_texts(folder: Path, name: str) -> dict[str, str]:
    """Return every picture and every table of models with this name everywhere."""
    folder.mkdir()
    files = [folder / "a.onnx", folder / "b.onnx"]
    for value, file in enumerate(files):
        formats.save(named(name, value), file)
    texts: dict[str, str] = {}
    for end in ("svg", "html"):
        for verb, sources in (("inspect", files[:1]), ("diff", files)):
            place = folder / f"{verb}.{end}"
            assert run("formats", verb, *sources, "--picture", place).exit_code in (0, 1)
            texts[f"{verb}.{end}"] = place.read_text("utf-8")
    results: dict[str, Any] = {
        "Inspection": formats.inspect(files[0], nodes=True),
        "Comparison": formats.diff(*files),
        "Verification": formats.verify(files[0]),
        "ConversionReport": formats.convert(files[0], folder / "c.onnxz"),
        "Model": formats.load(files[0]),
    }
    texts |= {f"{kind} as a table": result._repr_html_() for kind, result in results.items()}
    return texts


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[str, tuple[str, ...]]]]:
    """The elements that each text has if all names are plain."""
    texts = all_texts(tmp_path_factory.mktemp("plain") / "models", NAMES["plain"])
    return {key: elements_of_xml(text) if key.endswith("svg") else Seen(text).found for key, text in texts.items()}


@pytest.mark.parametrize("kind", NAMES)
def test_no_name_is_more_than_text(
    kind: str, tmp_path: Path, plain: dict[str, set[tuple[str, tuple[str, ...]]]]
) -> None:
    """Every picture and table of models with such names is well-formed, and has only the elements that any has."""
    for key, text in all_texts(tmp_path / "models", NAMES[kind]).items():
        found = elements_of_xml(text) if key.endswith("svg") else Seen(text).found
        allowed = plain[key] | {("rect", each) for tag, each in plain["inspect.html"] if tag == "rect"}
        assert {tag for tag, _ in found} <= {tag.rpartition("}")[2] for tag, _ in allowed} | {
            tag for tag, _ in allowed
        }, key
        names = {name for _, names in allowed for name in names}
        assert {name for _, each in found for name in each} <= names, key
        strange = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")} - {"\n"}
        assert not strange, (key, strange)
        assert len(text) < MAX_BYTES, key
