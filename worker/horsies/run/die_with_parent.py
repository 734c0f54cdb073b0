"""Processes that must not outlive their parent.

`python -m horsies.run.die_with_parent PARENT_PID COMMAND…` executes COMMAND, under the same pid.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent_pid: int) -> None:
    """The kernel kills this process when the parent dies, also in the middle of C code that never releases the GIL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)  # the parent died before prctl took effect


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - a list of arguments, no shell
