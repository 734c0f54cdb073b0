"""Documented import path of the queue settings."""

from horsies.config.app import CustomQueueConfig, QueueMode

__all__ = ["CustomQueueConfig", "QueueMode"]
