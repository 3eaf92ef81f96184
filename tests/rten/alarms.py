"""Counts how often a loss that the report of a conversion to RTen warns of can be seen in the results.

`python tests/rten/alarms.py --count N --seed N` makes graphs until N of them have a warning about numbers, and runs
each in onnxruntime and RTen with other inputs of the range that docs/rten.md states. A warning is a false alarm if no
result ever differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import formats
from tests.rten.graphs import apart
from tests.rten.random_graphs.graph import Graph, run_in_onnxruntime
from tests.rten.random_graphs.judging import held, stated
from tests.rten.random_graphs.whole import generate
from tests.runtime.runner import RELEASES, Runner, RunnerError

ABOUT_NUMBERS = ("results", "range")  # when a loss can be seen; the others that matter are about types and files
TRIES = 20  # inputs of a graph


def other_inputs(graph: Graph, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return numbers of the stated range for all inputs that can have others; the rest stays as it is."""
    feeds = dict(graph.feeds)
    for name, value in graph.feeds.items():
        if value.dtype.kind in "iu" and value.ndim < 2:  # it may be a shape, and a tensor may not be that large
            continue
        tried = {**feeds, name: stated(value, rng)}
        try:
            run_in_onnxruntime(graph.model, tried)
        except Exception:  # indices
            continue
        feeds = tried
    return feeds


def same(wanted: list[Any], found: list[Any], *, exact: bool) -> bool:
    """Whether results are equal: up to the rounding of sums, or to the last digit of their type."""
    for expected, got in zip(wanted, found, strict=True):
        first, second = np.asarray(expected), np.asarray(got)
        if first.shape != second.shape:
            return False
        if first.dtype.kind != "f" or exact:
            if not np.array_equal(first.astype(np.float64), second.astype(np.float64), equal_nan=True):
                return False
            continue
        known = np.abs(first[np.isfinite(first)].astype(np.float64))
        allowed = 2e-4 * max(1.0, known.max(initial=0))
        if not np.allclose(second.astype(np.float64), first.astype(np.float64), rtol=0, atol=allowed, equal_nan=True):
            return False
    return True


def is_seen(graph: Graph, target: Path, runners: Mapping[str, Runner], seed: int, *, exact: bool) -> bool:
    """Whether any of some inputs has other results in a release of RTen, or none."""
    rng = np.random.default_rng(seed)
    for number in range(TRIES):
        feeds = other_inputs(graph, rng) if number else graph.feeds
        wanted = run_in_onnxruntime(graph.model, feeds)
        if any(isinstance(value, list) for value in wanted):
            return False
        for runner in runners.values():
            try:
                found = runner.run(target, {name: held(value) for name, value in feeds.items()})
            except RunnerError:
                return True
            if not same(wanted, found, exact=exact):
                return True
    return False


def told(seed: int, runners: Mapping[str, Runner], folder: Path) -> tuple[list[str], bool] | None:
    """Return the warnings about numbers for the graph of a seed, and whether any can be seen; `None` if it has none."""
    graph = generate(seed)
    if graph is None:
        return None
    source, target = folder / "m.onnx", folder / "m.rten"
    source.write_bytes(graph.model.SerializeToString())
    try:
        report = formats.convert(source, target, overwrite=True)
    except formats.FormatError:
        return None
    losses = [loss for loss in report.losses if loss.seen in ABOUT_NUMBERS and loss.matters]
    if not losses:
        return None
    about = {f"{loss.kind} {loss.detail.partition(':')[0] if ':' in loss.detail else ''}" for loss in losses}
    exact = any(loss.kind in ("precision", "rounded", "widened") for loss in losses)
    return sorted(about), is_seen(graph, target, runners, seed, exact=exact)


def main() -> int:
    """Make graphs, and print which of their warnings can be seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=100, help="how many graphs with warnings")
    given = parser.parse_args()
    seen: Counter[str] = Counter()
    false: Counter[str] = Counter()
    right = last = 0
    with tempfile.TemporaryDirectory(prefix="alarms-") as folder:
        runners = {release: runner for release in RELEASES if (runner := Runner.find(release)) is not None}
        answers = apart(range(given.seed, 1 << 40), lambda seed: told(seed, runners, Path(folder)))
        for seed, (about, is_off) in islice(((seed, found) for seed, found in answers if found), given.count):
            right, last = right + is_off, seed
            (seen if is_off else false).update(about)
            if not is_off:
                print(f"seed {seed}: {', '.join(about)}", flush=True)
    print(f"{right} of {given.count} graphs with a warning differ; {last + 1 - given.seed} graphs were made")
    for name in sorted({*seen, *false}, key=lambda name: -false[name]):
        print(f"  {name}: {seen[name]} seen, {false[name]} never seen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
