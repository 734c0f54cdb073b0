"""Text shown without the passwords of database URLs and connection strings in it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, unquote_plus

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*")
_PASSWORD_BEFORE_HOST = re.compile(r"(//[^:@\s]*):.*@", re.DOTALL)
# A URL without a host is //user:password, which reads like //host:port; only a number may be a port.
_PORT = r"(?!\d{1,5}(?:[/?,;:.'\")\]\s]|$))"
_PASSWORD_WITHOUT_HOST = re.compile(rf"(//(?:\[[^\]\s]*\]|[^:@\s/?#\[]*)):(?!\*\*\*@){_PORT}\S+")
_ASSIGNMENT = re.compile(r"([\w%+]+)(\s*=\s*)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^&\s]*)")
_WHOLE_LOGIN = re.compile(r"^([^:@]*):.*@", re.DOTALL)
_WHOLE_WITHOUT_HOST = re.compile(r"^(\[[^\]]*\]|[^:@/?#\[]*):(?!\*\*\*@|\d{1,5}(?:[/?]|$)).+", re.DOTALL)
_PARAMETER = re.compile(r"[?&]([^=&?]*)=([^&]*)")
# Up to the last '@' of the word, or of the line if the password has blanks; without any '@' the word.
_LOGIN_IN_LINE = re.compile(rf"(://[^:@\s/?#\[]*):(?!\*\*\*){_PORT}(?:\S*@|.*@|\S+)|((?<!:)//[^:@\s/]*):(?!\*\*\*)\S*@")
_PARAMETER_IN_LINE = re.compile(r"([?&]([^=&?\s]*)=)([^&\s]+)")
# `options` sets parameters of the session: those with a dot in their name are the application's own.
_SECRET_OPTION = re.compile(r"(?:-c\s*|--)[^\s=]*\.|password|secret|token|key", re.IGNORECASE)


def mask(text: str) -> str:
    """Replace every password that looks like part of a URL or a connection string by ***."""
    # Assignments first: an '@' in there would look like the end of a login.
    text = _ASSIGNMENT.sub(lambda it: f"{it[1]}{it[2]}***" if is_secret(it[1], it[3]) else it[0], text)
    return _PASSWORD_WITHOUT_HOST.sub(r"\1:***", _PASSWORD_BEFORE_HOST.sub(r"\1:***@", text))


def mask_urls(text: str, *, keep_width: bool = False) -> str:
    """`text` with the password of each URL in it replaced by stars; anything else stays, as it may be a task's value.

    For all that is printed or logged, whatever the text was meant to be. `keep_width`: a star for each character.
    """
    if "//" not in text:
        return text

    def stars(secret: str) -> str:
        return "*" * len(secret) if keep_width else "***"

    def parameter(found: re.Match[str]) -> str:
        return found[1] + stars(found[3]) if is_secret(found[2], found[3]) else found[0]

    def login(found: re.Match[str]) -> str:
        before = found[1] or found[2]
        secret, at, _ = found[0][len(before) + 1 :].rpartition("@")
        return f"{before}:{stars(secret)}@" if at else f"{before}:{stars(found[0][len(before) + 1 :])}"

    return _LOGIN_IN_LINE.sub(login, _PARAMETER_IN_LINE.sub(parameter, text))


def mask_tree(value: Any) -> Any:
    """Apply `mask_urls` to each text in a JSON value."""
    match value:
        case str():
            return mask_urls(value)
        case dict():
            return {mask_tree(name): mask_tree(item) for name, item in value.items()}
        case list() | tuple():
            return [mask_tree(item) for item in value]
        case _:
            return value


def mask_whole(text: str) -> str:
    """Mask a text that is a single URL, so that spaces do not end its password."""
    scheme, found, rest = text.partition("://")
    if not found or not _SCHEME.fullmatch(scheme):
        scheme, found, rest = "", "", text
    for parameter in _PARAMETER.finditer(rest):
        if is_secret(parameter[1], parameter[2]):  # its value may contain a raw '&': nothing after it is shown
            rest = f"{rest[: parameter.start(2)]}***"
            break
    rest = _WHOLE_WITHOUT_HOST.sub(r"\1:***", _WHOLE_LOGIN.sub(r"\1:***@", rest))
    return mask(scheme + found + rest)


def mask_word(text: str) -> str:
    """Mask a name or an argument, which may be a URL by mistake; `shop.tasks:app` is returned unchanged."""
    return mask_whole(text) if "://" in text or "@" in text else mask(text)


def is_secret(name: str, value: str) -> bool:
    """Return whether a parameter of a URL, or a key of a connection string, has a password in its value."""
    name = unquote(name).casefold()
    return "password" in name or (name == "options" and _SECRET_OPTION.search(unquote_plus(value)) is not None)
