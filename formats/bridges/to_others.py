"""Models as objects of other packages, each imported when it is first needed; `from_others.py` does the opposite.

How weights reach onnxruntime was measured with version 1.31 and a weight of 200 MB:

| way                                              | copies | while the session is made |
|--------------------------------------------------|--------|---------------------------|
| references into the file that has the weight     | 0      | 0, and no byte is read    |
| `add_external_initializers`                      | 1      | 1                         |
| `add_external_initializers_from_files_in_memory` | 1      | 2                         |

The first way maps the file, and the weight can be at any offset in it. The last way cannot be used together with the
first. So weights in a file (a model, an archive or a data file) use the first way. Weights that are only in memory,
or that are stored in another form than onnxruntime's, use the second way.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from formats.bridges.from_others import WeightForIr
from formats.codecs.contract import HEAD_BYTES, Match
from formats.errors import EncodeError, OptionError
from formats.extras import needed
from formats.ir import dtypes, walk
from formats.ir.archive_link import without_link
from formats.ir.functions import check_calls
from formats.ir.model import Model, Tensor
from formats.ir.storage import with_raw_data, with_reference, without_data
from formats.onnxpb.wire.encoder import check_assigned, encoded, encoded_for_protobuf, misfits_located
from formats.onnxpb.wire.schema import MESSAGES
from formats.ort import CODEC as ORT
from formats.tensordata.file import is_stream
from formats.tensordata.sources.source import FileSpan, Source
from formats.verbs.steps import opening, planning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.codecs.keys import Key
    from formats.ir.model import Graph
    from formats.tensordata.file import File

MOST_NODES: Final = 100_000  # that calls of functions become: for 32,768, onnxruntime 1.32 takes 20 s, and 60 MB
SMALL_BYTES = 1024  # weights below this size stay in the model: onnxruntime needs some to infer shapes
FOLDER_KEY = "session.model_external_initializers_file_folder_path"
ORT_KEYS = (  # map an .ort file, and use the weights in it in place; releases before 1.26 ignore the first, and read
    "session.use_memory_mapped_ort_model",
    "session.use_ort_model_bytes_directly",
    "session.use_ort_model_bytes_for_initializers",
)
COMPLEX = frozenset((14, 15))  # types of values that onnxruntime does not have


# onnx


def to_onnx(model: Any) -> Any:
    """Make an `onnx.ModelProto` of a model; they share no data.

    It contains all weights, including those in other files; only references to unknown data are kept.

    For example:

        >>> formats.to_onnx(formats.load("model.onnx")).graph.node[0].op_type
        'Conv'

    Raises: EncodeError if the model is not consistent; TensorDataError or OSError if weights cannot be read.
    """
    return _to_onnx(_raised(model), _inlined)


def _raised(model: Any) -> Model:
    """The model of the IR, in the operators of ONNX; it does not mention the archive that contains its weights."""
    raised = planning.raise_model(model)[0]
    if raised is model:  # what the caller assigned
        with misfits_located(raised):
            check_assigned(raised)
    return without_link(raised)


def _to_onnx(model: Model, stored: Callable[[Tensor], Tensor]) -> Any:
    with needed("onnx", "messages of onnx"):
        import onnx

    proto = onnx.ModelProto()
    _to_protobuf(model, proto, stored)
    return proto


def _inlined(tensor: Tensor) -> Tensor:
    return tensor if tensor.external_source is None else with_raw_data(tensor, tensor.source())


def _to_protobuf(message: Any, proto: Any, stored: Callable[[Tensor], Tensor]) -> None:
    """An empty message becomes that of the IR: from its bytes, or from its fields if there are too many bytes."""
    message = stored(message) if isinstance(message, Tensor) else message
    data = encoded_for_protobuf(message, stored)
    if data is not None:
        proto.ParseFromString(data)
        return
    rows = [row for row in MESSAGES[message.message] if row.kind == "message" or row.name == "raw_data"]
    empty: dict[str, Any] = {row.name: [] if row.label == "repeated" else None for row in rows}
    proto.ParseFromString(encoded(replace(message, **empty)))
    for row in rows:
        value = getattr(message, row.name)
        if row.label == "repeated":
            for item in value:
                _to_protobuf(item, getattr(proto, row.name).add(), stored)
        elif isinstance(value, Source):
            proto.raw_data = value.read()
        elif value is not None:
            inner = getattr(proto, row.name)
            inner.SetInParent()
            _to_protobuf(value, inner, stored)


# onnx_ir


def to_onnx_ir(model: Any) -> Any:
    """Make an `onnx_ir.Model` of a model; its larger initialisers are a `LazyTensor` each, whose arrays map the files.

    Unknown fields are lost, because `onnx_ir` does not support them.

    For example:

        >>> formats.to_onnx_ir(formats.load("model.onnx")).graph.name
        'digits'

    Raises: EncodeError if the model is not consistent; TensorDataError or OSError if weights cannot be read.
    """
    with needed("onnx_ir", "models of onnx-ir"):
        import onnx_ir

    model = _raised(model)
    tensors = model.graph.initializer if model.graph else []
    with misfits_located(model):
        shared = {id(tensor) for tensor in tensors if not tensor.string_data and tensor.source().nbytes >= SMALL_BYTES}
    proto = _to_onnx(model, lambda tensor: without_data(tensor) if id(tensor) in shared else _inlined(tensor))
    try:
        new = onnx_ir.from_proto(proto)
    except onnx_ir.serde.SerdeError as error:
        raise EncodeError("onnx_ir does not take this model; `formats.verify` may say what is wrong with it") from error
    for tensor in tensors:
        if id(tensor) in shared:
            new.graph.initializers[tensor.name].const_value = onnx_ir.LazyTensor(
                WeightForIr(tensor),
                onnx_ir.DataType(tensor.data_type),
                onnx_ir.Shape(tensor.dims),
                name=tensor.name,
                doc_string=tensor.doc_string,
                metadata_props={entry.key: entry.value for entry in tensor.metadata_props},
            )
    return new


# onnxruntime


def onnxruntime_session(
    model_or_path: Any,
    sess_options: Any = None,
    providers: Sequence[Any] | None = None,
    provider_options: Sequence[Any] | None = None,
    *,
    model: str | None = None,
    key: Key | str | bytes | None = None,
    **options: Any,
) -> Any:
    """Make an `onnxruntime.InferenceSession` of a model of any size: a model object, its bytes, or the path of a file.

    The file may have any format; `model` is the name of the model in an archive with several, and `key` that of an
    encrypted model. The other arguments are those of InferenceSession, in its order.

    Nothing is written. Weights in a file stay there: onnxruntime maps it, and it must not change meanwhile. It reads an
    .ort file itself, once the file is checked. onnxruntime copies other weights; the session keeps the model alive.
    `sess_options` are changed, so use them for only one session.

    For example:

        >>> session = formats.onnxruntime_session("model.onnx")
        >>> [value.name for value in session.get_outputs()]
        ['probabilities']

    Raises: FormatError if the model cannot be read, has more than 2 GiB without the initialisers of its graphs, or
    calls functions that become more than 100,000 nodes; the error of onnxruntime if it refuses the model.
    """
    if isinstance(sess_options, (list, tuple)):
        raise TypeError("sess_options comes before providers, as with InferenceSession; name them: providers=[...]")
    with needed("onnxruntime", "sessions"):
        import onnxruntime

    sess_options = sess_options or onnxruntime.SessionOptions()
    if isinstance(model_or_path, (str, os.PathLike)) or hasattr(model_or_path, "read"):
        path = model_or_path
        model_or_path = opening.load(path, model=model, key=key)  # which checks the whole file
        if _is_ort(path):
            for key in ORT_KEYS:
                sess_options.add_session_config_entry(key, "1")
            return onnxruntime.InferenceSession(os.fspath(path), sess_options, providers, provider_options, **options)
    elif isinstance(model_or_path, (bytes, bytearray, memoryview)):
        model_or_path = opening.loads(model_or_path, model=model, key=key)
    elif model is not None or key is not None:
        words = "`key` is for an encrypted file" if model is None else "`model` is for a file with several models"
        raise OptionError(f"{words}, and this is a model object")
    own = _raised(model_or_path)
    check_calls(own, MOST_NODES, "onnxruntime gets")
    weights = _Weights()
    with misfits_located(own):
        for _, graph in walk.graphs(own):
            weights.move(graph, is_main=graph is own.graph)
    data = encoded_for_protobuf(own, lambda tensor: weights.moved.get(id(tensor)) or _inlined(tensor))
    if data is None:
        raise EncodeError("the model has more than 2 GiB without its initialisers, which onnxruntime cannot read")
    if weights.folder:
        sess_options.add_session_config_entry(FOLDER_KEY, str(weights.folder))
    values = [
        onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, tensor.data_type)
        for tensor, array in weights.in_memory
    ]
    sess_options.add_external_initializers([tensor.name for tensor, _ in weights.in_memory], values)
    session = onnxruntime.InferenceSession(data, sess_options, providers, provider_options, **options)
    session.formats_weights = weights  # alive as long as the session is
    return session


def _is_ort(path: Any) -> bool:
    """Whether a path is that of a local .ort file."""
    try:
        with Path(path).open("rb") as file:
            return ORT.sniff(file.read(HEAD_BYTES), 0) is Match.STRONG
    except (OSError, TypeError, ValueError):  # an address, or something that is no path
        return False


@dataclass
class _Weights:
    """The initialisers that are not in the model for onnxruntime, and the references that replace them there.

    All files of references are in `folder` or below; onnxruntime refuses others. `in_memory` are initialisers of the
    main
    graph: onnxruntime accepts no others by name.
    """

    folder: Path | None = None
    moved: dict[int, Tensor] = field(default_factory=dict)
    in_memory: list[tuple[Tensor, Any]] = field(default_factory=list)

    def move(self, graph: Graph, *, is_main: bool) -> None:
        """Take the larger initialisers of a graph out."""
        for tensor in graph.initializer:
            row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
            if not row or not row.bits:
                continue
            source = tensor.source()
            if source.nbytes < SMALL_BYTES:
                continue
            span = source if isinstance(source, FileSpan) else None
            location = self.locate(span.file) if span else None
            if span and location:
                self.moved[id(tensor)] = _reference(tensor, location, span.file_offset, span.nbytes)
            elif is_main and row.bits >= 8 and row.number not in COMPLEX:
                self.moved[id(tensor)] = _reference(tensor, "memory", 0, source.nbytes)
                self.in_memory.append((tensor, tensor.numpy()))

    def locate(self, file: File) -> str | None:
        """The path of a file relative to the folder, or `None` if the file is not below it or has changed."""
        if not file.is_local or is_stream(file.path):
            return None
        path = Path(os.path.realpath(file.path))
        self.folder = self.folder or path.parent
        if not path.is_relative_to(self.folder) or not path.exists():
            return None
        file.check_unchanged()
        with file.descriptor() as descriptor:
            is_same = os.path.samestat(os.fstat(descriptor), path.stat())
        return path.relative_to(self.folder).as_posix() if is_same else None


def _reference(tensor: Tensor, location: str, offset: int, nbytes: int) -> Tensor:
    return with_reference(tensor, {"location": location, "offset": str(offset), "length": str(nbytes)})
