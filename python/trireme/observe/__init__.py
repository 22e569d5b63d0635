"""A job as people see it: live in a terminal (``trireme top``), as metrics for Prometheus (``trireme metrics``), as a report with pictures
(``trireme plot``), and the traces of its ranks on one clock (``trireme trace``).

All but the traces are read from the logs that ``trireme launch --log DIR`` writes (docs/logs.md), so that looking costs the job nothing.
docs/seeing.md describes them.
"""
