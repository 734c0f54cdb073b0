"""The last outcomes of this worker: a failover may bring back their rows as RUNNING."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from horsies.lifecycle.finishing import OutcomeKind

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.lifecycle.claim_token import Token
    from horsies.lifecycle.finishing import Outcome

MOST = 20_000
"""At 2 000 tasks a second the last 10 s; about 8 MB."""
MOST_RESULT_CHARS = 16_000_000


_Key: TypeAlias = "tuple[str, datetime]"


def _key(token: Token) -> _Key:
    """A token of this worker; as a tuple it is found five times as fast."""
    return token.task_id, token.claimed_at


class RecentOutcomes:
    """Bounded: of older ones only the token is kept, and of the oldest only the time up to which claims were forgotten.

    So a task that has run is never taken for a claim whose user code was not called.
    """

    def __init__(self, most: int = MOST, most_chars: int = MOST_RESULT_CHARS) -> None:
        self._most = most
        self._most_chars = most_chars
        # Ordered, because finding the first key of a plain dict passes over all keys deleted before it.
        self._ran: OrderedDict[_Key, None] = OrderedDict()
        self._outcomes: OrderedDict[_Key, Outcome] = OrderedDict()
        self._chars = 0
        self._forgotten_until: datetime | None = None

    def add(self, outcome: Outcome) -> None:
        """The database has stored the outcome, or has reported its token as stale."""
        if outcome.kind is OutcomeKind.NOT_BEGUN:
            return
        key = _key(outcome.token)
        if key in self._ran:  # stored a second time
            self._drop(key)
            del self._ran[key]
        self._ran[key] = None
        self._outcomes[key] = outcome
        self._chars += len(outcome.result_json or "")
        while self._chars > self._most_chars:
            self._drop(next(iter(self._outcomes)))
        if len(self._ran) > self._most:
            oldest, _ = self._ran.popitem(last=False)
            self._drop(oldest)
            self._forgotten_until = max(self._forgotten_until or oldest[1], oldest[1])

    def has_run(self, token: Token) -> bool:
        """Whether its user code has begun, or may have."""
        forgotten = self._forgotten_until is not None and token.claimed_at <= self._forgotten_until
        return forgotten or _key(token) in self._ran

    def outcome(self, token: Token) -> Outcome | None:
        """None if it is no longer known."""
        return self._outcomes.get(_key(token))

    def _drop(self, key: _Key) -> None:
        outcome = self._outcomes.pop(key, None)
        if outcome is not None:
            self._chars -= len(outcome.result_json or "")
