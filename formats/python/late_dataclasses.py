"""Dataclasses that are made in two steps: the class at once, and what `dataclasses` writes for it when it is needed.

Type checkers see `dataclass` and `field` of the standard library, and the classes behave the same: `fields`, `replace`,
comparison, text, pickles and signatures. But making the methods of 90 classes takes longer than the conversion of a
small model, and so does the import of `dataclasses`; a command uses few of these classes. So a class gets its methods
when they are first needed.
"""

from __future__ import annotations

import sys
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

FEW = 500  # objects; for more of them, it pays to let `dataclasses` write `__init__`
_MADE: tuple[str, ...] = ("__init__", "__repr__", "__eq__", "__hash__", "__dataclass_fields__", "__dataclass_params__")
_MADE += ("__replace__",) if sys.version_info >= (3, 13) else ()
_FIELD_ARGUMENTS = ("default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only")
_OF_CLASS = {"__dict__", "__weakref__", "__slots__"}  # what every class has of its own
_NOTHING: Any = object()
_lock = RLock()  # a default value can be of another such class, which `dataclasses` asks for its hash


class LateField:
    """A field, as far as it is known before `dataclasses` is imported; the names are those of `dataclasses.Field`."""

    __slots__ = ("arguments", "default", "default_factory", "metadata", "name", "type")

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.name = self.type = ""
        self.default = arguments.get("default", _NOTHING)
        self.default_factory: Callable[[], Any] | None = arguments.get("default_factory")
        self.metadata: Mapping[Any, Any] = arguments.get("metadata", {})

    @property
    def is_needed(self) -> bool:
        """Whether an object cannot be made without it."""
        return self.default is _NOTHING and self.default_factory is None


class _LateMethods:
    """The fields of a class, and the methods that `dataclasses` makes from them later."""

    def __init__(self, kind: type, fields: Iterable[LateField], arguments: Mapping[str, Any]) -> None:
        self.kind = kind
        self.arguments = arguments
        self.fields = tuple(fields)
        self.names = {field.name for field in self.fields}
        self._needed = {field.name for field in self.fields if field.is_needed}
        self._set_up = hasattr(kind, "__post_init__")
        self._objects = 0
        self._is_made = False

    def make(self) -> None:
        """The class gets all its methods from `dataclasses`."""
        import dataclasses

        with _lock:
            if self._is_made:
                return
            body = {name: value for name, value in vars(self.kind).items() if name not in _OF_CLASS | self.names}
            body = {name: value for name, value in body.items() if not isinstance(value, _Late)}
            if self._set_up:
                body["__post_init__"] = self.kind.__post_init__  # type: ignore[attr-defined]
            body["__annotations__"] = {field.name: field.type for field in self.fields}
            body |= {field.name: dataclasses.field(**field.arguments) for field in self.fields if field.arguments}
            if self.arguments.get("frozen"):
                del body["__setattr__"], body["__delattr__"]
            arguments = {**self.arguments, "slots": False}  # which the class has
            made: Any = dataclasses.dataclass(**arguments)(type(self.kind.__name__, (), body))
            for name in _MADE:
                if name in vars(made):
                    setattr(self.kind, name, vars(made)[name])
            self._is_made = True

    def initialise(self, instance: Any, /, *values: Any, **given: Any) -> None:
        """What `__init__` does; if something is wrong with the arguments, `dataclasses` says what."""
        self._objects += 1
        positional = dict(zip(self.kind.__match_args__, values))  # type: ignore[attr-defined] # noqa: B905
        known = {**positional, **given}
        is_right = len(known) == len(values) + len(given) and self._needed <= known.keys() <= self.names
        if not is_right or self._objects > FEW:
            self.make()
            instance.__init__(*values, **given)
            return
        for field in self.fields:
            value = field.default_factory() if field.default_factory else field.default
            object.__setattr__(instance, field.name, known.get(field.name, value))
        if self._set_up:
            instance.__post_init__()


class _Late:
    """An attribute of a class that `dataclasses` makes when it is first used."""

    __slots__ = ("methods", "name")

    def __init__(self, methods: _LateMethods, name: str) -> None:
        self.methods = methods
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if self.name == "__init__" and isinstance(instance, self.methods.kind):
            return partial(self.methods.initialise, instance)
        self.methods.make()
        made = vars(self.methods.kind)[self.name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


_late: dict[type, _LateMethods] = {}


def fields_of(kind: type) -> tuple[Any, ...]:
    """The fields of a dataclass of any making: objects with `name`, `default` and `metadata`."""
    if kind in _late:
        return _late[kind].fields
    from dataclasses import fields

    return fields(kind)


def _late_replace(instance: Any, /, **changes: Any) -> Any:
    """A copy of an object with some fields changed."""
    kind = type(instance)
    if kind in _late:
        kept = {name: getattr(instance, name) for name in _late[kind].names}
        alone = getattr(kind, "oneof", ())  # of which at most one can be set
        if any(changes.get(name) is not None for name in alone):
            kept |= dict.fromkeys(alone)
        return kind(**{**kept, **changes})
    from dataclasses import replace

    return replace(instance, **changes)


def _late_dataclass(kind: Any = None, /, **arguments: Any) -> Any:
    """The class, whose fields and methods are as `dataclasses.dataclass` with these arguments says.

    Without a class, a decorator.
    """
    if kind is None:
        return lambda kind: _late_dataclass(kind, **arguments)
    own = [
        _named(name, text, vars(kind).get(name, _NOTHING))
        for name, text in vars(kind).get("__annotations__", {}).items()
        if not text.startswith("ClassVar[")
    ]
    inherited = [field for base in reversed(kind.__mro__) if base in _late for field in _late[base].fields]
    if arguments.get("slots"):
        kind = _with_slots(kind, [field.name for field in own], {field.name for field in inherited})
    else:
        for field in own:
            if field.default is not _NOTHING:
                setattr(kind, field.name, field.default)
            elif field.default_factory is not None:
                delattr(kind, field.name)
    late = _late[kind] = _LateMethods(kind, {field.name: field for field in (*inherited, *own)}.values(), arguments)
    _add_methods(kind, late)
    return kind


def _library() -> Any:
    """The module `dataclasses`, if the program has imported it."""
    if "dataclasses" not in sys.modules:
        return None
    import dataclasses  # waits if another thread imports it just now, and has only a part of it

    return dataclasses


def _field(**arguments: Any) -> Any:
    """A field of a class.

    A program that makes a standard dataclass has imported `dataclasses`; then this returns a field of that module.
    """
    if (library := _library()) is not None:
        return library.field(**arguments)
    return LateField(**arguments)


def _named(name: str, text: str, value: Any) -> LateField:
    """The field of that name, from what the class has under it."""
    library = _library()
    if isinstance(value, LateField):
        field = value
    elif library is not None and isinstance(value, library.Field):
        arguments = {key: getattr(value, key) for key in _FIELD_ARGUMENTS}
        field = LateField(**{key: given for key, given in arguments.items() if given is not library.MISSING})
    else:
        field = LateField(**({} if value is _NOTHING else {"default": value}))
    field.name, field.type = name, text
    return field


def _with_slots(kind: Any, names: Sequence[str], inherited: Collection[str]) -> Any:
    """The class with slots instead of a dictionary; a class gets its slots when it is made, so it is another one."""
    body = {name: value for name, value in vars(kind).items() if name not in _OF_CLASS and name not in names}
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    made = type(kind)(kind.__name__, kind.__bases__, body)
    made.__qualname__ = kind.__qualname__
    return made


def _add_methods(kind: Any, late: _LateMethods) -> None:
    arguments = late.arguments
    own = vars(kind)
    positional = tuple(
        field.name for field in late.fields if not field.arguments.get("kw_only", arguments.get("kw_only", False))
    )
    setattr(kind, "__match_args__", positional)  # noqa: B010 - mypy knows the attribute, and that it is given once
    wanted = {*_MADE}
    if not arguments.get("repr", True):
        wanted.remove("__repr__")
    if not arguments.get("eq", True):
        wanted -= {"__eq__", "__hash__"}
    elif not arguments.get("frozen"):
        wanted.remove("__hash__")
        kind.__hash__ = None
    for name in wanted:
        if own.get(name) is None:
            setattr(kind, name, _Late(late, name))
    if arguments.get("frozen"):
        kind.__setattr__, kind.__delattr__ = _refuse_to_set, _refuse_to_delete
        if arguments.get("slots") and "__reduce__" not in own and "__reduce_ex__" not in own:
            kind.__getstate__, kind.__setstate__ = _state, _set_state


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in _late[type(self)].fields]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(_late[type(self)].fields, state, strict=True):
        object.__setattr__(self, field.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    dataclass, field, replace = _late_dataclass, _field, _late_replace
