"""The releases of onnxruntime, a row each: the newest versions that each reads of ONNX's files and operator sets.

From the releases themselves, on 2026-11-23 and 27: the largest numbers with which they make a session of a model with
one Sqrt. 1.15 also accepts operator set 19, but has no kernels for most of its new forms, such as that of Cast.
`tests/codecs/test_onnxruntime_releases.py` asks some of them again.

A release that reads the versions of a model may still refuse it. What is known of that is in `limits_of`: layouts,
types, operators, and operators with one of their types, of which `onnxruntime_types.txt` has the rows.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir import MACHINE_LEARNING, ONNX, STANDARD_DOMAINS, dtypes, walk
from formats.onnxruntime import MICROSOFT
from formats.onnxruntime.operators import operator
from formats.onnxruntime.small_constants import outside
from formats.words import text_beside

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from formats.ir.model import Model, Node
    from formats.onnxpb.value_types import TypeUse


class Reads(NamedTuple):
    """The newest ir_version that a release reads, and the newest versions of two operator sets."""

    ir_version: int
    opset: int
    ml_opset: int

    @property
    def opsets(self) -> Mapping[str, int]:
        """The newest version of each operator set of ONNX, by domain."""
        return {"": self.opset, ONNX: self.opset, MACHINE_LEARNING: self.ml_opset}


RELEASES: Final[Mapping[str, Reads]] = {
    "1.8": Reads(7, 14, 2),
    "1.9": Reads(8, 15, 2),
    "1.10": Reads(8, 15, 2),
    "1.11": Reads(8, 16, 3),
    "1.12": Reads(8, 17, 3),
    "1.13": Reads(8, 17, 3),
    "1.14": Reads(8, 18, 3),
    "1.15": Reads(9, 18, 3),
    "1.16": Reads(9, 19, 3),
    "1.17": Reads(9, 20, 4),
    "1.18": Reads(10, 21, 5),
    "1.19": Reads(10, 21, 5),
    "1.20": Reads(10, 21, 5),
    "1.21": Reads(10, 22, 5),
    "1.22": Reads(10, 22, 5),
    "1.23": Reads(11, 23, 5),
    "1.24": Reads(13, 25, 5),
    "1.25": Reads(13, 26, 5),
    "1.26": Reads(13, 26, 5),
    "1.27": Reads(13, 26, 5),
    "1.28": Reads(13, 26, 5),
    "1.29": Reads(13, 26, 5),
    "1.30": Reads(13, 26, 5),
    "1.31": Reads(13, 26, 5),
    "1.32": Reads(14, 28, 5),
}
ORDER: Final = tuple(RELEASES)  # the oldest first
OLDEST: Final = ORDER[0]
NEWEST: Final = ORDER[-1]
# The first release with kernels on the CPU for a type whose versions an older one reads as well; `None`: no known one.
TYPES: Final[Mapping[str, str | None]] = {
    "UINT4": "1.19",
    "INT4": "1.19",
    "FLOAT8E8M0": "1.27",
    "FLOAT4E2M1": None,
    "COMPLEX64": None,
    "COMPLEX128": None,
}
WITH_ALLOWZERO: Final = "1.11"  # the first that takes a dim of -1 in a Reshape with allowzero
SMALL_CONSTANTS: Final = "small constants"
# onnxruntime loads some of their forms in bfloat16, and makes of others nodes for which it has no kernel.
WITHOUT_BFLOAT16: Final = ("CenterCropPad", "Clip", "Dropout")
# The first release with a kernel on the CPU for a version of an operator, if older ones read its operator set. Each
# release was asked for a session of about 4,600 models of one operator, with all versions and types of ONNX's tests.
FIRST_WITH_KERNEL: Final[Mapping[tuple[str, int], str]] = {
    ("Attention", 25): "1.32",
    ("DeformConv", 19): "1.25",
    ("DeformConv", 22): "1.25",
    ("LpNormalization", 22): "1.25",
    ("Optional", 15): "1.10",
    ("OptionalGetElement", 15): "1.10",
    ("OptionalHasElement", 15): "1.10",
    ("QLinearMatMul", 21): "1.20",
    ("QuantizeLinear", 23): "1.24",
    ("TensorScatter", 24): "1.25",
}
# The first release with a kernel on the CPU for an operator of com.microsoft that 1.8 does not have, from the kernels
# that each release from 1.16 on lists, and from which operators the older ones know.
_NEW_IN_RELEASE: Final = {
    "1.9": "GridSample NGramRepeatBlock QEmbedLayerNormalization QGemm SparseToDenseMatMul",
    "1.10": "BifurcationDetector",
    "1.11": "BeamSearch",
    "1.13": "GreedySearch QLinearSoftmax",
    "1.14": "MultiHeadAttention QLinearWhere QuickGelu Sampling SkipSimplifiedLayerNormalization",
    "1.16": "MatMulBnb4 MatMulFpQ4 MatMulNBits RotaryEmbedding",
    "1.17": "WhisperBeamSearch",
    "1.18": "GroupQueryAttention",
    "1.19": "SparseAttention",
    "1.20": "DecoderMaskedMultiHeadAttention DynamicTimeWarping GatherBlockQuantized UnfoldTensor",
    "1.23": "MoE QMoE",
    "1.25": "CausalConvWithState LinearAttention",
    "1.29": "MRotaryEmbedding",
    "1.30": "EngramGate GatedAdd GatedRMSNorm LinearAttentionGate NGramHashMapping",
    "1.31": "BranchwiseRMSNorm HyperConnectionPostMix HyperConnectionPreMix ScaledSiLU VarlenNGramHashMapping",
    "1.32": "GatedDeltaNet GatherPacked MoEGroupRouter VarlenCausalConvWithState",
}
FIRST_OF_MICROSOFT: Final = {name: release for release, names in _NEW_IN_RELEASE.items() for name in names.split()}


class Operators(NamedTuple):
    """The names of the operators in a model that are ONNX's own, and those of com.microsoft."""

    onnx: set[str]
    microsoft: set[str]


class Limit(NamedTuple):
    """What a model has that some releases do not take: those from `since` on that are before `first`.

    `None`: no later one takes it, as far as known.
    """

    reason: str
    first: str | None
    since: str = OLDEST

    def stops(self, release: str) -> bool:
        """Whether it keeps a release from the model."""
        return not lacks(release, self.since) and lacks(release, self.first)


def reading(ir_version: int, opsets: Mapping[str, int]) -> tuple[str, ...]:
    """The releases that read a model with these versions."""
    return tuple(
        release
        for release, row in RELEASES.items()
        if ir_version <= row.ir_version
        and all(version <= row.opsets.get(domain, version) for domain, version in opsets.items())
    )


def limits_of(model: Model, operators: Operators, uses: Collection[TypeUse]) -> Iterator[Limit]:
    """What is known to keep releases from a model whose versions they read; `uses` are the types that are known."""
    if not model.opset_import:
        yield Limit("the model imports no operator set", None)
    names: set[str] = set()
    for _, tensor in walk.tensors(model):
        if (row := dtypes.BY_NUMBER.get(tensor.data_type or 0)) is not None and row.name in TYPES:
            names.add(row.name)
    for value in (*model.graph.input, *model.graph.output) if model.graph else ():
        tensor_type = value.type and value.type.tensor_type
        if tensor_type and (row := dtypes.BY_NUMBER.get(tensor_type.elem_type or 0)) is not None and row.name in TYPES:
            names.add(row.name)
    names |= {name for use in uses if (name := _elements(use)) in TYPES}
    if outside(model):
        yield Limit(f"{SMALL_CONSTANTS}, such as shapes, are in another file, and it reads them before that file", None)
    yield from (Limit(f"it has no kernels for {name}", TYPES[name]) for name in TYPES if name in names)
    version = max((entry.version or 0 for entry in model.opset_import if entry.domain in STANDARD_DOMAINS), default=0)
    names_by_release: dict[str | None, list[str]] = {}
    for name in sorted(operators.onnx):
        if (first := first_with_kernel(name, version)) != OLDEST:
            names_by_release.setdefault(first, []).append(name)
    for first, names_of_release in names_by_release.items():
        yield Limit(f"it has no kernel for {', '.join(names_of_release)} in operator set {version}", first)
    yield from _limits_of_types(uses, version)
    own = {function.name for function in model.functions if function.domain == MICROSOFT}
    for name in sorted(operators.microsoft & FIRST_OF_MICROSOFT.keys() - own):
        yield Limit(f"it has no kernel on the CPU for {MICROSOFT}.{name}", FIRST_OF_MICROSOFT[name])


def _limits_of_types(uses: Collection[TypeUse], version: int) -> Iterator[Limit]:
    """The operators with a type for which some releases have no kernel, together where these releases are the same."""
    names_by_limit: dict[tuple[str, str, str | None], list[str]] = {}
    for use in sorted(uses):
        if (row := lacking(use, version)) is None:
            continue
        (since, first), name = row, _elements(use)
        if name in TYPES:  # older releases have it nowhere
            if (oldest := TYPES[name]) is None:
                continue
            since = max(since, oldest, key=ORDER.index)
        names_by_limit.setdefault((name, since, first), []).append(use.operator)
    for (name, since, first), operators in names_by_limit.items():
        reason = f"it has no kernel for {', '.join(dict.fromkeys(operators))} with {name} in operator set {version}"
        yield Limit(reason, first, since)


def _elements(use: TypeUse) -> str:
    """The type of the elements of a tensor, such as FLOAT; something else for another type."""
    return use.type.removeprefix("tensor(").removesuffix(")").upper()


@cache
def type_rows() -> dict[tuple[str, str, str], dict[int, tuple[str, str | None]]]:
    """By operator, parameter and type, and by the operator set from which on: which releases lack the type.

    They are those from the first release on, before the second one.
    """
    rows: dict[tuple[str, str, str], dict[int, tuple[str, str | None]]] = {}
    for line in text_beside(__name__, "onnxruntime_types.txt").splitlines():
        if line.startswith("#"):
            continue
        name, *parts = line.split(" ; ")
        cells: list[str] = []
        for part in parts:
            number, *changed = part.split(" ")
            cells = changed or cells
            for cell in cells:
                head, _, types = cell.partition("=")
                parameter, _, releases = head.partition(":")
                since, _, first = releases.partition("..")
                for each in types.split(","):
                    by_set = rows.setdefault((name, parameter, f"tensor({each})"), {})
                    by_set[int(number)] = since or OLDEST, first or None
    return rows


def lacking(use: TypeUse, version: int) -> tuple[str, str | None] | None:
    """Which releases lack a type in a version of ONNX's set: from the first one on, before the second one."""
    by_set = type_rows().get((use.operator, use.parameter, use.type), {})
    return next((by_set[number] for number in range(version, use.since - 1, -1) if number in by_set), None)


def has_no_kernel(release: str, use: TypeUse, version: int) -> bool:
    """Whether a release has no kernel for a type of an operator in a version of ONNX's set."""
    if use.operator in WITHOUT_BFLOAT16 and use.type == "tensor(bfloat16)":
        return True
    since, first = lacking(use, version) or (None, release)
    return since is not None and not lacks(release, since) and lacks(release, first)


def operators_of(nodes: Iterable[Node]) -> Operators:
    """The operators of nodes for which it is known which releases have them."""
    operators = Operators(set(), set())
    for node in nodes:
        if node.domain in STANDARD_DOMAINS:
            operators.onnx.add(node.op_type or "")
        elif node.domain == MICROSOFT:
            operators.microsoft.add(node.op_type or "")
    return operators


def first_with_kernel(name: str, version: int) -> str | None:
    """The first release with a kernel on the CPU, or a function, for one of ONNX's operators in a version of the set.

    `None`: no known one, as for an operator that this version does not have. It is the oldest for those that no version
    of the set has, since onnxruntime has a few of its own there.
    """
    if name == "Constant" or operator("", name, RELEASES[NEWEST].opset) is None:  # a Constant needs no kernel
        return OLDEST
    row = operator("", name, version)
    if row is None or row.mark == "n":
        return None
    return FIRST_WITH_KERNEL.get((name, row.since_version), OLDEST)


def newest_with_kernels(operators: Collection[str], version: int, release: str) -> int | None:
    """The newest version of ONNX's set, up to this one, in which a release has kernels for all of these operators.

    `None`: there is none from 7 on, the oldest one that onnxruntime promises.
    """
    for older in range(version, 6, -1):
        if not any(lacks(release, first_with_kernel(name, older)) for name in operators):
            return older
    return None


def lacks(release: str, first: str | None) -> bool:
    """Whether a release lacks what came with `first`; all lack what has come with none so far."""
    return first is None or ORDER.index(release) < ORDER.index(first)


def first_reading(opset: int) -> str | None:
    """The first known release that reads this version of ONNX's operators."""
    return next((release for release, row in RELEASES.items() if opset <= row.opset), None)
