"""What a task's function takes, and why a call does not fit it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_MOST_SHAPES: Final = 64


class Parameters:
    """The signature of one function.

    Whether a call fits depends on how many values and which names it has. Shapes that fit are remembered: binding takes
    1.5 µs, a tenth of all that a send costs here.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._name = fn.__name__
        self._signature = inspect.signature(fn)
        self._fitting: set[tuple[int, tuple[str, ...]]] = set()

    def why_not(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """None when the function can be called so, otherwise the reason for a person."""
        shape = (len(args), tuple(kwargs))
        if shape in self._fitting:
            return None
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            return f"arguments do not fit {self}: {error}"
        if len(self._fitting) < _MOST_SHAPES:  # a function that takes **kwargs could be called with endless ones
            self._fitting.add(shape)
        return None

    def __contains__(self, name: object) -> bool:
        return name in self._signature.parameters

    def __str__(self) -> str:
        """`add(a, b=2)`; annotations would fill the line and are not checked."""
        plain = [
            parameter.replace(annotation=inspect.Parameter.empty) for parameter in self._signature.parameters.values()
        ]
        return f"{self._name}{inspect.Signature(plain)}"
