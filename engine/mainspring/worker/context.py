"""What a handler is told about its run, read out of the frame."""

from __future__ import annotations

from mainspring.frame import Frame
from mainspring.handlers import Context, RunFacts
from mainspring.instants import MINUS_INFINITY_US
from mainspring.keys import default_key
from mainspring.model import format_job_id


def context_of(frame: Frame, index: int) -> Context:
    """Return the context of one firing of a frame."""
    job_id = int(frame.job_id[index])
    scheduled_us = int(frame.scheduled_us[index])
    previous_us = int(frame.previous_us[index])
    facts = RunFacts(
        firing_id=int(frame.firing_id[index]),
        fence=int(frame.fence[index]),
        job=job_id,
        scheduled_us=scheduled_us,
        attempt=int(frame.attempt[index]),
        task=frame.task,
        queue=frame.queue,
        idempotency_key=frame.key(index) or default_key(format_job_id(job_id), scheduled_us),
        catch_up=frame.catch_up(index),
        trigger=frame.trigger(index),
        previous_us=None if previous_us == MINUS_INFINITY_US else previous_us,
    )
    return Context(facts)
