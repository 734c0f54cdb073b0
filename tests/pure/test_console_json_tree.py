"""Payloads as trees: folding, search, masked values, cut texts; tracebacks with folded library frames and colours."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import assume, example, given, strategies as st
from story_scene import stored, story

from horsies.display.payload import Masks
from horsies.views import Stored
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.lines import Span, width_of, wrap_spans
from horsies_tui.look.tones import Tone
from horsies_tui.story.frames import Frame, LibraryFrames, Traceback, code_spans, traceback_of
from horsies_tui.story.lines import Fold
from horsies_tui.story.parts import plain
from horsies_tui.story.payload import closed, read_payload
from horsies_tui.story.tree import Found, Tree, find

NO_MASKS = Masks()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inside: st.lists(inside, max_size=5) | st.dictionaries(st.text(max_size=8), inside, max_size=5),
    max_leaves=25,
)


def texts(tree: Tree, width: int = 80) -> list[str]:
    return [line.text for line in tree.lines(width, UNICODE)]


def unfold_all(tree: Tree, width: int = 80) -> None:
    while shut := [line for line in tree.lines(width, UNICODE) if line.target is not None and not line.is_open]:
        for line in shut:
            assert isinstance(line.target, Fold)
            tree.toggle(line.key)  # type: ignore[arg-type]


def test_what_is_small_is_unfolded_and_values_stand_below_each_other() -> None:
    tree = Tree("x", {"kwargs": {"path": "s3://…", "dry_run": False, "tags": []}, "args": [1]})
    assert texts(tree) == [
        "▾ kwargs ",
        '    path    "s3://…"',
        "    dry_run false",
        "    tags    []",
        "▾ args   ",
        "    0 1",
    ]
    tree.toggle((0,))
    assert texts(tree)[0] == '▸ kwargs {path: "s3://…", dry_run: false, tags: []}'


def test_a_traceback_is_folded_and_shows_its_last_line() -> None:
    payload = read_payload(story(), NO_MASKS)
    assert payload.outcome is not None
    assert payload.outcome.title == "error"
    lines = texts(payload.outcome.tree)
    assert '  exception  "ValueError: no such file"' in lines
    assert lines[-1] == "▸ traceback  (38 lines) ValueError: no such file"
    payload.outcome.tree.toggle(payload.outcome.tree.lines(80, UNICODE)[-1].key)  # type: ignore[arg-type]
    assert texts(payload.outcome.tree)[-38:][0].strip() == "Traceback (most recent call last):"


def test_what_the_engine_hands_on_beside_the_arguments_is_not_shown_as_sent() -> None:
    beside = {"__horsies_workflow_meta__": {"task_index": 0}, "__horsies_map__": {"param": "till"}}
    payload = read_payload(story(kwargs=stored({"month": "2026-10", **beside})), NO_MASKS)
    assert payload.arguments is not None
    assert texts(payload.arguments.tree)[:2] == ["▾ kwargs ", '    month "2026-10"']
    assert not [line for line in texts(payload.arguments.tree) if "horsies" in line]


def test_a_result_is_shown_without_its_wrapping() -> None:
    done = {"__task_result__": True, "ok": {"rows": 3}, "err": None}
    payload = read_payload(story(result=stored(done)), NO_MASKS)
    assert payload.outcome is not None
    assert (payload.outcome.title, texts(payload.outcome.tree)) == ("result", ["  rows 3"])
    alone = read_payload(story(result=stored({**done, "ok": 5})), NO_MASKS)
    assert alone.outcome is not None
    assert texts(alone.outcome.tree) == ["5"]


def test_long_lists_unfold_in_parts() -> None:
    tree = Tree("x", {"numbers": list(range(250))})
    assert texts(tree)[0].startswith("▾ numbers")
    assert texts(tree)[1:] == ["  ▸ 0…99    100 values", "  ▸ 100…199 100 values", "  ▸ 200…249 50 values"]
    tree.toggle((0, 2))
    assert texts(tree)[-1].split() == ["249", "249"]
    assert len(texts(Tree("x", {"numbers": list(range(5_000))}))) == 1


@given(JSON, st.integers(20, 120), st.booleans())
@example(["\n "], 20, False)
def test_no_line_is_wider_than_its_place_and_nothing_is_lost(value: Any, width: int, ascii_only: bool) -> None:
    tree = Tree("x", value)
    unfold_all(tree, width)
    for line in tree.lines(width, ASCII if ascii_only else UNICODE):
        assert width_of(line.spans) <= width
        assert line.text.isprintable()
    assert plain(tree.part(()).value) == value


@given(JSON, st.integers(20, 120))
def test_whatever_is_found_can_be_revealed(value: Any, width: int) -> None:
    tree = Tree("x", {"value": value, "word": "needle in the hay " * 20 + "needle"})
    tree.lines(width, UNICODE)
    found = find(tree.value, "needle")
    assert len(found) == 21
    for each in found:
        path = tree.reveal(each)
        assert path in {line.key for line in tree.lines(width, UNICODE)}


def test_a_match_deep_in_a_long_text_is_revealed_in_its_line() -> None:
    text = "\n".join(f"line {number}" for number in range(5_000))
    tree = Tree("x", {"log": text})
    tree.lines(80, UNICODE)
    path = tree.reveal(find(tree.value, "LINE 4321")[0])
    assert next(line.text for line in tree.lines(80, UNICODE) if line.key == path).strip() == "line 4321"
    assert path == (0, 43, 21)


def test_names_are_found_as_well_as_values() -> None:
    value = {"user": {"mail": "a@b"}, "mailbox": [1, {"deep": "mail"}]}
    assert find(value, "mail") == [Found((0, 0)), Found((1,)), Found((1, 1, 0))]


def test_masked_names_are_hidden_at_any_depth_by_patterns_too() -> None:
    masks = Masks(frozenset({"*token", "card_*"}))
    detail = story(kwargs=stored({"api_token": "hunter2", "payment": {"Card_number": "4242", "sum": 3}}))
    payload = read_payload(detail, masks)
    assert payload.arguments is not None
    text = "\n".join(texts(payload.arguments.tree))
    assert text.count('"***"') == 2
    assert "hunter2" not in text
    assert "4242" not in text
    assert find(payload.arguments.tree.value, "hunter2") == []


def test_what_cannot_be_read_is_hidden_whole_where_anything_is_to_be_hidden() -> None:
    broken = story(kwargs=Stored("{password: 1", 12, cut=False))
    for masks, shown in ((NO_MASKS, '"{password: 1"'), (Masks(frozenset({"password"})), '"***"')):
        payload = read_payload(broken, masks)
        assert payload.arguments is not None
        assert f"  kwargs {shown}" in texts(payload.arguments.tree)


def test_unchanged_parts_keep_what_is_unfolded() -> None:
    before = read_payload(story(result=None), NO_MASKS)
    assert before.arguments is not None
    before.arguments.tree.toggle((0,))
    after = read_payload(story(), NO_MASKS, before)
    assert after.arguments is before.arguments
    assert after.outcome is not None
    other = read_payload(story(row=replace(story().row, id="other")), NO_MASKS, after)
    assert other.arguments is not after.arguments


@given(JSON, st.data())
def test_the_beginning_of_a_payload_is_shown_as_far_as_it_goes(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    beginning = text[: data.draw(st.integers(0, len(text)))]
    whole = closed(beginning)
    assume(whole is not None)
    shown = json.loads(whole or "")
    assert beginning != text or shown == value


def test_a_text_that_is_cut_off_keeps_its_beginning_and_a_name_does_not() -> None:
    assert closed('{"a": [1, {"b": "xyz') == '{"a": [1, {"b": "xyz…"}]}'
    assert closed('{"a": 1, "b": 2, "c') == '{"a": 1, "b": 2}'
    assert closed('{"a": "x, {[\\u00') == '{"a": "x, {[…"}'
    assert closed('{"a": 12') == "{}"
    cut = Stored('{"text": "' + "x" * 100, 3_100_000, cut=True)
    payload = read_payload(story(kwargs=cut), Masks(frozenset({"password"})))
    assert payload.arguments is not None
    assert payload.arguments.note == "only the beginning of 3.1 MB; y copies all"
    assert "text" in "\n".join(texts(payload.arguments.tree))


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of Python functions: a measure of the work that does not depend on the machine."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_of_unfolding_grows_with_the_number_of_entries_only() -> None:
    for value in (
        {"rows": list(range(40_000))},
        {f"key{n}": n for n in range(15_000)},
        {"blob": "ż" * 100_000},
        {"log": "line of a log\n" * 15_000},
    ):
        tree = Tree("x", value)

        def unfold(tree: Tree = tree) -> None:
            for line in tree.lines(100, UNICODE)[:3]:
                if line.target is not None and not line.is_open:
                    tree.toggle(line.key)  # type: ignore[arg-type]
                    tree.lines(100, UNICODE)

        assert calls_of(unfold) < 400_000, "at most some calls for each entry"


def test_a_thousand_levels_do_not_break_it() -> None:
    value: Any = "needle"
    for _ in range(400):
        value = [value]
    tree = Tree("x", value)
    tree.lines(80, UNICODE)
    path = tree.reveal(find(value, "needle")[0])
    assert path in {line.key for line in tree.lines(80, UNICODE)}
    deep = story(kwargs=stored("[" * 3_000 + "]" * 3_000))
    payload = read_payload(deep, NO_MASKS)
    assert payload.arguments is not None


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
