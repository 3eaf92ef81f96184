"""All rows, which become the test vectors of `golden/vectors.json`."""

from __future__ import annotations

from tests.onnxzip.vector_rows.entries import ENTRIES
from tests.onnxzip.vector_rows.names import NAMES
from tests.onnxzip.vector_rows.tensors import TENSORS
from tests.onnxzip.vector_rows.the_file import THE_END, THE_FILE
from tests.onnxzip.vector_rows.the_graph import THE_GRAPH

ROWS = [*THE_FILE, *ENTRIES, *NAMES, *THE_END, *THE_GRAPH, *TENSORS]
