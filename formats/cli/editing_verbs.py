"""The verbs that make a model of others: `edit`, `extract` and `merge`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from formats.cli.command_line import Verb
from formats.cli.conversion_options import conversion_groups, conversion_keywords
from formats.cli.error_text import in_flags
from formats.cli.shared_options import how_to_tell, tell
from formats.cli.streams import destination_of, is_stdout, source_of
from formats.cli.waiting import progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats.cli.command_line import Group, Request
    from formats.verbs.report import ConversionReport

CHANGE = "Change"


def edit_groups(of_all_packages: bool) -> list[Group]:
    """The options of `edit`: its own, and those of a conversion."""
    from formats.editing.options import EditOptions

    return conversion_groups(of_all_packages, (EditOptions,), in_short=False)


def edit(request: Request) -> int:
    """Change a model, and print what was done."""
    from formats.editing.options import EditOptions
    from formats.verbs.edit import edit as edit_model

    return _write(request, EditOptions, edit_model)


def extract_groups(of_all_packages: bool) -> list[Group]:
    """The options of `extract`: its own, and those of a conversion."""
    from formats.editing.options import ExtractOptions

    return conversion_groups(of_all_packages, (ExtractOptions,), in_short=False)


def extract(request: Request) -> int:
    """Write a part of a model, and print what was done."""
    from formats.editing.options import ExtractOptions
    from formats.verbs.edit import extract as extract_part

    return _write(request, ExtractOptions, extract_part)


def merge_groups(of_all_packages: bool) -> list[Group]:
    """The options of `merge`: its own, and those of a conversion."""
    from formats.editing.options import MergeOptions

    return conversion_groups(of_all_packages, (MergeOptions,), in_short=False)


def merge(request: Request) -> int:
    """Write two models as one, and print what was done."""
    from formats.editing.options import MergeOptions
    from formats.verbs.edit import merge as merge_models

    return _write(request, MergeOptions, merge_models)


def _write(request: Request, options: type, act: Callable[..., ConversionReport]) -> int:
    """Write a model that is made of others, and print what was done."""
    from formats.cli.report_lines import summary

    *sources, last = request.arguments
    dst = last if sources else None
    request.stdout_is_taken = dst is not None and is_stdout(dst)
    output = how_to_tell(request)
    places = [*map(source_of, sources), source_of(last) if dst is None else destination_of(dst)]
    given = _keywords(request, options, places[-1])
    report = act(*places, progress=progress(), **given)
    rows, notes = request.rows(), output.get("notes", False)
    stream = sys.stderr if request.stdout_is_taken else None
    tell(output, report, lambda: (in_flags(line, rows, {}) for line in summary(report, notes=notes)), stream)
    return 0


def _keywords(request: Request, options: type, destination: Path) -> dict[str, Any]:
    """The keywords that were given: the own ones, and those for the format of the destination."""
    from formats.codecs import lookup
    from formats.verbs.choices import ConversionOptions

    to_format = request.of(ConversionOptions).get("to_format")
    if to_format is not None:
        target = lookup.by_name(to_format)
    elif request.of(options).get("tensor") is not None:  # a file of another kind
        target = lookup.by_name("onnx")
    else:
        target = lookup.for_writing(destination, "to_format")
    return conversion_keywords(request, target, (options,))


EDITING_VERBS = (
    Verb(
        "edit",
        """Change weights, dims, names and metadata of a model.

        DST may have another format than SRC. Without DST, SRC is an .onnxz archive that is changed in place: only its
        end is written again, and no weight. The edits are done in the order of this page, so --weights and --dim
        use the names before --rename.
        """,
        ("SRC", "[DST]"),
        edit_groups,
        edit,
        CHANGE,
        (
            "formats edit model.onnx fixed.onnx --dim batch=1",
            "formats edit model.onnx named.onnx --rename image=pixels",
            "formats edit model.onnxz --metadata license=MIT",
            "formats edit model.onnx trained.onnx --weights epoch9.npz",
        ),
        writes_once=True,
    ),
    Verb(
        "extract",
        """Write a part of a model, or one weight.

        The part computes --outputs from --inputs, and has all that it needs: weights, functions, subgraphs. An output
        that needs anything else is an error, which names the path. --tensor writes one weight to a .npy or
        .safetensors file.
        """,
        ("SRC", "DST"),
        extract_groups,
        extract,
        CHANGE,
        (
            "formats extract model.onnx part.onnx --outputs features",
            "formats extract model.onnx head.onnx --inputs features --force",
            "formats extract model.onnx w.npy --tensor classifier.weight",
        ),
        writes_once=True,
    ),
    Verb(
        "merge",
        """Write two models as one: outputs of A become inputs of B.

        Names of B that meet those of A get a number, or all of them a prefix. Operator sets are brought together.
        Weights that are the same bytes of the same file are stored once.
        """,
        ("A", "B", "DST"),
        merge_groups,
        merge,
        CHANGE,
        (
            "formats merge body.onnx head.onnx both.onnx --connect features=features",
            "formats merge encoder.onnx decoder.onnx both.onnxz --prefix decoder/",
        ),
        writes_once=True,
    ),
)
