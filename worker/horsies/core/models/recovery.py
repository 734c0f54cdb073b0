"""Documented import path of the recovery settings."""

from horsies.config.app import WorkerResilienceConfig as WorkerResilienceConfig
from horsies.config.recovery import RecoveryConfig as RecoveryConfig
