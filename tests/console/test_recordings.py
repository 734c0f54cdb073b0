"""A console that records, and its recording replayed without a database: every screen, every verb refused."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import get_ident

import asyncpg
import pytest
from feed_steps import send
from frame_steps import console, frame, lines, options
from textual.pilot import Pilot
from verb_steps import until

import horsies_tui
from horsies.config.contexts import DatabaseChoice
from horsies_tui.actions import ACTIONS
from horsies_tui.feed.loop import Feed
from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.recording.file import RecordingReader
from horsies_tui.recording.player import Player
from horsies_tui.recording.recorder import base_feeds
from horsies_tui.recording.tracks import Tracks
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.recording import RecordingConsole, ReplayConsole, console_of
from horsies_tui.shell.views import TABS

FIRST_PARTS = ("glance", "rows", "rows", "rows", "report", "found", "operations")
SECRET = "DE89370400440532013000"


@asynccontextmanager
async def recorded(url: str, path: Path, **settings: object) -> AsyncIterator[Pilot[int]]:
    wanted = options(url, record=path, **settings)
    config = replace(wanted.config, mask_arguments=("iban",))
    app = console_of(replace(wanted, config=config), {})
    assert isinstance(app, RecordingConsole)
    async with app.run_test(size=(120, 30)) as pilot:
        yield pilot


@asynccontextmanager
async def replayed(path: Path, **settings: object) -> AsyncIterator[Pilot[int]]:
    config = options("postgresql://nowhere/app").config
    wanted = ConsoleOptions(DatabaseChoice(None, "a recording"), config, replay=path, **settings)  # type: ignore[arg-type]
    app = console_of(wanted, {})
    assert isinstance(app, ReplayConsole)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: "REPLAY" in frame(pilot)[0])
        yield pilot


def text(pilot: Pilot[int]) -> str:
    return "\n".join(lines(pilot))


def parts_of(path: Path) -> set[str]:
    player = Player(RecordingReader(path))
    return {"/".join(key[:2]) for key in player._tracks.tracks}


def values_of(path: Path) -> bytes:
    """All that the file has, inflated."""
    reader = RecordingReader(path)
    begins = [offset for offset, frame in reader.frames() if frame.begins]
    return b"".join(frame.body for begin in begins for frame in reader.segment(begin))


def ids_at_end(path: Path) -> list[str]:
    player = Player(RecordingReader(path))
    player.seek(3600)
    fields = ("rows", "struck", "unseen", "more_unseen", "at_start", "at_end", "searched")
    seen = player.look("tasks", SnapshotPart("rows", fields, ("", "newest")))
    return [] if seen.values is None else [row.id for row in seen.values[0]]


def has_grown(path: Path, holds: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, asked only when the file has grown: to decode all of it takes 0.1 s."""
    seen = 1_000

    def asked() -> bool:
        nonlocal seen
        if path.stat().st_size <= seen:
            return False
        seen = path.stat().st_size
        return holds()

    return asked


def of_task(path: Path, task_id: str) -> bool:
    return ("detail", "task", task_id) in Player(RecordingReader(path))._tracks.tracks


async def test_a_recording_is_replayed_on_every_screen_and_refuses_every_verb(
    database: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "incident.rec"
    await send(connection, "first-task", "other-task", task_name="'shop.pay'")
    iban = f'{{"iban": "{SECRET}", "order": 42}}'
    failed = ", status = 'FAILED', failed_at = now(), error_code = 'CARD_DECLINED'"
    await connection.execute(f"UPDATE horsies_tasks SET kwargs = $1{failed}", iban)
    async with recorded(database, path, task_id="first-task") as pilot:
        await until(pilot, lambda: " REC " in frame(pilot)[0])
        await until(pilot, lambda: "order" in text(pilot))
        await until(pilot, lambda: path.stat().st_size > 100 and of_task(path, "first-task"))
        await pilot.press("escape")
        await send(connection, "late-task", task_name="'shop.late'")
        await until(pilot, lambda: "shop.late" in text(pilot))
        await until(pilot, lambda: "late-task" in ids_at_end(path))
    assert SECRET.encode() not in values_of(path)
    assert b"order" in values_of(path)
    assert parts_of(path) >= {f"{tab.name}/{part}" for tab, part in zip(TABS, FIRST_PARTS, strict=True)}

    async with replayed(path, screen="tasks", speed=16.0) as pilot:
        await until(pilot, lambda: "ended" in frame(pilot)[0])
        await until(pilot, lambda: "shop.late" in text(pilot))
        await until(pilot, lambda: "the recording ends here" in lines(pilot)[-1])
        for key in (tab.key for tab in TABS):
            await pilot.press(key)
            await until(pilot, lambda: "Reading…" not in text(pilot) and "looking at" not in text(pilot))
            assert "Nothing to show" not in text(pilot)
        await pilot.press("2", "home")
        for action in ACTIONS:
            if action.writes and action.id.startswith("verbs."):
                await pilot.press(action.keys[0])
                assert "this is a recording: nothing can be changed" in lines(pilot)[-1], action.id
                assert len(pilot.app.screen_stack) == 1
        await pilot.press("slash", *"status:running", "enter")
        await until(pilot, lambda: "this filter was not on screen while this was recorded" in text(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "shop.late" in text(pilot))
        # The task that was open: of the moment when it was. The other one says that it never was.
        pilot.app.open_task("other-task")
        await until(pilot, lambda: "this task was not on screen while this was recorded" in text(pilot))
        pilot.app.open_task("first-task")
        await until(pilot, lambda: "CARD_DECLINED" in text(pilot))
        assert "this task was on screen until" in text(pilot)
        assert SECRET not in text(pilot)
        # Before the late task was sent.
        await pilot.press("escape", *["comma"] * 6, "left_parenthesis", "p")
        await until(pilot, lambda: "paused" in frame(pilot)[0] and "shop.late" not in text(pilot))
        assert "shop.pay" in text(pilot)
        await pilot.press("at")
        await until(pilot, lambda: "not available in a recording" in lines(pilot)[-1])


async def test_a_disk_that_is_full_ends_the_recording_and_not_the_console(
    database: str, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horsies_tui.recording.recorder.MOST_BYTES", 10)
    async with recorded(database, tmp_path / "a.rec") as pilot:
        await until(pilot, lambda: "the recording has ended: " in text(pilot))
        await until(pilot, lambda: " REC " not in frame(pilot)[0])
        await send(connection, "task", task_name="'shop.pay'")
        await until(pilot, lambda: "shop.pay" in text(pilot))


async def test_a_defect_ends_the_recording_says_so_and_lets_the_console_close(
    database: str, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr("horsies_tui.recording.recorder.Recorder.write", broken)
    async with recorded(database, tmp_path / "a.rec") as pilot:
        await until(pilot, lambda: "the recording has ended: KeyError: 'a defect'" in text(pilot))
        await until(pilot, lambda: " REC " not in frame(pilot)[0])
        await send(connection, "task", task_name="'shop.pay'")
        await until(pilot, lambda: "shop.pay" in text(pilot))


async def test_a_replay_decodes_beside_the_keys_and_goes_on_after_a_part_that_it_cannot_show(
    database: str, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "incident.rec"
    monkeypatch.setattr("horsies_tui.recording.recorder._SEGMENT_S", 0.0)  # each frame begins a segment
    async with recorded(database, path) as pilot:
        for number in range(4):
            ids = [f"task-{at}" for at in range(number, -1, -1)]
            await send(connection, ids[0], task_name="'shop.pay'")
            await until(pilot, lambda sent=ids[0]: sent in text(pilot))
            await until(pilot, has_grown(path, lambda ids=ids: ids_at_end(path) == ids))
    decode, threads = Tracks._segment, list[int]()

    def decode_here(tracks: Tracks, place: int) -> object:
        threads.append(get_ident())
        return decode(tracks, place)

    async with replayed(path, screen="tasks") as pilot:
        await until(pilot, lambda: "task-0" in text(pilot))
        monkeypatch.setattr(Tracks, "_segment", decode_here)
        with monkeypatch.context() as patch:
            patch.setattr(Feed, "_show_recorded", lambda *_: {}["a defect"])
            await pilot.press("greater_than_sign")
            await until(pilot, lambda: "KeyError: 'a defect'" in text(pilot))
        await pilot.press("left_parenthesis", "right_parenthesis")
        await until(pilot, lambda: "task-3" in text(pilot))
    assert threads
    assert get_ident() not in threads


async def test_an_outage_is_in_the_recording(database: str, tmp_path: Path) -> None:
    path = tmp_path / "down.rec"
    async with recorded(database, path, start="down") as pilot:
        await until(pilot, lambda: path.stat().st_size > 200)
    async with replayed(path) as pilot:
        await until(pilot, lambda: "connection: cannot connect to 127.0.0.1:1" in text(pilot))
        assert "down" in frame(pilot)[0]


def test_every_feed_says_what_of_it_is_recorded() -> None:
    """A feed without parts shows nothing in a replay."""
    feeds = {
        each
        for module in walk_packages(horsies_tui.__path__, "horsies_tui.")
        if "__main__" not in module.name
        for each in vars(import_module(module.name)).values()
        if inspect.isclass(each) and issubclass(each, Feed) and hasattr(each, "NAME")  # the bases have none
    }
    assert len(feeds) >= 9
    assert {each.__name__ for each in feeds if each.parts is Feed.parts} == set()


async def test_the_base_set_has_every_screen_and_its_parts_are_fields_of_its_snapshots(database: str) -> None:
    async with console(options(database)) as pilot:
        feeds = (*base_feeds(pilot.app.link), pilot.app.recovery)
        assert {feed.NAME for feed in feeds} == {tab.name for tab in TABS}
        for feed in feeds:
            names = {field.name for field in fields(feed.snapshot)}
            assert {name for part in feed.parts() for name in part.fields} <= names
