"""How the last executions of this worker ended: a failover may bring their rows back as if they still ran."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from horsies.lifecycle.finishing import OutcomeKind

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.lifecycle.finishing import Outcome
    from horsies.lifecycle.tokens import Token

MOST = 20_000
"""At 2 000 tasks a second the last 10 s; about 8 MB."""
MOST_RESULT_CHARS = 16_000_000


class RecentOutcomes:
    """Bounded: of the oldest only the token is kept, and in the end only until when claims were forgotten.

    So nothing that has run is ever taken for a claim whose user code never began.
    """

    def __init__(self, most: int = MOST, most_chars: int = MOST_RESULT_CHARS) -> None:
        self._most = most
        self._most_chars = most_chars
        self._outcomes: dict[Token, Outcome | None] = {}
        self._with_result: deque[Token] = deque()
        self._chars = 0
        self._forgotten_until: datetime | None = None

    def add(self, outcome: Outcome) -> None:
        """The database has confirmed it, or has said that the task is another's."""
        if outcome.kind is OutcomeKind.NOT_BEGUN:
            return
        self._drop_result(outcome.token)
        self._outcomes.pop(outcome.token, None)
        self._outcomes[outcome.token] = outcome
        if outcome.result_json:
            self._with_result.append(outcome.token)
            self._chars += len(outcome.result_json)
        while self._chars > self._most_chars:
            self._drop_result(self._with_result.popleft())
        while len(self._outcomes) > self._most:
            oldest = next(iter(self._outcomes))
            self._drop_result(oldest)
            del self._outcomes[oldest]
            self._forgotten_until = max(self._forgotten_until or oldest.claimed_at, oldest.claimed_at)

    def has_run(self, token: Token) -> bool:
        """Whether its user code has begun, or may have."""
        forgotten = self._forgotten_until is not None and token.claimed_at <= self._forgotten_until
        return forgotten or token in self._outcomes

    def outcome(self, token: Token) -> Outcome | None:
        """None where it is no longer known."""
        return self._outcomes.get(token)

    def _drop_result(self, token: Token) -> None:
        """An outcome without its result is none: what is left is that there was one."""
        outcome = self._outcomes.get(token)
        if outcome is not None and outcome.result_json:
            self._chars -= len(outcome.result_json)
            self._outcomes[token] = None
