"""Screenshots of every screen, from a demo shop at a fixed time: `python -m horsies_tui.shots` writes screenshots/."""
