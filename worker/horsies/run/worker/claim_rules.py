"""The rules of what one worker may claim: which queues under which caps, and tasks of which names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from horsies.config.app import QueueMode
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.retry import timeout_of
from horsies.lifecycle.claiming import Start, claim_capped
from horsies.run.contract import KnownTask
from horsies.run.worker.in_flight import InFlightTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import asyncpg

    from horsies.app import Horsies
    from horsies.lifecycle.claiming import CappedClaims, ClaimedTask
    from horsies.run.settings import Identity, WorkerSettings


class ClaimRules:
    """The rules for this worker. Queues in the order in which they are served, each with its cluster-wide limit."""

    def __init__(self, app: Horsies, settings: WorkerSettings, identity: Identity) -> None:
        config = app.config
        queues: dict[str, int | None] = {"default": None}
        if config.queue_mode is QueueMode.CUSTOM and config.custom_queues:
            ordered = sorted(config.custom_queues, key=lambda queue: queue.priority)
            queues = {queue.name: queue.max_concurrency for queue in ordered}
        self.worker_id, self.hostname = identity.worker_id, identity.hostname
        self.queues: Mapping[str, int | None] = _served(queues, settings)
        self.cluster_cap = config.cluster_wide_cap
        self.hard = config.prefetch_buffer == 0
        self.lease_ms = config.effective_claim_lease_ms
        self.max_batch, self.max_claimed = settings.max_claim_batch, settings.max_claim_per_worker
        self.capped = self.cluster_cap is not None or any(cap is not None for cap in self.queues.values())
        self.claims_along = not self.capped and len(self.queues) == 1
        """The finisher's statements claim: caps need locks of their own, several queues several claims."""
        self.claims_on_end = not self.capped and len(self.queues) > 1
        """The end of a run wakes the claimer, although its outcome is not stored yet."""
        self.caps_on_running = {} if self.hard else {name: cap for name, cap in self.queues.items() if cap is not None}
        """The caps that claims do not enforce because they count only RUNNING tasks: each start has to enforce them."""
        self._requeue_on_interrupt = config.requeue_on_interrupt
        self.tasks: dict[str, KnownTask] = {}
        self.learn(
            {name: KnownTask(one.is_async, one.timeout_ms, one.requeue_on_interrupt) for name, one in app.tasks.items()}
        )

    def learn(self, tasks: Mapping[str, KnownTask]) -> None:
        """Replace the registered tasks; the caller knows that no claim is under way."""
        self.tasks.clear()
        self.tasks.update(tasks)
        self.sync_names = [name for name, task in tasks.items() if not task.is_async]
        """Registered names: tasks of other names stay PENDING for a worker that knows them."""
        self.async_names = [name for name, task in tasks.items() if task.is_async]

    def entry(self, task: ClaimedTask) -> InFlightTask:
        """Return a claimed task with what its send, its definition or the application says of its runs."""
        facts = self.tasks[task.task_name]
        requeue = self._requeue_on_interrupt if facts.requeue_on_interrupt is None else facts.requeue_on_interrupt
        return InFlightTask(task, facts.is_async, timeout_of(task.task_options, facts.timeout_ms), requeue)

    def start_of(self, task: ClaimedTask, pid: int, process: str | None = None) -> Start:
        """Return the start of a task in a process of this host, `worker-PID` unless another name is given."""
        return Start(task.token, pid, self.hostname, process or f"worker-{pid}", task.queue_name)

    async def claim_capped(
        self, connection: asyncpg.Connection, queues: Iterable[str], budget: int, task_names: list[str] | None
    ) -> CappedClaims:
        """Claim from these queues as far as their caps allow."""
        return await claim_capped(
            connection,
            worker_id=self.worker_id,
            queues=[(queue, self.queues[queue]) for queue in queues],
            budget=budget,
            cluster_cap=self.cluster_cap,
            hard=self.hard,
            lease_ms=self.lease_ms,
            task_names=task_names,
        )


def _served(queues: Mapping[str, int | None], settings: WorkerSettings) -> dict[str, int | None]:
    """Return the queues that this worker serves; ConfigurationError for a name that the application does not have."""
    for name in (*settings.queues, *settings.except_queues):
        if name not in queues:
            near = get_close_matches(name, queues, 1)
            raise ConfigurationError(
                f"the application has no queue {name!r}",
                code=ErrorCode.CLI_INVALID_ARGS,
                help_text=f"did you mean {near[0]!r}?" if near else f"it has {', '.join(queues)}",
            )
    wanted = {name: cap for name, cap in queues.items() if not settings.queues or name in settings.queues}
    served = {name: cap for name, cap in wanted.items() if name not in settings.except_queues}
    if not served:
        raise ConfigurationError(
            "no queue is left for this worker to serve",
            code=ErrorCode.CLI_INVALID_ARGS,
            help_text=f"the application has {', '.join(queues)}; leave out fewer",
        )
    return served
