"""`horsies workflows`: pages, details, the graph, and verbs with their exit codes and JSON."""

from __future__ import annotations

import re

import asyncpg
import pytest
from cli_steps import ago, audited, horsies

pytestmark = pytest.mark.usefixtures("here")


REPORT = {
    *("id", "name", "status", "on_error", "definition_key", "parent_workflow_id", "parent_task_index"),
    *("root_workflow_id", "depth", "created_at", "sent_at", "started_at", "completed_at", "updated_at", "total"),
    *(
        "completed",
        "failed",
        "skipped",
        "running",
        "waiting",
        "error_code",
        "failed_node",
        "part_done",
        "done",
        "share",
    ),
    *("age_s", "run_s"),
}
NODE = {
    *("index", "node_id", "name", "status", "dependencies", "join", "min_success", "allow_failed_deps", "args_from"),
    *("ctx_from", "queue", "priority", "task_id", "task_status", "retry_count", "max_retries", "next_retry_at"),
    *("error_code", "started_at", "completed_at", "last_beat", "worker_id", "worker_hostname", "worker_pid"),
    *("is_subworkflow", "sub_workflow_id", "sub_definition_key", "sub_status", "sub_total", "sub_done", "sub_failed"),
    "progress",
    *("state", "is_map", "out_of_step"),
}


async def workflow(conn: asyncpg.Connection, workflow_id: str, status: str = "RUNNING", **columns: str) -> None:
    """A workflow; a column is given as an SQL expression."""
    given = {"id": f"'{workflow_id}'", "name": "'order'", "status": f"'{status}'", **columns}
    given = {"root_workflow_id": given["id"], "started_at": ago(60), **given}
    await conn.execute(f"INSERT INTO horsies_workflows ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def node(conn: asyncpg.Connection, workflow_id: str, index: int, status: str, **columns: str) -> None:
    given = {
        "id": "gen_random_uuid()",
        "workflow_id": f"'{workflow_id}'",
        "task_index": str(index),
        "node_id": f"'n{index}'",
        "task_name": "'demo.add'",
        "task_kwargs": "'{}'",
        "status": f"'{status}'",
        **columns,
    }
    await conn.execute(f"INSERT INTO horsies_workflow_tasks ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def month_end(conn: asyncpg.Connection, workflow_id: str = "month-end") -> None:
    """One branch failed; the node that joins all of them can no longer run."""
    error = '{"__task_error__":true,"error_code":"TIMEOUT","data":{"card":"4111"},"message":"too slow"}'
    await workflow(conn, workflow_id, name="'month_end'", error=f"'{error}'", definition_key="'shop.month_end.v1'")
    times = {"started_at": ago(30), "completed_at": ago(10)}
    await node(conn, workflow_id, 0, "COMPLETED", node_id="'open_books'", **times)
    result = f'{{"__task_result__":true,"ok":null,"err":{error}}}'
    await node(
        conn, workflow_id, 1, "FAILED", node_id="'import_us'", dependencies="'{0}'", result=f"'{result}'",
        task_kwargs="""'{"rows": 12, "card": "4111"}'""", args_from="""'{"books": 0}'""", **times,
    )  # fmt: skip
    await node(conn, workflow_id, 2, "RUNNING", node_id="'import_uk'", dependencies="'{0}'", started_at=ago(20))
    await node(
        conn, workflow_id, 3, "PENDING", node_id="'report'", dependencies="'{1,2}'", join_type="'any'",
        allow_failed_deps="true",
    )  # fmt: skip


async def statuses(conn: asyncpg.Connection) -> dict[str, str]:
    return {row["id"]: row["status"] for row in await conn.fetch("SELECT id, status FROM horsies_workflows")}


async def listed(*words: str) -> list[str]:
    page = await horsies("workflows", "ls", "--json", *words)
    assert page.code == 0, page.err
    return [row["id"] for row in page.json["workflows"]]


async def test_a_list_has_the_newest_first_and_says_where_it_goes_on(connection: asyncpg.Connection) -> None:
    for number in range(5):
        await workflow(connection, f"w{number}", created_at=ago(100 - number))
    seen: list[str] = []
    after: list[str] = []
    while True:
        page = (await horsies("workflows", "ls", "--json", "--limit", "2", *after)).json
        seen += [row["id"] for row in page["workflows"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == ["w4", "w3", "w2", "w1", "w0"]
    shown = await horsies("workflows", "ls", "--filter", "name:order", "--limit", "2")
    assert "more: horsies workflows ls --filter name:order --after 20" in shown.err
    last = await horsies("workflows", "ls", "--after", shown.err.split()[-1], "--limit", "9")
    assert [line.split()[2] for line in last.out.splitlines()[1:]] == ["w2", "w1", "w0"]
    assert (await horsies("workflows", "ls", "--after", "nonsense")).code == 2


async def test_a_line_tells_how_far_it_is_and_what_failed(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    heading, line = (await horsies("workflows", "ls")).out.splitlines()
    assert heading.split() == [
        *("STATE", "ID", "NAME", "NODES", "RUNNING", "WAITING", "FAILED", "AGE", "RUN", "FAILED", "AT", "ERROR")
    ]
    assert line.split()[1:8] == ["running", "month-end", "month_end", "2/4", "1", "1", "1"]
    assert line.split()[-2:] == ["import_us", "TIMEOUT"]


async def test_words_are_a_filter_and_a_mistake_is_pointed_at(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    await workflow(connection, "w", "FAILED", parent_workflow_id="'month-end'")
    assert await listed("status:failed") == ["w"]
    assert await listed("--filter", "parent:no", "error:TIMEOUT") == ["month-end"]
    said = await horsies("workflows", "ls", "queue:mail")
    assert said.code == 2
    assert "there is no key 'queue' among status, name, definition" in said.words
    assert "definition:shop.order.v1" in (await horsies("workflows", "ls", "--filter-help")).out


async def test_an_empty_list_says_why_and_what_next() -> None:
    for words, named in (
        (["status:failed"], "no workflow matches status:failed"),
        ([], "no workflow has been started in this database yet"),
    ):
        said = await horsies("workflows", "ls", *words)
        assert (said.code, named in said.err) == (0, True)
        assert len(said.err.splitlines()) == 2


async def test_the_keys_in_json_stay(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    page = (await horsies("workflows", "ls", "--json")).json
    assert set(page) == {"now", "filter", "workflows", "next"}
    assert set(page["workflows"][0]) == REPORT
    story = (await horsies("workflows", "show", "month-end", "--json")).json
    assert set(story) == {
        *("now", "workflow", "nodes", "result", "error", "success_policy", "output_index", "parent", "audit")
    }
    assert (set(story["workflow"]), set(story["nodes"][0])) == (REPORT, NODE)
    told = (await horsies("workflows", "show", "month-end", "--node", "report", "--json")).json
    assert set(told) == {
        *("now", "workflow_id", "workflow_name", "workflow_status", "node", "args", "kwargs", "options", "result"),
        *("summary", "audit"),
    }
    graph = (await horsies("workflows", "graph", "month-end", "--json")).json
    assert set(graph) == {"now", "workflow", "nodes", "edges"}
    assert graph["edges"] == [[0, 1], [0, 2], [1, 3], [2, 3]]


async def test_a_graph_shows_what_waits_for_what(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    lines = (await horsies("workflows", "graph", "month-end")).out.splitlines()
    assert lines[0].split()[1:] == ["running", "TIMEOUT", "month_end", "month-end"]
    assert lines[1].startswith("2 of 4 done, 1 completed, 1 running, 1 failed, 1 waiting   ran 1m00s   on error fail")
    drawn = [re.split(r"\s{2,}", line) for line in lines[4:]]
    assert [cells[0] for cells in drawn] == ["●", "├─●", "● │", "●─┘"]
    assert [cells[1:3] for cells in drawn] == [
        ["open_books", "✓ completed"],
        ["import_us", "✗ failed"],
        ["import_uk", "▶ running"],
        ["report", "· pending"],
    ]
    assert drawn[1][3:] == ["20s", "TIMEOUT"]
    assert drawn[3][3:] == ["any of 2, also after failures"]


async def test_a_node_that_has_not_heard_of_the_end_of_its_task_is_marked_with_the_way_out(
    connection: asyncpg.Connection,
) -> None:
    await month_end(connection)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, failed_at, is_workflow_task)"
        " VALUES ('t-1', 'demo.add', 'default', 'FAILED', now(), true);"
        "UPDATE horsies_workflow_tasks SET task_id = 't-1' WHERE task_index = 2"
    )
    way_out = (
        "inconsistent: import_uk; where that lasts for longer than a moment,"
        " `horsies workflows reconcile month-end` repairs it"
    )
    for words in (["graph"], ["show"], ["show", "--node", "import_uk"]):
        said = await horsies("workflows", words[0], "month-end", *words[1:])
        assert "its task is FAILED already" in said.words
        assert way_out in said.words
    chart = await horsies("workflows", "graph", "month-end", "--mermaid")
    assert "running<br/>its task is FAILED already" in chart.out
    graph = (await horsies("workflows", "graph", "month-end", "--json")).json
    assert [one["out_of_step"] for one in graph["nodes"]] == [None, None, "its task is FAILED already", None]
    await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED'")
    assert f"{way_out}, once it is resumed" in (await horsies("workflows", "graph", "month-end")).words
    assert (await horsies("workflows", "reconcile", "month-end", "--dry-run")).code == 3
    await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
    assert (await horsies("workflows", "reconcile", "month-end", "--yes")).code == 0
    assert "inconsistent" not in (await horsies("workflows", "graph", "month-end")).out


async def test_a_graph_can_be_mermaid_and_no_name_breaks_it(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    await node(connection, "month-end", 4, "PENDING", node_id="'\"x\"]<b>;#'", is_subworkflow="true")
    text = (await horsies("workflows", "graph", "month-end", "--mermaid")).out
    assert text.splitlines() == [
        "flowchart LR",
        '    n0["open_books<br/>completed"]:::completed',
        '    n1["import_us<br/>failed TIMEOUT"]:::failed',
        '    n2["import_uk<br/>running"]:::running',
        '    n3["report<br/>pending<br/>any of 2<br/>also after failures"]',
        '    n4[["#34;x#34;#93;#60;b#62;#59;#35;<br/>pending"]]',
        "    n0 --> n1",
        "    n0 --> n2",
        "    n1 --> n3",
        "    n2 --> n3",
        "    classDef completed fill:#d9f2dd,stroke:#2e7d32,color:#111",
        "    classDef failed fill:#f9d9d9,stroke:#c62828,color:#111",
        "    classDef running fill:#d9e8f9,stroke:#1565c0,color:#111",
    ]
    assert (await horsies("workflows", "graph", "month-end", "--mermaid", "--json")).code == 2


async def test_the_whole_story_of_a_workflow_and_of_a_node(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    await workflow(connection, "child", parent_workflow_id="'month-end'", parent_task_index="2")
    said = await horsies("workflows", "show", "month-", "--mask", "card")
    for words in ("month_end", "nodes", "import_us", "error", "too slow", "definition shop.month_end.v1"):
        assert words in said.words
    assert "4111" not in said.out
    child = (await horsies("workflows", "show", "child")).words
    assert "parent month_end RUNNING month-end its node import_uk RUNNING" in child
    told = (await horsies("workflows", "show", "month-end", "--mask", "card", "--json")).json
    assert told["error"]["data"] == {"card": "***"}
    for name in ("import_us", "1", "#1"):
        said = await horsies("workflows", "show", "month-end", "--node", name)
        assert said.out.splitlines()[0].split()[1:] == ["failed", "TIMEOUT", "import_us", "demo.add"]
    for words in ("waits for open_books (completed)", "books from open_books (completed)", "rows", "too slow"):
        assert words in said.words
    masked = await horsies("workflows", "show", "month-end", "--node", "import_us", "--mask", "card", "--json")
    assert masked.json["kwargs"] == {"rows": 12, "card": "***"}
    unknown = await horsies("workflows", "show", "month-end", "--node", "nosuch")
    assert unknown.code == 1
    assert "its nodes: open_books, import_us, import_uk, report" in unknown.words


async def test_an_id_that_nothing_or_several_have_is_told(connection: asyncpg.Connection) -> None:
    for workflow_id in ("aa-1", "aa-2"):
        await workflow(connection, workflow_id)
    for command in ("show", "graph"):
        nothing = await horsies("workflows", command, "zz")
        assert (nothing.code, nothing.out) == (4, "")
        assert "no workflow has the id zz" in nothing.err
        several = await horsies("workflows", command, "aa")
        assert several.code == 1
        assert "several workflows begin or end with 'aa'" in several.err
        assert "aa-2" in several.err


async def test_a_verb_changes_its_workflow_whose_id_may_hold_a_colon_and_leaves_its_trace(
    connection: asyncpg.Connection,
) -> None:
    await workflow(connection, "order:7")
    await node(connection, "order:7", 0, "RUNNING")
    said = await horsies("workflows", "pause", "order:7", "--yes", "--reason", "because")
    assert said.code == 0, said.err
    assert said.out.startswith("1 ")
    assert await statuses(connection) == {"order:7": "PAUSED"}
    assert await audited(connection) == [("pause", "order:7", "applied", "because")]


async def test_the_audit_tells_what_was_done_to_a_workflow_and_to_a_node(connection: asyncpg.Connection) -> None:
    await month_end(connection)
    assert (await horsies("workflows", "skip", "month-end", "report", "--yes")).code == 0
    assert (await horsies("workflows", "pause", "month-end", "--yes")).code == 0
    for words, verb in ((["--workflow", "month-"], "pause"), (["--node", "month-:3"], "skip")):
        actions = (await horsies("audit", "ls", "--json", *words)).json["actions"]
        assert [action["verb"] for action in actions] == [verb]
    assert "operator actions" in (await horsies("workflows", "show", "month-end")).out
    assert "operator actions" in (await horsies("workflows", "show", "month-end", "--node", "report")).out


async def test_a_node_is_skipped_or_completed_by_hand(connection: asyncpg.Connection) -> None:
    await workflow(connection, "w")
    await node(connection, "w", 0, "RUNNING", node_id="'load'")
    await node(connection, "w", 1, "RUNNING", node_id="'check'")
    done = await horsies("workflows", "complete", "w", "load", "--value", '{"rows": 12}', "--yes")
    assert done.code == 0, done.err
    assert (await horsies("workflows", "skip", "w", "1", "--yes", "--reason", "not needed")).code == 0
    rows = await connection.fetch(
        "SELECT status, result FROM horsies_workflow_tasks WHERE workflow_id = 'w' ORDER BY task_index"
    )
    assert [row["status"] for row in rows] == ["COMPLETED", "SKIPPED"]
    assert '"ok":{"rows":12}' in rows[0]["result"]
    assert [(verb, target) for verb, target, _, _ in await audited(connection)] == [
        ("complete", "w:0"),
        ("skip", "w:1"),
    ]
    assert (await horsies("workflows", "skip", "w", "1", "--yes")).code == 3
    missing = await horsies("workflows", "skip", "w", "nosuch", "--yes")
    assert (missing.code, "its nodes: load, check" in missing.words) == (1, True)
    broken = await horsies("workflows", "complete", "w", "load", "--value", "{rows", "--yes")
    assert (broken.code, "give JSON, such as" in broken.err) == (1, True)
