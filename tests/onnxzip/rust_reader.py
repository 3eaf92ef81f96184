"""The programs of the Rust reader, in `readers/rust/examples`, which are built together with the runners of RTen.

    cargo build --release --locked --manifest-path readers/rust/Cargo.toml --target-dir tests/runtime/target \
        --examples --features rten,rten/all-ops,rten/mmap,rten/rten_format

With these features, the build reuses the RTen that was built for the runners.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.programs import need_built


def program(name: str) -> Path:
    """Return the path of a program; skip the test if it is not built."""
    folder = Path(__file__).parents[1] / "runtime" / "target" / "release" / "examples"
    return need_built(folder / (f"{name}.exe" if os.name == "nt" else name), "tests/onnxzip/rust_reader.py")
