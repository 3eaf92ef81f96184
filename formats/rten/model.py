"""A complete .rten file: header, model section and tensor section, from a model and back.

Spec: RTen, rten-model-file: the header, schema.fbs `Model` and `Metadata`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from formats.errors import DecodeError, EncodeError, LimitError, OptionError
from formats.flatbuffer.builder import build_buffer, too_many_tables
from formats.flatbuffer.fbs import MAX_TABLES, read
from formats.flatbuffer.rows import RefusalWords, read_schema
from formats.ir.model import Graph, Model, Node, OperatorSetId, StringStringEntry, entries
from formats.ir.node_order import all_mentioned
from formats.ir.walk import inner_place, visit
from formats.rten.convert.refusal import Refusal, RefusalError
from formats.rten.graph.constants import ALIGNMENT, is_constant_node
from formats.rten.graph.encoder import GraphEncoder
from formats.rten.header import HEADER_NBYTES, SCHEMA_VERSION, Header, decode_header, encode_header, is_v2
from formats.rten.options import HASH_KEY, METADATA_KEYS
from formats.rten.spec import RTEN_DOMAIN
from formats.rten.target import ALL_RELEASES, USAGE, parse_target
from formats.tensordata.plan import (
    DOCUMENTATION,
    INTERFACE,
    USE,
    Digest,
    FilePlan,
    LateWrite,
    Losses,
    PlacedWrite,
    WritePlan,
    lay_out,
)
from formats.tensordata.sources.source import Literal
from formats.words import text_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from formats.flatbuffer.fbs import Table
    from formats.rten.options import RtenOptions
    from formats.tensordata.sources.source import Source

RTEN_VERSION: Final = 1  # the operator set that a model read from a .rten file imports
READ_NBYTES: Final = 1 << 26
HASHED_UNASKED_BYTES: Final = 1 << 26  # SHA-256 takes several times as long as copying
LEAST_TABLES: Final = 4  # for an operator and its only result
HASH_NBYTES: Final = 64  # a SHA-256 in hexadecimal

SCHEMA: Final = read_schema(
    text_beside(__name__, "schema.fbs"),
    RefusalWords(
        "RTen",
        "an operator takes 2 or 3, each result 2, a constant 3",
        "graphs are nested too deeply: RTen reads at most 14 levels",
        "version 1 holds at most",
        "write version 2",
    ),
    alike="OperatorAttrs",
)

# The fields in which a message says more than RTen stores; most messages of a large model have none of them.
_SAYING_MORE = frozenset(("doc_string", "metadata_props", "device_configurations", "undecoded"))


def is_rten_form(model: Model) -> bool:
    """Whether the nodes of the model are RTen's operators, as those of a model read from a .rten file are."""
    return any(entry.domain == RTEN_DOMAIN for entry in model.opset_import)


# Writing


def plan_model(model: Model, destination: Path, options: RtenOptions) -> WritePlan:
    """How to write `model` to `destination`.

    Raises: RefusalError with everything that RTen does not support, EncodeError for a malformed graph.
    """
    _check_use(model, options)
    encoder, graph = _encode_graph(model, options)
    metadata, placeholder = _metadata(model, options)
    table = {"schema_version": SCHEMA_VERSION, "graph": graph, "metadata": metadata}
    has_header = options.rten_version == 2
    writes, end = lay_out(build_buffer(table, SCHEMA), file_offset=HEADER_NBYTES if has_header else 0)
    late_writes = [_hash_write(write) for write in writes if write.source is placeholder]
    writes = [write for write in writes if write.source is not placeholder]
    nbytes = end
    if has_header:
        start = -(-end // ALIGNMENT) * ALIGNMENT  # the tensor section begins at the next multiple
        header = Header(HEADER_NBYTES, end - HEADER_NBYTES, start)
        writes = [PlacedWrite(0, Literal(encode_header(header))), *writes, *encoder.section.writes(start)]
        nbytes = start + encoder.section.nbytes
    digests = [(Digest(HASH_KEY, "sha256"), options.source_hash)] if late_writes and options.source_hash else []
    if not is_rten_form(model):
        add_unstored(encoder.losses, model)
    file = FilePlan(destination, nbytes, tuple(writes), tuple(late_writes))
    return WritePlan((file,), tuple(digests), encoder.losses.lines(), usage=USAGE)


def _check_use(model: Model, options: RtenOptions) -> None:
    """Raises OptionError if an option has no effect on this model."""
    for name, value in (("exact", options.exact), ("runtime", options.release)):
        if is_rten_form(model) and value:
            raise OptionError(f"`{name}` is for models with ONNX operators, but this one has those of RTen")
    if options.onnx_hash and (is_rten_form(model) or options.source_hash is None):
        raise OptionError("`onnx_hash` is for conversions from .onnx, but the source is not an .onnx file")


def _encode_graph(model: Model, options: RtenOptions) -> tuple[GraphEncoder, Table]:
    """The graph's table, and the encoder with the tensors outside of it and the losses."""
    inline = options.rten_version == 1
    if is_rten_form(model):
        encoder = GraphEncoder(model, target=None, inline=inline)
        table = encoder.encode(model.graph or Graph())
        _check_refusals(model, (), encoder.refusals)
        return encoder, table
    from formats.rten.convert.legalize import legalize

    _check_size(model.graph or Graph())
    target = ALL_RELEASES if options.release is None else parse_target(options.release)
    legalized = legalize(model, options.exact, target)
    encoder = GraphEncoder(legalized.model, target=target, inline=inline, losses=legalized.losses)
    table = {}
    try:
        table = encoder.encode(legalized.model.graph or Graph())
    except EncodeError:
        if not legalized.refusals:  # otherwise, the refusals may have broken the graph
            raise
    encoder.check_interface(model.graph or Graph())
    _check_refusals(model, legalized.refusals, encoder.refusals)
    return encoder, table


def _check_size(graph: Graph) -> None:
    """Raises EncodeError if a graph needs too many tables: otherwise this is found only after most of the work.

    Each operator becomes at least one operator of RTen, which computes at least one value.
    """
    if LEAST_TABLES * len(graph.node) <= MAX_TABLES:  # as in most graphs
        return
    operators = sum(any(entries(node, "output")) and not is_constant_node(node) for node in graph.node)
    least = LEAST_TABLES * operators
    if least > MAX_TABLES:
        raise too_many_tables(SCHEMA, f"{operators} operators and their results take at least {least}")


def _check_refusals(model: Model, of_nodes: Iterable[Refusal], of_tables: Iterable[Refusal]) -> None:
    """Raises RefusalError for what stopped the legaliser, and for what stopped the encoder at other operators."""
    refusals = list(of_nodes)
    refused = {(refusal.op_type, refusal.domain) for refusal in refusals if refusal.op_type}
    versions = {entry.domain or "": entry.version for entry in model.opset_import}
    for refusal in of_tables:
        if (refusal.op_type, refusal.domain) not in refused:
            version = versions.get(refusal.domain) if refusal.op_type else None
            refusals.append(refusal._replace(version=version))
    if refusals:
        raise RefusalError(refusals)


def _metadata(model: Model, options: RtenOptions) -> tuple[Table, Source | None]:
    """The metadata table, with a placeholder for a hash that is not known yet."""
    table: dict[str, Any] = {
        entry.key: entry.value for entry in model.metadata_props if entry.key in METADATA_KEYS and entry.value
    }
    source = options.source_hash
    if source is None or is_rten_form(model):
        return table, None
    small = source.nbytes < HASHED_UNASKED_BYTES
    if not (small if options.onnx_hash is None else options.onnx_hash):
        return table, None
    placeholder = Literal(bytes(HASH_NBYTES))  # filled when the source has been read
    table[HASH_KEY] = placeholder
    return table, placeholder


def _hash_write(place: PlacedWrite) -> LateWrite:
    """The digest of the source file, written in place of the placeholder `place`."""

    def render(digests: Mapping[str, bytes]) -> bytes:
        return digests[HASH_KEY].hex().encode()

    return LateWrite(place.file_offset, place.source.nbytes, render, HASH_KEY)


# What the format does not store of a model


def add_unstored(losses: Losses, model: Model) -> None:
    """Add the losses besides those of operators: documentation, metadata and the like."""
    note = partial(losses.add, seen=DOCUMENTATION)
    for name in ("producer_name", "producer_version", "domain", "model_version"):
        if getattr(model, name):
            note("producer", "RTen does not store who made a model", name)
    for entry in model.metadata_props:
        if entry.key not in METADATA_KEYS:
            losses.add("metadata", "RTen does not store these metadata", "metadata_props", entry.key, seen=INTERFACE)
    for where, message in visit(model, object, only=_may_say_more):
        if getattr(message, "doc_string", None):
            note("doc_string", "RTen does not store documentation", where)
        if where and getattr(message, "metadata_props", None):
            note("metadata", "RTen does not store metadata of graphs, nodes and tensors", where)
        if isinstance(message, Graph):
            _add_unstored_of_graph(note, message, where)
            used = all_mentioned(message.node).union(value.name or "" for value in (*message.input, *message.output))
            constants = [("initializer", index, tensor.name or "") for index, tensor in enumerate(message.initializer)]
            constants += [("node", i, node.output[0]) for i, node in enumerate(message.node) if is_constant_node(node)]
            for field, index, name in constants:
                if name not in used:
                    detail = "nothing uses these tensors, so they are not in the file"
                    losses.add("unused", detail, inner_place(where, field, index), name, seen=USE)
        if isinstance(message, Node) and message.device_configurations:
            note("device_configuration", "RTen does not distribute models over devices", where)
    if model.training_info:
        losses.add("training_info", "RTen does not train models", "training_info", seen=INTERFACE)


def _may_say_more(message: Any) -> bool:
    return isinstance(message, Graph) or not _SAYING_MORE.isdisjoint(vars(message))


def _add_unstored_of_graph(note: Callable[..., None], graph: Graph, where: str) -> None:
    if graph.quantization_annotation:
        note("quantization_annotation", "RTen does not store quantisation annotations", where)
    for field in ("input", "output", "value_info"):
        for index, value in enumerate(getattr(graph, field)):
            place = f"{where}.{field}[{index}]"
            if value.doc_string:
                note("doc_string", "RTen does not store documentation", place, value.name)
            if value.metadata_props:
                note("metadata", "RTen does not store metadata of graphs, nodes and tensors", place, value.name)


# Reading


def read_model(source: Source) -> Model:
    """The model in a .rten file of either version, in RTen's form: nodes are operators of the domain "rten".

    Raises: DecodeError if RTen could not load the file.
    """
    from formats.rten.graph.decoder import GraphDecoder

    head = source.read(0, min(HEADER_NBYTES, source.nbytes))
    if is_v2(head):
        header = decode_header(head, source.nbytes)
        section = source.slice(header.model_offset, header.model_nbytes)
        start = header.tensor_data_offset
        tensors = source.slice(start, source.nbytes - start)
        base = header.model_offset
    else:
        section, tensors, base = source, None, 0  # version 1 is the FlatBuffer alone
    data = section.read() if section.nbytes <= READ_NBYTES else section.view()  # a large one must have weights in it
    table = read(data, SCHEMA, base=base)
    version = table["schema_version"]
    if version != SCHEMA_VERSION:
        raise DecodeError(f"cannot read version {version} of the schema, only {SCHEMA_VERSION}")
    try:
        graph = GraphDecoder(section, data, tensors).decode(table["graph"])
    except RecursionError:
        raise LimitError("graphs are nested too deeply") from None
    model = Model(opset_import=[OperatorSetId(domain=RTEN_DOMAIN, version=RTEN_VERSION)], graph=graph)
    metadata = table.get("metadata", {})
    for key in METADATA_KEYS:
        if key in metadata:
            model.metadata_props.append(StringStringEntry(key=key, value=metadata[key]))
    return model
