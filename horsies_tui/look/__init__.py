"""How things look, without a widget: signs, units, moments, cells, tones and themes."""
