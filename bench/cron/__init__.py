"""Next occurrences of cron expressions: the kernel and its memo beside croniter and cronsim.

Everything is asked the same question, an expression in a zone and an instant, and the answers are
compared before a figure is printed: what differs is counted and shown, not hidden.
"""
