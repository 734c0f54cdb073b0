"""The frame and its database: one that is down, another one, and one that takes no writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
from database_server import url_with
from feed_steps import send
from frame_steps import console, frame, lines, live, options, until

from horsies.store.connect import Database
from horsies.store.embedded import EmbeddedPlace, EmbeddedServer, acquire
from horsies.store.schema import create
from horsies_tui.shell.picker import Picker
from horsies_tui.shell.views import TABS


async def test_a_context_may_be_read_only_by_itself(database: str) -> None:
    async with console(options(database, context={"read_only": True})) as pilot:
        await live(pilot)
        assert (pilot.app.why_no_writes() or "").startswith("read-only")


async def test_a_database_that_does_not_answer_shows_the_others_instead_of_an_empty_board(database: str) -> None:
    async with console(options(database, start="down")) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await until(pilot, lambda: any("cannot connect to 127.0.0.1:1" in line for line in lines(pilot)))
        assert (pilot.app.why_no_writes() or "").startswith("not connected: DOWN")
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, Picker)
        await pilot.press("j", "k", "enter")
        await live(pilot)
        assert "shop" in lines(pilot)[0]
        assert pilot.app.screen is pilot.app.screen_stack[0]


async def test_a_database_that_comes_up_later_takes_the_picker_away(
    embedded_server: EmbeddedServer, embedded_database: str, short_directory: Path
) -> None:
    sockets, late = embedded_server.place.sockets, short_directory / "late"
    async with console(options(embedded_database.replace(str(sockets), str(late)))) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        late.symlink_to(sockets)
        await pilot.press("ctrl+r")
        await live(pilot)
        await until(pilot, lambda: pilot.app.screen is pilot.app.screen_stack[0])
    late.unlink()


async def test_the_header_says_where_one_is_and_another_context_keeps_nothing_of_the_one_before(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "task", queue_name="'of-shop'")
    async with console(options(database)) as pilot:
        await live(pilot)
        header, tabs = lines(pilot)[:2]
        assert header.split()[:3] == ["horsies", "shop", "▸"]
        assert str(pilot.app.link.actor) in header
        assert header.rstrip().endswith("Z")
        assert tabs.split() == [word for tab in TABS for word in (tab.key, tab.title)]
        first_link, first_view = pilot.app.link, pilot.app.query_one("#tasks")
        await pilot.press("colon")
        await until(pilot, lambda: pilot.app._known().values["tasks"].get("queue") == ("of-shop",))
        await pilot.press("escape")
        await pilot.press("at")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await pilot.press("down", "enter")
        await until(pilot, lambda: pilot.app.link is not first_link)
        await until(pilot, lambda: not first_view.is_attached)
        await until(pilot, lambda: "down" in frame(pilot)[0])
        assert not first_view.shown
        assert "queue" not in pilot.app._known().values["tasks"]
        assert "LIVE" not in frame(pilot)[0]


async def test_a_database_without_our_tables_says_once_which_command_makes_them(empty_database: str) -> None:
    async with console(options(empty_database)) as pilot:
        await until(pilot, lambda: "horsies db init" in lines(pilot)[-1])
        (told,) = [error for error in pilot.app._errors.lines if error.text == "; ".join(pilot.app.link.status.lacks)]
        assert told.times == 1
        await until(pilot, lambda: not any("counting" in line for line in lines(pilot)))
        assert not any("relation" in line for line in lines(pilot))


async def test_an_embedded_database_has_a_short_name(embedded_server: EmbeddedServer) -> None:
    async with console(options(f"embedded://{embedded_server.place.root}"), (140, 24)) as pilot:
        await live(pilot)
        assert f"▸ embedded {embedded_server.place.root} " in lines(pilot)[0]


async def test_a_role_that_may_only_read_is_shown_read_only_and_offered_no_writes(
    database: str, connection: asyncpg.Connection, role: str
) -> None:
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    async with console(options(url_with(database, role=role)), (140, 30)) as pilot:
        await until(pilot, lambda: "READ-ONLY" in frame(pilot)[0])
        await pilot.press("C")
        await until(pilot, lambda: f"read-only: role {role} may not change horsies_tasks" in lines(pilot)[-1])


async def test_a_server_whose_configuration_makes_transactions_read_only_is_shown_so(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No role may read postgresql.conf, and the console's own sessions are always read-only."""
    monkeypatch.setattr(Database, "probe_interval_s", 0.5)  # the server reports it with its answer to the next probe
    held = acquire(EmbeddedPlace(short_directory))
    prepared = await asyncpg.connect(held.url)
    await create(prepared)
    await prepared.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    await prepared.execute("SELECT pg_reload_conf()")
    async with console(options(held.url), (140, 30)) as pilot:
        await until(pilot, lambda: "LIVE" in frame(pilot)[0] and "READ-ONLY" in frame(pilot)[0])
        assert pilot.app.why_no_writes() == "read-only: transactions of this server are read-only by default"
        await prepared.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await prepared.execute("SELECT pg_reload_conf()")

        async def looked_again() -> bool:
            await pilot.app.link.read(pilot.app.link._inspect)
            return "READ-ONLY" not in frame(pilot)[0]

        async with asyncio.timeout(10):
            while not await looked_again():
                await pilot.pause(0.05)
        await prepared.close()
    held.release()
