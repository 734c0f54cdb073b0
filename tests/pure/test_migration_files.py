"""The files of the schema: documented, each object created once, and nothing that would break their transaction."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from horsies.store.schema import LOCK_KEY, MIGRATIONS, Migration, SchemaError, script
from horsies.store.schema.migrations import SCHEMA_VERSION, application, beginning, sql_file
from horsies.store.schema.upgrade import require_server

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
    for statement in re.findall(r"^CREATE (?!OR REPLACE).*|^DROP .*|ADD COLUMN .*", code(migration.sql), re.MULTILINE):
        assert re.search(r"IF (NOT )?EXISTS", statement), statement


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


def test_a_migration_waits_for_a_lock_for_five_seconds_at_most() -> None:
    assert "SET LOCAL lock_timeout = '5000ms';" in script(MIGRATIONS, "public")


def test_a_schema_with_quotes_in_its_name_stays_a_name() -> None:
    assert 'SET LOCAL search_path TO "a""; DROP TABLE b; --", pg_temp;' in beginning('a"; DROP TABLE b; --')


def test_the_lock_timeout_is_given_in_milliseconds() -> None:
    assert "SET LOCAL lock_timeout = '250ms';" in application(MIGRATIONS[0], 0.25)
