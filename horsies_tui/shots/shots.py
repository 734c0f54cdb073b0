"""The list of screenshots, each with the operator's steps before it is taken, and the stack that one shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from horsies_tui.feed.status import LinkState
from horsies_tui.shots.camera import Shot, Stand, press, sees, types
from horsies_tui.shots.scene import answer_looks, arrive, shut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies_tui.shots.camera import Step


_SIZES: Final = ((80, 24), (120, 40), (200, 60))
_LIGHT: Final = {"theme": "horsies-light"}
_STORY: Final = {"task_id": "c0ffee00"}
_OVERVIEW: Final = {"screen": "overview"}
_DESK: Final = {"screen": "recovery"}
_FLOWS: Final = {"screen": "workflows"}
_SCHEDULES: Final = {"screen": "schedules"}
_ONE_SCHEDULE: Final = (
    press("slash"),
    types("name:daily*"),
    press("enter"),
    sees("1 of 7"),
    press("enter"),
    sees("past"),
)
_ACTIVITY: Final = {"screen": "activity"}
_LIMITED: Final = {"filter": "status:failed error:RATE_LIMITED"}
_MARK_TWO: Final = press("j", "space", "j", "space")


async def _arrivals(stand: Stand) -> None:
    await arrive(stand.url, 37)


async def _lose_connection(stand: Stand) -> None:
    link = stand.app.link
    await shut(stand.url)
    await stand.until(lambda: link.status.state is LinkState.STALE, "the loss of the connection")
    stand.clock.advance(38)


async def _fourth_attempt(stand: Stand) -> None:
    """Wait for the fourth attempt: pauses vary by a quarter, and 2 s is the first that always rounds to the same
    number.
    """
    link, clock = stand.app.link, stand.clock
    await stand.until(lambda: 1.5 <= (link.status.next_try_in_s(clock.now()) or 0) <= 2.5, "the fourth attempt")


async def _stack_is_known(stand: Stand) -> None:
    await answer_looks(stand.url, STACK, STACK)


async def _output_is_known(stand: Stand) -> None:
    await answer_looks(stand.url, OUTPUT, {**OUTPUT, "left_out": 0, "lines": []})


async def _look_is_listed(stand: Stand) -> None:
    """Wait until the task's story, below the sheet, lists who requested the stack."""
    await stand.until(lambda: sum(line.startswith(" 1") for line in stand.lines) == 3, "the row of the audit log")


async def _told(stand: Stand) -> None:
    """Remove the footer's message, as happens after 8 s; otherwise the screenshot depends on the machine's speed."""
    stand.app.footer.message_over()


async def _one_row(stand: Stand) -> None:
    await stand.until(lambda: any(" 1 match" in line or " 1 of " in line for line in stand.lines), "the only row")


def _everywhere(name: str, options: Mapping[str, Any], *steps: Step) -> tuple[Shot, ...]:
    """Return the shots in three sizes, in the light theme and in ASCII."""
    return (
        *(Shot(name, *size, steps, options) for size in _SIZES),
        Shot(f"{name}-light", steps=steps, options={**options, **_LIGHT}),
        Shot(f"{name}-ascii", 80, 24, steps, {**options, "ascii": True}),
    )


def _opened(name: str) -> tuple[Step, ...]:
    """Open the graph of the newest workflow of this name."""
    return (press("slash"), types(f" name:{name}"), press("enter"), _one_row, press("enter"), sees("on error"))


SHOTS: Final = (
    *_everywhere("overview", _OVERVIEW),
    Shot("overview-no-colour", options={**_OVERVIEW, "theme": "ansi"}, no_colour=True),
    *(Shot("workers", *size, options={"screen": "workers"}) for size in _SIZES),
    *(Shot("workflows", *size, options=_FLOWS) for size in _SIZES),
    *_everywhere("workflow", _FLOWS, *_opened("month_end"), sees("c0ffee00")),
    *(
        Shot(
            "workflow-timeline",
            *size,
            (*_opened("month_end"), sees("c0ffee00"), press("g"), sees("critical path", "×2")),
            _FLOWS,
        )
        for size in _SIZES
    ),
    Shot(
        "workflow-timeline-unfolded",
        options=_FLOWS,
        steps=(
            *_opened("month_end"),
            sees("c0ffee00"),
            press("g"),
            sees("critical path", "×2"),
            press("home", *"jjjjj", "right"),
            sees("photograph"),
        ),
    ),
    Shot("workflow-map", 80, 24, steps=(*_opened("price_update"), press("l"), sees("23 of 40")), options=_FLOWS),
    Shot(
        "workflow-part",
        80,
        24,
        steps=(
            *_opened("month_end"),
            sees("c0ffee00"),
            press("home", "j", "enter"),
            sees("photograph"),
            press("l"),
            sees("count_shelves"),
        ),
        options=_FLOWS,
    ),
    Shot("preview-reconcile", options=_FLOWS, steps=(press("X"), sees("ctrl+y"))),
    Shot("value", options=_FLOWS, steps=(*_opened("month_end"), sees("c0ffee00"), press("O"), sees("JSON"))),
    *_everywhere("schedules", _SCHEDULES, sees("if missed")),
    Shot("schedules-no-colour", steps=(sees("if missed"),), options={**_SCHEDULES, "theme": "ansi"}, no_colour=True),
    *(Shot("schedule", *size, steps=_ONE_SCHEDULE, options=_SCHEDULES) for size in _SIZES),
    *_everywhere("tasks", {}),
    *(
        Shot(
            "tasks-story",
            *size,
            (press("slash"), types("error:UNHANDLED_EXCEPTION"), press("enter"), sees("jinja2", "vat_line")),
        )
        for size in ((200, 60), (120, 60))
    ),
    Shot("tasks-16-colours", options={"theme": "ansi"}),
    Shot("tasks-no-colour", options={"theme": "ansi"}, no_colour=True),
    Shot(
        "tasks-held",
        steps=(press("j", "j", "j", "space", "j", "space", "j"), _arrivals, sees("37 newer", "· 320")),
        spoils=True,
    ),
    Shot("tasks-groups", options={"filter": "status:failed"}, steps=(press("e", "e"), sees("GATEWAY_DOWN"))),
    *(
        Shot("tasks-statistics", *size, steps=(press("e", "s"), sees("sort: failures", "count_shelves")))
        for size in _SIZES
    ),
    Shot("tasks-nothing", 80, 24, options={"filter": "name:no_such_task"}),
    Shot("filter-completion", steps=(press("slash"), types("status:failed error:"), sees("RATE_LIMITED", "WORKER_"))),
    Shot("filter-error", steps=(press("slash"), types("statsu:failed"), press("enter"), sees("did you mean"))),
    Shot("menu-order", 80, 24, steps=(press("s"),)),
    Shot("menu-states", 80, 24, steps=(press("t"),)),
    Shot("menu-columns", steps=(press("c"),)),
    Shot("go-to-time", 80, 24, steps=(press("ctrl+g"), types("11:20"), sees("2026-11-18"))),
    *_everywhere("task", _STORY),
    Shot("task-waiting", options={"filter": "queue:news status:pending"}, steps=(press("enter"), sees("paused"))),
    Shot("task-running", options={"filter": "name:nightly_import"}, steps=(press("enter"), sees("stale after"))),
    Shot(
        "task-stack",
        options={"filter": "name:nightly_import"},
        steps=(
            press("enter"),
            sees("stale after"),
            _stack_is_known,
            press("S"),
            sees("lock_account", "ledger.py:61"),
            _look_is_listed,
        ),
        spoils=True,
    ),
    Shot(
        "task-output",
        options={"filter": "name:nightly_import"},
        steps=(
            press("enter"),
            sees("stale after"),
            _output_is_known,
            press("O"),
            sees("lines left out"),
            _look_is_listed,
        ),
        spoils=True,
    ),
    Shot("task-search", options=_STORY, steps=(press("slash"), types("lock"), press("enter"), sees("of"))),
    *_everywhere("recovery", _DESK),
    Shot("recovery-story", 200, 60, (press(*"jjjjjjj"), sees("heartbeats")), _DESK),
    Shot("recovery-16-colours", options={**_DESK, "theme": "ansi"}),
    *_everywhere(
        "activity", _ACTIVITY, sees("CARD_DECLINED", "changes"), press(*"jjjjjjjjjj"), sees("11:50:56Z to 11:59:45Z")
    ),
    Shot(
        "activity-operation",
        options=_ACTIVITY,
        steps=(press("t"), sees("0 changes", "45 applied"), press("enter"), sees("BEFORE", "1 / 49")),
    ),
    Shot("preview", options=_LIMITED, steps=(_MARK_TWO, press("R"), sees("Requeue 2", "ctrl+y"))),
    Shot(
        "preview-many",
        80,
        24,
        options={"filter": "status:failed"},
        steps=(press("asterisk", "R"), sees("type 57", "ctrl+y Requeue")),
    ),
    Shot(
        "preview-production",
        options=_LIMITED,
        context="prod",
        steps=(_MARK_TWO, press("R"), sees("type prod", "ctrl+y Requeue")),
    ),
    Shot("preview-recover", options=_DESK, steps=(press(*"jjjjjjjjj", "W"), sees("12 claimed tasks", "ctrl+y"))),
    Shot("arguments", options=_STORY, steps=(press("E"), sees("preview   esc"))),
    Shot(
        "outcome",
        options=_LIMITED,
        steps=(
            _MARK_TWO,
            press("R"),
            sees("ctrl+y"),
            press("ctrl+y"),
            sees("2 requeued"),
            press("o"),
            sees("z undo", "22 match", "pending"),
        ),
        spoils=True,
    ),
    *(Shot("help", *size, steps=(press("question_mark"),)) for size in ((80, 24), (120, 60))),
    Shot("command", 80, 24, steps=(press("colon"), types("tasks st"), sees("status:"))),
    Shot("command", steps=(press("colon"), types("tasks st"), sees("status:"))),
    Shot("palette", steps=(press("ctrl+p"), types("co"), sees("columns", "outcome"))),
    Shot("errors", options={"read_only": True}, steps=(press("R", "exclamation_mark"), sees("12:04:31Z  "))),
    Shot(
        "connection-none",
        context="old-shop",
        steps=(sees("cannot connect to"), _fourth_attempt, sees("retry in 2s"), sees("Critical")),
    ),
    Shot(
        "connection-lost", steps=(_lose_connection, _fourth_attempt, _told, sees("STALE 38s, retry in 2s")), spoils=True
    ),
    Shot("contexts", 80, 24, steps=(press("at"), sees("cannot co"), sees("Critical"))),
)


def _frame(file: str, line: int, function: str, source: str, *, user: bool = True) -> dict[str, Any]:
    return {"file": file, "line": line, "function": function, "source": source, "user": user}


_LIBRARY: Final = "/srv/shop/.venv/lib/python3.12/site-packages/psycopg"
STACK: Final = {
    "how": "python",
    "pid": 4120,
    "frames": [
        _frame(f"{_LIBRARY}/waiting.py", 221, "wait_selectors", "ready = sel.select(timeout=interval)", user=False),
        _frame(
            f"{_LIBRARY}/connection.py",
            414,
            "Connection.wait",
            "return waiting.wait(gen, self.pgconn.socket)",
            user=False,
        ),
        _frame(f"{_LIBRARY}/cursor.py", 97, "Cursor.execute", "self._conn.wait(self._execute_gen(query))", user=False),
        _frame("/srv/shop/shop/imports/ledger.py", 88, "lock_account", "cursor.execute(LOCK, (account,))"),
        _frame("/srv/shop/shop/imports/ledger.py", 61, "import_day", "with cursor(account) as rows:"),
        _frame("/srv/shop/shop/imports/nightly.py", 34, "nightly_import", "import_day(day, dry_run=False)"),
    ],
    "threads": [
        ["heartbeat of the bank", [_frame("/srv/shop/shop/bank/session.py", 19, "Session.keep", "time.sleep(20)")]],
    ],
}
_BEGAN: Final = 1_795_003_450.0
OUTPUT: Final = {
    "runs": True,
    "last": 3_214,
    "left_out": 3_120,
    "lines": [
        [3_121 + number, _BEGAN + 2.5 * number, "stderr" if "WARNING" in text else "stdout", text]
        for number, text in enumerate(
            (
                "account 4711: 1,204 rows",
                "account 4712: 88 rows",
                "WARNING shop.imports: account 4713 has no currency, EUR is taken",
                "account 4713: 310 rows",
                "account 4714: 2,041 rows",
                "WARNING shop.imports: account 4715 is locked by another import, waiting",
            )
        )
    ],
}
