"""A small model that translates: an encoder, a decoder, a decoder with a past, and a tokenizer, in one archive.

    python tests/onnxzip/translation.py DST.onnxz     # writes the archive, prints what onnxruntime translates

The weights are random, but a translation is what any runtime finds: each step depends on the source, on all words
before, and on their places.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import formats

LETTERS = "abcd"
WORDS = ["<s>", "</s>", *(x + y for x in LETTERS for y in LETTERS), "abc", "bcd", "cda", "dab"]
WIDTH = 64
HEADS = 4
PLACES = 32
LAYERS = 2
STEPS = 12
SENTENCES = ("ab cd da", "bc bc bc abc ab ba", "dab ca bcd dd aa bc")

Run = Callable[[str, dict[str, Any]], list[Any]]
"""Runs a model of the archive by its name."""


class GraphOf:
    """A graph that grows: each call adds a node, and returns the name of its output."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.used: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []

    def __call__(self, op_type: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """The name of the output of a new node."""
        output = to or f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def weight(self, name: str) -> str:
        """The name of a weight, which is then in the graph."""
        self.used[name] = self.weights[name]
        return name

    def ints(self, *values: int) -> str:
        """The name of a constant list."""
        name = "ints_" + "_".join(map(str, values))
        self.used[name] = np.array(values, "int64")
        return name

    def normal(self, x: str, name: str) -> str:
        """`x` with the mean 0 and the variance 1, scaled."""
        return self("LayerNormalization", x, self.weight(f"{name}.scale"), self.weight(f"{name}.bias"))

    def heads(self, x: str) -> str:
        """[batch, places, WIDTH] as [batch, HEADS, places, WIDTH / HEADS]."""
        split = self("Reshape", x, self.ints(0, 0, HEADS, WIDTH // HEADS))
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, x: str, keys: str, values: str, name: str, mask: str = "") -> str:
        """What the places of `x` take from those of `keys` and `values`, which are [batch, places, WIDTH]."""
        query = self.heads(self("MatMul", x, self.weight(f"{name}.q")))
        turned = self("Transpose", self.heads(keys), perm=[0, 1, 3, 2])
        self.used["scale"] = np.array((WIDTH // HEADS) ** -0.5, "float32")
        scores = self("Mul", self("MatMul", query, turned), "scale")
        if mask:
            self.used["never"] = np.array(-1e9, "float32")
            scores = self("Where", mask, scores, "never")
        taken = self("MatMul", self("Softmax", scores, axis=-1), self.heads(values))
        joined = self("Reshape", self("Transpose", taken, perm=[0, 2, 1, 3]), self.ints(0, 0, WIDTH))
        return self("MatMul", joined, self.weight(f"{name}.out"))

    def feed_forward(self, x: str, name: str) -> str:
        """A layer of twice the width."""
        wide = self("Relu", self("MatMul", x, self.weight(f"{name}.up")))
        return self("MatMul", wide, self.weight(f"{name}.down"))

    def length(self, x: str, axis: int) -> str:
        """The size of an axis, as a list of one."""
        return self("Slice", self("Shape", x), self.ints(axis), self.ints(axis + 1))

    def embedded(self, ids: str, first: str) -> str:
        """The words with their places, which begin at `first`."""
        last = self("Add", first, self.length(ids, 1))
        places = self("Range", *(self("Squeeze", end) for end in (first, last)), self("Squeeze", self.ints(1)))
        words = self("Gather", self.weight("words"), ids)
        return self("Add", words, self("Gather", self.weight("places"), places))

    def model(self, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> onnx.ModelProto:
        """The model; inputs called `ids` are int64, everything else is float32."""

        def values(dims: dict[str, list[Any]]) -> list[onnx.ValueInfoProto]:
            types = {"ids": TensorProto.INT64}
            return [helper.make_tensor_value_info(name, types.get(name, 1), shape) for name, shape in dims.items()]

        weights = [numpy_helper.from_array(array, name) for name, array in self.used.items()]
        graph = helper.make_graph(self.nodes, "translation", values(inputs), values(outputs), weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def random_weights() -> dict[str, np.ndarray]:
    """All weights of the models by name."""
    rng = np.random.default_rng(33)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.float32(2 * rows**-0.5) * rng.standard_normal((rows, columns), "float32")

    weights = {"words": matrix(len(WORDS), WIDTH) * 8, "places": matrix(PLACES, WIDTH) * 8}
    for layer in range(LAYERS):
        for part in ("encoder", "decoder", "cross"):
            for name in ("q", "k", "v", "out"):
                weights[f"{part}{layer}.{name}"] = matrix(WIDTH, WIDTH)
            for name in ("scale", "bias"):
                weights[f"{part}{layer}.{name}"] = np.full(WIDTH, float(name == "scale"), "float32")
        for part in ("encoder", "decoder"):
            weights[f"{part}{layer}.up"] = matrix(WIDTH, 2 * WIDTH)
            weights[f"{part}{layer}.down"] = matrix(2 * WIDTH, WIDTH)
    return weights


def encoder(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """From ids [batch, places] to hidden [batch, places, WIDTH]."""
    graph = GraphOf(weights)
    x = graph.embedded("ids", graph.ints(0))
    for layer in range(LAYERS):
        name = f"encoder{layer}"
        normal = graph.normal(x, name)
        keys, values = (graph("MatMul", normal, graph.weight(f"{name}.{each}")) for each in "kv")
        x = graph("Add", x, graph.attention(normal, keys, values, name))
        x = graph("Add", x, graph.feed_forward(x, name))
    graph("Identity", x, to="hidden")
    return graph.model({"ids": ["batch", "source"]}, {"hidden": ["batch", "source", WIDTH]})


def decoder(weights: dict[str, np.ndarray], *, has_past: bool) -> onnx.ModelProto:
    """From ids, hidden, and keys and values of a past to logits [batch, places, words], keys and values."""
    graph = GraphOf(weights)
    first = graph.length("past.0.k", 1) if has_past else graph.ints(0)
    x = graph.embedded("ids", first)
    mask = ""
    if not has_past:  # else the one new word takes from all places
        count = graph("Squeeze", graph.length("ids", 1))
        places = graph("Range", graph("Squeeze", graph.ints(0)), count, graph("Squeeze", graph.ints(1)))
        rows = graph("Unsqueeze", places, graph.ints(1))
        mask = graph("LessOrEqual", graph("Unsqueeze", places, graph.ints(0)), rows)
    for layer in range(LAYERS):
        name = f"decoder{layer}"
        normal = graph.normal(x, name)
        known = {}
        for each in "kv":
            new, present = graph("MatMul", normal, graph.weight(f"{name}.{each}")), f"present.{layer}.{each}"
            if has_past:
                known[each] = graph("Concat", f"past.{layer}.{each}", new, to=present, axis=1)
            else:
                known[each] = graph("Identity", new, to=present)
        x = graph("Add", x, graph.attention(normal, known["k"], known["v"], name, mask))
        cross = f"cross{layer}"
        keys, values = (graph("MatMul", "hidden", graph.weight(f"{cross}.{each}")) for each in "kv")
        x = graph("Add", x, graph.attention(graph.normal(x, cross), keys, values, cross))
        x = graph("Add", x, graph.feed_forward(x, name))
    graph("MatMul", x, graph("Transpose", graph.weight("words"), perm=[1, 0]), to="logits")
    names = [f"{layer}.{each}" for layer in range(LAYERS) for each in "kv"]
    inputs: dict[str, list[Any]] = {"ids": ["batch", "new"], "hidden": ["batch", "source", WIDTH]}
    if has_past:
        inputs |= {f"past.{name}": ["batch", "past", WIDTH] for name in names}
    outputs: dict[str, list[Any]] = {"logits": ["batch", "new", len(WORDS)]}
    return graph.model(inputs, outputs | {f"present.{name}": ["batch", "all", WIDTH] for name in names})


def pack(path: Path) -> formats.Packed:
    """Write the archive."""
    weights = random_weights()
    models = {"encoder": encoder(weights)}
    models |= {"decoder": decoder(weights, has_past=False), "decoder_with_past": decoder(weights, has_past=True)}
    with tempfile.TemporaryDirectory() as folder:
        sources = [Path(folder) / f"{name}.onnx" for name in models]
        for source, model in zip(sources, models.values(), strict=True):
            onnx.save(model, source)
        tokenizer = Path(folder) / "tokenizer.json"
        tokenizer.write_text(json.dumps({"model": {"vocab": {word: index for index, word in enumerate(WORDS)}}}))
        return formats.pack([*sources, tokenizer], path)


def translated(run: Run, vocabulary: dict[str, int], sentence: str, *, with_past: bool) -> str:
    """The likeliest next word, again and again, with the keys and values of a past or from the start each time."""
    ids = [vocabulary[word] for word in sentence.split()]
    (hidden,) = run("encoder", {"ids": np.array([ids])})
    found = [vocabulary["<s>"]]
    past: dict[str, Any] = {}
    while len(found) <= STEPS:
        if past:
            logits, *present = run("decoder_with_past", {"ids": np.array([found[-1:]]), "hidden": hidden, **past})
        else:
            logits, *present = run("decoder", {"ids": np.array([found]), "hidden": hidden})
        if with_past:
            names = [f"past.{layer}.{each}" for layer in range(LAYERS) for each in "kv"]
            past = dict(zip(names, present, strict=True))
        found.append(int(np.argmax(logits[0, -1])))
    words = list(vocabulary)
    return " ".join(words[index] for index in found[1:])


def in_onnxruntime(path: Path) -> Run:
    """Runs the models with sessions that use the weights in the mapped file."""
    sessions: dict[str, Any] = {}

    def run(name: str, inputs: dict[str, Any]) -> list[Any]:
        session = sessions.get(name) or sessions.setdefault(name, formats.onnxruntime_session(path, model=name))
        return list(session.run(None, inputs))

    return run


def vocabulary_in(path: Path) -> dict[str, int]:
    """The words and their numbers, from the tokenizer in the archive."""
    with zipfile.ZipFile(path) as archive:
        tokenizer = json.loads(archive.read("files/tokenizer.json"))
    return dict(tokenizer["model"]["vocab"])


def main(arguments: Sequence[str]) -> None:
    """Write the archive, and print the translations of the sentences."""
    (path,) = map(Path, arguments)
    pack(path)
    run, vocabulary = in_onnxruntime(path), vocabulary_in(path)
    print(json.dumps({each: translated(run, vocabulary, each, with_past=True) for each in SENTENCES}))


if __name__ == "__main__":
    main(sys.argv[1:])
