"""What a task registry takes, and what a context says."""

from __future__ import annotations

import functools
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.clock import monotonic_us
from mainspring.errors import InvalidInput
from mainspring.handlers import CancelFlag, Context, Isolation, RunFacts, Tasks
from mainspring.model import Trigger, format_job_id, format_run_id


async def on_loop(ctx: Context, payload: Any) -> None: ...
def in_thread(ctx: Context, payload: Any) -> None: ...


class Called:
    __module__ = __name__
    __qualname__ = "Called"

    async def __call__(self, ctx: Context, payload: Any) -> None: ...


def test_the_kind_of_function_decides_where_it_runs() -> None:
    """Async on the loop, plain in a thread, also behind partials and objects; or in a process."""
    tasks = Tasks()
    tasks.task("a")(on_loop)
    tasks.task("b")(in_thread)
    tasks.task("c", isolation="process")(in_thread)
    tasks.task("d", isolation="process")(on_loop)
    tasks.task("e")(functools.partial(on_loop))
    tasks.task("f")(Called())
    tasks.task("g", isolation="thread")(in_thread)
    found = {name: tasks.get(name) for name in tasks.names}

    assert {name: (task.isolation, task.is_async) for name, task in found.items() if task} == {
        "a": (Isolation.LOOP, True),
        "b": (Isolation.THREAD, False),
        "c": (Isolation.PROCESS, False),
        "d": (Isolation.PROCESS, True),
        "e": (Isolation.LOOP, True),
        "f": (Isolation.LOOP, True),
        "g": (Isolation.THREAD, False),
    }
    assert tasks.get("a").target == f"{__name__}:on_loop"  # type: ignore[union-attr]


def test_a_function_is_named_after_itself_and_stays_as_it_is() -> None:
    """The decorator returns the very function; names come sorted; an unknown one is None."""
    tasks = Tasks()

    assert tasks.task()(in_thread) is in_thread
    assert tasks.task()(on_loop) is on_loop
    assert tasks.names == ("in_thread", "on_loop")
    assert tasks.get("absent") is None


def test_a_name_is_taken_once() -> None:
    """The second registration is refused and names the first."""
    tasks = Tasks()
    tasks.task("x")(in_thread)
    with pytest.raises(InvalidInput, match="registered twice") as raised:
        tasks.task("x")(on_loop)

    assert raised.value.detail == f"The first is {__name__}:in_thread."
    assert tasks.get("x").handler is in_thread  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "handler",
    [
        lambda: None,
        lambda ctx: None,
        lambda ctx, payload, more: None,
        lambda ctx, *, payload: None,
    ],
)
def test_a_handler_takes_two_arguments(handler: Any) -> None:
    """Anything else is refused at registration, not at the first run."""
    with pytest.raises(InvalidInput, match="does not take"):
        Tasks().task("x")(handler)


@pytest.mark.parametrize(
    "handler",
    [
        lambda ctx, payload: None,
        lambda ctx, payload, more=1: None,
        lambda *both: None,
        lambda ctx, payload, **more: None,
    ],
)
def test_two_arguments_by_position_are_enough(handler: Any) -> None:
    """Defaults and stars are fine."""
    Tasks().task("x")(handler)


def generator(ctx: Context, payload: Any) -> Any:
    yield 1


async def async_generator(ctx: Context, payload: Any) -> Any:
    yield 1


@pytest.mark.parametrize("handler", [generator, async_generator])
def test_generators_are_refused(handler: Any) -> None:
    """They would never run."""
    with pytest.raises(InvalidInput, match="is a generator"):
        Tasks().task("x")(handler)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "a\0b", "\ud800"])
def test_unusable_names_are_refused(name: str) -> None:
    """Names have 1 to 255 printable characters."""
    with pytest.raises(InvalidInput, match="bad task name"):
        Tasks().task(name)(in_thread)


def test_a_forgotten_pair_of_brackets_is_told() -> None:
    """`@tasks.task` instead of `@tasks.task()` is an error at once, with the right spelling."""
    with pytest.raises(InvalidInput) as raised:
        Tasks().task(in_thread)  # type: ignore[arg-type]

    assert "with brackets" in str(raised.value.hint)
    assert "worker" not in str(raised.value.hint), "it may be an engine's"


@pytest.mark.parametrize(
    ("handler", "isolation", "text"),
    [
        (on_loop, "thread", "cannot run in a thread"),
        (in_thread, "container", "bad isolation"),
        (lambda ctx, payload: None, "process", "cannot import"),
        (functools.partial(in_thread), "process", "cannot import"),
        (5, "auto", "not a function"),
    ],
)
def test_what_cannot_run_where_it_should_is_refused(
    handler: Any, isolation: Any, text: str
) -> None:
    """At registration, with the reason."""
    with pytest.raises(InvalidInput, match=text):
        Tasks().task("x", isolation=isolation)(handler)


FACTS = RunFacts(
    firing_id=9,
    fence=4,
    job=7,
    scheduled_us=1_780_923_600_000_000,
    attempt=2,
    task="t",
    queue="q",
    idempotency_key="k",
    catch_up=True,
    trigger=Trigger.MANUAL,
)


def test_a_context_says_what_its_facts_are_in_the_users_words() -> None:
    """Ids as text, instants as aware datetimes in UTC."""
    ctx = Context(FACTS)

    assert (ctx.run_id, ctx.job_id) == (format_run_id(9, 4), format_job_id(7))
    assert ctx.scheduled_at == datetime(2026, 6, 8, 13, tzinfo=UTC)
    assert ctx.scheduled_at.utcoffset() == UTC.utcoffset(None)
    assert (ctx.attempt, ctx.catch_up, ctx.fence) == (2, True, 4)
    assert (ctx.idempotency_key, ctx.task, ctx.queue) == ("k", "t", "q")
    assert ctx.trigger is Trigger.MANUAL


def test_remaining_time_counts_down_to_zero() -> None:
    """And never below it."""
    ctx = Context(FACTS, monotonic_us() + 5_000_000)

    assert 4 < ctx.remaining_seconds() <= 5
    ctx.deadline_us = monotonic_us() - 1
    assert ctx.remaining_seconds() == 0


def test_a_cancel_flag_is_seen_and_waited_for() -> None:
    """False until set; a wait returns whether it was; a waiting thread is woken."""
    flag = CancelFlag()

    assert not flag
    assert not flag.wait(0)
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(flag.wait(10)))
    thread.start()
    flag.set()
    thread.join()

    assert (woken, bool(flag), flag.is_set(), flag.wait(0)) == ([True], True, True, True)


def test_a_flag_that_was_set_first_ends_a_wait_at_once() -> None:
    """Whichever of the two comes first."""
    flag = CancelFlag()
    flag.set()

    assert flag.wait(10)
