"""Tracebacks: frames of the application are open, library frames folded; source code and JSON have their colours."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from hypothesis import example, given, strategies as st
from story_scene import story

from horsies.display.payload import Masks
from horsies.views import Stored
from horsies_tui.look.glyphs import UNICODE
from horsies_tui.look.lines import Span, width_of, wrap_spans
from horsies_tui.look.tones import Tone
from horsies_tui.story.frames import Frame, LibraryFrames, Traceback, code_spans, traceback_of
from horsies_tui.story.parts import plain
from horsies_tui.story.payload import read_payload
from horsies_tui.story.tree import Tree, find

TEXT = """Traceback (most recent call last):
  File "/srv/shop/.venv/lib/python3.12/site-packages/anyio/to_thread.py", line 56, in run_sync
    return await get_async_backend().run_sync_in_worker_thread(
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.12/threading.py", line 12, in run
  File "/srv/shop/shop/pay.py", line 61, in charge
    bank.charge(card, amount, "EUR")  # twice
ConnectionError: refused

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/shop/orders.py", line 9, in send
    raise PaymentFailed(3) from None
shop.errors.PaymentFailed: the bank does not answer
"""


def texts(tree: Tree, width: int = 80) -> list[str]:
    return [line.text for line in tree.lines(width, UNICODE)]


def error_of(text: str) -> Tree:
    result = {"ok": None, "err": {"message": "m", "exception": {"type": "E", "message": "e", "traceback": text}}}
    stored = json.dumps({"__task_result__": True, **result})
    payload = read_payload(story(result=Stored(stored, len(stored), False)), Masks())
    assert payload.outcome is not None
    return payload.outcome.tree


def test_frames_of_the_application_are_open_and_those_of_libraries_folded() -> None:
    tree = error_of(TEXT)
    lines = texts(tree)
    at = next(number for number, line in enumerate(lines) if line.startswith("▾ traceback"))
    assert [line.strip() for line in lines[at + 1 :]] == [
        "Traceback (most recent call last):",
        "▸ 2 library frames  anyio, threading",
        "▾ shop/shop/pay.py:61  charge",
        'bank.charge(card, amount, "EUR")  # twice',
        "ConnectionError: refused",
        "During handling of the above exception, another",
        "exception occurred:",
        "Traceback (most recent call last):",
        "▾ shop/shop/orders.py:9  send",
        "raise PaymentFailed(3) from None",
        "shop.errors.PaymentFailed: the bank does not",
        "answer",
    ]
    folded = next(line for line in tree.lines(80, UNICODE) if "library" in line.text)
    tree.toggle(folded.key)  # type: ignore[arg-type]
    assert "▸ anyio/to_thread.py:56  run_sync" in "\n".join(texts(tree))
    # The whole text is copied, and a search finds what is folded.
    path = next(line.key for line in tree.lines(80, UNICODE) if "traceback" in line.text)
    assert plain(tree.part(path).value) == TEXT  # type: ignore[arg-type]
    for needle in ("run_sync_in_worker", "twice", "threading.py"):
        (found,) = find(tree.value, needle)
        tree.reveal(found)
        assert needle in "\n".join(texts(tree))


def test_a_text_without_frames_stays_a_text() -> None:
    for text in ("", "boom", "Traceback:\n  frame\nValueError: no"):
        assert traceback_of(text) == text


def test_a_real_traceback_is_understood() -> None:
    def deep(number: int) -> None:
        if number:
            deep(number - 1)
        raise ValueError("the end")

    try:
        deep(3)
    except ValueError:
        text = traceback.format_exc()
    told: Any = traceback_of(text)
    assert isinstance(told, Traceback)
    frames = [part for part in told.parts if isinstance(part, Frame)]
    assert [frame.function.rpartition(".")[2] for frame in frames][-1] == "deep"
    assert not [part for part in told.parts if isinstance(part, LibraryFrames)] or sys.prefix in text


def test_source_code_and_json_have_their_colours() -> None:
    code = {span.text: span.tone for span in code_spans('return f(1, "a # b")  # why')}
    assert code["return"] is Tone.STRONG
    assert code["1"] is Tone.NUMBER
    assert code['"a # b"'] is Tone.STRING
    assert code["# why"] is Tone.MUTED
    tree = Tree("x", {"name": "Anna", "order": 5, "paid": True, "tags": []})
    tones = {span.text: span.tone for line in tree.lines(80, UNICODE) for span in line.spans}
    assert (tones['"Anna"'], tones["5"], tones["true"], tones["[]"]) == (Tone.STRING, Tone.NUMBER, Tone.NUMBER, None)


def test_a_message_that_is_too_long_for_its_line_wraps() -> None:
    message = "the bank does not answer, " * 6
    tree = Tree("x", {"message": message, "log": "a long line of a log\n" * 40})
    lines = texts(tree, 60)
    assert "".join(line.strip() for line in lines[1:-1]).replace(" ", "") == message.replace(" ", "")
    assert lines[-1].startswith("▸ log")


@given(st.lists(st.tuples(st.text(max_size=40), st.sampled_from((None, Tone.BAD))), max_size=5), st.integers(2, 60))
@example([("\N{EMOJI MODIFIER FITZPATRICK TYPE-1-2}", None)], 2)  # takes no place by itself
def test_wrapped_text_fits_and_loses_only_blanks(parts: list[tuple[str, Tone | None]], width: int) -> None:
    spans = [Span("".join(char for char in text if char.isprintable()), tone) for text, tone in parts]
    lines = wrap_spans(spans, width)
    assert all(width_of(line) <= width for line in lines)
    written = "".join(span.text for line in lines for span in line)
    assert "".join(written.split()) == "".join("".join(span.text for span in spans).split())
