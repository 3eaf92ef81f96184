"""Draws a terminal while a model of 5 GB is converted, as docs/pictures/convert-5gb.svg.

`python docs/pictures/recording.py FOLDER` makes the model in FOLDER, which needs 10 GB, converts it on a
pseudo-terminal, records lines with their times in docs/pictures/convert-5gb.txt, and draws them. Without FOLDER, it
only draws the record. `tests/docs/test_pictures.py` fails if the picture is not that of the record.
"""

from __future__ import annotations

import codecs
import os
import pty
import re
import sys
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("convert-5gb.txt")
PICTURE = Path(__file__).with_name("convert-5gb.svg")
COMMAND = "formats convert model.onnx model.onnxz"
COLUMNS = 54  # as in terminal.py
BAR = "\N{BOX DRAWINGS HEAVY HORIZONTAL}"
LEFT, RIGHT = "\N{BOX DRAWINGS HEAVY LEFT}", "\N{BOX DRAWINGS HEAVY RIGHT}"  # where what is done ends
WEIGHTS, WEIGHT_BYTES = 80, 1 << 26
RECORD_SECONDS, FRAME_SECONDS, LAST_SECONDS = 0.5, 1.0, 4.0
LETTER_PIXELS, LINE_PIXELS = 8.4, 19
CONTROL = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #24292f }
.paper { fill: #fafafa } .done { fill: #1f7a70 } .rest { fill: #c4cad0 }
@media (prefers-color-scheme: dark) {
  text { fill: #c9d1d9 } .paper { fill: #161b22 } .done { fill: #3fb8a9 } .rest { fill: #444c56 } }
@media (prefers-reduced-motion: reduce) { .frame { animation: none !important } .last { visibility: visible } }
.frame { visibility: hidden }
"""


def make_model(path: Path) -> None:
    """Write a model of 5 GB, whose data file has holes instead of zeros."""
    sys.path.insert(0, str(ROOT))
    from formats import onnxpb

    data = path.with_name("model.onnx.data")
    with data.open("wb") as file:
        file.truncate(WEIGHTS * WEIGHT_BYTES)
    model = onnxpb.ModelProto(ir_version=8)
    for number in range(WEIGHTS):
        tensor = model.graph.initializer.add(name=f"layers.{number}.weight", data_type=1, dims=[1 << 12, 1 << 12])
        tensor.data_location = 1
        for key, value in (("location", data.name), ("offset", number * WEIGHT_BYTES), ("length", WEIGHT_BYTES)):
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())


def record(folder: Path) -> str:
    """The lines that the terminal shows while the model is converted, each with the seconds since the start."""
    started = time.monotonic()
    process, terminal = pty.fork()
    if not process:
        os.chdir(folder)
        os.environ.update(PYTHONPATH=str(ROOT), COLUMNS=str(COLUMNS), TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-m", *COMMAND.split()])
    lines = [f"0.00\t$ {COMMAND}"]
    decoder = codecs.getincrementaldecoder("utf-8")()
    bar_seconds = -RECORD_SECONDS
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # how Linux reports that the other end is closed
            break
        seconds = time.monotonic() - started
        for line in re.split(r"[\r\n]+", CONTROL.sub("", decoder.decode(piece))):
            if BAR in line and seconds - bar_seconds < RECORD_SECONDS:
                continue
            bar_seconds = seconds if BAR in line else bar_seconds
            lines += [f"{seconds:.2f}\t{line.rstrip()}"] * bool(line.strip())
        if not piece:
            break
    os.waitpid(process, 0)
    return "\n".join(lines) + "\n"


def frames(text: str) -> list[tuple[float, list[str]]]:
    """The screens and the seconds at which they begin: one for each second, and the last one."""
    rows = [(float(seconds), line) for seconds, _, line in (row.partition("\t") for row in text.splitlines())]
    (start, command), *others = rows
    found = [(start, [command])]
    for seconds, line in others:
        if BAR in line and seconds - found[-1][0] >= FRAME_SECONDS * (len(found) > 1):
            found.append((seconds, [command, line]))
    printed = [row for row in others if BAR not in row[1]]
    return [*found, (printed[0][0], [command, *(line for _, line in printed)])]


def drawn(text: str) -> str:
    """The picture of a record, in which one frame follows the other, for ever."""
    shown = frames(text)
    whole = shown[-1][0] + LAST_SECONDS
    ends = [start for start, _ in shown[1:]] + [whole]
    height = LINE_PIXELS * max(len(lines) for _, lines in shown) + 20
    width = COLUMNS * LETTER_PIXELS + 24
    rules, groups = [], []
    for number, ((start, lines), end) in enumerate(zip(shown, ends, strict=True)):
        first, last = 100 * start / whole, 100 * end / whole
        rules.append(
            f"@keyframes f{number} {{ 0%, {first:.2f}% {{ visibility: {'hidden' if start else 'visible'} }} "
            f"{first + 0.01:.2f}%, {last:.2f}% {{ visibility: visible }} {min(last + 0.01, 100):.2f}%, 100% "
            f"{{ visibility: {'visible' if end == whole else 'hidden'} }} }}"
        )
        look = "frame last" if end == whole else "frame"
        groups.append(f'<g class="{look}" style="animation: f{number} {whole:.2f}s step-end infinite">')
        groups += [_line(line, LINE_PIXELS * (row + 1) + 4) for row, line in enumerate(lines)]
        groups.append("</g>")
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" '
            f'viewBox="0 0 {width:g} {height}">',
            f"<title>A terminal: {escape(COMMAND)} converts a model of 5 GB behind a bar</title>",
            f"<style>{STYLE}{chr(10).join(rules)}\n</style>",
            '<rect width="100%" height="100%" rx="8" class="paper"/>',
            *groups,
            "</svg>\n",
        )
    )


def _line(text: str, y: int) -> str:
    """A line of text; a bar has its colour."""
    bar = re.match(f"({BAR}*{LEFT}?)({RIGHT}?{BAR}*)", text)
    done, rest = (bar[1], bar[2]) if bar and {*LEFT, *RIGHT} & {*bar[0]} else ("", "")
    colours = f'<tspan class="done">{done}</tspan><tspan class="rest">{rest}</tspan>'
    inner = f"{colours if rest else ''}{escape(text[len(done + rest) :])}"
    return f'<text x="12" y="{y}" xml:space="preserve">{inner}</text>'


def main() -> None:
    """Record if there is a folder, and draw."""
    if folder := (Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        make_model(folder / "model.onnx")
        (folder / "model.onnxz").unlink(missing_ok=True)
        RECORD.write_text(record(folder), encoding="utf-8")
    PICTURE.write_text(drawn(RECORD.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
