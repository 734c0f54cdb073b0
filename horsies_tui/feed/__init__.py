"""The console's reads of its database: connections, pace and freshness. No Textual, Rich or SQL."""
