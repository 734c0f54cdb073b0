"""How the console reads its database: connections, pace and freshness. No Textual, Rich or SQL."""
