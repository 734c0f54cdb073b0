"""The display of stored JSON in the console, without imports; and text made valid for a text column."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

import pytest
from codec_models import ORDER_TEXT, PaymentError, load_value
from hypothesis import given, strategies as st

from horsies.domain.codec import CorruptJsonError, Labelled, clean_text, dump_task_error, dump_value, load_for_display
from horsies.domain.codes import OutcomeCode
from horsies.domain.tags import RESERVED
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from pathlib import Path

ORDER = Labelled("codec_models.Order", {"number": 7, "placed": "2026-11-18T06:31:06Z"})
MOMENTS = {"at": datetime(2026, 1, 31, tzinfo=UTC), "on": date(2026, 1, 31), "daily": time(2, 30)}


def test_showing_a_model_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "codec_explodes.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for tag in ("__pydantic_model__", "__dataclass__"):
        text = ORDER_TEXT.replace("codec_models", "codec_explodes").replace("__pydantic_model__", tag)
        before = set(sys.modules)
        shown = load_for_display(f"[{text}]")
        assert set(sys.modules) == before
        assert shown == [Labelled("codec_explodes.Order", ORDER.data)]
    with pytest.raises(RuntimeError, match="imported"):
        __import__("codec_explodes")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (dump_value({"a": [1, None, "x"]}), {"a": [1, None, "x"]}),
        (dump_value(MOMENTS), MOMENTS),
        (ORDER_TEXT, ORDER),
        (dump_value(TaskResult(ok=load_value(ORDER_TEXT))), Labelled("TaskResult", {"ok": ORDER})),
        (
            dump_value(TaskResult(err=TaskError(error_code=OutcomeCode.TASK_EXPIRED))),
            Labelled(
                "TaskResult",
                {"err": Labelled("TaskError", {"error_code": "TASK_EXPIRED", "data": None, "message": None})},
            ),
        ),
        (
            dump_task_error(PaymentError(error_code="MINE", order=load_value(ORDER_TEXT))),
            Labelled(
                "codec_models.PaymentError",
                {"error_code": "MINE", "data": None, "message": None, "order": ORDER, "attempts": 1},
            ),
        ),
        (
            json.dumps({"left": {"__horsies_taskresult__": True, "data": dump_value(TaskResult(ok=1))}}),
            {"left": Labelled("TaskResult", {"ok": 1})},
        ),
        (
            '{"__pydantic_model__":true,"module":"m","qualname":"Q","data":{"__date__":true,"value":"2026-01-31"}}',
            Labelled("m.Q", {"__date__": True, "value": "2026-01-31"}),
        ),
        (
            '{"__dataclass__":true,"module":"m","qualname":"Q","data":{"due":{"__date__":true,"value":"2026-01-31"}}}',
            Labelled("m.Q", {"due": date(2026, 1, 31)}),
        ),
        ('{"ok":1,"err":null}', {"ok": 1, "err": None}),
    ],
)
def test_every_tag_is_shown_as_what_it_stands_for(text: str, shown: Any) -> None:
    assert load_for_display(text) == shown


@pytest.mark.parametrize(
    "stored",
    [
        {"__datetime__": True, "value": "yesterday"},
        {"__date__": True},
        {"__time__": True, "value": 7},
        {"__horsies_taskresult__": True, "data": "{"},
        {"__horsies_taskresult__": True},
        {"__datetime__": 1, "value": "2026-01-31"},
    ],
)
def test_broken_tags_are_shown_as_they_stand(stored: dict[str, Any]) -> None:
    assert load_for_display(json.dumps([stored])) == [stored]


json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from([*sorted(RESERVED), "data", "value", "ok", "err", "module", "qualname"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(json_trees)
def test_json_without_a_tag_is_shown_as_it_stands_and_any_other_too_without_its_objects(tree: Any) -> None:
    shown = load_for_display(json.dumps(tree))
    if not any(f'"{tag}"' in json.dumps(tree) for tag in RESERVED):
        assert shown == tree
    assert isinstance(shown, Labelled | datetime | date | time | list | dict | str | int | None)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[" * 100_000])
def test_text_that_is_not_json_is_an_error(text: str) -> None:
    with pytest.raises(CorruptJsonError):
        load_for_display(text)


@given(st.text(st.characters(), max_size=300), st.integers(0, 200))
def test_clean_text_keeps_the_limit_and_fits_a_text_column(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)
    assert len(cleaned) <= limit
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    if len(text) <= limit and "\0" not in text and text.isprintable():
        assert cleaned == text


def test_clean_text_keeps_both_ends_and_says_that_it_cut() -> None:
    cleaned = clean_text("first" + "x" * 1_000 + "last", 60)
    assert cleaned.startswith("first")
    assert cleaned.endswith("last")
    assert " … [shortened from 1009 characters] … " in cleaned
