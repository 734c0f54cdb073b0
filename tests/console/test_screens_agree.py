"""Each figure on each screen of the console agrees with plain SQL, after load and after an outage.

The text on the terminal is compared. Nothing is written while a screen is compared, so a count must be exact; an age or
a rate must be that of a moment between the last read and now, to the precision of its digits.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from figures_scene import ALIVE, DRAINED, beat, prepare
from figures_truth import sql
from rich.cells import cell_len
from task_steps import Screen, console
from test_frame_outage import stopped

from horsies.store.embedded import Place, acquire
from horsies.store.schema import create
from horsies_tui.look.cells import ColumnSet
from horsies_tui.overview.rows import ALERT_COLUMNS, QUEUE_COLUMNS
from horsies_tui.recovery.rows import COLUMNS as DESK_COLUMNS
from horsies_tui.tasks.columns import ARGUMENTS
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.workers.columns import HELD_COLUMNS, WORKER_COLUMNS
from horsies_tui.workflows.columns import WORKFLOW_COLUMNS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from horsies_tui.look.cells import Column, Placed

SIZE: Final = (200, 72)  # the lists alone, so that all of their columns are there
READ_AGO_S: Final = 16.0
"""Without notifications workers and overview are read every 15 s, so figures may be that old."""
_drawn: Final[dict[tuple[Column[Any], ...], tuple[Placed[Any], ...]]] = {}
"""The columns of each list, where they were drawn last."""
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}

# Reading the screen.


def table(text: str, columns: ColumnSet[Any], first: str) -> list[dict[str, str]]:
    """The visible rows below the titles that begin with this one, by column."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if re.match(rf" +{first} +[A-Z]", line))
    rows = []
    for line in lines[start + 1 : -1]:
        if not line.strip() or line.lstrip().startswith("──"):
            break
        # A sign of two places is one letter; what follows it must not move to the left.
        places = "".join(letter + "\0" * (cell_len(letter) - 1) for letter in line).ljust(SIZE[0])
        rows.append(
            {
                placed.column.key: places[placed.x : placed.x + placed.width].replace("\0", "").strip()
                for placed in _drawn[columns.columns]
            }
        )
    return rows


def number(text: str) -> int:
    assert re.fullmatch(r"[\d,]+", text), f"{text!r} is no exact number"
    return int(text.replace(",", ""))


def numbers(pattern: str, text: str) -> list[int]:
    """The numbers of the first match."""
    found = re.search(pattern, text)
    assert found, f"no {pattern!r} in:\n{text}"
    return [number(group) for group in found.groups()]


def is_span(text: str, seconds: float | None, *, live: bool = True) -> None:
    """The text is this duration, to its precision; if it grows, a few seconds may have passed."""
    if seconds is None:
        assert text == ""
        return
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhd])", text)
    assert parts, f"{text!r} is no length of time, {seconds:.0f} s are"
    low = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    amount, unit = parts[-1]
    # Above a minute a running duration advances by ten seconds.
    digit = 0.1 if "." in amount else 10 if unit == "s" and len(parts) > 1 else _UNITS[unit]
    assert low - 0.01 <= seconds <= low + digit + (READ_AGO_S if live else 0.01), f"{text} for {seconds:.1f} s"


def is_rate(text: str, per_s: float) -> None:
    said = 0.005 if text == "<.01" else float(text)
    assert said == pytest.approx(per_s, abs=0.006 if said < 1 else 0.06), f"{text} for {per_s:.4f}/s"


# The screens.


def overview(text: str, truth: dict[str, Any]) -> None:
    queues = table(text, QUEUE_COLUMNS, "QUEUE")
    assert {row["queue"] for row in queues} == set(truth["queues"])
    for row in queues:
        counted = truth["queues"][row["queue"]]
        for column in ("pending", "due", "later", "claimed", "running"):
            assert number(row[column]) == counted[column], (row["queue"], column)
        is_span(row["oldest"], counted["oldest"])
        is_rate(row["in"], counted["in"])
        is_rate(row["out"], counted["out"])
        assert row["cap"] == (f"{counted['running']}/20" if row["queue"] == "mail" else "–")
    together = truth["queues"]["all queues"]
    assert numbers(r"waiting ([\d,]+)", text) == [together["due"] + together["claimed"]]
    busy = sum(truth["workers"][name]["running"] for name in ("web-1:1", "web-2:1"))
    assert re.search(r"busy (\S+)", text)[1] == f"{busy / 16:.0%}"  # type: ignore[index]
    the_charts(text, truth)
    the_alerts(text, truth)


def the_charts(text: str, truth: dict[str, Any]) -> None:
    """A rate is that of this minute; up to its middle, of the previous one as well."""
    found = re.search(r"finished/s (\S+) .*failed/s (\S+) ", text)
    assert found
    said = [0.005 if rate == "<.01" else float(rate) for rate in found.groups()]
    now, before = truth["minutes"]
    second = truth["second"]
    both = [now[column] + before[column] for column in ("finished", "failed")]
    # Counted, over so many seconds: the screen was read at some moment between these, before the middle or after it.
    first, alone = second - READ_AGO_S, [now["finished"], now["failed"]]
    moments = [(alone, passed_s) for passed_s in (second, max(first, 29)) if second >= 29]
    moments += [(both, 60 + max(passed_s, 0)) for passed_s in (first, min(second, 31)) if first < 31]
    for column, rate in enumerate(said):
        rates = [counted[column] / passed_s for counted, passed_s in moments]
        assert min(rates) - 0.06 <= rate <= max(rates) + 0.06, (said, moments)
    for what in ("wait", "run"):
        spans = re.search(rf"{what} p95 (\S+)  p50 (\S+)", text)
        assert spans
        known = [minute[what] for minute in truth["minutes"] if minute[what] and minute[what][0] is not None]
        if spans[1] == "–":
            continue
        assert any(_are_spans(spans.groups(), lengths) for lengths in known), (what, spans.groups(), known)


def _are_spans(words: tuple[str, ...], seconds: list[float]) -> bool:
    try:
        for word, length in zip(words, seconds, strict=True):
            is_span("0s" if word == "0" else word, length, live=False)
    except AssertionError:
        return False
    return True


def the_alerts(text: str, truth: dict[str, Any]) -> None:
    alerts = [row["what"] for row in table(text, ALERT_COLUMNS, "ALERT")]
    told = "\n".join(alerts)
    needing = [row for row in truth["findings"] if row["who"] == "needs"]
    for kind, words in {"crashed": "crashed, not handled yet", "interrupted": "interrupted"}.items():
        shown = Counter(int(found) for found in re.findall(rf"^(\d+) shop.mail {words}", told, re.MULTILINE))
        assert shown == Counter(row["rows"] for row in needing if row["kind"] == kind)
    for row in needing:
        if row["kind"] == "no worker":
            assert f"queue {row['queue_name']} has no worker, {row['rows']} due" in told
    lost = truth["workers"]["web-3:1"]
    held = lost["running"] + lost["claimed"]
    assert f"web-3:1 is lost, holds {held} tasks, {lost['claimed']} stale" in told
    for row in table(text, ALERT_COLUMNS, "ALERT"):
        if surge := re.match(r"(.+) surges", row["what"]):
            counted = truth["failed"][surge[1]]
            assert numbers(r"([\d,]+) in 10m, usually", row["evidence"]) == [counted["lately"]]
            (usual,) = numbers(r"usually (\d+)", row["evidence"])
            assert usual == pytest.approx(counted["usual"], abs=0.51)
    (said,) = numbers(r"── alerts (\d+)", text)
    (more,) = numbers(r"; (\d+) more alerts below", text)
    assert said == more + 2
    (notes,) = numbers(r"alerts \d+ · (\d+) note", text)
    assert len(alerts) == said + notes


def tasks(text: str, truth: dict[str, Any]) -> None:
    lines = text.splitlines()
    chips = {word: number(amount) for amount, word in re.findall(r"([\d,]+\+?) ([a-z]+)", lines[3])}
    assert chips.pop("tasks") == sum(truth["states"].values())
    assert {state: amount for state, amount in chips.items() if amount} == truth["states"]
    columns = next(columns for columns in _drawn if ARGUMENTS in {column.key for column in columns})
    for row in table(text, ColumnSet(columns), "STATE"):
        counted = truth["tasks"][row["id"]]
        is_span(row["age"], counted["age"])
        is_span(row["run"], counted["run"])
        is_span(row["wait"], counted["wait"])
        assert row["try"] == counted["try"]


def failed_tasks(text: str, truth: dict[str, Any]) -> None:
    """The task list with the filter status:failed."""
    (match,) = numbers(r"([\d,]+) match", text)
    assert match == truth["states"]["failed"] + truth["states"]["interrupted"]


def workers(text: str, truth: dict[str, Any]) -> None:
    known = truth["workers"]
    summary = text.splitlines()[3]
    assert numbers(r"(\d+) workers on (\d+) hosts", summary) == [4, 4]
    lost = known["web-3:1"]
    assert numbers(r"1 lost, holding (\d+) tasks", summary) == [lost["running"] + lost["claimed"]]
    assert re.search(r"1 draining .* 1 alive .* 1 stopped", summary)
    assert numbers(r"(\d+) tasks on (\d+) processes", summary) == [
        sum(known[name]["running"] for name in ("web-1:1", "web-2:1")), 16,
    ]  # fmt: skip
    rows = table(text, WORKER_COLUMNS, "STATE")
    assert {row["worker"] for row in rows} == set(known)
    for row in rows:
        told = known[row["worker"]]
        lives = told["id"] in (ALIVE, DRAINED)
        running = told["running"] or ""
        assert row["load"] == (f"{told['running']}/{told['processes']}" if lives else str(running))
        assert row["claimed"] == str(told["claimed"] or "")
        assert (row["cpu"], row["own"], row["children"]) == (("41%", "100M", "312M") if lives else ("", "", ""))
        is_span(row["up"], told["up"] if lives else None)
        if row["seen"] != "now":
            is_span(row["seen"], told["silent"])
        else:
            assert told["silent"] <= 12
    assert numbers(r"tasks +(\d+) running, (\d+) claimed; it had (\d+) processes", text) == [
        lost["running"], lost["claimed"], 8,
    ]  # fmt: skip
    held = table(text[text.index("── ✗ web-3:1") :], HELD_COLUMNS, "STATE")
    assert {row["id"] for row in held} == {row["id"] for row in truth["held"]}
    for row in held:
        is_span(row["age"], truth["tasks"][row["id"]]["age"])
        is_span(row["run"], truth["tasks"][row["id"]]["run"])


def workflows(text: str, truth: dict[str, Any]) -> None:
    line, flows = text.splitlines()[3], truth["flows"]
    chips = {word: number(amount) for amount, word in re.findall(r"([\d,]+\+?) ([a-z]+)(?=  )", line)}
    assert {state: amount for state, amount in chips.items() if amount} == Counter(
        row["state"] for row in flows.values()
    )
    assert numbers(r"([\d,]+) match · about ([\d,]+) in table", line) == [len(flows), truth["flows_in_table"]]
    rows = table(text, WORKFLOW_COLUMNS, "STATE")
    assert {row["id"] for row in rows} == set(flows)
    for row in rows:
        counted = flows[row["id"]]
        assert row["done"] == counted["done"]
        for column in ("running", "waiting", "bad"):
            assert row[column] == str(counted[column] or ""), (row["id"], column)
        is_span(row["age"], counted["age"])
        is_span(row["run"], counted["took"])


def recovery(text: str, truth: dict[str, Any]) -> None:
    findings = truth["findings"]
    who = Counter(row["who"] for row in findings)
    assert numbers(r"(\d+) need .* (\d+) will be handled", text.splitlines()[2]) == [who["needs"], who["system"]]
    assert numbers(r"▲ (\d+) need", text) == [who["needs"]]
    assert str(who["needs"]).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) in text.splitlines()[1]
    shown = Counter(
        (row["what"].split(" ", 1)[1], number(row["rows"].removeprefix("×") or "1"))
        for row in table(text, DESK_COLUMNS, "WHAT")
    )
    assert shown == Counter((row["kind"], row["rows"]) for row in findings)
    lost = truth["workers"]["web-3:1"]
    assert f"holds {lost['running']} running and {lost['claimed']} claimed" in text


SCREENS: Final[dict[str, Callable[[str, dict[str, Any]], None]]] = {
    "1": overview, "2": tasks, "3": workers, "4": workflows, "5": recovery,
}  # fmt: skip


async def agrees(screen: Screen, conn: asyncpg.Connection, check: Callable[[str, dict[str, Any]], None]) -> None:
    """Repeats until the screen has read the last changes; a wrong figure stays wrong."""
    loop = asyncio.get_running_loop()
    last = loop.time() + 20
    while True:
        await screen.pilot.pause(0.1)  # to read the screen and to count takes 25 ms of a processor
        _drawn.update({each.columns.columns: each.placed for each in screen.app.query(RowTable)})
        try:
            check(screen.text, await sql(conn))
        except (AssertionError, LookupError, StopIteration, ValueError) as error:
            if loop.time() > last:
                raise AssertionError(f"{check.__name__}: {error}\n{screen.text}") from error
        else:
            return


async def all_agree(screen: Screen, conn: asyncpg.Connection) -> None:
    for key, check in SCREENS.items():
        await beat(conn)
        await screen.press(key, "ctrl+r")
        await agrees(screen, conn, check)


@asynccontextmanager
async def load(url: str) -> AsyncIterator[None]:
    """Tasks are sent, claimed and ended all the time; at the end none is between two states."""
    conn = await asyncpg.connect(url)
    goes_on = True

    async def write() -> None:
        number = 0
        while goes_on:
            number += 1
            async with conn.transaction():
                await conn.execute(
                    "INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)"
                    " VALUES ($1, 'shop.mail', 'mail', 'COMPLETED', now(), now() + interval '20 ms')",
                    f"w{number}",
                )
                await conn.execute(
                    "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ($1, 'shop.mail', 'mail')",
                    f"p{number}",
                )

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        goes_on = False
        await task
        await conn.close()


CHANGES: Final = (
    "UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now(), started_at = now() - interval '3 s'"
    " WHERE status = 'PENDING' AND id LIKE 'p%' AND length(id) = 2",
    "UPDATE horsies_tasks SET status = 'RUNNING', started_at = now() - interval '10 s' WHERE id = ("
    f" SELECT min(id) FROM horsies_tasks WHERE status = 'CLAIMED' AND claimed_by_worker_id = '{ALIVE}')",
    "UPDATE horsies_tasks SET status = 'COMPLETED', error_code = NULL, completed_at = now() WHERE id IN ("
    " SELECT id FROM horsies_tasks WHERE error_code IN ('TASK_INTERRUPTED', 'WORKER_CRASHED') ORDER BY id LIMIT 7)",
    "UPDATE horsies_workflow_tasks SET status = 'COMPLETED' WHERE workflow_id = ("
    " SELECT id FROM horsies_workflows WHERE status = 'PENDING')",
    "UPDATE horsies_workflows SET status = 'COMPLETED', completed_at = now() WHERE status = 'PENDING'",
)


async def test_every_figure_of_every_screen_is_what_sql_counts_after_load_and_after_an_outage(
    database: str, connection: asyncpg.Connection
) -> None:
    await prepare(connection)
    async with BlackholeProxy(database) as proxy, console(proxy.url, SIZE, screen="overview", story=False) as screen:
        async with load(database):
            await screen.sees("LIVE", "all queues", "── alerts")
            await screen.sees("finished/s")
        await all_agree(screen, connection)
        await screen.press("2")
        await screen.filter("status:failed")
        await agrees(screen, connection, failed_tasks)
        await screen.press("escape", "1")
        await agrees(screen, connection, overview)
        before, verdict = await sql(connection), line_with("more alerts below", screen.text)
        proxy.refuse(10_000)
        proxy.cut()
        for change in CHANGES:
            await connection.execute(change)
        await screen.sees("STALE", "figures of ", "UNKNOWN: nothing newer than")
        assert screen.app.stage.has_class("-stale")  # type: ignore[attr-defined]
        overview(without_the_outage(screen.text, verdict), before)
        proxy.refuse(0)
        await screen.press("ctrl+r")
        await screen.sees("LIVE")
        await screen.loses("figures of ")
        await all_agree(screen, connection)


def without_the_outage(text: str, verdict: str) -> str:
    """Without the line that names the reason, and with the verdict of before: the figures below stay as they were."""
    lines = [line for line in text.splitlines() if "figures of " not in line]
    return "\n".join(verdict if "UNKNOWN: " in line else line for line in lines)


def line_with(words: str, text: str) -> str:
    (line,) = [line for line in text.splitlines() if words in line]
    return line


@pytest.mark.chaos
async def test_every_figure_is_right_again_after_the_server_was_restarted(short_directory: Path) -> None:
    place = Place(short_directory)
    held = acquire(place)
    prepared = await asyncpg.connect(held.url)
    await create(prepared)
    await prepare(prepared)
    async with console(held.url, SIZE, screen="overview", story=False) as screen:
        await screen.sees("LIVE", "all queues", "── alerts")
        await all_agree(screen, prepared)
        await prepared.close()
        held.release()
        await stopped(place)
        await screen.sees("STALE", "figures of ")
        again = await asyncio.to_thread(acquire, place)
        connection = await asyncpg.connect(again.url)
        for change in CHANGES:
            await connection.execute(change)
        await screen.press("ctrl+r")
        await screen.sees("LIVE")
        await all_agree(screen, connection)
        await connection.close()
        again.release()
