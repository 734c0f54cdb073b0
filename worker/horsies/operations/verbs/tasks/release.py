"""`horsies tasks release`: release a claim, as the worker itself would."""

from __future__ import annotations

from horsies.operations.verb import TaskVerb, sources


def _wrong_state(status: str) -> str:
    if status == "RUNNING":
        return "it is RUNNING, not only claimed; requeue takes it from its worker"
    return f"it is {status}; no worker has claimed it"


VERB = TaskVerb(
    name="release",
    place=5,
    title="Release",
    will="will be released",
    done="released",
    help="Return claimed tasks that have not started to their queue.",
    example="horsies tasks release --filter 'status:claimed worker:web-1:4121'",
    key="L",
    hint="Return a claimed task to its queue.",
    sources=sources("release") & {"CLAIMED"},
    wrong_state=_wrong_state,
    sets=(__name__, "release_sets"),
    past="released",
    no_way_back=lambda _: "a claim cannot be returned to a worker",
)
