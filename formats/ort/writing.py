"""How a model becomes an .ort file, and what such a file does not hold of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.errors import UnsupportedError
from formats.flatbuffer.builder import build
from formats.ir.model import STANDARD_DOMAINS, Graph, Model, Node, Tensor
from formats.ir.node_order import graphs as all_graphs
from formats.ir.node_order import topological
from formats.ir.walk import visit
from formats.ort.buffers import MAX_NAMES, SCHEMA
from formats.ort.encoder import Encoder
from formats.ort.operators import ONNX, all_types
from formats.ort.preparation import with_functions, without_functions
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, USE, FilePlan, Loss, Losses, WritePlan, lay_out
from formats.words import listed

if TYPE_CHECKING:
    from pathlib import Path

    from formats.flatbuffer.fbs import Table

MAX_NESTED: Final = 10  # functions of operators in functions of operators; onnx has two
FIRST_WITH_SETS: Final = 3  # from this ir_version on, a model must name its operator sets
VERSION: Final = "4"  # every full build of onnxruntime since 1.8 loads it; 5 and 6 only add what minimal builds need


def plan_model(model: Model, destination: Path) -> WritePlan:
    """How to write `model` to `destination`.

    Raises: UnsupportedError for what the format does not hold, EncodeError for a malformed graph.
    """
    whole = without_functions(model)
    versions = {entry.domain or "": entry.version or 1 for entry in whole.opset_import}
    if ONNX in versions:
        versions[""] = versions.pop(ONNX)
    types = all_types(whole)
    for _ in range(MAX_NESTED):
        before, whole = whole, with_functions(whole, types, versions.get("", 1))
        if whole is before:
            break
        types = all_types(whole)
    graph = whole.graph or Graph()
    for where, inner in all_graphs(graph, "graph"):
        if len(topological(inner.node)) < len(inner.node):
            raise UnsupportedError(
                "nodes form a cycle, which `formats verify` shows; onnxruntime runs none", where=where
            )
    domains = {
        "" if node.domain in STANDARD_DOMAINS else node.domain or ""
        for _, inner in all_graphs(graph)
        for node in inner.node
    }
    if (missing := sorted(domains - set(versions))) and (model.ir_version or FIRST_WITH_SETS) >= FIRST_WITH_SETS:
        raise UnsupportedError(
            f"nodes are of {missing[0] or ONNX}, but the model imports no version of it (opset_import)"
        )
    domains.add("")
    used = [(domain, version) for domain, version in versions.items() if domain in domains]
    encoder = Encoder(types, versions)
    table: Table = {
        "ir_version": model.ir_version or 0,
        "opset_import": [{"domain": domain, "version": version} for domain, version in used],
        "graph": encoder.graph(graph, {}),
        "metadata_props": [{"key": entry.key or "", "value": entry.value or ""} for entry in model.metadata_props],
    }
    for name in ("producer_name", "producer_version", "domain", "doc_string", "model_version"):
        if value := getattr(model, name):
            table[name] = value
    if graph.doc_string:
        table["graph_doc_string"] = graph.doc_string
    writes, nbytes = lay_out(build({"ort_version": VERSION, "model": table}, SCHEMA))
    losses = _losses(model)
    if encoder.uncast:
        names = [*encoder.uncast]
        sentence, short = (
            f"onnxruntime has no kernels on the CPU for {listed(names, most)} in 16 bits; it adds casts when it loads "
            ".onnx files, but not when it loads .ort files"
            for most in (len(names), MAX_NAMES)
        )
        losses = (Loss("no_kernel", encoder.uncast[names[0]], sentence, INTERFACE, short=short), *losses)
    return WritePlan((FilePlan(destination, nbytes, tuple(writes)),), (), losses)


def _losses(model: Model) -> tuple[Loss, ...]:
    """What the format does not hold of a model, one loss for each kind."""
    losses = Losses()
    if model.functions:
        losses.add("functions", "the nodes of functions replace the nodes that call them", "functions", seen=USE)
    if model.training_info:
        detail = "an .ort file for inference has no training information"
        losses.add("training_info", detail, "training_info", seen=INTERFACE)
    not_distributed = "an .ort file does not distribute a model over devices"
    if model.configuration:
        losses.add("device_configuration", not_distributed, "configuration", seen=DOCUMENTATION)
    for where, message in visit(model, object):
        fields = vars(message)
        if isinstance(message, Graph):
            _add_losses_of_graph(losses, message, where)
        elif isinstance(message, Node) and fields.get("device_configurations"):
            losses.add("device_configuration", not_distributed, where, seen=DOCUMENTATION)
        if fields.get("metadata_props") and not isinstance(message, Model):
            losses.add("metadata", "an .ort file has only the metadata of the model", where, seen=DOCUMENTATION)
        if isinstance(message, Tensor) and message.segment is not None:
            losses.add("segment", "an .ort file has no segments of tensors", where, seen=INTERFACE)
    return losses.lines()


def _add_losses_of_graph(losses: Losses, graph: Graph, where: str) -> None:
    if graph.name:
        detail = "an .ort file does not hold the names of graphs"
        losses.add("graph_name", detail, f"{where}.name", seen=DOCUMENTATION)
    if graph.doc_string and where != "graph":
        detail = "an .ort file does not hold the documentation of graphs in nodes"
        losses.add("doc_string", detail, f"{where}.doc_string", seen=DOCUMENTATION)
    if graph.quantization_annotation:
        detail = "an .ort file does not hold quantisation annotations"
        losses.add("quantization_annotation", detail, where, seen=DOCUMENTATION)
