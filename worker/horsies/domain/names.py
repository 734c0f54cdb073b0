"""The rules for names, so that the database accepts them later."""

from __future__ import annotations

MAX_QUEUE_NAME_BYTES = 52
"""The insert trigger notifies `task_queue_<name>`; PostgreSQL allows 63 bytes for a channel and fails the insert."""

MAX_NAME_CHARACTERS = 255
"""Of a task, of a workflow, and of a definition_key: their columns hold no more."""


def why_not_a_queue_name(name: str) -> str | None:
    """Return why `name` cannot be a queue; None if it can."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > MAX_QUEUE_NAME_BYTES:
        return f"queue name {name!r} has {size} bytes; the notification channel leaves room for {MAX_QUEUE_NAME_BYTES}"
    return why_not_a_name("queue name", name)


def why_not_a_task_name(name: str) -> str | None:
    """Return why `name` cannot be a task; None if it can."""
    if len(name) > MAX_NAME_CHARACTERS:
        return f"task name {name[:40]!r}… has {len(name)} characters; the column holds {MAX_NAME_CHARACTERS}"
    return why_not_a_name("task name", name)


def is_workflow_name(name: object) -> bool:
    """Return whether `name` can be the name of a workflow, or its definition_key."""
    return isinstance(name, str) and len(name) <= MAX_NAME_CHARACTERS and why_not_a_name("name", name) is None


def why_not_a_name(kind: str, name: str) -> str | None:
    """Return why `name` is refused; None if it is visible and fits on a screen and in a text column.

    `kind` is what the message calls it: queue name, unique_key.
    """
    if not name.strip():
        return f"the {kind} is empty"
    if not name.isprintable():
        return f"{kind} {name!r} has characters that cannot be printed or stored"
    return None
