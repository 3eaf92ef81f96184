"""The tables of `docs/rten.md`, from the package and its tests; `python tests/rten/rten_tables.py` updates the page."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from formats.ir import MACHINE_LEARNING, PREVIEW, TRAINING, dtypes
from formats.onnxruntime import MICROSOFT
from formats.rten.operators import BY_DOMAIN, SPECS
from formats.rten.target import RELEASES
from formats.rten.types import ELEMENTS, HOLDERS
from tests.rten.rten_operators import HELD
from tests.rten.rten_outcomes import deviating_in, right_in
from tests.runtime.runner import DEFAULT_RELEASES

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "rten.md"
OUTCOMES = ROOT / "tests" / "rten" / "backend_outcomes.json"
MODES = ("native", "exact")
MAX_WORDS = 8  # the listed words for one place in a reason
MAX_WORD = 30  # characters; a longer word was made by a program

# Why the tests of operators whose names begin like this have other outputs in RTen than in ONNX, although the operator
# is right.
DEVIATIONS = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "the suite rounds its outputs to four digits",
    "test_bernoulli": "random numbers",
    "test_dynamicquantizelinear": "half steps are rounded after a multiplication in float32",
    "test_maxunpool_export_with_output_shape": "places are counted in the output, as onnxruntime does",
    "test_resize_downsample_scales_cubic_align_corners": "corners belong to the rounded size, as in onnxruntime",
    "test_resize_downsample_scales_linear_align_corners": "corners belong to the rounded size, as in onnxruntime",
}
# Operator tests for which onnxruntime gives other outputs: in the fourth output of Attention, masked elements are its
# lowest number, but ONNX says minus infinity.
NOT_AS_IN_ONNXRUNTIME = ("test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
                         "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal")  # fmt: skip


def _paragraph(words: Iterable[str]) -> str:
    text = ", ".join(f"`{word}`" for word in words)
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def types() -> str:
    """Return which element types of ONNX each type of RTen contains."""
    rows = []
    for element in ELEMENTS:
        held = [dtypes.type_name(number) for number, holder in HOLDERS.items() if holder is element]
        rows.append((element.value_type, ", ".join(name for name in held)))
    return _table(("RTen", "holds"), rows)


def native() -> str:
    """Return the operators of ONNX and RTen whose newest form is written unchanged."""
    return _paragraph(name for name, spec in HELD.items() if not spec.to_rten.all_rewritings)


def adapted() -> str:
    """Return the operators of ONNX and RTen for which some forms are rewritten."""
    return _paragraph(name for name, spec in HELD.items() if spec.to_rten.all_rewritings)


def lowered() -> str:
    """Return the operators of ONNX that RTen lacks, and that are written as others."""
    return _paragraph(sorted(name for name, spec in SPECS.items() if spec.to_rten.all_rewritings and name not in HELD))


def contributed() -> str:
    """Return the operators of onnxruntime's own domain that are written with other operators."""
    return _paragraph(
        sorted(spec.name for spec in BY_DOMAIN.values() if spec.domain == MICROSOFT and spec.to_rten.rewritings)
    )


def learned() -> str:
    """Return the operators of classical machine learning that are written as others: all but one."""
    return _paragraph(sorted(name for domain, name in BY_DOMAIN if domain == MACHINE_LEARNING and name != "ZipMap"))


def preview() -> str:
    """Return the operators of the domains for experimental operators of ONNX."""
    return _paragraph(sorted(name for domain, name in BY_DOMAIN if domain in (PREVIEW, TRAINING)))


_VARIABLE = re.compile(r"'[^']*'|\b[A-Z][A-Z0-9]{2,}\b|(?<== )\S+")


def refusals() -> str:
    """Return, for each reason, how many operator tests are refused for it, by operator; a test can have several."""
    outcomes = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    counts: dict[str, dict[str, int]] = {}
    operators: dict[str, set[str]] = {}
    words: dict[str, set[str]] = {}
    for mode in MODES:
        for reasons, cases in outcomes[mode]["refused"].items():
            templates = set()
            for part in reasons.split("; "):
                operator, _, reason = part.partition(": ")
                if not operator:  # an input or output
                    reason = re.sub(r"the (input|output) '[^']*'", "an input or output", reason)
                variable = _VARIABLE.search(reason)
                template = _VARIABLE.sub("{}", reason, count=1)
                words.setdefault(template, set()).update([variable[0]] if variable else [])
                operators.setdefault(template, set()).update([f"`{operator}`"] if operator else [])
                templates.add(template)
            for template in templates:
                counter = counts.setdefault(template, dict.fromkeys(MODES, 0))
                counter[mode] += len(cases)
    rows = []
    for template, counter in sorted(counts.items(), key=lambda item: (-max(item[1].values()), item[0])):
        found = sorted(word for word in words[template] if len(word) <= MAX_WORD)
        listed = ", ".join(found[:MAX_WORDS]) + (", ..." if len(found) > MAX_WORDS else "")
        named = ", ".join(sorted(operators[template]))
        rows.append((template.replace("{}", listed), named, *map(str, counter.values())))
    return _table(("reason", "operators", "tests", "with `--exact`"), rows)


def outcomes() -> str:
    """Return the number of operator tests for each outcome in each release."""
    known = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    rows = []
    for mode, title in zip(MODES, ("`convert`", "`convert --exact`"), strict=True):
        refused = sum(map(len, known[mode]["refused"].values()))
        for release in DEFAULT_RELEASES:
            counts = right_in(known[mode], release), refused, len(deviating_in(known[mode], release))
            rows.append((title, release, *map(str, counts)))
    return _table(("", "RTen", "right", "refused", "deviating"), rows)


def deviations() -> str:
    """Return the operator tests with other outputs than in the suite, the reason, and the releases."""
    known = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    places: dict[str, dict[str, list[str]]] = {}
    for mode in MODES:
        for release in DEFAULT_RELEASES:
            for name in deviating_in(known[mode], release):
                places.setdefault(name, {mode: [] for mode in MODES})[mode].append(release)
    rows = []
    for name, releases in sorted(places.items()):
        reason = DEVIATIONS[max((prefix for prefix in DEVIATIONS if name.startswith(prefix)), key=len)]
        rows.append((f"`{name}`", reason, *(", ".join(releases[mode]) for mode in MODES)))
    return _table(("test", "why", "native", "`--exact`"), rows)


def faults() -> str:
    """Return what releases of the runtime compute differently from ONNX, or refuse, and since when it is corrected."""
    rows = {
        (spec.name, f"RTen {fault.detail}", str(fault.since), "" if fault.until is None else str(fault.until))
        for spec in SPECS.values()
        for fault in spec.to_rten.faults
    }
    merged: dict[tuple[str, str, str], list[str]] = {}
    for name, *rest in sorted(rows):
        merged.setdefault((rest[0], rest[1], rest[2]), []).append(f"`{name}`")
    return _table(
        ("operators", "what", "from", "fixed in"), ((", ".join(names), *key) for key, names in merged.items())
    )


def additions() -> str:
    """Return the operators and fields that newer releases added."""
    found: dict[str, list[str]] = {}
    for name, spec in HELD.items():
        assert spec.to_rten.row is not None
        if spec.to_rten.row.since > RELEASES[0]:
            found.setdefault(str(spec.to_rten.row.since), []).append(f"`{name}`")
        for field in spec.to_rten.row.fields:
            if field.since > RELEASES[0]:
                found.setdefault(str(field.since), []).append(f"`{name}` with `{field.onnx_name}`")
    return _table(("RTen", "added"), ((release, ", ".join(names)) for release, names in sorted(found.items())))


TABLES: Mapping[str, Callable[[], str]] = {
    "types": types,
    "native": native,
    "adapted": adapted,
    "lowered": lowered,
    "contributed": contributed,
    "learned": learned,
    "preview": preview,
    "additions": additions,
    "faults": faults,
    "outcomes": outcomes,
    "refusals": refusals,
    "deviations": deviations,
}
MARK = re.compile(r"(<!-- table: (\w+) -->\n\n)((?:.+\n)+)(\n<!-- end -->)")


def blocks(text: str) -> dict[str, str]:
    """Return the tables of a document by their names."""
    return {match[2]: match[3] for match in MARK.finditer(text)}


def main() -> None:
    """Write the tables into the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(MARK.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[4]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
