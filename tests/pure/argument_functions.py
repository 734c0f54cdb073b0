"""Functions with annotations as strings, some of which cannot be resolved at run time."""

from __future__ import annotations

from decimal import Decimal as Money
from typing import Any

from codec_models import Colour, Order, Parcel


def in_words(item_id: int, order: Order | None = None, *, colour: Colour = Colour.RED, **more: list[Parcel]) -> Any: ...


def with_unknown_names(price: Money, count: int, later: Later) -> Any: ...


class Later:
    """Defined below the function that names it."""
