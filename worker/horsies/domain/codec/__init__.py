"""Values, arguments and results as the JSON of the text columns, and back."""

from __future__ import annotations

from horsies.domain.codec.json_text import CodecError, CorruptJsonError, HydrationError, clean_text, parse_json, to_json
from horsies.domain.codec.read import Labelled, load_for_display
from horsies.domain.codec.results import (
    EXCEPTION_TYPE,
    dump_args,
    dump_kwargs,
    dump_task_error,
    dump_task_result,
    dump_value,
    load_args,
    load_kwargs,
    load_summary,
    load_task_error,
    load_task_result,
    load_value,
    storable_task_result,
    stored_traceback,
    with_retries_spent,
)

__all__ = [
    "EXCEPTION_TYPE",
    "CodecError",
    "CorruptJsonError",
    "HydrationError",
    "Labelled",
    "clean_text",
    "dump_args",
    "dump_kwargs",
    "dump_task_error",
    "dump_task_result",
    "dump_value",
    "load_args",
    "load_for_display",
    "load_kwargs",
    "load_summary",
    "load_task_error",
    "load_task_result",
    "load_value",
    "parse_json",
    "storable_task_result",
    "stored_traceback",
    "to_json",
    "with_retries_spent",
]
