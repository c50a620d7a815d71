"""Effects that stand once although their handler may run twice: what it takes, in prose.

mainspring runs a firing at least once.  A worker that dies after its handler's effect and before
the completion leaves a run that is `lost`, and the next attempt runs the handler again.  Nothing
that a scheduler does can tell whether the effect was made; only the place of the effect can.

**In a Postgres** (`effect`).  The handler writes the key of its effect, `(job_id, key, effect)`, in
the transaction that makes the effect.  Both stand or neither does, so whoever finds the key knows
that the effect was made.  Two attempts at the same time cannot both write it: the second waits for
the end of the first one's transaction, then finds the key, or writes it if that rolled back.

**At an API** (`header`).  The key travels as `Idempotency-Key`; the API does the same on its side.

**What the key is made of.**  `key` is the firing's idempotency key, the same for all its attempts
and for a redrive.  `effect` names one of several effects of a run and is empty for the only one.

**How long keys are kept.**  The schedulers forget them after `history_days`, but not while their
firing is unfinished or a dead letter.  Neither the end of a firing nor the deletion of a job
removes them, since an attempt that was given up may still be under way.  In a database without a
scheduler they are the owner's to forget.
"""
