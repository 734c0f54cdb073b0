"""A shop on FastAPI and SQLAlchemy, written from README.md and docs/ alone, as one who adopts horsies would."""
