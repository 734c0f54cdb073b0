"""The verbs of `horsies tasks`, and `audit undo`: their changes, refusals, exit codes and JSON."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from cli_steps import ago, audited, failed, horsies, insert, running, statuses
from database_server import url_with

pytestmark = pytest.mark.usefixtures("here")


async def test_a_verb_changes_its_task_and_leaves_its_trace(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    said = await horsies("tasks", "requeue", "t", "--yes", "--reason", "because")
    assert said.code == 0, said.err
    assert said.out.startswith("1 ")
    assert await statuses(connection) == {"t": "PENDING"}
    assert await audited(connection) == [("requeue", "t", "applied", "because")]


async def test_a_dry_run_shows_all_and_changes_nothing(connection: asyncpg.Connection) -> None:
    await failed(connection, "f1", "f2")
    await insert(connection, "p")
    said = await horsies("tasks", "requeue", "f1", "f2", "p", "--dry-run")
    assert said.code == 3
    assert "would requeue 2 tasks in " in said.out
    assert "it is already PENDING; retry-now makes it due" in said.out
    assert "runs once more" in said.out
    assert "without --dry-run: horsies tasks requeue f1 f2 p" in said.out
    assert said.err == ""
    assert await audited(connection) == []
    assert (await statuses(connection))["f1"] == "FAILED"


async def test_exit_codes_tell_how_much_was_done(connection: asyncpg.Connection) -> None:
    for words, code in (
        (["f1", "f2"], 0),
        (["f1", "p"], 3),
        (["p"], 3),
        (["nosuch"], 4),
        (["f1", "nosuch"], 3),
        (["--filter", "status:failed"], 0),
        (["--filter", "status:expired"], 4),
        (["--filter", "status:failed,pending"], 3),
    ):
        await connection.execute("DELETE FROM horsies_tasks")
        await failed(connection, "f1", "f2")
        await insert(connection, "p")
        tried = await horsies("tasks", "requeue", *words, "--dry-run")
        done = await horsies("tasks", "requeue", *words, "--yes")
        assert (tried.code, done.code) == (code, code), (words, done.err)


async def test_a_verb_is_told_what_it_is_for(connection: asyncpg.Connection) -> None:
    await insert(connection, "t")
    for words, why in (
        ([], "no task is selected: give ids or --filter"),
        (["t", "--filter", "status:failed"], "give either ids or --filter, not both"),
        (["--filter", " "], "an empty filter matches every task"),
        (["status:failed"], "write a filter as --filter 'status:failed'"),
    ):
        said = await horsies("tasks", "cancel", "--yes", *words)
        assert (said.code, why in said.words) == (2, True), said.words
    assert await statuses(connection) == {"t": "PENDING"}


async def test_without_a_terminal_and_without_yes_nothing_happens(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    for answer in (None, "y\n"):
        said = await horsies("tasks", "requeue", "t", answer=answer)
        assert said.code == 1
        assert "nothing was changed: there is no terminal to confirm it in" in said.err
        assert "--yes" in said.err
        assert said.out == ""
    assert await statuses(connection) == {"t": "FAILED"}


async def test_the_keys_of_an_outcome_in_json_stay(connection: asyncpg.Connection) -> None:
    await failed(connection, "f")
    await insert(connection, "p")
    for words, result in ((["--dry-run"], "eligible"), (["--yes"], "applied")):
        report = (await horsies("tasks", "requeue", "f", "p", "--json", *words)).json
        assert set(report) == {
            *("verb", "database", "dry_run", "operation_id", "filter", "command", "taken_at", "eligible", "applied"),
            *("refused", "not_attempted", "in_doubt", "stopped", "consequences", "undo", "rows"),
        }
        assert [row["result"] for row in report["rows"]] == [result, "refused"]
        assert all(set(row) == {"kind", "id", "name", "state", "result", "detail", "new_id"} for row in report["rows"])
    assert report["undo"] == f"horsies audit undo {report['operation_id']}"


async def test_a_filter_goes_into_the_trail_as_it_was_understood(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    report = (await horsies("tasks", "requeue", "--filter", "status:FAILED   demo", "--yes", "--json")).json
    assert report["filter"] == "status:failed demo"
    assert await connection.fetchval("SELECT filter FROM horsies_operator_actions") == "status:failed demo"


async def test_times_in_a_filter_are_in_utc_and_the_preview_says_so(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all times that commands print."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        await failed(connection, "t")
        begin = await connection.fetchval("SELECT date_trunc('minute', now()) - interval '90 min'")
        await connection.execute("UPDATE horsies_tasks SET created_at = $1::timestamptz + interval '5 min'", begin)
        end = begin + timedelta(minutes=10)
        times = f"since:{begin:%H:%M} until:{end:%H:%M}"
        said = await horsies("tasks", "requeue", "--filter", times, "--dry-run")
        meant = f"since:{begin:%Y-%m-%dT%H:%M}:00Z until:{end:%Y-%m-%dT%H:%M}:00Z"
        assert "would requeue 1 task" in said.out
        assert f"filter: {meant}" in said.out
        listed = await horsies("tasks", "ls", times, "--json")
        assert [row["id"] for row in listed.json["tasks"]] == ["t"]
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_a_preview_shows_each_edited_argument_before_and_after(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    config(tmp_path, 'mask_arguments = ["iban"]')
    stored = '{"amount": "19,90", "iban": "DE1", "order": {"lines": [1, 2], "vip": true}, "note": "same"}'
    await failed(connection, "t", kwargs=f"'{stored}'")
    edited = '{"amount": ".,90", "iban": "DE2", "order": {"lines": [1, 3]}, "note": "same", "new": null}'
    said = await horsies("tasks", "rerun", "t", "--kwargs", edited, "--dry-run")
    assert said.code == 0, said.err
    lines = [line.strip() for line in said.out.splitlines()]
    assert [line for line in lines if "→" in line] == [
        'amount  "19,90" → ".,90"',
        "iban  *** → ***",
        "order.lines[1]  2 → 3",
        "order.vip  true → absent",
        "new  absent → null",
    ]


async def test_a_preview_counts_names_and_states_and_says_an_effect_once(connection: asyncpg.Connection) -> None:
    for name in ("one", "two"):
        await failed(connection, *(f"{name}-{number}" for number in range(15)), task_name=f"'shop.{name}'")
    said = await horsies("tasks", "requeue", "--filter", "status:failed", "--dry-run")
    assert "15  shop.one  FAILED BROKE" in said.out
    assert "15  shop.two  FAILED BROKE" in said.out
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status) SELECT 'w' || n, 'month_end', 'RUNNING'"
        " FROM generate_series(1, 3) n"
    )
    paused = await horsies("workflows", "pause", "w1", "w2", "w3", "--dry-run", "--json")
    (effect,) = paused.json["consequences"]
    assert effect.startswith("month_end: ")
    assert effect.endswith(" (3 alike)")


async def test_a_dry_run_of_an_undo_holds_nothing_and_an_undo_releases_what_it_did_not_take_back(
    connection: asyncpg.Connection,
) -> None:
    await failed(connection, "f1", "f2")
    outcome = (await horsies("tasks", "requeue", "f1", "f2", "--yes", "--reason", "all well", "--json")).json
    before = await connection.fetch("SELECT * FROM horsies_tasks ORDER BY id")
    seen = await horsies(*outcome["undo"].split()[1:], "--dry-run")
    assert "requeue of 2 tasks · 0s ago" in seen.out
    assert '"all well"' in seen.out
    assert "held" not in seen.out
    refused = await horsies(*outcome["undo"].split()[1:])
    assert "there is no terminal to confirm it in" in refused.err
    assert "2 tasks held: no worker starts them before you decide" in refused.err
    after = await connection.fetch("SELECT * FROM horsies_tasks ORDER BY id")
    assert [{**row, "updated_at": None} for row in after] == [{**row, "updated_at": None} for row in before]


async def test_an_undo_finds_its_operation_by_the_end_of_its_id(connection: asyncpg.Connection) -> None:
    await insert(connection, "t")
    operation = (await horsies("tasks", "cancel", "t", "--yes", "--json")).json["operation_id"]
    seen = await horsies("audit", "undo", f"…{operation[-8:]}", "--dry-run")
    assert seen.code == 0
    assert "would undo 1 task" in seen.out
    assert await statuses(connection) == {"t": "CANCELLED"}
    assert (await horsies("audit", "undo", operation[-8:], "--yes")).code == 0
    assert await statuses(connection) == {"t": "PENDING"}


async def test_read_only_refuses_before_anything_is_tried_and_a_context_by_its_name(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even before a connection: no server listens on the port."""
    config(tmp_path, f'[contexts.mirror]\nurl = "{database}"\nread_only = true\n')
    nowhere = "postgresql://ops:hunter2@127.0.0.1:1/app"
    for words in (
        *(["tasks", "cancel", "t"], ["queues", "pause", "default"], ["workers", "drain", "w"], ["audit", "undo", "x"]),
        ["recovery", "run"],
    ):
        by_context = await horsies(*words, "--yes", "--context", "mirror")
        assert (by_context.code, "context 'mirror' is read-only" in by_context.err) == (1, True)
        with monkeypatch.context() as environment:
            environment.setenv("HORSIES_DATABASE_URL", nowhere)
            by_option = await horsies(*words, "--yes", "--read-only")
            environment.setenv("HORSIES_READ_ONLY", "1")
            by_environment = await horsies(*words, "--yes")
        for said in (by_option, by_environment):
            assert (said.code, "--read-only was given" in said.err) == (1, True)
            assert "hunter2" not in said.err


async def test_read_only_sessions_still_look(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    said = await horsies("tasks", "requeue", "t", "--dry-run", "--read-only")
    assert said.code == 0, said.err
    assert "would requeue 1 task" in said.out


async def test_a_role_that_may_only_read_is_told_what_it_lacks(
    connection: asyncpg.Connection, database: str, role: str
) -> None:
    await insert(connection, "t", good_until=ago(5))
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    url = url_with(database, role=role)
    for words in (["tasks", "cancel", "t"], ["queues", "pause", "default"], ["recovery", "run"]):
        said = await horsies(*words, "--yes", "--database-url", url)
        assert said.code == 1
        assert f"the role {role} lacks UPDATE ON horsies_tasks" in said.err
    assert (await horsies("tasks", "ls", "--database-url", url)).code == 0
    assert (await horsies("tasks", "cancel", "t", "--dry-run", "--database-url", url)).code == 0
    assert await statuses(connection) == {"t": "PENDING"}


async def test_a_production_context_without_a_terminal_is_only_written_with_yes(
    connection: asyncpg.Connection, database: str, tmp_path: Path
) -> None:
    await failed(connection, "t")
    config(tmp_path, f'[contexts.prod]\nurl = "{database}"\nproduction = true\n')
    assert (await horsies("tasks", "requeue", "t", "--context", "prod")).code == 1
    assert (await horsies("tasks", "requeue", "t", "--context", "prod", "--yes")).code == 0


async def test_many_rows_are_told_by_kind_and_refusals_by_reason(connection: asyncpg.Connection) -> None:
    await failed(connection, *(f"f{number}" for number in range(30)))
    await insert(connection, *(f"p{number}" for number in range(12)))
    preview = await horsies("tasks", "requeue", "--filter", "*", "--dry-run")
    assert "30  demo.add  FAILED BROKE" in preview.out
    assert "12 × it is already PENDING" in preview.out
    assert "and 7 more" in preview.out
    assert len(preview.out.splitlines()) < 10
    outcome = await horsies("tasks", "requeue", "--filter", "*", "--yes")
    assert outcome.code == 3
    assert "30 requeued, 12 refused" in outcome.out
    assert "each row: horsies audit ls --operation" in outcome.out


def config(tmp_path: Path, text: str) -> None:
    (tmp_path / "horsies").mkdir()
    (tmp_path / "horsies" / "config.toml").write_text(text)


async def test_no_way_back_is_promised_for_a_run_that_was_taken_away(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    told = await horsies("tasks", "cancel", "t", "--yes")
    assert told.code == 0
    assert "audit undo" not in told.out
