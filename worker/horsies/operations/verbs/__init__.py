"""The manual verbs, a module each, found by its place in one of these folders: its `VERB` is all that it needs."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from horsies.operations.verbs import nodes, operations, queues, schedules, tasks, workers, workflows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from horsies.operations.preview import TargetKind
    from horsies.operations.verb import Verb


def _found(packages: Iterable[ModuleType]) -> list[Verb]:
    modules = [
        import_module(f"{package.__name__}.{module.name}")
        for package in packages
        for module in iter_modules(package.__path__)
    ]
    return sorted((module.VERB for module in modules), key=lambda verb: (verb.place, verb.name))


VERBS: Mapping[tuple[TargetKind, str], Verb] = {
    (verb.kind, verb.name): verb for verb in _found((tasks, workflows, nodes, workers, queues, schedules, operations))
}


def verbs_for(*kinds: TargetKind) -> list[Verb]:
    """In the order of lists and keys."""
    return [verb for verb in VERBS.values() if verb.kind in kinds]
