"""The effect of each operator verb on the row, its attempts, its audit row and the notifications."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from lifecycle_steps import ME, Ear, attempts, claim_some, claim_tokens, ended, enqueue, listening, running, task
from operation_steps import GIVEN, OPS, POLICY, act, audit, completed, done, failed, in_state, look, named, undo

from horsies.domain.codec import dump_task_result
from horsies.domain.states import TaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.operations.pipeline import apply
from horsies.operations.verb import TaskVerb
from horsies.operations.verbs import verbs_for
from horsies.store.reading import read_outcomes

V = named("task")
ALLOWED = {
    V.REQUEUE: {"CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"},
    V.FAIL: {"PENDING", "CLAIMED", "RUNNING"},
    V.CANCEL: {"PENDING", "CLAIMED", "RUNNING"},
    V.RETRY_NOW: set(),  # PENDING, but here it is due
    V.RELEASE: {"CLAIMED"},
    V.RERUN: {"COMPLETED", "FAILED", "CANCELLED", "EXPIRED"},
    V.EXPIRE: set(),  # PENDING, but here without good_until
}


def picked(row: dict[str, Any], names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names.split())


@pytest.fixture
async def heard(database: str, connection: asyncpg.Connection) -> AsyncIterator[Ear]:
    channels = ("horsies_operator", "task_queue_default", "task_queue_mail", "task_done")
    async with listening(database, connection, *channels) as ear:
        yield ear


@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize("verb", verbs_for("task"), ids=str)
async def test_a_verb_takes_what_the_table_of_states_allows_and_refuses_the_rest_with_words(
    connection: asyncpg.Connection, verb: TaskVerb, status: TaskStatus
) -> None:
    await in_state(connection, status.value, "t")
    given = GIVEN.get(verb.name, {})
    seen = await look(connection, verb, "t", **given)
    assert len(seen.eligible) == (status.value in ALLOWED.get(verb, verb.sources))
    assert len(seen.refused) == 1 - len(seen.eligible)
    for refusal in seen.refused:
        assert status.value in refusal.reason or "due" in refusal.reason or "good_until" in refusal.reason
    outcome = await act(connection, verb, "t", **given)
    assert len(outcome.applied) == len(seen.eligible)
    assert len(await audit(connection)) == len(seen.eligible)


async def test_an_id_without_a_row_and_a_foreign_status_are_refused(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "odd", status="'ON_HOLD'")
    seen = await look(connection, V.FAIL, "gone", "odd")
    assert {refusal.target.id: refusal.reason for refusal in seen.refused} == {
        "gone": "no task has this id",
        "odd": "horsies does not know its status 'ON_HOLD'",
    }


async def test_a_requeued_failure_gets_exactly_one_more_run(connection: asyncpg.Connection, heard: Ear) -> None:
    await failed(connection, "t", max_retries="3", task_options=f"'{POLICY}'")
    await done(connection, V.REQUEUE, "t")
    row = await task(connection, "t")
    assert picked(row, "status retry_count max_retries") == ("PENDING", 1, 1)
    cleared = "result error_code failed_reason failed_at claimed_by_worker_id claimed_at started_at worker_pid"
    assert set(picked(row, cleared)) == {None}
    (token,) = [claimed.token for claimed in await claim_some(connection)]
    await connection.execute("UPDATE horsies_tasks SET status = 'RUNNING', claimed = false")
    finished = await finish(connection, ME, [ended(token, OutcomeKind.RETRY)])
    assert finished[token].status is TaskStatus.FAILED  # no retry is left
    assert [one["attempt"] for one in await attempts(connection, "t")] == [1, 2]
    assert ("task_queue_default", "requeue") in await heard.all()


async def test_a_fresh_budget_grants_the_retries_of_the_policy_anew(connection: asyncpg.Connection) -> None:
    await failed(connection, "with", max_retries="3", task_options=f"'{POLICY}'")
    await failed(connection, "without")
    await failed(connection, "unreadable", task_options="'{'")
    await done(connection, V.REQUEUE, "with", "without", "unreadable", fresh_budget=True)
    budgets = {name: picked(await task(connection, name), "retry_count max_retries") for name in ("with", "without")}
    assert budgets == {"with": (1, 4), "without": (1, 1)}
    assert picked(await task(connection, "unreadable"), "retry_count max_retries") == (1, 1)


async def test_what_had_not_begun_to_run_keeps_its_budget_when_requeued(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", max_retries="3")
    await done(connection, V.CANCEL, "t")
    await done(connection, V.REQUEUE, "t")
    assert picked(await task(connection, "t"), "status retry_count max_retries") == ("PENDING", 0, 3)


async def test_a_task_cancelled_between_two_tries_goes_on_with_the_next(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t", max_retries="3")
    await finish(connection, ME, [ended(token, OutcomeKind.RETRY, retry_delay_s=3600.0)])
    await done(connection, V.CANCEL, "t")
    await done(connection, V.REQUEUE, "t")
    row = await task(connection, "t")
    assert picked(row, "status retry_count max_retries next_retry_at") == ("PENDING", 1, 3, None)
    (again,) = await claim_tokens(connection)
    assert again.task_id == "t"


async def test_a_running_task_is_taken_away_with_an_attempt_and_its_worker_is_told(
    connection: asyncpg.Connection, heard: Ear
) -> None:
    (token,) = await running(connection, "t", max_retries="3", enqueued_at="now() - interval '70 s'")
    await done(connection, V.REQUEUE, "t", reason="stuck on a lock")
    row = await task(connection, "t")
    assert picked(row, "status retry_count max_retries") == ("PENDING", 1, 1)
    (attempt,) = await attempts(connection, "t")
    assert picked(attempt, "attempt outcome will_retry error_code error_message worker_id worker_pid") == (
        *(1, "WORKER_FAILURE", True, "OPERATOR_REQUEUED"),
        *("requeued by hand by ops@bastion: stuck on a lock", ME, 4242),
    )
    assert token.claimed_at <= attempt["started_at"] < attempt["finished_at"]
    assert round(attempt["waited_ms"], -4) == 70_000
    assert await heard.all() == [
        ("horsies_operator", ME),
        ("task_queue_default", "requeue"),
        ("task_queue_default", "t"),
    ]


@pytest.mark.parametrize("verb", [V.REQUEUE, V.RELEASE])
async def test_a_claim_is_given_back_without_burning_anything(
    connection: asyncpg.Connection, heard: Ear, verb: TaskVerb
) -> None:
    await enqueue(connection, "t", max_retries="3", enqueued_at="now() - interval '1 min'")
    before = await task(connection, "t")
    await claim_tokens(connection)
    await done(connection, verb, "t")
    changed = {name for name, value in (await task(connection, "t")).items() if value != before[name]}
    assert changed == {"updated_at"}
    assert await attempts(connection, "t") == []
    assert ("horsies_operator", ME) in await heard.all()


@pytest.mark.parametrize(
    ("verb", "status", "code", "attempt_code", "word"),
    [
        (V.FAIL, "FAILED", "OPERATOR_FAILED", "OPERATOR_FAILED", "failed"),
        (V.CANCEL, "CANCELLED", "TASK_CANCELLED", "OPERATOR_CANCELLED", "cancelled"),
    ],
)
async def test_fail_and_cancel_end_pending_claimed_and_running_tasks(
    connection: asyncpg.Connection, heard: Ear, verb: TaskVerb, status: str, code: str, attempt_code: str, word: str
) -> None:
    await running(connection, "r")
    await connection.execute("UPDATE horsies_tasks SET queue_name = 'mail'")
    await enqueue(connection, "c")
    await claim_tokens(connection)
    await enqueue(connection, "p")
    await done(connection, verb, "p", "c", "r", reason="wrong address")
    words = f"{word} by hand by ops@bastion: wrong address"
    for name in "pcr":
        row = await task(connection, name)
        expected = (status, code, words, False, None)
        assert picked(row, "status error_code failed_reason claimed claim_expires_at") == expected
        assert row["failed_at"] is not None
    read = await read_outcomes(connection, ["p", "c", "r"])
    assert {str(outcome.result().err_value.error_code) for outcome in read.values()} == {code}
    assert all("wrong address" in str(outcome.result().err_value.message) for outcome in read.values())
    (attempt,) = await attempts(connection, "r")
    assert picked(attempt, "attempt outcome will_retry error_code") == (1, "WORKER_FAILURE", False, attempt_code)
    assert await attempts(connection, "p") == await attempts(connection, "c") == []
    got = await heard.all()
    assert got.count(("horsies_operator", ME)) == 1
    assert {
        ("task_queue_mail", "capacity:operator"),
        ("task_queue_default", "capacity:operator"),
        ("task_done", "p"),
    } <= set(got)


async def interrupted(conn: asyncpg.Connection, *ids: str) -> None:
    """Tasks that were interrupted by a shutdown and wait for a decision."""
    await failed(conn, *ids)
    stored = dump_task_result(TaskResult(err=TaskError(error_code="TASK_INTERRUPTED", message="stopped")))
    await conn.execute(
        "UPDATE horsies_tasks SET error_code = 'TASK_INTERRUPTED', result = $1 WHERE id = ANY ($2)", stored, list(ids)
    )


async def test_what_was_interrupted_can_be_accepted_as_failed_and_that_taken_back(
    connection: asyncpg.Connection,
) -> None:
    await interrupted(connection, "t")
    before, history = await task(connection, "t"), await attempts(connection, "t")
    seen = await look(connection, V.FAIL, "t")
    assert seen.consequences[0] == "1 interrupted: accepted as failed, they do not run again"
    outcome = await done(connection, V.FAIL, "t", reason="not needed any more")
    row = await task(connection, "t")
    words = "failed by hand by ops@bastion: not needed any more"
    assert picked(row, "status error_code failed_reason") == ("FAILED", "OPERATOR_FAILED", words)
    changed = {name for name, value in row.items() if value != before[name]}
    assert changed == {"result", "error_code", "failed_reason", "updated_at"}
    (read,) = (await read_outcomes(connection, ["t"])).values()
    assert str(read.result().err_value.error_code) == "OPERATOR_FAILED"
    assert await attempts(connection, "t") == history
    (trace,) = await audit(connection)
    assert picked(trace["before_state"], "status error_code") == ("FAILED", "TASK_INTERRUPTED")

    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert [one.target.id for one in undone.applied] == ["t"]
    assert {**await task(connection, "t"), "updated_at": None} == {**before, "updated_at": None}


async def test_an_interrupted_task_is_accepted_as_failed_once(connection: asyncpg.Connection) -> None:
    await interrupted(connection, "t")
    seen = await look(connection, V.FAIL, "t")
    await done(connection, V.FAIL, "t")
    (second,) = (await apply(connection, seen, OPS, None)).refused
    assert second.detail == "it is FAILED now, try 1"
    assert [refusal.reason for refusal in (await look(connection, V.FAIL, "t")).refused] == ["it is already FAILED"]
    assert "result" not in (await audit(connection))[-1]["before_state"]


async def test_words_that_the_database_would_refuse_do_not_stop_a_verb(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    await done(connection, V.FAIL, "t", reason="a\0b \udcff")
    assert (await audit(connection))[0]["reason"] == "ab \N{REPLACEMENT CHARACTER}"
    assert (await task(connection, "t"))[
        "failed_reason"
    ] == "failed by hand by ops@bastion: ab \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("column", ["enqueued_at", "next_retry_at"])
async def test_retry_now_makes_a_waiting_task_due_and_wakes_workers(
    connection: asyncpg.Connection, heard: Ear, column: str
) -> None:
    await enqueue(connection, "t", **{column: "now() + interval '1 h'"})
    await enqueue(connection, "due")
    seen = await look(connection, V.RETRY_NOW, "t", "due")
    assert [refusal.reason for refusal in seen.refused] == ["it is due already and waits for a worker"]
    await done(connection, V.RETRY_NOW, "t")
    assert {token.task_id for token in await claim_tokens(connection)} == {"t", "due"}
    assert (await task(connection, "t"))["next_retry_at"] is None or column == "next_retry_at"
    assert ("task_queue_default", "retry") in await heard.all()


async def test_expire_ends_what_is_past_its_deadline_and_nothing_else(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "late", good_until="now() - interval '1 s'")
    await enqueue(connection, "early", good_until="now() + interval '1 h'")
    seen = await look(connection, V.EXPIRE, "late", "early")
    assert [refusal.target.id for refusal in seen.refused] == ["early"]
    await done(connection, V.EXPIRE, "late")
    assert picked(await task(connection, "late"), "status error_code") == ("EXPIRED", "TASK_EXPIRED")


async def test_a_requeue_drops_a_deadline_that_has_passed_and_keeps_one_ahead(connection: asyncpg.Connection) -> None:
    await in_state(connection, "EXPIRED", "late")
    await failed(connection, "early", good_until="now() + interval '1 h'")
    seen = await look(connection, V.REQUEUE, "late", "early")
    assert "1 past the deadline, which is removed so that workers start them" in seen.consequences
    await done(connection, V.REQUEUE, "late", "early")
    assert (await task(connection, "late"))["good_until"] is None
    assert (await task(connection, "early"))["good_until"] is not None
    assert len(await claim_tokens(connection)) == 2


async def test_the_audit_row_says_who_what_why_and_what_was(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    outcome = await done(connection, V.REQUEUE, "t", reason="rate limit lifted")
    (row,) = await audit(connection)
    assert row["operation_id"] == outcome.operation_id
    assert picked(row, "verb target_kind target_id outcome os_user os_host reason filter undoes") == (
        *("requeue", "task", "t", "applied", "ops", "bastion", "rate limit lifted", None, None),
    )
    assert row["db_role"] == await connection.fetchval("SELECT current_user")
    assert picked(row["before_state"], "status error_code result retry_count") == ("FAILED", "BROKE", '{"err":1}', 0)
    assert picked(row["after_state"], "status retry_count max_retries") == ("PENDING", 1, 1)


async def test_a_preview_changes_nothing_and_tells_states_and_consequences(connection: asyncpg.Connection) -> None:
    await running(connection, "r")
    await completed(connection, "c")
    await failed(connection, "f")
    before = [await task(connection, name) for name in "rcf"]
    seen = await look(connection, V.REQUEUE, "r", "c", "f")
    assert before == [await task(connection, name) for name in "rcf"]
    assert [target.state for target in seen.eligible] == ["RUNNING", "COMPLETED", "FAILED BROKE"]
    assert [target.label for target in seen.eligible] == ["demo.add"] * 3
    text = "\n".join(seen.consequences)
    assert "1 RUNNING: taken from the worker" in text
    assert "1 COMPLETED: they run again" in text
    assert "runs once more" in text
    assert seen.command == "horsies tasks requeue r c f"
    assert abs(seen.taken_at - await connection.fetchval("SELECT now()")) < timedelta(minutes=1)
    assert await audit(connection) == []


async def test_an_outcome_that_waits_to_be_stored_is_told_before_it_is_thrown_away(
    connection: asyncpg.Connection,
) -> None:
    await running(connection, "r")
    await connection.execute("UPDATE horsies_tasks SET finalizing_at = now()")
    assert any(
        "not stored yet, will be discarded" in line for line in (await look(connection, V.FAIL, "r")).consequences
    )


async def test_workflow_tasks_say_what_their_workflow_will_see(connection: asyncpg.Connection) -> None:
    await failed(connection, "a", "b", "c", is_workflow_task="true")
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status)"
        " VALUES ('w1', 'month_end', 'RUNNING'), ('w2', 'old', 'CANCELLED')"
    )
    await connection.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id) VALUES"
        " ('n1', 'w1', 0, 'demo.add', 'FAILED', 'a'), ('n2', 'w1', 1, 'demo.add', 'FAILED', 'b'),"
        " ('n3', 'w2', 0, 'demo.add', 'FAILED', 'c')"
    )
    seen = await look(connection, V.REQUEUE, "a", "b", "c")
    assert [refusal.reason for refusal in seen.refused] == ["its workflow old is CANCELLED"]
    assert any(line.startswith("2 in workflows (month_end): ") for line in seen.consequences)


async def test_the_line_for_a_shell_survives_any_filter(connection: asyncpg.Connection) -> None:
    await failed(connection, "it's", args="'[1]'")
    seen = await look(connection, V.RERUN, "it's", args='["a b"]')
    assert seen.command == """horsies tasks rerun 'it'"'"'s' --args '["a b"]'"""
    assert OPS.os_user == "ops"
    assert json.loads(seen.options["args"]) == ["a b"]


async def with_the_largest_count(conn: asyncpg.Connection, status: str, task_id: str, *numbers: int) -> None:
    await in_state(conn, status, task_id)
    await conn.execute("UPDATE horsies_tasks SET retry_count = 2147483647 WHERE id = $1", task_id)
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT $1, number, 'FAILED', now(), now() FROM unnest($2::integer[]) AS number ON CONFLICT DO NOTHING",
        task_id,
        list(numbers),
    )


@pytest.mark.parametrize("verb", ALLOWED, ids=lambda verb: verb.name)
async def test_a_task_with_the_largest_number_of_retries_can_be_changed(
    connection: asyncpg.Connection, verb: TaskVerb
) -> None:
    for status in ALLOWED[verb]:
        for number, used in enumerate(((), (2_147_483_647,), (-2_147_483_648, 2_147_483_647, 2_147_483_646))):
            task_id = f"{status}-{number}".lower()
            await with_the_largest_count(connection, status, task_id, *used)
            outcome = await done(connection, verb, task_id, **GIVEN.get(verb, {}))
            assert outcome.applied, outcome
