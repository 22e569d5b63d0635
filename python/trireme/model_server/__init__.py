"""``trireme serve MODEL``: a model answers requests of the Open Inference Protocol, version 2.

The transports (``rest.py``, ``grpc_service.py``) turn messages into a ``Request`` and an ``Answer`` back into messages. Between them lie
the model (``model.py``), the runs (``batching.py``), and the bound on memory (``budget.py``). One event loop reads and writes all
connections. Models run on a pool of threads, so no client holds a thread.
"""
