"""Loads the SQL files, each named like the module beside it and holding several named statements.

`/* name */` in a statement is the place of a fragment: of the same file, or of the `fragments.sql` of its package or of
one above, which have those that several files need. `/* open_tasks */` and the others of `STATES` are lists of states.
A place without such a fragment is filled by the caller.

No comment of a file reaches a driver or the server. Drivers that bind on the client look for placeholders without
knowing SQL, so they put values into comments, too, and a newline in the value ends the comment: the rest of the value
would run. What is sent begins with one comment, the statement's name, which shows in `pg_stat_activity`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from horsies.domain.states import TaskStatus, WorkflowStatus, WorkflowTaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_HEAD = re.compile(r"\A-- \w+\n")
_PLACE = re.compile(r"/\* (\w+) \*/")


def _listed(states: Iterable[str]) -> str:
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


STATES: Final = {
    "open_tasks": _listed(status for status in TaskStatus if not status.is_terminal),
    "tasks_in_flight": _listed((TaskStatus.CLAIMED, TaskStatus.RUNNING)),
    "ended_tasks": _listed(status for status in TaskStatus if status.is_terminal),
    "open_nodes": _listed(status for status in WorkflowTaskStatus if not status.is_terminal),
    "ended_nodes": _listed(status for status in WorkflowTaskStatus if status.is_terminal),
    "open_workflows": _listed(status for status in WorkflowStatus if not status.is_terminal),
    "ended_workflows": _listed(status for status in WorkflowStatus if status.is_terminal),
}
"""What is open and what has ended, for `IN`; in the order of the schema's indexes, which have the same lists."""

# As in PostgreSQL's scan.l. Quantifiers are possessive: a quote that is not closed is an error, not another token.
_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s++ )
  | (?P<comment> --[^\r\n]*+ )
  | (?P<block> /\* )
  | (?P<parameter> \$[0-9]++ )
  | (?P<quoted> [eE]'(?: [^'\\] | \\. | '' | '\s*[\r\n]\s*' )*+'
              | '(?: [^'] | '' )*+'
              | "(?: [^"] | "" )*+"
              | \$(?P<tag> (?: [^\W\d]\w*+ )? )\$ .*? \$(?P=tag)\$ )
  | (?P<word> (?! [eE]' ) [^\W\d][\w$]*+ )
  | (?P<sign> [^\w\s'"$/-]++ | [0-9]++ | [^\w'"$] )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE: Final = re.compile(r"/\*|\*/")

# Quoted texts stay as they are. A call without arguments, or with a star, can mean only PostgreSQL's own.
_CALL = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|(?<![\w.])([a-z]\w*)\((?!\)|\*\))""")
# Syntax of their own, which finds PostgreSQL's function, also where unnest has several arrays; and a type.
_NO_CALLS = re.compile(r"extract|substring|varchar|unnest\((?=(?:[^()',[]|\[\])*,)")


def statement(module: str, name: str, **fragments: str) -> str:
    """Return the statement `name` of the SQL file beside `module`: its name as a comment, the text without comments.

    `fragments` fill the places that have no fragment in an SQL file, in this order. They are texts of SQL files, too.
    """
    text = _prepared(module, name)
    return filled(text, fragments) if fragments else text


def filled(text: str, fragments: Mapping[str, str]) -> str:
    """Replace places by the fragments of that name. The names of fragments that are statements are dropped."""
    for place, fragment in fragments.items():
        text = text.replace(f"/* {place} */", _HEAD.sub("", fragment).strip())
    return text


def renumbered(sql: str, by: int) -> str:
    """Return the text with `by` added to the numbers of its parameters, except `$1`: the worker in both statements."""
    parts = ((kind == "parameter" and text != "$1", text) for kind, text in tokens(sql))
    return "".join(f"${int(text[1:]) + by}" if moves else text for moves, text in parts)


def tokens(sql: str) -> Iterator[tuple[str, str]]:
    """The kind and the text of each token: space, comment, parameter, quoted, word, sign. Together they are `sql`.

    ValueError for a quote or a comment that does not end.
    """
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None:
            raise ValueError(f"SQL has a quote that does not end: {sql[at : at + 40]!r}")
        kind, end = found.lastgroup or "", found.end()
        if found["tag"] is not None:
            kind = "quoted"
        elif kind == "block":
            kind, end = "comment", _end_of_block(sql, at)
        yield kind, sql[at:end]
        at = end


def without_comments(sql: str) -> str:
    """Remove the comments of a statement, except for the places of fragments."""
    kept: list[str] = []
    blank = ""
    for kind, text in tokens(sql):
        if kind == "space":
            blank += text
        elif kind == "comment" and not _PLACE.fullmatch(text):
            blank += " "  # words on its two sides stay two words
        else:
            # Blanks are reduced to at most one end of a line, with the indentation after it.
            _, end, indentation = blank.rpartition("\n")
            kept += (end + indentation if end else blank[:1], text)
            blank = ""
    return "".join(kept).strip() + "\n"


def _end_of_block(sql: str, at: int) -> int:
    """Return where a block comment ends; comments in it may have comments in them."""
    depth = 0
    for edge in _BLOCK_EDGE.finditer(sql, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise ValueError(f"SQL has a comment that does not end: {sql[at : at + 40]!r}")


@cache
def _prepared(module: str, name: str) -> str:
    return f"-- {name}\n{qualified(_composed(module, name))}\n"


def _composed(module: str, name: str) -> str:

    def fragment(place: re.Match[str]) -> str:
        source = next((one for one in _sources(module) if place[1] in _file(one)), None)
        return STATES.get(place[1], place[0]) if source is None else _composed(source, place[1])

    return _PLACE.sub(fragment, without_comments(_file(module)[name])).strip()


@cache
def _sources(module: str) -> tuple[str, ...]:
    """Return the module, and the `fragments` of its package and of those above, which have such a file."""
    packages = list(accumulate(module.split(".")[:-1], "{}.{}".format))
    with_file = [package for package in reversed(packages) if files(package).joinpath("fragments.sql").is_file()]
    return (module, *(f"{package}.fragments" for package in with_file))


@cache
def _file(module: str) -> dict[str, str]:
    package, _, file = module.rpartition(".")
    _, *parts = _NAME.split(files(package).joinpath(f"{file}.sql").read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def qualified(sql: str) -> str:
    """Qualify calls of PostgreSQL's functions in a text without comments: `pg_catalog.count(id)`.

    In a schema of the search path that others may create in, a function of that name with types that fit better would
    run in its place, with the rights of the role that sends the statement.
    """

    def in_its_schema(call: re.Match[str]) -> str:
        is_call = call[1] and not call[1].startswith("horsies_") and not _NO_CALLS.match(call.string, call.start())
        return f"pg_catalog.{call[0]}" if is_call else call[0]

    return _CALL.sub(in_its_schema, sql)
