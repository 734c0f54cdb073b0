"""What a line says of a node besides its name and its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.cli.words import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.views import NodeView


def details(node: NodeView) -> Iterator[str]:
    """How it joins what it waits for, and how far its child is."""
    if node.join == "any":
        yield f"any of {len(node.dependencies)}"
    elif node.join == "quorum":
        yield f"{node.min_success} of {len(node.dependencies)}"
    if node.allow_failed_deps and node.dependencies:
        yield "also after failures"
    if node.sub_total is not None:
        things = "items" if node.is_map else "nodes"
        failed = f", {number(node.sub_failed)} failed" if node.sub_failed else ""
        yield f"{number(node.sub_done or 0)} of {number(node.sub_total)} {things}{failed}"
