"""What is known about each operator, in one module for each family.

`SPECS` has all operators. The module of a family has its operators as `OperatorSpec`s, each after the functions that
it uses. Families use operators of other families as symbols, such as `shape.Reshape`, inside of functions. So they
import modules. Modules that are not families: `spec.py` says what a spec is, `rules.py`, `ranges.py`, `deviations.py`,
`rewritings.py`, `window.py` and `recurrent_loop.py` have what several families share, `interpolation.py` has the
numbers of resizing, and `tree_nodes.py` the nodes of decision trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.rten.operators import (
    activation,
    attention,
    bits,
    casting,
    comparison,
    contrib,
    contrib_attention,
    contrib_quantized,
    contrib_recurrence,
    control_flow,
    convolution,
    creation,
    cumulative,
    dynamic_quantization,
    elementwise,
    grids,
    indexing,
    integer_products,
    linear_attention,
    losses,
    matrix,
    ml,
    ngrams,
    normalization,
    overlaps,
    padding,
    pooling,
    preview,
    quantization,
    random,
    recurrence,
    reduction,
    regions,
    resize,
    scatter,
    sequence,
    shape,
    signal,
    slicing,
    support_vectors,
    suppression,
    trees,
    unique,
)
from formats.rten.operators.spec import STANDARD_DOMAINS, OperatorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node

FAMILIES: Final = (
    activation,
    attention,
    bits,
    casting,
    comparison,
    contrib,
    contrib_attention,
    contrib_quantized,
    contrib_recurrence,
    control_flow,
    convolution,
    creation,
    cumulative,
    dynamic_quantization,
    elementwise,
    grids,
    indexing,
    integer_products,
    linear_attention,
    losses,
    matrix,
    ml,
    ngrams,
    normalization,
    overlaps,
    padding,
    pooling,
    preview,
    quantization,
    random,
    recurrence,
    reduction,
    regions,
    resize,
    scatter,
    sequence,
    shape,
    signal,
    slicing,
    support_vectors,
    suppression,
    trees,
    unique,
)

ALL_SPECS: Final = tuple(
    value for family in FAMILIES for value in vars(family).values() if isinstance(value, OperatorSpec)
)
SPECS: Final[Mapping[str, OperatorSpec]] = {spec.name: spec for spec in ALL_SPECS if not spec.domain}
BY_DOMAIN: Final[Mapping[tuple[str, str], OperatorSpec]] = {(spec.domain, spec.name): spec for spec in ALL_SPECS}
FOLDINGS: Final = tuple(folding for spec in ALL_SPECS for folding in spec.foldings)
HELD: Final[Mapping[str, OperatorSpec]] = {name: spec for name, spec in sorted(SPECS.items()) if spec.row is not None}


def spec_of(node: Node) -> OperatorSpec | None:
    """What is known about a node's operator; `None` if the operator is not known."""
    if node.domain in STANDARD_DOMAINS:
        return SPECS.get(node.op_type or "")
    return BY_DOMAIN.get((node.domain or "", node.op_type or ""))
