"""The options of the functions of the library, for `help`, `inspect.signature` and notebooks.

The functions declare their options as `**keywords: Unpack[...]`, for type checkers. Their signatures get the names and
defaults from the classes of options, also those of codecs in other packages, when somebody asks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from formats.options import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from inspect import Signature

    from formats.codecs.contract import Codec

VARIABLE_KEYWORDS = 8  # inspect.CO_VARKEYWORDS; `inspect` is imported only when somebody asks


def with_options(function: Callable[..., Any]) -> None:
    """The function has a docstring that lists its options, and a signature with those that its keywords can be."""
    from formats.wording.option_lists import OPTIONS

    if function.__doc__ and (listed := OPTIONS.get(function.__name__)):
        text, raises, errors = function.__doc__.partition("Raises:")
        indent = text[text.rindex("\n") + 1 :]
        options = listed.rstrip().replace("\n", f"\n{indent}    ")
        function.__doc__ = f"{text}Options:\n\n{indent}    {options}\n\n{indent}{raises}{errors}"
    if function.__code__.co_flags & VARIABLE_KEYWORDS and (keywords := keywords_of(function)):
        function.__signature__ = _LateSignature(function, keywords)  # type: ignore[attr-defined]  # as `inspect` says


def keywords_of(function: Callable[..., Any]) -> str:
    """The name of the class of `formats.keywords` that a function accepts, or nothing."""
    found = re.search(r"Unpack\[(\w+)\]", " ".join(map(str, function.__annotations__.values())))
    return found[1] if found else ""


def option_classes(codecs: Iterable[Codec]) -> dict[str, tuple[type, ...]]:
    """The classes of options of each class of `formats.keywords`, if these are the codecs that write."""
    from formats.codecs.contract import ReadOptions
    from formats.editing.options import EditOptions, ExtractOptions, MergeOptions
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.choices import (
        ConversionOptions,
        MetadataOptions,
        RaisingOptions,
        ReplacementOptions,
        RuntimeOptions,
    )
    from formats.verbs.pack import PackingOptions
    from formats.verbs.relocate import PlaceOptions
    from formats.verbs.share import ShareOptions

    targets = dict.fromkeys(codec.options for codec in codecs)
    writing = (MetadataOptions, EngineOptions, ReplacementOptions, RaisingOptions, RuntimeOptions, *targets)
    return {
        "ReadKeywords": (ReadOptions,),
        "RaiseKeywords": (RaisingOptions,),
        "WriteKeywords": writing,
        "ConvertKeywords": (ReadOptions, *writing),
        "EditKeywords": (EditOptions, ReadOptions, *writing),
        "ExtractKeywords": (ExtractOptions, ReadOptions, *writing),
        "MergeKeywords": (MergeOptions, ReadOptions, *writing),
        "JobKeywords": (ReadOptions, *writing, ConversionOptions),
        "ShareKeywords": (ShareOptions, ReadOptions, EngineOptions, ReplacementOptions),
        "PackKeywords": (PackingOptions, ReadOptions, EngineOptions),
        "PlaceKeywords": (PlaceOptions, ReplacementOptions),
    }


class _LateSignature:
    """An `inspect.Signature` that is made when somebody asks for it; `inspect` accepts it as one."""

    def __init__(self, function: Callable[..., Any], keywords: str) -> None:
        self._function, self._keywords = function, keywords
        self._made: Signature | None = None

    @property  # type: ignore[misc]  # it is asked by `isinstance`, and never set
    def __class__(self) -> type:
        from inspect import Signature

        return Signature

    def __getattr__(self, name: str) -> Any:
        return getattr(self._signature(), name)

    def __str__(self) -> str:
        return str(self._signature())

    def __repr__(self) -> str:
        return repr(self._signature())

    def __eq__(self, other: object) -> bool:
        return self._signature() == other

    def __hash__(self) -> int:
        return hash(self._signature())

    def _signature(self) -> Signature:
        if self._made is None:
            self._made = _signature(self._function, self._keywords)
        return self._made


def _signature(function: Callable[..., Any], keywords: str) -> Signature:
    from inspect import Parameter, Signature
    from types import FunctionType

    from formats import keywords as declared
    from formats.codecs import lookup

    plain = FunctionType(function.__code__, {}, argdefs=function.__defaults__)  # it has no other signature
    plain.__kwdefaults__, plain.__annotations__ = function.__kwdefaults__, function.__annotations__
    found = Signature.from_callable(plain)
    parameters = {name: each for name, each in found.parameters.items() if each.kind != Parameter.VAR_KEYWORD}
    annotations = {name: kind.__forward_arg__ for name, kind in getattr(declared, keywords).__annotations__.items()}
    for options in option_classes(lookup.codecs())[keywords]:
        for row in rows_of(options):
            kind = annotations.get(row.name, Parameter.empty)
            option = Parameter(row.name, Parameter.KEYWORD_ONLY, default=row.default, annotation=kind)
            parameters.setdefault(row.name, option)
    return found.replace(parameters=list(parameters.values()))
