"""`horsies demo`: a shop with customers and failures, on a PostgreSQL of its own that is removed afterwards."""
