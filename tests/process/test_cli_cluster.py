"""Workers, queues, recovery, audit and status on the command line."""

from __future__ import annotations

import json
import shlex

import asyncpg
import pytest
from cli_steps import ago, audited, claimed, failed, horsies, insert, running, statuses, worker
from database_server import as_written

pytestmark = pytest.mark.usefixtures("here")

HOSTILE = "shop'; DROP TABLE horsies_tasks; -- \x1b[31m"


def row_of(text: str, word: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if word in line]
    return line.split()


async def test_workers_are_listed_with_what_they_hold(connection: asyncpg.Connection) -> None:
    await worker(connection, "web-1", memory_usage_mb="100", children_memory_mb="50")
    await worker(connection, "web-2", seconds=400)
    await worker(connection, "web-3", seconds=7_200)
    await running(connection, "r1", "r2", worker="web-1")
    await claimed(connection, "c", worker="web-2", seconds=400)
    said = await horsies("workers", "ls")
    assert said.code == 0
    assert row_of(said.out, "web-1")[1:8] == ["alive", "web-1", "1s", "2", "0", "8", "150"]
    assert row_of(said.out, "web-2")[1:4] == ["lost", "web-2", "6m40s"]
    assert "holds 1 task: horsies workers recover web-2" in said.out
    assert "web-3" not in said.out
    assert "web-3" in (await horsies("workers", "ls", "--all")).out
    report = (await horsies("workers", "ls", "--json")).json
    assert set(report) == {"now", "filter", "workers"}
    assert [one["liveness"] for one in report["workers"]] == ["alive", "lost"]


async def test_a_filter_of_workers_is_that_of_the_console(connection: asyncpg.Connection) -> None:
    await worker(connection, "web-1-4121-0a0b0c0d")
    await connection.execute("UPDATE horsies_worker_states SET hostname = 'web-1', pid = 4121")
    await worker(connection, "web-2", seconds=400)
    await worker(connection, "web-3", seconds=7_200)
    await claimed(connection, "c", worker="web-2", seconds=400)

    async def listed(*words: str) -> list[str]:
        return [one["id"] for one in (await horsies("workers", "ls", *words, "--json")).json["workers"]]

    assert await listed("--filter", "status:gone has:tasks") == ["web-2"]
    assert await listed("--filter", "status:gone", "--all") == ["web-2", "web-3"]
    assert await listed("--filter", "-status:alive", "tasks:>0") == ["web-2"]
    assert await listed("id:web-1:4121") == ["web-1-4121-0a0b0c0d"]
    assert (await horsies("workers", "ls", "status:alive,late", "--json")).json["filter"] == "status:alive,late"
    assert row_of((await horsies("workers", "ls", "-f", "status:gone")).out, "web-2")[1] == "lost"
    said = await horsies("workers", "ls", "--filter", "host:nowhere")
    assert (said.code, said.out.splitlines()[0]) == (0, "no worker of 2 matches host:nowhere")
    assert "--filter-help explains filters" in said.out

    await connection.execute("UPDATE horsies_worker_states SET app_version = '1.4.2' WHERE worker_id = 'web-2'")
    (found,) = (await horsies("workers", "ls", "app:1.4.*", "--json")).json["workers"]
    assert (found["id"], found["snapshot"]["app_version"]) == ("web-2", "1.4.2")

    explained = (await horsies("workers", "ls", "--filter-help")).out
    assert "id:web-1:4121" in explained
    assert "load:>80" in explained


async def test_the_keys_of_workers_and_queues_in_json_stay(connection: asyncpg.Connection) -> None:
    await worker(connection)
    (one,) = (await horsies("workers", "ls", "--json")).json["workers"]
    assert set(one) == {
        *("id", "liveness", "seen_at", "seen_by", "silent_s", "running", "claimed", "snapshot"),
        *("draining_since", "draining_by", "draining_reason", "loss"),
    }
    (queue,) = (await horsies("queues", "ls", "--json")).json["queues"]
    assert set(queue) == {
        *("name", "due", "later", "oldest_due_at", "claimed", "running", "cap", "priority", "workers", "draining"),
        *("paused_at", "paused_by", "paused_reason"),
    }


async def test_empty_lists_say_so_in_words_and_the_status_of_an_idle_database_is_calm() -> None:
    for words, said in (
        (["workers", "ls"], "no worker was seen in the last hour\n`horsies worker MODULE` starts one"),
        (["queues", "ls"], "no queue has tasks that wait or run, and no worker serves one\n"),
        (["recovery", "ls"], "nothing is stuck: every task is where it should be\n"),
        (["audit", "ls"], "no operator action is recorded\n"),
        (["audit", "ls", "--task", "t"], "no such operator action is recorded\n"),
    ):
        listed = await horsies(*words)
        assert (listed.code, said in listed.out) == (0, True), listed.out
        assert len(listed.out.splitlines()) <= 2
    status = await horsies("status")
    assert status.code == 1, "no worker is alive"
    assert "nothing is stuck" in status.out
    assert "horsies worker MODULE" in status.out


async def test_a_dead_worker_is_recovered_by_a_part_of_its_id(connection: asyncpg.Connection) -> None:
    await worker(connection, "web-1-4121-9be6067a", seconds=400)
    await running(connection, "r", seconds=500, worker="web-1-4121-9be6067a")
    await claimed(connection, "c", seconds=500, worker="web-1-4121-9be6067a")
    seen = await horsies("workers", "recover", "…9be6067a", "--dry-run")
    assert "would recover 1 worker in" in seen.out
    assert "lost: no sign of life for 6m40s" in seen.out
    said = await horsies("workers", "recover", "web-1", "--yes", "--reason", "oom")
    assert said.code == 0, said.err
    assert "1 back in the queue, 1 failed as WORKER_CRASHED" in said.out
    assert await statuses(connection) == {"r": "FAILED", "c": "PENDING"}


async def test_a_worker_drains_and_resumes_and_the_list_says_so(connection: asyncpg.Connection) -> None:
    await worker(connection, "web-1")
    drained = await horsies("workers", "drain", "web-1", "--yes", "--reason", "deploy")
    assert drained.code == 0, drained.err
    listed = (await horsies("workers", "ls")).out
    assert "draining" in listed
    assert '"deploy"' in listed
    assert (await horsies("workers", "resume", "web-1", "--yes")).code == 0
    assert "draining" not in (await horsies("workers", "ls")).out
    assert [row[:2] for row in await audited(connection)] == [("drain", "web-1"), ("resume", "web-1")]


async def test_a_queue_is_paused_shown_so_and_let_go_by_undo(connection: asyncpg.Connection) -> None:
    await insert(connection, "t", queue_name="'mail'")
    paused = await horsies("queues", "pause", "mail", "--yes", "--reason", "smtp down")
    assert paused.code == 0, paused.err
    listed = (await horsies("queues", "ls")).out
    assert row_of(listed, "mail")[:4] == ["mail", "1", "0", "0"]
    assert "by" in row_of(listed, "mail")
    assert '"smtp down"' in listed
    assert "paused queue" in (await horsies("recovery", "ls")).out
    undone = await horsies(*paused.out.splitlines()[-1].split(": ")[1].split()[1:], "--yes")
    assert undone.code == 0, undone.out
    assert "paused" not in (await horsies("queues", "ls")).out


async def stuck(connection: asyncpg.Connection) -> None:
    await running(connection, "run", seconds=900, worker="web-9")
    await claimed(connection, "claim", seconds=900, worker="web-9")
    await insert(connection, "late", good_until=ago(60))
    await failed(connection, "cut", code="TASK_INTERRUPTED")


async def test_the_recovery_list_has_evidence_what_happens_and_what_helps(connection: asyncpg.Connection) -> None:
    await stuck(connection)
    said = await horsies("recovery", "ls", "--why")
    assert said.code == 0
    assert "no worker is alive to sweep: horsies recovery run sweeps once" in said.out
    assert "interrupted" in said.out
    assert "waits for you" in said.out
    assert "  horsies tasks requeue cut\n" in said.out
    assert "  horsies workers recover web-9\n" in said.out
    report = (await horsies("recovery", "ls", "--json")).json
    assert set(report) == {
        *("now", "database", "workers_alive", "settings", "settings_from", "settings_differ", "sweep", "findings"),
        *("sweeps", "spared"),
    }
    finding = next(one for one in report["findings"] if one["kind"] == "stale run")
    assert set(finding) == {
        *("kind", "severity", "target_kind", "name", "ids", "count", "at_least", "since", "evidence", "system_will"),
        *("in_seconds", "may", "why", "queue_name", "worker_id"),
    }
    assert finding["severity"] == "needs_action"
    assert {"verb": "requeue", "target_kind": "task", "ids": ["run"], "options": {}} in finding["may"]


async def test_the_crashes_of_one_name_are_acknowledged_by_the_listed_command(connection: asyncpg.Connection) -> None:
    await worker(connection, "web-1-4121-9be6067a", seconds=400)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at, claimed_by_worker_id)"
        " SELECT md5(name), name, 'default', 'FAILED', 'WORKER_CRASHED', now(), 'web-1-4121-9be6067a'"
        "   FROM unnest($1::text[]) name",
        ["shop.mail", "shop.pdf", HOSTILE],
    )

    async def crashed() -> set[str]:
        found = (await horsies("recovery", "ls", "--json")).json["findings"]
        return {one["name"] for one in found if one["kind"] == "crashed"}

    acknowledge = "horsies workers acknowledge web-1-4121-9be6067a --task"
    assert f"  {acknowledge} shop.mail\n" in (await horsies("recovery", "ls", "--why")).out
    assert (await horsies(*shlex.split(acknowledge)[1:], "shop.mail", "--yes")).code == 0
    assert await crashed() == {"shop.pdf", HOSTILE}
    said = await horsies(*shlex.split(acknowledge)[1:], HOSTILE, "--yes")
    assert (said.code, "\x1b" in said.out) == (0, False)
    assert await crashed() == {"shop.pdf"}
    refused = await horsies(*shlex.split(acknowledge)[1:], "shop.\udcff", "--yes")
    assert "it has no losses to acknowledge" in refused.out
    assert await crashed() == {"shop.pdf"}


async def test_the_recovery_list_shows_what_the_doctor_finds_if_it_is_asked(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('old', 'w-1', 'runner', now() - interval '3 days')"
    )
    assert (await horsies("recovery", "ls", "--json")).json["findings"] == []
    (finding,) = (await horsies("recovery", "ls", "--doctor", "--json")).json["findings"]
    assert (finding["kind"], finding["target_kind"], finding["name"]) == ("database", "database", "retention")
    assert "horsies db prune" in (await horsies("recovery", "ls", "--doctor", "--why")).out


async def test_what_the_recovery_list_says_can_be_typed(connection: asyncpg.Connection) -> None:
    await stuck(connection)
    commands = [
        line.split()[1:] for line in (await horsies("recovery", "ls", "--why")).out.splitlines() if "  horsies " in line
    ]
    assert len(commands) >= 6
    for words in commands:
        assert (await horsies(*words, "--dry-run")).code == 0, words


async def test_a_sweep_by_hand_does_what_a_dry_run_counted(connection: asyncpg.Connection) -> None:
    await stuck(connection)
    counted = (await horsies("recovery", "run", "--dry-run", "--json")).json
    assert (counted["stale_claims"], counted["stale_runs"], counted["overdue"]) == (1, 1, 1)
    assert await statuses(connection) == {"run": "RUNNING", "claim": "CLAIMED", "late": "PENDING", "cut": "FAILED"}
    assert (await horsies("recovery", "run")).code == 1
    done = (await horsies("recovery", "run", "--yes", "--json")).json
    assert (done["requeued"], done["retried"], done["failed"], done["expired"]) == (1, 0, 1, 1)
    assert await statuses(connection) == {"run": "FAILED", "claim": "PENDING", "late": "EXPIRED", "cut": "FAILED"}
    again = await horsies("recovery", "run")
    assert again.code == 0
    assert "nothing to sweep" in again.out


async def test_a_sweep_by_hand_spares_what_may_have_had_no_time_to_beat_and_says_until_when(
    connection: asyncpg.Connection,
) -> None:
    await stuck(connection)
    await connection.execute(
        "INSERT INTO horsies_pulse (beaten_at, gaps)"
        " VALUES (now(), tstzmultirange(tstzrange(now() - interval '2 h', now() - interval '5 s')))"
    )
    would = await horsies("recovery", "run", "--dry-run", "--json")
    assert (would.json["stale_runs"], would.json["spared_runs"], would.json["spared_claims"]) == (0, 1, 1)
    said = await horsies("recovery", "run", "--yes")
    assert said.code == 0
    assert "spared: 1 silent run, 1 silent claim. No worker could store a heartbeat from " in said.words
    assert "`horsies recovery run` after " in said.words
    assert await statuses(connection) == {"run": "RUNNING", "claim": "CLAIMED", "late": "EXPIRED", "cut": "FAILED"}
    assert "that time does not count as silence" in (await horsies("recovery", "ls")).words
    await connection.execute("UPDATE horsies_pulse SET gaps = '{}'")
    assert "1 failed as WORKER_CRASHED" in (await horsies("recovery", "run", "--yes")).words


async def test_a_sweep_by_hand_puts_workflows_right(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status) VALUES ('w-1', 'order', 'RUNNING');"
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, result, completed_at, is_workflow_task)"
        " VALUES ('t-1', 'shop.pay', 'default', 'COMPLETED', '{}', now() - interval '1 min', true);"
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, task_id)"
        " VALUES ('n-1', 'w-1', 0, 'pay', 'shop.pay', 'RUNNING', 't-1')"
    )
    why = (await horsies("recovery", "ls", "--why")).out
    assert "horsies workflows reconcile w-1" in why
    would = (await horsies("recovery", "run", "--dry-run")).out
    assert "1 inconsistent workflow" in would
    said = (await horsies("recovery", "run", "--yes")).out
    assert "2 repairs in 1 workflow" in said
    assert await connection.fetchval("SELECT status FROM horsies_workflows") == "COMPLETED"


async def test_a_sweep_by_hand_keeps_to_the_settings_of_the_newest_worker(connection: asyncpg.Connection) -> None:
    settings = json.dumps({"auto_fail_stale_running": False, "claimed_stale_threshold_ms": 3_600_000})
    await worker(connection, "web-1", recovery_config=f"'{settings}'")
    await stuck(connection)
    done = (await horsies("recovery", "run", "--yes", "--json")).json
    assert done["settings_from"] == "web-1"
    assert (done["requeued"], done["failed"], done["expired"]) == (0, 0, 1)


async def test_the_audit_has_one_line_for_an_operation_and_one_for_each_row_on_demand(
    connection: asyncpg.Connection,
) -> None:
    await failed(connection, "f1", "f2", "f3")
    operation = (await horsies("tasks", "requeue", "--filter", "*", "--yes", "--json", "--reason", "all")).json
    await horsies("tasks", "cancel", "f1", "--yes")
    listed = await horsies("audit", "ls")
    assert len(listed.out.splitlines()) == 3
    assert row_of(listed.out, "requeue")[4:8] == ["requeue", "3", "tasks", "3"]
    each = await horsies("audit", "ls", "--operation", operation["operation_id"][-8:])
    assert len(each.out.splitlines()) == 4
    of_task = (await horsies("audit", "ls", "--task", "f1", "--json")).json
    assert [row["verb"] for row in of_task["actions"]] == ["cancel", "requeue"]
    assert set(of_task["actions"][0]) == {
        *("id", "acted_at", "operation_id", "verb", "target_kind", "target_id", "outcome", "detail", "before_state"),
        *("after_state", "os_user", "os_host", "db_role", "reason", "filter", "undoes", "undone_by"),
    }


async def test_the_audit_is_read_page_by_page(connection: asyncpg.Connection) -> None:
    await failed(connection, "f1", "f2", "f3")
    operation = (await horsies("tasks", "requeue", "--filter", "*", "--yes", "--json")).json["operation_id"]
    first = await horsies("audit", "ls", "--operation", operation, "--limit", "2")
    assert len(first.out.splitlines()) == 3
    more = first.err.split()
    assert more[:4] == ["more:", "horsies", "audit", "ls"]
    rest = await horsies(*more[2:], "--json")
    assert [row["target_id"] for row in rest.json["actions"]] == ["f1"]
    assert rest.json["next"] is None
    await horsies("tasks", "cancel", "f1", "--yes", "--reason", "wrong")
    newest = await horsies("audit", "ls", "--limit", "1")
    assert row_of(newest.out, "wrong")[4:7] == ["cancel", "f1", "1"]
    older = await horsies(*newest.err.split()[2:], "--json")
    assert [(row["operation_id"], row["applied"]) for row in older.json["operations"]] == [(operation, 3)]
    assert (await horsies("audit", "ls", "--after", "yesterday")).code == 2
    assert (await horsies("audit", "ls", "--task", "f1", "--after", "2026-11-18T12:00:00Z")).code == 2
    assert (await horsies("audit", "ls", "--task", "a", "--queue", "b")).code == 2


async def test_operations_are_listed_with_true_totals_by_person_verb_and_time(connection: asyncpg.Connection) -> None:
    await failed(connection, *(f"f{number}" for number in range(60)))
    await horsies("tasks", "requeue", "--filter", "*", "--yes", "--reason", "all")
    await horsies("queues", "pause", "default", "--yes")
    await connection.execute(
        as_written(
            "UPDATE horsies_operator_actions"
            " SET acted_at = acted_at - interval '1 d', os_user = 'ann', os_host = 'laptop' WHERE verb = 'pause'"
        )
    )
    listed = await horsies("audit", "ls")  # 50 lines at most: the 60 rows of the first operation are one
    assert row_of(listed.out, "requeue")[4:9] == ["requeue", "60", "tasks", "60", "applied"]
    role = await connection.fetchval("SELECT current_user")
    assert row_of(listed.out, "ann@laptop")[-2] == role
    whole = (await horsies("audit", "ls", "--json")).json
    assert [(row["verbs"], row["applied"], row["db_role"], row["undone"]) for row in whole["operations"]] == [
        (["requeue"], 60, role, 0),
        (["pause"], 1, role, 0),
    ]
    for words, verbs in (
        (["--by", "ann"], [["pause"]]),
        (["--by", "*@laptop"], [["pause"]]),
        (["--verb", "req*"], [["requeue"]]),
        (["--since", "1h"], [["requeue"]]),
        (["--since", "2d", "--by", "ann", "--verb", "requeue"], []),
    ):
        found = (await horsies("audit", "ls", "--json", *words)).json["operations"]
        assert [row["verbs"] for row in found] == verbs, words
    assert "no such operation is recorded" in (await horsies("audit", "ls", "--by", "eve")).out
    assert (await horsies("audit", "ls", "--since", "yesterday")).code == 2
    assert (await horsies("audit", "ls", "--by", "ann", "--task", "f1")).code == 2


async def test_status_tells_the_cluster_at_a_glance(connection: asyncpg.Connection) -> None:
    await worker(connection, "web-1")
    await stuck(connection)
    await insert(connection, "p")
    said = await horsies("status")
    assert said.code == 0
    assert "in the last 5m00s: 0 completed, 1 failed" in said.out
    assert "1 needs action, " in said.out
    assert "▲ interrupted demo.add: stopped past its grace" in said.out
    assert "● alive" in said.out
    report = (await horsies("status", "--json")).json
    assert set(report) == {
        *("now", "database", "workers", "queues", "ended", "interrupted", "tasks_in_table", "findings", "sweep")
    }
    assert report["interrupted"] == {"number": 1, "at_least": False}


async def test_status_draws_the_last_hour_if_asked(connection: asyncpg.Connection) -> None:
    assert "nothing to draw" in (await horsies("status", "--chart")).out
    await failed(connection, "f", enqueued_at=ago(700), created_at=ago(700))
    await connection.execute("UPDATE horsies_tasks SET failed_at = now() - interval '10 min'")
    said = await horsies("status", "--chart")
    assert all(word in said.out for word in ("ended/s", "failed/s", "waiting", "minutes until now"))
    assert "ended/s" not in (await horsies("status")).out
    told = (await horsies("status", "--chart", "--json")).json
    assert [point["failed"] for point in told["last_hour"] if point["failed"]] == [1]
