"""The filter language of the console and of `--filter`: text in, SQL parameters out, never SQL."""

from __future__ import annotations

from horsies.query.completing import Completion, completions
from horsies.query.keys import KEYS, Key, describe
from horsies.query.parameters import TaskParameters, Texts, Words, parameters
from horsies.query.parser import parse
from horsies.query.problems import FilterError, Problem
from horsies.query.tree import TaskFilter, Term

__all__ = [
    "KEYS",
    "Completion",
    "FilterError",
    "Key",
    "Problem",
    "TaskFilter",
    "TaskParameters",
    "Term",
    "Texts",
    "Words",
    "completions",
    "describe",
    "parameters",
    "parse",
]
