"""Pictures of every screen, from a shop whose time stands still: `python -m horsies_tui.shots` writes screenshots/."""
