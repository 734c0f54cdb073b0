"""Which database a command uses, and the errors of a wrong config file."""

from __future__ import annotations

from pathlib import Path

import pytest

from horsies.config.contexts import choose_database, config_path, read_config_file
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
