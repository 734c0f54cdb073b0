"""Checks the user's `[keys]`: ids that exist, keys that exist, and no key with two meanings on one screen."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies_tui.actions import ACTIONS, FIXED, TOGETHER, key_label, key_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def keymap(user: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return the argument for `App.set_keymap`. A ConfigurationError names the file, the key and the remedy."""
    known = [action.id for action in ACTIONS if action.id not in FIXED]
    keys = {action.id: action.keys for action in ACTIONS}
    for name, text in user.items():
        if name in FIXED:
            raise _error(path, name, "cannot be moved", "ctrl+c always quits; remap another action")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise _error(path, name, f"is not an action{hint}", "`?` in the console shows the ids")
        keys[name] = tuple(_checked(path, name, key.strip()) for key in text.split(","))
    _refuse_two_meanings(path, user, keys)
    return {name: ",".join(keys[name]) for name in user}


def _checked(path: Path, name: str, key: str) -> str:
    known = key_name(key)
    if known is None:
        raise _error(path, name, f"names no key with {key!r}", 'write keys like "f", "F", "/", "f5", "ctrl+f", "space"')
    return known


def _refuse_two_meanings(path: Path, user: Mapping[str, str], keys: Mapping[str, tuple[str, ...]]) -> None:
    for scopes in TOGETHER:
        taken: dict[str, str] = {}
        # The user's own keys come last, so that the error names the line to change.
        for action in sorted(ACTIONS, key=lambda action: action.id in user):
            if action.scope not in scopes:
                continue
            for key in keys[action.id]:
                other = taken.setdefault(key, action.id)
                if other != action.id:
                    raise _error(
                        path,
                        action.id,
                        f"takes {key_label(key)!r}, which is {other} already",
                        f'choose another key, or give {other} one too: "{other}" = "…"',
                    )


def _error(path: Path, name: str, what: str, help_text: str) -> ConfigurationError:
    return ConfigurationError(f"{path}: keys.{name} {what}", code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)
