"""The peers that the benches compare with; install them first (`pip install procrastinate`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def procrastinate(url: str, count: int, concurrency: int) -> dict[str, float]:
    """Tasks per second: `single` and `bulk` enqueued, `drain` executed; `cpu_s` of its worker for 1,000 tasks."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("peer_procrastinate.py"), url, str(count), str(concurrency)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
