"""The manual verbs by their names. The modules here list their records as `VERBS`, in the order of lists and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from horsies.domain.states import TargetKind
    from horsies.operations.verb import Verb

_MODULES: Final[Mapping[TargetKind, str]] = {
    "task": "tasks",
    "workflow": "workflows",
    "node": "nodes",
    "worker": "cluster",
    "queue": "cluster",
    "schedule": "schedules",
    "session": "cluster",
    "operation": "undo",
}


@cache
def _by_name(kind: TargetKind) -> Mapping[str, Verb]:
    """Verbs by kind, imported at first use: `horsies tasks --help` takes 6 ms longer with the verbs of all kinds."""
    module = import_module(f"{__name__}.{_MODULES[kind]}")
    return {verb.name: verb for verb in module.VERBS if verb.kind == kind}


class _Verbs(Mapping[tuple["TargetKind", str], "Verb"]):
    def __getitem__(self, key: tuple[TargetKind, str]) -> Verb:
        kind, name = key
        return _by_name(kind)[name]

    def __iter__(self) -> Iterator[tuple[TargetKind, str]]:
        return ((kind, name) for kind in _MODULES for name in _by_name(kind))

    def __len__(self) -> int:
        return sum(map(len, map(_by_name, _MODULES)))


VERBS: Final = _Verbs()


def audited_verb(kind: TargetKind, name: str) -> Verb | None:
    """Return the verb that wrote an audit row; one for workers writes rows of their tasks as well."""
    return VERBS.get((kind, name)) or (VERBS.get(("worker", name)) if kind == "task" else None)


def verbs_for(*kinds: TargetKind) -> list[Verb]:
    """Return the verbs in the order of lists and keys."""
    return [verb for kind in kinds for verb in _by_name(kind).values()]
