"""Presentation without widgets: signs, units, times, cells, tones and themes."""
