"""Handlers that do what no handler should, in real workers."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.model import RunStatus
from processes.cluster.stage import Cluster, wait_for

ODD = {
    "nan": "null",
    "bytes": '"AP8="',
    "circle": '"[[...]]"',
    "deep": '"<list whose text cannot be read: RecursionError>"',
    "surrogate": "\"'\\\\ud800\\\\x00'\"",
}


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or waits for its parent to take notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_a_worker_survives_what_its_handlers_do(cluster: Cluster) -> None:
    """Exits, interrupts, odd values, floods of text: each is an outcome, and work goes on."""
    cluster.start_scheduler()
    worker = cluster.start_worker()
    odd = {name: cluster.add(task="return-odd", in_s=0.1, payload=name) for name in ODD}
    others = [cluster.add(task="return-odd", in_s=0.1, payload=name) for name in ("huge", "object")]
    bad = [cluster.add(task=task, in_s=0.1, max_retries=1) for task in ("exit", "interrupt")]
    litter = cluster.add(task="litter", in_s=0.1)

    assert {name: cluster.wait_ended(odd[name])[0].output for name in odd} == ODD
    for job_id in [*others, litter]:
        assert [run.status for run in cluster.wait_ended(job_id)] == [RunStatus.SUCCESS]
    assert [len(cluster.runs(job_id)[0].output or "") <= 4_096 for job_id in others] == [True] * 2
    errors = [(cluster.wait_ended(job_id)[0].error or "").split("\n")[0] for job_id in bad]
    assert errors == ["SystemExit: 3", "KeyboardInterrupt"]
    last = cluster.add(task="work", in_s=0.1)
    assert [run.status for run in cluster.wait_ended(last)] == [RunStatus.SUCCESS]
    assert not worker.has_ended


def test_the_copy_that_a_handler_forked_ends_where_the_handler_does(cluster: Cluster) -> None:
    """It has the worker's sockets and sessions: it must not go on as a second worker."""
    cluster.start_scheduler()
    cluster.start_worker()
    jobs = [cluster.add(task=task, in_s=0.1) for task in ("fork", "fork-async")]
    runs = [cluster.wait_ended(job_id) for job_id in jobs]

    assert [[run.status for run in each] for each in runs] == [[RunStatus.SUCCESS]] * 2
    copies = [int(each[0].output or 0) for each in runs]
    assert os.getpid() not in copies
    for pid in copies:
        wait_for(f"the end of the copy {pid}", lambda pid=pid: has_ended(pid), 5)


def test_a_handler_that_holds_the_interpreter_does_not_look_dead(cluster: Cluster) -> None:
    """For longer than a death takes: its run is not lost, and what waited is only late."""
    cluster.start_scheduler()
    cluster.start_worker()
    held = cluster.add(task="hold-gil", in_s=0.1, payload={"seconds": 6.5}, max_retries=1)
    others = [cluster.add(task="work", in_s=0.5) for _ in range(5)]

    assert [run.status for run in cluster.wait_ended(held)] == [RunStatus.SUCCESS]
    for job_id in others:
        runs = cluster.wait_ended(job_id)
        assert [(run.status, run.attempt) for run in runs] == [(RunStatus.SUCCESS, 1)]
    assert len([line for line in cluster.log() if line.event == "start"]) == 6
