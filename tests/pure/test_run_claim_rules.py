"""Which queues a worker serves, by the application and by what it was told at its start."""

from __future__ import annotations

import pytest
from task_apps import make_app, make_custom_app

from horsies.domain.errors import ConfigurationError
from horsies.run.settings import Identity, WorkerSettings
from horsies.run.worker.claim_rules import ClaimRules


def served(queues: tuple[str, ...] = (), but: tuple[str, ...] = (), *, custom: bool = True) -> list[str]:
    settings = WorkerSettings("shop:app", queues=queues, except_queues=but)
    return list(ClaimRules.of(make_custom_app() if custom else make_app(), settings, Identity()).queues)


@pytest.mark.parametrize(
    ("queues", "but", "expected"),
    [
        ((), (), ["mail", "reports"]),
        (("reports", "mail"), (), ["mail", "reports"]),
        (("reports",), (), ["reports"]),
        ((), ("mail",), ["reports"]),
        (("mail", "reports"), ("reports",), ["mail"]),
    ],
)
def test_a_worker_serves_what_it_is_told_in_the_order_of_priority(
    queues: tuple[str, ...], but: tuple[str, ...], expected: list[str]
) -> None:
    assert served(queues, but) == expected


def test_without_queues_of_its_own_an_application_has_the_default_one() -> None:
    assert served(custom=False) == served(("default",), custom=False) == ["default"]


@pytest.mark.parametrize(
    ("queues", "but", "words"),
    [
        (("mial",), (), r"no queue 'mial'[^$]*did you mean 'mail'\?"),
        ((), ("bulk",), r"no queue 'bulk'[^$]*it has mail, reports"),
        (("mail",), ("mail",), "no queue is left for this worker to serve"),
    ],
)
def test_a_name_that_is_no_queue_and_a_choice_of_none_are_refused(
    queues: tuple[str, ...], but: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        served(queues, but)
