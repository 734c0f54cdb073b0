"""The language of filters for workflows, as data: that of tasks with other keys."""

from __future__ import annotations

from typing import Final

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus
from horsies.query.conditions import BareWords, Membership, TextColumn, id_patterns
from horsies.query.keys import KEYS, NAME_OR_ID, TASKS, TIMES, WILDCARDS, WORDS
from horsies.query.language import Key, Kind, Language, keyed

_DONE: Final = frozenset(status.value for status in WORKFLOW_TERMINAL_STATES)
_LIVE: Final = frozenset(status.value for status in WorkflowStatus) - _DONE

_STATES: Final = {
    **{status.value.lower(): frozenset({status.value}) for status in WorkflowStatus},
    "live": _LIVE,
    "done": _DONE,
}

_KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "the status; live is pending, running or paused, done is any other",
        "status:failed,paused",
        tuple(_STATES),
        KEYS["status"].also,
    ),
    Key(
        "name",
        Kind.TEXT,
        "the name",
        "name:order_*",
        also=("workflow", "flow", "wf"),
        sql=TextColumn("name"),
    ),
    Key(
        "definition",
        Kind.TEXT,
        "the key of its definition",
        "definition:shop.order.v1",
        also=("definition_key", "def", "key"),
        sql=TextColumn("definition_key"),
    ),
    Key(
        "error",
        Kind.TEXT,
        "the code of its error",
        "error:CARD_DECLINED",
        also=KEYS["error"].also,
        sql=TextColumn("error_code"),
    ),
    Key(
        "id",
        Kind.ID,
        "the id, or how it begins or ends",
        "id:1cd6ba9a",
        also=("workflow_id", "uuid"),
        sql=TextColumn("id", id_patterns),
    ),
    Key(
        "parent",
        Kind.WORKFLOW,
        "whether it is part of another workflow; or the id of that, or how it begins or ends",
        "parent:no",
        ("yes", "no"),
        ("child", "sub", "subworkflow", "parent_workflow_id"),
        sql=Membership("parent_workflow_id IS NOT NULL", TextColumn("parent_workflow_id", id_patterns)),
    ),
    KEYS["since"],
    KEYS["until"],
)

WORKFLOWS: Final = Language(
    "workflow",
    _KEYS,
    _STATES,
    {
        **{word: meant for word, meant in TASKS.states_elsewhere.items() if meant in _STATES},
        **dict.fromkeys(("stopped", "held", "halted"), "paused"),
        **dict.fromkeys(("canceled", "aborted"), "cancelled"),
    },
    (*WORDS, WILDCARDS, TIMES, NAME_OR_ID),
    "status:failed,paused name:order_* since:1h -error:CARD_DECLINED",
    {status.value: (status.value,) for status in WorkflowStatus},
    BareWords("name", "id"),
)
