"""Documented import path of the queue settings."""

from horsies.config.app import CustomQueueConfig as CustomQueueConfig, QueueMode as QueueMode
