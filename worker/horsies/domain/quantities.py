"""Times and numbers as formatted in the report's sentences."""

from __future__ import annotations

from datetime import UTC, datetime


def span(seconds: float) -> str:
    """Format seconds as 4s, 2m04s, 3h05m or 2d3h."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600}h"


def clock(moment: datetime) -> str:
    """Format the time of day in UTC, with its date, because the report may be read on another day."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Format 1 task, 12 tasks, 1,204 tasks; or with its plural if that is no `s` more: 1 process, 2 processes."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def need_action(count: int) -> str:
    """Format a number of findings: 1 needs action, 2 need action."""
    return counted(count, "needs action", "need action")


def by_whom(actor: str | None) -> str:
    return f" by {actor}" if actor else ""


def size(count: int) -> str:
    """Format bytes as 412 B, 1.5 kB, 16.0 MB or 2.3 GB."""
    amount, units = float(count), ("B", "kB", "MB", "GB", "TB")
    for unit in units:
        if amount < 1024 or unit == units[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
