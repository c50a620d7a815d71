"""Cursors that an older release of tzdata put elsewhere, found by a real scheduler.

The old rules are gone with their package, so what they left is written into the database: other
times, and the release that is said to have computed them.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import psycopg
import pytest

from mainspring.cron import tzdata_version
from mainspring.instants import US_PER_S, format_instant
from mainspring.jobs import Jobs
from mainspring.model import RunStatus, format_job_id
from processes.cluster.stage import Cluster, decode_line, environment, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_S = 90.0
READ_CURSOR = """
SELECT (extract(epoch FROM scheduled_at) * 1000000)::bigint, due_at = scheduled_at, fence, rev
FROM firings WHERE firing_id = %s
"""
READ_PAUSED = "SELECT due_at::text, fence, rev FROM firings WHERE firing_id = %s"


def sql(cluster: Cluster, text: str, *values: object) -> list[Any]:
    with psycopg.connect(cluster.dsn, autocommit=True) as session:
        cursor = session.execute(text.encode(), values)
        return cursor.fetchall() if cursor.description else []


def displace(cluster: Cluster, job_id: int, seconds: int) -> None:
    """Have a cursor wait so much later than it should, by rules that are not any more."""
    text = "UPDATE firings SET scheduled_at = scheduled_at + make_interval(secs => %s),"
    text += " due_at = due_at + make_interval(secs => %s) WHERE firing_id = %s"
    sql(cluster, text, seconds, seconds, job_id)


def record(cluster: Cluster, version: str) -> None:
    sql(cluster, "UPDATE shards SET tzdata = %s", version)


def wait_recorded(cluster: Cluster) -> None:
    wait_for(
        "the release of every shard",
        lambda: set(cluster.store.zone_versions().values()) == {tzdata_version()},
        WAIT_S,
    )


def said(cluster: Cluster, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.cli", "tzdata", *arguments],
        env=environment(cluster),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_cursors_of_old_rules_are_moved_once_and_nothing_else_is(cluster: Cluster) -> None:
    cluster.start_scheduler("first")
    wait_recorded(cluster)
    cluster.start_worker()
    tokyo = [
        cluster.add(task="work", schedule="0 9 * * *", timezone="Asia/Tokyo") for _ in range(6)
    ]
    berlin = cluster.add(task="work", schedule="0 9 * * *", timezone="Europe/Berlin")
    hourly = cluster.add(task="work", schedule="@every 1h", timezone="Asia/Tokyo")
    gone = cluster.add(task="work", schedule="0 9 * * *", timezone="Asia/Seoul")
    paused = cluster.add(task="work", schedule="0 9 * * *", timezone="Asia/Tokyo")
    Jobs(cluster.store).pause(format_job_id(paused))
    running = cluster.add(
        task="slow", schedule="0 9 * * *", timezone="Asia/Tokyo", payload={"seconds": 20}
    )
    follows = sql(cluster, READ_CURSOR, running)[0][0]
    sql(
        cluster,
        "UPDATE firings SET due_at = now, scheduled_at = now"
        " FROM date_trunc('second', now()) AS now WHERE firing_id = %s",
        running,
    )
    wait_for("a run", lambda: [line for line in cluster.log() if line.event == "start"], WAIT_S)
    cluster.children[0].terminate()
    assert cluster.children[0].wait() == 0

    watched = [*tokyo, berlin, hourly]
    right = {each: sql(cluster, READ_CURSOR, each)[0][0] for each in watched}
    for each in tokyo[:5]:
        displace(cluster, each, 1_800)
    displace(cluster, hourly, 7)
    sql(cluster, "UPDATE jobs SET timezone = 'Asia/Atlantis' WHERE job_id = %s", gone)
    record(cluster, "2000a")
    parked = sql(cluster, READ_PAUSED, paused)
    before = {each: sql(cluster, READ_CURSOR, each)[0] for each in [*watched, running]}

    cluster.start_scheduler("second")
    wait_recorded(cluster)
    after = {each: sql(cluster, READ_CURSOR, each)[0] for each in [*watched, running]}
    # What runs keeps all but its rev, so that its end is decided by the rules of now.
    assert after[running] == (*before[running][:3], before[running][3] + 1)
    for each in tokyo[:5]:
        assert after[each] == (right[each], True, before[each][2] + 1, before[each][3] + 1)
    for each in (tokyo[5], berlin, hourly):
        assert after[each] == before[each]
    assert after[hourly][0] == right[hourly] + 7 * US_PER_S
    assert parked == sql(cluster, READ_PAUSED, paused)
    job = cluster.job(gone)
    assert job is not None
    assert job.next_us is None

    wait_for("four reports", lambda: cluster.words("second").count("new time zone data") == 4)
    assert cluster.metric("second", "mainspring_zone_moved_total") == 5
    assert cluster.metric("second", "mainspring_zone_parked_total") == 1
    shown = decode_line(said(cluster, "--json"))
    assert shown["package"] == tzdata_version()
    assert {each["version"] for each in shown["shards"]} == {tzdata_version()}
    changes = {
        each["timezone"]: (each["moved"], each["parked"], each["from_version"])
        for each in shown["changes"]
    }
    assert changes == {"Asia/Tokyo": (5, 0, "2000a"), "Asia/Atlantis": (0, 1, "2000a")}
    assert "Asia/Tokyo\t5\t0\t2000a" in said(cluster)

    [run] = [r for r in cluster.wait_ended(running, WAIT_S) if r.status is not RunStatus.PENDING]
    assert run.status is RunStatus.SUCCESS
    assert sql(cluster, READ_CURSOR, running)[0][0] == follows
    cluster.children[-1].terminate()
    assert cluster.children[-1].wait() == 0
    settled = {each: sql(cluster, READ_CURSOR, each)[0] for each in watched}
    cluster.start_scheduler("third")
    wait_for("its terms", lambda: cluster.metric("third", "mainspring_shards_led") == 4, WAIT_S)
    probe = cluster.add(task="work", in_s=0.2)
    cluster.wait_ended(probe, WAIT_S)
    assert settled == {each: sql(cluster, READ_CURSOR, each)[0] for each in watched}
    assert cluster.metric("third", "mainspring_zone_moved_total") == 0
    assert decode_line(said(cluster, "--json"))["changes"] == shown["changes"]
    starts = Counter(line.job_id for line in cluster.log() if line.event == "start")
    assert starts.keys() <= {format_job_id(each) for each in (running, probe)}
    assert set(starts.values()) == {1}


def test_an_occurrence_that_passed_by_the_new_rules_runs_at_once_and_once(
    cluster: Cluster,
) -> None:
    """A one-off and a daily job, both of a local time that the old rules put an hour later."""
    now_us = cluster.store.database_us() // US_PER_S * US_PER_S
    tokyo_us = now_us + 9 * 3_600 * US_PER_S
    ahead_us = tokyo_us + 600 * US_PER_S
    local = format_instant(ahead_us).removesuffix("Z")
    minute_us = tokyo_us - tokyo_us % (60 * US_PER_S)
    wall = format_instant(minute_us)
    once = cluster.add(task="work", schedule=local, timezone="Asia/Tokyo")
    daily = cluster.add(
        task="work", schedule=f"{wall[14:16]} {wall[11:13]} * * *", timezone="Asia/Tokyo"
    )
    # Registered two days ago, so that today's occurrence was not before the job.
    sql(cluster, "UPDATE jobs SET anchor_at = anchor_at - interval '2 days'")
    displace(cluster, daily, 3_600 - 86_400)
    past = format_instant(tokyo_us - 300 * US_PER_S).removesuffix("Z")
    sql(cluster, "UPDATE jobs SET schedule = %s WHERE job_id = %s", past, once)
    record(cluster, "2000a")
    cluster.start_scheduler()
    cluster.start_worker()

    for job_id in (once, daily):
        [run] = [r for r in cluster.wait_ended(job_id, WAIT_S) if r.status is RunStatus.SUCCESS]
        assert run.attempt == 1
        assert run.started_us is not None
        assert run.scheduled_us <= now_us < run.started_us
    [run] = [r for r in cluster.runs(daily) if r.status is RunStatus.SUCCESS]
    assert run.scheduled_us == minute_us - 9 * 3_600 * US_PER_S
    job = cluster.job(daily)
    assert job is not None
    assert job.next_us == run.scheduled_us + 86_400 * US_PER_S


def test_an_older_package_warns_and_moves_nothing(cluster: Cluster) -> None:
    job_id = cluster.add(task="work", schedule="0 9 * * *", timezone="Asia/Tokyo")
    displace(cluster, job_id, 1_800)
    record(cluster, "2999a")
    before = sql(cluster, READ_CURSOR, job_id)
    cluster.start_scheduler()
    wait_for(
        "the warnings",
        lambda: cluster.words("scheduler").count("older time zone data") == 4,
        WAIT_S,
    )
    assert "Upgrade the tzdata package" in cluster.words("scheduler")
    assert sql(cluster, READ_CURSOR, job_id) == before
    # By which the shards are computed from now on, for whoever has the newer one.
    assert set(cluster.store.zone_versions().values()) == {tzdata_version()}
    assert cluster.store.zone_changes(limit=9) == []
