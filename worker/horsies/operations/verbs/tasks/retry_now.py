"""`horsies tasks retry-now`: tasks that wait for a retry, or for their time, become due now."""

from __future__ import annotations

from horsies.operations.verb import TaskVerb, sources

VERB = TaskVerb(
    name="retry-now",
    place=4,
    title="Retry now",
    will="will be due now",
    done="made due now",
    help="Make tasks due now that wait for a retry or for their time.",
    example="horsies tasks retry-now --filter 'status:retry error:GATEWAY_DOWN'",
    key="T",
    hint="Skip the wait before the next attempt.",
    sources=sources("retry-now"),
    wrong_state=lambda status: f"it is {status}; it does not wait for a time",
    refuses=(__name__, "retry_now_refusal"),
    sets=(__name__, "retry_now_sets"),
    became="PENDING, due now",
)
