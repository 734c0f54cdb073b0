"""Completions at the cursor of a command line: commands, filters, verbs with their options, names and themes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from horsies.operations.verbs import VERBS
from horsies.query import ACTIVITY, SCHEDULES, TASKS, WORKERS, WORKFLOWS, Completion, completions
from horsies_tui.command.grammar import FORMATS, GROUPS, PARTS, SCREENS, SYNTAX, options_of, verbs_of
from horsies_tui.command.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from horsies.operations.verb import Verb
    from horsies.query import Language
    from horsies_tui.command.words import CommandWord

_LANGUAGES: Final[Mapping[str, Language]] = {
    "tasks": TASKS,
    "workers": WORKERS,
    "workflows": WORKFLOWS,
    "schedules": SCHEDULES,
    "activity": ACTIVITY,
}
_TARGETS: Final = {"queue": "queue", "schedule": "name"}
"""The filter key that completes the names of targets, by kind."""
_SCREEN_OF: Final = {"queue": "tasks", "schedule": "schedules"}


@dataclass(frozen=True, slots=True)
class Known:
    """The names that are known when the line is opened."""

    live: Sequence[Verb] = ()
    """Verbs that are keys of this screen; they come first."""
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """Values seen so far, by screen and key of its filter."""
    filters: Mapping[str, str] = field(default_factory=dict)
    """Saved filters of this screen."""
    themes: Sequence[str] = ()


def complete(text: str, cursor: int, known: Known) -> list[Completion]:
    """Return completions of the word at the cursor, best first."""
    cursor = min(max(cursor, 0), len(text))
    line = words(text)
    begun = next((word for word in line if word.start <= cursor <= word.end), None)
    before = [word for word in line if word.end < cursor]
    if not before:
        return _commands(begun, cursor, known)
    verbs, named = verbs_of(line)
    if verbs and len(before) >= named:
        return _of_verb(verbs, before[named:], begun, cursor, known)
    first = before[0]
    if first.text in _LANGUAGES:
        start = min(first.end + 1, len(text))
        values = known.values.get(first.text, {})
        found = completions(text[start:], cursor - start, values, _LANGUAGES[first.text])
        shifted = [replace(one, start=one.start + start, end=one.end + start) for one in found]
        return [*_group_verbs(first, before, begun, cursor), *shifted]
    if first.text in GROUPS:
        return [*_group_verbs(first, before, begun, cursor)]
    return [*_of_command(first.text, before, begun, cursor, known)]


def hint(text: str, cursor: int, known: Known) -> str:
    """Return the line with its first completion, if that continues the typed text; otherwise empty."""
    if cursor != len(text) or not text.strip():
        return ""
    for offer in complete(text, cursor, known):
        begun = text[offer.start :]
        if offer.end == len(text) and begun and offer.text.startswith(begun) and offer.text != begun:
            return text[: offer.start] + offer.text
    return ""


def _commands(begun: CommandWord | None, cursor: int, known: Known) -> list[Completion]:
    prefix = "" if begun is None else begun.text
    start, end = (cursor, cursor) if begun is None else (begun.start, begun.end)
    found = {verb.name: verb.hint for verb in known.live}
    found |= {one.name: f"{one.usage}  {one.help}".strip() for one in SYNTAX}
    for verb in VERBS.values():
        found.setdefault(verb.name, verb.hint)
    found |= {name: "VERB NAME  Apply a verb to targets by their names." for name in GROUPS if name not in SCREENS}
    fitting = [(not name.startswith(prefix), name) for name in found if prefix in name]
    return [Completion(start, end, name, found[name]) for _, name in sorted(fitting, key=lambda one: one[0])]


def _group_verbs(
    first: CommandWord, before: Sequence[CommandWord], begun: CommandWord | None, cursor: int
) -> Iterator[Completion]:
    if len(before) > 1 or first.text not in GROUPS:
        return
    names = {verb.name: verb.hint for verb in VERBS.values() if verb.kind in GROUPS[first.text]}
    prefix = "" if begun is None else begun.text
    if begun is None and first.text in _LANGUAGES:
        return  # the keys of the filter are wanted more often
    yield from _offers(names, begun, cursor, prefix)


def _of_verb(
    verbs: Sequence[Verb], before: Sequence[CommandWord], begun: CommandWord | None, cursor: int, known: Known
) -> list[Completion]:
    """Yield the options that are not given yet; for queues and schedules, yield their names."""
    options = options_of(verbs)
    last = before[-1].text if before else ""
    option = options.get(last)
    if option is not None and option.metavar is not None:
        return []
    if last == "--reason":
        return []
    if last in ("--filter", "-f"):
        return []  # a filter within quotes; `tasks …` completes filters
    given = {word.text.partition("=")[0] for word in before}
    offers = {one: option.help for one, option in options.items() if one not in given}
    offers |= {"--reason": "The reason, stored in the audit log."} if "--reason" not in given else {}
    if any(verb.kind in ("task", "workflow") for verb in verbs) and "--filter" not in given:
        offers["--filter"] = "All rows that match, in quotes, instead of the selection."
    names: dict[str, str] = {}
    for verb in verbs:
        key = _TARGETS.get(verb.kind)
        for name in known.values.get(_SCREEN_OF.get(verb.kind, ""), {}).get(key or "", ()):
            names.setdefault(name, f"the {verb.kind}")
    prefix = "" if begun is None else begun.text
    return [*_offers({**names, **offers}, begun, cursor, prefix)]


def _of_command(
    name: str, before: Sequence[CommandWord], begun: CommandWord | None, cursor: int, known: Known
) -> Iterator[Completion]:
    if len(before) > 1:
        return iter(())
    offers: Mapping[str, str]
    match name:
        case "filter" | "unsave":
            offers = known.filters
        case "theme":
            offers = dict.fromkeys(known.themes, "")
        case "export":
            offers = {one: "" for one in FORMATS if one != "json"}
        case "editor" | "pager":
            offers = dict.fromkeys(dict.fromkeys(PARTS.values()), "")
        case _:
            offers = {}
    return _offers(offers, begun, cursor, "" if begun is None else begun.text)


def _offers(known: Mapping[str, str], begun: CommandWord | None, cursor: int, prefix: str) -> Iterator[Completion]:
    start, end = (cursor, cursor) if begun is None else (begun.start, begun.end)
    fitting: Iterable[str] = [name for name in known if name.startswith(prefix)]
    fitting = [*fitting, *(name for name in known if prefix in name and not name.startswith(prefix))]
    return (Completion(start, end, name, known[name]) for name in fitting)
