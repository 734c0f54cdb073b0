"""The actor of an operation: account and machine. The database role is determined by the server."""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    os_user: str
    os_host: str

    @classmethod
    def current(cls) -> Actor:
        """The account of this process. Not $USER, which the user can set to any value."""
        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container that runs under a uid without an account
            name = f"uid-{uid}"
        return cls(name, socket.gethostname())

    def __str__(self) -> str:
        return f"{self.os_user}@{self.os_host}"
