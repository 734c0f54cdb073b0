"""The class of a stored object: written as its module and qualname, and found by them."""

from __future__ import annotations

import importlib
import sys
from functools import reduce
from typing import Final

from horsies.domain.task_result import SubWorkflowSummary

# Stored rows and other readers know this class under the documented path; that module re-exports it, while the class
# itself is in the lowest layer, where every package may import it.
_STORED_MODULES: Final[dict[type, str]] = {SubWorkflowSummary: "horsies.core.models.workflow.context"}


def address_of(cls: type) -> dict[str, str]:
    """The two address fields by which a reader finds `cls`."""
    return {"module": _STORED_MODULES.get(cls, cls.__module__), "qualname": cls.__qualname__}


def why_not_storable(cls: type) -> str | None:
    """None if another process can find `cls` by its address, otherwise the reason as a message."""
    if cls.__module__ == "__main__":
        return f"{cls.__qualname__} is defined in __main__, which is another program in a worker; move it to a module"
    if "<locals>" in cls.__qualname__:
        return f"{cls.__qualname__} is defined inside a function; move it to the top level of its module"
    try:
        found = find_class(**address_of(cls))
    except (LookupError, AttributeError, ImportError):
        found = None
    if found is cls:
        return None
    name = f"{cls.__module__}.{cls.__qualname__}"
    return f"the name {name} does not lead back to this class; give it a name of its own at the top level of a module"


def find_class(module: str, qualname: str) -> type:
    """The class at this address.

    A role that may insert rows must not be able to load arbitrary code, so a module is imported only if it belongs to a
    package that this process already uses.
    """
    if module == "__main__":
        raise LookupError("classes of __main__ differ from program to program")
    if module.partition(".")[0] not in sys.modules:
        raise LookupError(f"module {module!r} belongs to no package loaded here; import it where the app is defined")
    found = reduce(getattr, qualname.split("."), importlib.import_module(module))
    if not isinstance(found, type):
        raise LookupError(f"{module}.{qualname} is not a class")
    return found
