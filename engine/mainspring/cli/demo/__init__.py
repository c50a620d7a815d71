"""`mainspring demo`: the main job, end to end, from one command.

Real processes on an embedded Postgres: scheduler, API and two workers.  Jobs are registered over
HTTP; what happened is counted twice, from the workers' own append-only logs and from the tables,
and compared with what an independent calculation expected.
"""
