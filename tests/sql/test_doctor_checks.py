"""Each check of `horsies doctor` in a database that is made wrong in this one way; what mends it, mends it."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest
from database_server import url_with
from doctor_steps import examined, line, lines, mend
from until import until

from horsies.config.app import AppConfig, PostgresConfig
from horsies.config.recovery import RecoveryConfig
from horsies.doctor import CheckVerdict
from horsies.doctor.checks import connections, tables, transactions
from horsies.doctor.examine import all_checks
from horsies.run.worker.worker import _DEDICATED
from horsies.store.schema import upgrade

OK, WARN, FAIL, UNKNOWN = CheckVerdict.OK, CheckVerdict.WARN, CheckVerdict.FAIL, CheckVerdict.UNKNOWN


async def snapshot(
    connection: asyncpg.Connection,
    worker_id: str,
    *,
    config: str | None = None,
    ahead_s: float = -1.0,
    ago_s: float = 1.0,
) -> None:
    """A living worker, whose clock was so far ahead when it started."""
    await connection.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, worker_started_at, queues, recovery_config)"
        " SELECT $1, at, 'web', 7, 1, 1, 1, at + $2::float8 * interval '1 s', '{default}', $3"
        " FROM (SELECT now() - $4::float8 * interval '1 s' AS at) snapshot",
        worker_id, ahead_s, config, ago_s,
    )  # fmt: skip


async def finish(connection: asyncpg.Connection, task_id: str, days: float) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at)"
        " VALUES ($1, 'x', 'default', 'COMPLETED', now() - $2::float8 * interval '1 day')",
        task_id, days,
    )  # fmt: skip


async def test_a_database_that_is_well_has_no_other_line(connection: asyncpg.Connection, database: str) -> None:
    await connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # the default from PostgreSQL 15 on
    settings = RecoveryConfig().model_dump_json()
    for number in range(3):
        await snapshot(connection, f"web-7-{number:08x}", config=settings)
    await finish(connection, "done", days=29)
    config = AppConfig(broker=PostgresConfig(database_url=database))
    for given in (None, config):
        found = await examined(database, given)
        # The disk of a server in a container cannot be read from here.
        assert [each for each in found.lines if each.verdict is not OK and each.check != "disk"] == []
        assert [each.check for each in found.lines] == [check.name for check in all_checks()]
        assert all(each.evidence and each.remedy is None for each in found.lines)


def test_checks_have_names_and_places_of_their_own() -> None:
    folder = Path(connections.__file__).parent
    assert len({check.name for check in all_checks()}) == len(all_checks())
    assert len({check.place for check in all_checks()}) == len(all_checks())
    assert {path.stem for path in folder.glob("*.sql")} < {path.stem for path in folder.glob("*.py")}


def test_a_worker_has_no_more_connections_than_the_budget_counts() -> None:
    listening, schedules, sweeps, prunes = 1, 1, 1, 1
    assert len(_DEDICATED) + listening + schedules + sweeps + prunes == connections.MOST_OF_A_WORKER


async def test_a_limit_of_the_role_or_the_database_counts_too(
    connection: asyncpg.Connection, database: str, role: str
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    await connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 3; ALTER DATABASE {name} CONNECTION LIMIT 30")
    await snapshot(connection, "web-7-00000001")
    server, of_role, of_database = await lines(url_with(database, role=role), "connections")
    assert [server.verdict, of_role.verdict, of_database.verdict] == [OK, WARN, OK]
    assert of_role.evidence == f"1 of the 3 that role {role} may have; our workers use up to 11"
    await mend(connection, of_role)
    await connection.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 2")
    server, of_role, of_database = await lines(url_with(database, role=role), "connections")
    assert [server.verdict, of_role.verdict, of_database.verdict] == [OK, OK, FAIL]
    await mend(connection, of_database)
    assert (await lines(url_with(database, role=role), "connections"))[2].verdict is OK


@pytest.mark.parametrize("version", ["upstream_shape.sql", "version_7_shape.sql"])
async def test_older_tables_are_told_how_to_be_upgraded(empty_database: str, version: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute(Path(__file__).with_name(version).read_text("utf-8"))
    await connection.close()
    found = {each.check: each for each in (await examined(empty_database)).lines}
    assert found["schema"].verdict is FAIL
    for each in (found["schema"], found["vacuum"], found["retention"]):
        assert "`horsies db upgrade`" in str(each.remedy)
    assert {each.verdict for each in found.values()} == {OK, FAIL, UNKNOWN}


async def test_an_empty_database_is_told_how_to_get_its_tables(empty_database: str) -> None:
    found = {each.check: each for each in (await examined(empty_database)).lines}
    assert found["schema"].verdict is FAIL
    assert found["schema"].remedy == "`horsies db init` creates them"
    assert {name for name, each in found.items() if each.verdict is UNKNOWN} == {
        check.name for check in all_checks() if check.needs_tables
    }


async def test_the_indexes_that_are_expected_are_those_of_the_schema(connection: asyncpg.Connection) -> None:
    there = await connection.fetch(
        "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relname ~ '^(ix|idx|uq)_horsies'"
        " AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid"
        "                    AND conname <> 'uq_horsies_task_attempts_task_attempt')"
    )
    assert set(tables.expected()) == {row["relname"] for row in there}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("ix_horsies_tasks_ready", FAIL),
        ("uq_horsies_tasks_key_and_name", FAIL),
        ("ix_horsies_tasks_finished", WARN),
    ],
)
@pytest.mark.parametrize(
    "how", ["DROP INDEX {}", "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{}'::regclass"]
)
async def test_an_index_that_is_missing_or_invalid_is_made_again(
    connection: asyncpg.Connection, database: str, name: str, verdict: CheckVerdict, how: str
) -> None:
    await connection.execute(how.format(name))
    found = await line(database, "indexes")
    assert name in found.evidence
    assert found.verdict is (verdict if "DROP" in how else FAIL)
    await mend(connection, found)
    assert (await line(database, "indexes")).verdict is OK


async def test_what_a_failed_build_left_is_to_be_dropped(connection: asyncpg.Connection, database: str) -> None:
    for task_id in ("a", "b"):
        await finish(connection, task_id, days=1)
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute("CREATE UNIQUE INDEX CONCURRENTLY mine ON horsies_tasks (task_name)")
    found = await line(database, "indexes")
    assert (found.verdict, found.evidence) == (WARN, "mine on horsies_tasks is invalid, and not ours")
    await mend(connection, found)
    assert (await line(database, "indexes")).verdict is OK


async def test_an_index_of_others_that_is_never_used_is_named_after_a_week(
    connection: asyncpg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.execute("CREATE INDEX mine ON horsies_tasks (failed_reason)")
    assert (await line(database, "indexes")).verdict is OK
    monkeypatch.setattr(tables, "UNUSED_AFTER_S", 0.0)
    found = await line(database, "indexes")
    assert found.verdict is WARN
    assert found.evidence.startswith("mine on horsies_tasks is not ours and was not used in ")
    await mend(connection, found)
    found = await line(database, "indexes")
    assert found.verdict is OK
    assert re.search("; not used in .*: [0-9]+, the largest (ix|idx|uq)_horsies_", found.evidence)


async def test_dead_rows_are_told_with_what_keeps_autovacuum_from_them(
    connection: asyncpg.Connection, database: str
) -> None:
    holder = await asyncpg.connect(database)
    await holder.execute(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"
    )  # autovacuum may come, and can remove nothing
    writer = await asyncpg.connect(database)
    await writer.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status) SELECT n, 'x', 'default', 'PENDING'"
        " FROM generate_series(1, 12000) n; UPDATE horsies_tasks SET priority = 7"
    )
    await writer.close()  # it reports what it has counted
    await until(connection, "pg_stat_get_dead_tuples('horsies_tasks'::regclass) >= 12000")
    found = await line(database, "vacuum")
    assert found.verdict is WARN
    assert found.evidence.startswith("autovacuum does not keep up with horsies_tasks: 12,000 dead rows beside 12,000")
    await connection.execute("ALTER TABLE horsies_tasks SET (autovacuum_enabled = off)")
    await connection.execute("ALTER TABLE horsies_workflows SET (autovacuum_enabled = off)")
    tasks, workflows = await lines(database, "vacuum")
    assert (tasks.verdict, workflows.verdict) == (FAIL, WARN)
    assert tasks.evidence.startswith("autovacuum is off for horsies_tasks: 12,000 dead rows")
    await holder.close()
    for each in (tasks, workflows, found):
        await mend(connection, each)
    await until(connection, "pg_stat_get_dead_tuples('horsies_tasks'::regclass) = 0")
    assert (await line(database, "vacuum")).verdict is OK


async def test_a_forgotten_transaction_is_named_with_the_call_that_ends_it(
    connection: asyncpg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten = await asyncpg.connect(database, server_settings={"application_name": "a report\x1b[2J"})
    await forgotten.execute("BEGIN; SELECT txid_current()")
    assert (await line(database, "long transactions")).verdict is OK
    monkeypatch.setattr(transactions, "WARN_AFTER_S", 0.0)
    found = await line(database, "long transactions")
    assert found.verdict is WARN
    assert found.evidence.startswith(f"pid {forgotten.get_server_pid()}, 'a report")
    assert re.search(r"idle in transaction: open for \d+s, holds back vacuum$", found.evidence)
    monkeypatch.setattr(transactions, "FAIL_AFTER_S", 0.0)
    assert (await line(database, "long transactions")).verdict is FAIL
    await mend(connection, found)
    await until(connection, f"NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {forgotten.get_server_pid()})")
    assert (await line(database, "long transactions")).verdict is OK
    forgotten.terminate()


async def test_a_clock_that_is_off_is_told_with_its_worker(connection: asyncpg.Connection, database: str) -> None:
    await snapshot(connection, "old-1-00000000", ago_s=3600)
    await snapshot(connection, "web-7-00000001")
    await snapshot(connection, "web-8-00000002", ahead_s=90)
    await snapshot(connection, "web-9-00000003", ahead_s=-600)
    found = await lines(database, "clocks")
    assert [each.verdict for each in found] == [WARN, WARN]
    assert "the clock of web:8 was 90 s ahead of the database" in found[0].evidence
    assert "the clock of web:9 was 600 s behind the database" in found[1].evidence


async def test_different_recovery_settings_are_told_with_their_workers(
    connection: asyncpg.Connection, database: str
) -> None:
    for number, threshold in enumerate((300_000, 300_000, 60_000)):
        given = RecoveryConfig(running_stale_threshold_ms=threshold)
        await snapshot(connection, f"web-{number}-{number:08x}", config=given.model_dump_json())
    await connection.execute("UPDATE horsies_worker_states SET pid = right(worker_id, 1)::integer")
    found = await line(database, "recovery settings")
    assert found.verdict is WARN
    assert found.evidence == "running_stale_threshold_ms: 300000 in web:0, web:1, 60000 in web:2"
    config = AppConfig(broker=PostgresConfig(database_url=database), recovery=RecoveryConfig(check_interval_ms=1_000))
    with_app = await lines(database, "recovery settings", config)
    assert "check_interval_ms: 30000 in web:0, web:1, web:2, 1000 in the application" in [
        one.evidence for one in with_app
    ]


@pytest.mark.parametrize(("days", "verdict"), [(30.05, OK), (30.2, WARN), (35, FAIL)])
async def test_rows_that_should_be_gone_are_told_with_the_last_sweep(
    connection: asyncpg.Connection, database: str, days: float, verdict: CheckVerdict
) -> None:
    await finish(connection, "old", days=days)
    found = await line(database, "retention")
    assert found.verdict is verdict
    assert "never swept" in found.evidence
    await connection.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms)"
        " VALUES ('retention', now() - interval '2 h', 'web-7-00000001', 3600000)"
    )
    await connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('t', 'w', 'runner', now() - interval '27 h')"
    )
    beats = (await lines(database, "retention"))[0]
    assert (beats.verdict, "last swept 2h00m ago by web-7-00000001" in beats.evidence) == (WARN, True)
    assert beats.evidence.startswith("heartbeats: the oldest row is overdue by 3h00m (kept 1d0h, by the defaults)")


async def test_a_role_without_rights_is_told_which_grant_it_lacks(
    connection: asyncpg.Connection, other: asyncpg.Connection, database: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_with(database, role=role)
    found = {each.check: each for each in (await examined(url)).lines}
    assert found["schema"].verdict is FAIL
    assert "GRANT SELECT ON ALL TABLES" in str(found["schema"].remedy)
    assert {each.verdict for name, each in found.items() if name in {"indexes", "retention", "clocks"}} == {UNKNOWN}

    await connection.execute(f"GRANT SELECT ON horsies_console_schema TO {role}")
    found = {each.check: each for each in (await examined(url)).lines}
    assert found["retention"].verdict is UNKNOWN
    assert "permission denied for table" in found["retention"].evidence
    await connection.execute(found["retention"].remedy or "")

    await other.execute("BEGIN; SELECT txid_current()")
    monkeypatch.setattr(transactions, "WARN_AFTER_S", 0.0)
    await connection.execute(f"REVOKE pg_monitor FROM {role}")
    for check in ("long transactions", "disk", "WAL"):
        unseen = await line(url, check)
        assert (unseen.verdict, unseen.remedy) == (UNKNOWN, f'GRANT pg_monitor TO "{role}"')
    await connection.execute(unseen.remedy or "")
    assert (await line(url, "WAL")).verdict is OK
    assert str(other.get_server_pid()) in (await line(url, "long transactions")).evidence
    assert (await line(url, "schema")).verdict is WARN  # it may only read


async def test_a_table_that_is_locked_holds_it_up_for_a_moment_only(
    connection: asyncpg.Connection, database: str
) -> None:
    async with connection.transaction():
        await connection.execute("LOCK TABLE horsies_tasks, horsies_worker_states IN ACCESS EXCLUSIVE MODE")
        found = {each.check: each for each in (await examined(database)).lines}
        waits = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
    assert {each.verdict for name, each in found.items() if name in {"retention", "clocks", "connections"}} == {UNKNOWN}
    assert found["retention"].evidence == "no answer in time: canceling statement due to lock timeout"
    assert waits == 0


async def test_nothing_is_written(connection: asyncpg.Connection, database: str) -> None:
    """Its only transaction with an id is that of the notification."""
    await snapshot(connection, "web-7-00000001")
    counts = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_xact_user_tables"
    before = await connection.fetchval(counts)
    await examined(database)
    assert await connection.fetchval(counts) == before


async def test_what_another_role_could_have_run_in_place_of_ours_is_found_and_dropped(
    connection: asyncpg.Connection, database: str, role: str
) -> None:
    await connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert (await line(database, "search path")).verdict is OK
    await connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    open_to_all = await line(database, "search path")
    assert (open_to_all.verdict, open_to_all.remedy) == (WARN, 'REVOKE CREATE ON SCHEMA "public" FROM PUBLIC')
    await connection.execute(
        f"SET ROLE {role};"
        "CREATE FUNCTION pg_notify(text, varchar) RETURNS void LANGUAGE sql AS 'SELECT';"
        "CREATE FUNCTION same(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE FUNCTION horsies_is_held(text) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE AGGREGATE array_agg(varchar) (SFUNC = array_append, STYPE = varchar[]);"
        "CREATE OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = same);"
        "RESET ROLE;"
        "ALTER FUNCTION horsies_is_held(varchar) RESET search_path;"
        "CREATE OR REPLACE FUNCTION horsies_notify_task_changes() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_notify(''task_new'', NEW.id); RETURN NEW; END'"
    )
    found = await lines(database, "search path")
    assert [each.verdict for each in found] == [*[FAIL] * 7, WARN]
    assert [str(each.remedy).startswith("TRUNCATE horsies_console_schema") for each in found[:4]] == [
        *[True] * 3,
        False,
    ]
    for each in found[3:]:
        await mend(connection, each)
    await connection.execute("TRUNCATE horsies_console_schema")
    await upgrade(connection)
    assert (await line(database, "search path")).verdict is OK
