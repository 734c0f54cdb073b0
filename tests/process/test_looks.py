"""`horsies tasks stack` against real workers with tasks that hang."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from cli_steps import Said, horsies
from test_worker import PATIENCE_S, Table, Worker
from until import until

from horsies.operations.looking import answer_to, ask_again, look_at
from horsies.operations.target import Actor

OPS = Actor("ops", "bastion")


@pytest.fixture
def start(start: Callable[..., Worker]) -> Callable[..., Worker]:
    """Start a worker for the tasks that hang; its children are killed with it."""
    return lambda processes=2, **environ: start("--processes", str(processes), app="hang_app:app", **environ)


async def hang(worker: Worker, table: Table, name: str, *args: object) -> str:
    """A task that has begun to hang."""
    task_id = await table.send(name, *args)
    await table.until(task_id, "RUNNING")
    await asyncio.to_thread(worker.wait_for, "stdout", id=task_id)
    return task_id


async def stack(database: str, task_id: str, *options: str) -> Said:
    return await horsies("tasks", "stack", task_id, "--database-url", database, *options)


async def test_an_operator_sees_the_line_in_which_a_task_hangs(
    database: str, table: Table, start: Callable[..., Worker]
) -> None:
    worker = start()
    task_id = await hang(worker, table, "wait_for_a_lock", "s3cret")
    said = await stack(database, task_id[-8:], "--reason", "it should be done")
    assert said.code == 0
    head, innermost, caller = said.out.splitlines()
    assert head.startswith("wait_for_a_lock runs for ")
    place, *what = innermost.split(maxsplit=2)
    assert (place.split(":")[0], what) == ("tests/process/hang_app.py", ["settle", "with lock:"])
    assert head.endswith(f": in settle, {place}")
    assert caller.split(maxsplit=2)[1:] == ["wait_for_a_lock", 'settle(order, [1, "two", {"card": password}])']
    assert "s3cret" not in said.out
    ((verb, kind, target, reason),) = await table.connection.fetch(
        "SELECT verb, target_kind, target_id, reason FROM horsies_operator_actions"
    )
    assert (verb, kind, target, reason) == ("look", "task", task_id, "it should be done")
    assert await table.connection.fetchval("SELECT count(*) FROM horsies_looks") == 0, "the look is closed"

    # Local variables only if asked for, and masked like arguments.
    said = await stack(database, task_id, "--locals", "--mask", "pass*", "--mask", "card")
    assert 'password = "***"' in said.out
    assert 'lines = [1, "two", {"card": "***"}]' in said.out
    assert "s3cret" not in said.out
    told = (await stack(database, task_id, "--locals", "--mask", "password", "--json")).json
    assert told["stack"]["frames"][1]["locals"]["password"] == "***"
    assert (told["task_id"], told["holds"], told["stack"]["how"]) == (task_id, True, "python")

    # C code that holds the GIL: what the interpreter itself shows is less, and says so.
    task_id = await hang(worker, table, "hold_the_gil", 0)
    _, note, innermost, *_ = (await stack(database, task_id)).out.splitlines()
    assert note == "C code seems to hold the GIL: only the thread of the task is shown"
    assert innermost.endswith("ctypes.PyDLL(None).sleep(3_600)")


async def test_the_stack_of_a_task_that_starves_in_its_child_or_its_worker_is_that_of_the_one_before_it(
    database: str, table: Table, start: Callable[..., Worker]
) -> None:
    """A child that finishes its tasks in no time gets some ahead: they are RUNNING, and wait behind one that hangs."""
    start(1, HANG_APP_PREFETCH="48")
    quick = "INSERT INTO horsies_tasks (id, task_name, queue_name, args, enqueue_sha, priority)"
    await table.connection.execute(
        f"{quick} SELECT 'quick-' || n, 'nothing', 'default', '[]', 'by-hand', 1 FROM generate_series(1, 150) n"
    )
    await until(table.connection, "(SELECT count(*) = 150 FROM horsies_tasks WHERE status = 'COMPLETED')")
    await table.connection.execute(
        f"{quick} SELECT CASE n WHEN 0 THEN 'the-one-that-hangs' ELSE 'starved-' || n END,"
        " CASE n WHEN 0 THEN 'wait_for_a_lock' ELSE 'nothing' END, 'default',"
        " CASE n WHEN 0 THEN '[\"s3cret\"]' ELSE '[]' END, 'by-hand', 1 + n FROM generate_series(0, 48) n"
    )
    starved = "SELECT min(id) FROM horsies_tasks WHERE task_name = 'nothing' AND status = "
    for status in ("RUNNING", "CLAIMED"):
        await until(table.connection, f"({starved}'{status}') IS NOT NULL")
        task_id = await table.connection.fetchval(f"{starved}'{status}'")
        said = await stack(database, task_id)
        assert said.code == 0, said.err
        head, note, innermost, *_ = said.out.splitlines()
        assert head.startswith("wait_for_a_lock runs for ")
        assert note == f"{task_id} has not begun: the-one-that-hangs has its place"
        assert innermost.endswith("with lock:")
        told = (await stack(database, task_id, "--json")).json
        assert (told["task_id"], told["starved"]) == ("the-one-that-hangs", task_id)
    assert await table.connection.fetchval("SELECT count(*) FROM horsies_looks") == 0, "all looks are closed"


async def test_two_look_at_once_and_no_answer_of_a_frozen_worker_or_for_a_claim_that_has_moved_is_taken_for_the_stack(
    database: str, connection: asyncpg.Connection, table: Table, start: Callable[..., Worker]
) -> None:
    worker = start()
    task_id = await hang(worker, table, "await_for_ever")
    other = await asyncpg.connect(database)
    watching = [(conn, await look_at(conn, OPS, task_id, "stack")) for conn in (connection, other)]
    for _ in range(3):
        answers = await asyncio.gather(*(answer_to(conn, look, PATIENCE_S) for conn, look in watching))
        for answer in answers:
            assert answer.found is not None
            assert answer.found["frames"][0]["function"] == "answer_of_the_bank"
        for conn, look in watching:
            await ask_again(conn, look)
    await other.close()
    os.kill(worker.process.pid, signal.SIGSTOP)
    try:
        said = await stack(database, task_id)
    finally:
        os.kill(worker.process.pid, signal.SIGCONT)
    assert said.code == 1
    assert "has not answered; its last sign of life was " in said.err
    look = await look_at(connection, OPS, task_id, "stack")
    assert (await answer_to(connection, look, PATIENCE_S)).holds
    await connection.execute("UPDATE horsies_tasks SET claimed_by_worker_id = 'another' WHERE id = $1", task_id)
    await ask_again(connection, look)
    assert not (await answer_to(connection, look, PATIENCE_S)).holds


async def test_an_application_can_forbid_looks(database: str, table: Table, start: Callable[..., Worker]) -> None:
    worker = start(HANG_APP_LOOKS="forbidden")
    task_id = await hang(worker, table, "sleep_long")
    said = await stack(database, task_id)
    assert (said.code, said.out) == (3, "")
    assert "allow_looks=False" in said.err


async def test_a_follower_marks_what_changes_and_ends_with_the_task(
    database: str, table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker, pipe = start(), tmp_path / "go"
    os.mkfifo(pipe)
    task_id = await hang(worker, table, "take_steps", str(pipe))
    command = [
        str(Path(sys.executable).with_name("horsies")),
        "tasks",
        "stack",
        task_id,
        "-f",
        "--database-url",
        database,
    ]
    follower = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        first = [(await follower.stdout.readline()).decode() for _ in range(3)]
        assert [line[0] for line in first[1:]] == [" ", " "]
        assert "first_step" in first[1]
        os.close(await asyncio.to_thread(os.open, pipe, os.O_WRONLY))
        second = [(await follower.stdout.readline()).decode() for _ in range(3)]
        assert "second_step" in second[1]
        assert [line[0] for line in second[1:]] == ["*", "*"], "another step, called from another line"
        os.close(await asyncio.to_thread(os.open, pipe, os.O_WRONLY))
        await table.done(task_id)
        _, errors = await follower.communicate()
    assert follower.returncode == 3
    assert f"no longer holds task {task_id}: it is COMPLETED now" in errors.decode()


async def test_the_output_of_a_task_is_followed_to_its_last_line_and_gaps_are_told(
    database: str, connection: asyncpg.Connection, table: Table, start: Callable[..., Worker]
) -> None:
    worker = start()
    task_id = await table.send("write_lines", 3, 3.0)
    await asyncio.to_thread(worker.wait_for, "log", id=task_id)
    said = await horsies("tasks", "logs", task_id, "--database-url", database)
    texts = [line.split(maxsplit=1)[1] for line in said.out.splitlines()]
    assert texts == ["begun", "line 0", "line 1", "line 2", "[31mred [0m", "WARNING shop: low on paper"]
    said = await horsies("tasks", "logs", task_id, "-f", "--database-url", database)
    assert [line.split(maxsplit=1)[1] for line in said.out.splitlines()] == [*texts, "last line"]
    assert said.code == 3
    assert "it is COMPLETED now" in said.err
    # One that writes more than is kept.
    task_id = await table.send("write_lines", 100_000, 60.0)
    await asyncio.to_thread(worker.wait_for, "log", id=task_id)
    look = await look_at(connection, OPS, task_id, "output")
    answer = await answer_to(connection, look, PATIENCE_S)
    assert answer.found is not None
    assert len(json.dumps(answer.found)) < 30_000
    assert answer.found["left_out"] > 1_000
    numbers = [line[0] for line in answer.found["lines"]]
    assert numbers == list(range(answer.found["left_out"] + 1, answer.found["last"] + 1))
    await ask_again(connection, look, after=answer.found["last"])
    nothing_new = {"lines": [], "last": answer.found["last"], "left_out": 0, "runs": True}
    assert (await answer_to(connection, look, PATIENCE_S)).found == nothing_new


@pytest.mark.parametrize("kept", ["4096", "0"])
async def test_the_last_lines_of_a_failure_are_kept_with_its_attempt(
    database: str, table: Table, start: Callable[..., Worker], kept: str
) -> None:
    start(HANG_APP_KEPT=kept)
    policy = {"max_retries": 1, "intervals": [0], "auto_retry_for": ["REFUSED"], "jitter": False}
    failed = await table.send("fail_loudly", "fail", max_retries=1, task_options=json.dumps({"retry_policy": policy}))
    died, done = await table.send("fail_loudly", "die"), await table.send("fail_loudly", "end")
    for task_id in (failed, died, done):
        await table.done(task_id)
    written = "begun\ntrying postgresql://shop:***@db/shop\nthe last line" if kept == "4096" else None
    outputs = [[attempt["output"] for attempt in await table.attempts(one)] for one in (failed, died, done)]
    assert outputs == [[written, written], [written], [None]]
    said = await horsies("tasks", "show", died, "--database-url", database)
    assert ("last output of try 1\n  begun\n" in said.out) is (kept == "4096")
