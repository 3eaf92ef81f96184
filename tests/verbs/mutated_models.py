"""Models with one fault each, made from valid ones: `onnx.checker` and `verify` must agree about them.

`python tests/verbs/mutated_models.py COUNT [SEED]` compares them on COUNT models and prints how often each refuses.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

import formats

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["", "x", "y", "nothing", "Frobnicate", "Relu", "Add", "ai.onnx.ml", "new.domain"]
TYPES = [0, 1, 7, 8, 16, 17, 21, 23, 24, 25, 27, 99]

Rule = Callable[[random.Random, onnx.ModelProto], object]


def _messages(message: Any, name: str) -> list[Any]:
    """Return all messages of a kind in a message, itself included."""
    found, stack = [], [message]
    while stack:
        part = stack.pop()
        if part.DESCRIPTOR.name == name:
            found.append(part)
        for field, value in part.ListFields():
            if field.type == field.TYPE_MESSAGE:
                stack += value if hasattr(value, "add") else [value]
    return found


def _pick(chance: random.Random, message: Any, name: str) -> Any:
    return chance.choice(_messages(message, name))


def _other_names(chance: random.Random, model: onnx.ModelProto) -> None:
    names = [name for node in _messages(model, "NodeProto") for name in (*node.input, *node.output)]
    node = _pick(chance, model, "NodeProto")
    side = chance.choice([node.input, node.output])
    side[chance.randrange(len(side))] = chance.choice([*names, *WORDS])


def _number_of_names(chance: random.Random, model: onnx.ModelProto) -> None:
    node = _pick(chance, model, "NodeProto")
    side = chance.choice([node.input, node.output])
    if side and chance.random() < 0.5:
        del side[chance.randrange(len(side)) :]
    else:
        side.extend([*node.input[:1], *([""] * chance.randrange(9))] if side is node.input else ["more1", "more2"])


def _attribute(chance: random.Random, model: onnx.ModelProto) -> None:
    node = _pick(chance, model, "NodeProto")
    name = chance.choice([a.name for a in _messages(model, "AttributeProto")] + WORDS + ["axis", "axes", "to"])
    value = chance.choice([1, 0.5, "a", [1, 2], [0.5], ["a"]])
    node.attribute.append(helper.make_attribute(name, value))


def _value_of_attribute(chance: random.Random, model: onnx.ModelProto) -> None:
    attribute = _pick(chance, model, "AttributeProto")
    rule = chance.randrange(6)
    if rule == 0:
        attribute.type = chance.randrange(15)
    elif rule == 1:
        attribute.ClearField("type")
    elif rule == 2:
        attribute.f = 0.5
    elif rule == 3:
        attribute.ints.append(3)
    elif rule == 4:
        attribute.name = chance.choice(WORDS)
    else:
        attribute.ref_attr_name = "alpha"


def _without_a_field(chance: random.Random, model: onnx.ModelProto) -> None:
    """Remove any field of any message."""
    names = ("ModelProto", "GraphProto", "NodeProto", "AttributeProto", "TensorProto", "ValueInfoProto", "TypeProto")
    names += ("Tensor", "Sequence", "Map", "Optional", "SparseTensor", "OperatorSetIdProto", "FunctionProto")
    parts = [part for name in (*names, "SparseTensorProto") for part in _messages(model, name) if part.ListFields()]
    part = chance.choice(parts)
    part.ClearField(chance.choice(part.ListFields())[0].name)


def _twice(chance: random.Random, model: onnx.ModelProto) -> None:
    """Repeat an entry of any list."""
    parts = [
        part for name in ("ModelProto", "GraphProto", "NodeProto", "FunctionProto") for part in _messages(model, name)
    ]
    lists = [value for part in parts for field, value in part.ListFields() if hasattr(value, "append")]
    chosen = chance.choice(lists)
    chosen.append(chosen[chance.randrange(len(chosen))])


def _reversed(chance: random.Random, model: onnx.ModelProto) -> None:
    chance.choice(_messages(model, "GraphProto") + _messages(model, "FunctionProto")).node.reverse()


def _version(chance: random.Random, model: onnx.ModelProto) -> None:
    if chance.random() < 0.3:
        model.ir_version = chance.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 15])
    else:
        entry = _pick(chance, model, "OperatorSetIdProto")
        entry.version = chance.choice([0, 1, 5, 6, 7, 9, 10, 11, 13, 17, 18, 21, 28, 99])


def _operator(chance: random.Random, model: onnx.ModelProto) -> None:
    node = _pick(chance, model, "NodeProto")
    if chance.random() < 0.3:
        node.domain = chance.choice(["ai.onnx", "ai.onnx.ml", "new.domain"])
    else:
        node.op_type = chance.choice([*WORDS, "Upsample", "Scatter", "If", "Concat", "LSTM", "Sum", "Scale"])


def _type(chance: random.Random, model: onnx.ModelProto) -> None:
    parts = _messages(model, "TensorProto") or _messages(model, "Tensor")
    part = chance.choice(parts + _messages(model, "Tensor"))
    setattr(part, "data_type" if part.DESCRIPTOR.name == "TensorProto" else "elem_type", chance.choice(TYPES))


def _data(chance: random.Random, model: onnx.ModelProto) -> None:
    tensor = _pick(chance, model, "TensorProto")
    rule = chance.randrange(5)
    if rule == 0:
        tensor.float_data.append(1.0)
    elif rule == 1:
        tensor.dims.append(chance.choice([0, 1, 2, -1]))
    elif rule == 2:
        tensor.data_location = onnx.TensorProto.EXTERNAL
    elif rule == 3:
        tensor.raw_data = b"12345678"
    else:
        tensor.string_data.append(b"a")


def _name(chance: random.Random, model: onnx.ModelProto) -> None:
    parts = _messages(model, "ValueInfoProto") + _messages(model, "GraphProto") + _messages(model, "TensorProto")
    names = [part.name for part in parts]
    chance.choice(parts).name = chance.choice([*names, *WORDS])


RULES: tuple[Rule, ...] = (
    _other_names, _number_of_names, _attribute, _value_of_attribute, _without_a_field, _twice, _reversed, _version,
    _operator, _type, _data, _name,
)  # fmt: skip


def bases() -> list[onnx.ModelProto]:
    """Return small valid models: one of each operator test of `onnx`, and some with functions."""
    from tests.corpus import backend_cases

    found = []
    for case in backend_cases():
        if len(case.model) < 20_000:
            model = onnx.ModelProto.FromString(case.model)
            if not model.graph.node:
                continue
            found.append(model)
    text = """<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = local.f<alpha = 0.5>(x, w) y = If(c) <
            then_branch = t () => (z) { z = Neg(a) }, else_branch = e () => (z) { k = Add(a, w) z = Abs(k) }> }
        <opset_import: ["" : 17], domain: "local"> f <alpha> (p, q) => (r)
            { s = Add(p, q) r = Elu<alpha = @alpha>(s) }"""
    text = text.replace("{ a = local", "{ c = Constant<value = bool {1}>() a = local")
    return found + [onnx.parser.parse_model(text)] * (len(found) // 10)


def mutants(count: int, seed: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield models with one change each, and the name of the change."""
    chance, sources = random.Random(seed), bases()
    while count:
        model = onnx.ModelProto()
        model.CopyFrom(chance.choice(sources))
        rule = chance.choice(RULES)
        try:
            rule(chance, model)
        except (IndexError, ValueError):  # the model has no such part
            continue
        count -= 1
        yield rule.__name__.strip("_"), model


def refused_by_onnx(path: Path) -> str | None:
    """Return why `onnx.checker` refuses a model."""
    try:
        onnx.checker.check_model(path.read_bytes())
    except Exception as error:
        return str(error).split("\n", 1)[0]
    return None


def compared(count: int, seed: int, folder: Path) -> Iterator[tuple[str, bytes, str | None, Any]]:
    """Yield for each mutant the change, the bytes, why `onnx.checker` refuses it, and what `verify` says."""
    path = folder / "m.onnx"
    for rule, model in mutants(count, seed):
        path.write_bytes(model.SerializeToString())
        yield rule, path.read_bytes(), refused_by_onnx(path), formats.verify(path)


def main() -> None:
    """Print what is refused by one of the two, and the counts."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    numbers: Counter[tuple[str, str]] = Counter()
    shown: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for rule, _, refused, found in compared(count, seed, Path(folder)):
            told = bool(found.errors or found.notes)
            numbers[rule, f"{'refused' if refused else 'taken'}, {'told' if told else 'not told'}"] += 1
            if bool(refused) != told:
                detail = refused or "; ".join(f"{f.kind} {f.where}: {f.detail}" for f in found.errors)
                key = f"{'MISSED' if refused else 'ALONE'} {rule}: {detail[:60]}"
                shown[key] += 1
                if shown[key] == 1:
                    print(key, "|", detail[:300])
    for key, number in sorted(numbers.items()):
        print(number, *key)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
