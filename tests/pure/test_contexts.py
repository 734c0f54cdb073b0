"""Which database a command uses, the order of the sources that name one, and the errors of a wrong config file."""

from __future__ import annotations

from pathlib import Path

import pytest

from horsies.config.contexts import ORDER, NamedApplication, advise, choose_database, config_path, read_config_file
from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError

FILE = """
default_context = "staging"

[contexts.staging]
url = "postgresql://ops@staging/app"

[contexts.prod]
url = "postgresql://ops:hunter2@db01/app"
colour = "red"
production = true
read_only = true
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose config file is FILE."""
    path = tmp_path / "horsies" / "config.toml"
    path.parent.mkdir()
    path.write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_a_foreign_database_url_in_the_environment_is_named_as_the_culprit(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="it comes from DATABASE_URL") as caught:
        choose_database(None, None, {"XDG_CONFIG_HOME": str(tmp_path), "DATABASE_URL": "mysql://u:hunter2@h/d"})
    assert "hunter2" not in str(caught.value)


def test_an_unknown_context_lists_the_known_ones_and_suggests(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_database(None, "prd", environ)
    assert "did you mean 'prod'?" in caught.value.message
    assert caught.value.help_text == "available contexts: prod, staging"


def test_a_context_without_any_config_file_says_how_to_add_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_database(None, "prod", {"XDG_CONFIG_HOME": str(tmp_path)})
    assert "[contexts.prod]" in (caught.value.help_text or "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[contexts.prod\nurl='x:hunter2'", "not valid TOML: Expected ']'"),
        ("contexts = 3", "contexts is not a table"),
        ("[contexts]\nprod = 'postgresql://h/d'", "contexts.prod is not a table"),
        ("[contexts.prod]\ncolour = 'red'", "contexts.prod has no url"),
        ("[contexts.prod]\nurl = 5", "contexts.prod has no url"),
        ("[contexts.prod]\nurl = 'mysql://u:hunter2@h/d'", "mysql:// is not PostgreSQL"),
        (
            "[contexts.prod]\nurl = 'postgresql://h/d'\ncolor = 'red'",
            "unknown key contexts.prod.color; did you mean 'colour'?",
        ),
        ("[contexts.prod]\nurl = 'postgresql://h/d'\ncolour = 'pink'", "'pink' is not a colour"),
        ("[contexts.prod]\nurl = 'postgresql://h/d'\nproduction = 'yes'", "production is neither true nor false"),
        ("default_contxt = 'prod'", "unknown key default_contxt; did you mean 'default_context'?"),
        ("default_context = 3", "default_context is not a string"),
        ("default_context = 'prod'", "no context 'prod'"),
        ("them = 'ansi'", "unknown key them; did you mean 'theme'?"),
        ("mask_arguments = 'password'", "mask_arguments is not a list of argument names"),
        ("mask_arguments = ['password', 3]", "mask_arguments is not a list of argument names"),
        ("mask_arguments = ['']", "mask_arguments is not a list of argument names"),
    ],
)
def test_a_wrong_config_file_says_where_and_what_would_be_right(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_config_file(path)
    assert says in caught.value.message
    assert str(path) in str(caught.value)
    assert caught.value.help_text
    assert "hunter2" not in str(caught.value)


def test_a_config_file_that_is_no_text_or_no_file_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_config_file(path)
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_config_file(tmp_path)


def test_a_context_name_that_is_a_url_is_never_shown_whole(tmp_path: Path, environ: dict[str, str]) -> None:
    name = "postgresql://u:hunter2@h/d"
    for known in (environ, {"XDG_CONFIG_HOME": str(tmp_path / "none")}):
        with pytest.raises(ConfigurationError) as caught:
            choose_database(None, name, known)
        assert "hunter2" not in str(caught.value)
    path = tmp_path / "config.toml"
    for text in (
        f'default_context = "{name}"',
        f'[contexts."{name}"]\nurl = 3',
        f'[contexts."{name}"]\nurl = "postgresql://h/d"\n[contexts.b]\nurl = "mysql://h"',
        f'[contexts."{name}"]\nurl = "mysql://h"',
        f'default_context = "b"\n[contexts."{name}"]\nurl = "postgresql://h/d"',
        f'"{name}" = 1',
    ):
        path.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            read_config_file(path)
        assert "hunter2" not in str(caught.value)


def test_the_reason_of_a_choice_masks_a_context_named_like_a_url(environ: dict[str, str]) -> None:
    name = "postgresql://u:hunter2@h/d"
    path = config_path(environ)
    assert path is not None
    path.write_text(f'default_context = "{name}"\n[contexts."{name}"]\nurl = "postgresql://h/d"')
    for choice in (choose_database(None, name, environ), choose_database(None, None, environ)):
        assert "u:***@h" in choice.reason
        assert "hunter2" not in choice.reason


def test_a_user_without_a_home_has_no_config_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    assert choose_database(None, None, {}).url is None
    with pytest.raises(ConfigurationError, match="has no contexts"):
        choose_database(None, "prod", {})


APPLICATION = NamedApplication("shop:app", DatabaseUrl.parse("postgresql://app:hunter2@db01/shop"))
ALL = {"HORSIES_DATABASE_URL": "postgresql://h/ours", "DATABASE_URL": "postgresql://h/theirs"}
CONTEXTS = """
default_context = "staging"
[contexts.staging]
url = "postgresql://ops@staging/shop"
[contexts.prod]
url = "postgresql://ops@db01/shop"
production = true
"""


@pytest.fixture
def contexts_file(tmp_path: Path) -> dict[str, str]:
    """An environment whose config file is CONTEXTS."""
    (tmp_path / "horsies").mkdir()
    (tmp_path / "horsies" / "config.toml").write_text(CONTEXTS)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_each_source_is_taken_when_those_before_it_are_not_set(contexts_file: dict[str, str]) -> None:
    full = contexts_file | ALL
    sources: list[tuple[str, dict[str, str], NamedApplication | None]] = [
        ("HORSIES_DATABASE_URL", full, APPLICATION),
        ("the application shop:app", contexts_file | {"DATABASE_URL": ALL["DATABASE_URL"]}, APPLICATION),
        ("DATABASE_URL", contexts_file | {"DATABASE_URL": ALL["DATABASE_URL"]}, None),
        ("default context 'staging'", contexts_file, None),
        ("embedded PostgreSQL", {"XDG_CONFIG_HOME": "/nowhere"}, None),
    ]
    for says, variables, application in sources:
        assert says in choose_database(None, None, variables, application).reason, says
    assert choose_database("postgresql://h/zero", None, full, APPLICATION).reason == "given by --database-url"
    assert choose_database(None, "prod", full, APPLICATION).reason == "context 'prod', given by --context"
    assert len(ORDER) == 1 + len(sources)


def test_every_source_that_means_another_database_is_named_without_its_password(contexts_file: dict[str, str]) -> None:
    others = choose_database(None, None, contexts_file | ALL, APPLICATION).passed_over
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


def test_a_variable_of_other_programs_does_not_disturb_what_comes_before_it(contexts_file: dict[str, str]) -> None:
    foreign = contexts_file | {"DATABASE_URL": "sqlite:///db.sqlite3"}
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
    option: str | None, variable: str | None, application: NamedApplication | None, contexts_file: dict[str, str]
) -> None:
    variables = contexts_file | ({} if variable is None else {"HORSIES_DATABASE_URL": variable})
    context = choose_database(option, None, variables, application).context
    assert context is not None
    assert (context.name, context.production) == ("prod", True)
    assert choose_database("postgresql://h/zero", None, contexts_file).context is None


@pytest.mark.parametrize("text", ["default_context = ", 'colour = "red"'])
def test_a_mistake_in_the_config_file_stops_no_worker_on_its_own_database(
    contexts_file: dict[str, str], text: str
) -> None:
    path = config_path(contexts_file)
    assert path is not None
    path.write_text(text)
    chosen = choose_database(None, None, contexts_file | ALL, APPLICATION, guarded=False)
    assert (chosen.reason, chosen.context) == ("from the environment variable HORSIES_DATABASE_URL", None)
    for option, context in ((None, None), ("postgresql://h/zero", None), (None, "prod")):
        with pytest.raises(ConfigurationError, match=r"config\.toml"):
            choose_database(option, context, contexts_file | ALL, APPLICATION)


def test_of_two_contexts_of_one_database_the_stricter_one_holds(contexts_file: dict[str, str]) -> None:
    path = config_path(contexts_file)
    assert path is not None
    path.write_text(
        f'{CONTEXTS}[contexts.look]\nurl = "postgresql://ops@db01/shop"\nproduction = true\nread_only = true\n'
    )
    assert choose_database(None, None, contexts_file, APPLICATION).read_only
    assert not choose_database(None, "prod", contexts_file, APPLICATION).read_only


def test_advice_names_the_database_that_it_is_about(contexts_file: dict[str, str]) -> None:
    text = "schema public has no horsies tables; `horsies db init` creates them, then `horsies db status`"
    by_application = choose_database(None, None, contexts_file, APPLICATION)
    assert advise(text, by_application.options) == (
        "schema public has no horsies tables; `horsies db init --module shop:app` creates them,"
        " then `horsies db status --module shop:app`"
    )
    by_option = choose_database("postgresql://u:hunter2@h/zero", None, contexts_file)
    assert "`horsies db init --database-url 'postgresql://u:***@h/zero'`" in advise(text, by_option.options)
    assert advise(text, choose_database(None, None, contexts_file | ALL).options) == text


def test_other_commands_get_a_module_or_a_context_and_never_a_masked_url(contexts_file: dict[str, str]) -> None:
    undo = "horsies audit undo 7f3a"
    by_context = choose_database(None, "prod", contexts_file)
    assert advise(undo, by_context.options) == "horsies audit undo --context prod 7f3a"
    assert advise(undo, choose_database("postgresql://u:hunter2@h/d", None, contexts_file).options) == undo
    already = "horsies workflows complete 7f3a paid --module shop:app"
    assert advise(already, by_context.options) == already
