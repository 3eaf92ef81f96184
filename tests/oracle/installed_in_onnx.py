"""A plugin of pytest: `onnx` gets our message classes and functions, as programs get them by `install()`."""

from __future__ import annotations

import formats.onnxpb

formats.onnxpb.install()
