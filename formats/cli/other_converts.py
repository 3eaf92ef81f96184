"""The other programs called `convert`, of ImageMagick and of Windows, for users who started ours by mistake."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OURS = "this `convert` is that of onnx-formats, for machine-learning models"
PICTURES = frozenset(
    """.ai .avif .bmp .cr2 .dng .eps .exr .gif .heic .heif .ico .jp2 .jpe .jpeg .jpg .jxl .miff .pbm .pdf .pgm .png .pnm
    .ppm .ps .psd .raw .svg .tga .tif .tiff .webp .xcf .xpm""".split()  # noqa: SIM905 - a list of words is read at a glance
)


def advice(texts: Sequence[str]) -> str | None:
    """The advice for these arguments, if they are clearly for another `convert`."""
    if len(texts) > 1 and re.fullmatch("[A-Za-z]:", texts[0]) and any(text.lower() == "/fs:ntfs" for text in texts):
        return f"{OURS}, not that of Windows, which is %SystemRoot%\\System32\\convert.exe"
    files = [text for text in texts if not text.startswith("-") and Path(text).suffix]
    if not files or not all(is_picture(text) for text in files):
        return None
    found = next(others(), None)
    where = "which is not installed here" if found is None else f"which is {found}"
    return f"{OURS}, not that of ImageMagick, {where}"


def is_picture(text: str) -> bool:
    """Whether a text names a picture in ImageMagick's notation, such as `a.png`, `a.pdf[0]` or `jpg:a.out`."""
    name = re.sub(r"\[[^\[\]]*\]$", "", text)
    kind, colon, _ = name.partition(":")
    return Path(name).suffix.lower() in PICTURES or (bool(colon) and f".{kind.lower()}" in PICTURES)


def others() -> Iterator[Path]:
    """Where ImageMagick is found: its `magick`, and programs called `convert` that are not this one."""
    from shutil import which

    if magick := which("magick"):
        yield Path(magick)
    own = {Path(sys.argv[0]).resolve(), Path(sys.executable).with_name("convert").resolve()}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = which("convert", path=folder)
        is_windows_own = found is not None and "system32" in found.lower()
        if found is not None and not is_windows_own and Path(found).resolve() not in own:
            yield Path(found)
