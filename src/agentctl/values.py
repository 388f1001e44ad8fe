"""A frozen value with named fields, for everything that is known (docs/decisions/002-values.md)."""

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
    """A frozen value with named fields: what typing.NamedTuple and dataclasses give, without the 10 ms of start-up
    that they cost every command (docs/decisions/002-values.md). mypy checks it like a frozen dataclass.

    It is a tuple of its fields: so each of ten thousand sessions is made in a fifth of the time that a dict takes, and
    kept in a third of the space. Only this class counts on that."""

    if TYPE_CHECKING:
        _fields: ClassVar[tuple[str, ...]]

        def _replace(self, **changes: object) -> Self: ...

        def _asdict(self) -> dict[str, Any]: ...

        @classmethod
        def _several(cls, *names: str) -> Callable[[Self], tuple[Any, ...]]: ...

    else:
        __slots__ = ()
        _fields = ()
        _places = {}  # of the fields, by name
        _defaults = ()  # of all, None for those that have none: these are
        _required = ()  # the first ones

        def __init_subclass__(cls) -> None:
            cls._fields = tuple(cls.__annotations__)
            cls._places = {name: place for place, name in enumerate(cls._fields)}
            given = vars(cls)
            cls._defaults = tuple(given.get(name) for name in cls._fields)
            cls._required = tuple(name for name in cls._fields if name not in given)
            for name, place in cls._places.items():
                setattr(cls, name, field_at(place, None))

        def __new__(cls, *values: object, **named: object) -> Self:
            if len(values) == len(cls._fields) and not named:  # as where thousands are made
                return tuple.__new__(cls, values)
            own = [*values, *cls._defaults[len(values) :]]
            missing = cls._required[len(values) :]
            try:
                for name, value in named.items():
                    own[cls._places[name]] = value
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
            """In the order of its fields: so a JSON shape can be read off the value."""
            return dict(zip(self._fields, self, strict=True))

        @classmethod
        def _several(cls, *names: str) -> Callable[[Self], tuple[Any, ...]]:
            """What takes these fields, two or more, out of a value at once."""
            return itemgetter(*(cls._places[name] for name in names))
