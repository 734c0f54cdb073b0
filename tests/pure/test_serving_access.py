"""Who may open the served console: the token, the cookie, and the names of this server."""

from __future__ import annotations

import pytest

from horsies_tui.serving.access import COOKIE, Access, is_loopback


def test_each_start_has_secrets_of_its_own_and_a_cookie_is_not_the_token() -> None:
    one, other = Access("127.0.0.1"), Access("127.0.0.1")
    assert len({one.token, other.token, one.root, other.root}) == 4
    assert len(one.token) >= 43
    assert one.token not in one.set_cookie
    assert one.knows(one.token)
    assert not any(one.knows(wrong) for wrong in ("", other.token, one.token[:-1], f"{one.token}x", "ü"))


def test_the_cookie_lets_in_and_nothing_else_does() -> None:
    access = Access("127.0.0.1")
    value = access.set_cookie.partition(";")[0].partition("=")[2]
    assert access.may_enter({COOKIE: value})
    assert not any(access.may_enter(cookies) for cookies in ({}, {COOKIE: ""}, {COOKIE: access.token}, {"x": value}))
    assert f"Path={access.root};" in access.set_cookie
    assert "HttpOnly" in access.set_cookie
    assert "SameSite" in access.set_cookie


@pytest.mark.parametrize(
    ("bound", "host", "ours"),
    [
        ("127.0.0.1", "127.0.0.1:8765", True),
        ("127.0.0.1", "localhost:9000", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:8765", True),
        ("127.0.0.1", "console.example:8765", False),
        ("127.0.0.1", "localhost.example:8765", False),
        ("127.0.0.1", "127.0.0.1.example", False),
        ("127.0.0.1", "192.168.1.7:8765", False),
        ("127.0.0.1", "shop.example.org", True),
        ("127.0.0.1", "SHOP.example.org:443", True),
        ("127.0.0.1", "evil.shop.example.org", False),
        ("127.0.0.1", "user@evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", None, False),
        ("127.0.0.1", "[", False),
        ("127.0.0.1", 'x"><script>@localhost:8765', False),
        ("127.0.0.1", "x; script-src *@localhost", False),
        ("127.0.0.1", "localhost:8765/", False),
        ("127.0.0.1", "localhost\n", False),
        ("0.0.0.0", "192.168.1.7:8765", True),
        ("0.0.0.0", "console.example:8765", False),
    ],
)
def test_a_name_that_merely_resolves_to_this_server_is_refused(bound: str, host: str | None, ours: bool) -> None:
    assert Access(bound, frozenset({"shop.example.org"})).is_ours(host) is ours


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://127.0.0.1:8765", "127.0.0.1:8765", True),
        ("https://shop.example.org", "shop.example.org", True),
        ("http://127.0.0.1:3000", "127.0.0.1:8765", False),
        ("http://localhost:8765", "127.0.0.1:8765", False),
        ("http://evil.example", "evil.example", False),
        ("null", "127.0.0.1:8765", False),
        ("file://127.0.0.1:8765", "127.0.0.1:8765", False),
        (None, "127.0.0.1:8765", False),
        ("http://127.0.0.1:8765", None, False),
    ],
)
def test_only_the_page_of_this_server_opens_a_websocket(origin: str | None, host: str | None, same: bool) -> None:
    assert Access("127.0.0.1", frozenset({"shop.example.org"})).is_same_origin(origin, host) is same


def test_loopback_is_told_from_the_network() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.1", "web-1")] == [
        *[True] * 3,
        *[False] * 4,
    ]
