"""The console's settings of the config file, and the errors of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from horsies.config.contexts import read_config_file
from horsies.domain.errors import ConfigurationError
from horsies_tui.settings import ConsoleSettings


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('bell = "loud"', "bell is neither true nor false"),
        ("theme = 3", "theme is not a string"),
        ("story = 'off'", "story is neither true nor false"),
        ("filters = 'status:failed'", "filters is not a table of names and texts"),
        ("targets = '1m'", "targets is no length of time"),
        ("[targets]\nmail = 60", "targets.mail is no length of time"),
        ("[targets]\nmail = '1 min'", "targets.mail is no length of time"),
        ("[filters]\nmine = 3", "filters is not a table of names and texts"),
        ("keys = 3", "keys is not a table"),
        ("[keys]\ntasks.follow = 5", "keys.tasks.follow names no key"),
        ("[keys]\n'tasks.follow' = 'f,,g'", "keys.tasks.follow names no key"),
        ("[keys]\n'tasks.follow' = ''", "keys.tasks.follow names no key"),
        ("[keys]\n'postgresql://u:hunter2@h/d' = 3", "names no key"),
    ],
)
def test_a_wrong_setting_names_the_file_the_key_and_a_valid_value(tmp_path: Path, text: str, says: str) -> None:
    """Only the console stops on it: no other command reads these keys."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    file = read_config_file(path)
    with pytest.raises(ConfigurationError) as caught:
        ConsoleSettings.of(file)
    assert says in caught.value.message
    assert str(path) in str(caught.value)
    assert caught.value.help_text
    assert "hunter2" not in str(caught.value)


def test_settings_are_read_and_have_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    usual = ConsoleSettings.of(read_config_file(path))
    assert usual == ConsoleSettings()
    assert (usual.bell, usual.title, usual.story) == (False, True, True)
    path.write_text(
        "theme = 'ansi'\nstory = false\nbell = true\ntitle = false\nmask_arguments = ['password', 'card_*']\n"
        "[filters]\nmine = 'queue:mail'\n[targets]\nmail = '90s'\nbulk = '2h'"
    )
    file = read_config_file(path)
    assert file.mask_arguments == ("password", "card_*")
    assert ConsoleSettings.of(file) == ConsoleSettings(
        theme="ansi",
        story=False,
        bell=True,
        title=False,
        filters={"mine": "queue:mail"},
        targets={"mail": 90, "bulk": 7200},
    )


def test_ids_of_keys_may_be_quoted_or_written_as_toml_reads_dots(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[keys]\ntasks.follow = 'F5'\ntasks.hold = 'h,p'\n'app.help' = 'f1'\n[keys.table]\ndown = 'n'")
    assert ConsoleSettings.of(read_config_file(path)).keys == {
        "tasks.follow": "F5",
        "tasks.hold": "h,p",
        "app.help": "f1",
        "table.down": "n",
    }
