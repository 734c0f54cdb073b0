"""SQLAlchemy on the database of horsies: an async engine for routes and async tasks, a sync one for the others."""

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from bookshop.jobs import app

async_engine = create_async_engine(app.database_url("asyncpg"), pool_pre_ping=True)
engine = create_engine(app.database_url("psycopg"), pool_pre_ping=True)

AsyncSessions = async_sessionmaker(async_engine, expire_on_commit=False)
Sessions = sessionmaker(engine, expire_on_commit=False)
