"""A filter for workflows as parameters for fixed statements: each is None if it is not used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from horsies.domain.states import WorkflowStatus
from horsies.query.patterns import Texts, Words, bare_words, id_patterns, moment, texts, yes_or_no
from horsies.query.sense import states

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from horsies.query.tree import WorkflowFilter


@dataclass(frozen=True, slots=True)
class WorkflowParameters:
    """Conditions that must all hold. `since` and `until` bound the time of sending as for tasks."""

    statuses: tuple[str, ...] | None = None
    id: Texts = field(default_factory=Texts)
    name: Texts = field(default_factory=Texts)
    definition: Texts = field(default_factory=Texts)
    error: Texts = field(default_factory=Texts)
    parent: Texts = field(default_factory=Texts)
    has_parent: bool | None = None
    words: Words = field(default_factory=Words)
    since_ago: timedelta | None = None
    since_at: datetime | None = None
    until_ago: timedelta | None = None
    until_at: datetime | None = None


def workflow_parameters(understood: WorkflowFilter) -> WorkflowParameters:
    """The filter as bind parameters. No text of the user is put into a statement."""
    since, until = moment(understood, "since"), moment(understood, "until")
    return WorkflowParameters(
        statuses=_statuses(states(understood)),
        id=texts(understood, "id", id_patterns),
        name=texts(understood, "name"),
        definition=texts(understood, "definition"),
        error=texts(understood, "error"),
        parent=texts(understood, "parent", id_patterns),
        has_parent=yes_or_no(understood, "parent"),
        words=bare_words(understood),
        since_ago=since.ago,
        since_at=since.at,
        until_ago=until.ago,
        until_at=until.at,
    )


def _statuses(left: frozenset[str]) -> tuple[str, ...] | None:
    """In the order of a workflow's life; None for all."""
    return None if len(left) == len(WorkflowStatus) else tuple(one.value for one in WorkflowStatus if one.value in left)
