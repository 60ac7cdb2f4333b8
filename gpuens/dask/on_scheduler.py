"""Questions of a training to Dask's scheduler: which workers are silent or stopped; and the order
to forget one.

These functions run in the process of the scheduler.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import distributed
import psutil
from distributed.protocol.pickle import dumps

READING = 0.05
"""Seconds in which the scheduler reads the messages that have come."""
LEAVING = 1.0
"""Seconds in which a worker that can still answer has begun to stop."""
ASKING = 1.0
"""Seconds in which a nanny says what has become of its worker."""
RESTARTING = 60.0
"""Seconds in which a nanny may end its worker."""


async def silence(dask_scheduler: Any, limit: float = 0.0) -> dict[str, float]:
    """Return for how many seconds the scheduler has not heard of each worker. Unless it has heard
    of all within ``limit`` seconds, it reads first what has come, as it may have been held up."""
    found = _silence(dask_scheduler)
    if max(found.values(), default=limit) < limit:
        return found
    await asyncio.sleep(READING)
    return _silence(dask_scheduler)


def _silence(dask_scheduler: Any) -> dict[str, float]:
    now = time.time()
    return {address: now - each.last_seen for address, each in dask_scheduler.workers.items()}


async def has_stopped(dask_scheduler: Any, address: str) -> bool:
    """Ask the nanny of a worker whether its process does not run."""
    worker = dask_scheduler.workers.get(address)
    if worker is None or not worker.nanny:
        return False

    def is_halted(dask_worker: Any) -> bool:  # inside, so that the nanny need not import gpuens
        try:
            state = psutil.Process(dask_worker.pid).status()
        except psutil.NoSuchProcess:
            return True
        return state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)

    try:
        async with distributed.rpc(
            worker.nanny, connection_args=dask_scheduler.connection_args
        ) as nanny:
            asked = nanny.run(function=dumps(is_halted), args=dumps(()), kwargs=dumps({}))
            answer = await asyncio.wait_for(asked, ASKING)
    except (OSError, TimeoutError):
        return False
    return answer["status"] == "OK" and bool(answer["result"])


_restarts: set[asyncio.Task[None]] = set()


async def remove(dask_scheduler: Any, address: str) -> None:
    """Forget a worker, and have its nanny start another one in its place.

    A worker that answers again, and learns that it was forgotten, would end together with its
    nanny: it is told to stop before.
    """
    worker = dask_scheduler.workers.get(address)
    if worker is not None and worker.nanny:
        restart = asyncio.create_task(_restart(worker.nanny, dask_scheduler.connection_args))
        _restarts.add(restart)
        restart.add_done_callback(_restarts.discard)
        await asyncio.wait({restart}, timeout=LEAVING)
    await dask_scheduler.remove_worker(address, stimulus_id="gpuens-silent", close=False)


async def _restart(nanny: str, connection_args: dict[str, Any]) -> None:
    """Ask a nanny to end its worker, which it replaces; its machine may be gone."""
    with suppress(OSError, TimeoutError):
        async with distributed.rpc(nanny, connection_args=connection_args) as connection:
            await asyncio.wait_for(connection.kill(reason="gpuens-silent"), RESTARTING)
