"""The records of the manual verbs, what the commands are made of, and a stack as lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import horsies
from horsies.cli.main import app
from horsies.display.stack_lines import innermost, is_same, lines_of, short_file
from horsies.domain.states import TASK_TRANSITIONS, Mover, TaskStatus
from horsies.operations.target import OperationError
from horsies.operations.verb import COMMAND_GROUPS, TaskVerb, Verb, WorkflowVerb
from horsies.operations.verbs import VERBS, verbs_for
from horsies.store.statements import statement

PLACES = Path(horsies.__file__).parent / "operations" / "verbs"
ALL = list(VERBS.values())


def ids(verb: Verb) -> str:
    return f"{verb.kind}-{verb.name}"


def command_of(verb: Verb) -> Any:
    root: Any = typer.main.get_command(app)
    context = root.context_class(root)
    _, group, _ = root.resolve_command(context, [COMMAND_GROUPS[verb.kind]])
    return group.commands[verb.name]


@pytest.mark.parametrize("verb", ALL, ids=ids)
def test_a_record_has_all_its_words(verb: Verb) -> None:
    assert all((verb.title, verb.will.startswith("will "), verb.done, verb.help.endswith(".")))
    assert (verb.hint != "") is (verb.key != "")
    assert verb.hint == "" or verb.hint.endswith(".")


def test_every_record_in_the_folder_of_the_verbs_is_found_by_its_kind_and_its_name() -> None:
    written = "".join(path.read_text() for path in PLACES.glob("*.py"))
    assert len(re.findall(r"\b\w*Verb\(\n +(?:kind|name)=", written)) == len(VERBS) > 20
    assert all((verb.kind, verb.name) == key for key, verb in VERBS.items())


def test_the_help_of_undo_names_exactly_the_verbs_that_have_a_way_back() -> None:
    told = " ".join(VERBS["operation", "undo"].help.split())
    listed = told.partition("These can be undone: ")[2].partition(". ")[0]
    groups = {part.split()[0]: set(re.split(r",? and |, | ", part)[1:]) for part in listed.split("; ")}
    assert groups == {
        "tasks": {"requeue", "fail", "cancel", "retry-now", "reprioritise", "move", "reschedule"},
        "workflows": {"pause", "resume"},
        "workers": {"drain", "resume", "acknowledge"},
        "queues": {"pause", "resume"},
        "schedules": {"pause", "resume", "skip"},
    }


@pytest.mark.parametrize("verb", ALL, ids=ids)
def test_the_example_is_a_command_line_that_the_command_reads(verb: Verb) -> None:
    program, group, name, *rest = shlex.split(verb.example)
    assert (program, group, name) == ("horsies", COMMAND_GROUPS[verb.kind], verb.name)
    command = command_of(verb)
    with command.make_context(name, rest) as context:
        given = {name for name, value in context.params.items() if value not in (None, False, [], ())}
    assert given
    assert f"`{verb.example}`" in command.epilog


@pytest.mark.parametrize("verb", ALL, ids=ids)
def test_the_command_has_the_help_of_the_record_and_its_options(verb: Verb) -> None:
    command = command_of(verb)
    assert command.help == verb.help
    spelled = {flag for parameter in command.params for flag in parameter.opts}
    assert {flag for option in verb.options for flag in option.spelled} <= spelled
    assert {"--dry-run", "--yes", "--reason", "--json", "--context"} <= spelled


@pytest.mark.parametrize("verb", verbs_for("task"), ids=ids)
def test_a_verb_for_tasks_keeps_to_the_table_of_transitions(verb: TaskVerb) -> None:
    arrows = [arrow for arrow in TASK_TRANSITIONS if arrow.verb == verb.name and Mover.OPERATOR in arrow.who]
    sources = {arrow.source.value for arrow in arrows if arrow.source is not None}
    if sources:  # else it leaves the status as it is, or writes another row
        assert verb.sources == sources
    if verb.ends is not None:
        assert {arrow.target for arrow in arrows} == {verb.ends.status}
    assert [verb.sets, verb.statement, verb.ends].count(None) == 2


@pytest.mark.parametrize("verb", verbs_for("task"), ids=ids)
@pytest.mark.parametrize("status", [status.value for status in TaskStatus])
def test_a_task_in_a_state_that_the_verb_does_not_change_is_refused_with_that_state(
    verb: TaskVerb, status: str
) -> None:
    reason = verb.refusal_by_state(status, None)
    assert (reason is None) is verb.fits(status, None)
    assert reason is None or status in reason
    assert "does not know its status" in (verb.refusal_by_state("ON_HOLD", None) or "")


@pytest.mark.parametrize("verb", ALL, ids=ids)
def test_an_inverse_is_a_verb_for_the_same_targets_and_has_this_one_as_its_inverse(verb: Verb) -> None:
    if verb.inverse is not None:
        assert VERBS[verb.kind, verb.inverse].inverse == verb.name


def test_what_fits_a_workflow_is_what_its_record_names() -> None:
    offered = {verb.name: set(verb.sources) for verb in verbs_for("workflow") if isinstance(verb, WorkflowVerb)}
    assert (offered["pause"], offered["resume"]) == ({"RUNNING"}, {"PAUSED"})
    assert offered["cancel"].isdisjoint(offered["rerun"])


def test_an_option_of_another_verb_is_refused_and_an_empty_one_is_none() -> None:
    cancel = VERBS["task", "cancel"]
    assert cancel.checked({"fresh_budget": False, "args": None}) == {}
    with pytest.raises(OperationError, match="cancel has no option 'fresh-budget'"):
        cancel.checked({"fresh_budget": True})


def test_a_fragment_that_is_not_filled_in_stays_readable_and_a_filled_one_is_gone() -> None:
    raw = statement("horsies.operations.task_targets", "task_change")
    assert "/* sets */" in raw
    assert "priority = 1" in statement("horsies.operations.task_targets", "task_change", sets="priority = 1")


def frame_at(function: str, line: int, *, user: bool = True) -> dict[str, Any]:
    file = "/srv/shop/orders/pay.py" if user else "/usr/lib/python3.11/socket.py"
    return {"file": file, "line": line, "function": function, "source": f"{function}()", "user": user}


def stack_of(*frames: dict[str, Any], **threads: list[dict[str, Any]]) -> dict[str, Any]:
    return {"frames": list(frames), "threads": [[name, found] for name, found in threads.items()]}


def changed_in(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    return [line.function for line in lines_of(now, before) if line.changed]


def test_the_line_of_the_application_is_named_also_when_a_library_is_the_innermost() -> None:
    found = innermost(stack_of(frame_at("recv", 700, user=False), frame_at("charge", 88), frame_at("pay", 41)))
    assert found is not None
    assert (found.place, found.function, found.is_users) == ("shop/orders/pay.py:88", "charge", True)
    library = innermost(stack_of(frame_at("recv", 700, user=False)))
    assert library is not None
    assert library.place == "socket.py:700"
    assert innermost(stack_of()) is None


def test_what_a_loop_calls_changes_and_the_loop_does_not() -> None:
    before = stack_of(frame_at("charge", 88), frame_at("pay", 41))
    assert changed_in(before, before) == []
    assert is_same(before, before)
    assert changed_in(stack_of(frame_at("charge", 90), frame_at("pay", 41)), before) == ["charge"]
    assert changed_in(stack_of(frame_at("charge", 88), frame_at("pay", 42)), before) == ["charge", "pay"]
    assert changed_in(stack_of(frame_at("send", 1), frame_at("charge", 88), frame_at("pay", 41)), before) == ["send"]


def test_a_frame_that_has_gone_is_a_change_too() -> None:
    before = stack_of(frame_at("charge", 88), frame_at("pay", 41))
    now = stack_of(frame_at("pay", 41))
    assert changed_in(now, before) == []
    assert not is_same(now, before)


def test_threads_are_compared_by_their_names() -> None:
    before = stack_of(frame_at("pay", 41), upload=[frame_at("put", 5)])
    now = stack_of(frame_at("pay", 41), upload=[frame_at("put", 6)], download=[frame_at("get", 7)])
    assert changed_in(now, before) == ["put", "get"]
    assert [line.place for line in lines_of(now) if line.thread] == ["thread upload", "thread download"]


def test_files_are_named_by_their_end() -> None:
    assert short_file("/srv/venv/lib/python3.12/site-packages/requests/api.py") == "requests/api.py"
    assert short_file("/usr/lib/python3.11/json/decoder.py") == "json/decoder.py"
    assert short_file("/srv/app/shop/orders/pay.py") == "shop/orders/pay.py"
    assert short_file("pay.py") == "pay.py"
