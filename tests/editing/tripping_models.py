"""Random models made to trip edits: names that several branches use, captures through levels, weights as outputs."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.editing.nested_models import BOOL, FLOAT, value

DEEPEST = 2
REUSED = ("t", "h", "z")  # names that several branches give to values of their own


class Maker:
    """Makes the model of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = count()
        self.seed = seed

    def model(self) -> onnx.ModelProto:
        """Inputs x [n], c1 and c2 (scalars of bool), weights w and u, the output y, and sometimes the output w."""
        weights = [self._weight("w", 2 + self.seed % 5), self._weight("u", 0.5)]
        nodes, known, _ = self._body(["x", "w", "u"], 0, {"x", "w", "u", "c1", "c2"})
        nodes.append(helper.make_node("Add", [known[-1], "x"], ["y"]))
        inputs = [value("x"), value("c1", BOOL, []), value("c2", BOOL, [])]
        outputs = [value("y"), *[value("w", dims=[1])] * (self.rng.random() < 0.5)]
        graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
        function = helper.make_function(  # whose values are called as those of the graph
            "own",
            "F",
            ["w", "x"],
            ["y"],
            [helper.make_node("Mul", ["w", "x"], ["u"]), helper.make_node("Sub", ["u", "x"], ["y"])],
            [helper.make_opsetid("", 17)],
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)

    @staticmethod
    def _weight(name: str, number: float) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array([number], "float32"), name)

    def _new(self, letter: str) -> str:
        return f"{letter}{next(self.numbers)}"

    def _name(self, depth: int, taken: set[str]) -> str:
        """A name for a value, in a branch sometimes one that other branches use, too."""
        name = self.rng.choice(REUSED)
        return name if depth and self.rng.random() < 0.4 and name not in taken else self._new("v")

    def _body(
        self, visible: list[str], depth: int, taken: set[str]
    ) -> tuple[list[onnx.NodeProto], list[str], set[str]]:
        """Nodes, the names of all values that are visible after them, and the names in their graphs."""
        nodes, known, inside = [], [*visible], set[str]()
        for _ in range(self.rng.randint(1, 3)):
            name = self._name(depth, {*known, *taken, *inside})  # ONNX forbids a name that an inner graph has had
            if depth < DEEPEST and self.rng.random() < 0.5:
                branches: dict[str, Any] = {}
                for which in ("then", "else"):
                    branches[f"{which}_branch"], names = self._branch(which, known, depth + 1, {*taken, name})
                    inside |= names
                nodes.append(helper.make_node("If", [self.rng.choice(["c1", "c2"])], [name], **branches))
            else:
                op_type, domain = self.rng.choice([("Add", ""), ("Sub", ""), ("Mul", ""), ("F", "own")])
                nodes.append(helper.make_node(op_type, self.rng.choices(known, k=2), [name], domain=domain))
            known.append(name)
        return nodes, known, inside

    def _branch(self, name: str, visible: list[str], depth: int, taken: set[str]) -> tuple[onnx.GraphProto, set[str]]:
        """A graph for an If, and the names in it."""
        nodes, known, inside = self._body(visible, depth, taken)
        output, weights = known[-1], []
        if self.rng.random() < 0.3:
            weights = [self._weight(self._new("k"), 3)]
            output = self._new("v")
            nodes.append(helper.make_node("Mul", [known[-1], weights[0].name], [output]))
        graph = helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, FLOAT, None)], weights)
        return graph, {*inside, *known[len(visible) :]}


def tripping(seed: int) -> onnx.ModelProto:
    """The model of a seed."""
    return Maker(seed).model()
