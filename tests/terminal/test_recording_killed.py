"""A console that is killed while it records leaves a recording that is replayed, up to its last whole frame."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from pty_console import PtyConsole
from typer.testing import CliRunner

from horsies.cli.main import app
from horsies_tui.recording.file import RecordingReader


@pytest.mark.chaos  # two seconds of processor time
async def test_what_a_killed_console_recorded_is_replayed_without_a_database(
    quiet: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "incident.rec"
    with PtyConsole(quiet, "--record", str(path)) as console:
        await asyncio.to_thread(console.until_ready)
        await asyncio.to_thread(console.until, "REC")
        await asyncio.to_thread(_grow, console, path)
        console.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(console.process.wait, 5)
    with path.open("r+b") as file:
        file.truncate(os.fstat(file.fileno()).st_size - 3)  # as if it had died in the middle of a write
    nowhere = {**quiet, "HORSIES_DATABASE_URL": "postgresql://ops@127.0.0.1:1/app"}
    with PtyConsole(nowhere, "--replay", str(path), "--speed", "64") as console:
        await asyncio.to_thread(console.until, "REPLAY ended", "shop.", "the recording ends here")
        console.type("q")
        assert await asyncio.to_thread(console.end) == 0
        assert console.is_as_found


def _grow(console: PtyConsole, path: Path) -> None:
    """Until there are three frames, of which the last may go."""
    while sum(1 for _ in RecordingReader(path).frames()) < 3:
        console.pass_time(0.1)


def test_a_foreign_file_and_options_that_contradict_are_refused(environ: dict[str, str], tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("not a recording")
    with PtyConsole(environ, "--replay", str(foreign)) as console:
        assert console.end() == 1
        told = "".join(console.lines)  # a long path goes on in the next line
        assert "notes.txt is not a recording of horsies tui" in told
        assert "horsies tui --record FILE makes one" in told
    refused = CliRunner().invoke(app, ["tui", "--replay", str(foreign), "--context", "shop"])
    assert refused.exit_code == 2
    assert "--replay shows no database" in refused.output
