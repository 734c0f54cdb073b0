"""A stack as lines: where, which are the application's own, and what has changed since the last one."""

from __future__ import annotations

from typing import Any

from horsies.display.stack_lines import innermost, is_same, lines_of, short_file


def frame(function: str, line: int, *, user: bool = True) -> dict[str, Any]:
    file = "/srv/shop/orders/pay.py" if user else "/usr/lib/python3.11/socket.py"
    return {"file": file, "line": line, "function": function, "source": f"{function}()", "user": user}


def stack(*frames: dict[str, Any], **threads: list[dict[str, Any]]) -> dict[str, Any]:
    return {"frames": list(frames), "threads": [[name, found] for name, found in threads.items()]}


def changed(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    return [line.function for line in lines_of(now, before) if line.changed]


def test_the_line_of_the_application_is_named_also_when_a_library_is_the_innermost() -> None:
    found = innermost(stack(frame("recv", 700, user=False), frame("charge", 88), frame("pay", 41)))
    assert found is not None
    assert (found.place, found.function, found.is_users) == ("shop/orders/pay.py:88", "charge", True)
    library = innermost(stack(frame("recv", 700, user=False)))
    assert library is not None
    assert library.place == "socket.py:700"
    assert innermost(stack()) is None


def test_what_a_loop_calls_changes_and_the_loop_does_not() -> None:
    before = stack(frame("charge", 88), frame("pay", 41))
    assert changed(before, before) == []
    assert is_same(before, before)
    assert changed(stack(frame("charge", 90), frame("pay", 41)), before) == ["charge"]
    assert changed(stack(frame("charge", 88), frame("pay", 42)), before) == ["charge", "pay"]
    assert changed(stack(frame("send", 1), frame("charge", 88), frame("pay", 41)), before) == ["send"]


def test_a_frame_that_has_gone_is_a_change_too() -> None:
    before = stack(frame("charge", 88), frame("pay", 41))
    now = stack(frame("pay", 41))
    assert changed(now, before) == []
    assert not is_same(now, before)


def test_threads_are_compared_by_their_names() -> None:
    before = stack(frame("pay", 41), upload=[frame("put", 5)])
    now = stack(frame("pay", 41), upload=[frame("put", 6)], download=[frame("get", 7)])
    assert changed(now, before) == ["put", "get"]
    assert [line.place for line in lines_of(now) if line.thread] == ["thread upload", "thread download"]


def test_files_are_named_by_their_end() -> None:
    assert short_file("/srv/venv/lib/python3.12/site-packages/requests/api.py") == "requests/api.py"
    assert short_file("/usr/lib/python3.11/json/decoder.py") == "json/decoder.py"
    assert short_file("/srv/app/shop/orders/pay.py") == "shop/orders/pay.py"
    assert short_file("pay.py") == "pay.py"
