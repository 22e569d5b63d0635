"""How a job would behave with many ranks: ``trireme simulate``.

A script is run alone for some steps (``probe.py``). The messages of a step come from the job's own placement (``schedule.py``), the costs
of a message and of a byte from a calibration on this machine (``calibrate.py``). From these an event simulation makes the steps of any
number of ranks (``hosts.py``, ``ranks.py``, ``simulation.py``). docs/adr/0065 says what is left out.
"""
