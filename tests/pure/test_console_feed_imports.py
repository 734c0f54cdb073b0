"""The console's feeds work without Textual: a test or a command may use them where it is not installed."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import pkgutil, sys
import horsies_tui.feed
for module in pkgutil.iter_modules(horsies_tui.feed.__path__, "horsies_tui.feed."):
    __import__(module.name)
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"textual", "rich", "typer"}))
"""


def test_the_feed_loads_neither_textual_nor_rich() -> None:
    answer = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
