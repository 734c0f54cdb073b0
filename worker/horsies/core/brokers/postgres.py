"""Documented import path of the broker."""

from horsies.broker import PostgresBroker as PostgresBroker
