"""Schedules on the command line: the list, and the next runs of one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from cli_steps import horsies
from schedule_scene import AT_HALF_PAST_TWO, add_run, add_schedule, add_scheduler, definition

DAILY_IN_BERLIN = definition(AT_HALF_PAST_TWO, timezone="Europe/Berlin", target="shop.report")


@pytest.fixture(autouse=True)
def _here(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def line_of(text: str, word: str) -> str:
    (line,) = [line for line in text.splitlines() if word in line]
    return line


async def test_no_schedule_says_how_to_define_and_run_one() -> None:
    said = await horsies("schedules", "ls")
    assert said.code == 0
    assert "no schedule is stored here" in said.out
    assert "AppConfig(schedule=ScheduleConfig(" in said.out
    assert "horsies worker MODULE --with-scheduler" in said.out
    assert (await horsies("schedules", "ls", "--json")).json["schedules"] == []


async def test_schedules_are_listed_with_what_they_send_and_how_they_ran(connection: asyncpg.Connection) -> None:
    await add_schedule(connection, "nightly", DAILY_IN_BERLIN, next_s=7_500, runs=41)
    await add_schedule(connection, "often", definition(target="shop.sync"), next_s=-400)
    await add_run(connection, "nightly", 300, "FAILED", error_code="'TIMEOUT'", failed_at="now() - interval '296 s'")
    await add_run(connection, "nightly", 200, "COMPLETED", took_s=62)
    await add_run(connection, "nightly", 100, None)
    await add_scheduler(connection, "nightly")
    said = await horsies("schedules", "ls")
    assert said.code == 0
    nightly = line_of(said.out, "nightly")
    assert nightly.startswith("· scheduled  nightly   shop.report  daily 02:30 Europe/Berlin  in 2h0")
    assert "✓ completed  1m02s" in nightly
    assert "41" in nightly
    assert nightly.endswith("✗✓⊘")
    often = line_of(said.out, "often")
    assert often.startswith("▲ overdue")
    assert "due for 6m4" in often
    assert often.endswith(", no scheduler serves it")
    assert said.out.splitlines()[-1] == "1 scheduler, web-1:7"


async def test_a_filter_of_schedules_and_that_nothing_is_sent_without_a_scheduler(
    connection: asyncpg.Connection,
) -> None:
    await add_schedule(connection, "nightly", DAILY_IN_BERLIN)
    await add_schedule(connection, "often", definition(target="shop.sync"), next_s=-400)
    names = [one["name"] for one in (await horsies("schedules", "ls", "status:overdue", "--json")).json["schedules"]]
    assert names == ["often"]
    said = await horsies("schedules", "ls", "--filter", "sends:nothing")
    assert said.out.splitlines()[0] == "no schedule of 2 matches sends:nothing"
    assert "sends:shop.*" in (await horsies("schedules", "ls", "--filter-help")).out
    await add_scheduler(connection, "nightly", silent_s=70)
    said = await horsies("schedules", "ls")
    assert "unserved" in line_of(said.out, "nightly")
    assert said.out.splitlines()[-1].startswith("no scheduler runs, so nothing is sent; `horsies scheduler MODULE`")


async def test_the_keys_of_schedules_in_json_stay(connection: asyncpg.Connection) -> None:
    await add_schedule(connection, "nightly", DAILY_IN_BERLIN)
    await add_run(connection, "nightly", 100)
    await add_scheduler(connection, "nightly")
    report = (await horsies("schedules", "ls", "--json")).json
    assert set(report) == {"now", "filter", "schedules", "schedulers"}
    (one,) = report["schedules"]
    assert set(one) == {
        *("name", "standing", "when", "timezone", "sends", "queue", "next_run_at", "overdue_s", "last_run_at"),
        *("run_count", "paused_at", "paused_by", "paused_reason", "skip_slot", "skipped_by", "schedulers", "runs"),
    }
    assert one["sends"] == {"kind": "task", "name": "shop.report"}
    (run,) = one["runs"]
    assert set(run) == {
        *("slot", "sent_at", "task_id", "workflow_id", "ordered_by", "state", "error_code", "started_at", "ended_at")
    }
    assert {"id", "hostname", "pid", "schedules", "version", "started_at", "seen_at"} == set(report["schedulers"][0])


async def test_the_next_runs_are_told_here_and_in_the_zone_of_the_schedule(connection: asyncpg.Connection) -> None:
    await add_schedule(connection, "nightly", DAILY_IN_BERLIN)
    await add_scheduler(connection, "nightly")
    # Summer time begins on the last Sunday of March, in 2030 on the 31st: there is no half past two.
    await connection.execute("UPDATE horsies_schedule_state SET next_run_at = '2030-03-30 01:30Z'")
    said = await horsies("schedules", "next", "nightly", "-n", "2")
    assert said.code == 0
    head, titles, first, second = said.out.splitlines()
    assert head == "nightly  daily 02:30 Europe/Berlin  sends shop.report"
    assert titles.split() == ["IN", "HERE", "EUROPE/BERLIN", "NOTE"]
    assert "Fri 2030-03-29 21:30:00 -04:00  Sat 2030-03-30 02:30:00 +01:00" in first
    assert "Sun 2030-03-31 20:30:00 -04:00  Mon 2030-04-01 02:30:00 +02:00" in second
    assert second.endswith("clocks go forward 1 h")
    said = await horsies("schedules", "next", "nihgtly")
    assert (said.code, said.out) == (4, "")
    assert said.words == "no schedule is named nihgtly; did you mean nightly?"
    assert "`horsies schedules ls` lists them" in (await horsies("schedules", "next", "x")).words


async def test_what_keeps_the_next_runs_from_being_sent_is_said(connection: asyncpg.Connection) -> None:
    await add_schedule(connection, "alone", definition())
    await add_schedule(connection, "paused", definition())
    await add_schedule(connection, "theirs", None)
    await connection.execute("UPDATE horsies_schedules SET paused_at = now() WHERE schedule_name = 'paused'")
    assert "no scheduler serves it" in (await horsies("schedules", "next", "alone")).out
    assert "it is paused: none of these is sent" in (await horsies("schedules", "next", "paused")).out
    theirs = await horsies("schedules", "next", "theirs")
    assert "its scheduler has not stored what it sends" in theirs.out
    assert len(theirs.out.splitlines()) == 4
    report = json.loads((await horsies("schedules", "next", "alone", "-n", "4", "--json")).out)
    assert (len(report["runs"]), report["schedule"], report["timezone"]) == (4, "alone", "UTC")
