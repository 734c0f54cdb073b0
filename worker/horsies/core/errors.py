"""Documented import path of the errors."""

from horsies.domain.errors import (
    ConfigurationError as ConfigurationError,
    ErrorCode as ErrorCode,
    HorsiesError as HorsiesError,
    MultipleValidationErrors as MultipleValidationErrors,
    RegistryError as RegistryError,
    SourceLocation as SourceLocation,
    TaskDefinitionError as TaskDefinitionError,
    ValidationReport as ValidationReport,
    WorkflowValidationError as WorkflowValidationError,
)
