"""Random graphs with one change: `diff` reports this change only, and `verify` the damage that it does."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import formats
from tests.rten.random_graphs.graph import free_names
from tests.rten.random_graphs.whole import generate

SEEDS = range(4000, 4040)
NO_SHAPE = "V507"  # outputs of random graphs have none, which RTen does not need
FORMATS = ("onnx", "onnxz", "textproto", "json")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Models of several seeds, each with a folder that contains it unchanged in every format."""
    found = []
    for seed in SEEDS:
        graph = generate(seed)
        if graph is None:
            continue
        folder = tmp_path_factory.mktemp(f"seed{seed}")
        source = folder / "m.onnx"
        source.write_bytes(graph.model.SerializeToString())
        for name in FORMATS[1:]:
            formats.convert(source, folder / f"m.{name}")
        found.append((seed, graph.model, folder))
    return found


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model, to be changed."""
    return onnx.ModelProto.FromString(model.SerializeToString())


def differences(model: onnx.ModelProto, folder, name="onnxz"):
    """Return the differences between a changed model and the file of the unchanged one."""
    changed = folder / "changed.onnx"
    changed.write_bytes(model.SerializeToString())
    return formats.diff(folder / f"m.{name}", changed).differences


def findings(model: onnx.ModelProto, folder):
    """Return the kinds of errors that `verify` finds in a changed model."""
    changed = folder / "changed.onnx"
    changed.write_bytes(model.SerializeToString())
    return {finding.kind for finding in formats.verify(changed).errors if finding.code != NO_SHAPE}


def test_nothing_is_told_of_what_is_not_changed(graphs):
    """A graph is the same in all formats, including .rten if it can be converted, and has no errors."""
    rten = 0
    for seed, _, folder in graphs:
        for name in FORMATS:
            errors = formats.verify(folder / f"m.{name}").errors
            assert {error.code for error in errors} <= {NO_SHAPE}, (seed, name)
            assert formats.diff(folder / "m.onnx", folder / f"m.{name}").differences == (), (seed, name)
        try:
            formats.convert(folder / "m.onnx", folder / "m.rten")
        except formats.UnsupportedError:
            continue
        rten += 1
        assert formats.verify(folder / "m.rten").ok, seed
        assert formats.diff(folder / "m.onnxz", folder / "m.rten").differences == (), seed
    assert rten > len(graphs) / 2


def test_an_element_of_a_weight_is_told(graphs):
    """One changed bit of an element is one difference of the weights, which names the tensor."""
    count = 0
    for seed, model, folder in graphs:
        places = [place for place, tensor in enumerate(model.graph.initializer) if np.prod(tensor.dims)]
        if not places:
            continue
        changed = copy_of(model)
        tensor = changed.graph.initializer[random.Random(seed).choice(places)]
        array = numpy_helper.to_array(tensor).copy()
        flat = array.reshape(-1).view(np.uint8)
        flat[random.Random(seed).randrange(flat.size) // array.itemsize * array.itemsize] ^= 1
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        for name in FORMATS:
            (found,) = differences(changed, folder, name)
            assert (found.kind, tensor.name in found.subject) == ("weights", True), (seed, found)
        count += 1
    assert count > 15


def nodes_of(graph: onnx.GraphProto):
    """Yield all nodes of a graph and its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def test_an_attribute_is_told(graphs):
    """A number in an attribute that is larger by one is one difference, which names the attribute."""
    count = 0
    for seed, model, folder in graphs:
        changed = copy_of(model)
        attributes = [
            attribute
            for node in nodes_of(changed.graph)
            for attribute in node.attribute
            if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS, onnx.AttributeProto.FLOAT)
            and (attribute.type != onnx.AttributeProto.INTS or attribute.ints)
        ]
        if not attributes:
            continue
        attribute = random.Random(seed).choice(attributes)
        if attribute.type == onnx.AttributeProto.INTS:
            attribute.ints[-1] += 1
        elif attribute.type == onnx.AttributeProto.INT:
            attribute.i += 1
        else:
            attribute.f += 1
        for name in FORMATS:
            (found,) = differences(changed, folder, name)
            assert found.kind == "changed", (seed, found)
            assert attribute.name in found.where, (seed, found)
        count += 1
    assert count > 15


def test_a_name_is_told(graphs):
    """A changed node name is one difference; a changed value name is a difference in each place that uses it."""
    for seed, model, folder in graphs:
        rng = random.Random(seed)
        changed = copy_of(model)
        node = rng.choice(changed.graph.node)
        node.name = f"{node.name}renamed"
        for name in FORMATS:
            (found,) = differences(changed, folder, name)
            assert "name" in found.where + found.detail, (seed, found)
        changed = copy_of(model)
        given = list(changed.graph.input)
        if given:
            value = rng.choice(given)
            value.name = f"{value.name}renamed"
            told = differences(changed, folder)
            assert {found.kind for found in told} <= {"changed", "only first", "only second"}, seed
            assert all(
                "renamed" in found.detail + found.subject + found.where
                or value.name.removesuffix("renamed") in found.detail + found.subject
                for found in told
            ), (seed, told)


def test_an_order_is_told(graphs):
    """Two nodes that change places are reported as another order, and as nothing else."""
    count = 0
    for seed, model, folder in graphs:
        changed = copy_of(model)
        nodes = list(changed.graph.node)
        pairs = [
            place
            for place in range(len(nodes) - 1)
            if not set(nodes[place].output) & set(free_names([nodes[place + 1]]))
        ]
        if not pairs:
            continue
        place = random.Random(seed).choice(pairs)
        nodes[place : place + 2] = nodes[place : place + 2][::-1]
        kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del changed.graph.node[:]
        changed.graph.node.extend(kept)
        assert {found.kind for found in differences(changed, folder)} == {"order"}, seed
        assert findings(changed, folder) == set(), seed
        count += 1
    assert count > 15


def test_what_nothing_makes_is_found(graphs):
    """An input that no node produces, and a value that two nodes produce, are errors."""
    for seed, model, folder in graphs:
        changed = copy_of(model)
        users = [node for node in changed.graph.node if any(node.input)]
        if not users:
            continue
        node = random.Random(seed).choice(users)
        place = next(place for place, name in enumerate(node.input) if name)
        node.input[place] = "nowhere"
        assert findings(changed, folder), seed
        twice = copy_of(model)
        twice.graph.node.append(twice.graph.node[0])
        assert findings(twice, folder), seed
