# Written by schemas/generate.py from defs of onnx; do not edit.
# ruff: noqa
# fmt: off

from onnx.defs import (
    AI_ONNX_PREVIEW_DOMAIN as AI_ONNX_PREVIEW_DOMAIN,
    AI_ONNX_PREVIEW_TRAINING_DOMAIN as AI_ONNX_PREVIEW_TRAINING_DOMAIN,
    C as C,
    ONNX_DOMAIN as ONNX_DOMAIN,
    ONNX_ML_DOMAIN as ONNX_ML_DOMAIN,
    OpSchema as OpSchema,
    SchemaError as SchemaError,
    deregister_schema as deregister_schema,
    get_all_schemas as get_all_schemas,
    get_all_schemas_with_history as get_all_schemas_with_history,
    get_function_ops as get_function_ops,
    get_schema as get_schema,
    has as has,
    onnx_opset_version as onnx_opset_version,
    register_schema as register_schema,
)

__all__ = ['AI_ONNX_PREVIEW_DOMAIN', 'AI_ONNX_PREVIEW_TRAINING_DOMAIN', 'C', 'ONNX_DOMAIN', 'ONNX_ML_DOMAIN', 'OpSchema', 'SchemaError', 'deregister_schema', 'get_all_schemas', 'get_all_schemas_with_history', 'get_function_ops', 'get_schema', 'has', 'onnx_opset_version', 'register_schema']
