"""What a model does not keep of an .ort file, and operators in it that other runtimes do not have."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.codecs.contract import OWN_OPERATORS
from formats.ir.channels_last import BLOCKED, CHANNELS_LAST
from formats.ir.model import Graph
from formats.ir.node_order import graphs
from formats.ort.file.buffers import READ_BYTES, place_in, root_place
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, Loss
from formats.words import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model
    from formats.tensordata.sources.source import Source

OWN = ("com.microsoft", BLOCKED, CHANNELS_LAST)
MAX_NAMES = 3


def left_out(source: Source, model: Model) -> Iterator[Loss]:
    """The losses of reading the file `source`, which has `model`."""
    found = Counter(
        f"{node.domain}.{node.op_type}"
        for _, each in graphs(model.graph or Graph())
        for node in each.node
        if node.domain in OWN
    )
    if found:
        names = sorted(found)
        nodes = f"{sum(found.values())} nodes are operators of onnxruntime, which other runtimes may not have"
        is_blocked = any(name.startswith(f"{BLOCKED}.") for name in names)
        why = ". Some have the layout of the machine that wrote the file; name a `runtime` to get the usual one"
        every, short = (
            f"{nodes} ({listed(names, most)}){why if is_blocked else ''}" for most in (len(names), MAX_NAMES)
        )
        yield Loss(OWN_OPERATORS, "graph", every, INTERFACE, short=short)
    data = memoryview(source.read() if source.nbytes <= READ_BYTES else source.view())
    session = root_place(data)
    graph = place_in(data, place_in(data, session, "InferenceSession", "model"), "Model", "graph")
    if place_in(data, graph, "Graph", "runtime_optimizations"):
        detail = "optimizations that onnxruntime would make when it loads the file are left out; they change no result"
        yield Loss("runtime_optimizations", "graph", detail, DOCUMENTATION)
    if any(place_in(data, session, "InferenceSession", name) for name in ("session_state", "kernel_type_str_resolver")):
        detail = "what minimal builds of onnxruntime need to find kernels is left out"
        yield Loss("kernels", "", detail, DOCUMENTATION)
