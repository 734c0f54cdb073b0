"""`horsies worker --reload`: new children when the project's files change; the worker itself keeps running.

The children import the application; the worker learns from them which tasks there are. So nothing is imported twice in
one process, which many modules do not survive, and a file that cannot be imported fails in a child that nothing needs.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import linecache
import os
import sys
import sysconfig
import time
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from horsies.registry import NOT_TASKS
from horsies.run.contract import ChildFailed
from horsies.run.events import one_line
from horsies.run.log_format import Seconds
from horsies.run.metrics.worker_metrics import Phase
from horsies.workflow.definition import find_definition, known_definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from horsies.run.pool.child import Child
    from horsies.run.pool.child_processes import Children
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.snapshots import Snapshots
    from horsies.run.worker.task_flow import TaskFlow


_NOT_OURS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_ENGINE: Final = frozenset({"horsies", "horsies_tui"})


def project_roots(named: Iterable[str]) -> list[Path]:
    """The directories from which the project's modules are imported: of those that are named, wherever they are, and of
    all others that are loaded from below the working directory and are not installed.
    """
    here = Path.cwd()
    installed = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    roots: set[Path] = set()
    wanted = set(named)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or name.partition(".")[0] in _ENGINE or name == "__main__":
            continue
        path = Path(file).resolve()
        if name in wanted or (path.is_relative_to(here) and not any(map(path.is_relative_to, installed))):
            packages = name.count(".") + (path.name == "__init__.py")
            roots.add(path.parents[min(packages, len(path.parents) - 1)])
    return sorted(root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots))


class Watcher:
    """Compares the files with their state at the last comparison."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = list(roots)
        self._seen = dict(self._files())

    def changed(self) -> list[Path]:
        """Return the files that were changed, made or removed since the last call, or since this object was made."""
        now = dict(self._files())
        before, self._seen = self._seen, now
        return sorted(Path(path) for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield each file with its time and size. Tests are left out, as a worker does not import them."""
        waiting = [str(root) for root in self.roots]
        while waiting:
            with suppress(OSError), os.scandir(waiting.pop()) as entries:  # it may have been removed
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.name.endswith(".py"):
                        if not any(fnmatch(entry.name, pattern) for pattern in NOT_TASKS):
                            with suppress(OSError):  # one that leads nowhere must not hide the others
                                state = entry.stat()
                                yield entry.path, (state.st_mtime_ns, state.st_size)
                    elif _may_hold_modules(entry):
                        waiting.append(entry.path)


def _may_hold_modules(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name not in _NOT_OURS
        and entry.is_dir(follow_symlinks=False)
        and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - 2,000 a second
    )


GRACE_S: Final = 2.0
"""Time for which running tasks may continue; then they are interrupted as by a stop."""
_LEAST_INTERVAL_S: Final = 0.4
_SHARE: Final = 150
"""A scan is followed by a pause of so many times the processor time that it took: below 0.7 % of a core."""
_SETTLED_S: Final = 0.1
_MOST_NAMED: Final = 3
_UNCHANGED: Final = "keeps running the previous code until the next change"


class ReloadedWorker(Protocol):
    """The worker, as far as a reload needs it."""

    flow: TaskFlow
    claimer: Claimer
    children: Children
    snapshots: Snapshots
    phase: Phase

    async def release_claims(self) -> None: ...


class Reloader:
    """Begins when it is made, before the first child imports anything: no change after that is missed."""

    def __init__(self, worker: ReloadedWorker) -> None:
        self._worker = worker
        self._events = worker.flow.events
        modules = {task.__module__ for task in worker.flow.app.tasks.values()}
        self._watcher = Watcher(project_roots(modules))
        self._definitions = _definitions()
        self._task = asyncio.create_task(self._run(), name="horsies reload")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        interval_s = _LEAST_INTERVAL_S
        self._events.note("watching files", directories=", ".join(map(str, self._watcher.roots)) or "none")
        changed: set[Path] = set()
        while True:
            await asyncio.sleep(interval_s)
            found, spent_s = await asyncio.to_thread(self._scan)
            interval_s = max(_LEAST_INTERVAL_S, _SHARE * spent_s)
            changed |= {*found}
            if changed and self._worker.phase is Phase.RUNNING:
                await self._reload(await self._settled(changed))
                changed = set()

    def _scan(self) -> tuple[list[Path], float]:
        begin = time.thread_time()
        return self._watcher.changed(), time.thread_time() - begin

    async def _settled(self, changed: set[Path]) -> list[Path]:
        """Wait until nothing changes any more: an editor writes a file in steps, and a checkout many files."""
        more = list(changed)
        while more:
            await asyncio.sleep(_SETTLED_S)
            more = await asyncio.to_thread(self._watcher.changed)
            changed |= {*more}
        return sorted(changed)

    async def _reload(self, changed: Sequence[Path]) -> None:
        begin = time.monotonic()
        names = [path.name for path in changed[:_MOST_NAMED]]
        files = ", ".join(names) + (f" and {len(changed) - len(names)} more" if len(changed) > len(names) else "")
        _forget_bytecode(changed)
        try:
            await self._worker.children.renew(GRACE_S, self._learn)
        except ChildFailed as error:
            why = {"traceback": "\n".join(error.notes)} if error.notes else {"reason": error.message}
            self._events.error(f"not reloaded {files}", now=_UNCHANGED, **why)
        except Exception as error:  # noqa: BLE001 - the next change is to be noticed, whatever went wrong with this one
            self._events.error(f"not reloaded {files}", now=_UNCHANGED, reason=one_line(error))
        else:
            self._events.note(f"reloaded {files} in {Seconds(time.monotonic() - begin)}")

    async def _learn(self, child: Child) -> None:
        """Claim what the new child knows. The old children take no more tasks."""
        worker, rules = self._worker, self._worker.flow.rules
        before = set(rules.tasks)
        async with worker.claimer.claiming:
            rules.learn(child.facts)
        await worker.release_claims()
        worker.snapshots.learn(child.facts)
        new, gone = sorted(child.facts.keys() - before), sorted(before - child.facts.keys())
        if new or gone:
            self._events.note("tasks", new=", ".join(new) or None, removed=", ".join(gone) or None)
        if any(old.config_text != child.config_text for old in worker.children.alive):
            self._events.warn("AppConfig has changed", reason="this worker keeps the one of its start: restart it")
        self._warn_of_definitions(child)

    def _warn_of_definitions(self, child: Child) -> None:
        """Warn of changed definitions: the worker builds sub-workflows by those that it imported at its start."""
        now = _definitions()
        changed = [key for key in child.definitions if key not in now or self._definitions.get(key) != now[key]]
        if changed:
            reason = "this worker knows the definitions of sub-workflows that were there at its start: restart it"
            self._events.warn("definition has changed", of=", ".join(changed), reason=reason)
        self._definitions = now


def _definitions() -> dict[str, str]:
    """Return the source of each workflow definition as its file is now."""
    linecache.checkcache()
    sources: dict[str, str] = {}
    for key in known_definitions():
        definition = find_definition(key)
        with suppress(OSError, TypeError):  # it is not in its file any more
            sources[key] = "" if definition is None else inspect.getsource(definition)
    return sources


def _forget_bytecode(changed: Sequence[Path]) -> None:
    """Remove their bytecode, which Python takes for fresh if size and whole second of the source are the same."""
    for path in changed:
        with suppress(OSError):
            Path(importlib.util.cache_from_source(str(path))).unlink()
