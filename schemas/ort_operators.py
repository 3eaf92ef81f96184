"""Writes `formats/onnxruntime/operators.txt`: what a file of onnxruntime says of operators, from both packages."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = "formats/onnxruntime/operators.txt"
HEAD = """\
# The operators of ONNX and of onnxruntime in all versions: `operators.py` reads the rows that it needs.
# Generated from onnx.defs and the schemas in onnxruntime by `python schemas/generate.py`; do not edit.
#
# A line is an operator, and its versions from the oldest on, each as `version inputs outputs attribute:type=default`.
# `inputs` is the number of formal inputs. `outputs` has, for each formal output, `iN` if its type is that of input N,
# the number of an element type if it always is a tensor of that type, or `?`. Defaults are JSON without spaces. What
# equals the version before is only its number. After a number, `f` means that onnxruntime has no kernel for this
# version on the CPU, but computes it by its function in ONNX, `n` that it has neither, and `h` that a kernel on the CPU
# takes float16.
#
"""
MADE_FROM = "# Made from operator set {} and onnxruntime {}.{}\n"
# onnxruntime says "could not find an implementation": the functions of the first two use operators without a kernel.
NOT_BY_FUNCTION = {("Bernoulli", 22), ("SwiGLU", 28), ("Swish", 24)}
NO_END = (1 << 31) - 1  # of the versions that a kernel computes


def generate() -> str:
    """The text of the file; the present one if a package is missing or older than the one that made it."""
    path = ROOT / TARGET
    try:
        import onnxruntime
        from onnx import defs
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema, get_all_opkernel_def
    except ImportError:
        return path.read_text("utf-8")
    made_from = (defs.onnx_opset_version(), tuple(map(int, onnxruntime.__version__.split(".")[:2])))
    if path.exists() and made_from < _made_from(path.read_text("utf-8")):
        return path.read_text("utf-8")
    kernels: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for kernel in get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            kernels[kernel.domain, kernel.op_name].append(kernel)
    rows: dict[str, dict[str, list[tuple[int, str, str]]]] = defaultdict(lambda: defaultdict(list))
    schema: Any
    for schema in defs.get_all_schemas_with_history():
        has_function = schema.has_function or schema.has_context_dependent_function
        has_function = has_function and (schema.name, schema.since_version) not in NOT_BY_FUNCTION
        mark = _mark(kernels[schema.domain, schema.name], schema.since_version, has_function)
        rows[schema.domain or "ai.onnx"][schema.name].append((schema.since_version, mark, _of_onnx(schema)))
    for schema in get_all_operator_schema():
        if schema.domain in ("com.microsoft", "com.microsoft.nchwc"):
            rows[schema.domain][schema.name].append(
                (schema.since_version, _mark(kernels[schema.domain, schema.name], 1, False), _of_onnxruntime(schema))
            )
    lines = [HEAD, MADE_FROM.format(made_from[0], *made_from[1])]
    for domain, operators in sorted(rows.items()):
        lines.append(f"[{domain}]\n")
        lines += (f"{_row(name, versions)}\n" for name, versions in sorted(operators.items()))
    return "".join(lines)


def _made_from(text: str) -> tuple[int, tuple[int, ...]]:
    """The operator set and the release that the present file was made from."""
    pattern = re.escape(MADE_FROM).replace(r"\{\}", r"(\d+)")
    match = re.search(pattern, text)
    assert match is not None
    operator_set, *release = map(int, match.groups())
    return operator_set, tuple(release)


def _mark(kernels: list[Any], version: int, has_function: bool) -> str:
    """What the kernels on the CPU say: a range that is still open is only for the version in which it begins."""
    usable = [
        kernel
        for kernel in kernels
        if kernel.version_range[0] == version or kernel.version_range[0] <= version <= kernel.version_range[1] < NO_END
    ]
    if not usable:
        return "f" if has_function else "n"
    takes = any("tensor(float16)" in types for kernel in usable for types in kernel.type_constraints.values())
    return "h" if takes else ""


def _row(name: str, versions: list[tuple[int, str, str]]) -> str:
    forms, before = [], ""
    for version, mark, form in sorted(versions):
        forms.append(f"{version}{mark}" if form == before else f"{version}{mark} {form}")
        before = form
    return " ; ".join((name, *forms))


def _of_onnx(schema: Any) -> str:
    inputs = [(item.type_str, item.types, item.is_homogeneous) for item in schema.inputs]
    outputs = [(item.type_str, item.types, item.is_homogeneous) for item in schema.outputs]
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    held = {name: _typed(value) for name, value in defaults.items() if value.type}
    return _form(inputs, outputs, held)


def _of_onnxruntime(schema: Any) -> str:
    inputs = [(item.typeStr, item.types, item.isHomogeneous) for item in schema.inputs]
    outputs = [(item.typeStr, item.types, item.isHomogeneous) for item in schema.outputs]
    return _form(inputs, outputs, {})  # it does not give the defaults, but its own kernels know them


def _typed(attribute: Any) -> tuple[int, Any]:
    """The type of an attribute, and its value: a number, a text, or a list of them."""
    from onnx import helper

    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return attribute.type, value.decode()
    if isinstance(value, (int, float)):
        return attribute.type, value
    return attribute.type, [item.decode() if isinstance(item, bytes) else item for item in value]


def _form(inputs: list[Any], outputs: list[Any], defaults: dict[str, tuple[int, Any]]) -> str:
    letters = ",".join(_source(output, inputs) for output in outputs) or "-"
    texts = [
        f"{name}:{number}={json.dumps(value, separators=(',', ':'))}"
        for name, (number, value) in sorted(defaults.items())
    ]
    if any(" " in text for text in texts):
        raise ValueError(f"a default with a space: {texts}")
    return " ".join((str(len(inputs)), letters, *texts))


def _source(output: Any, inputs: list[Any]) -> str:
    """Where the type of an output comes from."""
    from formats.ir.dtypes import BY_NAME

    name, types, is_homogeneous = output
    if len(types) == 1:
        (text,) = types
        row = BY_NAME.get(text.removeprefix("tensor(").removesuffix(")").upper())
        return str(row.number) if row and text.startswith("tensor(") else "?"
    same = [index for index, (other, _, alike) in enumerate(inputs) if other == name and alike]
    return f"i{same[0]}" if same and is_homogeneous else "?"
