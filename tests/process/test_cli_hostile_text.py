"""No text of a row, of the config file or of the command line acts on a terminal, or looks like a line of ours.

The columns are those of the catalog, and the commands and options those of the program: new ones are covered.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cli_steps import printed
from schedule_scene import definition
from setproctitle import getproctitle
from typer.main import get_command

from horsies.cli import main

HOSTILE = "a\nFORGED\r\x1b[2J\x9b\u202e\u2028[/tmp/x]"
"""At its beginning what matters, because the shortest columns are cut."""
MANY = HOSTILE + "\x1b]0;t\x07\x1b]52;c;eA==\x1b\\\u2066\u200b\x7f\x85\x0b[red]" + "x" * 3_000
OWN = {  # columns whose values are not free: a constraint, or a row that no command would look at otherwise
    ("horsies_heartbeats", "role"): "runner",
    ("horsies_looks", "kind"): "stack",
    ("horsies_operator_actions", "outcome"): "refused",
    ("horsies_operator_actions", "target_kind"): "task",
    ("horsies_task_attempts", "outcome"): "FAILED",
    ("horsies_tasks", "status"): "RUNNING",
    ("horsies_workflow_tasks", "status"): "FAILED",
    ("horsies_workflows", "status"): "RUNNING",
}
ENDED = {("horsies_tasks", "status"): "'FAILED'", ("horsies_tasks", "failed_at"): "now()"}
JSON = {  # the shapes that are read; for others a list with a text
    ("horsies_operator_actions", "before_state"): {"status": HOSTILE},
    ("horsies_operator_actions", "after_state"): {"status": HOSTILE},
    ("horsies_schedules", "definition"): json.loads(definition(target=HOSTILE, queue=HOSTILE, args="[]")),
    ("horsies_sweep_state", "report"): {},
    ("horsies_worker_states", "queue_priorities"): {HOSTILE: 1},
    ("horsies_worker_states", "queue_max_concurrency"): {HOSTILE: 1},
    ("horsies_worker_states", "recovery_config"): {},
    ("horsies_workflow_tasks", "args_from"): {HOSTILE: 0},
    ("horsies_workflows", "success_policy"): {"cases": [{"required_indices": [0]}]},
}
NULL = {  # a reference to a row that is not there
    *(("horsies_tasks", name) for name in ("good_until", "next_retry_at", "completed_at", "failed_at")),
    ("horsies_tasks", "finalizing_at"),
    *(("horsies_tasks", name) for name in ("finalizing_by_worker_id", "rerun_of", "uncounted_claim_at")),
    *(("horsies_workflow_tasks", name) for name in ("sub_workflow_id", "sub_definition_key", "sub_workflow_summary")),
    *(("horsies_workflows", name) for name in ("parent_workflow_id", "parent_task_index", "root_workflow_id")),
    ("horsies_operator_actions", "undoes"),
    ("horsies_workflows", "completed_at"),
    ("horsies_workflow_tasks", "task_id"),
}
PAYLOAD = json.dumps({HOSTILE: [MANY, {"__dataclass__": HOSTILE, "exception": MANY}]})
JSON_TEXTS = ("args", "kwargs", "result", "task_args", "task_kwargs", "task_options", "error", "success_policy")
OPERATION = "01a1f759-0000-7000-8000-000000000001"
NAMES = {  # of the rows, as an argument: the text, cut as the column is
    **dict.fromkeys(("task_id", "workflow_id", "ids"), MANY[:36]),
    **dict.fromkeys(("workers", "schedules", "name"), MANY[:255]),
    "queues": MANY[:100],
    "sessions": MANY,
    "node": MANY[:128],
    "operation": OPERATION,
}
SERVICES = {"worker", "scheduler", "metrics", "tui", "demo", "new"}
"""They run until they are stopped, or make a project: of these the refusals are looked at."""

COLUMNS = """
SELECT table_name, column_name, udt_name AS type, character_maximum_length AS longest, is_identity = 'YES' AS own,
       column_default AS usual
  FROM information_schema.columns
 WHERE table_schema = 'public' AND table_name LIKE 'horsies%' AND table_name NOT IN ('horsies_console_schema')
 ORDER BY table_name = 'horsies_workflow_tasks' OR table_name = 'horsies_task_attempts', table_name, ordinal_position
"""


@pytest.fixture(autouse=True)
def _here(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def value_of(column: asyncpg.Record, json_texts: bool) -> str | None:
    """An SQL expression for this column, or None for its default."""
    place, text = (column["table_name"], column["column_name"]), MANY[: column["longest"]]
    if json_texts and place in ENDED:
        return ENDED[place]
    if place in NULL:
        return "NULL"
    if place in OWN:
        return f"'{OWN[place]}'"
    if column["type"] in ("varchar", "text"):
        return quoted(PAYLOAD if json_texts and column["column_name"] in JSON_TEXTS else text)
    if column["type"] == "jsonb":
        return quoted(json.dumps(JSON.get(place, [MANY]))) + "::jsonb"
    if column["type"] in ("_text", "_varchar"):
        return f"ARRAY[{quoted(HOSTILE)}]"
    if column["usual"] is not None or column["own"]:
        return None
    known = {
        "timestamptz": "now()", "uuid": f"'{OPERATION}'", "bool": "false", "float8": "1", "_int4": "'{}'",
        "int4": "0", "int8": "1", "interval": "'1 s'",
    }  # fmt: skip
    return known.get(column["type"])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def fill(conn: asyncpg.Connection, *, json_texts: bool) -> set[tuple[str, str]]:
    """One row in each table. Returns the columns with hostile text."""
    tables: dict[str, dict[str, str]] = {}
    for column in await conn.fetch(COLUMNS):
        value = value_of(column, json_texts)
        if value is not None:
            tables.setdefault(column["table_name"], {})[column["column_name"]] = value
    for table, values in tables.items():
        await conn.execute(f"DELETE FROM {table}")
        await conn.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())})")
    return {(table, name) for table, values in tables.items() for name in values if "FORGED" in values[name]}


@cache
def commands() -> dict[str, Any]:
    root: Any = get_command(main.app)
    found = {name: command for name, command in root.commands.items() if name not in main._GROUPS}
    for name, group in main._GROUPS.items():
        found |= {f"{name} {each}": command for each, command in main._whole(group).commands.items()}
    return found


async def shown(*words: str) -> tuple[str, str]:
    done = await asyncio.to_thread(printed, *words)
    return done.out, done.err


def harmful(text: str) -> list[str]:
    """Characters that a terminal obeys, and lines that look like ours."""
    bad = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char != "\n"}
    return [*map(repr, sorted(bad)), *(line for line in text.split("\n") if line.startswith("FORGED"))]


def reads() -> Iterator[list[str]]:
    """Each command with arguments that fit the rows, and those forms of output that it has."""
    for name, command in commands().items():
        if name in SERVICES or name == "check":
            continue
        options = {parameter.name: parameter for parameter in command.params}
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        words = name.split()
        words += [NAMES[one.name] for one in arguments if one.required]
        words += ["--dry-run", "--filter", "*"] if {"dry_run", "filter_text"} <= options.keys() else []
        words += ["--dry-run"] if "dry_run" in options and "filter_text" not in options else []
        more = {"why": "--why", "everyone": "--all", "value": "--value=1"}
        words += [more[known] for known in more if known in options]
        words += ["--queue=default"] * (name == "tasks move") + ["--priority=1"] * (name == "tasks reprioritise")
        words += ["--now"] * (name == "tasks reschedule")
        forms = [[]] + [["--json"]] * ("as_json" in options) + [["--mermaid"]] * ("mermaid" in options)
        for form in [["--format", "csv"], ["--format", "jsonl"]] if "form" in options else forms:
            yield [*words, *form]
    yield from (
        ["workflows", "show", NAMES["workflow_id"], "--node", NAMES["node"], *form] for form in ([], ["--json"])
    )
    for by in ("task", "worker", "queue", "schedule", "workflow"):
        yield ["audit", "ls", f"--{by}", HOSTILE]


@pytest.mark.parametrize("json_texts", [False, True])
async def test_no_text_of_any_row_acts_on_the_terminal(connection: asyncpg.Connection, json_texts: bool) -> None:
    filled = await fill(connection, json_texts=json_texts)
    assert len({table for table, _ in filled}) >= 15
    said = ""
    for words in reads():
        if words[1:2] in (["stack"], ["logs"]) and not json_texts:
            continue  # of a task that runs they wait for an answer of its worker
        out, err = await shown(*words)
        said += out
        if "csv" in words:
            assert list(csv.reader(io.StringIO(out)))
            out = out.replace("\n", " ")  # in quotation marks they belong to the format
        elif "--json" in words and out:
            json.loads(out)
        assert not harmful(out), words
        assert not harmful(err), words
    assert said.count("FORGED") > 100, "the commands have read the rows"


async def test_json_has_the_values_as_they_are_stored(connection: asyncpg.Connection) -> None:
    await fill(connection, json_texts=True)
    out, _ = await shown("tasks", "show", NAMES["task_id"], "--json")
    task = json.loads(out)["task"]
    assert (task["id"], task["name"]) == (MANY[:36], MANY[:255])
    exported, _ = await shown("tasks", "export", "--format", "jsonl")
    (row,) = map(json.loads, exported.splitlines())
    assert (row["id"], row["name"]) == (MANY[:36], MANY[:255])


WRONG = f"postgresql://bob:hunter2@127.0.0.1:1/shop?options=-c%20app.password%3Dhunter3&{HOSTILE}"


def wrong_lines() -> Iterator[list[str]]:
    """Each command with words that it does not take, and each option once in each group with a wrong value."""
    yield from ([WRONG], ["tasks", WRONG])
    options: dict[tuple[str, str], list[str]] = {}
    for name, command in commands().items():
        words = name.split()
        needed = [HOSTILE for one in command.params if one.param_type_name == "argument" and one.required]
        yield [*words, *[WRONG] * (1 if name in SERVICES else 4)]
        yield [*words, f"--{WRONG}"]
        if any(one.name == "as_json" for one in command.params):
            yield [*words, *[WRONG] * max(len(needed), 1), "--json"]
        for option in command.params:
            takes_text = option.param_type_name == "option" and not option.is_flag
            if takes_text and option.name not in ("record", "serve_host", "host", "metrics_host"):
                group = words[0] if option.name not in ("database_url", "context", "module") else ""
                options[group, option.name] = [*words, *needed, f"{option.opts[0]}={WRONG}"]
    yield from options.values()


async def test_no_word_of_the_command_line_acts_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one show its password, because it is a URL that belongs elsewhere."""
    monkeypatch.setenv("COLUMNS", "1000")
    for words in wrong_lines():
        out, err = await shown(*words)
        assert not harmful(out + err), words
        assert "hunter" not in out + err + getproctitle(), words
        assert "MarkupError" not in err, words


async def test_no_name_in_the_config_file_acts_on_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "horsies" / "config.toml"
    file.parent.mkdir()
    hostile = json.dumps(HOSTILE)
    context = f'[contexts.{hostile}]\nurl = "postgresql://u@127.0.0.1:1/x"\n'
    wrong = [
        f"default_context = {hostile}\n",
        f"default_context = {hostile}\n{context}",
        f"{context}production = true\nread_only = true\n",
        f"{context}colour = {hostile}\n",
        f"[contexts.{hostile}]\nurl = {hostile}\n",
        f"theme = {hostile}\nmask_arguments = [{hostile}]\n",
        f"{hostile} = {hostile}\n",
        f"[{hostile}]\n{hostile} = {hostile}\n",
        f"[keys]\n{hostile} = {hostile}\n",
        f"[filters]\n{hostile} = {hostile}\n",
        HOSTILE,
    ]
    for text in wrong:
        file.write_text(text, "utf-8")
        for words in (["db", "status"], ["queues", "pause", "q"], ["db", "prune"], ["tui"]):
            for context_option in ([], ["--context", "other"], ["--context", HOSTILE]):
                out, err = await shown(*words, *context_option)
                assert not harmful(out + err), (text, words, context_option)
