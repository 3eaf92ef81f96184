"""Differences between the releases of RTen, shown with files that this module makes by hand.

Each case says in which releases its outputs differ from those that ONNX requires: since one release, until another. Of
our code, only the FlatBuffer builder is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.rten.rten_forms import build
from tests.runtime.runner import RunnerError

FIRST = "0.25"  # the oldest release that we know


class Case(NamedTuple):
    """Operators (type, names of inputs and outputs, attribute table), with their inputs and the right outputs.

    `_` is a missing input. An input has the declared dims, or any. `wrong` is the first release with other outputs or
    none, and the first release that is right again.
    """

    name: str
    wrong: tuple[str, str]
    operators: Sequence[tuple[str, str, str, Any]]
    inputs: Mapping[str, np.ndarray]
    wanted: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray] = {}
    declared: Mapping[str, Sequence[int]] = {}


def floats(*values: Any) -> np.ndarray:
    """Return an array of float32."""
    return np.array(values, np.float32)


def ints(*values: Any) -> np.ndarray:
    """Return an array of int32."""
    return np.array(values, np.int32)


TYPES = {
    "f4": ("Float", "FloatData"),
    "i4": ("Int32", "Int32Data"),
    "i1": ("Int8", "Int8Data"),
    "u1": ("UInt8", "UInt8Data"),
}


def file_of(case: Case) -> bytes:
    """Return a .rten file, of version 1."""
    nodes: list[dict[str, Any]] = []
    places: dict[str, int] = {}

    def add(name: str, data: tuple[str, Any]) -> None:
        places[name] = len(nodes)
        nodes.append({"name": name, "data": data})

    for name, array in case.constants.items():
        union = TYPES[array.dtype.str[1:]][1], {"data": array.tobytes()}
        add(name, ("ConstantNode", {"shape": array.shape, "data": union}))
    for name, dims in case.declared.items():
        dtype = TYPES[case.inputs[name].dtype.str[1:]][0]
        add(name, ("ValueNode", {"shape": [{"value": dim} for dim in dims], "dtype": dtype}))
    for _, inputs, outputs, _ in case.operators:
        for name in f"{inputs} {outputs}".split():
            if name not in places and name != "_":
                add(name, ("ValueNode", {}))
    for number, (op_type, *names, attrs) in enumerate(case.operators):
        inputs, outputs = (tuple(places.get(name, -1) for name in group.split()) for group in names)
        table = {"type": op_type, "inputs": inputs, "outputs": outputs, **({} if attrs is None else {"attrs": attrs})}
        nodes.append({"name": f"operator {number}", "data": ("OperatorNode", table)})
    ends = [tuple(places[name] for name in names) for names in (case.inputs, case.wanted)]
    return b"".join(build({"schema_version": 1, "graph": {"nodes": nodes, "inputs": ends[0], "outputs": ends[1]}}))


def pool(op_type: str, size: int, wanted: Sequence[float], until: str = "0.26", **attributes: Any) -> Case:
    """Return a pool with a kernel of three and a step of two over 1, 2, 3, ..."""
    table = {
        "kernel_size": (3,),
        "strides": (2,),
        "auto_pad": "NotSet",
        "pads": (0, 0),
        "ceil_mode": True,
        **attributes,
    }
    x = np.arange(1, size + 1, dtype=np.float32)[None, None]
    name = f"{op_type} of {size} {sorted(attributes)}"
    operators = [(op_type, "x", "y", (f"{op_type}Attrs", table))]
    return Case(name, (FIRST, until), operators, {"x": x}, {"y": floats([wanted])})


def resize(name: str, mode: str, coordinates: str, dims: Sequence[int], wanted: Any, **constants: np.ndarray) -> Case:
    """Return a Resize of 0, 1, 2, ... by scales or to sizes."""
    attributes = {"mode": mode, "coord_mode": coordinates, "nearest_mode": "RoundPreferFloor"}
    operators = [
        ("Resize", f"x _ {'scales' if 'scales' in constants else '_ sizes'}", "y", ("ResizeAttrs", attributes))
    ]
    x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    return Case(f"Resize {name}", (FIRST, "0.26"), operators, {"x": x}, {"y": floats(*wanted)}, constants)


def quantization(name: str, scale: np.ndarray, zero_point: np.ndarray | None) -> list[Case]:
    """Return both quantisation operators with a scale of one element for an axis of eight."""
    x = np.arange(16, dtype=np.int8).reshape(2, 8)
    constants = {"s": scale, **({} if zero_point is None else {"z": zero_point})}
    inputs = "x s" if zero_point is None else "x s z"
    y = (x.astype(np.float32) - (0 if zero_point is None else zero_point.item())) * scale.item()
    ways = [
        ("DequantizeLinear", {"axis": 1}, {"x": x}, {"y": y}),
        ("QuantizeLinear", {"axis": 1, "output_dtype": "Int8"}, {"x": y}, {"y": x}),
    ]
    return [
        Case(f"{way} {name}", (FIRST, "0.26"), [(way, inputs, "y", (f"{way}Attrs", table))], given, wanted, constants)
        for way, table, given, wanted in ways
    ]


FIVE, NINE = floats(1, 2, 3, 4, 5), np.arange(9, dtype=np.float32).reshape(3, 3)
REDUCE = ("ReduceMeanAttrs", {"keep_dims": True})
CEIL_MODE = {"kernel_size": (3,), "strides": (2,), "auto_pad": "NotSet", "pads": (0, 0), "ceil_mode": True}
SLICE_OF_TEMPORARY = [("Add", "x one", "t", None), ("Slice", "t begin end axis", "d", None)]
BOUNDS = {"one": floats(1)[0], "begin": ints(0), "end": ints(2), "axis": ints(1)}
UPDATE = {"i": ints([1]), "u": floats([9, 9])}
UPDATED = {"y": floats([1, 2], [9, 9], [7, 8])}

CASES = [
    *(
        Case(f"CumSum exclusive={exclusive} reverse={reverse}", (FIRST, "0.26"),
             [("CumSum", "x axis", "y", ("CumSumAttrs", {"exclusive": exclusive, "reverse": reverse}))],
             {"x": FIVE}, {"y": floats(*wanted)}, {"axis": np.int32(0)[()]})
        for exclusive, reverse, wanted in [
            (True, False, [0, 1, 3, 6, 10]), (False, True, [15, 14, 12, 9, 5]), (True, True, [14, 12, 9, 5, 0])]
    ),
    Case("ConvTranspose with dilations", (FIRST, "0.26"),
         [("ConvTranspose", "x w", "y", ("ConvTransposeAttrs", {"strides": (1,), "dilations": (3,), "pads": (0, 0)}))],
         {"x": FIVE[None, None]}, {"y": floats([[1, 2, 3, 5, 7, 3, 4, 5]])}, {"w": floats([[1, 1]])}),
    Case("ConvTranspose with groups and a bias", (FIRST, "0.26"),
         [("ConvTranspose", "x w b", "y", ("ConvTransposeAttrs", {"strides": (1,), "pads": (0, 0), "groups": 2}))],
         {"x": floats([[1], [1]])}, {"y": floats([[11], [21]])}, {"w": floats([[1]], [[1]]), "b": floats(10, 20)}),
    Case("LpNormalization", (FIRST, "0.26"),
         [("LpNormalization", "x", "y", ("LpNormalizationAttrs", {"axis": -1, "p": 2}))],
         {"x": floats([3, -4], [0, 0])}, {"y": floats([0.6, -0.8], [0, 0])}),
    Case("ReduceLogSum", (FIRST, "0.26"), [("ReduceLogSum", "x", "y", REDUCE)], {"x": FIVE}, {"y": floats(np.log(15))}),
    Case("ReduceLogSumExp", (FIRST, "0.26"), [("ReduceLogSumExp", "x", "y", REDUCE)],
         {"x": FIVE * 1000}, {"y": floats(5000)}),
    Case("Dropout of three inputs", (FIRST, "0.26"), [("Dropout", "x ratio training", "y", ("DropoutAttrs", {}))],
         {"x": FIVE}, {"y": FIVE}, {"ratio": floats(0.5)[0], "training": np.int32(0)[()]}),
    Case("Pad that cuts", (FIRST, "0.26"), [("Pad", "x pads", "y", ("PadAttrs", {"mode": "Constant"}))],
         {"x": FIVE}, {"y": floats(2, 3, 4, 5, 0)}, {"pads": ints(-1, 1)}),
    *quantization("with a scalar and no zero point", floats(0.5)[0], None),
    *quantization("with a vector of one", floats(0.5), np.array([1], np.int8)),
    pool("MaxPool", 9, [3, 5, 7, 9]),
    pool("MaxPool", 8, [3, 5, 7, 8], FIRST),
    pool("MaxPool", 2, [2]),
    pool("AveragePool", 8, [1, 3, 5, 7, 4], count_include_pad=True, pads=(1, 1)),
    Case("the shape of a pool in ceil_mode", (FIRST, "0.26"),
         [("MaxPool", "x", "y", ("MaxPoolAttrs", CEIL_MODE)), ("Shape", "y", "dims", None)],
         {"x": np.zeros((1, 1, 8), np.float32)}, {"dims": ints(1, 1, 4)}, declared={"x": (1, 1, 8)}),
    Case("the rank of ConstantOfShape", (FIRST, "0.26"),
         [("ConstantOfShape", "x", "y", ("ConstantOfShapeAttrs", {"value": ("IntScalar", {"value": 7})})),
          ("Shape", "y", "dims", None), ("Shape", "dims", "rank", None)],
         {"x": ints(1, 2, 3)}, {"rank": ints(3)}, declared={"x": (3,)}),
    Case("the rank of Expand", (FIRST, FIRST),
         [("Expand", "seven x", "y", None), ("Shape", "y", "dims", None), ("Shape", "dims", "rank", None)],
         {"x": ints(1, 2, 3)}, {"rank": ints(3)}, {"seven": floats(7)[0]}, {"x": (3,)}),
    resize("by a half", "Linear", "HalfPixel", (1, 1, 1, 3), [[[[0, 0.5, 1.1666667, 1.8333334]]]],
           scales=floats(1, 1, 1, 1.5)),
    resize("by a half, nearest", "Nearest", "HalfPixel", (1, 1, 1, 3), [[[[0, 0, 1, 2]]]], scales=floats(1, 1, 1, 1.5)),
    resize("by a half, asymmetric", "Linear", "Asymmetric", (1, 1, 1, 3), [[[[0, 0.6666667, 1.3333334, 2]]]],
           scales=floats(1, 1, 1, 1.5)),
    resize("to one", "Linear", "AlignCorners", (1, 1, 3, 3), [[[[0]]]], sizes=ints(1, 1, 1, 1)),
    *(
        Case(f"ConcatFromSequence of a new axis {axis}", (FIRST, "0.26"),
             [("SequenceConstruct", "a b", "s", None),
              ("ConcatFromSequence", "s", "y", ("ConcatFromSequenceAttrs", {"axis": axis, "new_axis": True}))],
             {"a": NINE, "b": -NINE}, {"y": np.stack([NINE, -NINE], axis)})
        for axis in (-1, 2, -3)
    ),
    Case("ScatterND into a cut temporary", ("0.26", "0.27"),
         [*SLICE_OF_TEMPORARY, ("ScatterND", "d i u", "y", ("ScatterNDAttrs", {}))],
         {"x": NINE}, UPDATED, {**BOUNDS, **UPDATE}),
    Case("ScatterND into a cut temporary in its own dims", (FIRST, FIRST),
         [*SLICE_OF_TEMPORARY, ("Reshape", "d dims", "e", ("ReshapeAttrs", {})),
          ("ScatterND", "e i u", "y", ("ScatterNDAttrs", {}))],
         {"x": NINE}, UPDATED, {**BOUNDS, **UPDATE, "dims": ints(0, 0)}),
    *(
        Case(f"{op_type} of uint8", (FIRST, "0.27"), [(op_type, inputs, "y", attrs)],
             {"x": np.ones((2, 2), np.uint8)}, {"y": np.array(wanted, np.uint8)}, {"repeats": ints(1, 2)})
        for op_type, inputs, attrs, wanted in [
            ("Tile", "x repeats", None, [[1, 1, 1, 1], [1, 1, 1, 1]]),
            ("Trilu", "x", ("TriluAttrs", {"upper": True}), [[1, 1], [0, 1]])]
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_releases(case: Case, runtimes: dict[str, Any], tmp_path: Any) -> None:
    """The outputs are those that ONNX requires in all releases without the fault, and only in them."""
    path = tmp_path / "m.rten"
    path.write_bytes(file_of(case))
    right = []
    for release, runtime in runtimes.items():
        try:
            outputs = runtime.run(path, case.inputs)
        except RunnerError:
            continue
        pairs = list(zip(outputs, case.wanted.values(), strict=True))
        if all(got.shape == wanted.shape and np.allclose(got, wanted, atol=1e-6) for got, wanted in pairs):
            right.append(release)
    since, until = case.wrong
    assert [release for release in runtimes if not since <= release < until] == right
