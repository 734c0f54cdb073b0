"""What typed_shop.py says to type checkers is what happens: here it runs."""

from __future__ import annotations

import typed_shop

from horsies import Err, TaskHandle
from horsies.testing import inline


async def test_the_values_have_the_types_that_type_checkers_see() -> None:
    with inline(typed_shop.app) as queue:
        await typed_shop.sends()
        assert await typed_shop.starts() == "Hello Ada"
        assert {each.status.value for each in queue.started(typed_shop.Doubling)} == {"COMPLETED"}
        assert typed_shop.looks(typed_shop.greet.send("Ada")) == "Hello Ada"
        assert typed_shop.looks(typed_shop.greet.send("")) == "NO_NAME"
        wrong = typed_shop.greet.send(1)  # type: ignore[arg-type]
        assert isinstance(wrong, Err)
        assert typed_shop.looks(wrong) == wrong.err_value.message
        assert typed_shop.narrows(wrong) is None
        assert isinstance(typed_shop.narrows(typed_shop.greet.send("Ada")), TaskHandle)


def test_its_definitions_pass_the_checks() -> None:
    assert typed_shop.problems() == []
    assert typed_shop.failures == ["host"]
    with inline(typed_shop.app):
        assert next(typed_shop.in_memory()).sent() == []
