"""A complete model in RTen's form, in ONNX's operators.

RTen has four element types. If a file lacks something of its source model, this is the loss "forgotten". If RTen
computes something else than ONNX, this is the loss "deviation".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir.model import Graph, Model, OperatorSetId
from formats.ir.node_order import Names, graphs
from formats.rten.convert.budget import budget_of
from formats.rten.convert.context import ValueNames
from formats.rten.convert.loss_report import Losses
from formats.rten.graph.attributes import attributes_key, get_int
from formats.rten.graph.names import used_and_read
from formats.rten.onnx_loader.captures import with_reached_names
from formats.rten.operators import SPECS
from formats.rten.raising.graphs import GraphRaiser, Surroundings
from formats.rten.raising.interface import Interface
from formats.tensordata.plan import DOCUMENTATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.tensordata.plan import Loss

# The operator set of the result: the oldest one that has all operators in use, since most programs can run it. The next
# one, 22, has new forms of operators that onnxruntime 1.31 cannot run (Multinomial and other random numbers).
VERSION: Final = 21
CEIL_MODE: Final = 22  # from this version on, windows that begin in the padding at the end do not count
IR_VERSIONS: Final = {21: 10, 22: 10, 23: 11, 24: 12}


class Raised(NamedTuple):
    """A model of ONNX's operators, and its losses, of this conversion or an earlier one."""

    model: Model
    losses: tuple[Loss, ...]


def raise_model(model: Model, pin_types: Mapping[str, str] | None = None) -> Raised:
    """The model in operators of ONNX; the given one is not changed, and weights are shared.

    Raises: EncodeError for a malformed model, and for impossible types.

    Raises: EncodeError for a model that is not well formed, and for types that are not possible.
    """
    losses = Losses()
    graph = model.graph or Graph()
    version = _version(graph)
    detail = "a .rten file does not say which operator set the model used"
    losses.add("forgotten", detail, "opset_import", f"now {version}", seen=DOCUMENTATION)
    interface = Interface(graph, pin_types or {}, losses)
    surroundings = Surroundings(ValueNames(*used_and_read(model)), Names(), losses, version)
    raiser = GraphRaiser(graph, surroundings, interface=interface)
    for value in graph.input:
        raiser.add_input(value, interface.of_input(value))
    with budget_of(model):
        raiser.run()
    raised = replace(
        model,
        ir_version=IR_VERSIONS[version],
        opset_import=[OperatorSetId(domain="", version=version)],
        graph=with_reached_names(raiser.finish())[0],
    )
    return Raised(raised, losses.lines())


def _version(graph: Graph) -> int:
    """The operator set that a graph needs."""
    version = VERSION
    seen: dict[tuple[str | None, bytes | None], Node] = {}  # a node for each operator with some attributes
    for _, found in graphs(graph):
        for node in found.node:
            seen.setdefault((node.op_type, attributes_key(node)), node)
    for node in seen.values():
        spec = SPECS.get(node.op_type or "")
        version = max(version, CEIL_MODE if get_int(node, "ceil_mode") else 0, spec.raised_version if spec else 0)
    return version
