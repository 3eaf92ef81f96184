"""A treemap: tensors as tiles, as large as their bytes, in the boxes of their modules.

The tiles of a box are laid out by the squarified algorithm (Bruls, Huizing and van Wijk, 2000). What is too small to be
seen is one tile with a count, so that a picture of a model with 100,000 tensors is as large as one with 1,000.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.pictures.drawing import fitting
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.pictures.drawing import Drawing

LEAST_AREA = 40.0  # of a tile, in square pixels
LEAST_BOX = 1600.0  # of a module that shows what is in it
HEAD, GAP = 15.0, 2.0  # the height of the name of a module, and the space around what is in it
LINE = 14.0  # the height of a line of text
LEAST_STRIPE = 3.0  # the width of a part of a tile
MAX_DEPTH = 12  # of boxes in boxes


class Tile(NamedTuple):
    """A tensor: the names of its modules and its own, its size in bytes, what decides its colour, and its facts."""

    path: tuple[str, ...]
    nbytes: int
    kind: str
    facts: tuple[str, ...]


class Box(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        """The number of pixels."""
        return self.width * self.height


class Module:
    """A module: the tiles and the modules that are in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nbytes = 0
        self.count = 0
        self.kinds: Counter[str] = Counter()
        self.members: dict[str, Module | Tile] = {}

    @classmethod
    def of(cls, tiles: Iterable[Tile]) -> Module:
        """The tiles by module. A module that has one member only is named together with it."""
        root = cls("")
        for tile in tiles:
            if tile.nbytes > 0:
                root.add(tile)
        while len(root.members) == 1 and isinstance(only := next(iter(root.members.values())), Module):
            only.name = f"{root.name}.{only.name}".strip(".")
            root = only
        return root

    def add(self, tile: Tile) -> None:
        """Put a tile where it belongs."""
        module = self
        for name in tile.path[: min(len(tile.path) - 1, MAX_DEPTH)]:
            module.count_in(tile)
            inner = module.members.setdefault(name, Module(name))
            if isinstance(inner, Tile):  # a tensor with the name of a module
                module.members[name] = inner = Module(name).with_tile("", inner)
            module = inner
        module.count_in(tile)
        name = ".".join(tile.path[min(len(tile.path) - 1, MAX_DEPTH) :])
        module.members[name if name not in module.members else f"{name} {len(module.members)}"] = tile

    def with_tile(self, name: str, tile: Tile) -> Module:
        """This module with a tile in it."""
        self.count_in(tile)
        self.members[name] = tile
        return self

    def count_in(self, tile: Tile) -> None:
        """Count a tile that is in this module or deeper."""
        self.nbytes += tile.nbytes
        self.count += 1
        self.kinds[tile.kind] += tile.nbytes


def draw_tiles(drawing: Drawing, tiles: Iterable[Tile], height: float, colours: Mapping[str, str]) -> None:
    """Draw the tiles over the whole width, from the drawing's `y` on."""
    root = Module.of(tiles)
    box = Box(0, drawing.y, drawing.width, height)
    if root.nbytes:
        _members(drawing, root, box, root.name, colours)
    drawing.y += height + 8


def _members(drawing: Drawing, module: Module, box: Box, place: str, colours: Mapping[str, str]) -> None:
    """Draw what is in a module into a box."""
    ordered = sorted(module.members.items(), key=lambda item: -item[1].nbytes)
    scale = box.area / module.nbytes
    seen = [(name, member) for name, member in ordered if member.nbytes * scale >= LEAST_AREA]
    hidden = [member for _, member in ordered[len(seen) :]]
    sizes = [member.nbytes for _, member in seen] + [sum(member.nbytes for member in hidden)] * bool(hidden)
    boxes = list(squarified(sizes, box))
    for (name, member), inner in zip(seen, boxes, strict=False):
        if isinstance(member, Module):
            _module(drawing, member, inner, f"{place}.{name}".strip("."), colours)
        else:
            texts = name or member.path[-1], in_units(member.nbytes)
            _tile(drawing, inner, texts, (".".join(member.path), *member.facts), {colours[member.kind]: 1})
    if hidden:
        count = sum(member.count if isinstance(member, Module) else 1 for member in hidden)
        kinds: Counter[str] = Counter()
        for member in hidden:
            kinds.update(member.kinds if isinstance(member, Module) else {member.kind: member.nbytes})
        nbytes, more = in_units(sizes[-1]), f"{count:,} more"
        title = f"{more} in {place or 'the model'}", nbytes
        _tile(drawing, boxes[-1], (more, nbytes), title, _parts(kinds, colours))


def _parts(kinds: Counter[str], colours: Mapping[str, str]) -> dict[str, int]:
    """The bytes of each colour, the most frequent first."""
    parts: dict[str, int] = {}
    for kind, nbytes in kinds.most_common():
        parts[colours[kind]] = parts.get(colours[kind], 0) + nbytes
    return parts


def _module(drawing: Drawing, module: Module, box: Box, place: str, colours: Mapping[str, str]) -> None:
    """Draw a module: its name above what is in it, or one tile if there is no room."""
    name = module.name
    while len(module.members) == 1 and isinstance(only := next(iter(module.members.values())), Module):
        module, name, place = only, f"{name}.{only.name}", f"{place}.{only.name}"
    inner = Box(box.x + GAP, box.y + HEAD, box.width - 2 * GAP, box.height - HEAD - GAP)
    facts = place, f"{counted(module.count, 'tensor')}, {in_units(module.nbytes)}"
    if box.area < LEAST_BOX or min(inner.width, inner.height) < LINE:
        _tile(drawing, box, (name, in_units(module.nbytes)), facts, _parts(module.kinds, colours))
        return
    drawing.box(*_with_gap(box), "group", *facts)
    size = in_units(module.nbytes)
    room = box.width - 2 * GAP - 4
    both = f"{name}  {size}"
    shown = fitting(name, room)
    drawing.label(box.x + GAP + 2, box.y + HEAD - 4, shown, size=size if fitting(both, room) == both else "")
    _members(drawing, module, inner, place, colours)


def _tile(drawing: Drawing, box: Box, texts: tuple[str, str], title: tuple[str, ...], parts: Mapping[str, int]) -> None:
    """Draw a tile with its name and size, as far as there is room.

    It has stripes of the colours of its parts, each wide enough to be seen, however few bytes it has.
    """
    name, size = texts
    x, y, width, height = _with_gap(box)
    (first, _), *others = parts.items()
    drawing.box(x, y, width, height, first, *title)
    right = x + width
    for colour, nbytes in others:
        stripe = min(max(width * nbytes / sum(parts.values()), LEAST_STRIPE), (right - x) / 2)
        right -= stripe
        drawing.box(right, y, stripe, height, colour, *title)
    if box.height >= LINE and (shown := fitting(name, box.width - 8)):
        drawing.label(box.x + 4, box.y + LINE - 3, shown, "light")
        if box.height >= 2 * LINE and fitting(size, box.width - 8) == size:
            drawing.label(box.x + 4, box.y + 2 * LINE - 3, size, "light")


def _with_gap(box: Box) -> tuple[float, float, float, float]:
    """The box, smaller by a line of the paper to the right and below, if it is large enough for that."""
    width, height = (size - 1 if size > 3 else size for size in (box.width, box.height))
    return box.x, box.y, width, height


def squarified(sizes: Sequence[int], box: Box) -> Iterator[Box]:
    """A box for each of the sizes, which are in descending order; together they fill `box`."""
    total = sum(sizes)
    start = 0
    while start < len(sizes):
        scale, side = box.area / total, min(box.width, box.height)
        end, row = start + 1, sizes[start]
        while end < len(sizes):
            longer = _longest(sizes[start], sizes[end], row + sizes[end], side, scale)
            if longer > _longest(sizes[start], sizes[end - 1], row, side, scale):
                break
            row += sizes[end]
            end += 1
        upright, share = box.width >= box.height, row / total
        yield from _row(sizes[start:end], row, _part(box, 0, share, upright=not upright), upright=upright)
        box = _part(box, share, 1 - share, upright=not upright)
        total -= row
        start = end


def _longest(largest: int, smallest: int, row: int, side: float, scale: float) -> float:
    """The worst ratio of the two sides of a box in a row of these sizes along a side."""
    area, square = row * scale, side * side
    return max(square * largest * scale / (area * area), area * area / (square * smallest * scale))


def _row(sizes: Sequence[int], total: int, strip: Box, *, upright: bool) -> Iterator[Box]:
    """The boxes of one row, one below the other, or side by side."""
    before = 0
    for size in sizes:
        yield _part(strip, before / total, size / total, upright=upright)
        before += size


def _part(box: Box, start: float, share: float, *, upright: bool) -> Box:
    """A share of a box: of its height if it is divided upright, else of its width."""
    if upright:
        return Box(box.x, box.y + box.height * start, box.width, box.height * share)
    return Box(box.x + box.width * start, box.y, box.width * share, box.height)
