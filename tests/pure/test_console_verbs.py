"""Operations of the console: texts of a verb, the confirmation, the result, editable arguments; the activity screen."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from horsies.config.recovery import RecoveryConfig
from horsies.findings import NEEDS_DECISION, Finding, FindingKind, PredictedAction, Remedy, Severity
from horsies.findings.cluster import Spared, SweepState
from horsies.findings.diagnose import Report, searches
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.findings.searches.in_flight import STALE_RUN
from horsies.operations.edited import Arguments
from horsies.operations.target import RowOutcome, Target
from horsies.operations.verb import OperationOutcome, Preview, Refusal
from horsies.operations.verbs import VERBS
from horsies.query import parse
from horsies.views import AuditRow, Change, OperationRow
from horsies_tui.actions import ACTIONS
from horsies_tui.activity.entries import entries, outcome_of, state_words, target_of
from horsies_tui.activity.feed import OneOperation
from horsies_tui.activity.sentences import can_be_undone, command_of, rows_of_change, tasks_of
from horsies_tui.feed.report import RecoverySnapshot
from horsies_tui.health.figure_filters import filter_of
from horsies_tui.intents import FinishedOperation, Intent, facts_of, summed, word_to_type
from horsies_tui.look.cells import Look
from horsies_tui.recovery.report_rows import COLUMNS, countdown, headline, rows_of, why_of
from horsies_tui.shell.editing import Draft, EditError

REQUEUE, FAIL, UNDO = VERBS["task", "requeue"], VERBS["task", "fail"], VERBS["operation", "undo"]
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def target(number: int, state: str = "FAILED TIMEOUT") -> Target:
    return Target("task", f"t-{number}", "shop.mail", state)


def preview(eligible: list[Target], refused: dict[int, str] | None = None, **fields: Any) -> Preview:
    usual = {
        "verb": REQUEUE,
        "options": {},
        "eligible": tuple(eligible),
        "refused": tuple(Refusal(target(number), reason) for number, reason in (refused or {}).items()),
        "consequences": ("runs once more", "the deadline is dropped"),
        "filter": None,
        "command": "horsies tasks requeue t-1",
        "taken_at": NOON,
    }
    return Preview(**{**usual, **fields})


def done(
    seen: Preview, rows: tuple[RowOutcome, ...] = (), intent: Intent | None = None, **fields: Any
) -> FinishedOperation:
    return FinishedOperation(intent or Intent(REQUEUE), seen, OperationOutcome(UUID(int=7), seen.verb, rows, **fields))


def test_every_verb_with_a_key_has_it_on_its_screen() -> None:
    keys = {action.record: action for action in ACTIONS if action.record is not None}
    assert set(keys) == {verb for verb in VERBS.values() if verb.key}
    assert all((action.keys, action.help) == ((verb.key,), verb.hint) for verb, action in keys.items())


def test_the_facts_count_states_reasons_and_consequences() -> None:
    eligible = [target(1), target(2), target(3, "FAILED RATE_LIMITED")]
    facts = facts_of(Intent(REQUEUE), preview(eligible, {8: "it is COMPLETED", 9: "it is COMPLETED"}))
    assert [(fact.label, fact.text) for fact in facts] == [
        ("3 will be requeued", "3 shop.mail"),
        ("", "FAILED: 2 TIMEOUT · 1 RATE_LIMITED"),
        ("  shop.mail", "t-1  FAILED TIMEOUT"),
        ("  shop.mail", "t-2  FAILED TIMEOUT"),
        ("  shop.mail", "t-3  FAILED RATE_LIMITED"),
        ("2 will be refused", "it is COMPLETED"),
        ("effect", "runs once more"),
        ("", "the deadline is dropped"),
        ("command", "horsies tasks requeue t-1"),
    ]


def test_without_an_eligible_row_nothing_follows_from_anything() -> None:
    labels = [fact.label for fact in facts_of(Intent(REQUEUE), preview([], {8: "it is COMPLETED"}))]
    assert labels == ["0 will be requeued", "1 will be refused", "command"]


def test_a_filter_is_said_with_the_rows_that_it_was_frozen_to() -> None:
    facts = {fact.label: fact.text for fact in facts_of(Intent(FAIL), preview([target(1)], filter="status:failed"))}
    assert facts["filter"].startswith("status:failed ")
    assert "these 1" in facts["filter"]
    nothing = {fact.label: fact.text for fact in facts_of(Intent(FAIL), preview([target(1)], filter=""))}
    assert "everything" in nothing["filter"]


def test_five_rows_are_named_and_the_others_are_counted() -> None:
    many = [target(number) for number in range(2000)]
    facts = facts_of(Intent(REQUEUE), preview(many))
    assert [fact.label for fact in facts[2:7]] == ["  shop.mail"] * 5
    assert facts[7].text == "and 1,995 more"
    worker = Target("worker", "web-1:7", "web-1:7", "alive")
    (fact,) = facts_of(Intent(VERBS["worker", "drain"]), preview([worker], consequences=()))[1:2]
    assert (fact.label, fact.text) == ("", "web-1:7  alive")


def test_many_reasons_are_summed_up_and_none_is_forgotten_silently() -> None:
    texts = ["a"] * 4 + ["b"] * 3 + list("ccddeef")
    assert summed(texts) == "4 a · 3 b · 2 c · 2 d · and 3 others"
    assert summed("abcde").endswith(" · and 1 other")


@pytest.mark.parametrize(
    ("rows", "production", "word"),
    [(1, None, None), (20, None, None), (21, None, "21"), (1, "shop-eu", "shop-eu"), (500, "shop-eu", "shop-eu")],
)
def test_what_must_be_typed(rows: int, production: str | None, word: str | None) -> None:
    assert word_to_type(rows, production) == word


def test_the_account_names_what_was_done_and_only_what_there_is() -> None:
    rows = (RowOutcome(target(1), True, "PENDING, try 2"), RowOutcome(target(2), False, "it is RUNNING now"))
    account = done(preview([target(1), target(2)], {9: "it is COMPLETED"}), rows)
    assert account.line() == "1 requeued, 2 skipped"
    assert [reason for _, reason in account.skipped] == ["it is RUNNING now", "it is COMPLETED"]
    assert not account.went_well
    assert account.can_be_undone
    well = done(preview([target(1)]), rows[:1])
    assert (well.line(), well.went_well) == ("1 requeued", True)


def test_what_was_not_tried_or_is_in_doubt_is_never_well() -> None:
    account = done(preview([target(1)]), not_attempted=(target(2),), in_doubt=(target(3),), stopped="interrupted")
    assert account.line() == "0 requeued, 1 in doubt, 1 not tried: interrupted"
    assert not account.went_well
    assert not account.can_be_undone


def test_an_undo_counts_a_row_once_that_the_preview_and_the_database_refuse_and_is_not_undone() -> None:
    seen = preview([target(1)], {2: "it is RUNNING now"}, verb=UNDO)
    rows = (RowOutcome(target(1), True, ""), RowOutcome(target(2), False, "it is RUNNING on web-1 now"))
    account = done(seen, rows, Intent(UNDO, undoes="task"))
    assert account.line() == "1 undone, 1 skipped"
    assert not account.can_be_undone


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_arguments_that_were_not_edited_are_sent_as_they_are_stored(args: list[Any], kwargs: dict[str, Any]) -> None:
    draft = Draft(json.dumps(args), json.dumps(kwargs), hidden=("pass*", "a"))
    text = draft.text()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert draft.read(text) == Arguments(None, None)


def test_what_was_edited_is_sent_and_stars_stand_for_what_is_stored() -> None:
    draft = Draft("[1]", '{"to":"a@b","password":"hunter2","deep":[{"password":"x"}]}', hidden=("pass*",))
    text = draft.text()
    assert "hunter2" not in text
    edited = draft.read(text.replace('"a@b"', '"c@d"'))
    assert edited.args is None
    assert json.loads(edited.kwargs or "") == {"to": "c@d", "password": "hunter2", "deep": [{"password": "x"}]}
    anew = draft.read(text.replace("***", "new", 1))
    assert json.loads(anew.kwargs or "")["password"] == "new"


def test_what_is_hidden_elsewhere_is_hidden_while_it_is_edited() -> None:
    inside = json.dumps({"to": "a@b", "Token": "s3cret"})
    draft = Draft('["s3cret"]', json.dumps({"API_Token": "s3cret", "body": inside}), hidden=("*token", "args"))
    text = draft.text()
    assert "s3cret" not in text
    assert draft.read(text) == Arguments(None, None)
    edited = draft.read(text.replace("a@b", "c@d"))
    assert edited.args is None
    assert json.loads(json.loads(edited.kwargs or "")["body"]) == {"to": "c@d", "Token": "s3cret"}


def test_stars_in_a_list_whose_items_came_or_went_stand_for_none_of_them() -> None:
    draft = Draft('[{"card": 1}, {"card": 2}]', None, hidden=("card",))
    with pytest.raises(EditError, match=r"args\[0\].card is"):
        draft.read('{"args": [{"card": "***"}]}')


@pytest.mark.parametrize("change", ['{"kwargs":{"n":1.0}}', '{"kwargs":{"n":true}}', '{"args":[],"kwargs":{}}'])
def test_a_change_of_type_or_leaving_out_is_a_change(change: str) -> None:
    assert Draft(None, '{"n":1}').read(change).kwargs is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"args": [],\n "kwargs": {"a" 1}}', "line 2, column"),
        ("[]", 'expected {"args"'),
        ('{"args": [], "more": 1}', 'expected {"args"'),
        ("[" * 100_000, "cannot be read"),
        ('{"kwargs": {"token": "***"}}', "kwargs.token is ***"),
        ('{"kwargs": {"TOKEN": "***"}}', "kwargs.TOKEN is ***"),
    ],
)
def test_what_cannot_be_used_says_why(text: str, words: str) -> None:
    with pytest.raises(EditError) as caught:
        Draft(None, '{"a":1}', hidden=("token",)).read(text)
    assert words in caught.value.message


def test_stored_arguments_that_are_no_json_are_not_opened() -> None:
    with pytest.raises(EditError, match="not JSON"):
        Draft("{", None)


def finding(kind: FindingKind = STALE_RUN, **fields: Any) -> Finding:
    usual = {
        "prediction": PredictedAction("fail as WORKER_CRASHED", Severity.HANDLED, 18.0),
        "target_kind": "task",
        "name": "nightly import",
        "ids": ("t-1",),
        "count": 1,
        "at_least": False,
        "since": NOON - timedelta(minutes=6),
        "evidence": "no beat",
        "remedies": (),
        "why": ("because",),
        "queue_name": "bulk",
        "worker_id": "web-3:88",
    }
    return Finding(kind, **{**usual, **fields})


def report(*findings: Finding, **fields: Any) -> Report:
    usual = {
        "settings": RecoveryConfig(),
        "settings_from": None,
        "settings_differ": False,
        "sweep": SweepState(NOON, "web-2", 30_000, 18.0),
        "workers_alive": 2,
    }
    return Report(now=NOON, findings=findings, **{**usual, **fields})


def test_the_countdown_goes_on_between_two_reports_and_stops_at_zero() -> None:
    (row,) = rows_of(report(finding()), str)
    will = next(column for column in COLUMNS.columns if column.key == "will")
    texts = [will.cell(row, Look(NOON + timedelta(seconds=passed))).text for passed in (0, 5.5, 60)]
    assert texts == [f"fail as WORKER_CRASHED in 0:{left}" for left in ("18", "12", "00")]
    assert [countdown(timedelta(seconds=s)) for s in (0, 59, 61, 3661)] == ["0:00", "0:59", "1:01", "1:01:01"]


def test_the_same_trouble_keeps_its_id_and_no_two_lines_share_one() -> None:
    first = rows_of(
        report(finding(), finding(prediction=PredictedAction("retry after 1m00s", Severity.HANDLED, 18.0))), str
    )
    second = rows_of(report(finding(count=9, evidence="no beat for longer")), str)
    assert len({row.id for row in first}) == 2
    assert second[0].id == first[0].id


def test_the_headline_says_who_decides_and_when_the_next_sweep_comes() -> None:
    shown = report(finding(), finding(INTERRUPTED, prediction=NEEDS_DECISION))
    assert headline(RecoverySnapshot(shown, False), NOON + timedelta(seconds=3)) == (
        "1 needs action · 1 handled automatically · next sweep in 0:15, the last was by web-2"
    )
    nobody = report(sweep=None, workers_alive=0)
    assert headline(RecoverySnapshot(nobody, False, "no connection"), NOON).startswith("no connection · 0 need")
    assert "no worker is alive" in headline(RecoverySnapshot(nobody, False), NOON)
    spared = report(spared=Spared(NOON + timedelta(seconds=42), None, NOON - timedelta(seconds=15), NOON))
    said = headline(RecoverySnapshot(spared, False), NOON + timedelta(seconds=2))
    assert said.endswith("no silent run counts as lost for 0:40")
    assert "dead" not in headline(RecoverySnapshot(spared, False), NOON + timedelta(seconds=42))
    assert headline(RecoverySnapshot(), NOON) == "reading the recovery report…"


OF_TASKS = [kind for search in searches() for kind in search.kinds if kind.tasks or kind.by_id]


@pytest.mark.parametrize("kind", OF_TASKS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", ["shop.mail", "night shift", 'say "hi"\\', "a,b*c"])
def test_every_finding_opens_as_a_filter_that_can_be_read(kind: FindingKind, name: str) -> None:
    parse(filter_of(finding(kind, name=name, queue_name=name)))


def test_what_is_beyond_the_ids_that_were_read_is_said() -> None:
    remedy = Remedy("requeue", "task", ("t-0",))
    many = finding(ids=tuple(f"t-{number}" for number in range(500)), count=10_000, at_least=True, remedies=(remedy,))
    (row,) = rows_of(report(many), {"requeue": "R"}.__getitem__)
    facts = why_of(row)
    assert "R requeue" in [fact.text for fact in facts if fact.label == "actions"]
    assert (
        facts[-1].text == "t-0, t-1, t-2 and at least 9,997 more; a verb takes the 500 oldest, repeat it for the rest"
    )


ID = UUID(int=7)


def operation(**fields: Any) -> OperationRow:
    usual: dict[str, Any] = {
        "operation_id": ID,
        "began_at": NOON,
        "acted_at": NOON,
        "verbs": ("requeue",),
        "kinds": ("task",),
        "applied": 2,
        "refused": 0,
        "undone": 0,
        "at_least": False,
        "target_id": "019a7c2e-0000-7000-8000-00001cd6ba9a",
        "os_user": "ops",
        "os_host": "bastion",
        "db_role": "app",
        "reason": None,
        "filter": None,
        "is_undo": False,
    }
    return OperationRow(**{**usual, **fields})


def targets(*ids: str, kind: str = "task", more: bool = False) -> OneOperation:
    rows = tuple(
        AuditRow(at, NOON, ID, "requeue", kind, each, "applied", None, None, None, "ops", "bastion", "app", None, None,
                 None, None)
        for at, each in reversed(list(enumerate(ids)))
    )  # fmt: skip
    return OneOperation(ID, rows, more)


@pytest.mark.parametrize(
    ("fields", "target", "outcome"),
    [
        ({"applied": 45, "refused": 4}, "49 tasks", "45 applied, 4 refused"),
        ({"applied": 1}, "task …1cd6ba9a", "applied"),
        ({"applied": 0, "refused": 1}, "task …1cd6ba9a", "refused"),
        ({"applied": 1, "undone": 1}, "task …1cd6ba9a", "undone"),
        ({"applied": 1, "kinds": ("queue",), "target_id": "mail"}, "queue mail", "applied"),
        ({"applied": 2, "undone": 2}, "2 tasks", "2 applied, undone"),
        ({"applied": 3, "undone": 2}, "3 tasks", "3 applied, 2 undone"),
        ({"applied": 0, "refused": 3}, "3 tasks", "3 refused"),
        ({"applied": 990, "refused": 10, "at_least": True}, "1,000 or more tasks", "counting…"),
        ({"applied": 3, "kinds": ("task", "queue")}, "3 targets", "3 applied"),
    ],
)
def test_target_and_outcome_of_an_operation(fields: dict[str, Any], target: str, outcome: str) -> None:
    assert (target_of(operation(**fields)), outcome_of(operation(**fields))) == (target, outcome)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, ""),
        ({}, ""),
        ({"status": "FAILED", "retry_count": 3, "claimed_at": None}, "FAILED, try 4"),
        ({"status": "PAUSED"}, "PAUSED"),
        ({"paused_at": None}, "not paused"),
        ({"paused_at": "2026-11-18T12:00:00Z"}, "paused"),
        ({"draining_since": None}, "not draining"),
        ({"new_task_id": "019a"}, "new task id 019a"),
    ],
)
def test_a_state_before_or_after(state: dict[str, Any] | None, words: str) -> None:
    assert state_words(state) == words


def test_the_command_of_an_operation_is_the_one_that_does_the_same() -> None:
    two = targets("t1", "t2")
    listing = f"horsies audit ls --operation {ID}"
    assert command_of(operation(), two) == "horsies tasks requeue t1 t2"
    assert command_of(operation(reason="it's back"), two).endswith("--reason 'it'\"'\"'s back'")
    assert command_of(operation(filter="status:failed name:pay"), None) == (
        "horsies tasks requeue --filter 'status:failed name:pay'"
    )
    node = operation(verbs=("skip",), kinds=("node",), applied=1)
    assert command_of(node, targets("w1:3", kind="node")) == "horsies workflows skip w1 3"
    for unknown, rows in (
        (operation(), None),
        (operation(), targets("t1", "t2", more=True)),
        (operation(), targets(*(f"t{number}" for number in range(30)))),
        (operation(is_undo=True), two),
        (operation(verbs=("of a later version",)), two),
        (operation(verbs=("rerun",)), two),  # its arguments are not in the audit
        (operation(verbs=("complete",), kinds=("node",)), targets("w1:3", kind="node")),
    ):
        assert command_of(unknown, rows) == listing


def test_undo_is_offered_where_something_is_left_that_may_be_taken_back() -> None:
    assert can_be_undone(operation())
    assert can_be_undone(operation(undone=1))
    assert can_be_undone(operation(verbs=("pause",), kinds=("queue",)))
    assert not can_be_undone(operation(undone=2))
    assert not can_be_undone(operation(applied=0, refused=2))
    assert not can_be_undone(operation(verbs=("rerun",)))
    assert not can_be_undone(operation(verbs=("recover",), kinds=("task", "worker")))
    for kinds in (("worker",), ("task", "worker"), ("task",)):
        assert can_be_undone(operation(verbs=("acknowledge",), kinds=kinds))


def test_the_rows_of_a_change_and_of_an_operation_are_filters_of_the_task_list() -> None:
    change = Change("task", "failed", "shop.pay*", "t1", NOON, NOON + timedelta(seconds=90), "CARD DECLINED", 3)
    understood = parse(rows_of_change(change))
    assert understood.text == (
        r'status:failed name:shop.pay\* error:"CARD DECLINED" ended:2026-11-18T12:00:00Z..2026-11-18T12:01:30Z'
    )
    assert tasks_of(targets("t1", "t2").rows) == "id:t2,t1"
    assert tasks_of(targets("mail", kind="queue").rows) is None


def test_entries_are_in_the_order_of_their_times_and_another_day_has_its_date() -> None:
    change = Change("task", "failed", "pay", "t1", NOON - timedelta(days=1), NOON - timedelta(days=1))
    newer = Change("worker", "died", "web-1:7", "web-1-7-ab", NOON, NOON + timedelta(seconds=5))
    found = entries([operation()], [change, newer], NOON, UTC)
    assert [entry.when for entry in found] == ["12:00:05Z", "12:00:00Z", "Nov 17 12:00"]
    assert [entry.operation is not None for entry in found] == [False, True, False]
