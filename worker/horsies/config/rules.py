"""The base of every configuration class: all broken rules, of fields and between them, are reported together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from horsies.domain.errors import (
    ConfigurationError,
    ConfigurationErrors,
    ErrorCode,
    HorsiesError,
    calling_place,
    raise_collected,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.domain.errors import SourceLocation


class CheckedModel(BaseModel):
    """An immutable model whose cross-field rules raise ConfigurationError.

    The rules run after pydantic, not inside one of its validators: there every ValueError is wrapped in pydantic's
    own error, which would hide the code, the notes and the help. A field out of its range stays pydantic's error,
    unless rules are broken besides: then all are reported together.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    rules_stand_alone: ClassVar[bool] = False
    """Whether the rules can be reported together with a field error without repeating it."""

    __slots__ = ("_place",)  # no field: two configurations are equal wherever they stand

    def __init__(self, **data: Any) -> None:
        refused, place = None, calling_place()
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise_collected(_located(_rules_broken_inside(error), place), ConfigurationErrors)
            if self.rules_stand_alone and (rules := _rules_broken_too(type(self), data, error)):
                lines = error.errors(include_url=False, include_input=False)
                fields = [ConfigurationError(f"{'.'.join(map(str, line['loc']))}: {line['msg']}") for line in lines]
                raise_collected(_located([*fields, *rules], place), ConfigurationErrors)
            refused = _without_inputs(error)
        if refused is not None:  # outside the except block, so that the error with the inputs is not its context
            raise refused
        raise_collected(_located(self.broken_rules(), place), ConfigurationErrors)
        object.__setattr__(self, "_place", place)

    def defined_at(self) -> SourceLocation | None:
        """Return where the user made it; None for a copy."""
        return getattr(self, "_place", None)

    def __setattr__(self, name: str, value: Any) -> None:
        refused = None
        try:
            super().__setattr__(name, value)
        except ValidationError as error:  # for frozen fields it prints the input, despite hide_input_in_errors
            refused = _without_inputs(error)
        if refused is not None:
            raise refused

    def broken_rules(self) -> Iterable[ConfigurationError]:
        """Yield an error for each cross-field rule that these values break."""
        return ()


def _located(errors: Iterable[HorsiesError], place: SourceLocation | None) -> Iterable[HorsiesError]:
    """Set the place; errors of a nested model that was given as a dict have one already."""
    return [error.with_location(error.location or place) for error in errors]


def broken(code: ErrorCode, message: str, help_text: str, *notes: str) -> ConfigurationError:
    return ConfigurationError(message, code=code, notes=notes, help_text=help_text)


def in_child_process() -> bool:
    """Return whether this is a child process of a worker, which has logged everything about the configuration."""
    return os.environ.get("HORSIES_CHILD_PROCESS") == "1"


def _rules_broken_inside(error: ValidationError) -> list[HorsiesError]:
    """Return our own errors of nested models given as dicts; empty if a plain field error is among them."""
    causes = [line.get("ctx", {}).get("error") for line in error.errors(include_input=False)]
    ours = [cause for cause in causes if isinstance(cause, HorsiesError)]
    return ours if len(ours) == len(causes) else []


def _rules_broken_too(
    model: type[CheckedModel], data: dict[str, Any], error: ValidationError
) -> list[ConfigurationError]:
    """Return the cross-field rules that are broken besides, of other fields, as far as they can be checked."""
    wrong = [str(line["loc"][0]) for line in error.errors(include_url=False, include_input=False) if line["loc"]]
    try:
        rules = list(model.model_construct(**data).broken_rules())
    except (TypeError, AttributeError, ValueError):
        return []
    return [rule for rule in rules if not any(field in rule.message for field in wrong)]


def _without_inputs(error: ValidationError) -> ValidationError:
    """Remove the inputs from errors() and json(): one of them may be a password."""
    lines = [
        # Braces in a message are only filled in if there is a context, so none can go wrong.
        InitErrorDetails(type=PydanticCustomError(line["type"], line["msg"]), loc=line["loc"], input=None)
        for line in error.errors(include_url=False, include_input=False)
    ]
    return ValidationError.from_exception_data(error.title, lines, hide_input=True)
