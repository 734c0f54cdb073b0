"""Random workflows, and a pure model that predicts the end of each of their nodes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from random import Random
from typing import Any

import hypothesis.strategies as st
from workflow_plans import node

from horsies.domain.plan import MAP_DEFINITION, NodePlan, WorkflowPlan

MAX_RETRIES = 3
UNKNOWN = "nobody knows it"
_LARGE = 30_000


class Act(Enum):
    """What the code of a node's task does."""

    VALUE = "returns a number"
    LIST = "returns a list"
    LARGE = "returns so much that three of its kind do not fit into the arguments of one task"
    FAIL = "fails"
    HEAL = "fails until its node is opened again"
    FLAKY = "fails twice, and is tried again by its policy"
    EXPIRE = "is too late before a worker can run it, until its node is opened again"


@dataclass(frozen=True)
class Step:
    """A node. `child`: a sub-workflow; `items` or `over`: a map, over numbers or over the list of another node."""

    act: Act = Act.VALUE
    deps: tuple[int, ...] = ()
    join: str = "all"
    needs: int | None = None
    forgiving: bool = False
    given: tuple[int, ...] = ()
    context: tuple[int, ...] | None = None
    survives: bool = True
    child: Flow | None = None
    items: tuple[int, ...] | None = None
    over: int | None = None
    unknown: bool = False

    def __repr__(self) -> str:
        return _said(self)

    @property
    def is_map(self) -> bool:
        return self.items is not None or self.over is not None

    @property
    def is_child(self) -> bool:
        return self.child is not None or self.is_map or self.unknown

    @property
    def is_strict(self) -> bool:
        """Whether all its arguments are present and independent of timing: only then may its value depend on them."""
        return self.join == "all" and not self.forgiving


@dataclass(frozen=True)
class Flow:
    steps: tuple[Step, ...]
    pauses: bool = False
    output: int | None = None
    cases: tuple[tuple[int, ...], ...] | None = None

    def __repr__(self) -> str:
        return _said(self)


def _said(thing: Step | Flow) -> str:
    """The fields that differ from their defaults, for the report of a falsifying example."""
    told = {one.name: getattr(thing, one.name) for one in fields(thing)}
    usual = {one.name: one.default for one in fields(thing)}
    words = [
        f"{name}={value}" if isinstance(value, Act) else f"{name}={value!r}"
        for name, value in told.items()
        if value != usual[name]
    ]
    return f"{type(thing).__name__}({', '.join(words)})"


@dataclass
class Facts:
    """Events from outside the graph that happened to a workflow."""

    cancelled: bool = False
    broke: dict[int, str] = field(default_factory=dict)
    """Nodes whose task crashed for the last time, with the error code."""
    again: set[int] = field(default_factory=set)
    """Nodes whose task is not their first."""
    timely: set[int] = field(default_factory=set)
    """Nodes that were opened again, without their passed deadline."""
    children: dict[int, Facts] = field(default_factory=dict)
    decided: dict[int, End] = field(default_factory=dict)
    """Operators' decisions on nodes, regardless of their dependencies."""


@dataclass(frozen=True)
class End:
    """`plain` is the stored result after `plain()`; None for a skipped node."""

    status: str
    plain: Any = None

    @property
    def code(self) -> str:
        return str(self.plain["err"])


@dataclass(frozen=True)
class Expected:
    status: str
    plain: Any
    code: str | None
    ends: tuple[End, ...]
    children: Mapping[int, Expected]


def plain(tree: Any) -> Any:
    """Stored JSON with results as {"ok": value} or {"err": code}, because error texts may change."""
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("__task_result__"):
        return {"ok": plain(tree["ok"])} if tree["err"] is None else {"err": code_of(tree["err"])}
    return {name: plain(value) for name, value in tree.items()}


def code_of(error: Mapping[str, Any]) -> str:
    code = error["error_code"]
    return str(code["__builtin_task_code__"] if isinstance(code, dict) else code)


def value_of(act: Act, key: str, index: int, given: Mapping[str, Any]) -> Any:
    """What the task of a node returns; a wrong argument makes another value."""
    number = zlib.crc32(json.dumps([key, index, given], sort_keys=True).encode())
    if act is Act.LIST:
        return list(range(number % 4))
    return "x" * _LARGE + str(number) if act is Act.LARGE else number


def expected(flow: Flow, facts: Facts, key: str = "m") -> Expected:
    """The expected end of a workflow that was not cancelled."""
    ends: list[End] = []
    children: dict[int, Expected] = {}
    for index, step in enumerate(flow.steps):
        if index in facts.decided:
            ends.append(facts.decided[index])
            continue
        joined = _join(step, [ends[dep].status for dep in step.deps])
        ends.append(_run(flow, index, key, ends, facts, children) if joined else End("SKIPPED"))
    failed = [index for index, end in enumerate(ends) if end.status == "FAILED"]
    status, code = "COMPLETED", None
    if flow.cases is None and failed:
        status, code = "FAILED", ends[failed[0]].code
    elif flow.cases is not None and not any(all(ends[one].status == "COMPLETED" for one in c) for c in flow.cases):
        required = {one for case in flow.cases for one in case}
        blamed = [index for index in failed if index in required]
        status, code = "FAILED", ends[blamed[0]].code if blamed else "WORKFLOW_SUCCESS_CASE_NOT_MET"
    return Expected(status, _result(flow, ends), code, tuple(ends), children)


def _join(step: Step, have: Sequence[str]) -> bool:
    completed = have.count("COMPLETED")
    if step.join == "all":
        return step.forgiving or completed == len(have)
    return completed >= (step.needs or 1)


def _run(flow: Flow, index: int, key: str, ends: Sequence[End], facts: Facts, children: dict[int, Expected]) -> End:
    step = flow.steps[index]
    if index in facts.broke:
        return _failed(facts.broke[index])
    if step.is_child:
        return _run_child(step, index, key, ends, facts, children)
    if step.act is Act.EXPIRE and index not in facts.timely:
        return _failed("TASK_EXPIRED")
    if step.act is Act.FAIL or (step.act is Act.HEAL and index not in facts.again):
        return _failed("BROKE")
    given = {f"a{dep}": ends[dep].plain for dep in step.given} if step.is_strict else {}
    return End("COMPLETED", {"ok": value_of(step.act, key, index, given)})


def _run_child(
    step: Step, index: int, key: str, ends: Sequence[End], facts: Facts, children: dict[int, Expected]
) -> End:
    if step.unknown:
        return _failed("SUBWORKFLOW_LOAD_FAILED")
    child = facts.children.get(index, Facts())
    if step.over is not None and ends[step.over].status != "COMPLETED":
        return _failed("WORKFLOW_ENQUEUE_FAILED")
    if child.cancelled:
        return _failed("SUBWORKFLOW_FAILED")
    if step.child is not None:
        end = expected(step.child, child, f"{key}.{index}")
    else:
        items = step.items if step.over is None else ends[step.over].plain["ok"]
        end = _map(items or (), child)
    children[index] = end
    # A workflow without a result, because its output node was skipped, passes on nothing.
    return End("COMPLETED", end.plain or {"ok": None}) if end.status == "COMPLETED" else _failed("SUBWORKFLOW_FAILED")


def _map(items: Sequence[int], facts: Facts) -> Expected:
    ends = [
        _failed(facts.broke[number]) if number in facts.broke
        else _failed("BROKE") if item < 0
        else End("COMPLETED", {"ok": item * 10})
        for number, item in enumerate(items)
    ]  # fmt: skip
    broken = [end for end in ends if end.status == "FAILED"]
    if broken:
        return Expected("FAILED", None, broken[0].code, tuple(ends), {})
    return Expected("COMPLETED", {"ok": [end.plain["ok"] for end in ends]}, None, tuple(ends), {})


def _failed(code: str) -> End:
    return End("FAILED", {"err": code})


def _result(flow: Flow, ends: Sequence[End]) -> Any:
    if flow.output is not None:
        return ends[flow.output].plain
    needed = {dep for step in flow.steps for dep in step.deps}
    return {"ok": {f"n{index}": end.plain for index, end in enumerate(ends) if index not in needed}}


def catalogue(flow: Flow, key: str = "m") -> Iterator[tuple[str, Flow]]:
    """A workflow and those of its nodes, by the keys of their definitions."""
    yield key, flow
    for index, step in enumerate(flow.steps):
        if step.child is not None:
            yield from catalogue(step.child, f"{key}.{index}")


def plan_of(flow: Flow, key: str = "m") -> WorkflowPlan:
    policy = None
    if flow.cases is not None:
        policy = json.dumps({"cases": [{"required_indices": case} for case in flow.cases], "optional_indices": []})
    nodes = tuple(_node(step, index, key) for index, step in enumerate(flow.steps))
    return WorkflowPlan("model", key, "pause" if flow.pauses else "fail", flow.output, policy, nodes)


def _node(step: Step, index: int, key: str) -> NodePlan:
    args_from = {f"a{dep}": dep for dep in step.given}
    kwargs: dict[str, Any] = {"step": [key, index]}
    definition = f"{key}.{index}" if step.child is not None else UNKNOWN if step.unknown else None
    if step.is_map:
        definition, kwargs = MAP_DEFINITION, {MAP_DEFINITION: _order(step), "fixed": 1}
        if step.over is not None:
            args_from = {"__items__": step.over}
    return node(
        index,
        *step.deps,
        task_name="model",
        kwargs_json=json.dumps(kwargs),
        args_from=args_from,
        ctx_from=None if step.context is None else tuple(f"n{dep}" for dep in step.context),
        allow_failed_deps=step.forgiving,
        join=step.join,
        min_success=step.needs,
        task_options=_options(step),
        sub_definition_key=definition,
    )


def _order(step: Step) -> dict[str, Any]:
    order = {"task": "model", "param": "item", "task_options": _options(step), "queue": "default", "priority": 100}
    return order | {"max_items": 10} | ({"items": list(step.items)} if step.items is not None else {})


def _options(step: Step) -> str:
    codes = ["TRY_AGAIN"] * (step.act is Act.FLAKY) + ["WORKER_CRASHED"] * step.survives
    policy = {
        "max_retries": MAX_RETRIES,
        "intervals": [1],
        "backoff_strategy": "fixed",
        "jitter": False,
        "auto_retry_for": codes,
    }
    late = "2020-01-01T00:00:00+00:00" if step.act is Act.EXPIRE else None
    return json.dumps({"retry_policy": policy if codes else None, "good_until": late})


def flows() -> st.SearchStrategy[Flow]:
    """Workflows of up to nine nodes, some of which are smaller workflows.

    Each node is derived from one number, so that hypothesis can drop nodes. When it drew every detail itself, half of
    its examples were plain nodes in a row.
    """
    number = st.integers(0, 2**32)
    sizes = st.sampled_from([3, 4, 5, 6, 7, 8, 9])
    return sizes.flatmap(lambda size: st.builds(_flow, number, st.lists(number, min_size=size, max_size=size)))


def random_flow(rng: Random) -> Flow:
    """The same without hypothesis, for tests that compare many at a time."""
    return _flow(rng.getrandbits(32), [rng.getrandbits(32) for _ in range(rng.randint(3, 9))])


@st.composite
def layers(draw: st.DrawFn) -> Flow:
    """Each node depends on the whole layer before it: two workers can miss each other at the layer's last two ends."""
    steps: list[Step] = []
    before: tuple[int, ...] = ()
    for width in draw(st.lists(st.integers(2, 3), min_size=2, max_size=4)):
        layer = tuple(range(len(steps), len(steps) + width))
        steps += [Step(draw(st.sampled_from([Act.VALUE, Act.LIST])), before, given=before) for _ in layer]
        before = layer
    return Flow(tuple(steps))


def _flow(seed: int, nodes: Sequence[int], depth: int = 2) -> Flow:
    rng = Random(seed)
    steps: list[Step] = []
    for number in nodes:
        steps.append(_step(Random(number), steps, depth))
    indexes = range(len(steps))
    cases = tuple(tuple(rng.sample(indexes, min(len(steps), rng.randint(1, 2)))) for _ in range(rng.randint(1, 2)))
    return Flow(
        tuple(steps),
        pauses=rng.random() < 0.2,
        output=rng.choice(indexes) if steps and rng.random() < 0.3 else None,
        cases=cases if steps and rng.random() < 0.3 else None,
    )


def _step(rng: Random, before: Sequence[Step], depth: int) -> Step:
    recent = range(max(0, len(before) - 4), len(before))  # deep rather than broad
    deps = tuple(sorted(rng.sample(recent, min(len(recent), rng.choice([0, 1, 2, 2, 3])))))
    join = rng.choice(["all", "all", "any", "quorum"]) if deps else "all"
    columns: dict[str, Any] = {
        "deps": deps,
        "join": join,
        "needs": rng.randint(1, len(deps)) if join == "quorum" else None,
        "forgiving": join == "all" and bool(deps) and rng.random() < 0.4,
        "context": _some(rng, deps) if deps and rng.random() < 0.5 else None,
        "survives": rng.random() < 0.5,
    }
    given = _some(rng, deps)
    kind = rng.choice(["task"] * 7 + ["child", "items", "over", "unknown"]) if depth else "task"
    lists = [dep for dep in deps if before[dep].act is Act.LIST and not before[dep].is_child]
    if kind == "child":
        inner = [rng.getrandbits(32) for _ in range(rng.randint(0, 3))]
        return Step(child=_flow(rng.getrandbits(32), inner, depth - 1), given=given, **columns)
    if kind == "over" and lists and join == "all":
        return Step(over=rng.choice(lists), **columns)
    if kind in ("items", "over"):
        return Step(items=tuple(rng.choices([1, 2, 3, 4, 5, -1], k=rng.randint(0, 3))), **columns)
    if kind == "unknown":
        return Step(unknown=rng.random() < 0.3, **columns)
    acts = [Act.VALUE] * 5 + [Act.LIST] * 3 + [Act.HEAL, Act.FLAKY] * 2 + [Act.FAIL, Act.EXPIRE, Act.LARGE]
    return Step(rng.choice(acts), given=given, **columns)


def _some(rng: Random, deps: Sequence[int]) -> tuple[int, ...]:
    return tuple(rng.sample(deps, rng.randint(0, len(deps))))
