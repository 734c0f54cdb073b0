import asyncio, time, asyncpg, pytest
from pty_console import PtyConsole
from test_million import TRAFFIC
@pytest.mark.soak
async def test_slope(database, quiet):
    connection = await asyncpg.connect(database)
    traffic = asyncio.create_task(connection.execute(TRAFFIC))
    for name, keys in {"nothing":[], "move":["j","\x1b[6~","g"], "detail":["\r","\x1b"], "tabs":["5","2"], "menu":["e","\x1b"], "group":["e","n","\x1b"], "follow":["j","f"]}.items():
        with PtyConsole(quiet) as console:
            await asyncio.to_thread(console.until_ready)
            out=[]
            until=time.monotonic()+50; nxt=time.monotonic()+10; n=0
            while time.monotonic()<until:
                for k in keys or [""]:
                    if k: console.type(k); n+=1
                    await asyncio.to_thread(console.pass_time,0.1)
                if time.monotonic()>nxt: out.append(round(console.memory_mb,1)); nxt+=10
            print(name, n, out, flush=True)
    traffic.cancel()
    await asyncio.wait([traffic]); await connection.close()
