"""One broker serves every thread, every event loop and every forked child, and closes without leaving anything."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from horsies.broker import PostgresBroker
from horsies.config.app import PostgresConfig
from horsies.domain.codes import OperationalErrorCode, RetrievalCode
from horsies.domain.ids import new_task_id
from horsies.domain.result import Ok
from horsies.domain.task_result import TaskResult
from horsies.handle import BrokerErrorCode
from horsies.store import loop_thread
from horsies.store.embedded import EmbeddedPlace
from horsies.store.embedded.trusted_paths import FileLock

FORTY_TWO = '{"__task_result__":true,"ok":42,"err":null}'
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'horsies %' AND datname = current_database()"
)


@pytest.fixture
def broker(database: str) -> Iterator[PostgresBroker]:
    made = PostgresBroker(PostgresConfig(database_url=database))
    yield made
    assert made.close() == Ok(None)


def send(broker: PostgresBroker) -> str:
    return broker.enqueue("demo.add", task_id=new_task_id(), enqueue_sha="a").unwrap()


async def send_async(broker: PostgresBroker) -> str:
    return (await broker.enqueue_async("demo.add", task_id=new_task_id(), enqueue_sha="a")).unwrap()


def query(database: str, question: str, *parameters: object) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(database)
        try:
            return await connection.fetchval(question, *parameters)
        finally:
            await connection.close()

    return asyncio.run(ask())


def stored(database: str) -> object:
    return query(database, "SELECT count(*) FROM horsies_tasks")


def complete(database: str, task_id: str) -> None:
    query(database, "UPDATE horsies_tasks SET status = 'COMPLETED', result = $2 WHERE id = $1", task_id, FORTY_TWO)


def no_session_is_left(database: str) -> bool:
    deadline = time.monotonic() + 10
    while query(database, SESSIONS) and time.monotonic() < deadline:
        time.sleep(0.005)
    return query(database, SESSIONS) == 0


def test_many_threads_and_several_loops_at_once(broker: PostgresBroker, database: str) -> None:
    async def some() -> None:
        await asyncio.gather(*(send_async(broker) for _ in range(25)))

    with ThreadPoolExecutor(20) as threads:
        loops = [threads.submit(asyncio.run, some()) for _ in range(4)]
        ids = list(threads.map(lambda _: [send(broker) for _ in range(10)], range(16)))
        for loop in loops:
            loop.result()
    assert len({task_id for sent in ids for task_id in sent}) == 160
    assert stored(database) == 260


async def test_blocking_calls_inside_a_running_loop(broker: PostgresBroker) -> None:
    task_id = send(broker)
    assert await send_async(broker) != task_id
    assert broker.get_result(task_id, 10).err_value.error_code is RetrievalCode.WAIT_TIMEOUT
    assert broker.get_task_info(task_id).unwrap() is not None


async def test_a_broker_first_used_in_a_loop_that_ended_serves_the_next(broker: PostgresBroker, database: str) -> None:
    threading.Thread(target=lambda: asyncio.run(send_async(broker))).start()
    task_id = await send_async(broker)
    wait = asyncio.create_task(broker.get_result_async(task_id))
    await asyncio.to_thread(complete, database, task_id)
    assert await wait == TaskResult(ok=42)


def test_waits_whose_loop_ended_disturb_no_later_wait(broker: PostgresBroker) -> None:
    async def give_up() -> None:
        waits = [asyncio.create_task(broker.get_result_async(task_id)) for _ in range(3)]
        await asyncio.wait(waits, timeout=0.01)

    task_id = send(broker)
    asyncio.run(give_up())
    assert broker.get_result(task_id, 0).err_value.error_code is RetrievalCode.WAIT_TIMEOUT


def test_closing_ends_the_waits_of_all_threads_and_the_next_call_opens_again(
    broker: PostgresBroker, database: str
) -> None:
    task_id = send(broker)
    with ThreadPoolExecutor(4) as threads:
        waits = [threads.submit(broker.get_result, task_id) for _ in range(3)]
        while query(database, SESSIONS) == 1:  # until the listener is connected
            time.sleep(0.002)
        assert broker.close() == Ok(None)
        for wait in waits:
            error = wait.result(timeout=60).err_value
            assert error.error_code is OperationalErrorCode.BROKER_ERROR
            assert "closed" in error.message
    assert no_session_is_left(database)
    assert not [thread for thread in threading.enumerate() if thread.name == "horsies broker"]
    assert send(broker) != task_id
    assert broker.close() == broker.close() == Ok(None)


async def test_closing_ends_waits_on_event_loops_too(broker: PostgresBroker) -> None:
    task_id = await send_async(broker)
    waits = [asyncio.create_task(broker.get_result_async(task_id)) for _ in range(3)]
    await asyncio.wait(waits, timeout=0.05)
    assert await broker.close_async() == Ok(None)
    for wait in waits:
        assert (await wait).err_value.error_code is OperationalErrorCode.BROKER_ERROR


def test_calls_and_closes_from_all_sides_end(broker: PostgresBroker) -> None:
    def use(number: int) -> None:
        for _ in range(10):
            if number == 0:
                assert broker.close().is_ok()
            else:
                answer = broker.enqueue("demo.add", task_id=new_task_id(), enqueue_sha="a")
                assert answer.is_ok() or answer.unwrap_err().code in {
                    BrokerErrorCode.NO_BROKER,
                    BrokerErrorCode.ENQUEUE_FAILED,
                }

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4), timeout=30))


def in_a_fork(work: object) -> int:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(20)
    assert child.exitcode is not None, "the child hangs"
    return child.exitcode


def test_a_forked_child_has_connections_of_its_own(broker: PostgresBroker, database: str) -> None:
    def in_child() -> None:
        send(broker)
        asyncio.run(send_async(broker))
        assert broker.get_result(task_id, 0).is_err()
        assert broker.close() == Ok(None)

    task_id = send(broker)
    assert broker.get_result(task_id, 20).is_err()  # the listener is up too
    assert in_a_fork(in_child) == 0
    complete(database, task_id)
    assert broker.get_result(task_id) == TaskResult(ok=42)
    send(broker)
    assert stored(database) == 4


def test_a_fork_in_the_middle_of_everything_harms_neither_side(broker: PostgresBroker, database: str) -> None:
    stop = threading.Event()
    sent: list[str] = []

    def keep_sending() -> None:
        while not stop.is_set():
            sent.append(send(broker))

    threads = [threading.Thread(target=keep_sending) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [in_a_fork(lambda: send(broker) and None) for _ in range(5)] == [0] * 5
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
    assert stored(database) == len(sent) + 5


def test_what_a_child_finalizes_does_not_make_the_parents_loop_deaf(capfd: pytest.CaptureFixture[str]) -> None:
    streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def connect(end: socket.socket) -> None:
        streams.append(await asyncio.open_connection(sock=end))

    async def hang_up() -> None:
        streams[0][1].close()

    def in_child() -> None:
        streams.clear()  # the last reference: the writer closes itself, and its transport
        loop_thread._parents.clear()
        gc.collect()

    thread = loop_thread.LoopThread("test", on_stop=hang_up, after_fork=lambda: None)
    ours, theirs = socket.socketpair()
    with theirs:
        thread.run_sync(connect(ours))
        assert in_a_fork(in_child) == 0
        theirs.send(b"still there?\n")
        heard = thread.run_sync(asyncio.wait_for(streams[0][0].readline(), 5))
        assert heard == b"still there?\n"
        assert thread.close(5)
    capfd.readouterr()  # the writer's message in the child about its closed loop


def test_the_loops_own_thread_may_not_block_on_itself(broker: PostgresBroker) -> None:
    async def call() -> None:
        with pytest.raises(RuntimeError, match="would wait for itself"):
            broker.get_task_info("t")

    broker._thread.run_sync(call())


def run_script(database: str, body: str, *arguments: str) -> subprocess.Popen[str]:
    script = f"""
        import asyncio, os, signal, sys, threading
        from horsies.broker import PostgresBroker
        from horsies.config.app import PostgresConfig
        from horsies.domain.ids import new_task_id

        def send():
            return broker.enqueue("demo.add", task_id=new_task_id(), enqueue_sha="a").unwrap()

        broker = PostgresBroker(PostgresConfig(database_url={database!r}))
    """
    code = textwrap.dedent(script) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-X", "dev", *arguments, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_program_that_just_ends_ends_quietly(database: str) -> None:
    program = run_script(
        database,
        """
        task_id = send()
        broker.get_result(task_id, 20)
        threading.Thread(target=broker.get_result, args=(task_id,), daemon=True).start()
        print("done")
        """,
    )
    assert program.communicate(timeout=60) == ("done\n", "")
    assert program.returncode == 0
    assert no_session_is_left(database)


def test_a_forked_program_that_just_ends_leaves_the_parents_connections_working(database: str) -> None:
    program = run_script(
        database,
        """
        task_id = send()
        broker.get_result(task_id, 20)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        child = os.fork()
        if child == 0:
            send()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        send()
        print("done")
        """,
        # From 3.12 on, Python warns of every fork of a program with threads, which is what this test does.
        *("-W", "ignore:This process:DeprecationWarning"),
    )
    assert program.communicate(timeout=60) == ("done\n", "")
    assert stored(database) == 3
    assert no_session_is_left(database)


def test_ctrl_c_ends_a_blocking_wait(database: str) -> None:
    program = run_script(
        database,
        """
        task_id = send()
        try:
            print("waiting", flush=True)
            broker.get_result(task_id)
        except KeyboardInterrupt:
            print(len([thread for thread in threading.enumerate() if thread.name == "horsies broker"]))
            print(send() != task_id)
        """,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "waiting\n"
    while query(database, SESSIONS) != 2:  # producer and listener
        time.sleep(0.005)
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=60) == ("1\nTrue\n", "")


@pytest.mark.chaos  # a second of processor time
def test_an_embedded_server_is_held_until_the_broker_closes(short_directory: Path) -> None:
    broker = PostgresBroker(PostgresConfig(database_url=f"embedded://{short_directory}"))
    task_id = send(broker)
    place = EmbeddedPlace(short_directory)
    with FileLock(place.users_lock) as users:
        assert not users.try_exclusive()
    assert broker.get_task_info(task_id).unwrap() is not None
    assert broker.close() == Ok(None)
    with FileLock(place.users_lock) as users:
        assert users.exclusive_within(10)
    assert place.data.is_dir()
