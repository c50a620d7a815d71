"""The hot second: N recurring jobs that are due at one instant, beside what plain SQL can do.

One *round* measures four things, each on a database of its own that holds the same jobs, freshly
vacuumed and after a checkpoint:

- `textbook` the claim loop of the textbook design on one wide table (DESIGN: LIMIT 500),
- `floors` one plain UPDATE of the lease columns, and a whole life as set-based statements,
- `burst` mainspring itself: a real scheduler, real workers, a due second to wait for.

Rounds are interleaved, so that what the machine does meanwhile hits all four alike; the command
prints the median of each figure over the rounds, and keeps every round in its report.

Truth comes from three places that know nothing of each other: the scheduler's record (when it
claimed and released), the workers' own logs (what they began), and the tables (what is committed).
"""
