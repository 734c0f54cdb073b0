"""The details of one node below the graph: its dependencies, its task, its arguments and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.display.formatting import inconsistency
from horsies.domain.plan import MAP_ITEMS
from horsies.operations.verb import WorkflowVerb
from horsies.operations.verbs import VERBS, verbs_for
from horsies_tui.look.lines import Span, cut_spans, flow, words
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import moment_text, number
from horsies_tui.story.lines import Band, Line, OpenTask, OpenWorkflow, Section, section
from horsies_tui.story.parts import damage
from horsies_tui.story.payload import Texts, source_of
from horsies_tui.task.document import course, texts
from horsies_tui.task.timeline import actor_of
from horsies_tui.workflow.graph_labels import state_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import tzinfo

    from horsies.operations.verb import Verb
    from horsies.views import NodeStory, NodeView, TaskDetail, WorkflowStory
    from horsies_tui.look.lines import Spans
    from horsies_tui.story.lines import Document, Target
    from horsies_tui.story.payload import Payload, StoryContext
    from horsies_tui.workflow.graph_labels import Labels


NODE: Final = "node"
_LABEL: Final = 11
_MOST_NEEDS: Final = 40
"""Of a node with a thousand dependencies the first are listed; the graph shows all."""
_JOINS: Final = {"all": "all dependencies succeeded", "any": "one dependency succeeded"}


@dataclass(frozen=True, slots=True)
class NodeContext:
    """`story` and `task` arrive after the node itself, which the graph already has."""

    node: NodeView
    labels: Labels
    zone: tzinfo | None
    story: NodeStory | None = None
    task: StoryContext | None = None
    payload: Payload | None = None


def texts_of(story: NodeStory, task: TaskDetail | None) -> Texts:
    """The texts of its task, or the node's own if it has no task."""
    if task is not None:
        source = source_of(task)
        if story.result is None or story.node.status == story.node.task_status:
            return source
        # An operator decided the node: the error of its task is not what the workflow went on with.
        return source._replace(result=story.result, failed_reason=None)
    # Nodes store empty arguments as empty JSON; tasks store none.
    args, kwargs = (
        None if stored is None or stored.text in ("[]", "{}") else stored for stored in (story.args, story.kwargs)
    )
    return Texts(f"{story.workflow_id}:{story.node.index}", args, kwargs, story.result, None, story.options)


def node_document(context: NodeContext, width: int) -> Document:
    """`width` is that of the text."""
    node, task_id = context.node, context.node.task_id or ""
    bands = [Band((section(f"node {node.index}", lambda: _node(context, width), "task" if task_id else "", task_id),))]
    bands += damage(node, width, context.labels.glyphs)
    if context.story is None:
        return tuple(bands)
    if context.task is not None:
        bands += course(context.task, width)
    bands += texts(context.payload, width, context.labels.glyphs, task_id)
    return tuple(bands)


def _node(context: NodeContext, width: int) -> Section:
    glyphs = context.labels.glyphs
    state = state_of(context.node)
    run = context.labels.run(context.node)
    title = f"{context.node.label}  {glyphs.state_text(state)}{f' {run}' if run else ''}"
    lines: list[Line] = []
    for name, items, target in _facts(context):
        rows = flow(items, max(width - _LABEL, 1), glyphs, gap=2)
        for at, row in enumerate(rows):
            label = Span((name if at == 0 else "").ljust(_LABEL), Tone.MUTED)
            lines.append(Line((name, at), cut_spans((label, *row), width, glyphs), target))
    return Section(NODE, words(title, None, glyphs).text, tuple(lines), more=f"index {context.node.index}")


def _facts(context: NodeContext) -> Iterator[tuple[str, list[Spans], Target | None]]:
    node, labels = context.node, context.labels
    yield from _problems(context)
    yield from _by_hand(context)
    if node.is_subworkflow:
        yield "runs", [(_plain(context, _child_words(node)),)], _child_target(node)
    elif node.task_id is not None:
        deleted = "" if node.task_status is not None else "  its row was deleted"
        spans = (_plain(context, node.name, Tone.ACCENT), _plain(context, f"  {node.task_id}{deleted}", Tone.MUTED))
        yield "task", [spans], OpenTask(node.task_id) if node.task_status is not None else None
    else:
        sent = "without a task" if node.status in ("COMPLETED", "FAILED", "SKIPPED") else "not sent yet"
        where = f"  queue {node.queue}  priority {node.priority}  {sent}"
        yield "task", [(_plain(context, node.name), _plain(context, where, Tone.MUTED))], None
    if node.dependencies:
        yield "waits for", [*_needs(context)], None
        yield "runs when", [(_plain(context, _join_words(node)),)], None
    taken = [
        f"{'its items' if name == MAP_ITEMS else name} from {_name_of(context, need)}"
        for name, need in sorted(node.args_from.items())
    ]
    taken += [f"the result of {each}" for each in node.ctx_from]
    if taken:
        yield "takes", [(_plain(context, each),) for each in taken], None
    then = [each for each in labels.nodes.values() if node.index in each.dependencies]
    if then:
        yield "then", [_sign_and_name(context, each) for each in then[:_MOST_NEEDS]], None


def _problems(context: NodeContext) -> Iterator[tuple[str, list[Spans], Target | None]]:
    node, labels = context.node, context.labels
    if (found := inconsistency(node)) is not None:
        yield (
            "inconsistent",
            [(_plain(context, f"{found}: reconcile repairs it, and so does a sweep", Tone.WARNING),)],
            None,
        )
    match state_of(node):
        case "FAILED":
            tries = f" after {node.retry_count + 1} tries" if node.retry_count else ""
            yield "failed", [(_plain(context, f"{node.error_code or 'without a code'}{tries}", Tone.FAILED),)], None
        case "SKIPPED":
            why = labels.why_skipped(node) or "by an operator, or with the workflow"
            yield "skipped", [(_plain(context, why, Tone.WARNING),)], None
        case "RETRY" if node.next_retry_at is not None:
            at = moment_text(node.next_retry_at, labels.now, context.zone)
            words_of = (
                f"{node.error_code or 'it failed'}, next try at {at}: {node.retry_count + 1} of {node.max_retries + 1}"
            )
            yield "retries", [(_plain(context, words_of, Tone.RETRY),)], None


def _by_hand(context: NodeContext) -> Iterator[tuple[str, list[Spans], Target | None]]:
    """The last thing that an operator did to it: `completed by hand by ops@bastion "the file was there"`."""
    actions = () if context.story is None else context.story.audit
    action = next((row for row in actions if row.outcome == "applied" and row.undone_by is None), None)
    if action is not None:
        verb = VERBS.get(("node", action.verb))
        done = action.verb if verb is None else verb.done
        at = moment_text(action.acted_at, context.labels.now, context.zone)
        yield "operator", [(_plain(context, f"{done} by {actor_of(action)}, {at}", Tone.STRONG),)], None


def _child_words(node: NodeView) -> str:
    what = f"{node.name}, one task for each item" if node.is_map else f"the workflow {node.name}"
    if node.sub_workflow_id is None:
        return f"{what}, not begun yet"
    failed = f", {number(node.sub_failed)} failed" if node.sub_failed else ""
    state = (node.sub_status or "deleted").lower()
    return f"{what}: {state}, {number(node.sub_done or 0)} of {number(node.sub_total or 0)} done{failed}"


def _child_target(node: NodeView) -> Target | None:
    return None if node.sub_workflow_id is None else OpenWorkflow(node.sub_workflow_id)


def _needs(context: NodeContext) -> Iterator[Spans]:
    needs = context.node.dependencies
    for need in needs[:_MOST_NEEDS]:
        known = context.labels.nodes.get(need)
        yield (
            (_plain(context, f"node {need}, which is not there", Tone.BAD),)
            if known is None
            else _sign_and_name(context, known)
        )
    if len(needs) > _MOST_NEEDS:
        yield (_plain(context, f"and {number(len(needs) - _MOST_NEEDS)} more", Tone.MUTED),)


def _sign_and_name(context: NodeContext, node: NodeView) -> Spans:
    state = state_of(node)
    return (Span(context.labels.glyphs.state(state), state_tone(state)), _plain(context, f" {node.label}"))


def _join_words(node: NodeView) -> str:
    if node.allow_failed_deps and node.join == "all":
        return "all dependencies ended"
    how = _JOINS.get(node.join) or f"at least {node.min_success} of its dependencies succeeded"
    return f"{how}, also after failures" if node.allow_failed_deps else how


def _name_of(context: NodeContext, index: int) -> str:
    known = context.labels.nodes.get(index)
    return f"node {index}" if known is None else known.label


def _plain(context: NodeContext, text: str, tone: Tone | None = None) -> Span:
    return words(text, tone, context.labels.glyphs)


_CANNOT_GO_ON: Final = frozenset({"COMPLETED", "CANCELLED"})


def unfit_verbs(statuses: Collection[str]) -> frozenset[str]:
    """Return, of the verbs with an inverse, those for which none of these workflows is in the right state."""
    switches = (verb for verb in verbs_for("workflow") if verb.inverse is not None)
    return frozenset(verb.name for verb in switches if statuses and not offered(verb, statuses))


def offered(verb: Verb | None, statuses: Collection[str]) -> bool:
    """Return whether the footer offers the verb for workflows in these states; its key says why it does not apply."""
    return not isinstance(verb, WorkflowVerb) or any(map(verb.fits, statuses))


def why_no_value(story: WorkflowStory, node: NodeView) -> str | None:
    """Return why an operator cannot set this node's result, checked before the value is typed."""
    if node.status == "COMPLETED":
        return f"{node.label} is COMPLETED already"
    if story.row.status in _CANNOT_GO_ON:
        return f"{node.label} belongs to {story.row.name}, which is {story.row.status}"
    return None
