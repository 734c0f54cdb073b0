"""The stack of views: a tab, and above it a task or a workflow; only the view that is shown reads the database."""

from __future__ import annotations

from asyncio import Lock
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.containers import Container
from textual.message import Message

from horsies_tui.textual_internals import forget_click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.view import ConsoleView


class ViewStage(Container):
    """Creates a view when it is first shown, and again for another database."""

    DEFAULT_CSS = "ViewStage { height: 1fr; }"

    @dataclass
    class Shown(Message):
        """The shown view has changed."""

        name: str

    def __init__(self, views: Mapping[str, type[ConsoleView[Any]]], link: DatabaseLink) -> None:
        super().__init__()
        self._makers = views
        self._link = link
        self._views: dict[str, ConsoleView[Any]] = {}
        self._stack: list[str] = []
        self._switching = Lock()
        self._came_from = ""
        """The tab from which a number, an alert or a link opened the current one; `return_` goes back to it."""

    @property
    def name_shown(self) -> str:
        """The name of the current tab, even below another view; empty before the first."""
        return self._stack[0] if self._stack else ""

    def made(self, name: str) -> ConsoleView[Any] | None:
        """Return this view if it has been created."""
        return self._views.get(name)

    @property
    def top(self) -> ConsoleView[Any] | None:
        """Return the view that is shown."""
        return self._views.get(self._stack[-1]) if self._stack else None

    @property
    def below(self) -> ConsoleView[Any] | None:
        """Return the view below the one that is shown, if any."""
        return self._views.get(self._stack[-2]) if len(self._stack) > 1 else None

    async def go(self, name: str) -> ConsoleView[Any]:
        """Show this tab and close all views above it."""
        self._stack, self._came_from = [name], ""
        return await self._show_top()

    async def follow(self, name: str) -> ConsoleView[Any]:
        """Show this tab and remember the current one for `return_`."""
        before = self.name_shown
        view = await self.go(name)
        self._came_from = "" if before == name else before
        return view

    async def return_(self) -> bool:
        """Return to the tab that led here; False if there is none."""
        if not self._came_from:
            return False
        await self.go(self._came_from)
        return True

    async def push(self, name: str) -> ConsoleView[Any]:
        """Show this view above all others. The stack contains each view at most once."""
        self._stack = [*(below for below in self._stack if below != name), name]
        return await self._show_top()

    async def back(self) -> bool:
        """Return one level; False if there is none."""
        if len(self._stack) < 2:
            return False
        self._stack.pop()
        await self._show_top()
        return True

    async def use(self, link: DatabaseLink) -> None:
        """Switch to another database and remove all views, with their rows and marks."""
        self._link = link
        for view in self._views.values():
            view.hide()
        self._views.clear()
        await self.remove_children()
        await self.go(self._stack[0])

    async def _show_top(self) -> ConsoleView[Any]:
        """Show the view on top of the stack.

        Keys, clicks and links run in several tasks, so another view may be requested while this one is created. They
        are created one after the other, and only the newest is shown.
        """
        name = self._stack[-1]
        async with self._switching:
            view = self._views.get(name)
            if view is None:
                view = self._views[name] = self._makers[name](id=name)
                await self.mount(view)
                view.attach(self._link)
            if name == self._stack[-1]:
                self._show_only(view)
        return view

    def _show_only(self, view: ConsoleView[Any]) -> None:
        for other in self._views.values():
            other.display = other is view
            if other.shown and other is not view:
                other.hide()
                if self.screen.focused is not None and other in self.screen.focused.ancestors_with_self:
                    self.screen.set_focus(None)  # the other view takes the focus when it is shown
        if not view.shown:
            forget_click(self.app)
            view.show()
            self.post_message(self.Shown(view.id or ""))
