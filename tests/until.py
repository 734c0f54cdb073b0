"""Waits until an SQL condition holds, polling inside the database."""

from __future__ import annotations

import asyncpg

PRODUCERS = "FROM pg_stat_activity WHERE application_name = 'horsies producer' AND datname = current_database()"
LISTENERS = "FROM pg_stat_activity WHERE application_name = 'horsies listener' AND datname = current_database()"


async def until(connection: asyncpg.Connection, condition: str) -> None:
    """Return when the SQL condition holds; an error after ten seconds."""
    await connection.execute(
        f"""DO $$ BEGIN
            FOR attempt IN 1..10000 LOOP
                IF {condition} THEN RETURN; END IF;
                PERFORM pg_sleep(0.001);
                PERFORM pg_stat_clear_snapshot();
            END LOOP;
            RAISE EXCEPTION 'this has not come true';
        END $$"""
    )


async def until_listening(connection: asyncpg.Connection) -> None:
    """Wait until a broker's listener has probed itself; from then on waits poll only every five seconds."""
    await until(connection, f"EXISTS (SELECT {LISTENERS} AND query LIKE '%pg_notify%' AND state = 'idle')")
