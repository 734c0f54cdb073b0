"""The tests that the application has of its own: its tasks, without a worker and a database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

ORDER = UUID(int=7)


def test_letters_and_imports(horsies_queue: Any) -> None:
    from bookshop.tasks import import_catalogue, mail

    mail.with_options(delay=3600).send_or_raise("ann@example.org", "soon", ORDER)
    assert import_catalogue.send_or_raise(3, pause=0).get().unwrap() == 3
    assert [task.args for task in horsies_queue.sent(mail)] == [["ann@example.org", "soon", ORDER]]
    assert horsies_queue.run(seconds=3600).completed == 1


def test_what_is_slow_is_stopped(horsies_app: Any) -> None:
    from bookshop.tasks import slow

    assert slow.send_or_raise(30).get().unwrap_err().error_code == "TASK_TIMEOUT"


@pytest.mark.parametrize(
    ("items", "said"), [(["mug", "lamp"], f"{ORDER} weighs 700 g"), (["mug", "dragon"], "no parcel takes a dragon")]
)
def test_a_delivery(horsies_queue: Any, monkeypatch: pytest.MonkeyPatch, items: list[str], said: str) -> None:
    from bookshop import workflows

    monkeypatch.setattr(workflows, "items_of", lambda order: items)
    result = workflows.delivery(ORDER, "ann@example.org").start().unwrap().get()
    assert said in (result.unwrap() if result.is_ok() else str(result.unwrap_err().message))
