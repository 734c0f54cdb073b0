"""The rules of what one worker may claim: which queues under which caps, and tasks of which names."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from horsies.config.app import QueueMode
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.retry import timeout_of
from horsies.lifecycle.claiming import claim_capped
from horsies.lifecycle.starting import Start
from horsies.run.contract import KnownTask
from horsies.run.worker.in_flight import InFlightTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import asyncpg

    from horsies.app import Horsies
    from horsies.lifecycle.claiming import CappedClaims, ClaimedTask
    from horsies.run.settings import Identity, WorkerSettings


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The rules for this worker. Queues in the order in which they are served, each with its cluster-wide limit."""

    worker_id: str
    hostname: str
    queues: Mapping[str, int | None]
    cluster_cap: int | None
    hard: bool
    lease_ms: int
    max_batch: int
    max_claimed: int
    sync_names: list[str]
    async_names: list[str]
    """The registered names: tasks of other names stay PENDING for a worker that knows them."""
    tasks: dict[str, KnownTask]
    """All registered tasks."""
    requeue_on_interrupt: bool
    """Of a task that does not say it."""

    @classmethod
    def of(cls, app: Horsies, settings: WorkerSettings, identity: Identity) -> ClaimRules:
        config = app.config
        queues: dict[str, int | None] = {"default": None}
        if config.queue_mode is QueueMode.CUSTOM and config.custom_queues:
            ordered = sorted(config.custom_queues, key=lambda queue: queue.priority)
            queues = {queue.name: queue.max_concurrency for queue in ordered}
        facts = {
            name: KnownTask(task.is_async, task.timeout_ms, task.requeue_on_interrupt)
            for name, task in app.tasks.items()
        }
        return cls(
            worker_id=identity.worker_id,
            hostname=identity.hostname,
            queues=_served(queues, settings),
            cluster_cap=config.cluster_wide_cap,
            hard=config.prefetch_buffer == 0,
            lease_ms=config.effective_claim_lease_ms,
            max_batch=settings.max_claim_batch,
            max_claimed=settings.max_claim_per_worker,
            sync_names=[name for name, task in facts.items() if not task.is_async],
            async_names=[name for name, task in facts.items() if task.is_async],
            tasks=facts,
            requeue_on_interrupt=config.requeue_on_interrupt,
        )

    def learn(self, facts: Mapping[str, KnownTask]) -> None:
        """Replace the registered tasks; the caller knows that no claim is under way."""
        self.sync_names[:] = [name for name, task in facts.items() if not task.is_async]
        self.async_names[:] = [name for name, task in facts.items() if task.is_async]
        self.tasks.clear()
        self.tasks.update(facts)

    def entry(self, task: ClaimedTask) -> InFlightTask:
        """A task that was just claimed, with what its send, its definition or the application says of its runs."""
        facts = self.tasks[task.task_name]
        requeue = self.requeue_on_interrupt if facts.requeue_on_interrupt is None else facts.requeue_on_interrupt
        return InFlightTask(task, facts.is_async, timeout_of(task.task_options, facts.timeout_ms), requeue)

    def start_of(self, task: ClaimedTask, pid: int, process: str | None = None) -> Start:
        """The start of a task in a process of this host; its name there is `worker-PID` unless another one is given."""
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

    @property
    def claims_along(self) -> bool:
        """True if the finisher's statements claim: caps need locks of their own, several queues several claims."""
        return not self.capped and len(self.queues) == 1

    @property
    def claims_on_end(self) -> bool:
        """True if the end of a run wakes the claimer, although its outcome is not stored yet."""
        return not self.capped and len(self.queues) > 1

    @property
    def capped(self) -> bool:
        return self.cluster_cap is not None or any(cap is not None for cap in self.queues.values())

    @property
    def caps_on_running(self) -> dict[str, int]:
        """The caps that claims do not enforce because they count only RUNNING tasks: each start has to enforce them."""
        return {} if self.hard else {queue: cap for queue, cap in self.queues.items() if cap is not None}


def _served(queues: Mapping[str, int | None], settings: WorkerSettings) -> dict[str, int | None]:
    """Those of the application that this worker was told to serve; ConfigurationError for a name that is none."""
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
