"""The base of every configuration class: field ranges by pydantic, cross-field rules by us, all reported together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from horsies.domain.errors import ConfigurationError, ConfigurationErrors, HorsiesError, raise_collected

if TYPE_CHECKING:
    from collections.abc import Iterable


class CheckedModel(BaseModel):
    """An immutable model whose cross-field rules raise ConfigurationError.

    The rules run after pydantic, not inside one of its validators: there every ValueError is wrapped in pydantic's
    own error, which would hide the code, the notes and the help. A field out of its range stays pydantic's error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise_collected(_rules_broken_inside(error), ConfigurationErrors)
            raise
        raise_collected(self.broken_rules(), ConfigurationErrors)

    def broken_rules(self) -> Iterable[ConfigurationError]:
        """Each cross-field rule that these values break."""
        return ()


def _rules_broken_inside(error: ValidationError) -> list[HorsiesError]:
    """Our own errors of nested models given as dicts; empty when a plain field error is among them."""
    causes = [line.get("ctx", {}).get("error") for line in error.errors(include_input=False)]
    ours = [cause for cause in causes if isinstance(cause, HorsiesError)]
    return ours if len(ours) == len(causes) else []
