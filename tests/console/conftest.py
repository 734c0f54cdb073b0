"""Fixes the terminal type for all console tests, and keeps their history out of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css import stylesheet
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenize import Token, tokenize_values


@pytest.fixture(autouse=True)
def true_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich caches in a style the codes of the terminal that it was first drawn for, also for later applications."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command line keeps its history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True, scope="session")
def style_sheets_parsed_once() -> Iterator[None]:
    """Textual parses all style sheets for each application: 25 ms of 160, in one process four hundred times."""
    variables: dict[frozenset[tuple[str, str]], dict[str, list[Token]]] = {}
    parsed: dict[tuple[Any, ...], list[RuleSet]] = {}

    def tokenize_once(values: dict[str, str]) -> dict[str, list[Token]]:
        key = frozenset(values.items())
        if key not in variables:
            variables[key] = tokenize_values(values)
        return variables[key]

    def parse_once(scope: str, css: str, *place: Any, variable_tokens: Any, **named: Any) -> list[RuleSet]:
        key = (id(variable_tokens), scope, css, *place, *named.items())
        if key not in parsed:
            parsed[key] = list(parse(scope, css, *place, variable_tokens=variable_tokens, **named))
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stylesheet, "tokenize_values", tokenize_once)
        patch.setattr(stylesheet, "parse", parse_once)
        yield
