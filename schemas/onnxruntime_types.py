"""Writes `formats/codecs/onnxruntime_types.txt`: which release of onnxruntime first takes a type of an operator.

`python schemas/onnxruntime_types.py` asks every release that `formats/codecs/onnxruntime_releases.py` lists for a
session of up to 42,000 models of one operator: those of `tests/rten/historical.py`, and each of them with every other
type that the operator's definition allows. It takes minutes and needs uv, which brings the releases and their Pythons.
"""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import onnx  # noqa: E402
from onnx import TensorProto, defs, helper, numpy_helper, shape_inference  # noqa: E402

from formats.codecs.onnxruntime_releases import RELEASES  # noqa: E402
from tests.rten.historical import Version, historical_cases  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = ROOT / "formats" / "codecs" / "onnxruntime_types.txt"
HEAD = """\
# The types of ONNX's operators for which some releases of onnxruntime have no kernel on the CPU, although they have one
# for another type; from the releases themselves. `python schemas/onnxruntime_types.py` asks them; do not edit.
#
# A line is an operator, and operator sets, each as `set parameter:since..first=types`. The parameter is that of the
# definition, such as T. The releases from `since` on, or all that read the set, lack the types, until the one that is
# the first to have them, if one is known. This is so from the set on, until a newer one on the line says something else
# of the type, or the operator has a new version. What equals the set before is only its number.
"""
BASES = 12  # the models of a version whose types are changed
# The optimizer removes the first three before it looks for kernels, and the kernels of OneHot are for types together.
NOT_BY_ONE_TYPE = {"Dropout", "Identity", "Shape", "OneHot"}
ATTRIBUTES = ["to", "dtype", "output_dtype", "output_datatype"]  # that say the type of an output
OF_OLD_PYTHON = tuple(RELEASES)[: tuple(RELEASES).index("1.20")]
SAYS_IT_LACKS = "NOT_IMPLEMENTED"
# Runs in a release: the error for each model, which is empty for a session. A crash ends only a child.
PROGRAM = """
import json, os, pickle, sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
options = onnxruntime.SessionOptions()
options.log_severity_level, options.intra_op_num_threads = 4, 1
models = pickle.load(open(sys.argv[1], "rb"))
errors = []
while len(errors) < len(models):
    end, start = os.pipe()
    child = os.fork()
    if not child:
        for model in models[len(errors):]:
            try:
                onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                error = ""
            except Exception as caught:
                error = str(caught)[:200]
            os.write(start, (json.dumps(error) + chr(10)).encode())
        os._exit(0)
    os.close(start)
    errors += [json.loads(line) for line in open(end)]
    if os.waitpid(child, 0)[1]:
        errors.append("crash")
json.dump(errors, open(sys.argv[2], "w"))
"""


class Asked(NamedTuple):
    """A model of one node, the types of its parameters, and the place of the model from which it was made."""

    version: Version
    types: dict[str, str]  # the name of the type by that of the parameter
    base: int
    model: onnx.ModelProto


class Use(NamedTuple):
    """A type of a parameter of an operator."""

    version: Version
    parameter: str
    name: str


def models() -> list[Asked]:
    """The models to ask for, the forms of each behind it."""
    asked: list[Asked] = []
    counts: dict[Version, int] = defaultdict(int)
    for case in historical_cases():
        model = onnx.load_from_string(case.model)
        if len(model.graph.node) != 1 or any(attribute.HasField("g") for attribute in model.graph.node[0].attribute):
            continue
        if schema_of(model).deprecated:
            continue
        place = len(asked)
        asked.append(Asked(case.version, types_of(model), place, model))
        counts[case.version] += 1
        if counts[case.version] <= BASES:
            asked += (Asked(case.version, types_of(new), place, new) for new in forms(model))
    return asked


def schema_of(model: onnx.ModelProto) -> Any:
    """The definition of the only node of a model."""
    return defs.get_schema(model.graph.node[0].op_type, model.opset_import[0].version)


def parameters(model: onnx.ModelProto) -> Iterator[tuple[str, str, bool]]:
    """The name of each value of the only node, its parameter, and whether it is an input."""
    schema, node = schema_of(model), model.graph.node[0]
    for names, formal in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for index, name in enumerate(names):
            row = formal[min(index, len(formal) - 1)]
            if name and row.is_homogeneous:
                yield name, row.type_str, names is node.input


def types_of(model: onnx.ModelProto) -> dict[str, str]:
    """The types of the parameters of the only node that are tensors."""
    values = [*model.graph.input, *model.graph.output]
    numbers = {value.name: value.type.tensor_type.elem_type for value in values}
    numbers |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return {
        parameter: TensorProto.DataType.Name(number)
        for name, parameter, _ in parameters(model)
        if (number := numbers.get(name))
    }


def forms(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model with each other type of each parameter, and of all parameters that may have it."""
    allowed = {each.type_param_str: set(each.allowed_type_strs) for each in schema_of(model).type_constraints}
    present = types_of(model)
    for number in TensorProto.DataType.values():
        text = f"tensor({TensorProto.DataType.Name(number).lower()})"
        able = [name for name in present if text in allowed.get(name, ())]
        for chosen in [[name] for name in able] + [able] * (len(able) > 1):
            new = with_types(model, dict.fromkeys(chosen, number))
            if new is not None and types_of(new) != present:
                yield new


def with_types(model: onnx.ModelProto, numbers: dict[str, int]) -> onnx.ModelProto | None:
    """The model with other types of parameters; `None` if onnx says that it is invalid."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    node, values = new.graph.node[0], {value.name: value for value in new.graph.input}
    tensors = {tensor.name: tensor for tensor in new.graph.initializer}
    del new.graph.value_info[:]
    for value in new.graph.output:
        value.ClearField("type")
    try:
        for name, parameter, _ in parameters(model):
            if parameter in numbers and name in values:
                values[name].type.tensor_type.elem_type = numbers[parameter]
            elif parameter in numbers and name in tensors:
                elements = numpy_helper.to_array(tensors[name]).ravel().tolist()
                dims = tensors[name].dims
                tensors[name].CopyFrom(helper.make_tensor(name, numbers[parameter], dims, elements))
        of_inputs = {parameter for _, parameter, is_input in parameters(model) if is_input}
        for number in (number for parameter, number in numbers.items() if parameter not in of_inputs):
            (word,) = (word for word in ATTRIBUTES if word in schema_of(model).attributes)
            kept = [attribute for attribute in node.attribute if attribute.name != word]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(word, number)])
        return shape_inference.infer_shapes(new, check_type=True, strict_mode=True)
    except (ValueError, TypeError, OverflowError, shape_inference.InferenceError):
        return None


def errors_of(release: str, asked: list[Asked], folder: Path) -> dict[int, tuple[str, str]]:
    """The errors of a release for each model whose operator set it reads, by the place of the model.

    They are those in the first and in the last operator set with the version: by what ONNX puts in the place of a
    function, a release may lack a kernel in some sets only.
    """
    row = RELEASES[release]
    places = [place for place, each in enumerate(asked) if each.version.since <= row.opset]
    texts = []
    for place, end in itertools.product(places, ("first", "last")):
        version, model = asked[place].version, asked[place].model
        model.ir_version = row.ir_version
        model.opset_import[0].version = version.since if end == "first" else min(version.last, row.opset)
        texts.append(model.SerializeToString())
    given, answer, program = (folder / name for name in ("models", "errors", "program.py"))
    given.write_bytes(pickle.dumps(texts, protocol=2))
    program.write_text(PROGRAM)
    python, numpy = ("3.9", "numpy<2") if release in OF_OLD_PYTHON else ("3.11", "numpy")
    command = ["uv", "run", "--quiet", "--no-project", "--python", python, "--with", f"onnxruntime=={release}.*"]
    subprocess.run([*command, "--with", numpy, "python", program, given, answer], check=True)  # noqa: S603
    errors = json.loads(answer.read_text())
    return dict(zip(places, zip(errors[::2], errors[1::2], strict=True), strict=True))


def lacking(asked: list[Asked], errors: dict[str, dict[int, str]]) -> dict[Use, tuple[int, int]]:
    """The places of the releases that lack a type, as a start and an end.

    A release lacks a type if it runs no model with it, but one that differs in types only. If it has a type that a
    newer one lacks, only the newest releases that lack it count.
    """
    by_use: dict[Use, list[int]] = defaultdict(list)
    for place, each in enumerate(asked):
        for parameter, name in each.types.items():
            by_use[Use(each.version, parameter, name)].append(place)
    spans = {}
    for use, places in sorted(by_use.items()):
        lacks = [
            all(found.get(place, "-") for place in places)
            and any(not found.get(asked[place].base, "-") for place in places)
            for found in errors.values()
        ]
        if use.version.op_type in NOT_BY_ONE_TYPE or not any(lacks):
            continue
        end = len(lacks) - lacks[::-1].index(True)
        start = max((place + 1 for place in range(end) if not lacks[place]), default=0)
        newest = errors[tuple(RELEASES)[-1]]
        if end < len(lacks) or any(SAYS_IT_LACKS in newest[place] for place in places):
            spans[use] = start, end
    return spans


def rows(asked: list[Asked], errors: dict[str, dict[int, tuple[str, str]]]) -> Iterator[tuple[Use, int, str]]:
    """Each type that some releases lack, the operator set from which on they do, and these, as `since..first`."""
    in_all = lacking(asked, {name: {n: a and b for n, (a, b) in pairs.items()} for name, pairs in errors.items()})
    in_last = lacking(asked, {name: {n: b for n, (_, b) in pairs.items()} for name, pairs in errors.items()})
    spans = [(use, use.version.since, span) for use, span in in_all.items()]
    for use, span in in_last.items():
        opset = min(use.version.last, list(RELEASES.values())[span[0]].opset)
        if in_all.get(use) != span and opset > use.version.since:
            spans.append((use, opset, span))
    order = list(RELEASES)
    for use, opset, (start, end) in sorted(spans):
        since = order[start] if start and RELEASES[order[start - 1]].opset >= opset else ""
        yield use, opset, f"{since}..{order[end] if end < len(order) else ''}"


def text_of(found: Iterator[tuple[Use, int, str]]) -> str:
    """The file of these rows."""
    versions: dict[str, dict[int, dict[str, list[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for use, opset, releases in found:
        versions[use.version.op_type][opset][f"{use.parameter}:{releases}"].append(use.name.lower())
    lines = [HEAD]
    for operator, by_version in sorted(versions.items()):
        parts, before = [operator], ""
        for since, cells in sorted(by_version.items()):
            text = " ".join(f"{cell}={','.join(sorted(names))}" for cell, names in sorted(cells.items()))
            parts.append(str(since) if text == before else f"{since} {text}")
            before = text
        lines.append(" ; ".join(parts) + "\n")
    return "".join(lines)


def main() -> None:
    """Ask all releases, and write the file."""
    asked = models()
    with tempfile.TemporaryDirectory() as folder:
        errors = {release: errors_of(release, asked, Path(folder)) for release in RELEASES}
    TARGET.write_text(text_of(rows(asked, errors)), encoding="utf-8")


if __name__ == "__main__":
    main()
