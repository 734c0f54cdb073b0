"""The manual verbs, a module each, found by its place in one of these folders: its `VERB` is all that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from horsies.domain.states import TargetKind
    from horsies.operations.verb import Verb

_FOLDERS: Final[Mapping[TargetKind, str]] = {
    "task": "tasks",
    "workflow": "workflows",
    "node": "nodes",
    "worker": "workers",
    "queue": "queues",
    "schedule": "schedules",
    "session": "sessions",
    "operation": "operations",
}


@cache
def _by_name(kind: TargetKind) -> Mapping[str, Verb]:
    """Verbs by kind, imported at first use: `horsies tasks --help` takes 6 ms longer with the verbs of all kinds."""
    folder = import_module(f"{__name__}.{_FOLDERS[kind]}")
    modules = [import_module(f"{folder.__name__}.{module.name}") for module in iter_modules(folder.__path__)]
    return {module.VERB.name: module.VERB for module in modules}


class _Verbs(Mapping[tuple["TargetKind", str], "Verb"]):
    def __getitem__(self, key: tuple[TargetKind, str]) -> Verb:
        kind, name = key
        return _by_name(kind)[name]

    def __iter__(self) -> Iterator[tuple[TargetKind, str]]:
        return ((kind, name) for kind in _FOLDERS for name in _by_name(kind))

    def __len__(self) -> int:
        return sum(map(len, map(_by_name, _FOLDERS)))


VERBS: Final = _Verbs()


def audited_verb(kind: TargetKind, name: str) -> Verb | None:
    """Return the verb that wrote an audit row; one for workers writes rows of their tasks as well."""
    return VERBS.get((kind, name)) or (VERBS.get(("worker", name)) if kind == "task" else None)


def verbs_for(*kinds: TargetKind) -> list[Verb]:
    """Return the verbs in the order of lists and keys."""
    found = [verb for kind in kinds for verb in _by_name(kind).values()]
    return sorted(found, key=lambda verb: (verb.place, verb.name))
