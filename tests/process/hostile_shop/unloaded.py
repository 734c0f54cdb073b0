"""Nobody imports this module."""

from __future__ import annotations

from dataclasses import dataclass

from hostile_shop import leave_a_trace

leave_a_trace("imported")


@dataclass
class Bomb:
    number: int = 1
