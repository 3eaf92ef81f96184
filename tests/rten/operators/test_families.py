"""All facts about an operator are in one module, that of its family, and element types have names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import pytest

import formats.rten
from formats.rten import spec as spec_module
from formats.rten.convert.legalize import legalize
from formats.rten.convert.refusal import Refused
from formats.rten.operators import BY_DOMAIN, SPECS, activation, rules
from formats.rten.operators.families import FAMILIES as NAMES
from formats.rten.operators.reduction import ReduceMax, reduction
from formats.rten.spec import OperatorSpec, Outputs, Row, ToRten
from formats.rten.target import ALL_RELEASES, RELEASES, RTEN_0_27, Target
from tests.rten.rten_cases import CASES
from tests.rten.rten_operators import ALL_SPECS

ROOT = Path(__file__).parents[3]
FAMILIES = [import_module(f"formats.rten.operators.{name}") for name in NAMES]
PACKAGE = Path(formats.rten.__file__).parent
GENERATED = ("schema.py", "families.py")
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in GENERATED)
WRITING = {"op": 0, "op_outputs": 0, "copy": 1, "make_node": 0, "match": slice(1, None), "maker": 1, "has": 0}
TYPE_WORDS = ("elem_type", "data_type", "dtype", "to")


def test_no_operator_is_there_twice() -> None:
    """Each operator of each domain has one spec, and the spec has the operator's name."""
    assert len(ALL_SPECS) == len(BY_DOMAIN)
    for family in FAMILIES:
        wrong = [name for name, value in vars(family).items() if isinstance(value, OperatorSpec) and value.name != name]
        assert wrong == [], family.__name__


def test_operators_of_rten_have_a_rule_for_dims() -> None:
    """Nothing is known of the dims of a few operators only; of all others that RTen has, a rule says something."""
    without = {name for name, spec in SPECS.items() if spec.to_rten.row and spec.outputs.dims is spec_module.unknown}
    assert without == {"DFT", "Multinomial", "STFT", "Scatter", "SequenceEmpty", "Upsample"}


def test_operators_of_other_domains_are_rewritten_or_native() -> None:
    """RTen has no operators of other domains, so each has a rewriting, or a kernel for RTen's ONNX loader."""
    others = [spec for spec in ALL_SPECS if spec.domain]
    assert [spec.name for spec in others if not (spec.to_rten.rewritings or spec.onnx_loader.is_native)] == []


def _written(tree: ast.Module) -> Iterator[str]:
    """Return the names of operators that a module writes, or looks for among the nodes that it wrote."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = WRITING.get(name, slice(0))
            names = node.args[place] if isinstance(place, slice) else node.args[place : place + 1]
            yield from (each.value for each in names if isinstance(each, ast.Constant) and isinstance(each.value, str))


def test_operators_that_are_written_are_those_of_onnx() -> None:
    """A rewriting writes an operator by its name, and each such name is that of an operator of ONNX."""
    written = {name for path in MODULES for name in _written(ast.parse(path.read_text(encoding="utf-8")))}
    assert len(written) > 80
    assert sorted(written - SPECS.keys()) == []


def _asked(tree: ast.Module) -> Iterator[str]:
    """Return the operators in comparisons and in tables of a module."""
    tables = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    for place in (*tables, *(node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.Match))):
        yield from (node.value for node in ast.walk(place) if isinstance(node, ast.Constant) and node.value in SPECS)


def test_only_families_know_operators() -> None:
    """Modules outside of the families write operators, but ask for none, and import no family."""
    outside = [path for path in MODULES if "operators" not in path.relative_to(PACKAGE).parts]
    for path in outside:
        text = path.read_text(encoding="utf-8")
        assert list(_asked(ast.parse(text))) == [], path
        assert not set(re.findall(r"from formats\.rten\.operators(?:\.| import )(\w+)", text)) & NAMES.keys(), path


def _type_numbers(tree: ast.Module) -> Iterator[int]:
    """Return the lines in which an element type is a number: as a keyword, or compared with a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in TYPE_WORDS and _is_number(node.value):
            yield node.value.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = {ast.unparse(side).rpartition(".")[2] for side in sides}
            items = [item for side in sides for item in (side.elts if isinstance(side, ast.Tuple) else [side])]
            if words & set(TYPE_WORDS) and any(map(_is_number, items)):
                yield node.lineno


def _is_number(node: ast.expr) -> bool:
    """Return whether a node is an integer other than 0, which is not an element type."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value != 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_element_types_have_names(path: Path) -> None:
    """No module writes an element type as a number."""
    assert list(_type_numbers(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_rows_and_faults_are_of_known_releases() -> None:
    """Releases in a spec are those in `target.py`; a fault ends after it began, and has a description."""
    for spec in ALL_SPECS:
        row = spec.to_rten.row
        rows = [row, *row.fields] if row else []
        assert {row.since for row in rows} <= set(RELEASES), spec.name
        for fault in spec.to_rten.faults:
            assert fault.since in RELEASES, spec.name
            assert fault.until is None or (fault.until in RELEASES and fault.until > fault.since), spec.name
            assert fault.detail, spec.name


def legal_op_types(make, node, target=ALL_RELEASES) -> list[str]:
    """Return the operators that one node of a model with one input becomes, or why it is refused."""
    result = legalize(make.model(make.graph([node], [make.value("x", 1, [2, 3])], ["y"])), target=target)
    if result.refusals:
        return [refusal.reason for refusal in result.refusals]
    return [made.op_type or "" for made in result.model.graph.node]  # type: ignore[union-attr]


def test_an_operator_that_a_release_brings_is_one_spec(make, monkeypatch) -> None:
    """An operator that is supported since a release stays unchanged for it, and is rewritten for all together."""

    def rewriting(node, context):
        return None if context.has("Softsign") else activation.softsign(node, context)

    spec = OperatorSpec("Softsign", Outputs(rules.same), ToRten(Row(1, since=RTEN_0_27), rewritings=(rewriting,)))
    monkeypatch.setitem(SPECS._by_key, "Softsign", spec)
    node = make.node("Softsign", ["x"], ["y"])
    assert legal_op_types(make, node, Target(RTEN_0_27)) == ["Softsign"]
    assert legal_op_types(make, node) == ["Abs", "Add", "Div"]


def test_another_reduction_is_one_spec(make, monkeypatch) -> None:
    """The inference for a new reduction, and its unchanged name, come from its spec alone."""
    spec = OperatorSpec(
        "ReduceAny", Outputs(ReduceMax.outputs.dims), ToRten(ReduceMax.to_rten.row, rewritings=(reduction,))
    )
    monkeypatch.setitem(SPECS._by_key, "ReduceAny", spec)
    model = make.model(make.graph([make.node("ReduceAny", ["x"], ["y"])], [make.value("x", 1, [2, 3])], ["y"]))
    result = legalize(model)
    assert result.refusals == ()
    assert result.types["graph"]["y"].dims == (1, 1)


def test_a_refusal_of_an_attribute_is_in_the_spec(make, monkeypatch) -> None:
    """A rewriting that refuses stops the conversion with its message."""

    def refuse(node, context):
        raise Refused("has an attribute of which nobody has heard")

    monkeypatch.setitem(
        SPECS._by_key, "Abs", replace(SPECS["Abs"], to_rten=replace(SPECS["Abs"].to_rten, rewritings=(refuse,)))
    )
    (reason,) = legal_op_types(make, make.node("Abs", ["x"], ["y"], unheard=1))
    assert reason.endswith("has an attribute of which nobody has heard")


def test_the_page_on_adding_operators_is_true() -> None:
    """The page leads to the rewriting and the spec in the code, by parts that a spec has, and its test is a case."""
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0].strip() for block in page.split("```python\n")[1:]]
    code = Path(activation.__file__).read_text(encoding="utf-8")
    assert sum(block in code for block in blocks) == 2
    specs = [ast.parse(block).body[0].value for block in blocks if block.startswith("Softsign = ")]
    calls = [call for spec in specs for call in ast.walk(spec) if isinstance(call, ast.Call)]
    for call in calls:
        part = getattr(spec_module, call.func.id)
        assert {keyword.arg for keyword in call.keywords} <= set(getattr(part, "_fields", part.__annotations__)), part
    parts = {field.name: field.type for field in fields(OperatorSpec)}
    assert {
        "outputs": "Outputs",
        "to_rten": "ToRten",
        "to_onnx": "ToOnnx",
        "onnx_loader": "OnnxLoader",
    }.items() <= parts.items()
    assert all(f"| `{part}` |" in page for part in ("Outputs", "ToRten", "ToOnnx", "OnnxLoader"))
    assert 'one("softsign", ' in page
    assert any(case.name == "softsign" for case in CASES)


def test_what_a_change_touches_is_there() -> None:
    """Every file and folder in CONTRIBUTING's table of what a change touches exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## What a change touches")[2].partition("## ")[0]
    paths = [path for path in re.findall(r"`([\w./]+)`", table) if "/" in path or path.endswith((".py", ".md"))]
    assert len(paths) > 8
    assert [path for path in paths if not any((base / path).exists() for base in (ROOT, ROOT / "formats"))] == []


def test_a_conversion_imports_the_families_that_it_uses(tmp_path: Path) -> None:
    """A conversion imports the families of the operators in the model and in its rewritings, and no others."""
    script = (
        "import sys, formats\n"
        f"formats.convert({str(ROOT / 'examples' / 'digits.onnx')!r}, {str(tmp_path / 'digits.rten')!r})\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.startswith('formats.rten.operators.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    imported = set(done.stdout.split())
    assert {"activation", "convolution", "matrix", "pooling"} <= imported
    assert not imported & {"attention", "contrib", "grids", "ml", "recurrence", "resize", "signal", "trees"}
