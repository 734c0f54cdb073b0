"""The workflow screens on a real database: the list, the graph, the details of a node, and verbs."""

from __future__ import annotations

import asyncpg
import pytest
from flow_steps import CHILD, MONTH_END, Flows, flows, month_end, node, wide, workflow
from task_screen_steps import ONE, Detail
from verb_steps import until

from horsies_tui.workflows.view import WorkflowsView

SIZES = [(200, 60), (120, 40), (100, 30), (80, 24)]
"""From the largest: what stood there before is too wide for the next."""
WIDE = "019a7c2e-cccc-7000-8000-00000000f1de"
LABELS = ("open_books", "import_eu", "import_us", "import_uk", "reconcile", "report", "notify")


async def opened(screen: Flows) -> None:
    """Open the graph of the only workflow of the list."""
    await screen.sees("month_end")
    await screen.press("enter")
    await screen.sees("open_books", "of 7 done")


async def go_to(screen: Flows, label: str) -> None:
    """Move the cursor with keys: layer after layer, and in each from its first node down."""
    await screen.press("home")
    for right in range(8):
        await screen.press("home", *["right"] * right, *["pageup"] * 2)
        before = None
        while before != screen.graph.cursor:
            if screen.node == label:
                return
            before = screen.graph.cursor
            await screen.press("down")
    raise AssertionError(f"no way leads to {label}\n{screen.text}")


async def test_an_empty_list_teaches_how_a_workflow_is_made(database: str) -> None:
    async with flows(database, (80, 24)) as screen:
        await screen.sees("There are no workflows here yet.", "app.workflow(name")


async def test_the_list_tells_how_far_each_is_and_what_went_wrong_and_a_filter_narrows_it(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    await workflow(connection, WIDE, "nightly", status="'PAUSED'")
    await node(connection, WIDE, 0, "first", "PENDING")
    async with flows(database, SIZES[0]) as screen:
        for size in SIZES:
            await screen.resize(*size)
            text = await screen.sees("month_end", "nightly", "4/7", "0/1", "import_us", "waits for you")
            assert "import_uk" not in text.replace("/dev/shm", "")
            assert all(len(line) <= size[0] for line in text.splitlines())
        await screen.resize(120, 40)
        await screen.sees("2 match")
        await connection.execute("UPDATE horsies_workflows SET status = 'FAILED' WHERE name = 'nightly'")
        await screen.press("t", "f", "enter")
        await screen.sees("status:failed parent:no", "1 match", "nightly")
        await screen.filter("status:failed")
        await screen.sees("nightly", "1 match")
        await screen.loses("month_end")
        await screen.press("escape")
        await screen.sees("month_end", "nightly", "▸ import_uk", "3 workflows")
        await screen.filter("name:no_such")
        await screen.sees("No workflow matches.", "esc clears the filter")
        await screen.press("escape")
        await screen.sees("3 workflows")
        # While the filter is written, the keys of verbs are letters.
        await screen.press("slash", "P", "S")
        assert len(screen.app.screen_stack) == 1
        assert screen.app.query_one(WorkflowsView).query_one("#filter").text.endswith("PS")  # type: ignore[attr-defined]
        await screen.press("escape")
        await screen.press("slash", *"stats:x", "enter")
        await screen.sees("there is no key 'stats'")


@pytest.mark.parametrize(("sizes", "ascii_only"), [(SIZES, False), (SIZES[-1:], True)])
async def test_the_graph_shows_every_node_at_every_size(
    database: str, connection: asyncpg.Connection, sizes: list[tuple[int, int]], ascii_only: bool
) -> None:
    await month_end(connection)
    async with flows(database, sizes[0], ascii=ascii_only) as screen:
        await opened(screen)
        for size in sizes:
            await screen.resize(*size)
            text = await screen.sees(*LABELS)
            assert all(len(line) <= size[0] for line in text.splitlines())
            assert text.isascii() is ascii_only
            assert screen.graph.has_focus


async def test_a_graph_is_walked_along_its_lines_and_each_node_is_told_of(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database) as screen:
        await opened(screen)
        # It opens on what failed, with the story of its task.
        text = await screen.sees("import_us  ✗ failed", "timeline", "ran 3m20s  on web-3", "the bank says no")
        assert "CARD_DECLINED after 2 tries" in text
        assert "hunter2" not in text
        # A node without a task tells what it was given and gave.
        await screen.press("home")
        text = await screen.sees("open_books  ✓ completed", '"s3://shop/uk.csv"', "rows 41", "✗ import_us")
        assert "hunter2" not in text
        walked = [screen.node]
        for key in ("right", "up", "up", "right", "right", "right", "left", "left", "left", "left"):
            await screen.press(key)
            walked.append(screen.node)
        assert walked[0] == "open_books"
        assert walked[3:7] == ["import_eu", "reconcile", "report", "notify"]
        assert walked[-1] == "open_books"
        # `n` goes to what failed or is at work.
        seen = []
        for key in ("n", "n", "n", "N"):
            await screen.press(key)
            seen.append(screen.node)
        assert seen == ["import_us", "import_uk", "import_us", "import_uk"]
        # A skipped node says for what, and a waiting one how it is joined.
        await go_to(screen, "reconcile")
        await screen.sees("skipped    import_us failed", "books from open_books")
        await go_to(screen, "report")
        await screen.sees("one dependency succeeded", "not sent yet")
        # `tab` goes into the story, and `esc` back to the graph.
        await screen.press("tab")
        await until(screen.pilot, lambda: screen.story.has_focus)
        await screen.press("escape")
        await until(screen.pilot, lambda: screen.graph.has_focus)
        assert "of 7 done" in screen.text


async def test_a_node_that_has_not_heard_of_the_end_of_its_task_says_so_and_what_puts_it_right(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    await connection.execute(
        "UPDATE horsies_workflow_tasks SET status = 'RUNNING', result = NULL, completed_at = NULL"
        " WHERE node_id = 'import_us'"
    )
    async with flows(database) as screen:
        await opened(screen)
        await go_to(screen, "import_us")
        await screen.sees("inconsistent", "its task is FAILED already: reconcile repairs it")


async def test_a_task_leads_to_its_node_which_opens_it_or_in_place_a_sub_workflow_and_is_live(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database, screen="tasks", task_id=ONE) as screen:
        await screen.sees("workflow  month_end ▸ node import_us")
        await Detail(screen.pilot).go_to("month_end")
        await screen.press("enter")
        await screen.sees("of 7 done", "import_us  ✗ failed")
        assert screen.node == "import_us"
        await screen.press("escape")
        await screen.sees("FAILED  CARD_DECLINED")
        await screen.press("4")
        await opened(screen)
        await screen.sees("import_us  ✗ failed")
        await screen.press("enter")
        await screen.sees("FAILED  CARD_DECLINED", ONE, "workflow  month_end")
        await screen.press("escape")
        await screen.sees("of 7 done")
        assert screen.node == "import_us"
        await go_to(screen, "import_uk")
        await screen.sees("the workflow shop.import_uk", "running, 1 of 2 done")
        await screen.press("enter")
        await screen.sees("month_end ▸ import_uk", "fetch", "load", CHILD)
        await screen.press("escape")
        await screen.sees("open_books", "of 7 done")
        await until(screen.pilot, lambda: screen.graph.cursor is not None and screen.node == "import_uk")
        await connection.execute(
            "UPDATE horsies_workflow_tasks SET status = 'COMPLETED', completed_at = now()"
            " WHERE workflow_id = $1 AND node_id = 'load'",
            CHILD,
        )
        await connection.execute("UPDATE horsies_workflows SET status = 'COMPLETED' WHERE id = $1", CHILD)
        await screen.sees("import_uk 2/2")
        await screen.press("escape")
        await screen.sees("1 match")


async def test_the_graph_grows_shrinks_and_offers_to_resume_as_soon_as_its_workflow_is_paused(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database, (200, 60)) as screen:
        await opened(screen)
        await screen.sees("CARD_DECLINED  ")
        await screen.press("minus", "minus", "minus")
        await screen.sees("drawn as signs", "✓ ─┼─ ▶ ─┘")
        await screen.press("minus")
        await screen.sees("drawn as map", " ✓ ✓✗▶ ⊘ · ·")
        await screen.press("0", "0")
        await screen.sees("✓ import_eu")
        await screen.loses("drawn as")
        assert "U resume" not in await screen.sees("P pause")
        await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED' WHERE id = $1", MONTH_END)
        assert "P pause" not in await screen.sees("U resume")
        await screen.press("P")
        assert len(screen.app.screen_stack) == 1
        await screen.press("U")
        await screen.sees("Resume 1 workflow", "ctrl+y")


async def test_a_graph_that_is_too_high_scrolls_with_the_cursor(database: str, connection: asyncpg.Connection) -> None:
    await wide(connection, WIDE, 60)
    async with flows(database, (80, 24)) as screen:
        await screen.sees("wide")
        await screen.press("enter")
        await screen.sees("rows", "split")
        await screen.press("home", "right", *["pagedown"] * 7)
        await screen.sees("part_60  ▶ running")
        assert screen.node == "part_60"


async def test_a_thousand_nodes_are_a_map_to_walk_over(database: str, connection: asyncpg.Connection) -> None:
    await wide(connection, WIDE, 1_000)
    async with flows(database, (120, 40)) as screen:
        await screen.sees("wide")
        await screen.press("enter")
        await screen.sees("of 1,002 done", "✓✓✓✓✓✓✗✓✓✓", "▶▶▶▶▶▶")
        await screen.sees("part_7  ✗ failed")
        await screen.press("end")
        await screen.sees("join  · pending", "and 960 more")


async def test_an_id_that_is_no_workflows_says_so_and_one_that_several_begin_with_offers_them(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database) as screen:
        await screen.sees("month_end")
        screen.app.show_workflow("no-such-id")  # type: ignore[attr-defined]
        await screen.sees("No workflow has an id that begins or ends with no-such-id", "esc goes back")
        await screen.press("escape")
        await screen.sees("1 match")
        screen.app.show_workflow("019a7c2e")  # type: ignore[attr-defined]
        await screen.sees("several ids begin or end with 019a7c2e", MONTH_END, CHILD)
        await until(screen.pilot, lambda: screen.story.has_focus)
        if screen.story.line is not None and MONTH_END not in screen.story.line.text:
            await screen.press("down")
        await screen.press("enter")
        await screen.sees("open_books", "of 7 done")
        await until(screen.pilot, lambda: screen.graph.has_focus)


def _result_of(screen: Flows) -> str:
    """What the result that is shown was decoded from, between its braces."""
    payload = screen.view._payload
    stored = None if payload is None else payload.source.result
    return "" if stored is None else stored.text.replace(" ", "").partition('"ok":{')[2].partition("}")[0]


async def test_a_node_is_skipped_or_completed_by_hand_with_a_value_and_nodes_are_out_of_reach_in_the_list(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database) as screen:
        await screen.sees("month_end")
        await screen.press("S")
        await screen.sees("skip is for a node: enter opens the workflow's graph")
        await opened(screen)
        # No form opens for a node that takes no value.
        await go_to(screen, "import_eu")
        await screen.press("O")
        await screen.sees("cannot set its result: import_eu is COMPLETED already")
        assert len(screen.app.screen_stack) == 1
        await go_to(screen, "report")
        await screen.press("S")
        await screen.sees("Skip 1 node", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("1 left out", "⊘ report")
        await go_to(screen, "import_us")
        await screen.press("O")
        await screen.sees("The result of this node", "null")
        await screen.press(*'{"n": ', "ctrl+s")
        await screen.sees("line 1, column")
        await screen.press("end", *"41}", "ctrl+s")
        await screen.sees("Complete by hand 1 node", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("1 completed by hand", "✓ import_us")
        # Its own value, and by whom; the error of its task is not what the workflow went on with.
        await screen.sees("operator   completed by hand by ")
        await until(screen.pilot, lambda: _result_of(screen) == '"n":41')
        result = await connection.fetchval("SELECT result FROM horsies_workflow_tasks WHERE node_id = 'import_us'")
        assert '"n":41' in result.replace(" ", "")
        await connection.execute("UPDATE horsies_workflows SET status = 'CANCELLED', completed_at = now()")
        await screen.sees("CANCELLED")
        await go_to(screen, "import_uk")
        await screen.press("O")
        await screen.sees("import_uk belongs to month_end, which is CANCELLED")
        assert len(screen.app.screen_stack) == 1


async def test_the_list_offers_to_pause_what_runs_and_does_it_for_all_that_are_marked(
    database: str, connection: asyncpg.Connection
) -> None:
    await workflow(connection, WIDE, "nightly", status="'PAUSED'", created_at="now()")
    await workflow(connection, MONTH_END, "month_end")
    for flow in (WIDE, MONTH_END):
        await node(connection, flow, 0, "only_step", "PENDING")
    async with flows(database, (200, 60)) as screen:
        assert "P pause" not in await screen.sees("month_end", "nightly", "U resume")
        await screen.press("P")
        assert len(screen.app.screen_stack) == 1
        await screen.press("down")
        assert "U resume" not in await screen.sees("P pause")
        await screen.press("a")
        await screen.sees("2 marked", "P pause", "U resume")
        await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
        await screen.loses("U resume")
        await screen.press("P")
        await screen.sees("Pause 2 workflows", "2 will be paused", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("2 paused", "‖ paused")
        await screen.loses("marked")
        paused = await connection.fetch("SELECT DISTINCT status FROM horsies_workflows")
        assert [*paused] == [("PAUSED",)]
        await connection.execute("UPDATE horsies_workflows SET status = 'COMPLETED', completed_at = now()")
        await screen.loses("U resume")
        assert "P pause" not in screen.text
