"""How the console reads its database: connections, pace and freshness. Without textual, rich or SQL."""
