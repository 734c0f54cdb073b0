"""Documented import path of the recovery settings."""

from horsies.config.recovery import RecoveryConfig
from horsies.config.resilience import WorkerResilienceConfig

__all__ = ["RecoveryConfig", "WorkerResilienceConfig"]
