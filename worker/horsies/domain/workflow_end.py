"""The outcome of a workflow after all its nodes have ended: its status, its result and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain import tags
from horsies.domain.codec import CorruptJsonError, dump_task_error, parse_json, to_json
from horsies.domain.codes import OperationalErrorCode, OutcomeCode
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.domain.task_result import TaskError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPLETED: Final = WorkflowTaskStatus.COMPLETED.value
_FAILED: Final = WorkflowTaskStatus.FAILED.value


class EndedNode(NamedTuple):
    """A node of a workflow whose nodes have all ended."""

    task_index: int
    node_id: str | None
    status: str
    dependencies: Sequence[int]


@dataclass(frozen=True, slots=True)
class WorkflowEnd:
    """The values for the columns of an ended workflow."""

    status: WorkflowStatus
    result: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class WorkflowVerdict:
    """The success or failure of a workflow, determined before results are read. Its error is that of `blamed`."""

    status: WorkflowStatus
    blamed: EndedNode | None
    error: str | None
    """The error if no node is to blame; of a success, an earlier error that the workflow keeps."""
    results_of: tuple[EndedNode, ...]
    """The nodes whose results form the result."""
    shape: str
    """How these results form it: `output` as it is, `map` as a list, `sinks` by their ids."""


def judge(
    nodes: Sequence[EndedNode],
    *,
    definition_key: str | None,
    output_index: int | None,
    success_policy: str | None,
    stored_error: str | None,
) -> WorkflowVerdict:
    """Decide by the nodes, in the order of their indexes; `success_policy` and `stored_error` are those of the row."""
    shape, results_of = _shape(nodes, definition_key, output_index)
    failed = [node for node in nodes if node.status == _FAILED]
    if success_policy is None:
        if not failed and stored_error is None:
            return WorkflowVerdict(WorkflowStatus.COMPLETED, None, None, results_of, shape)
        return WorkflowVerdict(WorkflowStatus.FAILED, failed[0] if failed else None, stored_error, results_of, shape)
    cases = _cases(success_policy)
    completed = {node.task_index for node in nodes if node.status == _COMPLETED}
    if any(case <= completed for case in cases):
        return WorkflowVerdict(WorkflowStatus.COMPLETED, None, stored_error, results_of, shape)
    required = frozenset[int]().union(*cases)
    blamed = next((node for node in failed if node.task_index in required), None)
    return WorkflowVerdict(WorkflowStatus.FAILED, blamed, _case_not_met(len(cases)), results_of, shape)


def end_of(verdict: WorkflowVerdict, results: Mapping[int, str | None]) -> WorkflowEnd:
    """Return the end. `results` has the stored texts by index, of at least the nodes that `verdict` names."""
    blamed = verdict.blamed
    error = verdict.error if blamed is None else error_of(results.get(blamed.task_index), blamed)
    return WorkflowEnd(verdict.status, _result(verdict, results), error)


def error_of(result: str | None, node: EndedNode) -> str:
    """Return the error in the stored result of a failed node, in the form of its workflow's error column."""
    error = _part(result, "err")
    if isinstance(error, dict):
        return to_json(error)
    words = f"the node {node.node_id or node.task_index} failed, and its stored result has no error"
    return dump_task_error(TaskError(error_code=OutcomeCode.WORKFLOW_FAILED, message=words))


def error_summary(error: str | None) -> str | None:
    """Return one line of a stored error for the summary of the child."""
    tree = _tree(error)
    if not isinstance(tree, dict):
        return error
    below = tree.get("sub_workflow_summary")
    # Only the cause: with the text of every level around it, the message would grow at each.
    if isinstance(below, dict) and below.get("status") == "FAILED" and isinstance(below.get("error_summary"), str):
        return str(below["error_summary"])
    code, message = tree.get("error_code"), tree.get("message")
    if isinstance(code, dict):
        code = code.get(tags.BUILTIN_CODE)
    return ": ".join(str(part) for part in (code, message) if part is not None) or None


def ok_part(result: str | None) -> Any:
    return _part(result, "ok")


def _shape(
    nodes: Sequence[EndedNode], definition_key: str | None, output_index: int | None
) -> tuple[str, tuple[EndedNode, ...]]:
    if definition_key == MAP_DEFINITION:
        return "map", tuple(nodes)
    if output_index is not None:
        return "output", tuple(node for node in nodes if node.task_index == output_index)
    needed = {dependency for node in nodes for dependency in node.dependencies}
    return "sinks", tuple(node for node in nodes if node.task_index not in needed)


def _result(verdict: WorkflowVerdict, results: Mapping[int, str | None]) -> str | None:
    nodes = verdict.results_of
    if verdict.shape == "output":
        return results.get(nodes[0].task_index) if nodes else None
    if verdict.shape == "map":
        if verdict.status is not WorkflowStatus.COMPLETED:
            return None
        return _ok_text(to_json([ok_part(results.get(node.task_index)) for node in nodes]))
    texts = (
        f"{to_json(node.node_id or str(node.task_index))}:{_readable(results.get(node.task_index))}" for node in nodes
    )
    return _ok_text("{" + ",".join(texts) + "}")


def _ok_text(value: str) -> str:
    return f'{{"{tags.TASK_RESULT}":true,"ok":{value},"err":null}}'


def _readable(result: str | None) -> str:
    """Return the text itself, because parsing and writing may change a float; `null` if it is not JSON."""
    return "null" if result is None or _tree(result) is None else result


def _part(result: str | None, name: str) -> Any:
    tree = _tree(result)
    return tree.get(name) if isinstance(tree, dict) else None


def _tree(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return parse_json(text)
    except CorruptJsonError:
        return None


def _cases(success_policy: str) -> list[frozenset[int]]:
    """Return the required indexes of each case; none for a policy that cannot be read, so that it never succeeds."""
    tree = _tree(success_policy)
    cases = tree.get("cases") if isinstance(tree, dict) else None
    found = (
        (case.get("required_indices") for case in cases if isinstance(case, dict)) if isinstance(cases, list) else ()
    )
    required = (frozenset(index for index in one if isinstance(index, int)) for one in found if isinstance(one, list))
    return [case for case in required if case]


def _case_not_met(cases: int) -> str:
    if not cases:
        words = "its stored success_policy names no case that could be met: it is damaged"
        return dump_task_error(TaskError(error_code=OperationalErrorCode.WORKER_SERIALIZATION_ERROR, message=words))
    words = f"none of the {cases} cases of its success_policy is met: each requires a node that is not COMPLETED"
    return dump_task_error(TaskError(error_code=OutcomeCode.WORKFLOW_SUCCESS_CASE_NOT_MET, message=words))
