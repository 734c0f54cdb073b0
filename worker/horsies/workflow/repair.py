"""Repairs workflows that a killed worker left inconsistent, for applications that do not want to wait for the sweep."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from horsies.broker import Operation, PostgresBroker, value_or_raise
from horsies.config.recovery import RecoveryConfig
from horsies.domain.masking import mask
from horsies.handle import BrokerErrorCode
from horsies.lifecycle.reconciling import Reconciled, reconcile_all

if TYPE_CHECKING:
    import asyncpg

_log = logging.getLogger("horsies.workflow")

_MAX_S = 120.0


async def recover_stuck_workflows(where: PostgresBroker | asyncpg.Connection) -> int:
    """Repair like the sweep of a worker; returns the number of repairs. Workers do it at every check interval.

    Each workflow is repaired in a transaction of its own; one that cannot be repaired is logged and skipped. Tasks that
    ended within crashed_worker_recovery_grace_ms are left to their worker. HorsiesError if the database cannot be
    reached.
    """
    if not isinstance(where, PostgresBroker):
        return _log_refused(await reconcile_all(where, RecoveryConfig().crashed_worker_recovery_grace_ms))
    config = RecoveryConfig() if where.app is None else where.app.config.recovery
    sweep = partial(reconcile_all, grace_ms=config.crashed_worker_recovery_grace_ms)
    operation = Operation(BrokerErrorCode.CLEANUP_FAILED, lambda link: link.use(sweep, limit_s=_MAX_S))
    return _log_refused(value_or_raise(await where.perform_async(operation)))


def _log_refused(done: Reconciled) -> int:
    for refused in done.refused:
        _log.warning("workflow %s could not be repaired: %s", refused.item, mask(refused.error))
    return done.repairs
