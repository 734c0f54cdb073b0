"""`horsies doctor` on a primary and its hot standby: it reads both, and tells the standby from a primary."""

from __future__ import annotations

import asyncpg
import pytest
from failover_pair import failover_pair

from horsies.config.url import DatabaseUrl
from horsies.doctor.examine import examine
from horsies.store.connect import Database
from horsies.store.schema import create

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
    assert of_standby["notifications"][1] == "this server is a standby, which has none"
