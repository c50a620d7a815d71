"""When the loss of a database is said, and when its return."""

from __future__ import annotations

import logging

import pytest

from mainspring.errors import MigrationRefused, StatementRetry, StoreUnavailable
from mainspring.logs import get_logger
from mainspring.store.outage import Outage, told


class Played:
    """An outage with a clock of seconds."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, logger="mainspring")
        self._caplog = caplog
        self.now_s = 0.0
        self.outage = Outage(now_us=lambda: round(self.now_s * 1e6), engine="e")

    def at(self, now_s: float, began_s: float | None = None, *, fails: bool) -> bool:
        self.now_s = now_s
        began_us = round((now_s if began_s is None else began_s) * 1e6)
        if fails:
            self.outage.failed(began_us, "gone")
        else:
            self.outage.answered(began_us)
        return self.outage.is_lost

    def lines(self) -> list[str]:
        return [each.getMessage() for each in self._caplog.records]


LOST, BACK = "database lost error=gone engine=e", "database is back lost_s={} engine=e"


def test_each_outage_has_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """However many requests fail meanwhile."""
    played = Played(caplog)
    for begin_s, length in ((100, 8), (200, 3)):
        assert not played.at(begin_s - 1, fails=False)
        for tenth in range(length * 10):
            assert played.at(begin_s + tenth / 10, fails=True)
        assert not played.at(begin_s + length, fails=False)

    assert played.lines() == [LOST, BACK.format(8.0), LOST, BACK.format(3.0)]


def test_requests_that_are_slow_to_end_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """An answer to what was asked before the loss is no return, an old session's end no loss."""
    played = Played(caplog)
    played.at(9, fails=False)
    played.at(10, fails=True)
    assert played.at(11, 9.5, fails=False)
    assert not played.at(12, 11.5, fails=False)
    assert not played.at(13, 10.5, fails=True)

    assert played.lines() == [LOST, BACK.format(2.0)]


def test_a_database_that_comes_and_goes_does_not_flood(caplog: pytest.LogCaptureFixture) -> None:
    """A loss within ten seconds of the last warning is said when it lasts, or never."""
    played = Played(caplog)
    for second in range(100, 109):
        played.at(second, fails=True)
        played.at(second + 0.5, fails=False)
    assert played.lines() == [LOST, BACK.format(0.5)]
    played.at(109, fails=True)
    played.at(112, fails=True)
    played.at(114, fails=False)

    assert played.lines()[2:] == [LOST, BACK.format(5.0)]


def test_a_session_that_cannot_be_opened_is_told() -> None:
    """Unless it is not the database that is away."""
    outage = Outage()
    for error, is_lost in (
        (StoreUnavailable("in use"), False),
        (MigrationRefused("old"), False),
        (StoreUnavailable("away", is_lost=True), True),
    ):
        with pytest.raises(type(error)):
            told(outage, lambda error=error: raise_(error))  # type: ignore[misc]
        assert outage.is_lost is is_lost
    assert told(outage, lambda: 5) == 5


def raise_(error: Exception) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (StoreUnavailable("away", is_lost=True), logging.DEBUG),
        (StoreUnavailable("all sessions in use"), logging.WARNING),
        (StatementRetry("deadlock"), logging.WARNING),
        (ValueError("bug"), logging.WARNING),
    ],
)
def test_what_fails_with_the_database_is_for_debug(
    error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails by itself is a warning."""
    caplog.set_level(logging.DEBUG, logger="mainspring")
    get_logger("mainspring.test").failed("it failed", error, shard=3)

    assert [each.levelno for each in caplog.records] == [level]
    assert caplog.messages[0].endswith("shard=3")
