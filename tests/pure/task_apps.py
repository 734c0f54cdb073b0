"""Applications with an unreachable database, for tests that must not need one."""

from __future__ import annotations

from typing import Any

from horsies import AppConfig, CustomQueueConfig, Horsies, PostgresConfig, QueueMode


def make_app(**config: Any) -> Horsies:
    return Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@localhost:1/none"), **config))


def make_custom_app(**config: Any) -> Horsies:
    queues = [CustomQueueConfig(name="mail", priority=3), CustomQueueConfig(name="reports", priority=50)]
    return make_app(queue_mode=QueueMode.CUSTOM, custom_queues=queues, **config)
