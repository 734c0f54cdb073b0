"""The compatibility of types: may a value of one be passed where another is expected, as far as annotations show?"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin

from horsies.domain.argument_types import unwrapped


def fits(source: Any, target: Any) -> bool:
    """False only if it is certain: annotations that cannot be checked must not prevent a workflow that would run."""
    source, target = _plain(source), _plain(target)
    if source is target or target in (Any, object) or source is Any or source == target:
        return True
    if isinstance(source, TypeVar | str) or isinstance(target, TypeVar | str):
        return True
    if get_origin(source) in (Union, UnionType):
        return all(fits(member, target) for member in get_args(source))
    if get_origin(target) in (Union, UnionType):
        return any(fits(source, member) for member in get_args(target))
    if get_origin(source) is Literal:
        return all(_holds(value, target) for value in get_args(source))
    if get_origin(target) is Literal:
        return all(type(value) is source for value in get_args(target))
    if isinstance(source, NewType):
        return fits(source.__supertype__, target)
    return _class_fits(source, target)


def _holds(value: object, target: Any) -> bool:
    return value in get_args(target) if get_origin(target) is Literal else fits(type(value), target)


def _class_fits(source: Any, target: Any) -> bool:
    mine, theirs = get_origin(source) or source, get_origin(target) or target
    if not isinstance(mine, type) or not isinstance(theirs, type):
        return True
    if not _is_subclass(mine, theirs):
        return False
    inner, wanted = get_args(source), get_args(target)
    if len(inner) != len(wanted) or Ellipsis in inner or Ellipsis in wanted:
        return True
    return all(fits(one, other) for one, other in zip(inner, wanted, strict=True))


def _is_subclass(mine: type, theirs: type) -> bool:
    if mine is int and theirs is float:
        return True
    if mine is tuple and theirs is list:
        return True  # stored tuples are read back as lists
    try:
        return issubclass(mine, theirs)
    except TypeError:  # isinstance fails for protocols and typed dicts
        return True


def _plain(kind: Any) -> Any:
    """The type behind Annotated and aliases, with None replaced by its class."""
    kind = unwrapped(kind)
    return NoneType if kind is None else kind


def item_type(kind: Any) -> Any:
    """The X of list[X] and the like; None if a value of this type is certainly no list."""
    kind = _plain(kind)
    if get_origin(kind) in (Union, UnionType):
        found = [item_type(member) for member in get_args(kind)]
        return Any if any(each is not None for each in found) else None
    origin = get_origin(kind) or kind
    if origin is Any or not isinstance(origin, type):
        return Any
    if not _is_subclass(origin, Sequence) or issubclass(origin, str | bytes):
        return None
    arguments = get_args(kind)
    return arguments[0] if len(arguments) == 1 or (len(arguments) == 2 and arguments[1] is Ellipsis) else Any
