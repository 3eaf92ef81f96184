"""The verbs that change models: `edit`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from formats.cli.command_line import Verb
from formats.cli.conversion_options import conversion_groups, conversion_keywords
from formats.cli.error_text import in_flags
from formats.cli.looking_verbs import progress
from formats.cli.shared_options import how_to_tell, tell
from formats.cli.streams import destination_of, is_stdout, source_of

if TYPE_CHECKING:
    from formats.cli.command_line import Group, Request

CHANGE = "Change"


def edit_groups(of_all_packages: bool) -> list[Group]:
    """The options of `edit`: its own, and those of a conversion."""
    from formats.editing.options import EditOptions

    return conversion_groups(of_all_packages, (EditOptions,), in_short=False)


def edit(request: Request) -> int:
    """Change a model, and print what was done."""
    from formats.cli.report_lines import summary
    from formats.codecs import lookup
    from formats.editing.options import EditOptions
    from formats.verbs.choices import ConversionOptions
    from formats.verbs.edit import edit as edit_model

    src, dst = request.arguments[0], request.arguments[1] if len(request.arguments) > 1 else None
    request.stdout_is_taken = dst is not None and is_stdout(dst)
    output = how_to_tell(request)
    to_format = request.of(ConversionOptions).get("to_format")
    source, destination = source_of(src), None if dst is None else destination_of(dst)
    if to_format is not None:
        target = lookup.by_name(to_format)
    else:
        target = lookup.for_writing(source if destination is None else destination, "to_format")
    given = conversion_keywords(request, target, (EditOptions,))
    with progress(wanted=not output.get("quiet") and not output.get("json")) as shown:
        report = edit_model(source, destination, progress=shown, **given)
    rows, notes = request.rows(), output.get("notes", False)
    stream = sys.stderr if request.stdout_is_taken else None
    tell(output, report, lambda: (in_flags(line, rows, {}) for line in summary(report, notes=notes)), stream)
    return 0


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
            "formats edit model.onnx fixed.onnx --dim n=1",
            "formats edit model.onnx named.onnx --rename x=images --rename y=scores",
            "formats edit model.onnxz --metadata license=MIT",
            "formats edit model.onnx trained.onnx --weights epoch9.npz",
        ),
    ),
)
