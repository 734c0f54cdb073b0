"""The order of the sources that name a database, what is said of the others, and the guards of contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from horsies.config.contexts import ORDER, NamedApplication, advise, choose_database, config_path
from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError

APPLICATION = NamedApplication("shop:app", DatabaseUrl.parse("postgresql://app:hunter2@db01/shop"))
ALL = {"HORSIES_DATABASE_URL": "postgresql://h/ours", "DATABASE_URL": "postgresql://h/theirs"}
FILE = """
default_context = "staging"
[contexts.staging]
url = "postgresql://ops@staging/shop"
[contexts.prod]
url = "postgresql://ops@db01/shop"
production = true
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose config file is FILE."""
    (tmp_path / "horsies").mkdir()
    (tmp_path / "horsies" / "config.toml").write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_each_source_is_taken_when_those_before_it_are_not_set(environ: dict[str, str]) -> None:
    full = environ | ALL
    sources: list[tuple[str, dict[str, str], NamedApplication | None]] = [
        ("HORSIES_DATABASE_URL", full, APPLICATION),
        ("the application shop:app", environ | {"DATABASE_URL": ALL["DATABASE_URL"]}, APPLICATION),
        ("DATABASE_URL", environ | {"DATABASE_URL": ALL["DATABASE_URL"]}, None),
        ("default context 'staging'", environ, None),
        ("embedded PostgreSQL", {"XDG_CONFIG_HOME": "/nowhere"}, None),
    ]
    for says, variables, application in sources:
        assert says in choose_database(None, None, variables, application).reason, says
    assert choose_database("postgresql://h/zero", None, full, APPLICATION).reason == "given by --database-url"
    assert choose_database(None, "prod", full, APPLICATION).reason == "context 'prod', given by --context"
    assert len(ORDER) == 1 + len(sources)


def test_every_source_that_means_another_database_is_named_without_its_password(environ: dict[str, str]) -> None:
    others = choose_database(None, None, environ | ALL, APPLICATION).passed_over
    assert [(str(other.url), other.by_application) for other in others] == [
        ("postgresql://app:***@db01/shop", True),
        ("postgresql://h/theirs", False),
        ("postgresql://ops@staging/shop", False),
    ]
    assert "hunter2" not in repr(others)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://u:x@localhost/shop", "postgresql+asyncpg://v@127.0.0.1:5432/shop", True),
        ("postgresql://u@db01/shop", "postgresql://u@DB01:5432/shop?sslmode=require", True),
        ("postgresql://shop@db01", "postgresql://u@db01/shop", True),
        ("postgresql://u@a,b/shop", "postgresql://u@b,a/shop", True),
        ("postgresql://u@db01/shop", "postgresql://u@db01:6432/shop", False),
        ("postgresql://u@db01/shop", "postgresql://u@db01/shop2", False),
        ("embedded:///tmp/a", "embedded:///tmp/a", True),
        ("embedded:///tmp/a", "embedded:///tmp/b", False),
    ],
)
def test_two_spellings_of_one_database_do_not_disagree(one: str, other: str, same: bool, tmp_path: Path) -> None:
    application = NamedApplication("shop:app", DatabaseUrl.parse(other))
    chosen = choose_database(one, None, {"XDG_CONFIG_HOME": str(tmp_path)}, application)
    assert (chosen.passed_over == ()) is same


def test_a_variable_of_other_programs_does_not_disturb_what_comes_before_it(environ: dict[str, str]) -> None:
    foreign = environ | {"DATABASE_URL": "sqlite:///db.sqlite3"}
    assert choose_database(None, None, foreign, APPLICATION).url == APPLICATION.url


@pytest.mark.parametrize(
    ("option", "variable", "application"),
    [
        (None, None, APPLICATION),
        ("postgresql://other@db01:5432/shop", None, None),
        (None, "postgresql://app@db01/shop", None),
    ],
)
def test_a_production_database_keeps_its_guard_however_it_is_named(
    option: str | None, variable: str | None, application: NamedApplication | None, environ: dict[str, str]
) -> None:
    variables = environ | ({} if variable is None else {"HORSIES_DATABASE_URL": variable})
    context = choose_database(option, None, variables, application).context
    assert context is not None
    assert (context.name, context.production) == ("prod", True)
    assert choose_database("postgresql://h/zero", None, environ).context is None


@pytest.mark.parametrize("text", ["default_context = ", 'colour = "red"'])
def test_a_mistake_in_the_config_file_stops_no_worker_on_its_own_database(environ: dict[str, str], text: str) -> None:
    path = config_path(environ)
    assert path is not None
    path.write_text(text)
    chosen = choose_database(None, None, environ | ALL, APPLICATION, guarded=False)
    assert (chosen.reason, chosen.context) == ("from the environment variable HORSIES_DATABASE_URL", None)
    for option, context in ((None, None), ("postgresql://h/zero", None), (None, "prod")):
        with pytest.raises(ConfigurationError, match=r"config\.toml"):
            choose_database(option, context, environ | ALL, APPLICATION)


def test_of_two_contexts_of_one_database_the_stricter_one_holds(environ: dict[str, str]) -> None:
    path = config_path(environ)
    assert path is not None
    path.write_text(f'{FILE}[contexts.look]\nurl = "postgresql://ops@db01/shop"\nproduction = true\nread_only = true\n')
    assert choose_database(None, None, environ, APPLICATION).read_only
    assert not choose_database(None, "prod", environ, APPLICATION).read_only


def test_advice_names_the_database_that_it_is_about(environ: dict[str, str]) -> None:
    text = "schema public has no horsies tables; `horsies db init` creates them, then `horsies db status`"
    by_application = choose_database(None, None, environ, APPLICATION)
    assert advise(text, by_application.options) == (
        "schema public has no horsies tables; `horsies db init --module shop:app` creates them,"
        " then `horsies db status --module shop:app`"
    )
    by_option = choose_database("postgresql://u:hunter2@h/zero", None, environ)
    assert "`horsies db init --database-url 'postgresql://u:***@h/zero'`" in advise(text, by_option.options)
    assert advise(text, choose_database(None, None, environ | ALL).options) == text


def test_other_commands_get_a_module_or_a_context_and_never_a_masked_url(environ: dict[str, str]) -> None:
    undo = "horsies audit undo 7f3a"
    by_context = choose_database(None, "prod", environ)
    assert advise(undo, by_context.options) == "horsies audit undo --context prod 7f3a"
    assert advise(undo, choose_database("postgresql://u:hunter2@h/d", None, environ).options) == undo
    already = "horsies workflows complete 7f3a paid --module shop:app"
    assert advise(already, by_context.options) == already
