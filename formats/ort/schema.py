"""The tables, enums and unions of an .ort file as rows: what is in each slot of each table.

Generated from schemas/ort.fbs by `python schemas/generate.py`; change that file, not this one.
"""

from __future__ import annotations

from formats.flatbuffer.rows import Enum, TableField

TABLES: dict[str, tuple[TableField, ...]] = {
    "InferenceSession": (
        TableField(0, "ort_version", "string"),
        TableField(1, "model", "Model"),
        TableField(2, "session_state", "SessionState"),
        TableField(3, "kernel_type_str_resolver", "KernelTypeStrResolver"),
    ),
    "Model": (
        TableField(0, "ir_version", "long", 0),
        TableField(1, "opset_import", "[OperatorSetId]"),
        TableField(2, "producer_name", "string"),
        TableField(3, "producer_version", "string"),
        TableField(4, "domain", "string"),
        TableField(5, "model_version", "long", 0),
        TableField(6, "doc_string", "string"),
        TableField(7, "graph", "Graph"),
        TableField(8, "graph_doc_string", "string"),
        TableField(9, "metadata_props", "[StringStringEntry]"),
    ),
    "OperatorSetId": (
        TableField(0, "domain", "string"),
        TableField(1, "version", "long", 0),
    ),
    "StringStringEntry": (
        TableField(0, "key", "string"),
        TableField(1, "value", "string"),
    ),
    "Graph": (
        TableField(0, "initializers", "[Tensor]"),
        TableField(1, "node_args", "[ValueInfo]"),
        TableField(2, "nodes", "[Node]"),
        TableField(3, "max_node_index", "uint", 0),
        TableField(4, "node_edges", "[NodeEdge]"),
        TableField(5, "inputs", "[string]"),
        TableField(6, "outputs", "[string]"),
        TableField(7, "sparse_initializers", "[SparseTensor]"),
        TableField(8, "runtime_optimizations", "RuntimeOptimizations"),
    ),
    "Node": (
        TableField(0, "name", "string"),
        TableField(1, "doc_string", "string"),
        TableField(2, "domain", "string"),
        TableField(3, "since_version", "int", 0),
        TableField(4, "index", "uint", 0),
        TableField(5, "op_type", "string"),
        TableField(6, "type", "int", 0),
        TableField(7, "execution_provider_type", "string"),
        TableField(8, "inputs", "[string]"),
        TableField(9, "outputs", "[string]"),
        TableField(10, "attributes", "[Attribute]"),
        TableField(11, "input_arg_counts", "[int]"),
        TableField(12, "implicit_inputs", "[string]"),
    ),
    "NodeEdge": (
        TableField(0, "node_index", "uint", 0),
        TableField(1, "input_edges", "[EdgeEnd]"),
        TableField(2, "output_edges", "[EdgeEnd]"),
    ),
    "Attribute": (
        TableField(0, "name", "string"),
        TableField(1, "doc_string", "string"),
        TableField(2, "type", "int", 0),
        TableField(3, "f", "float", 0.0),
        TableField(4, "i", "long", 0),
        TableField(5, "s", "string", binary=True),
        TableField(6, "t", "Tensor"),
        TableField(7, "g", "Graph"),
        TableField(8, "floats", "[float]"),
        TableField(9, "ints", "[long]"),
        TableField(10, "strings", "[string]", binary=True),
        TableField(11, "tensors", "[Tensor]"),
        TableField(12, "graphs", "[Graph]"),
    ),
    "Tensor": (
        TableField(0, "name", "string"),
        TableField(1, "doc_string", "string"),
        TableField(2, "dims", "[long]"),
        TableField(3, "data_type", "int", 0),
        TableField(4, "raw_data", "[ubyte]", in_place=True),
        TableField(5, "string_data", "[string]", binary=True),
        TableField(6, "external_data_offset", "long", -1),
    ),
    "SparseTensor": (
        TableField(0, "values", "Tensor"),
        TableField(1, "indices", "Tensor"),
        TableField(2, "dims", "[long]"),
    ),
    "ValueInfo": (
        TableField(0, "name", "string"),
        TableField(1, "doc_string", "string"),
        TableField(2, "type", "TypeInfo"),
    ),
    "TypeInfo": (
        TableField(0, "denotation", "string"),
        TableField(1, "value", "TypeInfoValue"),
    ),
    "TensorTypeAndShape": (
        TableField(0, "elem_type", "int", 0),
        TableField(1, "shape", "Shape"),
    ),
    "SequenceType": (TableField(0, "elem_type", "TypeInfo"),),
    "MapType": (
        TableField(0, "key_type", "int", 0),
        TableField(1, "value_type", "TypeInfo"),
    ),
    "Shape": (TableField(0, "dim", "[Dimension]"),),
    "Dimension": (
        TableField(0, "value", "DimensionValue"),
        TableField(1, "denotation", "string"),
    ),
    "DimensionValue": (
        TableField(0, "dim_type", "DimensionValueType", "UNKNOWN"),
        TableField(1, "dim_value", "long", 0),
        TableField(2, "dim_param", "string"),
    ),
    "RuntimeOptimizations": (TableField(0, "records", "[RuntimeOptimizationRecordContainerEntry]"),),
    "RuntimeOptimizationRecordContainerEntry": (
        TableField(0, "optimizer_name", "string"),
        TableField(1, "runtime_optimization_records", "[RuntimeOptimizationRecord]"),
    ),
    "RuntimeOptimizationRecord": (
        TableField(0, "action_id", "string"),
        TableField(1, "nodes_to_optimize_indices", "NodesToOptimizeIndices"),
        TableField(2, "produced_nodes", "[NodeIndexAndKernelDefHash]"),
        TableField(3, "produced_op_ids", "[string]"),
    ),
    "NodesToOptimizeIndices": (
        TableField(0, "node_indices", "[uint]"),
        TableField(1, "num_inputs", "uint", 0),
        TableField(2, "num_outputs", "uint", 0),
        TableField(3, "has_variadic_input", "bool", False),
        TableField(4, "has_variadic_output", "bool", False),
        TableField(5, "num_variadic_inputs", "uint", 0),
        TableField(6, "num_variadic_outputs", "uint", 0),
    ),
    "NodeIndexAndKernelDefHash": (
        TableField(0, "node_index", "uint", 0),
        TableField(1, "kernel_def_hash", "ulong", 0),
    ),
    "SessionState": (
        TableField(0, "kernels", "KernelCreateInfos"),
        TableField(1, "sub_graph_session_states", "[SubGraphSessionState]"),
    ),
    "KernelCreateInfos": (
        TableField(0, "node_indices", "[uint]"),
        TableField(1, "kernel_def_hashes", "[ulong]"),
    ),
    "SubGraphSessionState": (
        TableField(0, "graph_id", "string"),
        TableField(1, "session_state", "SessionState"),
    ),
    "KernelTypeStrResolver": (TableField(0, "op_kernel_type_str_args", "[OpIdKernelTypeStrArgsEntry]"),),
    "OpIdKernelTypeStrArgsEntry": (
        TableField(0, "op_id", "string"),
        TableField(1, "kernel_type_str_args", "[KernelTypeStrArgsEntry]"),
    ),
    "KernelTypeStrArgsEntry": (
        TableField(0, "kernel_type_str", "string"),
        TableField(1, "args", "[ArgTypeAndIndex]"),
    ),
    "ArgTypeAndIndex": (
        TableField(0, "arg_type", "ArgType", "INPUT"),
        TableField(1, "index", "uint", 0),
    ),
}

ENUMS: dict[str, Enum] = {
    "DimensionValueType": Enum("byte", {"UNKNOWN": 0, "VALUE": 1, "PARAM": 2}),
    "ArgType": Enum("byte", {"INPUT": 0, "OUTPUT": 1}),
}

# The tag of a member is its place, counted from 1.
UNIONS: dict[str, tuple[str, ...]] = {
    "TypeInfoValue": (
        "TensorTypeAndShape",
        "SequenceType",
        "MapType",
    ),
}

# The types of the members, each of 4 bytes.
STRUCTS: dict[str, tuple[str, ...]] = {
    "EdgeEnd": (
        "uint",
        "int",
        "int",
    ),
}
