"""The end of a workflow follows from its nodes only, also with damaged texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from horsies.domain.codec import dump_task_result, load_task_error, load_task_result
from horsies.domain.codes import OutcomeCode
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.domain.workflow_end import EndedNode, WorkflowEnd, end_of, error_summary, judge

STATUSES = ("COMPLETED", "FAILED", "SKIPPED")


def ok(value: object) -> str:
    return dump_task_result(TaskResult(ok=value))


def failed(code: str) -> str:
    return dump_task_result(TaskResult(err=TaskError(error_code=code, message="no")))


def ended(
    nodes: list[EndedNode],
    results: dict[int, str | None],
    *,
    definition_key: str | None = None,
    output_index: int | None = None,
    success_policy: str | None = None,
    stored_error: str | None = None,
) -> WorkflowEnd:
    verdict = judge(
        nodes,
        definition_key=definition_key,
        output_index=output_index,
        success_policy=success_policy,
        stored_error=stored_error,
    )
    return end_of(verdict, results)


def test_the_output_is_passed_on_to_the_letter() -> None:
    nodes = [EndedNode(0, "a", "COMPLETED", ()), EndedNode(1, "b", "COMPLETED", (0,))]
    assert ended(nodes, {0: '{"ok": 1.0e3}', 1: ok(2)}, output_index=0).result == '{"ok": 1.0e3}'


def test_without_an_output_it_is_the_last_nodes_and_null_for_those_skipped() -> None:
    nodes = [
        EndedNode(0, "a", "COMPLETED", ()),
        EndedNode(1, "b", "COMPLETED", (0,)),
        EndedNode(2, 'c"', "SKIPPED", (0,)),
    ]
    result = ended(nodes, {1: ok("é"), 2: None}).result
    assert result == '{"__task_result__":true,"ok":{"b":' + ok("é") + ',"c\\"":null},"err":null}'


def test_a_map_is_the_list_of_its_values_in_order_and_none_where_one_failed() -> None:
    nodes = [EndedNode(index, f"item:{index}", "COMPLETED", ()) for index in range(3)]
    results: dict[int, str | None] = {index: ok(index * 10) for index in range(3)}
    done = ended(nodes, results, definition_key=MAP_DEFINITION)
    assert load_task_result(str(done.result)).unwrap() == [0, 10, 20]
    nodes[1] = nodes[1]._replace(status="FAILED")
    done = ended(nodes, results | {1: failed("NO")}, definition_key=MAP_DEFINITION)
    assert (done.status, done.result, json.loads(str(done.error))["error_code"]) == (WorkflowStatus.FAILED, None, "NO")
    assert ended([], {}, definition_key=MAP_DEFINITION).result == ok([])


def test_an_error_stored_before_fails_it_although_no_node_is_failed_any_more() -> None:
    assert ended([EndedNode(0, "a", "COMPLETED", ())], {0: ok(1)}, stored_error='{"error_code":"X"}') == WorkflowEnd(
        WorkflowStatus.FAILED, '{"__task_result__":true,"ok":{"a":' + ok(1) + '},"err":null}', '{"error_code":"X"}'
    )


def test_a_policy_that_none_of_its_nodes_failed_but_was_skipped_says_so() -> None:
    nodes = [EndedNode(0, "a", "SKIPPED", ()), EndedNode(1, "b", "FAILED", ())]
    done = ended(nodes, {1: failed("X")}, success_policy='{"cases":[{"required_indices":[0]}]}')
    assert load_task_error(str(done.error)).error_code is OutcomeCode.WORKFLOW_SUCCESS_CASE_NOT_MET


@pytest.mark.parametrize(
    "policy",
    ["7", "[]", "{}", '{"cases":7}', '{"cases":[]}', '{"cases":[7]}', '{"cases":[{"required_indices":[]}]}', "no json"],
)
def test_a_damaged_policy_is_no_success(policy: str) -> None:
    done = ended([EndedNode(0, "a", "COMPLETED", ())], {0: ok(1)}, success_policy=policy)
    assert done.status is WorkflowStatus.FAILED
    assert "damaged" in str(load_task_error(str(done.error)).message)


def _of_child(status: str, cause: str) -> str:
    summary = f'{{"status":"{status}","error_summary":{cause}}}'
    return f'{{"error_code":"SUBWORKFLOW_FAILED","message":"the child","sub_workflow_summary":{summary}}}'


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ('{"error_code":"X","message":"no"}', "X: no"),
        ('{"error_code":{"__builtin_task_code__":"TASK_EXPIRED"},"message":null}', "TASK_EXPIRED"),
        ("{}", None),
        (_of_child("FAILED", '"GATE: it is shut"'), "GATE: it is shut"),
        (_of_child("CANCELLED", '"it was cancelled"'), "SUBWORKFLOW_FAILED: the child"),
        (_of_child("FAILED", "null"), "SUBWORKFLOW_FAILED: the child"),
        ("no json", "no json"),
        (None, None),
    ],
)
def test_an_error_in_one_line(error: str | None, told: str | None) -> None:
    assert error_summary(error) == told


texts = st.one_of(st.none(), st.text(max_size=5), st.integers().map(ok), st.just(failed("X")), st.just("[1]"))


@settings(deadline=None)
@given(st.data())
def test_any_workflow_has_an_end_that_can_be_read(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 6))
    nodes = [
        EndedNode(
            index,
            data.draw(st.sampled_from([f"n{index}", None])),
            data.draw(st.sampled_from(STATUSES)),
            data.draw(st.lists(st.integers(-1, 7), max_size=2)),
        )
        for index in range(count)
    ]
    results = {node.task_index: data.draw(texts) for node in nodes}
    done = ended(
        nodes,
        results,
        definition_key=data.draw(st.sampled_from([None, MAP_DEFINITION])),
        success_policy=data.draw(st.sampled_from([None, "[]", '{"cases":[{"required_indices":[0,1]}]}'])),
        stored_error=data.draw(st.sampled_from([None, '{"error_code":"X"}'])),
    )
    assert (done.status is WorkflowStatus.FAILED) <= (done.error is not None)
    if done.result is not None:
        assert json.loads(done.result).keys() >= {"ok", "err"}
