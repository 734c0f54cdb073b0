"""`horsies demo`: a shop with customers and mishaps, on a PostgreSQL of its own that is gone afterwards."""
