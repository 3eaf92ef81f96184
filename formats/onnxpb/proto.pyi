"""The types of the message classes, which `proto.py` makes from the schema when it is imported.

Generated from schemas/onnx.proto by `python schemas/generate.py`; change that file, not this one.
"""
# ruff: noqa - a table, with the names of ONNX and a line for each, however long
# fmt: off

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeVar, overload

from formats.ir.model import Model, Tensor
from formats.onnxpb.containers import RepeatedMessages, RepeatedNumbers, RepeatedScalars
from formats.onnxpb.descriptor import EnumDescriptor
from formats.onnxpb.message import Message

E = TypeVar("E")

class EnumType(type):
    DESCRIPTOR: EnumDescriptor
    def Name(cls, number: int) -> str: ...
    def Value(cls: type[E], name: str) -> E: ...
    def keys(cls) -> list[str]: ...
    def values(cls: type[E]) -> list[E]: ...
    def items(cls: type[E]) -> list[tuple[str, E]]: ...

CLASSES: dict[str, type[Message]]

@overload
def wrap(ir: Model) -> ModelProto: ...
@overload
def wrap(ir: Tensor) -> TensorProto: ...
@overload
def wrap(ir: Any) -> Any: ...
@overload
def unwrap(message: ModelProto | Model) -> Model: ...
@overload
def unwrap(message: Any) -> Any: ...

class Version(int, metaclass=EnumType):
    _START_VERSION: ClassVar[Version]
    IR_VERSION_2017_10_10: ClassVar[Version]
    IR_VERSION_2017_10_30: ClassVar[Version]
    IR_VERSION_2017_11_3: ClassVar[Version]
    IR_VERSION_2019_1_22: ClassVar[Version]
    IR_VERSION_2019_3_18: ClassVar[Version]
    IR_VERSION_2019_9_19: ClassVar[Version]
    IR_VERSION_2020_5_8: ClassVar[Version]
    IR_VERSION_2021_7_30: ClassVar[Version]
    IR_VERSION_2023_5_5: ClassVar[Version]
    IR_VERSION_2024_3_25: ClassVar[Version]
    IR_VERSION_2025_05_12: ClassVar[Version]
    IR_VERSION_2025_08_26: ClassVar[Version]
    IR_VERSION_2025_11_06: ClassVar[Version]
    IR_VERSION: ClassVar[Version]

_START_VERSION: Version
IR_VERSION_2017_10_10: Version
IR_VERSION_2017_10_30: Version
IR_VERSION_2017_11_3: Version
IR_VERSION_2019_1_22: Version
IR_VERSION_2019_3_18: Version
IR_VERSION_2019_9_19: Version
IR_VERSION_2020_5_8: Version
IR_VERSION_2021_7_30: Version
IR_VERSION_2023_5_5: Version
IR_VERSION_2024_3_25: Version
IR_VERSION_2025_05_12: Version
IR_VERSION_2025_08_26: Version
IR_VERSION_2025_11_06: Version
IR_VERSION: Version

class OperatorStatus(int, metaclass=EnumType):
    EXPERIMENTAL: ClassVar[OperatorStatus]
    STABLE: ClassVar[OperatorStatus]

EXPERIMENTAL: OperatorStatus
STABLE: OperatorStatus

class AttributeProto(Message):
    class AttributeType(int, metaclass=EnumType):
        UNDEFINED: ClassVar[AttributeProto.AttributeType]
        FLOAT: ClassVar[AttributeProto.AttributeType]
        INT: ClassVar[AttributeProto.AttributeType]
        STRING: ClassVar[AttributeProto.AttributeType]
        TENSOR: ClassVar[AttributeProto.AttributeType]
        GRAPH: ClassVar[AttributeProto.AttributeType]
        FLOATS: ClassVar[AttributeProto.AttributeType]
        INTS: ClassVar[AttributeProto.AttributeType]
        STRINGS: ClassVar[AttributeProto.AttributeType]
        TENSORS: ClassVar[AttributeProto.AttributeType]
        GRAPHS: ClassVar[AttributeProto.AttributeType]
        SPARSE_TENSOR: ClassVar[AttributeProto.AttributeType]
        SPARSE_TENSORS: ClassVar[AttributeProto.AttributeType]
        TYPE_PROTO: ClassVar[AttributeProto.AttributeType]
        TYPE_PROTOS: ClassVar[AttributeProto.AttributeType]

    UNDEFINED: ClassVar[AttributeProto.AttributeType]
    FLOAT: ClassVar[AttributeProto.AttributeType]
    INT: ClassVar[AttributeProto.AttributeType]
    STRING: ClassVar[AttributeProto.AttributeType]
    TENSOR: ClassVar[AttributeProto.AttributeType]
    GRAPH: ClassVar[AttributeProto.AttributeType]
    FLOATS: ClassVar[AttributeProto.AttributeType]
    INTS: ClassVar[AttributeProto.AttributeType]
    STRINGS: ClassVar[AttributeProto.AttributeType]
    TENSORS: ClassVar[AttributeProto.AttributeType]
    GRAPHS: ClassVar[AttributeProto.AttributeType]
    SPARSE_TENSOR: ClassVar[AttributeProto.AttributeType]
    SPARSE_TENSORS: ClassVar[AttributeProto.AttributeType]
    TYPE_PROTO: ClassVar[AttributeProto.AttributeType]
    TYPE_PROTOS: ClassVar[AttributeProto.AttributeType]
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    F_FIELD_NUMBER: ClassVar[Literal[2]]
    I_FIELD_NUMBER: ClassVar[Literal[3]]
    S_FIELD_NUMBER: ClassVar[Literal[4]]
    T_FIELD_NUMBER: ClassVar[Literal[5]]
    G_FIELD_NUMBER: ClassVar[Literal[6]]
    FLOATS_FIELD_NUMBER: ClassVar[Literal[7]]
    INTS_FIELD_NUMBER: ClassVar[Literal[8]]
    STRINGS_FIELD_NUMBER: ClassVar[Literal[9]]
    TENSORS_FIELD_NUMBER: ClassVar[Literal[10]]
    GRAPHS_FIELD_NUMBER: ClassVar[Literal[11]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[13]]
    TP_FIELD_NUMBER: ClassVar[Literal[14]]
    TYPE_PROTOS_FIELD_NUMBER: ClassVar[Literal[15]]
    TYPE_FIELD_NUMBER: ClassVar[Literal[20]]
    REF_ATTR_NAME_FIELD_NUMBER: ClassVar[Literal[21]]
    SPARSE_TENSOR_FIELD_NUMBER: ClassVar[Literal[22]]
    SPARSE_TENSORS_FIELD_NUMBER: ClassVar[Literal[23]]
    name: str
    f: float
    i: int
    s: bytes
    @property
    def t(self) -> TensorProto: ...
    @property
    def g(self) -> GraphProto: ...
    @property
    def floats(self) -> RepeatedScalars[float]: ...
    @property
    def ints(self) -> RepeatedScalars[int]: ...
    @property
    def strings(self) -> RepeatedScalars[bytes]: ...
    @property
    def tensors(self) -> RepeatedMessages[TensorProto]: ...
    @property
    def graphs(self) -> RepeatedMessages[GraphProto]: ...
    doc_string: str
    @property
    def tp(self) -> TypeProto: ...
    @property
    def type_protos(self) -> RepeatedMessages[TypeProto]: ...
    type: AttributeProto.AttributeType
    ref_attr_name: str
    @property
    def sparse_tensor(self) -> SparseTensorProto: ...
    @property
    def sparse_tensors(self) -> RepeatedMessages[SparseTensorProto]: ...
    def __init__(self, *, name: str | None = ..., f: float | None = ..., i: int | None = ..., s: bytes | None = ..., t: TensorProto | dict[str, Any] | None = ..., g: GraphProto | dict[str, Any] | None = ..., floats: Iterable[float] | None = ..., ints: Iterable[int] | None = ..., strings: Iterable[bytes] | None = ..., tensors: Iterable[TensorProto | dict[str, Any]] | None = ..., graphs: Iterable[GraphProto | dict[str, Any]] | None = ..., doc_string: str | None = ..., tp: TypeProto | dict[str, Any] | None = ..., type_protos: Iterable[TypeProto | dict[str, Any]] | None = ..., type: AttributeProto.AttributeType | str | None = ..., ref_attr_name: str | None = ..., sparse_tensor: SparseTensorProto | dict[str, Any] | None = ..., sparse_tensors: Iterable[SparseTensorProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "f", "i", "s", "t", "g", "doc_string", "tp", "type", "ref_attr_name", "sparse_tensor"]) -> bool: ...
    def ClearField(self, name: Literal["name", "f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs", "doc_string", "tp", "type_protos", "type", "ref_attr_name", "sparse_tensor", "sparse_tensors"]) -> None: ...

class ValueInfoProto(Message):
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    TYPE_FIELD_NUMBER: ClassVar[Literal[2]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[3]]
    METADATA_PROPS_FIELD_NUMBER: ClassVar[Literal[4]]
    name: str
    @property
    def type(self) -> TypeProto: ...
    doc_string: str
    @property
    def metadata_props(self) -> RepeatedMessages[StringStringEntryProto]: ...
    def __init__(self, *, name: str | None = ..., type: TypeProto | dict[str, Any] | None = ..., doc_string: str | None = ..., metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "type", "doc_string"]) -> bool: ...
    def ClearField(self, name: Literal["name", "type", "doc_string", "metadata_props"]) -> None: ...

class NodeProto(Message):
    INPUT_FIELD_NUMBER: ClassVar[Literal[1]]
    OUTPUT_FIELD_NUMBER: ClassVar[Literal[2]]
    NAME_FIELD_NUMBER: ClassVar[Literal[3]]
    OP_TYPE_FIELD_NUMBER: ClassVar[Literal[4]]
    ATTRIBUTE_FIELD_NUMBER: ClassVar[Literal[5]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[6]]
    DOMAIN_FIELD_NUMBER: ClassVar[Literal[7]]
    OVERLOAD_FIELD_NUMBER: ClassVar[Literal[8]]
    METADATA_PROPS_FIELD_NUMBER: ClassVar[Literal[9]]
    DEVICE_CONFIGURATIONS_FIELD_NUMBER: ClassVar[Literal[10]]
    @property
    def input(self) -> RepeatedScalars[str]: ...
    @property
    def output(self) -> RepeatedScalars[str]: ...
    name: str
    op_type: str
    @property
    def attribute(self) -> RepeatedMessages[AttributeProto]: ...
    doc_string: str
    domain: str
    overload: str
    @property
    def metadata_props(self) -> RepeatedMessages[StringStringEntryProto]: ...
    @property
    def device_configurations(self) -> RepeatedMessages[NodeDeviceConfigurationProto]: ...
    def __init__(self, *, input: Iterable[str] | None = ..., output: Iterable[str] | None = ..., name: str | None = ..., op_type: str | None = ..., attribute: Iterable[AttributeProto | dict[str, Any]] | None = ..., doc_string: str | None = ..., domain: str | None = ..., overload: str | None = ..., metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = ..., device_configurations: Iterable[NodeDeviceConfigurationProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "op_type", "doc_string", "domain", "overload"]) -> bool: ...
    def ClearField(self, name: Literal["input", "output", "name", "op_type", "attribute", "doc_string", "domain", "overload", "metadata_props", "device_configurations"]) -> None: ...

class IntIntListEntryProto(Message):
    KEY_FIELD_NUMBER: ClassVar[Literal[1]]
    VALUE_FIELD_NUMBER: ClassVar[Literal[2]]
    key: int
    @property
    def value(self) -> RepeatedScalars[int]: ...
    def __init__(self, *, key: int | None = ..., value: Iterable[int] | None = ...) -> None: ...
    def HasField(self, name: Literal["key"]) -> bool: ...
    def ClearField(self, name: Literal["key", "value"]) -> None: ...

class NodeDeviceConfigurationProto(Message):
    CONFIGURATION_ID_FIELD_NUMBER: ClassVar[Literal[1]]
    SHARDING_SPEC_FIELD_NUMBER: ClassVar[Literal[2]]
    PIPELINE_STAGE_FIELD_NUMBER: ClassVar[Literal[3]]
    configuration_id: str
    @property
    def sharding_spec(self) -> RepeatedMessages[ShardingSpecProto]: ...
    pipeline_stage: int
    def __init__(self, *, configuration_id: str | None = ..., sharding_spec: Iterable[ShardingSpecProto | dict[str, Any]] | None = ..., pipeline_stage: int | None = ...) -> None: ...
    def HasField(self, name: Literal["configuration_id", "pipeline_stage"]) -> bool: ...
    def ClearField(self, name: Literal["configuration_id", "sharding_spec", "pipeline_stage"]) -> None: ...

class ShardingSpecProto(Message):
    TENSOR_NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    DEVICE_FIELD_NUMBER: ClassVar[Literal[2]]
    INDEX_TO_DEVICE_GROUP_MAP_FIELD_NUMBER: ClassVar[Literal[3]]
    SHARDED_DIM_FIELD_NUMBER: ClassVar[Literal[4]]
    tensor_name: str
    @property
    def device(self) -> RepeatedScalars[int]: ...
    @property
    def index_to_device_group_map(self) -> RepeatedMessages[IntIntListEntryProto]: ...
    @property
    def sharded_dim(self) -> RepeatedMessages[ShardedDimProto]: ...
    def __init__(self, *, tensor_name: str | None = ..., device: Iterable[int] | None = ..., index_to_device_group_map: Iterable[IntIntListEntryProto | dict[str, Any]] | None = ..., sharded_dim: Iterable[ShardedDimProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["tensor_name"]) -> bool: ...
    def ClearField(self, name: Literal["tensor_name", "device", "index_to_device_group_map", "sharded_dim"]) -> None: ...

class ShardedDimProto(Message):
    AXIS_FIELD_NUMBER: ClassVar[Literal[1]]
    SIMPLE_SHARDING_FIELD_NUMBER: ClassVar[Literal[2]]
    axis: int
    @property
    def simple_sharding(self) -> RepeatedMessages[SimpleShardedDimProto]: ...
    def __init__(self, *, axis: int | None = ..., simple_sharding: Iterable[SimpleShardedDimProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["axis"]) -> bool: ...
    def ClearField(self, name: Literal["axis", "simple_sharding"]) -> None: ...

class SimpleShardedDimProto(Message):
    DIM_VALUE_FIELD_NUMBER: ClassVar[Literal[1]]
    DIM_PARAM_FIELD_NUMBER: ClassVar[Literal[2]]
    NUM_SHARDS_FIELD_NUMBER: ClassVar[Literal[3]]
    dim_value: int
    dim_param: str
    num_shards: int
    def __init__(self, *, dim_value: int | None = ..., dim_param: str | None = ..., num_shards: int | None = ...) -> None: ...
    def HasField(self, name: Literal["dim_value", "dim_param", "num_shards", "dim"]) -> bool: ...
    def ClearField(self, name: Literal["dim_value", "dim_param", "num_shards", "dim"]) -> None: ...
    def WhichOneof(self, name: Literal["dim"]) -> Literal["dim_value", "dim_param"] | None: ...

class TrainingInfoProto(Message):
    INITIALIZATION_FIELD_NUMBER: ClassVar[Literal[1]]
    ALGORITHM_FIELD_NUMBER: ClassVar[Literal[2]]
    INITIALIZATION_BINDING_FIELD_NUMBER: ClassVar[Literal[3]]
    UPDATE_BINDING_FIELD_NUMBER: ClassVar[Literal[4]]
    @property
    def initialization(self) -> GraphProto: ...
    @property
    def algorithm(self) -> GraphProto: ...
    @property
    def initialization_binding(self) -> RepeatedMessages[StringStringEntryProto]: ...
    @property
    def update_binding(self) -> RepeatedMessages[StringStringEntryProto]: ...
    def __init__(self, *, initialization: GraphProto | dict[str, Any] | None = ..., algorithm: GraphProto | dict[str, Any] | None = ..., initialization_binding: Iterable[StringStringEntryProto | dict[str, Any]] | None = ..., update_binding: Iterable[StringStringEntryProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["initialization", "algorithm"]) -> bool: ...
    def ClearField(self, name: Literal["initialization", "algorithm", "initialization_binding", "update_binding"]) -> None: ...

class ModelProto(Message):
    IR_VERSION_FIELD_NUMBER: ClassVar[Literal[1]]
    PRODUCER_NAME_FIELD_NUMBER: ClassVar[Literal[2]]
    PRODUCER_VERSION_FIELD_NUMBER: ClassVar[Literal[3]]
    DOMAIN_FIELD_NUMBER: ClassVar[Literal[4]]
    MODEL_VERSION_FIELD_NUMBER: ClassVar[Literal[5]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[6]]
    GRAPH_FIELD_NUMBER: ClassVar[Literal[7]]
    OPSET_IMPORT_FIELD_NUMBER: ClassVar[Literal[8]]
    METADATA_PROPS_FIELD_NUMBER: ClassVar[Literal[14]]
    TRAINING_INFO_FIELD_NUMBER: ClassVar[Literal[20]]
    FUNCTIONS_FIELD_NUMBER: ClassVar[Literal[25]]
    CONFIGURATION_FIELD_NUMBER: ClassVar[Literal[26]]
    ir_version: int
    producer_name: str
    producer_version: str
    domain: str
    model_version: int
    doc_string: str
    @property
    def graph(self) -> GraphProto: ...
    @property
    def opset_import(self) -> RepeatedMessages[OperatorSetIdProto]: ...
    @property
    def metadata_props(self) -> RepeatedMessages[StringStringEntryProto]: ...
    @property
    def training_info(self) -> RepeatedMessages[TrainingInfoProto]: ...
    @property
    def functions(self) -> RepeatedMessages[FunctionProto]: ...
    @property
    def configuration(self) -> RepeatedMessages[DeviceConfigurationProto]: ...
    def __init__(self, *, ir_version: int | None = ..., producer_name: str | None = ..., producer_version: str | None = ..., domain: str | None = ..., model_version: int | None = ..., doc_string: str | None = ..., graph: GraphProto | dict[str, Any] | None = ..., opset_import: Iterable[OperatorSetIdProto | dict[str, Any]] | None = ..., metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = ..., training_info: Iterable[TrainingInfoProto | dict[str, Any]] | None = ..., functions: Iterable[FunctionProto | dict[str, Any]] | None = ..., configuration: Iterable[DeviceConfigurationProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string", "graph"]) -> bool: ...
    def ClearField(self, name: Literal["ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string", "graph", "opset_import", "metadata_props", "training_info", "functions", "configuration"]) -> None: ...

class DeviceConfigurationProto(Message):
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    NUM_DEVICES_FIELD_NUMBER: ClassVar[Literal[2]]
    DEVICE_FIELD_NUMBER: ClassVar[Literal[3]]
    name: str
    num_devices: int
    @property
    def device(self) -> RepeatedScalars[str]: ...
    def __init__(self, *, name: str | None = ..., num_devices: int | None = ..., device: Iterable[str] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "num_devices"]) -> bool: ...
    def ClearField(self, name: Literal["name", "num_devices", "device"]) -> None: ...

class StringStringEntryProto(Message):
    KEY_FIELD_NUMBER: ClassVar[Literal[1]]
    VALUE_FIELD_NUMBER: ClassVar[Literal[2]]
    key: str
    value: str
    def __init__(self, *, key: str | None = ..., value: str | None = ...) -> None: ...
    def HasField(self, name: Literal["key", "value"]) -> bool: ...
    def ClearField(self, name: Literal["key", "value"]) -> None: ...

class TensorAnnotation(Message):
    TENSOR_NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    QUANT_PARAMETER_TENSOR_NAMES_FIELD_NUMBER: ClassVar[Literal[2]]
    tensor_name: str
    @property
    def quant_parameter_tensor_names(self) -> RepeatedMessages[StringStringEntryProto]: ...
    def __init__(self, *, tensor_name: str | None = ..., quant_parameter_tensor_names: Iterable[StringStringEntryProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["tensor_name"]) -> bool: ...
    def ClearField(self, name: Literal["tensor_name", "quant_parameter_tensor_names"]) -> None: ...

class GraphProto(Message):
    NODE_FIELD_NUMBER: ClassVar[Literal[1]]
    NAME_FIELD_NUMBER: ClassVar[Literal[2]]
    INITIALIZER_FIELD_NUMBER: ClassVar[Literal[5]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[10]]
    INPUT_FIELD_NUMBER: ClassVar[Literal[11]]
    OUTPUT_FIELD_NUMBER: ClassVar[Literal[12]]
    VALUE_INFO_FIELD_NUMBER: ClassVar[Literal[13]]
    QUANTIZATION_ANNOTATION_FIELD_NUMBER: ClassVar[Literal[14]]
    SPARSE_INITIALIZER_FIELD_NUMBER: ClassVar[Literal[15]]
    METADATA_PROPS_FIELD_NUMBER: ClassVar[Literal[16]]
    @property
    def node(self) -> RepeatedMessages[NodeProto]: ...
    name: str
    @property
    def initializer(self) -> RepeatedMessages[TensorProto]: ...
    doc_string: str
    @property
    def input(self) -> RepeatedMessages[ValueInfoProto]: ...
    @property
    def output(self) -> RepeatedMessages[ValueInfoProto]: ...
    @property
    def value_info(self) -> RepeatedMessages[ValueInfoProto]: ...
    @property
    def quantization_annotation(self) -> RepeatedMessages[TensorAnnotation]: ...
    @property
    def sparse_initializer(self) -> RepeatedMessages[SparseTensorProto]: ...
    @property
    def metadata_props(self) -> RepeatedMessages[StringStringEntryProto]: ...
    def __init__(self, *, node: Iterable[NodeProto | dict[str, Any]] | None = ..., name: str | None = ..., initializer: Iterable[TensorProto | dict[str, Any]] | None = ..., doc_string: str | None = ..., input: Iterable[ValueInfoProto | dict[str, Any]] | None = ..., output: Iterable[ValueInfoProto | dict[str, Any]] | None = ..., value_info: Iterable[ValueInfoProto | dict[str, Any]] | None = ..., quantization_annotation: Iterable[TensorAnnotation | dict[str, Any]] | None = ..., sparse_initializer: Iterable[SparseTensorProto | dict[str, Any]] | None = ..., metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "doc_string"]) -> bool: ...
    def ClearField(self, name: Literal["node", "name", "initializer", "doc_string", "input", "output", "value_info", "quantization_annotation", "sparse_initializer", "metadata_props"]) -> None: ...

class TensorProto(Message):
    class DataType(int, metaclass=EnumType):
        UNDEFINED: ClassVar[TensorProto.DataType]
        FLOAT: ClassVar[TensorProto.DataType]
        UINT8: ClassVar[TensorProto.DataType]
        INT8: ClassVar[TensorProto.DataType]
        UINT16: ClassVar[TensorProto.DataType]
        INT16: ClassVar[TensorProto.DataType]
        INT32: ClassVar[TensorProto.DataType]
        INT64: ClassVar[TensorProto.DataType]
        STRING: ClassVar[TensorProto.DataType]
        BOOL: ClassVar[TensorProto.DataType]
        FLOAT16: ClassVar[TensorProto.DataType]
        DOUBLE: ClassVar[TensorProto.DataType]
        UINT32: ClassVar[TensorProto.DataType]
        UINT64: ClassVar[TensorProto.DataType]
        COMPLEX64: ClassVar[TensorProto.DataType]
        COMPLEX128: ClassVar[TensorProto.DataType]
        BFLOAT16: ClassVar[TensorProto.DataType]
        FLOAT8E4M3FN: ClassVar[TensorProto.DataType]
        FLOAT8E4M3FNUZ: ClassVar[TensorProto.DataType]
        FLOAT8E5M2: ClassVar[TensorProto.DataType]
        FLOAT8E5M2FNUZ: ClassVar[TensorProto.DataType]
        UINT4: ClassVar[TensorProto.DataType]
        INT4: ClassVar[TensorProto.DataType]
        FLOAT4E2M1: ClassVar[TensorProto.DataType]
        FLOAT8E8M0: ClassVar[TensorProto.DataType]
        UINT2: ClassVar[TensorProto.DataType]
        INT2: ClassVar[TensorProto.DataType]
        FLOAT6E2M3: ClassVar[TensorProto.DataType]
        FLOAT6E3M2: ClassVar[TensorProto.DataType]

    UNDEFINED: ClassVar[TensorProto.DataType]
    FLOAT: ClassVar[TensorProto.DataType]
    UINT8: ClassVar[TensorProto.DataType]
    INT8: ClassVar[TensorProto.DataType]
    UINT16: ClassVar[TensorProto.DataType]
    INT16: ClassVar[TensorProto.DataType]
    INT32: ClassVar[TensorProto.DataType]
    INT64: ClassVar[TensorProto.DataType]
    STRING: ClassVar[TensorProto.DataType]
    BOOL: ClassVar[TensorProto.DataType]
    FLOAT16: ClassVar[TensorProto.DataType]
    DOUBLE: ClassVar[TensorProto.DataType]
    UINT32: ClassVar[TensorProto.DataType]
    UINT64: ClassVar[TensorProto.DataType]
    COMPLEX64: ClassVar[TensorProto.DataType]
    COMPLEX128: ClassVar[TensorProto.DataType]
    BFLOAT16: ClassVar[TensorProto.DataType]
    FLOAT8E4M3FN: ClassVar[TensorProto.DataType]
    FLOAT8E4M3FNUZ: ClassVar[TensorProto.DataType]
    FLOAT8E5M2: ClassVar[TensorProto.DataType]
    FLOAT8E5M2FNUZ: ClassVar[TensorProto.DataType]
    UINT4: ClassVar[TensorProto.DataType]
    INT4: ClassVar[TensorProto.DataType]
    FLOAT4E2M1: ClassVar[TensorProto.DataType]
    FLOAT8E8M0: ClassVar[TensorProto.DataType]
    UINT2: ClassVar[TensorProto.DataType]
    INT2: ClassVar[TensorProto.DataType]
    FLOAT6E2M3: ClassVar[TensorProto.DataType]
    FLOAT6E3M2: ClassVar[TensorProto.DataType]
    class DataLocation(int, metaclass=EnumType):
        DEFAULT: ClassVar[TensorProto.DataLocation]
        EXTERNAL: ClassVar[TensorProto.DataLocation]

    DEFAULT: ClassVar[TensorProto.DataLocation]
    EXTERNAL: ClassVar[TensorProto.DataLocation]
    class Segment(Message):
        BEGIN_FIELD_NUMBER: ClassVar[Literal[1]]
        END_FIELD_NUMBER: ClassVar[Literal[2]]
        begin: int
        end: int
        def __init__(self, *, begin: int | None = ..., end: int | None = ...) -> None: ...
        def HasField(self, name: Literal["begin", "end"]) -> bool: ...
        def ClearField(self, name: Literal["begin", "end"]) -> None: ...

    DIMS_FIELD_NUMBER: ClassVar[Literal[1]]
    DATA_TYPE_FIELD_NUMBER: ClassVar[Literal[2]]
    SEGMENT_FIELD_NUMBER: ClassVar[Literal[3]]
    FLOAT_DATA_FIELD_NUMBER: ClassVar[Literal[4]]
    INT32_DATA_FIELD_NUMBER: ClassVar[Literal[5]]
    STRING_DATA_FIELD_NUMBER: ClassVar[Literal[6]]
    INT64_DATA_FIELD_NUMBER: ClassVar[Literal[7]]
    NAME_FIELD_NUMBER: ClassVar[Literal[8]]
    RAW_DATA_FIELD_NUMBER: ClassVar[Literal[9]]
    DOUBLE_DATA_FIELD_NUMBER: ClassVar[Literal[10]]
    UINT64_DATA_FIELD_NUMBER: ClassVar[Literal[11]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[12]]
    EXTERNAL_DATA_FIELD_NUMBER: ClassVar[Literal[13]]
    DATA_LOCATION_FIELD_NUMBER: ClassVar[Literal[14]]
    METADATA_PROPS_FIELD_NUMBER: ClassVar[Literal[16]]
    @property
    def dims(self) -> RepeatedScalars[int]: ...
    data_type: int
    @property
    def segment(self) -> TensorProto.Segment: ...
    @property
    def float_data(self) -> RepeatedNumbers[float]: ...
    @property
    def int32_data(self) -> RepeatedNumbers[int]: ...
    @property
    def string_data(self) -> RepeatedScalars[bytes]: ...
    @property
    def int64_data(self) -> RepeatedNumbers[int]: ...
    name: str
    raw_data: bytes
    @property
    def double_data(self) -> RepeatedNumbers[float]: ...
    @property
    def uint64_data(self) -> RepeatedNumbers[int]: ...
    doc_string: str
    @property
    def external_data(self) -> RepeatedMessages[StringStringEntryProto]: ...
    data_location: TensorProto.DataLocation
    @property
    def metadata_props(self) -> RepeatedMessages[StringStringEntryProto]: ...
    def __init__(self, *, dims: Iterable[int] | None = ..., data_type: int | None = ..., segment: TensorProto.Segment | dict[str, Any] | None = ..., float_data: Iterable[float] | None = ..., int32_data: Iterable[int] | None = ..., string_data: Iterable[bytes] | None = ..., int64_data: Iterable[int] | None = ..., name: str | None = ..., raw_data: bytes | None = ..., double_data: Iterable[float] | None = ..., uint64_data: Iterable[int] | None = ..., doc_string: str | None = ..., external_data: Iterable[StringStringEntryProto | dict[str, Any]] | None = ..., data_location: TensorProto.DataLocation | str | None = ..., metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["data_type", "segment", "name", "raw_data", "doc_string", "data_location"]) -> bool: ...
    def ClearField(self, name: Literal["dims", "data_type", "segment", "float_data", "int32_data", "string_data", "int64_data", "name", "raw_data", "double_data", "uint64_data", "doc_string", "external_data", "data_location", "metadata_props"]) -> None: ...

class SparseTensorProto(Message):
    VALUES_FIELD_NUMBER: ClassVar[Literal[1]]
    INDICES_FIELD_NUMBER: ClassVar[Literal[2]]
    DIMS_FIELD_NUMBER: ClassVar[Literal[3]]
    @property
    def values(self) -> TensorProto: ...
    @property
    def indices(self) -> TensorProto: ...
    @property
    def dims(self) -> RepeatedScalars[int]: ...
    def __init__(self, *, values: TensorProto | dict[str, Any] | None = ..., indices: TensorProto | dict[str, Any] | None = ..., dims: Iterable[int] | None = ...) -> None: ...
    def HasField(self, name: Literal["values", "indices"]) -> bool: ...
    def ClearField(self, name: Literal["values", "indices", "dims"]) -> None: ...

class TensorShapeProto(Message):
    class Dimension(Message):
        DIM_VALUE_FIELD_NUMBER: ClassVar[Literal[1]]
        DIM_PARAM_FIELD_NUMBER: ClassVar[Literal[2]]
        DENOTATION_FIELD_NUMBER: ClassVar[Literal[3]]
        dim_value: int
        dim_param: str
        denotation: str
        def __init__(self, *, dim_value: int | None = ..., dim_param: str | None = ..., denotation: str | None = ...) -> None: ...
        def HasField(self, name: Literal["dim_value", "dim_param", "denotation", "value"]) -> bool: ...
        def ClearField(self, name: Literal["dim_value", "dim_param", "denotation", "value"]) -> None: ...
        def WhichOneof(self, name: Literal["value"]) -> Literal["dim_value", "dim_param"] | None: ...

    DIM_FIELD_NUMBER: ClassVar[Literal[1]]
    @property
    def dim(self) -> RepeatedMessages[TensorShapeProto.Dimension]: ...
    def __init__(self, *, dim: Iterable[TensorShapeProto.Dimension | dict[str, Any]] | None = ...) -> None: ...
    def ClearField(self, name: Literal["dim"]) -> None: ...

class TypeProto(Message):
    class Tensor(Message):
        ELEM_TYPE_FIELD_NUMBER: ClassVar[Literal[1]]
        SHAPE_FIELD_NUMBER: ClassVar[Literal[2]]
        elem_type: int
        @property
        def shape(self) -> TensorShapeProto: ...
        def __init__(self, *, elem_type: int | None = ..., shape: TensorShapeProto | dict[str, Any] | None = ...) -> None: ...
        def HasField(self, name: Literal["elem_type", "shape"]) -> bool: ...
        def ClearField(self, name: Literal["elem_type", "shape"]) -> None: ...

    class Sequence(Message):
        ELEM_TYPE_FIELD_NUMBER: ClassVar[Literal[1]]
        @property
        def elem_type(self) -> TypeProto: ...
        def __init__(self, *, elem_type: TypeProto | dict[str, Any] | None = ...) -> None: ...
        def HasField(self, name: Literal["elem_type"]) -> bool: ...
        def ClearField(self, name: Literal["elem_type"]) -> None: ...

    class Map(Message):
        KEY_TYPE_FIELD_NUMBER: ClassVar[Literal[1]]
        VALUE_TYPE_FIELD_NUMBER: ClassVar[Literal[2]]
        key_type: int
        @property
        def value_type(self) -> TypeProto: ...
        def __init__(self, *, key_type: int | None = ..., value_type: TypeProto | dict[str, Any] | None = ...) -> None: ...
        def HasField(self, name: Literal["key_type", "value_type"]) -> bool: ...
        def ClearField(self, name: Literal["key_type", "value_type"]) -> None: ...

    class Optional(Message):
        ELEM_TYPE_FIELD_NUMBER: ClassVar[Literal[1]]
        @property
        def elem_type(self) -> TypeProto: ...
        def __init__(self, *, elem_type: TypeProto | dict[str, Any] | None = ...) -> None: ...
        def HasField(self, name: Literal["elem_type"]) -> bool: ...
        def ClearField(self, name: Literal["elem_type"]) -> None: ...

    class SparseTensor(Message):
        ELEM_TYPE_FIELD_NUMBER: ClassVar[Literal[1]]
        SHAPE_FIELD_NUMBER: ClassVar[Literal[2]]
        elem_type: int
        @property
        def shape(self) -> TensorShapeProto: ...
        def __init__(self, *, elem_type: int | None = ..., shape: TensorShapeProto | dict[str, Any] | None = ...) -> None: ...
        def HasField(self, name: Literal["elem_type", "shape"]) -> bool: ...
        def ClearField(self, name: Literal["elem_type", "shape"]) -> None: ...

    class Opaque(Message):
        DOMAIN_FIELD_NUMBER: ClassVar[Literal[1]]
        NAME_FIELD_NUMBER: ClassVar[Literal[2]]
        domain: str
        name: str
        def __init__(self, *, domain: str | None = ..., name: str | None = ...) -> None: ...
        def HasField(self, name: Literal["domain", "name"]) -> bool: ...
        def ClearField(self, name: Literal["domain", "name"]) -> None: ...

    TENSOR_TYPE_FIELD_NUMBER: ClassVar[Literal[1]]
    SEQUENCE_TYPE_FIELD_NUMBER: ClassVar[Literal[4]]
    MAP_TYPE_FIELD_NUMBER: ClassVar[Literal[5]]
    DENOTATION_FIELD_NUMBER: ClassVar[Literal[6]]
    OPAQUE_TYPE_FIELD_NUMBER: ClassVar[Literal[7]]
    SPARSE_TENSOR_TYPE_FIELD_NUMBER: ClassVar[Literal[8]]
    OPTIONAL_TYPE_FIELD_NUMBER: ClassVar[Literal[9]]
    @property
    def tensor_type(self) -> TypeProto.Tensor: ...
    @property
    def sequence_type(self) -> TypeProto.Sequence: ...
    @property
    def map_type(self) -> TypeProto.Map: ...
    denotation: str
    @property
    def opaque_type(self) -> TypeProto.Opaque: ...
    @property
    def sparse_tensor_type(self) -> TypeProto.SparseTensor: ...
    @property
    def optional_type(self) -> TypeProto.Optional: ...
    def __init__(self, *, tensor_type: TypeProto.Tensor | dict[str, Any] | None = ..., sequence_type: TypeProto.Sequence | dict[str, Any] | None = ..., map_type: TypeProto.Map | dict[str, Any] | None = ..., denotation: str | None = ..., opaque_type: TypeProto.Opaque | dict[str, Any] | None = ..., sparse_tensor_type: TypeProto.SparseTensor | dict[str, Any] | None = ..., optional_type: TypeProto.Optional | dict[str, Any] | None = ...) -> None: ...
    def HasField(self, name: Literal["tensor_type", "sequence_type", "map_type", "denotation", "opaque_type", "sparse_tensor_type", "optional_type", "value"]) -> bool: ...
    def ClearField(self, name: Literal["tensor_type", "sequence_type", "map_type", "denotation", "opaque_type", "sparse_tensor_type", "optional_type", "value"]) -> None: ...
    def WhichOneof(self, name: Literal["value"]) -> Literal["tensor_type", "sequence_type", "map_type", "opaque_type", "sparse_tensor_type", "optional_type"] | None: ...

class OperatorSetIdProto(Message):
    DOMAIN_FIELD_NUMBER: ClassVar[Literal[1]]
    VERSION_FIELD_NUMBER: ClassVar[Literal[2]]
    domain: str
    version: int
    def __init__(self, *, domain: str | None = ..., version: int | None = ...) -> None: ...
    def HasField(self, name: Literal["domain", "version"]) -> bool: ...
    def ClearField(self, name: Literal["domain", "version"]) -> None: ...

class FunctionProto(Message):
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    INPUT_FIELD_NUMBER: ClassVar[Literal[4]]
    OUTPUT_FIELD_NUMBER: ClassVar[Literal[5]]
    ATTRIBUTE_FIELD_NUMBER: ClassVar[Literal[6]]
    NODE_FIELD_NUMBER: ClassVar[Literal[7]]
    DOC_STRING_FIELD_NUMBER: ClassVar[Literal[8]]
    OPSET_IMPORT_FIELD_NUMBER: ClassVar[Literal[9]]
    DOMAIN_FIELD_NUMBER: ClassVar[Literal[10]]
    ATTRIBUTE_PROTO_FIELD_NUMBER: ClassVar[Literal[11]]
    VALUE_INFO_FIELD_NUMBER: ClassVar[Literal[12]]
    OVERLOAD_FIELD_NUMBER: ClassVar[Literal[13]]
    METADATA_PROPS_FIELD_NUMBER: ClassVar[Literal[14]]
    name: str
    @property
    def input(self) -> RepeatedScalars[str]: ...
    @property
    def output(self) -> RepeatedScalars[str]: ...
    @property
    def attribute(self) -> RepeatedScalars[str]: ...
    @property
    def node(self) -> RepeatedMessages[NodeProto]: ...
    doc_string: str
    @property
    def opset_import(self) -> RepeatedMessages[OperatorSetIdProto]: ...
    domain: str
    @property
    def attribute_proto(self) -> RepeatedMessages[AttributeProto]: ...
    @property
    def value_info(self) -> RepeatedMessages[ValueInfoProto]: ...
    overload: str
    @property
    def metadata_props(self) -> RepeatedMessages[StringStringEntryProto]: ...
    def __init__(self, *, name: str | None = ..., input: Iterable[str] | None = ..., output: Iterable[str] | None = ..., attribute: Iterable[str] | None = ..., node: Iterable[NodeProto | dict[str, Any]] | None = ..., doc_string: str | None = ..., opset_import: Iterable[OperatorSetIdProto | dict[str, Any]] | None = ..., domain: str | None = ..., attribute_proto: Iterable[AttributeProto | dict[str, Any]] | None = ..., value_info: Iterable[ValueInfoProto | dict[str, Any]] | None = ..., overload: str | None = ..., metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "doc_string", "domain", "overload"]) -> bool: ...
    def ClearField(self, name: Literal["name", "input", "output", "attribute", "node", "doc_string", "opset_import", "domain", "attribute_proto", "value_info", "overload", "metadata_props"]) -> None: ...

class SequenceProto(Message):
    class DataType(int, metaclass=EnumType):
        UNDEFINED: ClassVar[SequenceProto.DataType]
        TENSOR: ClassVar[SequenceProto.DataType]
        SPARSE_TENSOR: ClassVar[SequenceProto.DataType]
        SEQUENCE: ClassVar[SequenceProto.DataType]
        MAP: ClassVar[SequenceProto.DataType]
        OPTIONAL: ClassVar[SequenceProto.DataType]

    UNDEFINED: ClassVar[SequenceProto.DataType]
    TENSOR: ClassVar[SequenceProto.DataType]
    SPARSE_TENSOR: ClassVar[SequenceProto.DataType]
    SEQUENCE: ClassVar[SequenceProto.DataType]
    MAP: ClassVar[SequenceProto.DataType]
    OPTIONAL: ClassVar[SequenceProto.DataType]
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    ELEM_TYPE_FIELD_NUMBER: ClassVar[Literal[2]]
    TENSOR_VALUES_FIELD_NUMBER: ClassVar[Literal[3]]
    SPARSE_TENSOR_VALUES_FIELD_NUMBER: ClassVar[Literal[4]]
    SEQUENCE_VALUES_FIELD_NUMBER: ClassVar[Literal[5]]
    MAP_VALUES_FIELD_NUMBER: ClassVar[Literal[6]]
    OPTIONAL_VALUES_FIELD_NUMBER: ClassVar[Literal[7]]
    name: str
    elem_type: int
    @property
    def tensor_values(self) -> RepeatedMessages[TensorProto]: ...
    @property
    def sparse_tensor_values(self) -> RepeatedMessages[SparseTensorProto]: ...
    @property
    def sequence_values(self) -> RepeatedMessages[SequenceProto]: ...
    @property
    def map_values(self) -> RepeatedMessages[MapProto]: ...
    @property
    def optional_values(self) -> RepeatedMessages[OptionalProto]: ...
    def __init__(self, *, name: str | None = ..., elem_type: int | None = ..., tensor_values: Iterable[TensorProto | dict[str, Any]] | None = ..., sparse_tensor_values: Iterable[SparseTensorProto | dict[str, Any]] | None = ..., sequence_values: Iterable[SequenceProto | dict[str, Any]] | None = ..., map_values: Iterable[MapProto | dict[str, Any]] | None = ..., optional_values: Iterable[OptionalProto | dict[str, Any]] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "elem_type"]) -> bool: ...
    def ClearField(self, name: Literal["name", "elem_type", "tensor_values", "sparse_tensor_values", "sequence_values", "map_values", "optional_values"]) -> None: ...

class MapProto(Message):
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    KEY_TYPE_FIELD_NUMBER: ClassVar[Literal[2]]
    KEYS_FIELD_NUMBER: ClassVar[Literal[3]]
    STRING_KEYS_FIELD_NUMBER: ClassVar[Literal[4]]
    VALUES_FIELD_NUMBER: ClassVar[Literal[5]]
    name: str
    key_type: int
    @property
    def keys(self) -> RepeatedScalars[int]: ...
    @property
    def string_keys(self) -> RepeatedScalars[bytes]: ...
    @property
    def values(self) -> SequenceProto: ...
    def __init__(self, *, name: str | None = ..., key_type: int | None = ..., keys: Iterable[int] | None = ..., string_keys: Iterable[bytes] | None = ..., values: SequenceProto | dict[str, Any] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "key_type", "values"]) -> bool: ...
    def ClearField(self, name: Literal["name", "key_type", "keys", "string_keys", "values"]) -> None: ...

class OptionalProto(Message):
    class DataType(int, metaclass=EnumType):
        UNDEFINED: ClassVar[OptionalProto.DataType]
        TENSOR: ClassVar[OptionalProto.DataType]
        SPARSE_TENSOR: ClassVar[OptionalProto.DataType]
        SEQUENCE: ClassVar[OptionalProto.DataType]
        MAP: ClassVar[OptionalProto.DataType]
        OPTIONAL: ClassVar[OptionalProto.DataType]

    UNDEFINED: ClassVar[OptionalProto.DataType]
    TENSOR: ClassVar[OptionalProto.DataType]
    SPARSE_TENSOR: ClassVar[OptionalProto.DataType]
    SEQUENCE: ClassVar[OptionalProto.DataType]
    MAP: ClassVar[OptionalProto.DataType]
    OPTIONAL: ClassVar[OptionalProto.DataType]
    NAME_FIELD_NUMBER: ClassVar[Literal[1]]
    ELEM_TYPE_FIELD_NUMBER: ClassVar[Literal[2]]
    TENSOR_VALUE_FIELD_NUMBER: ClassVar[Literal[3]]
    SPARSE_TENSOR_VALUE_FIELD_NUMBER: ClassVar[Literal[4]]
    SEQUENCE_VALUE_FIELD_NUMBER: ClassVar[Literal[5]]
    MAP_VALUE_FIELD_NUMBER: ClassVar[Literal[6]]
    OPTIONAL_VALUE_FIELD_NUMBER: ClassVar[Literal[7]]
    name: str
    elem_type: int
    @property
    def tensor_value(self) -> TensorProto: ...
    @property
    def sparse_tensor_value(self) -> SparseTensorProto: ...
    @property
    def sequence_value(self) -> SequenceProto: ...
    @property
    def map_value(self) -> MapProto: ...
    @property
    def optional_value(self) -> OptionalProto: ...
    def __init__(self, *, name: str | None = ..., elem_type: int | None = ..., tensor_value: TensorProto | dict[str, Any] | None = ..., sparse_tensor_value: SparseTensorProto | dict[str, Any] | None = ..., sequence_value: SequenceProto | dict[str, Any] | None = ..., map_value: MapProto | dict[str, Any] | None = ..., optional_value: OptionalProto | dict[str, Any] | None = ...) -> None: ...
    def HasField(self, name: Literal["name", "elem_type", "tensor_value", "sparse_tensor_value", "sequence_value", "map_value", "optional_value"]) -> bool: ...
    def ClearField(self, name: Literal["name", "elem_type", "tensor_value", "sparse_tensor_value", "sequence_value", "map_value", "optional_value"]) -> None: ...
