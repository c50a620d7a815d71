"""Handlers of every kind and temper, on a real loop, in real threads and in real processes."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.clock import monotonic_s
from mainspring.errors import Dead, Retry
from mainspring.executor import Executor
from mainspring.handlers import Context, Outcome, OutcomeKind, RunFacts, Tasks
from processes.isolated_tasks import tasks as isolated

SUCCESS, FAILED = OutcomeKind.SUCCESS, OutcomeKind.FAILED
GRACE_S = 0.2

tasks = Tasks()
for _name in isolated.names:
    _task = isolated.get(_name)
    assert _task is not None
    tasks.task(_name, isolation="process")(_task.handler)

release = threading.Event()
begun = threading.Semaphore(0)
variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
kept: list[Any] = []


def facts(task: str) -> RunFacts:
    return RunFacts(
        firing_id=9,
        fence=4,
        job=7,
        scheduled_us=1_780_923_600_000_000,
        attempt=1,
        task=task,
        queue="q",
        idempotency_key="k",
    )


class Ran:
    """An executor, and every end it reported."""

    def __init__(self, concurrency: int = 4, **options: Any) -> None:
        self.ends: list[tuple[int, Outcome]] = []
        self._key = 0
        self._ended = threading.Condition()
        self.executor = Executor(
            tasks, concurrency=concurrency, on_end=self._end, grace_s=GRACE_S, **options
        )
        self.executor.start()

    def _end(self, key: int, outcome: Outcome) -> None:
        with self._ended:
            self.ends.append((key, outcome))
            self._ended.notify_all()

    def submit(self, task: str, payload: Any = None, timeout_s: float = 30.0) -> int:
        self._key += 1
        data = json.dumps(payload).encode()
        self.executor.submit(self._key, task, Context(facts(task)), data, timeout_s)
        return self._key

    def outcome(self, key: int, seconds: float = 20.0) -> Outcome:
        """Wait for the end of a run."""
        with self._ended:
            assert self._ended.wait_for(lambda: key in dict(self.ends), seconds), "no end came"
            return dict(self.ends)[key]

    def run(self, task: str, payload: Any = None, timeout_s: float = 30.0) -> Outcome:
        return self.outcome(self.submit(task, payload, timeout_s))


def until(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    end_s = monotonic_s() + seconds
    pause = threading.Event()
    while not is_so():
        assert monotonic_s() < end_s, "it did not come about in time"
        pause.wait(0.005)


@pytest.fixture
def ran() -> Iterator[Ran]:
    made = Ran(children_max=1)
    release.clear()
    kept.clear()
    yield made
    release.set()
    made.executor.stop(5)
    keys = [key for key, _ in made.ends]
    assert sorted(keys) == list(range(1, made._key + 1)), "each run ends exactly once"
    until(lambda: made.executor.stuck_count == 0)
    while begun.acquire(blocking=False):
        pass


@tasks.task()
async def echo(ctx: Context, payload: Any) -> Any:
    return payload


@tasks.task()
async def echo_late(ctx: Context, payload: Any) -> Any:
    await asyncio.sleep(0.001)
    return payload


@tasks.task()
def echo_thread(ctx: Context, payload: Any) -> Any:
    return payload


ECHOES = ("echo", "echo_late", "echo_thread")


def raised(payload: str) -> Any:
    match payload:
        case "value":
            raise ValueError("bad")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "generator":
            raise GeneratorExit
        case "base":
            raise BaseException("base")  # noqa: TRY002
        case "cancelled":
            raise asyncio.CancelledError
        case "stop":
            raise StopIteration
        case "retry":
            raise Retry("later", after_seconds=7)
        case "dead":
            raise Dead("never")


@tasks.task()
async def fail(ctx: Context, payload: Any) -> Any:
    return raised(payload)


@tasks.task()
async def fail_late(ctx: Context, payload: Any) -> Any:
    await asyncio.sleep(0)
    return raised(payload)


@tasks.task()
def fail_thread(ctx: Context, payload: Any) -> Any:
    return raised(payload)


FAILS = ("fail", "fail_late", "fail_thread")


@pytest.mark.parametrize("task", [*ECHOES, "describe_async"])
def test_a_return_value_is_the_output(ran: Ran, task: str) -> None:
    """As JSON text, for every kind of handler."""
    output = ran.run(task, {"a": [1, "é"]}).output

    assert output is not None
    assert json.loads(output) == {"a": [1, "é"]} or json.loads(output)["payload"] == {"a": [1, "é"]}


@pytest.mark.parametrize("task", ECHOES)
def test_null_gives_no_output(ran: Ran, task: str) -> None:
    """None is a success without output."""
    assert ran.run(task) == Outcome(SUCCESS)


@pytest.mark.parametrize("task", FAILS)
@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("value", "ValueError: bad"),
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("generator", "GeneratorExit"),
        ("base", "BaseException: base"),
        ("cancelled", "CancelledError"),
        ("stop", "StopIteration"),
    ],
)
def test_whatever_is_raised_is_a_failure(ran: Ran, task: str, payload: str, text: str) -> None:
    """And the next run of the same kind is served as if nothing had been."""
    outcome = ran.run(task, payload)

    assert outcome.kind is FAILED
    assert text in str(outcome.error)
    assert ran.run(task) == Outcome(SUCCESS)
    assert ran.executor.stuck_count == 0


@pytest.mark.parametrize("task", [*FAILS, "end"])
def test_retry_and_dead_choose_what_follows(ran: Ran, task: str) -> None:
    """From every kind of handler, across the pipe of a child too."""
    assert ran.run(task, "retry") == Outcome(OutcomeKind.RETRY, "later", None, 7.0)
    assert ran.run(task, "dead") == Outcome(OutcomeKind.DEAD, "never")


def test_an_unknown_task_fails_with_its_name(ran: Ran) -> None:
    """At once, as an outcome and not as an exception."""
    outcome = ran.run("absent")

    assert outcome == Outcome(FAILED, "no handler is registered for task 'absent'")


@pytest.mark.parametrize("task", [*ECHOES, "describe"])
def test_a_payload_that_is_no_json_fails_the_run(ran: Ran, task: str) -> None:
    """It can only be our own mistake, and still is an outcome."""
    ran._key += 1
    ran.executor.submit(ran._key, task, Context(facts(task)), b"{", 30)

    assert "DecodeError" in str(ran.outcome(ran._key).error)


def test_a_key_in_flight_is_refused(ran: Ran) -> None:
    """A second submit under it is a bug of the caller's."""
    key = ran.submit("wait_on_loop")
    with pytest.raises(ValueError, match="in flight already"):
        ran.executor.submit(key, "echo", Context(facts("echo")), b"null", 1)
    release.set()
    ran.outcome(key)


@tasks.task()
async def wait_on_loop(ctx: Context, payload: Any) -> Any:
    begun.release()
    while not release.is_set():
        await asyncio.sleep(0.005)
    return "released"


@tasks.task()
async def swallow(ctx: Context, payload: Any) -> Any:
    """Pays no attention to cancels."""
    begun.release()
    while not release.is_set():
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            continue
    return "late"


@tasks.task()
async def block_loop(ctx: Context, payload: Any) -> Any:
    begun.release()
    release.wait(30)
    return "late"


@tasks.task()
def block_thread(ctx: Context, payload: Any) -> Any:
    begun.release()
    release.wait(30)
    return "late"


@tasks.task()
def obey(ctx: Context, payload: Any) -> Any:
    begun.release()
    return "asked to stop" if ctx.cancelled.wait(30) else "not asked"


def test_a_coroutine_is_cancelled_at_its_time_out(ran: Ran) -> None:
    """It fails as timed out, nothing is stuck, and its slot serves the next run."""
    outcome = ran.run("wait_on_loop", timeout_s=0.1)

    assert outcome == Outcome(FAILED, "timed out after 0.1 s")
    assert ran.executor.stuck_count == 0
    assert ran.run("echo_late") == Outcome(SUCCESS)


@pytest.mark.parametrize("task", ["swallow", "block_loop"])
def test_a_coroutine_that_cannot_be_cancelled_is_given_up(ran: Ran, task: str) -> None:
    """After the grace it has failed and its slot is stuck, until the handler ends by itself."""
    begun_s = monotonic_s()
    outcome = ran.run(task, timeout_s=0.1)
    took_s = monotonic_s() - begun_s

    assert outcome.kind is FAILED
    assert str(outcome.error).startswith("timed out after 0.1 s; its handler could not be stopped")
    assert took_s >= 0.1 + GRACE_S
    assert ran.executor.stuck_count == 1
    release.set()
    until(lambda: ran.executor.stuck_count == 0)
    assert ran.run("echo") == Outcome(SUCCESS)


def test_a_thread_is_given_up_at_its_time_out(ran: Ran) -> None:
    """Without a grace; others run on; its slot comes back when it ends."""
    outcome = ran.run("block_thread", timeout_s=0.1)

    assert str(outcome.error).startswith("timed out after 0.1 s; its handler could not be stopped")
    assert ran.executor.stuck_count == 1
    assert ran.run("echo_thread") == Outcome(SUCCESS)
    release.set()
    until(lambda: ran.executor.stuck_count == 0)


def test_the_flag_is_set_at_the_time_out(ran: Ran) -> None:
    """So that a thread which looks at it can end; its run has failed all the same."""
    outcome = ran.run("obey", timeout_s=0.1)

    assert outcome.kind is FAILED
    until(lambda: ran.executor.stuck_count == 0)


@pytest.mark.parametrize(
    ("task", "next_task"), [("block_thread", "echo_thread"), ("swallow", "echo")]
)
def test_a_run_that_waits_too_long_for_a_slot_times_out(
    ran: Ran, task: str, next_task: str
) -> None:
    """With all slots stuck it says so, and it never begins."""
    stuck = [ran.submit(task, timeout_s=0.1) for _ in range(4)]
    waiting = ran.submit(next_task, "never", timeout_s=0.6)
    for key in stuck:
        ran.outcome(key)
    outcome = ran.outcome(waiting)

    assert outcome == Outcome(
        FAILED, "timed out after 0.6 s while it waited for a free slot (4 stuck)"
    )
    release.set()
    assert ran.run(next_task, 1) == Outcome(SUCCESS, output="1")


@pytest.mark.parametrize("task", ["wait_on_loop", "block_thread"])
def test_no_more_than_the_concurrency_run_at_a_time(ran: Ran, task: str) -> None:
    """Four begin; the others follow as slots come free, and all end."""
    keys = [ran.submit(task) for _ in range(12)]
    for _ in range(4):
        assert begun.acquire(timeout=10)

    assert not begun.acquire(timeout=0.1)
    release.set()
    for key in keys:
        assert ran.outcome(key).kind is SUCCESS


def test_a_cancelled_coroutine_fails_with_the_reason(ran: Ran) -> None:
    """Within the grace, and nothing is stuck."""
    key = ran.submit("wait_on_loop")
    assert begun.acquire(timeout=10)

    assert ran.executor.cancel(key, "cancelled by the user")
    assert ran.outcome(key) == Outcome(FAILED, "cancelled by the user")
    assert not ran.executor.cancel(key)
    assert ran.executor.stuck_count == 0


def test_a_cancelled_thread_that_obeys_keeps_its_outcome(ran: Ran) -> None:
    """What it did is done, so its success counts."""
    key = ran.submit("obey")
    assert begun.acquire(timeout=10)
    ran.executor.cancel(key)

    assert ran.outcome(key) == Outcome(SUCCESS, output='"asked to stop"')


def test_a_cancelled_run_that_waits_ends_at_once(ran: Ran) -> None:
    """And never begins."""
    keys = [ran.submit("block_thread") for _ in range(4)]
    waiting = ran.submit("echo_thread", "never")
    ran.executor.cancel(waiting)

    assert str(ran.outcome(waiting).error).startswith("cancelled while it waited")
    release.set()
    assert [ran.outcome(key).kind for key in keys] == [SUCCESS] * 4


def test_cancel_all_asks_each_run_once(ran: Ran) -> None:
    """The count is of those that had not been asked yet."""
    keys = [ran.submit("wait_on_loop") for _ in range(3)]
    for _ in keys:
        assert begun.acquire(timeout=10)
    ran.executor.cancel(keys[0])
    ran.outcome(keys[0])

    assert ran.executor.cancel_all() == 2
    assert [ran.outcome(key).kind for key in keys] == [FAILED] * 3
    assert ran.executor.cancel_all() == 0


@tasks.task()
async def meddle(ctx: Context, payload: Any) -> Any:
    """Cancels its own task in ways that must not reach the next run."""
    task = asyncio.current_task()
    assert task is not None
    if payload == "later":
        asyncio.get_running_loop().call_later(0.02, task.cancel)
    else:
        task.cancel()
    if payload == "await":
        await asyncio.sleep(1)
    return "done"


@pytest.mark.parametrize("payload", ["now", "await"])
def test_a_handlers_cancel_of_its_own_task_ends_with_it(ran: Ran, payload: str) -> None:
    """Taken up by an await or not, it does not reach the runs after it."""
    ran.run("meddle", payload)
    keys = [ran.submit("echo_late", number) for number in range(50)]

    assert [ran.outcome(key).kind for key in keys] == [SUCCESS] * 50


def test_a_cancel_that_comes_after_its_run_costs_one_other_at_most(ran: Ran) -> None:
    """The runner lives on, idle or busy."""
    for wait_s in (0, 0.05):
        ran.run("meddle", "later")
        threading.Event().wait(wait_s)
        keys = [ran.submit("echo_late", number) for number in range(50)]
        assert [ran.outcome(key).kind for key in keys].count(FAILED) <= 1
    until(lambda: ran.executor.in_flight_count == 0)
    keys = [ran.submit("wait_on_loop") for _ in range(4)]
    for _ in keys:
        assert begun.acquire(timeout=10), "a runner was lost"
    release.set()
    assert [ran.outcome(key).kind for key in keys] == [SUCCESS] * 4


@tasks.task()
async def structured(ctx: Context, payload: Any) -> Any:
    """Uses what needs a task of its own."""
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        pass
    async with asyncio.TaskGroup() as group:
        one = group.create_task(asyncio.sleep(0.001, 1))
        two = group.create_task(asyncio.sleep(0.001, 2))
    return one.result() + two.result()


def test_timeouts_and_task_groups_work_in_a_handler(ran: Ran) -> None:
    """As in any task."""
    keys = [ran.submit("structured") for _ in range(20)]

    assert {ran.outcome(key).output for key in keys} == {"3"}


@tasks.task()
async def leak(ctx: Context, payload: Any) -> Any:
    seen = variable.get()
    variable.set(seen + 1)
    await asyncio.sleep(0)
    assert variable.get() == seen + 1
    return seen


@tasks.task()
def leak_thread(ctx: Context, payload: Any) -> Any:
    seen = variable.get()
    variable.set(seen + 1)
    return seen


@pytest.mark.parametrize("task", ["leak", "leak_thread"])
def test_context_variables_do_not_leak_into_the_next_run(ran: Ran, task: str) -> None:
    """Each run starts from a fresh copy and keeps its own across awaits."""
    assert [ran.run(task).output for _ in range(10)] == ["0"] * 10


@tasks.task()
async def exit_from_a_task(ctx: Context, payload: Any) -> Any:
    async def leave() -> None:
        sys.exit(3)

    asyncio.get_running_loop().create_task(leave())
    await asyncio.sleep(0.01)
    return "still here"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_system_exit_in_a_task_of_a_handler_does_not_end_the_loop(ran: Ran) -> None:
    """Asyncio lets it through to the loop; the others run on."""
    assert ran.run("exit_from_a_task").output == '"still here"'
    assert ran.run("echo_late") == Outcome(SUCCESS)


@tasks.task()
async def inner_cancel(ctx: Context, payload: Any) -> Any:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def test_a_cancelled_future_is_a_failure_like_any_other(ran: Ran) -> None:
    """Nobody cancelled the run itself."""
    assert "CancelledError" in str(ran.run("inner_cancel").error)
    assert ran.run("echo") == Outcome(SUCCESS)


@tasks.task()
def forgot_async(ctx: Context, payload: Any) -> Any:
    return echo(ctx, payload)


def test_a_plain_handler_that_returns_a_coroutine_fails(ran: Ran) -> None:
    """It would never run, so silence would be a lie."""
    assert "write it as async def" in str(ran.run("forgot_async").error)


@tasks.task()
async def large(ctx: Context, payload: Any) -> Any:
    return "x" * 10_000_000


def test_a_large_output_is_cut(ran: Ran) -> None:
    """Ten megabytes become `output_bytes_max`."""
    output = ran.run("large").output

    assert output is not None
    assert len(output) == 4096
    assert output.endswith(" [cut]")


@pytest.mark.slow
def test_thousands_of_runs_of_all_kinds_end_once_each(ran: Ran) -> None:
    """Success, failure, suspension and time-outs mixed; the count is checked at the end."""
    keys = [
        ran.submit((*ECHOES, *FAILS)[number % 6], "value", timeout_s=60) for number in range(6_000)
    ]
    kinds = [ran.outcome(key, 60).kind for key in keys]

    assert kinds == [SUCCESS if number % 6 < 3 else FAILED for number in range(6_000)]
    assert ran.executor.in_flight_count == 0


def test_stop_waits_for_what_runs() -> None:
    """A handler that ends within the drain keeps its outcome; later submits fail at once."""
    ran = Ran()
    release.clear()
    keys = [ran.submit("wait_on_loop"), ran.submit("block_thread")]
    threading.Timer(0.2, release.set).start()
    ran.executor.stop(10)

    assert [ran.outcome(key, 0).kind for key in keys] == [SUCCESS, SUCCESS]
    assert ran.run("echo") == Outcome(FAILED, "cancelled: the worker has stopped")
    assert len(ran.ends) == 3


@pytest.mark.slow
def test_stop_ends_every_run_in_bounded_time(tmp_path: Path) -> None:
    """Obedient, deaf, blocked and waiting ones, in threads, on the loop and in a process."""
    ran = Ran(concurrency=3, children_max=1)
    release.clear()
    names = ["obey", *["block_thread"] * 4, "wait_on_loop", *["swallow"] * 3]
    keys = [ran.submit(name) for name in names] + [ran.submit("hang", str(tmp_path / "pids"))]
    until((tmp_path / "pids").exists)
    begun_s = monotonic_s()
    ran.executor.stop(0.1)
    took_s = monotonic_s() - begun_s
    release.set()

    assert took_s < 5
    assert sorted(key for key, _ in ran.ends) == keys


def test_a_stop_without_a_start_returns() -> None:
    """A worker that fails while it starts can still clean up."""
    executor = Executor(tasks, concurrency=1, on_end=lambda key, outcome: None)
    executor.stop(1)
    executor.stop(1)


def test_a_child_runs_what_the_worker_would(ran: Ran) -> None:
    """Same context, main thread, time that counts down, nothing left over from the run before."""
    first, second = (json.loads(str(ran.run("describe", [1]).output)) for _ in range(2))

    assert first.pop("pid") == second.pop("pid") != os.getpid()
    for seen in (first, second):
        assert 0 < seen.pop("remaining") < 30
        assert seen == {
            "payload": [1],
            "run_id": Context(facts("t")).run_id,
            "at": "2026-06-08 13:00:00+00:00",
            "leaked": 0,
            "main": True,
        }


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("raise", "ValueError: raised in the child\nat isolated_tasks.py:"),
        ("sys.exit", "SystemExit: 3"),
        ("os._exit", "its process ended with exit code 3"),
        ("segfault", "its process was killed by SIGSEGV"),
        ("nonsense", "its process talks nonsense"),
    ],
)
def test_however_a_child_ends_its_run_fails_and_the_next_is_served(
    ran: Ran, payload: str, text: str
) -> None:
    """By a new child where the old one is of no more use."""
    outcome = ran.run("end", payload)

    assert outcome.kind is FAILED
    assert str(outcome.error).startswith(text)
    assert ran.run("end").kind is SUCCESS


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_a_child_that_hangs_is_killed_with_all_it_started(ran: Ran, tmp_path: Path) -> None:
    """At the time-out, though it blocks every signal that can be blocked; nothing is stuck."""
    told = tmp_path / "pids"
    outcome = ran.run("hang", str(told), timeout_s=3)
    pids = [int(text) for text in told.read_text().split()]

    assert outcome == Outcome(FAILED, "timed out after 3 s")
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert ran.executor.stuck_count == 0
    assert ran.run("end").kind is SUCCESS


@pytest.mark.slow
def test_a_child_that_is_asked_to_stop_hears_it(ran: Ran, tmp_path: Path) -> None:
    """Its `ctx.cancelled` is set over the pipe, and its outcome counts."""
    told = tmp_path / "begun"
    key = ran.submit("wait_for_cancel", str(told))
    until(told.exists)
    ran.executor.cancel(key)

    assert ran.outcome(key) == Outcome(SUCCESS, output='"asked to stop"')


@pytest.mark.slow
def test_a_child_ends_with_its_worker(tmp_path: Path) -> None:
    """After kill -9 of the worker no child of it is left, though it is deaf."""
    told = tmp_path / "pids"
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from processes.test_executor import Ran\n"
        "Ran(children_max=1).submit('hang', sys.argv[2])\n"
        "sys.stdin.read()\n"
    )
    import subprocess  # noqa: PLC0415

    with subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parents[1]), str(told)],
        stdin=subprocess.PIPE,
    ) as worker:
        until(lambda: told.exists() and len(told.read_text().split()) == 2)
        pids = [int(text) for text in told.read_text().split()]
        worker.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(pids[0]), seconds=2)


def test_time_is_not_read_per_run_but_watched(ran: Ran) -> None:
    """A long time-out submitted first does not delay the notice of a short one after it."""
    long = ran.submit("wait_on_loop", timeout_s=3_000)
    begun_s = time.monotonic()
    short = ran.submit("wait_on_loop", timeout_s=0.1)

    assert ran.outcome(short).kind is FAILED
    assert time.monotonic() - begun_s < 5
    release.set()
    assert ran.outcome(long).kind is SUCCESS
