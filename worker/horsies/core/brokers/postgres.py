"""Documented import path of the broker."""

from horsies.broker import PostgresBroker

__all__ = ["PostgresBroker"]
