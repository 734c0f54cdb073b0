"""The peer of the drain bench: enqueues N no-op jobs, runs them, and prints the measurements as JSON.

Run as `python peer_procrastinate.py URL N CONCURRENCY`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import procrastinate
import psycopg

url, count, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


@app.task(name="nothing")
async def nothing() -> None:
    pass


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began = time.perf_counter()
        for _ in range(500):
            await nothing.defer_async()
        single = 500 / (time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(10):
            await nothing.batch_defer_async(*({} for _ in range(1000)))
        bulk = 10_000 / (time.perf_counter() - began)
        await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
        await nothing.batch_defer_async(*({} for _ in range(count)))
        # Without fresh statistics its plans cost it more than half: 620/s instead of 1,630/s.
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("VACUUM ANALYZE")
        cpu = time.process_time()
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
        cpu = time.process_time() - cpu
        row = await app.connector.execute_query_one_async(
            "SELECT extract(epoch FROM max(at) - min(at))::float AS seconds FROM procrastinate_events"
            " WHERE type IN ('started', 'succeeded')"
        )
    print(json.dumps({"drain": count / row["seconds"], "cpu_s": cpu * 1000 / count, "single": single, "bulk": bulk}))


asyncio.run(main())
