"""`horsies doctor` and the console on a primary and its hot standby."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
from failover_pair import failover_pair

from horsies.config.contexts import ConfigFile, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.doctor.examine import examine
from horsies.store.connect import Database
from horsies.store.schema import create
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.app import ConsoleApp

pytestmark = pytest.mark.chaos


async def test_a_standby_is_read_and_told_from_its_primary() -> None:
    with failover_pair(synchronous=True) as pair:
        connection = await asyncpg.connect(pair.primary.url, server_settings={"synchronous_commit": "remote_apply"})
        await create(connection)
        slot = "SELECT pg_create_physical_replication_slot('other', true)"
        await connection.execute(slot)
        verdicts = {}
        for server in (pair.primary, pair.standby):
            lines = (await examine(Database(DatabaseUrl.parse(server.url), "in a test", None))).lines
            verdicts[server] = {line.check: (line.verdict.value, line.evidence) for line in lines}
        await connection.close()
    of_primary, of_standby = verdicts.values()
    assert {check for check, (verdict, _) in of_primary.items() if verdict != "ok"} == {"replication slots"}
    assert {check: verdict for check, (verdict, _) in of_standby.items() if verdict != "ok"} == {
        "schema": "warn",
        "notifications": "unknown",
    }
    assert of_standby["notifications"][1] == "this server is a standby, which has no notifications"


@pytest.mark.chaos
async def test_a_standby_is_shown_read_only_until_it_is_promoted() -> None:
    with failover_pair(synchronous=True) as pair:
        primary = await asyncpg.connect(pair.primary.url)
        await create(primary)
        await primary.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('one', 'mail', 'default')")
        await primary.close()
        choice = DatabaseChoice(DatabaseUrl.parse(pair.standby.url), "for the test")
        app = ConsoleApp(ConsoleOptions(choice, ConfigFile(Path("config.toml"), {}, None), screen="tasks"))
        async with app.run_test(size=(140, 30)) as pilot:

            async def sees(*words: str, lacks: str = "\n") -> None:
                async with asyncio.timeout(30):
                    while not (all(word in text() for word in words) and lacks not in text()):
                        await pilot.pause(0.05)

            def text() -> str:
                strips = app.screen._compositor.render_strips()
                return " ".join(strip.text for strip in strips)

            await sees("POLL", "READ-ONLY", "one")
            assert app.why_no_writes() == "read-only: the server is a standby"
            await pilot.press("C")
            await sees("the server is a standby")
            await asyncio.to_thread(pair.standby.promote)
            await app.link.read(app.link._inspect)
            await sees("one", lacks="READ-ONLY")
            assert app.why_no_writes() is None
