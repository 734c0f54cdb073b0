"""How things are displayed, without widgets: signs, units, times, cells, tones and themes."""
