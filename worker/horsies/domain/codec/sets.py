"""One order for the JSON of sets: that of a set of texts differs from one process to the next.

What is compared as text, the arguments of a workflow that is started again or of a send whose unique key is live, would
otherwise look like another call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codec.json_text import to_json

if TYPE_CHECKING:
    from pydantic import BaseModel

_SETS: Final = (set, frozenset)
_TEXTS: Final = (str, bytes, bytearray)


def holds_sets(schema: object) -> bool:
    """Return whether values of this schema of pydantic may hold sets: few do, and only these are walked."""
    if isinstance(schema, Mapping):
        return schema.get("type") in ("set", "frozenset") or any(map(holds_sets, schema.values()))
    return isinstance(schema, list | tuple) and any(map(holds_sets, schema))


@lru_cache(maxsize=256)
def model_holds_sets(cls: type[BaseModel]) -> bool:
    return holds_sets(cls.__pydantic_core_schema__)


def with_sorted_sets(value: Any, tree: Any) -> Any:
    """The JSON that pydantic has made of a value, with the items of each set in the order of their texts."""
    if isinstance(value, Mapping) and isinstance(tree, dict):
        # Two keys may be written alike.
        pairs = zip(tree.items(), value.values(), strict=True) if len(value) == len(tree) else ()
        return {name: with_sorted_sets(part, text) for (name, text), part in pairs} or tree
    if isinstance(tree, dict):
        return {name: with_sorted_sets(getattr(value, name, None), part) for name, part in tree.items()}
    # An iterator has been used up by pydantic, and a serializer of a field may write what it likes.
    if not isinstance(tree, list) or not _is_written_item_by_item(value, tree):
        return tree
    items = [with_sorted_sets(*pair) for pair in zip(value, tree, strict=True)]
    return sorted(items, key=to_json) if isinstance(value, _SETS) else items


def _is_written_item_by_item(value: Any, tree: Sequence[Any]) -> bool:
    return isinstance(value, (*_SETS, Sequence)) and not isinstance(value, _TEXTS) and len(value) == len(tree)
