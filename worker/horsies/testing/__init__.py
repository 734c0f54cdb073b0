"""Tools for the tests of applications: tasks run in process, queues drained on request, and a database.

with inline(app):                       # no database: a send runs the task here and now
assert add.send(1, 2).unwrap().get().unwrap() == 3

with embedded_database(app):            # a real PostgreSQL, removed afterwards
add.send(1, 2)
assert drain(app).completed == 1

The pytest fixtures `horsies_app`, `horsies_queue` and `horsies_db` come with the package: see `horsies.pytest_plugin`.
"""

from horsies.testing.draining import drain, drain_async
from horsies.testing.embedded import embedded_database
from horsies.testing.here import Ran
from horsies.testing.inline import inline
from horsies.testing.inline_queue import Inline
from horsies.testing.inline_task import InlineTask
from horsies.testing.inline_workflows import InlineWorkflow

__all__ = [
    "Inline",
    "InlineTask",
    "InlineWorkflow",
    "Ran",
    "drain",
    "drain_async",
    "embedded_database",
    "inline",
]
