"""Brings workflows that a killed worker left out of step back into it, for applications that want it done now."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from horsies.broker import PostgresBroker
from horsies.config.recovery import RecoveryConfig
from horsies.config.url import mask
from horsies.domain.errors import HorsiesError
from horsies.domain.result import Err
from horsies.handle import BrokerErrorCode
from horsies.lifecycle.reconciling import Reconciled, reconcile_all

if TYPE_CHECKING:
    import asyncpg

_log = logging.getLogger("horsies.workflow")

_LONGEST_S = 120.0


async def recover_stuck_workflows(where: PostgresBroker | asyncpg.Connection) -> int:
    """As the sweep of a worker does it; how many repairs were made. Workers do it by themselves every check interval.

    Each workflow is put right in a transaction of its own; one that cannot be is logged and stepped over. What ended
    within crashed_worker_recovery_grace_ms is left to its worker. HorsiesError where the database cannot be asked.
    """
    if not isinstance(where, PostgresBroker):
        return _told(await reconcile_all(where, RecoveryConfig().crashed_worker_recovery_grace_ms))
    config = RecoveryConfig() if where.app is None else where.app.config.recovery
    sweep = partial(reconcile_all, grace_ms=config.crashed_worker_recovery_grace_ms)
    done = await where.perform_async(BrokerErrorCode.CLEANUP_FAILED, lambda link: link.use(sweep, limit_s=_LONGEST_S))
    if isinstance(done, Err):
        raise HorsiesError(done.err_value.message, help_text="nothing is lost: workers do the same with each sweep")
    return _told(done.ok_value)


def _told(done: Reconciled) -> int:
    for refused in done.refused:
        _log.warning("workflow %s could not be put right: %s", refused.item, mask(refused.error))
    return done.repairs
