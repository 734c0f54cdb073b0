"""`horsies tasks ls` and `show`: pages, filters, details, and no stored text that acts on a terminal."""

from __future__ import annotations

import shlex
from pathlib import Path

import asyncpg
import pytest
from cli_steps import POLICY, ago, failed, horsies, insert, running

from horsies.cli.tasks.commands import StatisticsOrder, TaskOrder
from horsies.domain.ids import new_task_id
from horsies.views import Sort, StatisticsSort, statistics

pytestmark = pytest.mark.usefixtures("here")

UPSTREAM = Path(__file__).parent.parent / "sql" / "upstream_shape.sql"


async def names(*words: str) -> list[str]:
    listed = await horsies("tasks", "ls", "--json", *words)
    assert listed.code == 0, listed.err
    return [task["id"] for task in listed.json["tasks"]]


def test_the_orders_are_those_of_the_views() -> None:
    assert [order.value for order in TaskOrder] == [sort.value for sort in Sort]
    assert [order.value for order in StatisticsOrder] == [sort.value for sort in StatisticsSort]


async def test_a_list_has_the_newest_first_and_says_where_it_goes_on(connection: asyncpg.Connection) -> None:
    for number in range(5):
        await insert(connection, f"t{number}", created_at=ago(100 - number))
    seen: list[str] = []
    after: list[str] = []
    while True:
        page = (await horsies("tasks", "ls", "--json", "--limit", "2", *after)).json
        seen += [task["id"] for task in page["tasks"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == ["t4", "t3", "t2", "t1", "t0"]
    shown = await horsies("tasks", "ls", "--limit", "2")
    assert "more: horsies tasks ls --after newest/0/" in shown.err
    last = await horsies("tasks", "ls", "--after", shown.err.split()[-1], "--limit", "9")
    assert [line.split()[2] for line in last.out.splitlines()[1:]] == ["t2", "t1", "t0"]


async def test_the_next_page_keeps_filter_and_order(connection: asyncpg.Connection) -> None:
    await insert(connection, "a", "b", "c", queue_name="'my mail'", priority="number")
    first = await horsies("tasks", "ls", "--limit", "1", "--sort", "waiting", "--filter", 'queue:"my mail"')
    assert first.out.splitlines()[1].split()[2] == "a"
    assert "--filter 'queue:\"my mail\"' --after waiting/1/" in first.err
    assert await names("--after", first.err.split()[-1]) == ["b", "c"]


async def test_words_are_a_filter_as_well(connection: asyncpg.Connection) -> None:
    await failed(connection, "f1", "f2")
    await insert(connection, "p")
    await failed(connection, "f3", code="OTHER")
    assert sorted(await names("status:failed", "error:BROKE")) == ["f1", "f2"]
    assert await names("--filter", "status:failed", "error:OTHER") == ["f3"]


async def test_an_empty_list_says_why_and_what_next() -> None:
    for words, named in (
        (["--sort", "waiting"], "no task is waiting"),
        (["status:failed"], "no task matches status:failed"),
        ([], "no task has been sent to this database yet"),
    ):
        said = await horsies("tasks", "ls", *words)
        assert (said.code, named in said.err) == (0, True)
        assert len(said.err.splitlines()) <= 2


async def test_the_keys_of_a_task_in_json_stay(connection: asyncpg.Connection) -> None:
    await insert(connection, "t")
    report = (await horsies("tasks", "ls", "--json")).json
    assert set(report) == {"now", "filter", "sort", "tasks", "next"}
    assert set(report["tasks"][0]) == {
        *(
            "id",
            "name",
            "queue",
            "priority",
            "status",
            "state",
            "created_at",
            "sent_at",
            "enqueued_at",
            "next_retry_at",
        ),
        *("good_until", "claimed_at", "claim_expires_at", "started_at", "finalizing_at", "finished_at", "retry_count"),
        *("max_retries", "worker_id", "worker_hostname", "worker_pid", "worker_process_name", "error_code"),
        *(
            "is_workflow_task",
            "unique_key",
            "rerun_of",
            "beat_at",
            "error_message",
            "attempt",
            "attempts_allowed",
            "due_at",
            "age_s",
        ),
        *("wait_s", "run_s", "progress", "duplicates", "duplicate_at"),
    }
    assert report["now"].endswith("Z")


async def test_a_typo_in_a_filter_is_pointed_at() -> None:
    for text, pointed, suggested in (
        ("statsu:failed", "^^^^^^", "did you mean status?"),
        ("status:faild", "^^^^^", "did you mean failed?"),
        ("queue:x since:tomorrow", "^^^^^^^^", "is not a duration"),
    ):
        for verb in (["ls"], ["requeue", "--yes"]):
            said = await horsies("tasks", *verb, "--filter", text)
            assert (said.code, said.out) == (2, "")
            note = said.err.splitlines()[1:3]
            assert note[0].endswith(text)
            assert note[1].strip().split()[0] == pointed
            assert note[1].index("^") - note[0].index(text) == text.index(said.err.split("'")[1])
            assert suggested in said.err


async def test_the_language_of_filters_explains_itself() -> None:
    said = await horsies("tasks", "ls", "--filter-help")
    assert said.code == 0
    for key in ("status", "queue", "since", "tries", "args"):
        assert f"\n{key} " in said.out


async def test_what_is_no_cursor_of_this_order_is_a_usage_error() -> None:
    newest = "newest/0/2026-01-01T00:00:00Z"
    for after in ("x", "newest/0/2026-01-01/t", newest, "oddest/0/2026-01-01T00:00:00Z/t"):
        said = await horsies("tasks", "ls", "--after", after)
        assert (said.code, "is not a cursor" in said.words) == (2, True)
    said = await horsies("tasks", "ls", "--after", f"{newest}/t", "--sort", "oldest")
    assert (said.code, "the cursor belongs to --sort newest" in said.words) == (2, True)


async def story(connection: asyncpg.Connection, task_id: str = "t", **columns: str) -> str:
    """A task that failed in its second attempt."""
    given = {
        "args": """'[7, "eu"]'""",
        "kwargs": """'{"password": "hunter2", "deep": [{"PassWord": "hunter3"}]}'""",
        "result": """'{"__task_result__": true, "ok": null, "err": {"__task_error__": true, "error_code": "BROKE",
                       "message": "it broke", "data": {"password": "hunter4"}}}'""",
        "task_options": f"'{POLICY}'",
        "retry_count": "1",
        "max_retries": "3",
        "created_at": ago(200),
        "sent_at": ago(200),
        **columns,
    }
    await failed(connection, task_id, **given)
    for attempt, start, end in ((1, 190, 180), (2, 62, 60)):
        await connection.execute(
            "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at,"
            " error_code, error_message, worker_hostname, worker_pid)"
            f" VALUES ($1, $2, 'FAILED', $3, {ago(start)}, {ago(end)}, 'BROKE', 'it broke', 'web-1', 42)",
            task_id,
            attempt,
            attempt == 1,
        )
    return task_id


async def test_a_story_has_attempts_with_what_they_waited_and_ran_and_in_which_version(
    connection: asyncpg.Connection,
) -> None:
    await story(connection)
    said = await horsies("tasks", "show", "t")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "✗ failed BROKE  demo.add  t"
    assert "try 2 of 4" in lines[1]
    first, second = [line.split() for line in lines if "web-1:42" in line]
    assert first[:3] == ["1", "10s", "10s"]
    assert "tried again" in " ".join(first)
    assert second[:2] == ["2", "1m58s"]
    assert '"err": TaskError {' in said.out
    report = (await horsies("tasks", "show", "t", "--json")).json
    assert set(report) == {
        *("now", "task", "args", "kwargs", "options", "result", "failed_reason", "attempts", "earlier_attempts"),
        *("executions", "usual", "why", "audit", "reruns", "workflow"),
    }
    assert [attempt["attempt"] for attempt in report["attempts"]] == [1, 2]
    assert report["why"] is None
    await connection.execute(
        "UPDATE horsies_task_attempts SET worker_id = 'web-' || attempt;"
        "INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,"
        "    queues, worker_started_at, app_version)"
        " SELECT 'web-' || n, 'web', n, 1, 1, 1, '{q}', now(), '1.' || n FROM generate_series(2, 3) n"
    )
    report = (await horsies("tasks", "show", "t", "--json")).json
    assert [attempt["app_version"] for attempt in report["attempts"]] == [None, "1.2"]
    assert "version 1.2" in (await horsies("tasks", "show", "t")).out
    # Masked names are hidden at any depth in both forms.
    assert (await horsies("tasks", "show", "t")).out.count("hunter") == 3
    for form in ([], ["--json"]):
        said = await horsies("tasks", "show", "t", "--mask", "password", *form)
        assert "hunter" not in said.out
        assert said.out.count('"***"') == 3
        assert "eu" in said.out
    hidden = await horsies("tasks", "show", "t", "--mask", "args", "--json")
    assert hidden.json["args"] == "***"


async def test_the_config_file_masks_for_everybody(connection: asyncpg.Connection, tmp_path: Path) -> None:
    (tmp_path / "horsies").mkdir()
    (tmp_path / "horsies" / "config.toml").write_text('mask_arguments = ["pass*"]\n')
    await story(connection)
    await horsies("tasks", "requeue", "t", "--yes")
    for words in (["tasks", "show", "t"], ["tasks", "show", "t", "--json"], ["audit", "ls", "--task", "t", "--json"]):
        said = await horsies(*words)
        assert said.code == 0, said.err
        assert "hunter" not in said.out
        assert "***" in said.out


async def test_large_arguments_are_cut_for_people_and_whole_for_machines(connection: asyncpg.Connection) -> None:
    await story(connection, args="""'["' || repeat('x', 300000) || '"]'""")
    said = await horsies("tasks", "show", "t")
    assert "… cut: 300,004 bytes are stored, --json prints all" in said.out
    assert (await horsies("tasks", "show", "t", "--json")).json["args"] == ["x" * 300_000]


async def test_a_running_task_shows_its_beats_and_where_it_is(connection: asyncpg.Connection) -> None:
    await running(connection, "t", seconds=100, worker_hostname="'web-1'", worker_pid="42")
    await connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT 't', 'w-1:42', 'runner', now() - n * interval '30 s' FROM generate_series(1, 3) n"
    )
    said = (await horsies("tasks", "show", "t")).out
    assert "runner  ♥♥♥ 3, every 30s, the last 30s ago" in said
    assert "sent by w-1:42" in said
    assert "▶ running" in said


async def test_a_waiting_task_says_why_it_waits(connection: asyncpg.Connection) -> None:
    await insert(connection, "t")
    said = await horsies("tasks", "show", "t")
    assert "why it waits\n  no living worker serves queue default" in said.out
    (reason,) = (await horsies("tasks", "show", "t", "--json")).json["why"]
    assert reason["kind"] == "no worker"


async def test_what_was_done_by_hand_and_what_it_became_are_told(connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    again = (await horsies("tasks", "rerun", "t", "--yes", "--json", "--reason", "once more")).json["rows"][0]["new_id"]
    original = (await horsies("tasks", "show", "t")).out
    assert "rerun by" in original
    assert '"once more"' in original
    assert f"rerun as   {again}" in original
    assert "rerun of   t\n" in (await horsies("tasks", "show", again)).out


async def test_a_part_of_an_id_is_enough_where_it_fits_one(connection: asyncpg.Connection) -> None:
    one, other = new_task_id(), new_task_id()
    await insert(connection, one, other)
    for text in (one[-8:], f"…{one[-8:]}", one):
        assert (await horsies("tasks", "show", text, "--json")).json["task"]["id"] == one
    several = await horsies("tasks", "show", one[:8])
    assert several.code == 1
    assert "several tasks begin or end with" in several.err
    assert one in several.err
    assert other in several.err
    for verb in ("show", "cancel"):
        missing = await horsies("tasks", verb, "nosuchid")
        assert missing.code == 4


async def test_a_database_without_our_tables_or_made_by_upstream_says_which_command_makes_them(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORSIES_DATABASE_URL", empty_database)
    for words in (["tasks", "ls"], ["status"], ["queues", "pause", "q", "--yes"]):
        said = await horsies(*words)
        assert (said.code, "horsies db init" in said.err) == (1, True), said.err
    connection = await asyncpg.connect(empty_database)
    await connection.execute(UPSTREAM.read_text())
    await connection.close()
    for words in (
        *(["tasks", "requeue", "x", "--yes"], ["tasks", "cancel", "x", "--dry-run"], ["queues", "pause", "q", "--yes"]),
        *(["workers", "drain", "w", "--yes"], ["audit", "undo", new_task_id(), "--yes"], ["recovery", "run", "--yes"]),
    ):
        said = await horsies(*words)
        assert (said.code, "horsies db upgrade" in said.err) == (1, True), said.err


async def test_statistics_have_a_line_for_each_name_and_lead_to_its_tasks(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(connection, "f1", "f2", enqueued_at=ago(70), retry_count="1")
    times = {"enqueued_at": ago(300), "started_at": ago(296), "completed_at": ago(4)}
    await insert(connection, *(f"r{number}" for number in range(9)), task_name="'rare'", status="'COMPLETED'", **times)
    shown = await horsies("tasks", "stats")
    assert shown.out.startswith("of tasks that ended since 20")
    lines = [line.split() for line in shown.out.splitlines()[2:]]
    assert lines == [
        ["demo.add", "2", "2", "100.0%", "2", "8.0s", "8.0s", "2.0s", "2.0s", "0%"],
        ["rare", "9", "0", "0.0%", "0", "4.0s", "4.0s", "4m52s", "4m52s", "100%"],
    ]
    tasks = shlex.split(shown.err.partition("tasks of the first: horsies ")[2])
    assert [task["id"] for task in (await horsies(*tasks, "--json")).json["tasks"]] == ["f2", "f1"]
    report = (await horsies("tasks", "stats", "--json", "--sort", "ended", "--since", "2h", "queue:default")).json
    assert (report["filter"], report["sort"], report["more_names"]) == ("queue:default", "ended", False)
    assert [(row["name"], row["tasks"], row["failed_share"]) for row in report["names"]] == [
        ("rare", 9, 0.0),
        ("demo.add", 2, 1.0),
    ]
    assert len(await names(report["names"][0]["filter"], "--limit", "50")) == 9
    one = await horsies("tasks", "stats", "--name", "ra*", "--name", "none")
    assert [line.split()[0] for line in one.out.splitlines()[2:]] == ["rare"]
    monkeypatch.setattr(statistics, "MOST_READ", 10)
    partly = await horsies("tasks", "stats", "--name", "rare")
    assert partly.out.splitlines()[1].split()[-1] == "BUSY"
    monkeypatch.setattr(statistics, "MOST_READ", 5)
    partly = await horsies("tasks", "stats", "--name", "rare")
    assert partly.out.splitlines()[2].split()[:4] == ["rare", "5+", "0+", "0.0%"]
    assert partly.out.endswith("s ago\n")
    assert "+ more ended than were read" in partly.err


async def test_statistics_without_a_line_say_where_to_look() -> None:
    said = await horsies("tasks", "stats", "status:failed", "--since", "5m")
    assert said.err.splitlines() == [
        "no tasks that match status:failed ended in the last 5m00s",
        "--since looks further back: `--since 24h`",
    ]
    assert (await horsies("tasks", "stats", "--since", "soon")).code == 2
