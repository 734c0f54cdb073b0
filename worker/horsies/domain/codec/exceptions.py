"""An exception as the three texts that are stored of it."""

from __future__ import annotations

import traceback
from typing import Final

from horsies.domain.codec.text import clean_text

_MESSAGE_LIMIT: Final = 8_000
_TRACEBACK_LIMIT: Final = 32_000


def exception_fields(exception: BaseException) -> dict[str, str]:
    """Type, message and traceback; a `__str__` that raises, NUL, surrogates and megabytes of text are handled."""
    report = traceback.TracebackException.from_exception(exception)
    return {
        "type": type(exception).__name__,
        "message": clean_text(str(report), _MESSAGE_LIMIT),
        "traceback": clean_text("".join(report.format()), _TRACEBACK_LIMIT),
    }
