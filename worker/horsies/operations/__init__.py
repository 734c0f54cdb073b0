"""Operator actions: preview, guarded change, audit row, undo."""
