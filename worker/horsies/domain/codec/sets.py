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
    """Whether values of this schema of pydantic may hold sets: few do, and only these are walked."""
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
    if not isinstance(tree, list) or isinstance(value, _TEXTS):
        return tree
    if isinstance(value, _SETS):
        return sorted((with_sorted_sets(*pair) for pair in zip(value, tree, strict=True)), key=to_json)
    # An iterator has been used up by pydantic.
    return [with_sorted_sets(*pair) for pair in zip(value, tree, strict=True)] if isinstance(value, Sequence) else tree
