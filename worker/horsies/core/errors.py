"""Documented import path of the errors."""

from horsies.domain.errors import (
    ConfigurationError,
    ErrorCode,
    HorsiesError,
    MultipleValidationErrors,
    RegistryError,
    SourceLocation,
    TaskDefinitionError,
    ValidationReport,
    WorkflowValidationError,
)

__all__ = [
    "ConfigurationError",
    "ErrorCode",
    "HorsiesError",
    "MultipleValidationErrors",
    "RegistryError",
    "SourceLocation",
    "TaskDefinitionError",
    "ValidationReport",
    "WorkflowValidationError",
]
