"""The parameters of a task's function: why a call does not fit them, and values whose type plain JSON would lose."""

from __future__ import annotations

import inspect
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.argument_types import ByParameter, checker, hint_of, hint_or_any
from horsies.domain.codec.classes import OURS, StorableClasses
from horsies.domain.codec.conversion import Conversion, ConversionError, conversion_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from horsies.domain.argument_types import ArgumentCheck
    from horsies.domain.codec.classes import Classes

    Convert = Callable[[Conversion, Any, str], Any]

_MAX_SHAPES: Final = 64
_DUMP: Final[Convert] = lambda conversion, value, name: conversion.dump(value, name)  # noqa: E731
_LOAD: Final[Convert] = lambda conversion, value, name: conversion.load(value, name)  # noqa: E731


class Parameters:
    """The signature of one function.

    Whether a call is possible depends on its number of values and its names. Shapes that fit are cached: binding takes
    1.5 µs, a tenth of the cost of a send here.
    """

    def __init__(self, fn: Callable[..., Any], classes: StorableClasses = OURS) -> None:
        self.classes = classes
        self._fn = fn
        self._signature = inspect.signature(fn)
        self._fitting: set[tuple[int, tuple[str, ...]]] = set()
        parameters = self._signature.parameters.values()
        self._takes_more = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD), None)
        only = {each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_ONLY}
        self._more = only if self._takes_more is not None else set[str]()

    def why_not(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return why the function cannot be called with these; None if it can."""
        shape = (len(args), tuple(kwargs))
        if shape in self._fitting:
            return None
        try:
            self._bound(args, kwargs)
        except TypeError as error:
            return f"arguments do not fit {self}: {error}"
        if len(self._fitting) < _MAX_SHAPES:  # a function with **kwargs could be called with any number of shapes
            self._fitting.add(shape)
        return None

    def why_not_by_type(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return why the values do not fit the annotated types, without showing them; None if they do."""
        misfit = self._check_types(args, kwargs)
        return None if misfit is None else f"arguments do not fit {self}: {misfit}"

    def by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of a call by the names of their parameters; TypeError for one that does not fit."""
        found = self._bound(args, kwargs)
        more = {name: value for name, value in kwargs.items() if name in self._more}
        if more and self._takes_more is not None:
            found[self._takes_more] = found.get(self._takes_more, {}) | more
        return found

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by parameter, except those that **more takes under a positional-only name.

        With such a name as a keyword, bind() of Python 3.11 refuses a call that Python accepts, and that of 3.13.0
        accepts one that lacks the parameter, which Python refuses.
        """
        plain = {name: value for name, value in kwargs.items() if name not in self._more} if self._more else kwargs
        return self._signature.bind(*args, **plain).arguments

    def classes_for(self, argument: int | str) -> Classes | None:
        """Return the classes that the annotation of an argument, by its position or its name, allows a row to name."""
        return self._classes.of_argument(argument)

    def hint_for(self, argument: int | str) -> Any:
        """Return the type of an argument: Any without annotation, text if unresolvable, None without a parameter."""
        return ByParameter.of(self._signature, partial(hint_or_any, self._fn)).of_argument(argument)

    def hints(self) -> list[Any]:
        """Return the types of the parameters that have one."""
        return [hint_of(self._fn, parameter) for parameter in self._signature.parameters.values()]

    def to_stored(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what the codec writes for a possible call; ConversionError for a value that does not fit.

        The same objects for most functions: their values are kept by JSON.
        """
        return self._converted(args, kwargs, _DUMP)

    def from_stored(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the values of the annotated types, from what the codec has read."""
        return self._converted(args, kwargs, _LOAD)

    def _converted(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], convert: Convert
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        if (known := self._conversions) is None:
            return args, kwargs

        def converted(conversion: Conversion | None, value: Any, name: str) -> Any:
            return value if conversion is None else convert(conversion, value, name)

        by_position, by_name = known.by_position, known.by_name
        more = [(f"[{place}]", known.rest[1]) for place in range(len(by_position), len(args))]
        try:
            return (
                [converted(one, value, name) for (name, one), value in zip([*by_position, *more], args, strict=False)],
                {name: converted(by_name.get(name, known.more), value, name) for name, value in kwargs.items()},
            )
        except ConversionError as error:
            raise ConversionError(f"arguments do not fit {self}: {error}") from None

    @cached_property
    def _conversions(self) -> ByParameter[Conversion] | None:
        """The conversions of the parameters that plain JSON would lose, if any. Built at the first call."""
        known = ByParameter.of(self._signature, lambda parameter: conversion_of(hint_of(self._fn, parameter)))
        found = (*(one for _, one in known.by_position), *known.by_name.values(), known.rest[1], known.more)
        return known if any(found) else None

    @cached_property
    def _classes(self) -> ByParameter[Classes]:
        return ByParameter.of(
            self._signature, lambda parameter: self.classes.within(lambda: [hint_or_any(self._fn, parameter)])
        )

    @cached_property
    def _check_types(self) -> ArgumentCheck:
        """Built at the first call: the names in annotations may be defined below the function."""
        return checker(self._fn)

    def __contains__(self, name: object) -> bool:
        return name in self._signature.parameters

    def __str__(self) -> str:
        """`add(a, b=2)`; annotations would make the line too long."""
        plain = [
            parameter.replace(annotation=inspect.Parameter.empty) for parameter in self._signature.parameters.values()
        ]
        return f"{self._fn.__name__}{inspect.Signature(plain)}"
