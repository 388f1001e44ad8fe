"""Stands for typing.NamedTuple and dataclasses.dataclass(frozen=True): a frozen value with named fields.

Importing either of them and building our classes with it costs every command 10 ms (docs/decisions/002-values.md).
Without CPython's private modules the fields become properties and `operator` takes several at once: slower, and equal.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self, dataclass_transform

    Base = object
else:

    def dataclass_transform(**_: object):
        return lambda cls: cls

    try:
        from _collections import _tuplegetter as field_at  # that of collections.namedtuple, without its package
        from _operator import itemgetter
    except ImportError:  # not CPython
        from operator import itemgetter

        def field_at(place: int, _: None) -> property:
            return property(lambda value: value[place])

    Base = tuple


@dataclass_transform(frozen_default=True, eq_default=True)
class Value(Base):
    """The base of our values. mypy checks a subclass as it checks a frozen dataclass.

    A value is a tuple of its fields: Python makes one in a fifth of the time that a dict takes, and keeps it in a third
    of the space. Only this class relies on that: values of two classes are never equal, and a value never equals a
    tuple. A subclass has exactly the fields that its own body declares, so it cannot itself be subclassed."""

    if TYPE_CHECKING:
        _fields: ClassVar[tuple[str, ...]]

        def _replace(self, **changes: object) -> Self: ...

        def _asdict(self) -> dict[str, Any]: ...

        @classmethod
        def _several(cls, *names: str) -> Callable[[Self], tuple[Any, ...]]: ...

        @classmethod
        def _in_order(cls, names: str) -> type[Self]: ...

    else:
        __slots__ = ()
        _fields = ()
        _places = {}  # name of a field -> its place in the tuple
        _defaults = ()  # one for each field; None stands in for those of _required
        _required = ()  # the names of the fields without a default, which come first

        def __init_subclass__(cls) -> None:
            if cls.__bases__ != (Value,):  # what a base declares is not in cls.__annotations__: it would be lost
                raise TypeError(f"{cls.__name__} must have Value as its only base: it would lose the fields of others")
            cls._fields = tuple(cls.__annotations__)
            cls._places = {name: place for place, name in enumerate(cls._fields)}
            given = vars(cls)
            cls._defaults = tuple(given.get(name) for name in cls._fields)
            cls._required = tuple(name for name in cls._fields if name not in given)
            for name, place in cls._places.items():
                setattr(cls, name, field_at(place, None))

        def __new__(cls, *values: object, **named: object) -> Self:
            given = len(values)
            if given == len(cls._fields) and not named:
                return tuple.__new__(cls, values)
            own = [*values, *cls._defaults[given:]]
            missing = cls._required[given:]
            try:
                for name, value in named.items():
                    place = cls._places[name]
                    if place < given:
                        raise KeyError  # it was given by position, too
                    own[place] = value
            except KeyError:
                own = []
            if len(own) != len(cls._fields) or (missing and not named.keys() >= {*missing}):
                raise TypeError(f"{cls.__name__} takes {cls._fields}, not {values} and {named}")
            return tuple.__new__(cls, own)

        def __eq__(self, other: object) -> bool:
            return type(self) is type(other) and tuple.__eq__(self, other)

        def __ne__(self, other: object) -> bool:
            return not self == other

        __hash__ = tuple.__hash__

        def __getnewargs__(self) -> tuple[object, ...]:  # for copy and pickle
            return tuple(self)

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} is frozen")

        def __repr__(self) -> str:
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({fields})"

        def _replace(self, **changes: object) -> Self:
            own = list(self)
            try:
                for name, value in changes.items():
                    own[self._places[name]] = value
            except KeyError:
                raise TypeError(f"{type(self).__name__} has not {changes.keys() - self._places.keys()}") from None
            return tuple.__new__(type(self), own)

        def _asdict(self) -> dict[str, Any]:
            """Return the fields by name, in their order: so a JSON shape can be read off the class."""
            return dict(zip(self._fields, self, strict=True))

        @classmethod
        def _several(cls, *names: str) -> Callable[[Self], tuple[Any, ...]]:
            """Return a function that takes these fields, two or more, out of a value at once."""
            return itemgetter(*(cls._places[name] for name in names))

        @classmethod
        def _in_order(cls, names: str) -> Callable[..., Self]:
            """Return a constructor that takes all fields by position, for code that makes thousands of values: by name
            they would take five times as long.

            The caller spells out the order that it relies on. If that is not the order of the fields, for somebody has
            added, removed or moved one, this raises TypeError, at import, and no value is ever misread. mypy sees the
            class itself, so it checks the number and the types of the arguments."""
            if tuple(names.split()) != cls._fields:
                raise TypeError(f"{cls.__name__} has the fields {' '.join(cls._fields)!r}, not {names!r}")
            new, count = tuple.__new__, len(cls._fields)

            def build(*values: object) -> Self:
                if len(values) != count:
                    raise TypeError(f"{cls.__name__} takes {count} values, not {len(values)}")
                return new(cls, values)

            return build
