"""A workflow as a Mermaid flowchart, for documents and tickets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from horsies.display.node_details import details

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from horsies.views import NodeView

_CLASSES: Final = {
    "COMPLETED": "fill:#d9f2dd,stroke:#2e7d32,color:#111",
    "FAILED": "fill:#f9d9d9,stroke:#c62828,color:#111",
    "RUNNING": "fill:#d9e8f9,stroke:#1565c0,color:#111",
    "RETRY": "fill:#fdf0d0,stroke:#b26a00,color:#111",
    "SKIPPED": "fill:#eeeeee,stroke:#9e9e9e,color:#555,stroke-dasharray:4",
}
"""States that are not here have no class: they wait."""


def mermaid(nodes: Sequence[NodeView]) -> Iterator[str]:
    """Line by line. A child workflow has a double frame; colours add no information."""
    yield "flowchart LR"
    known = {node.index for node in nodes}
    for node in nodes:
        before, after = ('[["', '"]]') if node.is_subworkflow else ('["', '"]')
        shown = f":::{node.state.lower()}" if node.state in _CLASSES else ""
        yield f"    n{node.index}{before}{'<br/>'.join(map(_escaped, _said(node)))}{after}{shown}"
    for node in nodes:
        for need in node.dependencies:
            if need in known:
                yield f"    n{need} --> n{node.index}"
    used = {node.state for node in nodes}
    for name, style in _CLASSES.items():
        if name in used:
            yield f"    classDef {name.lower()} {style}"


def _said(node: NodeView) -> Iterator[str]:
    yield node.label
    code = f" {node.error_code}" if node.error_code else ""
    yield f"{node.state.lower()}{code}"
    yield from details(node)


def _escaped(text: str) -> str:
    """Letters, digits and harmless signs unchanged, all others as numbers: a name may contain anything."""
    return re.sub(r"[^\w .,:/()+-]", lambda found: f"#{ord(found[0])};", text)
