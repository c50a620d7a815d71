"""The examples of docs/effects.md do what the page says, on a real server."""

from __future__ import annotations

import asyncio
import http.server
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from mainspring.clock import monotonic_us
from mainspring.errors import Dead, EffectRefused
from mainspring.handlers import Context, RunFacts
from mainspring.idempotent import effect
from postgres.schema import describe_schema

PAGE = Path(__file__).parents[2] / "docs" / "effects.md"
TABLES = """
CREATE TABLE invoices (customer text, cents integer);
CREATE TABLE bookings (customer text);
CREATE TABLE pages (
    name text PRIMARY KEY, body text, scheduled_at timestamptz, firing_id bigint, fence bigint
);
"""
ACME = {"customer": "acme", "cents": 1200}

Ask = Callable[..., list[tuple[Any, ...]]]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def sql(beginning: str) -> str:
    """Return the page's only statement that begins so."""
    (found,) = [block for block in blocks("sql") if block.startswith(beginning)]
    return found


def context(
    attempt: int = 1, *, key: str = "j_1:1780923600", firing: int = 1, fence: int | None = None
) -> Context:
    facts = RunFacts(
        firing_id=firing, fence=attempt if fence is None else fence, job=1, attempt=attempt,
        scheduled_us=1_780_923_600_000_000, task="t", queue="default", idempotency_key=key,
    )  # fmt: skip
    return Context(facts, monotonic_us() + 60_000_000)


@pytest.fixture
def page(dsn: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's Python as one module, as a reader would copy it."""
    monkeypatch.setenv("APP_DSN", dsn)
    with psycopg.connect(dsn) as session:
        session.execute(TABLES)
    module = ModuleType("effects_page")
    code = "\n".join(blocks("python"))
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


@pytest.fixture
def ask(dsn: str) -> Iterator[Ask]:
    with psycopg.connect(dsn, autocommit=True) as session:
        yield lambda query: session.execute(query).fetchall()


def test_the_page_names_every_example_once(page: ModuleType) -> None:
    assert (
        "bill", "bill-and-book", "bill-plain", "bill-serializable", "charge", "publish",
    ) == page.worker.names  # fmt: skip


def test_bill_is_written_once(page: ModuleType, ask: Ask) -> None:
    outputs = [asyncio.run(page.bill(context(attempt), ACME)) for attempt in (1, 2)]

    assert [{"made_now": True}, {"made_now": False}] == outputs
    assert [("acme", 1200)] == ask("SELECT customer, cents FROM invoices")


def test_the_plain_handlers_write_once(page: ModuleType, ask: Ask) -> None:
    """Also the one with several effects, each by itself."""
    for attempt in (1, 2):
        page.bill_plain(context(attempt, key="j_1:1"), None)
        page.bill_and_book(context(attempt, key="j_1:2"), None)
        page.bill_serializable(context(attempt, key="j_1:3"), None)

    assert [("booked",), ("plain",), ("total",)] == ask("SELECT customer FROM invoices ORDER BY 1")
    assert [("booked",)] == ask("SELECT customer FROM bookings")


def test_a_run_that_broke_between_two_effects_makes_the_second(
    page: ModuleType, dsn: str, ask: Ask
) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("ALTER TABLE bookings RENAME TO gone")
        with pytest.raises(psycopg.errors.UndefinedTable):
            page.bill_and_book(context(1), None)
        session.execute("ALTER TABLE gone RENAME TO bookings")
    page.bill_and_book(context(2), None)

    assert [(1, 1)] == ask("SELECT (SELECT count(*) FROM invoices), count(*) FROM bookings")


def test_the_table_of_another_database_is_as_mainsprings_own(
    page: ModuleType, dsn: str, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's DDL makes it, its grant is enough for a role, its DELETE forgets the old keys."""
    monkeypatch.setenv("APP_DSN", empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as session:
        session.execute(TABLES)
        with pytest.raises(EffectRefused, match="finds no table"):
            page.bill_plain(context(), None)
        session.execute(sql("CREATE TABLE idempotency_keys"))
        session.execute("CREATE ROLE app")
        try:
            session.execute(sql("GRANT"))
            session.execute("GRANT INSERT ON invoices TO app")
            session.execute("SET ROLE app")
            for attempt in (1, 2):
                with context(attempt).idempotent(session) as first:
                    assert first is (attempt == 1)
            session.execute("RESET ROLE")
        finally:
            session.execute("DROP OWNED BY app")
            session.execute("DROP ROLE app")
        session.execute("UPDATE idempotency_keys SET created_at = now() - interval '91 days'")
        session.execute("INSERT INTO idempotency_keys (job_id, key) VALUES (1, 'new')")
        session.execute(sql("DELETE FROM idempotency_keys"))
        keys = session.execute("SELECT key FROM idempotency_keys").fetchall()
    assert [("new",)] == keys

    def columns(of: str) -> list[str]:
        return [line for line in describe_schema(of)["columns"] if "idempotency_keys." in line]

    assert columns(empty_dsn) == columns(dsn)


def test_the_statement_for_other_drivers_is_the_one_that_is_run(page: ModuleType, dsn: str) -> None:
    shown = re.sub(r":(\w+)", r"%(\1)s", sql("INSERT INTO idempotency_keys"))
    own = effect._insert_key().decode()
    assert shown.split() == [
        word for line in own.splitlines() if not line.startswith("--") for word in line.split()
    ]
    values = {"job_id": context().facts.job, "key": context().idempotency_key, "effect": ""}
    with psycopg.connect(dsn) as session:
        assert [1, 0] == [session.execute(shown, values).rowcount for _ in range(2)]
    page.bill_plain(context(), None)
    with psycopg.connect(dsn) as session:
        assert session.execute("SELECT FROM invoices").fetchall() == []


def test_the_key_of_a_charge_travels_in_the_header(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str | None, Any]] = []

    class Api(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append((self.headers["Idempotency-Key"], body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"charge": 7}')

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("CHARGES_URL", f"http://127.0.0.1:{server.server_port}/charges")
            outputs = [page.charge(context(attempt), ACME) for attempt in (1, 2)]
        finally:
            server.shutdown()
            thread.join()

    assert [{"charge": 7}] * 2 == outputs
    assert [('"j_1:1780923600"', ACME)] * 2 == heard


def test_what_the_page_says_of_headers() -> None:
    text = PAGE.read_text()
    bare = context(key="report-2026-W24").idempotency_headers(quoted=False)["Idempotency-Key"]

    assert f"`{context().idempotency_headers()}`".replace("{'", '{"').replace("':", '":') in text
    assert f"`{bare}`".replace("j_0000000000001", "j_1") in text
    assert uuid.uuid5(uuid.NAMESPACE_URL, bare).version == 5


def test_a_page_is_not_overwritten_by_an_attempt_that_was_given_up(
    page: ModuleType, ask: Ask
) -> None:
    """The order of attempts of one occurrence, a redrive after them, is the order of the fence."""
    weekly = {"page": "weekly"}
    page.publish(context(1, firing=1, fence=5), weekly)
    page.publish(context(2, firing=1, fence=7), weekly)
    with pytest.raises(Dead):
        page.publish(context(1, firing=1, fence=5), weekly)
    page.publish(context(2, firing=1, fence=7), weekly)
    page.publish(context(3, firing=9, fence=1), weekly)
    with pytest.raises(Dead):
        page.publish(context(2, firing=1, fence=7), weekly)

    assert [("as of 2026-06-08, attempt 3",)] == ask("SELECT body FROM pages")
