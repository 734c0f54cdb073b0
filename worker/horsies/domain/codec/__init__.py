"""Values, arguments and results as the JSON of the text columns, and back."""

from __future__ import annotations

from horsies.domain.codec.json_text import (
    CodecError as CodecError,
    CorruptJsonError as CorruptJsonError,
    HydrationError as HydrationError,
    clean_text as clean_text,
    parse_json as parse_json,
    to_json as to_json,
)
from horsies.domain.codec.read import Labelled as Labelled, load_for_display as load_for_display
from horsies.domain.codec.results import (
    EXCEPTION_TYPE as EXCEPTION_TYPE,
    dump_args as dump_args,
    dump_kwargs as dump_kwargs,
    dump_task_error as dump_task_error,
    dump_task_result as dump_task_result,
    dump_value as dump_value,
    load_args as load_args,
    load_kwargs as load_kwargs,
    load_summary as load_summary,
    load_task_error as load_task_error,
    load_task_result as load_task_result,
    load_value as load_value,
    storable_task_result as storable_task_result,
    stored_traceback as stored_traceback,
    with_retries_spent as with_retries_spent,
)
