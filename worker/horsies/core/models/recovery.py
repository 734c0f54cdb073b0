"""Documented import path of the recovery settings."""

from horsies.config.broker import WorkerResilienceConfig
from horsies.config.recovery import RecoveryConfig

__all__ = ["RecoveryConfig", "WorkerResilienceConfig"]
