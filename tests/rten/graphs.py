"""Random graphs, compared in onnxruntime, in the real RTen runtimes as .rten files, and after conversion back.

`python tests/rten/graphs.py --seed N --count N` makes any number of graphs, and shows the smallest form of each fault.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select
from signal import SIGKILL
from typing import Any

import numpy as np
import onnx

from tests.rten.random_graphs.builder import FIRST, Templates
from tests.rten.random_graphs.graph import Graph
from tests.rten.random_graphs.judging import Bench, Outcome
from tests.rten.random_graphs.shrinking import shrink
from tests.rten.random_graphs.whole import generate
from tests.runtime.runner import RELEASES, Runner

SECONDS = 300  # for one graph with its smallest form: far more than any needs


def shown(graph: Graph) -> str:
    """Return a graph and its inputs as text."""
    small = {name: np.array2string(np.asarray(value), threshold=24) for name, value in graph.feeds.items()}
    kinds = {name: f"{np.asarray(value).dtype}{list(np.shape(value))}" for name, value in graph.feeds.items()}
    fed = "".join(f"\n    {name}: {kinds[name]} = {text}" for name, text in small.items())
    text = onnx.printer.to_text(graph.model)
    return f"{text[:6000]}{fed}"


def apart(seeds: range, work: Callable[[int], Any], seconds: float = SECONDS) -> Iterator[tuple[int, Any]]:
    """Yield what a function returns for each seed, from another process, in forms of JSON.

    onnxruntime ends its process if it divides an integer by zero, and never ends if the bias of a Conv is too short:
    then, or after so many seconds without an answer, the next process goes on with the next seed.
    """
    while seeds:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            faulthandler.disable()  # a process that dies is no news
            with os.fdopen(writing, "w", buffering=1) as answers:
                for seed in seeds:
                    print(json.dumps((seed, work(seed))), file=answers)
            os._exit(0)
        os.close(writing)
        try:
            with os.fdopen(reading, "rb", buffering=0) as answers:  # a buffer would hide lines from `select`
                while select([answers], [], [], seconds)[0] and (line := answers.readline()):
                    seed, found = json.loads(line)
                    seeds = range(seed + 1, seeds.stop)
                    yield seed, found
        finally:
            os.kill(child, SIGKILL)
            os.waitpid(child, 0)
        seeds = seeds[1:]


def main(templates: Templates = FIRST) -> int:
    """Make graphs, and print their outcomes."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=1000, help="how many graphs")
    parser.add_argument("--exact", action="store_true", help="convert with exact forms of what deviates")
    parser.add_argument("--no-shrink", action="store_true", help="show graphs that fail as they are")
    parser.add_argument("--quiet", action="store_true", help="one line a graph that fails")
    given = parser.parse_args()
    runners = {release: runner for release in RELEASES if (runner := Runner.find(release)) is not None}
    options = {"exact": True} if given.exact else {}
    counts, operators, refused = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="graphs-") as folder:
        bench = Bench(runners, Path(folder), **options)

        def judged(seed: int) -> tuple[str, str, list[str], str]:
            graph = generate(seed, templates)
            if graph is None:
                return "not made", "", [], ""
            outcome, text = bench.outcome(graph), ""
            if outcome.is_fault:
                small = graph if given.no_shrink else shrink(bench, graph, outcome.kind)
                final = bench.outcome(small)
                ops = ",".join(node.op_type for node in small.model.graph.node)
                text = f"seed {seed}: {final.kind} [{ops}] {final.detail[:200]}"
                text += "" if given.quiet else f"\n{shown(small)}"
            return outcome.kind, outcome.detail, sorted({node.op_type for node in graph.model.graph.node}), text

        for _, (kind, detail, ops, text) in apart(range(given.seed, given.seed + given.count), judged):
            counts[kind] += 1
            operators.update(ops)
            if kind == "refused":
                refused[detail.rpartition("cannot be converted for RTen: ")[2].partition(" [")[0]] += 1
            if text:
                print(text, flush=True)
    counts["no answer"] += given.count - counts.total()
    print(", ".join(f"{kind} {count}" for kind, count in counts.most_common() if count))
    print(f"{len(operators)} operators: " + ", ".join(f"{name} {count}" for name, count in operators.most_common()))
    for reason, count in refused.most_common(20):
        print(f"refused {count}: {reason}")
    return 0 if not any(Outcome(kind).is_fault for kind in counts if kind not in ("not made", "no answer")) else 1


if __name__ == "__main__":
    sys.exit(main())
