"""Draws what the commands print on a terminal, as docs/pictures/convert-light.svg and convert-dark.svg.

`python docs/pictures/terminal.py` runs the commands on the example model and draws their real output. The package rich,
which typer brings along, draws. `tests/docs/test_pictures.py` fails if the commands print something else today.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
COLUMNS = 54  # so that a phone shows letters that one can read
COMMANDS = (
    "formats edit digits.onnx fixed.onnx --dim batch=1",
    "formats convert fixed.onnx half.onnx --dtype float16",
    "formats convert half.onnx old.onnx --opset 13",
    "formats convert digits.onnx digits.onnxz",
    "formats diff digits.onnx digits.onnxz",
)
LIGHT, DARK = ((250, 250, 250), (36, 41, 47)), ((22, 27, 34), (201, 209, 217))  # background and text
PROMPT = "$ "
# How rich draws a terminal, without the fonts that it loads from elsewhere.
PICTURE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>What formats prints on a terminal</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def printed() -> list[tuple[str, str]]:
    """The commands, each with what it prints when it runs in a folder that contains only the example model."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "examples" / "digits.onnx", folder)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS)}
        results = []
        for line in COMMANDS:
            arguments = [sys.executable, "-m", *line.split()]
            done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=True)
            results.append((line, done.stdout))
    return results


def draw(commands: list[tuple[str, str]], colours: tuple[tuple[int, int, int], tuple[int, int, int]]) -> str:
    """A picture of the commands and of what they printed, as SVG."""
    from rich.console import Console
    from rich.terminal_theme import TerminalTheme
    from rich.text import Text

    background, text_colour = colours
    console = Console(record=True, width=COLUMNS, file=StringIO())
    for number, (line, text) in enumerate(commands):
        console.print("\n" * (number > 0), Text(f"{PROMPT}{line}", "bold"), sep="")
        console.print(Text(text), end="")
    theme = TerminalTheme(background, text_colour, [text_colour] * 8)  # nothing is printed in another colour
    picture: str = console.export_svg(title="formats", theme=theme, code_format=PICTURE, unique_id="formats")
    return picture


def main() -> None:
    """Write both pictures."""
    commands = printed()
    for name, colours in (("light", LIGHT), ("dark", DARK)):
        (FOLDER / f"convert-{name}.svg").write_text(draw(commands, colours), encoding="utf-8")


if __name__ == "__main__":
    main()
