"""The answers of a running task's worker in the pictures."""

from __future__ import annotations

from typing import Any, Final


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
