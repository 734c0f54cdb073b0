"""Documented import path of the queue settings."""

from horsies.config.queues import CustomQueueConfig, QueueMode

__all__ = ["CustomQueueConfig", "QueueMode"]
