"""The events in the shop besides business: crashes, a deployment, an outage, and operator actions."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from horsies import Ok, TaskError, TaskResult
from horsies.demo.shop import (
    PAUSED_SCHEDULE,
    STOLEN,
    app,
    build_report,
    import_catalog,
    month_end_workflow,
    nightly_import,
    resize_photo,
    send_newsletter,
)
from horsies.domain.errors import HorsiesError
from horsies.lifecycle.advancing import lock_families
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verbs import VERBS
from horsies.query import parse, task_conditions
from horsies.views import READER_SETTINGS, WorkflowStory, task_page, workflow_story

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from horsies.demo.crew import Crew
    from horsies.demo.customers import Customers
    from horsies.domain.states import TargetKind
    from horsies.store.connect import Database
    from horsies.views import NodeView


_LOOK_EVERY_S: Final = 0.1
_BEGINS_WITHIN_S: Final = 3.0
_FAILS_WITHIN_S: Final = 12.0
_MAX_ORDERS: Final = 10


async def order_charged_by(database: Database, customers: Customers, pid: int) -> str | None:
    """Return an order whose card is being charged by the worker with this pid; other orders are left to any worker."""
    for _ in range(_MAX_ORDERS):
        workflow_id = await customers.order_by_web(STOLEN)
        if workflow_id is None:
            return None
        charge = await _charge(database, workflow_id, lambda node: node.status == "RUNNING", _BEGINS_WITHIN_S)
        if charge is not None and charge.worker_id is not None and f"-{pid}-" in charge.worker_id:
            return workflow_id
    return None


@asynccontextmanager
async def lost_advance(database: Database, workflow_id: str) -> AsyncIterator[bool]:
    """Lock the workflow's row, as a forgotten transaction does: every writer to it waits.

    Entered when the charge has FAILED and its node is still RUNNING; False if that does not happen.
    """
    forgotten = (("idle_in_transaction_session_timeout", "0"),)
    async with database.connected("demo", settings=forgotten) as holder, holder.transaction():
        await lock_families(holder, [workflow_id])
        charge = await _charge(database, workflow_id, lambda node: node.task_status == "FAILED", _FAILS_WITHIN_S)
        yield charge is not None and charge.status == "RUNNING"


async def _charge(
    database: Database, workflow_id: str, is_so: Callable[[NodeView], bool], patience_s: float
) -> NodeView | None:
    """Return the order's first node, once the condition holds; None if it does not in time."""
    deadline = time.monotonic() + patience_s
    async with database.connected("demo", settings=READER_SETTINGS) as connection:
        while time.monotonic() < deadline:
            story = await workflow_story(connection, workflow_id)
            if isinstance(story, WorkflowStory) and is_so(story.nodes[0]):
                return story.nodes[0]
            await asyncio.sleep(_LOOK_EVERY_S)
    return None


FIRST_WORKER: Final = "web-1"
SECOND_WORKER: Final = "web-2"
_OPS: Final = Actor("ops", "demo")
_COMES_UP_WITHIN_S: Final = 30.0
_NIGHTS_ORDERS: Final = 12
_TRIES: Final = 3
"""To meet the instant between two transactions: on a busy machine one try may miss it."""


@app.task("resize_photo_v2", queue_name="default")
def resize_photo_v2(photo: str, sizes: list[int]) -> TaskResult[list[str], TaskError]:
    """Stand for a task of the next release: the web server sends it already, the workers do not import this module."""
    return TaskResult(ok=[f"thumbs/{size}/{photo}" for size in sizes])


@dataclass(frozen=True, slots=True)
class DemoScene:
    """An event at `first_s`, repeated every `every_s`."""

    first_s: float
    every_s: float
    play: Callable[[], Awaitable[None]]


class Story:
    """Compressed to two minutes the first time; later the same again, at the pace of a bad week."""

    def __init__(self, database: Database, crew: Crew, customers: Customers, say: Callable[[str], None]) -> None:
        self._database = database
        self._crew = crew
        self._customers = customers
        self._say = say
        self._second_worker = asyncio.Lock()
        self._hung = ""

    async def open(self, processes: int) -> None:
        """Open with one worker: the task must hang in the worker that stays, so the other one is started after that."""
        await self._crew.start(FIRST_WORKER, processes)
        await self.hang()
        await self._customers.rush(_NIGHTS_ORDERS)

    async def play(self) -> None:
        """Play the scenes without end."""
        await self._comes_up("name:nightly_import status:running")
        await self._crew.start(SECOND_WORKER, 2)
        self._say("two workers serve the queues pay, mail, default and bulk")
        async with asyncio.TaskGroup() as stage:
            for scene in self._scenes():
                stage.create_task(self._repeat(scene))

    def _scenes(self) -> list[DemoScene]:
        return [
            DemoScene(300, 300, self.hang),
            DemoScene(1, 1_800, self.send_ahead),
            DemoScene(1.5, 45, self.release_too_early),
            DemoScene(2, 25, self.report),
            DemoScene(2.5, 600, self.end_month),
            DemoScene(3, 75, self.crash_a_child),
            DemoScene(4, 240, self.pause_mail),
            DemoScene(6, 660, self.deploy),
            DemoScene(8, 60, self.import_big),
            DemoScene(9, 200, self.break_payments),
            DemoScene(10, 420, self.kill_a_worker),
            DemoScene(15, 90, self.cancel),
            DemoScene(5, 3_600, self.pause_newsletter),
        ]

    async def _repeat(self, scene: DemoScene) -> None:
        """Repeat the scene. An outage of the database spoils one performance, not the next."""
        await asyncio.sleep(scene.first_s)
        while True:
            try:
                await scene.play()
            except (HorsiesError, OSError) as error:
                self._say(f"a scene could not be played: {error}")
            await asyncio.sleep(scene.every_s)

    async def hang(self) -> None:
        """Send the task that hangs. By its unique key there is one at a time: the next one hangs when it has ended."""
        keyed = nightly_import.with_options(unique_key="nightly-import")
        sent = await keyed.send_async("s3://shop/stock/2026-11-17.csv")
        if isinstance(sent, Ok) and sent.ok_value.task_id != self._hung:
            self._hung = sent.ok_value.task_id
            self._say("nightly_import waits for a lock that is never released: it runs, and will not end")

    async def send_ahead(self) -> None:
        today = datetime.now(UTC).date().isoformat()
        await build_report.schedule_async(1_800, today, "shop-eu")

    async def release_too_early(self) -> None:
        """Send a task of the next release, with a deadline, so that tasks that no worker runs do not pile up."""
        good_until = datetime.now(UTC) + timedelta(minutes=10)
        await resize_photo_v2.with_options(good_until=good_until).send_async("front.jpg", sizes=[80, 400, 1600])

    async def report(self) -> None:
        await build_report.send_async(datetime.now(UTC).date().isoformat(), "shop-eu")

    async def end_month(self) -> None:
        """Start one good month, and one in which a till is short."""
        await month_end_workflow("2026-09", tills=9, short=None).start_async()
        await month_end_workflow("2026-10", tills=12, short="till-07").start_async()
        self._say("month_end closes twelve tills at once; one is short: paused, until an operator counts")

    async def crash_a_child(self) -> None:
        await resize_photo.send_async("panorama.tiff", megapixels=900)
        self._say("resize_photo takes too much memory: the kernel kills its child process, twice, then it is FAILED")

    async def pause_mail(self) -> None:
        """Pause the queue mail; tasks with a short deadline expire meanwhile."""
        await self._order("queue", "pause", "mail", "the mail provider moves house")
        self._say("ops pauses the queue mail; tasks with a deadline of 10 s will expire")
        good_until = datetime.now(UTC) + timedelta(seconds=10)
        flash = send_newsletter.with_options(good_until=good_until)
        await app.send_many_async([flash.to_send(f"reader{n}@mail.example", "ten seconds only!") for n in range(12)])
        await asyncio.sleep(45)
        await self._order("queue", "resume", "mail", None)
        self._say("ops resumes mail, and what has waited drains")
        await app.send_many_async([send_newsletter.to_send(f"reader{n}@mail.example", "News") for n in range(30)])

    async def pause_newsletter(self) -> None:
        await self._order("schedule", "pause", PAUSED_SCHEDULE, "its link to unsubscribe is broken")
        self._say(f"ops pauses the schedule {PAUSED_SCHEDULE}; count_stock is sent every 20 s and fails sometimes")

    async def break_payments(self) -> None:
        self._say("payments go through the spare gateway, which is down: retries with growing waits, and some give up")
        self._customers.use_spare_gateway()
        await asyncio.sleep(20)
        self._customers.use_usual_gateway()

    async def import_big(self) -> None:
        products = [
            {"sku": f"supplier-{number:05}", "name": f"Thing no. {number}", "cents": number * 7, "tags": ["new", "eu"]}
            for number in range(1_500)
        ]
        await import_catalog.send_async("Van Dijk & Sons", products=products)

    async def cancel(self) -> None:
        if not self._customers.changed_minds:
            return
        order, task_id = self._customers.changed_minds.pop()
        async with self._database.connected("demo", settings=READER_SETTINGS) as connection:
            seen = await preview(connection, VERBS["task", "cancel"], Selection.of_ids([task_id]))
            await apply(connection, seen, _OPS, f"the customer sent order {order} back")

    async def deploy(self) -> None:
        """Stop a worker, which releases its claims; tasks that run past the grace are interrupted."""
        async with self._second_worker:
            await self._send_reports(6)
            if await self._second_holds("name:build_report status:running"):
                self._say(
                    f"a deploy stops web-2, pid {self._crew.pid_of(SECOND_WORKER)}, in the middle of a report:"
                    " INTERRUPTED, it needs a decision"
                )
                await self._crew.replace(SECOND_WORKER, signal.SIGTERM)

    async def kill_a_worker(self) -> None:
        """Kill a worker that holds tasks: they are not released, and the sweep finds them by their silence."""
        async with self._second_worker:
            await self._send_reports(10)
            if await self._second_holds("status:running") and await self._second_holds("status:claimed"):
                for left in reversed(range(_TRIES)):
                    order = await order_charged_by(self._database, self._customers, self._crew.pid_of(SECOND_WORKER))
                    async with AsyncExitStack() as held:
                        split = order is not None and await held.enter_async_context(
                            lost_advance(self._database, order)
                        )
                        if split or not left:
                            self._tell_of_the_kill(order if split else None)
                            await self._crew.replace(SECOND_WORKER, signal.SIGKILL)
                            return

    def _tell_of_the_kill(self, order: str | None) -> None:
        self._say(
            f"web-2 is killed, pid {self._crew.pid_of(SECOND_WORKER)}: gone after 30 s, its claims stale after"
            " 40 s, its run after 60 s; then the next sweep settles them"
        )
        if order is not None:
            self._say(
                f"it had stored that a card was declined, and had not told the order, workflow …{order[-8:]}, of it:"
                " node RUNNING, task FAILED, until a sweep after 60 s, or an operator, reconciles them"
            )

    async def _send_reports(self, count: int) -> None:
        today = datetime.now(UTC).date().isoformat()
        await app.send_many_async([build_report.to_send(today, f"shop-{number}") for number in range(count)])

    async def _second_holds(self, what: str) -> bool:
        return await self._comes_up(f"worker:*-{self._crew.pid_of(SECOND_WORKER)}-* {what}")

    async def _comes_up(self, text: str) -> bool:
        """Return whether a task matches within the waiting time."""
        wanted = task_conditions(parse(text))
        deadline = time.monotonic() + _COMES_UP_WITHIN_S
        async with self._database.connected("demo", settings=READER_SETTINGS) as connection:
            while time.monotonic() < deadline:
                if (await task_page(connection, wanted, limit=1)).rows:
                    return True
                await asyncio.sleep(_LOOK_EVERY_S)
        return False

    async def _order(self, kind: TargetKind, verb: str, target: str, reason: str | None) -> None:
        async with self._database.connected("demo", settings=READER_SETTINGS) as connection:
            seen = await preview(connection, VERBS[kind, verb], Selection.of_ids([target]))
            await apply(connection, seen, _OPS, reason)
