"""The nodes of one workflow as copies of the user's: numbered, named, and referring to each other."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from horsies.workflow.nodes import MapNode, Node, NodeKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from horsies.workflow.nodes import AnyNode, NodeRef

_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_\-:.]")


def slugify(text: str) -> str:
    """`text` as a part of a node_id: spaces are replaced by _, other characters that are not allowed are removed."""
    return _NOT_IN_AN_ID.sub("", text.replace(" ", "_")) or "_"


class Graph:
    """Copies in the order of the list; a reference to a node that is not in the list stays as it is."""

    def __init__(self, workflow_name: str, originals: Sequence[AnyNode]) -> None:
        self.originals = originals
        self.nodes: tuple[AnyNode, ...] = tuple(_copy(node) for node in originals)
        self._copies = {id(old): new for old, new in zip(originals, self.nodes, strict=True)}
        self._members = {id(node) for node in self.nodes}
        slug = slugify(workflow_name)
        for index, node in enumerate(self.nodes):
            node.index = index
            if node.node_id is None or node.named_by_index:
                node.node_id = f"{slug}:{index}"
                node.named_by_index = True
            self._redirect(node)

    def __contains__(self, node: object) -> bool:
        return id(node) in self._members

    def find(self, ref: NodeRef | None) -> AnyNode | None:
        """The copy that belongs to one of the user's nodes, to a key or to a node_id."""
        if isinstance(ref, NodeKey):
            ref = ref.node_id
        if isinstance(ref, str):
            return next((node for node in self.nodes if node.node_id == ref), None)
        if ref is None:
            return None
        return self._copies.get(id(ref)) or (ref if ref in self else None)

    def write_back(self) -> None:
        """Write index and name to the user's nodes, so that `node.key()` works on them."""
        for old, new in zip(self.originals, self.nodes, strict=True):
            if not old.is_frozen:
                old.index, old.node_id, old.named_by_index = new.index, new.node_id, new.named_by_index

    def _redirect(self, node: AnyNode) -> None:
        node.waits_for = self._each(node.waits_for)
        node.args_from = {name: self._copies.get(id(source), source) for name, source in node.args_from.items()}
        if node.workflow_ctx_from is not None:
            node.workflow_ctx_from = self._each(node.workflow_ctx_from)
        if isinstance(node, MapNode) and isinstance(node.over, Node):
            node.over = self._copies.get(id(node.over), node.over)

    def _each(self, nodes: Iterable[AnyNode]) -> tuple[AnyNode, ...]:
        """The nodes without repetitions: to wait twice for one node has no further effect."""
        found = (self._copies.get(id(node), node) for node in nodes)
        return tuple({id(node): node for node in found}.values())


def _copy(node: AnyNode) -> Any:
    twin = copy.copy(node)
    twin.__dict__.pop("_frozen", None)
    return twin
