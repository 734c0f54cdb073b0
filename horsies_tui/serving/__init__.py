"""The console in a browser: `horsies tui --serve`. Each tab is a process of its own, connected by a websocket."""
