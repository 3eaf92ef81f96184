# Written by schemas/generate.py from version of onnx; do not edit.
# ruff: noqa
# fmt: off

from onnx.version import (
    git_version as git_version,
    version as version,
)

__all__ = ['git_version', 'version']
