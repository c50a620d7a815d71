"""How frames reach workers and what workers say back: the protocol, in prose.

**Sockets.**  A worker binds one PULL socket for frames and publishes its address in its holder row.
A leader connects *one PUSH socket per worker*: a shared one deals round-robin, blind to load, and
feeds a frozen worker its share.  A leader binds one PULL socket for answers and names it in every
envelope (`answer_to`); a worker connects one PUSH socket per leader.  Nothing else is open.

**A delivery** has exactly two parts: an `Envelope` (`answers.py`) and a frame
(`mainspring.frame`).  **An answer** has exactly one: a `Beacon`, a `Returned` or a `Hints`.
Everything is msgpack, versioned, and bounded in bytes and in every list.

**Credit.**  A leader sends a worker no more firings than the window in its last beacon, less what
is on its way or in hand.  Credit is counted in firings, by the leader's core.  The high-water marks
of the sockets count frames and are only there so that a full pipe is noticed at once.

**Held.**  A worker answers each receipt with a beacon that lists what it has in hand.  Being listed
is the answer *held*.  A beacon is a whole state, so a lost or refused one is healed by the next;
`Returned` and `Hints` are differences and therefore kept for a few tries when the pipe is full.

**What loss means.**  PUSH is a lossy pipe: what lies in the buffers of a peer that is killed is
gone, whatever the high-water mark says, and nobody is told.  So nothing here is acknowledged by the
transport.  A frame that is neither held nor started in time is claimed anew by its leader with a
higher fence, and a copy that turns up later is refused at its start.  A worker that never hears of
a frame has done no harm; a leader that never hears a beacon sends nothing new.  A lost `Hints` or
`Returned` costs a second: the leader's sweep finds the rows.

**Never blocking, never raising.**  `send`, `answer` and `receive` do not wait.  A peer that is
slow, frozen or gone shows as `False` from `send`.  What does not decode is counted by reason
(`on_dropped`) and dropped; it raises nothing and counts against the caller's limit of one call, so
that a flood of it cannot starve the loop.

**Reasons** given to `on_dropped`: `envelope`, `answer` (does not decode, or another version),
`parts` (wrong number), `handshake` (a connection that is no ZeroMQ peer), `address` (a peer that
may not be connected to), `peers` (too many), `resend` (a `Returned` or `Hints` that found its
buffer full), `oversize` (an answer of our own over the limit).

**Threads.**  The sockets of one object belong to the thread that uses it first; another one is an
`AssertionError`.  Only `wake` may be called from anywhere.

**Limits.**  A part over `FRAME_BYTES_MAX` or `ANSWER_BYTES_MAX` ends its connection inside
libzmq, before it is read; libzmq reports that only as a disconnect, so it is not counted.  libzmq
bounds a part but not the number of parts of one delivery.  It also still accepts ZMTP 1.0, in which
almost any bytes are a message; those end as `parts`, `envelope` or `answer`.  There are no keys
yet, so only loopback addresses are bound and connected to: whoever can reach the port can send.

Source: ZMTP 3.1 (rfc.zeromq.org/spec/37); libzmq manual, zmq_setsockopt(3), zmq_socket(3).
"""
