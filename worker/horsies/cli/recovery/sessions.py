"""`horsies sessions`: list those whose locks hold up ours. The verbs are added from their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from horsies.cli.options import DatabaseOptions, JsonOption, on_database

if TYPE_CHECKING:
    from horsies.cli.read_session import ReadSession
    from horsies.findings.blockers import Blocker

_NUMBERS = frozenset({"PID", "OPEN", "BLOCKS", "FOR"})

app = typer.Typer(
    name="sessions", help="List database sessions that hold up ours, cancel or terminate them.", no_args_is_help=True
)


@app.command("ls")
@on_database
def ls(as_json: JsonOption = False, *, database: DatabaseOptions) -> None:
    """List sessions of the server whose locks the workers, the console or a command wait for.

    It reads no table of ours, so it answers while those are locked. The exit code is 0, and 1 if a session is listed.
    `--json` prints `sessions`.
    """
    import sys

    from horsies.cli.read_session import read_server
    from horsies.display.formatting import ago
    from horsies.display.json_output import print_json
    from horsies.display.terminal import Screen, TableColumn, say, table
    from horsies.findings.blockers import blockers

    async def work(session: ReadSession) -> tuple[Blocker, ...]:
        return await blockers(session.connection, readers_only=False)

    found = read_server(database.choose_existing(), "sessions ls", work)
    if as_json:
        print_json({"sessions": found})
    elif not found:
        say("no session of ours waits for a lock")
    else:
        titles = ("PID", "SESSION", "STATE", "OPEN", "BLOCKS", "FOR", "STATEMENT")
        columns = [TableColumn(title, right=title in _NUMBERS, rank=title == "STATEMENT") for title in titles]
        screen = Screen.of(sys.stdout)
        rows = [
            (
                str(one.pid),
                one.who.removeprefix(one.name).strip(),
                one.state or "hidden",
                ago(one.open_since, one.now),
                str(one.blocked),
                ago(one.blocks_since, one.now),
                one.statement,
            )
            for one in found
        ]
        for line in table(columns, rows, screen):
            say(line)
        for one in found:
            say(f"{one.remedy} ends what pid {one.pid} holds up")
    if found:
        raise typer.Exit(1)
