"""Combines the calls of many callers: the items that arrive while one statement runs form the next one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


class Coalescer(Generic[ItemT, AnswerT]):
    """`ask(item)` returns what `run(items)` has at the item's place; an exception there is raised only to its caller.

    There is no timer: a lone caller has no delay, and batches grow with the load. If no batch is running, the caller
    runs its own item in its own task, without a wake-up in between.
    """

    def __init__(
        self,
        run: Callable[[Sequence[ItemT]], Coroutine[Any, Any, Sequence[AnswerT | BaseException]]],
        *,
        most: int,
    ) -> None:
        self._run = run
        self._most = most
        self._busy = False
        self._waiting: list[tuple[ItemT, asyncio.Future[AnswerT]]] = []
        self._batch: asyncio.Task[Sequence[AnswerT | BaseException]] | None = None

    async def ask(self, item: ItemT) -> AnswerT:
        if self._busy:
            future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            return await future
        self._busy = True
        try:
            (answer,) = await self._run([item])
        finally:
            self._start_next()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _start_next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            self._batch = asyncio.get_running_loop().create_task(self._run([item for item, _ in batch]))
            self._batch.add_done_callback(partial(self._answer_all, [future for _, future in batch]))

    def _answer_all(
        self, futures: list[asyncio.Future[AnswerT]], batch: asyncio.Task[Sequence[AnswerT | BaseException]]
    ) -> None:
        self._start_next()
        error = asyncio.CancelledError() if batch.cancelled() else batch.exception()
        answers = [error] * len(futures) if error else batch.result()
        for future, answer in zip(futures, answers, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if isinstance(answer, asyncio.CancelledError):
                future.cancel()
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
