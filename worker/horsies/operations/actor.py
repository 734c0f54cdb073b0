"""Who acts: the account and the machine. The database role is the server's to say."""

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
        """The account of this process. Not $USER, which anybody sets as he likes."""
        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container that runs under a bare number
            name = f"uid-{uid}"
        return cls(name, socket.gethostname())

    def __str__(self) -> str:
        return f"{self.os_user}@{self.os_host}"
