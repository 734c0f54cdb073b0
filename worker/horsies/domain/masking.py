"""Text shown without the passwords of database URLs and connection strings in it."""

from __future__ import annotations

import re
from urllib.parse import unquote

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*")
_PASSWORD_BEFORE_HOST = re.compile(r"(//[^:@\s]*):.*@", re.DOTALL)
# A URL without a host is //user:password, which reads like //host:port; only a number may be a port.
_PORT = r"(?!\d{1,5}(?:[/?,;:.'\")\]\s]|$))"
_PASSWORD_WITHOUT_HOST = re.compile(rf"(//(?:\[[^\]\s]*\]|[^:@\s/?#\[]*)):(?!\*\*\*@){_PORT}\S+")
_ASSIGNMENT = re.compile(r"([\w%+]+)(\s*=\s*)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^&\s]*)")
_WHOLE_LOGIN = re.compile(r"^([^:@]*):.*@", re.DOTALL)
_WHOLE_WITHOUT_HOST = re.compile(r"^(\[[^\]]*\]|[^:@/?#\[]*):(?!\*\*\*@|\d{1,5}(?:[/?]|$)).+", re.DOTALL)
_PARAMETER = re.compile(r"[?&]([^=&?]*)=")


def mask(text: str) -> str:
    """`text` with every password that looks like part of a URL or a connection string replaced by ***."""
    text = _ASSIGNMENT.sub(_mask_assignment, text)  # first: an '@' in there would look like the end of a login
    return _PASSWORD_WITHOUT_HOST.sub(r"\1:***", _PASSWORD_BEFORE_HOST.sub(r"\1:***@", text))


def mask_whole(text: str) -> str:
    """Like `mask` for a text that is a single URL, so that spaces do not end its password."""
    scheme, found, rest = text.partition("://")
    if not found or not _SCHEME.fullmatch(scheme):
        scheme, found, rest = "", "", text
    for parameter in _PARAMETER.finditer(rest):
        if is_secret(parameter[1]):  # its value may contain a raw '&': nothing after it is shown
            rest = f"{rest[: parameter.end()]}***"
            break
    rest = _WHOLE_WITHOUT_HOST.sub(r"\1:***", _WHOLE_LOGIN.sub(r"\1:***@", rest))
    return mask(scheme + found + rest)


def mask_word(text: str) -> str:
    """For a name or an argument, which may be a URL by mistake; `shop.tasks:app` is returned unchanged."""
    return mask_whole(text) if "://" in text or "@" in text else mask(text)


def _mask_assignment(found: re.Match[str]) -> str:
    name, equals, _ = found.groups()
    return f"{name}{equals}***" if is_secret(name) else found[0]


def is_secret(name: str) -> bool:
    """Whether a parameter of a URL, or a key of a connection string, has a password as its value."""
    return "password" in unquote(name).casefold()
