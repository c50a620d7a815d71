"""Threads that carry out the leaders' requests on the store.

A request runs as a procedure of the core with the store put in; what it raises becomes `Failed`,
except what is a bug of ours, which ends the process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from mainspring.core.carrying import carry_out
from mainspring.core.completion import Chance
from mainspring.core.preparation import Leadership, Recipe
from mainspring.core.requests import Answer, Failed, Request
from mainspring.errors import MainspringError
from mainspring.scheduler.events import Answered
from mainspring.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Assignment:
    """A request of one term."""

    who: Leadership
    request: Request


class Claimers:
    """A few threads over one thread-safe store."""

    def __init__(
        self,
        store: Store,
        recipe: Recipe,
        chance: Chance,
        *,
        threads: int,
        tell: Callable[[Answered], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._recipe = recipe
        self._chance = chance
        self._tell = tell
        self._on_bug = on_bug
        self._assigned: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"claimer-{i}", daemon=True)
            for i in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, who: Leadership, request: Request) -> None:
        """Have a request carried out; its answer is told once."""
        self._assigned.put(Assignment(who, request))

    def stop(self) -> None:
        """Finish what is under way, pass over what is not, and end the threads."""
        self._is_stopping = True
        for _ in self._threads:
            self._assigned.put(None)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self) -> None:
        while (assigned := self._assigned.get()) is not None:
            if self._is_stopping:
                continue  # nothing was leased for it, and a silent store takes seconds for each
            try:
                answer: Answer = carry_out(
                    self._store, assigned.who, assigned.request, self._recipe, self._chance
                )
            except MainspringError as error:
                answer = Failed(error)
            except BaseException as error:  # noqa: BLE001  handed to the loop, which ends with it
                self._on_bug(error)
                return
            self._tell(Answered(assigned.who.shard, assigned.who.term, answer))
