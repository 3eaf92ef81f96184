"""How a model becomes an .ort file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.errors import UnsupportedError
from formats.ir.model import Graph
from formats.ir.node_order import graphs as all_graphs
from formats.ir.node_order import topological
from formats.ort.file.buffers import build
from formats.ort.writing.encoder import MAX_NAMES, Encoder
from formats.ort.writing.operators import ONNX
from formats.ort.writing.preparation import without_functions
from formats.ort.writing.schema_functions import with_functions
from formats.ort.writing.types import all_types
from formats.ort.writing.unheld import unheld
from formats.tensordata.plan import INTERFACE, FilePlan, Loss, WritePlan, lay_out
from formats.words import listed

if TYPE_CHECKING:
    from pathlib import Path

    from formats.flatbuffer.fbs import Table
    from formats.ir.model import Model
    from formats.ort.options import OrtOptions

MAX_NESTED: Final = 10  # functions of operators in functions of operators; onnx has two
FIRST_WITH_SETS: Final = 3  # from this ir_version on, a model must name its operator sets
VERSION: Final = "4"  # every full build of onnxruntime since 1.8 loads it; 5 and 6 only add what minimal builds need


def plan_model(model: Model, destination: Path, options: OrtOptions) -> WritePlan:
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
    for where, each in all_graphs(graph, "graph"):
        if len(topological(each.node)) < len(each.node):
            raise UnsupportedError(
                "nodes form a cycle, which `formats verify` shows; onnxruntime runs none", where=where
            )
    domains = {"" if node.domain == ONNX else node.domain or "" for _, each in all_graphs(graph) for node in each.node}
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
    writes, nbytes = lay_out(build({"ort_version": VERSION, "model": table}))
    losses = unheld(model)
    if encoder.uncast:
        names = [*encoder.uncast]
        every, short = (
            f"onnxruntime has no kernels on the CPU for {listed(names, most)} in 16 bits; it adds casts when it loads "
            ".onnx files, but not when it loads .ort files"
            for most in (len(names), MAX_NAMES)
        )
        losses = (Loss("no_kernel", encoder.uncast[names[0]], every, INTERFACE, short=short), *losses)
    return WritePlan((FilePlan(destination, nbytes, tuple(writes)),), (), losses)
