"""New names are everywhere where a value is used, and nowhere else; those that would meet others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import formats
from formats.editing.renaming import rename_in
from formats.ir.copies import copied
from formats.ir.model import Message
from tests.editing.nested_models import nested


def renamed(proto: onnx.ModelProto, **names: str) -> onnx.ModelProto:
    """Return the model with new names."""
    before = formats.from_onnx(proto)
    model = copied(before)
    rename_in(model, names)
    assert before == formats.from_onnx(proto), "what was given is not changed"
    return formats.to_onnx(model)


def results(proto: onnx.ModelProto, **inputs: Any) -> list[Any]:
    """Return what onnxruntime computes."""
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, inputs)
    return found


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_captures_are_renamed_through_two_levels(first: bool, second: bool) -> None:
    """Inputs, weights and outputs get new names wherever subgraphs use them; a function keeps its own x."""
    proto = nested()
    x = np.array([1, 2, 3], dtype="float32")
    expected = results(proto, x=x, first=np.array(first), second=np.array(second))
    new = renamed(proto, x="images", w="weight", chosen="selected", y="scores", first="one", second="two")
    found = results(new, images=x, one=np.array(first), two=np.array(second))
    assert [value.name for value in new.graph.output] == ["scores", "weight"]
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    text = str(new.graph)
    assert not [name for name in ("x", "w", "chosen") if f'"{name}"' in text]
    assert list(new.functions[0].input) == ["x"]
    annotation = new.graph.quantization_annotation[0]
    assert (annotation.tensor_name, annotation.quant_parameter_tensor_names[0].value) == ("selected", "weight")


def test_names_change_places() -> None:
    """All values are renamed at once, so two can change places, and one can take the name that another leaves."""
    new = renamed(nested(), first="second", second="first", x="z", y="x")
    assert [value.name for value in new.graph.input] == ["z", "second", "first"]
    x = np.array([1, 2], dtype="float32")
    found = results(new, z=x, second=np.array(True), first=np.array(False))
    np.testing.assert_array_equal(found[0], 2 * (x * x - x))


def test_values_of_subgraphs_and_functions() -> None:
    """A name that the main graph does not have means that of subgraphs and functions."""
    new = renamed(nested(), middle="square", doubled="sum")
    assert '"square"' in str(new.graph)
    assert list(new.functions[0].output) == ["sum"]
    results(new, x=np.ones(1, "float32"), first=np.array(True), second=np.array(False))


@pytest.mark.parametrize(
    "names,message",
    [
        ({"x": "y"}, "x cannot be called y, the name of another value in graph"),
        ({"x": "middle"}, r"x cannot be called middle: middle in graph\.node\[0\]\.attribute.* would hide it"),
        ({"middle": "x"}, r"middle in .* cannot be called x: it would hide x of graph"),
        ({"inner": "middle"}, "it would hide middle of"),
        ({"doubled": "x"}, r"doubled cannot be called x, the name of another value in functions\[0\]"),
        ({"x": "a", "y": "a"}, "x and y would both be called a"),
        ({"x": "a", "middle": "a"}, "middle and x would both be called a"),
        ({"x": ""}, "the new name of x is empty"),
        ({"imges": "a"}, "no value is called 'imges'; there are x, first, second, y, w"),
        ({"secnd": "a"}, "no value is called 'secnd'; did you mean second"),
    ],
)
def test_names_that_meet_or_hide_others(names: dict[str, str], message: str) -> None:
    """A new name is refused if it is that of another value which it would meet, hide, or be hidden by."""
    with pytest.raises(formats.EditError, match=message):
        renamed(nested(), **names)


def test_a_name_that_nothing_defines() -> None:
    """A value does not become one that something uses, but nothing defines."""
    proto = nested()
    proto.graph.node[1].input[0] = "missing"
    with pytest.raises(formats.EditError, match="a name that graph uses but nothing defines"):
        renamed(proto, x="missing")


def test_values_of_two_branches_may_have_one_name() -> None:
    """A name in one branch may be that of a value in the other branch."""
    new = renamed(nested(), inner="same", other="same")
    assert str(new.graph).count('"same"') == 4
    results(new, x=np.ones(1, "float32"), first=np.array(True), second=np.array(False))


def test_a_hidden_value_keeps_its_name() -> None:
    """A subgraph whose own value hides one of the main graph, which ONNX forbids, keeps its name."""
    proto = nested()
    hiding = proto.graph.node[0].attribute[1].g
    hiding.node[0].output[0] = hiding.output[0].name = "w"
    new = renamed(proto, w="weight")
    assert '"w"' in str(new.graph)
    assert new.graph.initializer[0].name == "weight"


def test_sharding_and_training() -> None:
    """Names in sharding specifications and in the bindings of training are replaced, too."""
    proto = nested()
    configuration = proto.graph.node[1].device_configurations.add(configuration_id="c")
    configuration.sharding_spec.add(tensor_name="chosen")
    info = proto.training_info.add()
    info.initialization.CopyFrom(helper.make_graph([helper.make_node("Neg", ["v"], ["start"])], "i", [], []))
    info.algorithm.CopyFrom(helper.make_graph([helper.make_node("Neg", ["w"], ["next"])], "a", [], []))
    info.initialization_binding.add(key="w", value="start")
    info.update_binding.add(key="w", value="next")
    new = renamed(proto, w="weight", chosen="selected", next="later", start="begin")
    assert new.graph.node[1].device_configurations[0].sharding_spec[0].tensor_name == "selected"
    found = new.training_info[0]
    assert list(found.algorithm.node[0].input) == ["weight"]
    bindings = [*found.initialization_binding, *found.update_binding]
    assert [(entry.key, entry.value) for entry in bindings] == [("weight", "begin"), ("weight", "later")]


def test_a_copy_shares_sources_only(tmp_path: Any) -> None:
    """No message or list of a copied model is one of the original, and its weights are the same sources."""
    onnx.save(nested(), tmp_path / "m.onnx")
    for decoded in (False, True):
        model = formats.load(tmp_path / "m.onnx")
        if decoded:
            model = formats.from_onnx(nested())
        new = copied(model)
        assert new == model
        mine = {id(part) for part in parts(new)}
        assert not mine & {id(part) for part in parts(model)}
        assert new.graph.initializer[0].raw_data is model.graph.initializer[0].raw_data


def parts(message: Any) -> list[Any]:
    """Return all messages and lists in a message."""
    found = [message]
    for part in found:
        inner = part if isinstance(part, list) else [getattr(part, name) for name in part.__match_args__]
        found += [each for each in inner if isinstance(each, (Message, list))]
    return found
