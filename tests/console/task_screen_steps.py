"""Steps for tests of a task's screen: the console with one task open, and rows for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from task_steps import Screen

from horsies.config.contexts import ConfigFile, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.story.view import StoryView
from horsies_tui.task.view import DetailView

ONE = "019a7c2e-0000-7000-8000-00001cd6ba9a"
TWO = "019a7c2e-1111-7000-8000-00002222beef"
THREE = "019a7c2e-2222-7000-8000-00003333feed"
MASKED = ("*token", "card_*")
ERROR = json.dumps(
    {
        "__task_result__": True,
        "ok": None,
        "err": {
            "__task_error__": True,
            "error_code": "CARD_DECLINED",
            "message": "the bank says no",
            "data": {"limit": 5},
            "exception": {
                "type": "ValueError",
                "message": "no",
                "traceback": "Traceback:\n" + "  frame\n" * 36 + "ValueError: no",
            },
        },
    }
)


class Detail(Screen):
    """The console with a task open."""

    @property
    def view(self) -> Any:
        return self.app.query_one("#detail", DetailView)

    @property
    def story(self) -> StoryView:
        return self.view.query_one(StoryView)

    @property
    def line(self) -> str:
        """The line under the cursor."""
        return self.story.line.text if self.story.line is not None else ""

    async def go_to(self, words: str) -> None:
        """Move the cursor with keys, section by section and line by line, to a line with these words."""
        for number in range(9):
            await self.press("home", *["tab"] * number)
            assert self.story.place is not None
            part, before = self.story.place.section, None
            while self.story.place.section == part and self.story.place != before:
                if words in self.line:
                    return
                before = self.story.place
                await self.press("down")
        raise AssertionError(f"the cursor came to no line with {words}\n{self.text}")


@asynccontextmanager
async def opened(
    url: str, task_id: str | None, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[Detail]:
    config = ConfigFile(Path("config.toml"), {}, None, mask_arguments=MASKED)
    choice = DatabaseChoice(DatabaseUrl.parse(url), "for the test")
    app = ConsoleApp(ConsoleOptions(choice, config, task_id=task_id, **{"screen": "tasks", **options}))
    async with app.run_test(size=size) as pilot:
        yield Detail(pilot)


async def failed(conn: asyncpg.Connection, task_id: str = ONE, **columns: str) -> None:
    """A task that failed at its second try, with attempts, heartbeats and audit rows."""
    given = {
        "id": f"'{task_id}'",
        "task_name": "'shop.charge_card'",
        "queue_name": "'pay'",
        "status": "'FAILED'",
        "error_code": "'CARD_DECLINED'",
        "created_at": "now() - interval '10 min'",
        "sent_at": "now() - interval '10 min'",
        "enqueued_at": "now() - interval '240 s'",
        "next_retry_at": "now() - interval '240 s'",
        "claimed_at": "now() - interval '230 s'",
        "started_at": "now() - interval '229 s'",
        "failed_at": "now() - interval '100 s'",
        "retry_count": "1",
        "max_retries": "1",
        "claimed_by_worker_id": "'web-1'",
        "worker_hostname": "'web-1'",
        "worker_pid": "4120",
        "kwargs": """'{"path": "s3://shop/a.csv", "api_token": "hunter2"}'""",
        "result": f"'{ERROR}'",
        **columns,
    }
    await conn.execute(f"INSERT INTO horsies_tasks ({', '.join(given)}) VALUES ({', '.join(given.values())})")
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,"
        " error_message, worker_id, worker_hostname, worker_pid) VALUES"
        " ($1, 1, 'WORKER_FAILURE', true, now() - interval '500 s', now() - interval '300 s', 'WORKER_CRASHED',"
        "  'no runner heartbeat for 5m00s', 'web-3', 'web-3', 88),"
        " ($1, 2, 'FAILED', false, now() - interval '229 s', now() - interval '100 s', 'CARD_DECLINED',"
        "  'the bank says no', 'web-1', 'web-1', 4120)",
        task_id,
    )
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT $1, 'web-1:4120', 'runner', now() - interval '229 s' + n * interval '30 s'"
        " FROM generate_series(1, 4) n",
        task_id,
    )
