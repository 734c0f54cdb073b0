"""A package that the application of test_codec_hostile.py uses. Whatever a row makes run in it leaves a line."""

from __future__ import annotations

import os
from pathlib import Path


def leave_a_trace(what: str) -> None:
    with Path(os.environ["HOSTILE_LEDGER"]).open("a") as ledger:
        ledger.write(f"{what}\n")
