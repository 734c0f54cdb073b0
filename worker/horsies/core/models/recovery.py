"""Documented import path of the recovery settings."""

from horsies.config.app import WorkerResilienceConfig
from horsies.config.recovery import RecoveryConfig

__all__ = ["RecoveryConfig", "WorkerResilienceConfig"]
