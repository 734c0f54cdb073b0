"""The bytes that a graph sends: only the places of changed nodes, and no line twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from flow_scene import NOW, a_node, ago, labels
from table_app import Terminal, painted
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen

from horsies_tui.look import themes
from horsies_tui.look.glyphs import UNICODE
from horsies_tui.textual_internals import ExactScreen
from horsies_tui.workflow.graph import arrange
from horsies_tui.workflow.graph_labels import vertices, wants
from horsies_tui.workflow.graph_sizes import Sizes
from horsies_tui.workflow.graph_view import GraphView

PARTS = 30
NODES = (
    a_node(0, "split", "COMPLETED"),
    *(a_node(n, f"part_{n}", "RUNNING", (0,), started_at=ago(100 + 7 * n)) for n in range(1, PARTS + 1)),
    a_node(PARTS + 1, "join", "PENDING", tuple(range(1, PARTS + 1))),
)


class GraphApp(App[None]):
    """`written` is the output since it was last cleared."""

    is_headless = False  # so that textual renders for its driver, which discards the output
    CSS = "Screen { background: $background; }"

    def __init__(self) -> None:
        super().__init__()
        for known in themes.THEMES.values():
            self.register_theme(known)
        self.theme = themes.DEFAULT
        self.graph = GraphView(UNICODE)
        self.sizes = Sizes(arrange(vertices(NODES)), wants(NODES))
        self.written: list[str] = []

    def get_default_screen(self) -> Screen[object]:
        return ExactScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield self.graph

    def on_mount(self) -> None:
        assert self._driver is not None
        self._driver.write = self.written.append
        self.graph.focus()


@asynccontextmanager
async def graph() -> AsyncIterator[tuple[GraphApp, Pilot[None]]]:
    app = GraphApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.graph.put(app.sizes, labels(*NODES))
        await painted(app, pilot)  # type: ignore[arg-type]
        yield app, pilot


async def sent(app: GraphApp, pilot: Pilot[None], change: Callable[[], object]) -> int:
    await painted(app, pilot)  # type: ignore[arg-type]
    app.written.clear()
    change()
    await painted(app, pilot)  # type: ignore[arg-type]
    return len("".join(app.written).encode())


async def test_a_node_that_changes_is_all_that_is_sent() -> None:
    async with graph() as (app, pilot):
        ended = replace(NODES[7], status="COMPLETED", completed_at=NOW)
        other = labels(*NODES[:7], ended, *NODES[8:])
        assert 0 < await sent(app, pilot, lambda: app.graph.put(app.sizes, other)) < 250
        assert await sent(app, pilot, lambda: app.graph.put(app.sizes, other)) == 0


async def test_a_second_in_which_no_time_changes_its_text_sends_nothing_and_ten_little() -> None:
    async with graph() as (app, pilot):
        told = labels(*NODES)
        soon = replace(told, now=NOW + timedelta(seconds=10))
        assert 0 < await sent(app, pilot, lambda: app.graph.put(app.sizes, soon)) < 3_000
        assert await sent(app, pilot, lambda: app.graph.put(app.sizes, soon)) == 0


async def test_a_step_sends_two_labels() -> None:
    async with graph() as (app, pilot):
        await pilot.press("right")
        for way in (app.graph.action_down, app.graph.action_up, app.graph.action_left):
            assert 0 < await sent(app, pilot, way) < 400


@pytest.mark.parametrize("keys", [("right", "down", "minus", "up"), ("end", "minus", "minus", "0", "home")])
async def test_the_terminal_shows_what_the_screen_should(keys: tuple[str, ...]) -> None:
    """A terminal that got all partial updates looks like a freshly drawn one."""
    async with graph() as (app, pilot):
        terminal = Terminal(120, 40)
        app.refresh()
        await painted(app, pilot)  # type: ignore[arg-type]
        for key in keys:
            await pilot.press(key)
            await painted(app, pilot)  # type: ignore[arg-type]
            terminal.feed(app.written)
        wanted = [
            "".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()
        ]
        assert terminal.lines() == wanted
