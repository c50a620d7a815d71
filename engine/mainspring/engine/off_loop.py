"""Runs a blocking call off the event loop and sees it through, also when its caller is cancelled.

Not `asyncio.to_thread`: that abandons the call when it is cancelled, and it takes a thread of the
host's own executor, which the host may have filled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress


async def see_through(function: Callable[[], None], name: str) -> None:
    """Run a call in a thread of its own and return at its end; raise what it raises.

    A cancellation waits for that end, too, and is raised then.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        outcome: BaseException | None = None
        try:
            function()
        except BaseException as error:  # noqa: BLE001  raised again on the loop
            outcome = error
        with suppress(RuntimeError):  # the loop did not wait
            loop.call_soon_threadsafe(settle, outcome)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    cancelled: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            cancelled = error
    thread.join()  # its last words are said
    if cancelled is None:
        ended.result()
        return
    raised = ended.exception()
    if raised is not None:
        cancelled.add_note(f"mainspring: {raised}")
    raise cancelled
