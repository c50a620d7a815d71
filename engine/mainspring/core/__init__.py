"""Every decision of scheduler and worker, pure: effects out, answers in.

Nothing here has a clock, a socket, a thread or a database.  A *driver* (mainspring.scheduler,
mainspring.worker, or the simulator in the tests) owns those; it calls a core object with what
happened and when, and carries out what the object returns.

Duties of a driver
------------------
1. Call from one thread at a time.  No core object locks anything.
2. Pass `Now` with every call: the monotonic clock, and the interval that database time lies in.
3. Carry out each request of `ShardLeader.poll` exactly once and hand its answer, or `Failed`, to
   `ShardLeader.on_answer`.  A shard has at most one request under way.
4. Carry out claims by `preparation.claim_and_prepare`, which ends with frames that are encoded;
   hand over only what was committed (I6).
5. Give released frames to `Dispatch`, send what it says to send, in that order, one PUSH socket
   per worker; hand every answer of a worker back to it.
6. Before each send ask the shard's `TrustWindow`; outside of it, drop the frames and campaign
   again (I5).
7. A worker's driver starts only what `Execution` asks to start, hands `Starts` back, runs only
   what they contain, and reports each run's end once.

The way of a firing through these objects

    ShardLeader --ClaimPage/ClaimIds--> store --ClaimBatch--> preparation --PreparedFrame-->
    ShardLeader (waits for its time on the release wheel) --released--> Dispatch (waits for a
    worker with credit) --frame--> Execution (waits for a slot) --start--> handler --RunEnd-->
    store.complete --due again--> hint back to ShardLeader

Invariants kept here are numbered in ARCHITECTURE.md and asserted where they are named.
"""
