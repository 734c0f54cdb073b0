"""The sheet before a change: what a verb would do, with the operator's reason and confirmation."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from time import monotonic
from typing import TYPE_CHECKING, Final

from textual import on
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from horsies.display.payload import Masks
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies.operations.undo import HOLD_S, RENEW_EVERY_S
from horsies.store.pool import CONNECTION_ERRORS
from horsies_tui.actions import Scope, bindings, key_for
from horsies_tui.clipboard import copy
from horsies_tui.feed.status import sentence, sentence_with_place
from horsies_tui.intents import Fact, FinishedOperation, facts_of, word_to_type
from horsies_tui.look.damage import drawn, report
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import size, ticking
from horsies_tui.shell.in_turn import InTurn
from horsies_tui.shell.outcome import RowsSheet, rows_of_preview
from horsies_tui.widgets.plain import ClickButton, Facts, LineCell, Lines, entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from horsies.operations.verb import Preview
    from horsies_tui.feed.clock import ConsoleClock
    from horsies_tui.intents import ConsoleOperation
    from horsies_tui.look.glyphs import Glyphs

_TICK_S: Final = 1.0
_LONGEST_REASON: Final = 500
_WIDEST_WORD: Final = 24
_ROOM_FOR_BOTH: Final = 72
"""Terminal width, in columns, from which both buttons fit with their full labels."""
SEEN_FOR_S: Final = 0.4
"""How long a preview must be on the screen before a key confirms it. Otherwise `R ctrl+y`, typed ahead, would confirm
rows that the operator has not seen."""


class SheetPhase(Enum):
    READING = auto()
    READY = auto()
    """Waiting for the confirmation."""
    CLOSED = auto()
    """Nothing can be confirmed: no row is eligible, or the database refused."""
    DOING = auto()
    STOPPING = auto()
    """Stopping after the current batch."""


@dataclass(frozen=True, slots=True)
class Where:
    """The database that is changed. `production` is the name to type to confirm a change to a production database."""

    label: str
    production: str | None
    clock: ConsoleClock


class PreviewSheet(Sheet[FinishedOperation]):
    """The sheet of one operation. Returns the finished operation, or None if nothing was done.

    The field for the reason has the focus and takes all letters, so only a key with ctrl confirms. While the operation
    runs, `esc` stops it instead of closing the sheet, which then shows what was done.
    """

    BINDINGS = bindings(Scope.PREVIEW)
    AUTO_FOCUS = "#reason"

    DEFAULT_CSS = """
    PreviewSheet {
        &.-production > #sheet { border: heavy $error; }
        #facts-scroll { height: auto; max-height: 45vh; }
        #facts-scroll:focus { background: $panel; }
        .line { height: 1; }
        .line > Lines { width: 26; color: $text-muted; }
        Input { background: $panel; }
        Input:focus { background: $primary 40%; }
        Input:ansi { text-style: underline; }
        Input:focus:ansi { text-style: underline bold; }
        .line > Input { width: 1fr; }
        #read { color: $text-muted; width: 1fr; }
        #offers { width: 1fr; color: $text-muted; }
        #ask { height: 1; }
        #question { width: 1fr; padding: 0 2; text-align: right; }
        #word { display: none; }
        &.-typed #word { display: block; }
        #decide { height: 1; }
        #decide Button { min-width: 0; }
        #space { width: 1fr; }
        #confirm { display: none; }
        &.-ready #confirm { display: block; }
        #question.-error { color: $text-error; text-style: bold; }
        &.-old #facts { text-style: dim; }
    }
    """

    @dataclass
    class Looked(Message):
        preview: Preview

    @dataclass
    class Progressed(Message):
        done: int
        of: int

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, PreviewSheet.Progressed)

    @dataclass
    class Ended(Message):
        done: FinishedOperation

    @dataclass
    class Refused(Message):
        """The operation was refused or not completed. `text` says why and what to do."""

        text: str
        nothing_done: bool = True

    def __init__(
        self, operation: ConsoleOperation, where: Where, glyphs: Glyphs, *, hidden: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self._masks = Masks(frozenset(hidden))
        self._operation = operation
        self._where = where
        self._glyphs = glyphs
        self._phase = SheetPhase.READING
        self._preview: Preview | None = None
        self._first: Preview | None = None
        self._word: str | None = None
        self._fresh_budget = False
        self._armed_at = math.inf
        """When the preview had been on the screen for SEEN_FOR_S; the confirm button appears then."""
        self._came_too_early = False
        """True if a confirmation was ignored because it came before SEEN_FOR_S."""
        self.set_class(where.production is not None, "-production")

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            with VerticalScroll(id="facts-scroll"):
                yield Facts(self._glyphs, id="facts")
            with Horizontal(classes="line"):
                yield Lines(self._glyphs, "checked")
                yield LineCell(id="read")
            with Horizontal(classes="line"):
                yield Lines(self._glyphs, "Reason (audit log)")
                reason = self._operation.intent.reason[:_LONGEST_REASON]
                yield Input(reason, id="reason", compact=True, max_length=_LONGEST_REASON)
            yield LineCell(id="offers")
            with Horizontal(id="ask"):
                yield LineCell(id="question")
                yield Input(id="word", compact=True)
            with Horizontal(id="decide"):
                yield ClickButton("", id="keep", compact=True)
                yield LineCell(id="space")
                yield ClickButton("", id="confirm", compact=True, variant="primary")

    def on_mount(self) -> None:
        self._set_title(None)
        self.query_one("#word", Input).can_focus = False
        self.set_interval(_TICK_S, self._tick)
        self._start_preview()

    # Actions of the operator.

    def action_confirm(self) -> None:
        """Apply the operation if no confirmation has to be typed, or if it was typed; otherwise focus its field."""
        typed_at = self.app.typed_at if isinstance(self.app, InTurn) else monotonic()
        if self._phase is SheetPhase.READING or (self._phase is SheetPhase.READY and typed_at < self._armed_at):
            self._came_too_early = True
            self._ask(self._question(), error=True)
            return
        if self._phase is not SheetPhase.READY:
            return
        word = self.query_one("#word", Input)
        typed = word.value.strip()
        if self._word is None or typed == self._word:
            self._do()
            return
        if typed:
            self._ask(f"that does not match: type {self._word}", error=True)
        word.focus()

    def _arm(self, preview: Preview) -> None:
        if preview is self._preview and self._phase is SheetPhase.READY:
            self._armed_at = monotonic()
            self.add_class("-ready")

    def action_fresh(self) -> None:
        if self._phase is SheetPhase.READY and self._operation.intent.asks_for("fresh_budget"):
            self._fresh_budget = not self._fresh_budget
            self._start_preview()

    def action_rows(self) -> None:
        if self._preview is not None:
            rows = rows_of_preview(self._operation.intent, self._preview)
            self.app.push_screen(RowsSheet(self._title(self._preview), rows, self._where.clock.now(), self._glyphs))

    def action_copy(self) -> None:
        """Copy the equivalent CLI command. While the reason has the focus, `y` is typed into it."""
        if self._preview is not None:
            what = size(len(self._preview.command.encode()))
            if not copy(self, self._preview.command, what, self._ask):
                self._ask(f"{what} is too large for the terminal's clipboard")

    def action_close(self) -> None:
        if self._phase is SheetPhase.DOING:
            self._set_phase(SheetPhase.STOPPING)
            self.workers.cancel_group(self, "doing")
        elif self._phase is not SheetPhase.STOPPING:
            self.dismiss(None)

    @on(ClickButton.Pressed, "#keep")
    def _keep(self, event: ClickButton.Pressed) -> None:
        event.stop()
        self.action_close()

    @on(ClickButton.Pressed, "#confirm")
    def _confirm(self, event: ClickButton.Pressed) -> None:
        event.stop()
        self.action_confirm()

    @on(Input.Submitted, "#reason")
    def _leave_the_reason(self, event: Input.Submitted) -> None:
        """Leave the field of the reason on enter, without confirming."""
        event.stop()
        if self._word is not None:
            self.query_one("#word").focus()
        elif self._phase is SheetPhase.READY:
            self._ask(f"{self._key('preview.confirm')} confirms, {self._key('sheet.close')} cancels")

    @on(Input.Submitted, "#word")
    def _check_the_word(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_confirm()

    # Messages that the operation posts.

    @on(Looked)
    def _show_preview(self, message: Looked) -> None:
        message.stop()
        if self._phase in (SheetPhase.DOING, SheetPhase.STOPPING):
            return
        # Reading held rows again finds the same rows or fewer, so it cannot add a row that the operator has not seen.
        again = self._armed_at < math.inf and bool(message.preview.eligible) and message.preview.undone is not None
        self._preview = preview = message.preview
        self._first = self._first or preview
        # An undo does not ask for the number of rows, because typing takes time while its rows are held.
        count = min(len(preview.eligible), 1) if preview.undone is not None else len(preview.eligible)
        self._word = word_to_type(count, self._where.production) if count else None
        self.set_class(self._word is not None, "-typed")
        word = self.query_one("#word", Input)
        word.can_focus = self._word is not None
        # One column more than the text, for the cursor.
        word.styles.width = min(len(self._word or "") + 2, _WIDEST_WORD)
        facts = drawn("the preview", lambda: self._facts(preview), lambda words: [Fact("", words, Tone.BAD)])
        self.query_one(Facts).show(facts)
        self._tick()
        if not again:
            self._armed_at = math.inf
        self._set_phase(SheetPhase.READY if preview.eligible else SheetPhase.CLOSED)
        # The time counts from the frame that shows the preview, not from the message.
        self.call_after_refresh(lambda: self.set_timer(SEEN_FOR_S, lambda: self._arm(preview)))

    @on(Progressed)
    def _show_progress(self, message: Progressed) -> None:
        message.stop()
        stop = "stopping" if self._phase is SheetPhase.STOPPING else f"{self._key('sheet.close')} stops"
        self._ask(f"{message.done:,} of {message.of:,} done, {stop}")

    @on(Ended)
    def _end(self, message: Ended) -> None:
        message.stop()
        self.dismiss(message.done)

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        message.stop()
        self._set_phase(SheetPhase.CLOSED)
        # Shown among the facts, where it can take several lines; the remedy is at the end of the text.
        before = [] if self._preview is None else self._facts(self._preview)
        self.query_one(Facts).show([*before, Fact("why not", message.text, Tone.BAD)])
        self._ask("nothing was done" if message.nothing_done else "it may be partly done", error=True)

    # Calls into the operation, which posts its results as messages.

    def _start_preview(self) -> None:
        self._set_phase(SheetPhase.READING)
        self.run_worker(self._ask_for_preview(), group="looking", exclusive=True)

    async def _ask_for_preview(self) -> None:
        try:
            preview = await self._operation.look(fresh_budget=self._fresh_budget)
        except CONNECTION_ERRORS as error:
            self.post_message(self.Refused(sentence(error)))
        except Exception as error:  # noqa: BLE001 - see look/damage.py
            self.post_message(self.Refused(_failed("the preview", error)))
        else:
            self.post_message(self.Looked(preview))
            if preview.undone is not None:
                await self._keep_holding()

    async def _keep_holding(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            with suppress(Exception):  # a failed read leaves the previous time of the read on the screen
                self.post_message(self.Looked(await self._operation.look()))

    def _do(self) -> None:
        if self._preview is not None:
            self.workers.cancel_group(self, "looking")
            reason = self.query_one("#reason", Input).value.strip() or None
            self._set_phase(SheetPhase.DOING)
            self.run_worker(self._carry_out(self._preview, reason), group="doing")

    async def _carry_out(self, preview: Preview, reason: str | None) -> None:
        def progress(done: int, of: int) -> None:
            self.post_message(self.Progressed(done, of))

        try:
            self.post_message(self.Ended(await self._operation.do(preview, reason, progress)))
        except CONNECTION_ERRORS as error:
            self.post_message(self.Refused(sentence(error)))
        except Exception as error:  # noqa: BLE001 - see look/damage.py
            words = f"{_failed('the operation', error)}; the activity screen lists what was done"
            self.post_message(self.Refused(words, nothing_done=False))

    # Drawing.

    def _set_phase(self, phase: SheetPhase) -> None:
        self._phase = phase
        self.set_class(phase is SheetPhase.READING, "-old")
        self.set_class(phase is SheetPhase.READY and self._armed_at < math.inf, "-ready")
        self._ask(self._question())
        self._label_buttons()
        self.query_one("#offers", LineCell).put(self._glyphs.text(self._offers()))

    def _question(self) -> str:
        match self._phase:
            case SheetPhase.READING:
                return f"reading what would change{self._glyphs.ellipsis}"
            case SheetPhase.DOING:
                return "running"
            case SheetPhase.STOPPING:
                return "stopping after this batch"
            case SheetPhase.CLOSED:
                return "nothing to do"
            case SheetPhase.READY if self._word is not None:
                return f"type {self._word} to confirm, then {self._key('preview.confirm')}"
            case SheetPhase.READY if self._came_too_early:
                return f"{self._key('preview.confirm')} was ignored: it came before these rows were shown"
            case SheetPhase.READY:
                return ""

    def _label_buttons(self) -> None:
        """Label each button with its key and effect: `esc Back, change nothing` and `ctrl+y Requeue 2 tasks`."""
        back = "Back, change nothing" if self.size.width >= _ROOM_FOR_BOTH else "Back"
        keep = "Stop" if self._phase in (SheetPhase.DOING, SheetPhase.STOPPING) else back
        self.query_one("#keep", ClickButton).show(f"{self._key('sheet.close')} {keep}", self._glyphs)
        if self._preview is not None:
            intent, count = self._operation.intent, len(self._preview.eligible)
            words = f"{self._key('preview.confirm')} {intent.verb.title} {counted(count, intent.kind)}"
            self.query_one("#confirm", ClickButton).show(words, self._glyphs)

    def _offers(self) -> str:
        """Return the line with the other keys of the sheet."""
        if self._preview is None:
            return ""
        offers = {"preview.rows": "list rows"}
        if self._phase is SheetPhase.READY and self._operation.intent.asks_for("fresh_budget"):
            offers["preview.fresh"] = "runs once more" if self._fresh_budget else "reset retries"
        keys = [f"{self._key(action_id)} {what}" for action_id, what in offers.items()]
        return "   ".join((*keys, f"tab {self._key('preview.copy')} copy the command"))

    def _key(self, action_id: str) -> str:
        """Return the action's key, spelled out, because `^y` might be read as two keys."""
        key = key_for(action_id, self, self._glyphs)
        return f"ctrl+{key[1:]}" if key.startswith("^") and len(key) > 1 else key

    def _ask(self, text: str, *, error: bool = False) -> None:
        self.query_one("#question", LineCell).put(self._glyphs.text(text), *(("-error",) if error else ()))

    def _facts(self, preview: Preview) -> list[Fact]:
        facts = facts_of(self._operation.intent, preview, self._masks)
        if preview.undone is not None and self._first is not None:
            since = len(self._first.eligible) - len(preview.eligible)
            held = "not started while this sheet is open"
            facts.insert(0, Fact(f"{preview.held:,} held", f"{held} · {since:,} started or changed since", Tone.STRONG))
        return facts

    def _tick(self) -> None:
        preview = self._preview
        if preview is None:
            return
        age = self._where.clock.now() - preview.taken_at
        skipped = "rows changed since are skipped"
        if preview.held and age.total_seconds() > HOLD_S:
            skipped = "the hold has expired: workers start these tasks again"
        self.query_one("#read", LineCell).put(f"{ticking(age)} ago; {skipped}")
        self._set_title(preview)

    def _title(self, preview: Preview | None) -> str:
        intent = self._operation.intent
        if preview is None:
            return intent.verb.title
        if preview.undone is not None:
            return f"{intent.verb.title} {clean(preview.undone.words(self._where.clock.now()))}"
        count = len(preview.eligible) + len(preview.refused)
        title = f"{intent.verb.title} {counted(count, intent.kind)}"
        # The title repeats the filter: its rows may be out of view, and the filter may not be the expected one.
        if preview.filter is None or count == 1:
            return title
        return f"{title} of {clean(preview.filter) or 'no filter: all there are'}"

    def _set_title(self, preview: Preview | None) -> None:
        where = self._where.label + (" · PRODUCTION" if self._where.production is not None else "")
        entitle(self.query_one("#sheet"), self._glyphs, self._title(preview), where)


def _failed(what: str, error: Exception) -> str:
    return f"{report(what, error)}: {sentence_with_place(error)}"
