"""What happened: operations with their totals, whatever their size; and what ended or began by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from operation_steps import OPS, undo
from view_steps import insert, snapshot

from horsies.config.recovery import RecoveryConfig
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.query import ActivityFilter, FilterError, parse_activity
from horsies.store.pulse import write_pulse
from horsies.store.worker_states import UPKEEP, elect, write_report
from horsies.views import Change, changes, newest_action, operation_page, schedule_rows

EVERYTHING = ActivityFilter()


async def acted(conn: asyncpg.Connection, rows: int = 1, *, ago_s: float = 60, **columns: Any) -> UUID:
    """One operation; every 500 rows have the time of their statement, a second later than those before."""
    given = {"verb": "requeue", "target_kind": "task", "os_user": "ops", "os_host": "bastion", "reason": "", **columns}
    operation: UUID = await conn.fetchval("SELECT gen_random_uuid()")
    places = ", ".join(f"${at}" for at in range(4, 4 + len(given)))
    await conn.execute("SET session_replication_role = replica")
    await conn.execute(
        f"INSERT INTO horsies_operator_actions (operation_id, acted_at, target_id, outcome, {', '.join(given)})"
        " SELECT $1, now() - ($3::float8 - n / 500) * interval '1 s', 't' || n,"
        f" CASE WHEN n % 10 = 9 THEN 'refused' ELSE 'applied' END, {places}"
        "   FROM generate_series(0, $2 - 1) n",
        operation,
        rows,
        ago_s,
        *given.values(),
    )
    await conn.execute("RESET session_replication_role")
    return operation


async def found(conn: asyncpg.Connection, text: str, **options: Any) -> list[UUID]:
    page = await operation_page(conn, parse_activity(text), **options)
    return [row.operation_id for row in page.rows]


async def test_an_operation_on_many_tasks_hides_no_older_one_and_its_totals_are_whole(conn: asyncpg.Connection) -> None:
    old = await acted(conn, 1, ago_s=3_600, verb="pause", target_kind="queue", os_user="ann")
    large = await acted(conn, 5_000, ago_s=600, reason="rate limit was lifted")
    new = await acted(conn, 3, ago_s=5, verb="fail")
    page = await operation_page(conn, EVERYTHING)
    assert [row.operation_id for row in page.rows] == [new, large, old]
    row = page.rows[1]
    assert (row.applied, row.refused, row.undone, row.at_least) == (4_500, 500, 0, False)
    assert (row.verb, row.kinds, row.who, row.reason) == ("requeue", ("task",), "ops@bastion", "rate limit was lifted")
    assert row.db_role == await conn.fetchval("SELECT current_user")
    assert row.acted_at - row.began_at == timedelta(seconds=9)
    assert page.next is None
    some = (await operation_page(conn, EVERYTHING, count_up_to=1_000)).rows[1]
    assert (some.targets, some.at_least) == (1_000, True)


async def test_operations_at_once_are_all_found_and_pages_repeat_none(conn: asyncpg.Connection) -> None:
    made = [await acted(conn, 700, ago_s=60 - number / 10) for number in range(7)]
    made += [await acted(conn, 1, ago_s=30 + number) for number in range(8)]
    await conn.execute("SET session_replication_role = replica")
    twins = await conn.fetch(
        "INSERT INTO horsies_operator_actions (operation_id, acted_at, verb, target_kind, target_id, outcome)"
        " VALUES (gen_random_uuid(), now() - interval '9 s', 'fail', 'task', 'a', 'applied'),"
        "        (gen_random_uuid(), now() - interval '9 s', 'fail', 'task', 'b', 'applied') RETURNING operation_id"
    )
    made += [row["operation_id"] for row in twins]
    seen: list[UUID] = []
    before = None
    while True:
        page = await operation_page(conn, EVERYTHING, limit=3, before=before)
        assert len(page.rows) <= 4  # two of the same microsecond are not divided
        seen += [row.operation_id for row in page.rows]
        before = page.next
        if before is None:
            break
    assert sorted(seen) == sorted(made)


async def test_filters_of_operations_agree_with_their_rows(conn: asyncpg.Connection) -> None:
    ann = await acted(conn, 2, ago_s=7_200, os_user="ann", os_host="laptop", verb="pause", target_kind="queue")
    ops = await acted(conn, 600, ago_s=1_800, reason="provider is back")
    node = await acted(conn, 1, ago_s=60, verb="skip", target_kind="node")
    role = await conn.fetchval("SELECT current_user")
    expected = {
        "": [node, ops, ann],
        "by:ann": [ann],
        "by:ann@laptop": [ann],
        "by:lap*": [ann],
        "-by:ann": [node, ops],
        f"by:{role}": [node, ops, ann],
        f"-by:{role}": [],
        "by:an": [],
        "verb:requeue,skip": [node, ops],
        "-verb:requeue": [node, ann],
        "kind:queue": [ann],
        "kind:operation": [node, ops, ann],
        "kind:operation,queue": [node, ops, ann],
        "-kind:queue": [node, ops],
        "kind:change": [],
        "-kind:operation": [],
        "since:1h": [node, ops],
        "until:10m": [ops, ann],
        "since:1h until:10m": [ops],
        "provider": [ops],
        "-provider": [node, ann],
        str(node)[-8:]: [node],
        "by:ops verb:skip": [node],
        "by:ann verb:skip": [],
    }
    assert {text: await found(conn, text) for text in expected} == expected
    assert await found(conn, "kind:node", before=await conn.fetchval("SELECT now() - interval '5 min'")) == []


@pytest.mark.parametrize(
    ("text", "hint"), [("kind:tasks", "task"), ("who:ops", "by"), ("since:soon", "duration"), ("bi:ops", "by")]
)
def test_a_word_that_is_wrong_is_said_with_the_right_one(text: str, hint: str) -> None:
    with pytest.raises(FilterError, match=hint):
        parse_activity(text)


async def test_an_undo_is_an_operation_and_is_counted_at_what_it_took_back(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    for number in range(3):
        await insert(connection, f"t{number}", status="'FAILED'", failed_at="now()")
    requeue = VERBS["task", "requeue"]
    done = await apply(connection, await preview(connection, requeue, Selection.of_ids(["t0", "t1", "t2"])), OPS, None)
    first = await newest_action(conn)
    await connection.execute("UPDATE horsies_tasks SET priority = 1, claimed_at = now() WHERE id = 't2'")
    back = await undo(connection, done.operation_id, OPS, "wrong ones")
    assert await newest_action(conn) != first
    page = await operation_page(conn, EVERYTHING)
    rows = {row.operation_id: row for row in page.rows}
    assert (rows[done.operation_id].applied, rows[done.operation_id].undone) == (3, len(back.applied))
    assert len(back.applied) == 2
    assert rows[back.operation_id].verb == "undo"


async def test_the_undo_of_a_pause_is_called_undo(conn: asyncpg.Connection, connection: asyncpg.Connection) -> None:
    await insert(connection, "t", queue_name="'mail'")
    done = await apply(
        connection, await preview(connection, VERBS["queue", "pause"], Selection.of_ids(["mail"])), OPS, None
    )
    await undo(connection, done.operation_id, OPS, None)
    rows = (await operation_page(conn, EVERYTHING)).rows
    assert [(row.verb, row.verbs, row.undone) for row in rows] == [("undo", ("resume",), 0), ("pause", ("pause",), 1)]


async def test_without_an_audit_there_are_no_operations_and_it_is_said(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    await connection.execute("DROP TABLE horsies_operator_actions CASCADE")
    page = await operation_page(conn, EVERYTHING)
    assert (page.rows, page.recorded, page.next) == ((), False, None)
    assert await newest_action(conn) is None


# What changed by itself.


async def ended(conn: asyncpg.Connection, task_id: str, status: str, *, ago_s: float, **columns: str) -> None:
    at = f"now() - {ago_s} * interval '1 s'"
    await insert(conn, task_id, status=f"'{status}'", **{"failed_at": at, **columns})


def told(rows: tuple[Change, ...]) -> list[tuple[str, str, str, str, int]]:
    return [(row.kind, row.what, row.name, row.detail, row.count) for row in rows]


async def happened(conn: asyncpg.Connection, text: str = "") -> list[tuple[str, str, str, str, int]]:
    return told((await changes(conn, parse_activity(text))).rows)


async def test_ends_alike_are_one_line_and_only_what_went_wrong_by_itself_is_told(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    noon = "date_trunc('hour', now()) - interval '55 min'"
    for number in range(5):
        at = f"{noon} + {number} * interval '1 s'"
        await ended(connection, f"f{number}", "FAILED", ago_s=0, failed_at=at, error_code="'TIMEOUT'")
    await ended(connection, "late", "FAILED", ago_s=0, failed_at=f"{noon} + interval '20 min'", error_code="'TIMEOUT'")
    await ended(connection, "other", "FAILED", ago_s=0, failed_at=f"{noon} + interval '21 min'", error_code="'BAD'")
    await ended(connection, "x", "EXPIRED", ago_s=0, failed_at=f"{noon} + interval '22 min'")
    await ended(connection, "by-hand", "FAILED", ago_s=5, error_code="'OPERATOR_FAILED'")
    await ended(connection, "done", "COMPLETED", ago_s=0, completed_at="now()", failed_at="NULL")
    await ended(connection, "long-ago", "FAILED", ago_s=200_000, error_code="'TIMEOUT'")
    assert await happened(conn) == [
        ("task", "expired", "demo.add", "", 1),
        ("task", "failed", "demo.add", "BAD", 1),
        ("task", "failed", "demo.add", "TIMEOUT", 1),
        ("task", "failed", "demo.add", "TIMEOUT", 5),
    ]
    assert [row[4] for row in await happened(conn, "TIMEOUT since:7d")] == [1, 5, 1]
    assert (
        await happened(conn, "by:ops") == await happened(conn, "verb:fail") == await happened(conn, "kind:queue") == []
    )
    assert len(await happened(conn, "kind:task")) == len(await happened(conn, "kind:change")) == 4


async def test_what_operators_have_ended_is_told_once_as_their_operation(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    for number in range(3):
        await insert(connection, f"t{number}")
    for verb, task_id in (("cancel", "t0"), ("fail", "t1")):
        await apply(connection, await preview(connection, VERBS["task", verb], Selection.of_ids([task_id])), OPS, None)
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status) VALUES ('w1', 'order', 'RUNNING'), ('w2', 'order', 'RUNNING')"
    )
    await apply(connection, await preview(connection, VERBS["workflow", "cancel"], Selection.of_ids(["w1"])), OPS, None)
    assert await happened(conn) == []
    await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED', failed_at = now() WHERE id = 't2'")
    await connection.execute("UPDATE horsies_workflows SET status = 'CANCELLED', completed_at = now() WHERE id = 'w2'")
    assert {row[:3] for row in await happened(conn)} == {
        ("task", "cancelled", "demo.add"),
        ("workflow", "cancelled", "order"),
    }


async def test_the_same_failures_keep_their_id_while_more_of_them_are_counted(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    noon = "date_trunc('hour', now()) - interval '55 min'"
    await ended(connection, "a", "FAILED", ago_s=0, failed_at=f"{noon} + interval '10 s'")
    (before,) = (await changes(conn, EVERYTHING)).rows
    await ended(connection, "b", "FAILED", ago_s=0, failed_at=f"{noon} + interval '20 s'")
    (after,) = (await changes(conn, EVERYTHING)).rows
    assert (before.id, before.count, after.count) == (after.id, 1, 2)


async def test_workflows_workers_and_recoveries_are_told(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status, completed_at)"
        " VALUES ('w1', 'month_end', 'FAILED', now() - interval '1 min'), ('w2', 'order', 'COMPLETED', now())"
    )
    for worker_id, pid, ago, draining in (("web-1-7-ab", 7, "1 s", False), ("web-2-8-cd", 8, "10 min", False),
                                          ("web-3-9-ef", 9, "20 min", True)):  # fmt: skip
        await snapshot(
            connection, worker_id, snapshot_at=f"now() - interval '{ago}'", hostname=f"'{worker_id[:5]}'", pid=f"{pid}",
            queues="'{mail}'", worker_started_at="now() - interval '30 min'", draining=f"{draining}",
        )  # fmt: skip
    await connection.execute(
        "INSERT INTO horsies_worker_losses (worker_id, taken_at, failed, returned)"
        " VALUES ('web-2-8-cd', date_trunc('minute', now()) - interval '5 min', '{a}', '{b,c}'),"
        "        ('web-2-8-cd', date_trunc('minute', now()) - interval '4 min 59 s', '{d}', '{}')"
    )
    seen = await happened(conn)
    assert seen[:4] == [
        ("workflow", "failed", "month_end", "", 1),
        ("worker", "recovered", "web-2:8", "2 failed, 2 returned", 4),
        ("worker", "died", "web-2:8", "", 1),
        ("worker", "stopped", "web-3:9", "", 1),
    ]
    assert sorted(row[:3] for row in seen[4:]) == [
        ("worker", "started", f"web-{n}:{p}") for n, p in ((1, 7), (2, 8), (3, 9))
    ]
    assert {row[0] for row in await happened(conn, "kind:worker")} == {"worker"}
    assert {row[1] for row in await happened(conn, "since:25m -web-2")} == {"failed", "stopped"}


async def test_what_failed_stays_after_its_requeue_and_outages_schedulers_and_deployments_are_told(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    """A surge of 2,159 failed attempts was gone after its requeue; an outage and a lost scheduler never were here."""
    noon = "date_trunc('hour', now()) - interval '55 min'"
    await connection.execute(
        f"INSERT INTO horsies_tasks (id, task_name, queue_name, status) SELECT 't' || n, 'shop.pay', 'q', 'PENDING'"
        f"   FROM generate_series(1, 400) n;"
        f" INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at,"
        f"                                    error_code)"
        f" SELECT 't' || n % 400 + 1, n, 'FAILED', n < 2000, at, at, 'GATEWAY_DOWN' FROM generate_series(1, 2159) n"
        f"  CROSS JOIN LATERAL (SELECT {noon} + n * interval '100 ms' AS at) made;"
        f" INSERT INTO horsies_outages (began_at, ended_at) VALUES ({noon}, {noon} + interval '90 s');"
        f" INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, started_at,"
        f"                                 seen_at)"
        f" VALUES ('s1', 'cron-1', 5, '{{nightly}}', '1.2', now() - interval '2 d', {noon} + interval '1 s');"
        f" INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        f"     max_claim_per_worker, queues, worker_started_at, horsies_version)"
        f" SELECT 'w' || n, now(), 'web', n, 8, 8, 8, '{{q}}', {noon} + n * interval '1 min', '1.' || n / 2"
        f"   FROM generate_series(0, 3) n"
    )
    told = await happened(conn, "-started")
    assert [row for row in told if row[0] == "task"] == [("task", "failed", "shop.pay", "GATEWAY_DOWN", 2159)]
    assert [row[:3] for row in told if row[0] != "task" and row[1] != "started"] == [
        ("worker", "deployed", "web:2"),
        ("database", "outage", "no heartbeats"),
        ("scheduler", "lost", "cron-1:5"),
    ]
    assert {row[0] for row in await happened(conn, "kind:database,scheduler")} == {"database", "scheduler"}


@pytest.mark.parametrize(
    ("starts", "told"),
    [
        ([("1.4", 0, 30), ("1.4", 1, 30), ("1.5", 10, 59), ("1.5", 11, 59)], ["1.5 at 10"]),
        ([("1.4", 0, 20), ("1.5", 10, 30), ("1.4", 29, 59)], ["1.5 at 10", "1.4 at 29"]),
        ([("1.4", 0, 20), ("1.4", 21, 30), ("1.4", 31, 59)], []),
        ([("1.4", 0, 40), ("1.5", 10, 59), ("1.4", 15, 40)], ["1.5 at 10"]),
        ([("1.4", 0, 20, "mail"), ("7", 5, 59, "pay"), ("1.4", 21, 59, "mail")], []),
        ([(None, 0, 20), ("1.4", 21, 59)], ["1.4 at 21"]),
        ([("1.4", 0, 59)], []),
    ],
    ids=["rolling", "taken back", "restarts", "scaled while rolling", "two applications", "first named", "the first"],
)
async def test_a_deployment_is_a_worker_of_another_version_than_those_before_it(
    conn: asyncpg.Connection, connection: asyncpg.Connection, starts: list[tuple[Any, ...]], told: list[str]
) -> None:
    """Each start: the version, its minute, and the minute of its last snapshot; an hour of three days ago."""
    for number, (version, began, ended, *queues) in enumerate(starts):
        await connection.execute(
            "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
            "     max_claim_per_worker, queues, worker_started_at, horsies_version, app_version)"
            " SELECT 'w' || $1::int, day + $4 * interval '1 min', 'web', $1, 8, 8, 8, $5, day + $3 * interval '1 min',"
            "        '1', $2 FROM (SELECT date_trunc('day', now()) - interval '3 d' AS day) made",
            number,
            version,
            float(began),
            float(ended),
            queues or ["default"],
        )
    found = (await changes(conn, parse_activity("kind:worker since:5d"))).rows
    deployed = [change for change in reversed(found) if change.what == "deployed"]
    assert [f"{change.detail} at {change.at.minute}" for change in deployed] == [
        f"new version: {one.replace(' at', ', horsies 1 at')}" for one in told
    ]


@pytest.mark.parametrize(
    ("processes", "again", "what", "told"),
    [
        ((2, 2), True, "outage", "none was stored for 300s: no server, no network, a lock or a full disk"),
        (
            (2, 0),
            False,
            "outage",
            "none was stored for 300s: no server, no network, a lock or a full disk, or no worker",
        ),
        ((0, 0), False, "idle", "all workers were stopped for 300s"),
        ((), False, "outage", "none was stored for 300s: no server, no network, a lock or a full disk, or no worker"),
    ],
    ids=["a worker survived it", "one was stopped", "all were stopped", "nothing is known"],
)
async def test_an_outage_tells_whether_a_worker_lived_through_it(
    conn: asyncpg.Connection,
    connection: asyncpg.Connection,
    processes: tuple[int, ...],
    again: bool,
    what: str,
    told: str,
) -> None:
    await connection.execute(
        "INSERT INTO horsies_outages (began_at, ended_at)"
        " VALUES (now() - interval '3 d', now() - interval '3 d' + interval '5 min')"
    )
    at = "now() - interval '3 d'"
    started = {"worker_started_at": "now() - interval '4 d'"}
    for number, count in enumerate(processes):
        for after_s, running in ((-4, 2), (3, count)):
            then = f"{at} + {after_s} * interval '1 s'"
            await snapshot(connection, f"w{number}", snapshot_at=then, processes=f"{running}", **started)
    if again:
        await snapshot(connection, "w1", snapshot_at=f"{at} + interval '301 s'", processes="2", **started)
    (change,) = (await changes(conn, parse_activity("kind:database since:5d"))).rows
    assert (change.what, change.detail) == (what, told)


async def test_a_scheduler_that_was_lost_days_ago_is_told_and_is_in_no_list_any_more(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, started_at, seen_at)"
        " VALUES ('s', 'cron-1', 5, '{a}', '1', now() - interval '9 d', now() - interval '3 d')"
    )
    lost = [row[:3] for row in await happened(conn, "kind:scheduler since:5d")]
    assert lost == [("scheduler", "lost", "cron-1:5")]
    assert (await schedule_rows(conn)).schedulers == ()


async def test_the_current_outage_is_one_as_soon_as_two_pulses_are_missed(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    await write_pulse(connection, RecoveryConfig(), 7.5)
    passed = "UPDATE horsies_pulse SET beaten_at = beaten_at - interval '13 s'"
    await connection.execute(passed)
    assert (await changes(conn, parse_activity("kind:database"))).rows == ()
    await connection.execute(passed)
    (change,) = (await changes(conn, parse_activity("kind:database"))).rows
    assert change.detail.startswith("none was stored for 26s until now: ")
    await write_pulse(connection, RecoveryConfig(), 7.5)
    (change,) = (await changes(conn, parse_activity("kind:database"))).rows
    assert change.detail.startswith("none was stored for 26s: ")


async def test_what_a_sweep_expired_or_repaired_stays_when_it_sweeps_again(
    conn: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    done = {"requeued": 0, "expired": 3, "repairs": 5, "workflows": 2}
    assert await elect(connection, UPKEEP, "web-1-7-abcdef", 1) is None
    for report in (done, {**done, "expired": 1, "repairs": 0}, {**done, "expired": 0, "repairs": 0}):
        await write_report(connection, UPKEEP, "web-1-7-abcdef", report)
    await write_report(connection, UPKEEP, None, {**done, "workflows": 1, "expired": 0})
    assert await happened(conn, "kind:sweep") == [
        ("sweep", "swept", "by command", "5 repaired in 1 workflow", 1),
        ("sweep", "swept", "web-1:7", "1 expired", 1),
        ("sweep", "swept", "web-1:7", "3 expired, 5 repaired in 2 workflows", 1),
    ]
    assert await happened(conn, "kind:sweep since:1h -expired") == [
        ("sweep", "swept", "by command", "5 repaired in 1 workflow", 1)
    ]


async def test_it_says_since_when_all_ends_were_read(conn: asyncpg.Connection, connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, failed_at)"
        " SELECT 't' || n, 'shop.mail', 'mail', 'FAILED', now() - n * interval '1 s' FROM generate_series(1, 1500) n"
    )
    storm = await changes(conn, EVERYTHING)
    assert sum(row.count for row in storm.rows) == 1_000
    assert storm.since == await connection.fetchval("SELECT failed_at FROM horsies_tasks WHERE id = 't1000'")
    assert (await changes(conn, parse_activity("since:10m"))).since is None
