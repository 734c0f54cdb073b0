"""The SQL files of the engine, their statements and migrations; large changes in small ones; coalesced calls."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from statements import statements

import horsies
from horsies.domain.errors import ErrorCode
from horsies.lifecycle import finishing
from horsies.operations.task_targets import change_statement
from horsies.operations.undo import undo_statement
from horsies.operations.verb import TaskVerb
from horsies.operations.verbs import VERBS
from horsies.store.callers import _named
from horsies.store.connect import DatabaseUnavailable
from horsies.store.isolate_bad_rows import ROW_ERRORS, RejectedItem, isolate_bad_rows
from horsies.store.producer_client import Coalescer
from horsies.store.schema import LOCK_KEY, MIGRATIONS, Migration, SchemaError, script
from horsies.store.schema.migrations import SCHEMA_VERSION, application, beginning, sql_file
from horsies.store.schema.upgrade import require_server
from horsies.store.statements import STATES, statement, tokens, without_comments

ENGINE = Path(horsies.__file__).parent
FILES = [file for file in sorted(ENGINE.rglob("*.sql")) if "schema" not in file.parts]


BESIDE_MODULES = [file for file in FILES if file.stem != "fragments"]


@pytest.mark.parametrize("file", BESIDE_MODULES, ids=[str(file.relative_to(ENGINE)) for file in BESIDE_MODULES])
def test_the_module_beside_it_runs_each_of_its_statements(file: Path) -> None:
    text = file.read_text()
    names = re.findall(r"^-- name: (\w+)\n", text, re.MULTILINE)
    module = file.with_suffix(".py").read_text()
    missing = [name for name in names if f'"{name}"' not in module and f"/* {name} */" not in text]
    assert names
    assert missing == []


def test_a_shared_fragment_has_several_users() -> None:
    texts = [text for file in FILES for text in re.split(r"^-- name: ", file.read_text(), flags=re.MULTILINE)[1:]]
    for file in FILES:
        if file.stem == "fragments":
            names = re.findall(r"^-- name: (\w+)\n-- fragment", file.read_text(), re.MULTILINE)
            assert len(names) == file.read_text().count("-- name: ")
            assert [name for name in names if sum(f"/* {name} */" in text for text in texts) < 2] == []


WRITES = re.compile(
    r"\b(?:INSERT INTO|UPDATE|DELETE FROM) (/\* \w+ \*/|horsies_(?:tasks|workflows|workflow_tasks|task_attempts)\b)"
)


def test_only_the_lifecycle_sends_and_verbs_write_tasks_and_only_the_lifecycle_workflows() -> None:
    writers: dict[str, set[str]] = {}
    for file in FILES:
        path = file.relative_to(ENGINE)
        if path.parts[0] != "lifecycle":
            for table in WRITES.findall(file.read_text()):
                writers.setdefault(table, set()).add(str(path))
    assert writers == {
        "/* new_task */": {
            "operations/verbs/rerun.sql",
            "operations/verbs/schedules.sql",
            "store/enqueue.sql",
        },
        "horsies_tasks": {"operations/undo.sql", "operations/task_targets.sql", "testing/draining.sql"},
        "horsies_task_attempts": {"fragments.sql"},
    }


def test_lists_of_open_and_of_ended_states_are_named() -> None:
    texts = {file.name: file.read_text() for file in FILES}
    assert [
        (name, listed) for name, text in texts.items() for listed in STATES.values() if f"IN {listed}" in text
    ] == []


@pytest.mark.parametrize("name", statements())
def test_the_first_line_says_who_runs_it(name: str) -> None:
    assert re.match(r"-- \S", statements()[name])


HOSTILE = {
    "-- $1 of a caller\nSELECT $1": "SELECT %(p1)s",
    "SELECT $1--$2\r, $2": "SELECT %(p1)s , %(p2)s",
    "/* $1 /* $2 */ $3 */ SELECT 1": "SELECT 1",
    "SELECT a/* $1 */b": "SELECT a b",
    "SELECT '$1 -- ''/*', $1": "SELECT '$1 -- ''/*', %(p1)s",
    "SELECT E'\\' $1 -- ', '\\', $1": "SELECT E'\\' $1 -- ', '\\', %(p1)s",
    "SELECT E'a'\n  'b\\' -- $1', $1": "SELECT E'a'\n  'b\\' -- $1', %(p1)s",
    "SELECT name'$1', e'\\'$1'": "SELECT name'$1', e'\\'$1'",
    'SELECT "$1 -- ""/*" FROM x': 'SELECT "$1 -- ""/*" FROM x',
    "DO $$ -- $1\n BEGIN END $$": "DO $$ -- $1\n BEGIN END $$",
    "DO $a$ $$ $1 $b$ $a$": "DO $a$ $$ $1 $b$ $a$",
    "SELECT a$1, $12::text || $1": "SELECT a$1, %(p12)s::text || %(p1)s",
    "SELECT 1 % 2 LIKE '%$1'": "SELECT 1 %% 2 LIKE '%%$1'",
    "SELECT /* place */ -- $1": "SELECT /* place */",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_only_what_postgresql_takes_for_a_parameter_is_one(text: str) -> None:
    assert _named(without_comments(text)).strip() == HOSTILE[text]
    assert "".join(part for _, part in tokens(text)) == text


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a', "SELECT E'a\\'", "SELECT $a$ $b$", "SELECT /* /* */"])
def test_a_quote_or_a_comment_that_does_not_end_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="does not end"):
        without_comments(text)


def prepared() -> Iterator[tuple[str, str]]:
    """Each statement as it is run, as far as it is made of texts alone."""
    for file in FILES:
        module = ".".join(("horsies", *file.relative_to(ENGINE).with_suffix("").parts))
        for name in re.findall(r"^-- name: (\w+)\n", file.read_text(), re.MULTILINE):
            yield name, statement(module, name)
    for verb in VERBS.values():
        if isinstance(verb, TaskVerb):
            yield verb.name, change_statement(verb)
    yield "undo_tasks", undo_statement("undo_tasks")
    yield "finish_and_claim", finishing.finish_and_claim_statement(follows=True, searches=True)


def test_a_place_without_a_fragment_is_filled_by_a_caller() -> None:
    callers = "".join(file.read_text() for file in ENGINE.rglob("*.py"))
    places = {place for _, text in prepared() for place in re.findall(r"/\* (\w+) \*/", text)}
    assert "rows" in places
    assert [place for place in sorted(places) if not re.search(rf'\b{place}=|"{place}"', callers)] == []


def test_what_is_sent_has_no_comment_but_its_name() -> None:
    for name, text in prepared():
        parts = [(kind, part) for kind, part in tokens(text) if not re.fullmatch(r"/\* \w+ \*/", part)]
        assert [kind for kind, _ in parts].count("comment") == 1, name
        assert re.fullmatch(r"-- \w+", parts[0][1])
        # A negative number behind it would begin a comment where a driver writes values into the text.
        assert ("sign", "-") not in [before for before, here in pairwise(parts) if here[0] == "parameter"], name
        named = [part for kind, part in tokens(_named(text)) if kind == "parameter"]
        assert named == [], name


PLACE = Path(str(files("horsies.store.schema")))
SQL_FILES = sorted(str(path.relative_to(PLACE)) for path in PLACE.rglob("*.sql"))
SCHEMA = MIGRATIONS[0]

by_name = pytest.mark.parametrize("migration", MIGRATIONS, ids=lambda migration: migration.name)


def code(sql: str) -> str:
    return re.sub(r"--.*", "", sql)


def test_versions_count_from_that_of_the_schema_without_a_gap() -> None:
    assert (SCHEMA.version, SCHEMA.name) == (SCHEMA_VERSION, "schema") == (16, "schema")
    assert [migration.version for migration in MIGRATIONS] == list(range(16, 16 + len(MIGRATIONS)))


def test_each_file_of_the_schema_is_a_part_of_it() -> None:
    parts = [name for name in SQL_FILES if name.startswith("tables/")]
    assert len(parts) > 1
    for name in parts:
        assert sql_file(name) in SCHEMA.sql, name


def test_the_schema_makes_each_thing_once() -> None:
    kind_and_name = r"^CREATE (?:OR REPLACE |UNIQUE |UNLOGGED )?(\w+) (?:IF NOT EXISTS )?(\w+)"
    made = re.findall(kind_and_name, SCHEMA.sql, re.MULTILINE)
    assert {"TABLE", "INDEX", "FUNCTION", "TRIGGER"} == {kind for kind, _ in made}
    assert not [thing for thing, times in Counter(made).items() if times > 1]
    assert len(made) > 80


def test_the_lock_key_is_the_digest_that_every_release_takes() -> None:
    assert LOCK_KEY == 8007422117488674519


@pytest.mark.parametrize("name", SQL_FILES)
def test_the_first_line_says_what_the_file_does_and_who_runs_it(name: str) -> None:
    first = (PLACE / name).read_text("utf-8").splitlines()[0]
    assert re.fullmatch(r"-- .+ by \w+\.py.*", first)


@by_name
def test_a_migration_leaves_the_transaction_to_its_caller(migration: Migration) -> None:
    outside_functions = re.sub(r"\$\$.*?\$\$", "", code(migration.sql), flags=re.DOTALL)
    assert not re.search(r"\b(BEGIN|COMMIT|ROLLBACK|CONCURRENTLY|VACUUM)\b", outside_functions, re.IGNORECASE)


@by_name
def test_a_migration_names_no_schema_so_that_the_search_path_decides(migration: Migration) -> None:
    assert "public" not in code(migration.sql)


@by_name
def test_a_migration_can_be_applied_where_its_objects_exist(migration: Migration) -> None:
    for change in re.findall(r"^CREATE (?!OR REPLACE).*|^DROP .*|ADD COLUMN .*", code(migration.sql), re.MULTILINE):
        assert re.search(r"IF (NOT )?EXISTS", change), change


@by_name
def test_the_script_holds_each_migration_whole_between_lock_and_commit(migration: Migration) -> None:
    text = script([migration], "public")
    assert text.startswith(f"-- {migration.version:03d} {migration.name}\nBEGIN;\n")
    assert text.endswith("COMMIT;\n")
    assert text.index(f"pg_advisory_xact_lock({LOCK_KEY})") < text.index(migration.sql)
    assert text.index(migration.sql) < text.index(f"VALUES ({migration.version}, '{migration.name}')")


@by_name
def test_the_script_tells_an_administrator_nothing_about_our_files(migration: Migration) -> None:
    assert not re.search(r"\w\.(py|sql)\b|in braces", script([migration], "public"))


def test_an_old_server_is_named_with_the_oldest_that_will_do() -> None:
    with pytest.raises(SchemaError) as caught:
        require_server(130023)
    assert caught.value.message == "the server is PostgreSQL 13, the schema needs 14 or later"
    require_server(140000)


def test_a_schema_with_quotes_in_its_name_stays_a_name() -> None:
    assert 'SET LOCAL search_path TO "a""; DROP TABLE b; --", pg_temp;' in beginning('a"; DROP TABLE b; --')


def test_the_lock_timeout_is_given_in_milliseconds() -> None:
    assert "SET LOCAL lock_timeout = '250ms';" in application(MIGRATIONS[0], 0.25)


async def halves(numbers: Sequence[int]) -> list[float]:
    return [1 / number for number in numbers]


async def test_an_item_whose_row_is_damaged_costs_the_others_nothing() -> None:
    done = await isolate_bad_rows([[1, 0, 2], [4]], halves, damage=ROW_ERRORS)
    assert done.answers == [[1.0], [0.5], [0.25]]
    assert done.refused == [RejectedItem(0, "ZeroDivisionError: division by zero")]


async def test_an_error_that_is_no_damage_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        await isolate_bad_rows([[1, 0]], halves)


async def test_a_database_that_is_away_is_no_fault_of_an_item() -> None:
    async def away(_: Sequence[int]) -> None:
        raise DatabaseUnavailable("it is away", help_text="start it", transient=False)

    with pytest.raises(DatabaseUnavailable) as raised:
        await isolate_bad_rows([[1, 2]], away, damage=ROW_ERRORS)
    assert raised.value.code is ErrorCode.BROKER_INVALID_URL


MOST = 5


class Doubling:
    """Doubles numbers, refuses negative ones, and fails as a whole at zero."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.in_flight = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.coalescer: Coalescer[int, int] = Coalescer(self.run, most=MOST)

    async def run(self, items: Sequence[int]) -> list[int | BaseException]:
        self.batches.append(list(items))
        self.in_flight += 1
        assert self.in_flight == 1
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        if 0 in items:
            raise ZeroDivisionError
        return [ValueError(item) if item < 0 else 2 * item for item in items]


async def test_a_lone_caller_is_answered_in_his_own_task() -> None:
    doubling = Doubling()
    before = asyncio.all_tasks()
    seen: set[asyncio.Task[object]] = set()
    doubling.gate.clear()
    caller = asyncio.create_task(doubling.coalescer.ask(4))
    await asyncio.sleep(0)
    seen = asyncio.all_tasks() - before
    doubling.gate.set()
    assert await caller == 8
    assert seen == {caller}


async def test_calls_during_a_run_share_the_next() -> None:
    doubling = Doubling()
    assert await asyncio.gather(*(doubling.coalescer.ask(number) for number in range(1, 5))) == [2, 4, 6, 8]
    assert doubling.batches == [[1], [2, 3, 4]]


async def test_a_batch_has_its_limit() -> None:
    doubling = Doubling()
    await asyncio.gather(*(doubling.coalescer.ask(number) for number in range(1, 14)))
    assert [len(batch) for batch in doubling.batches] == [1, 5, 5, 2]


async def test_a_refused_item_fails_alone_and_a_failed_run_fails_all_of_it() -> None:
    doubling = Doubling()
    asked = [doubling.coalescer.ask(number) for number in (-1, 1, -2, 2, 3, 4, 0, 5)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert doubling.batches == [[-1], [1, -2, 2, 3, 4], [0, 5]]
    assert [str(answer) if isinstance(answer, ValueError) else answer for answer in answers[:6]] == [
        *("-1", 2, "-2", 4, 6, 8)
    ]
    assert [type(answer) for answer in answers[6:]] == [ZeroDivisionError, ZeroDivisionError]
    assert await doubling.coalescer.ask(7) == 14


async def test_cancelled_callers_hold_up_no_other() -> None:
    doubling = Doubling()
    doubling.gate.clear()
    first, second, third = (asyncio.create_task(doubling.coalescer.ask(number)) for number in (1, 2, 3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    doubling.gate.set()
    assert await third == 6
    for gone in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await gone
    assert await doubling.coalescer.ask(4) == 8


@given(st.lists(st.lists(st.integers(-3, 9), max_size=8), max_size=6))
def test_everyone_gets_the_answer_to_his_own_question(waves: list[list[int]]) -> None:
    async def ask_all() -> None:
        doubling = Doubling()
        asked: list[tuple[int, asyncio.Task[int]]] = []
        for wave in waves:
            asked += [(number, asyncio.create_task(doubling.coalescer.ask(number))) for number in wave]
            await asyncio.sleep(0)
        await asyncio.gather(*(task for _, task in asked), return_exceptions=True)
        broken = {number for batch in doubling.batches if 0 in batch for number in batch}
        for number, task in asked:
            if error := task.exception():
                assert number in broken if isinstance(error, ZeroDivisionError) else error.args == (number,)
            else:
                assert task.result() == 2 * number
        assert sorted(number for batch in doubling.batches for number in batch) == sorted(n for n, _ in asked)

    asyncio.run(ask_all())
