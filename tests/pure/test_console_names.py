"""Our names on Textual's classes: one that Textual uses too can hang the application without an error."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType

import pytest
from textual.message_pump import MessagePump

import horsies_tui

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(horsies_tui.__path__, "horsies_tui.")
    if "__main__" not in name and name != "horsies_tui.textual_internals"  # which overrides some on purpose
]


@pytest.mark.parametrize("name", MODULES)
def test_no_private_name_of_ours_is_one_of_textuals(name: str) -> None:
    clashes = {
        (owner.__name__, mine)
        for owner in _classes_on_textual(importlib.import_module(name))
        for mine in _private_names(owner)
        if any(mine in _all_names(base) for base in owner.__mro__ if base.__module__.startswith("textual"))
    }
    assert clashes == set()


def test_what_textual_keeps_in_an_instance_is_seen_too() -> None:
    """`_context` is a method and `_running` an attribute set in __init__: both have caused failures."""
    assert {"_context", "_running"} <= _all_names(MessagePump)


def _classes_on_textual(module: ModuleType) -> list[type]:
    return [
        owner
        for owner in vars(module).values()
        if inspect.isclass(owner) and owner.__module__ == module.__name__ and issubclass(owner, MessagePump)
    ]


def _private_names(owner: type) -> set[str]:
    """Without handlers: Textual calls those of every class, so one does not hide another."""
    return {name for name in _all_names(owner) if name.startswith("_") and not name.startswith(("__", "_on_"))}


@cache
def _all_names(owner: type) -> frozenset[str]:
    """Methods, and the attributes that they assign to self, from the source."""
    names: set[str] = set()
    for node in ast.walk(_classes_in(inspect.getmodule(owner))[owner.__qualname__.rpartition(".")[2]]):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                names.add(node.attr)
    return frozenset(names)


@cache
def _classes_in(module: ModuleType | None) -> dict[str, ast.ClassDef]:
    assert module is not None
    return {
        node.name: node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ClassDef)
    }
