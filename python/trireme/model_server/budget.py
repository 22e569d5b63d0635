"""A bound on the memory that requests may take: each reserves what it can cost before its body is read."""

from __future__ import annotations

from ..native.errors import TriremeError

JSON_COST = 48                         # bytes of Python objects that one byte of JSON can become: each of the lists of "[[[]]]" takes 88


class RequestError(TriremeError):
    """A request that is not answered with tensors. ``code`` is HTTP's status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Budget:
    """So many bytes for all requests together, and for each. Used by the event loop's thread alone."""

    def __init__(self, total: int, most: int) -> None:
        self.total, self.most, self.taken = total, most, 0

    def reservation(self) -> Reservation:
        return Reservation(self)


class Reservation:
    """What one request has reserved. It may grow, and ends with ``release``."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._bytes, self._json = budget, 0, 0

    def grow(self, size: int, json_size: int) -> None:
        """The request has ``size`` bytes, of which ``json_size`` are JSON. RequestError: it is too large, or too many are here."""
        budget = self._budget
        if size > budget.most:
            raise RequestError(413, f"the request has {size} bytes or more; {budget.most} are possible (--request-mib)")
        self._reserve(size + JSON_COST * json_size, f"{json_size} bytes of JSON could take more memory than the {budget.total} bytes that "
                                                    "this server has for requests (--memory-mib): send the tensors as binary data")

    def add(self, size: int) -> None:
        """The request takes so many bytes more than it has."""
        self._reserve(self._bytes + size, f"the rows take {size} bytes, more than this server has for requests (--memory-mib)")

    def _reserve(self, cost: int, too_large: str) -> None:
        budget = self._budget
        if cost > budget.total:
            raise RequestError(413, too_large)
        if budget.taken - self._bytes + cost > budget.total:
            raise RequestError(503, "the requests that are here take all memory that this server has for them (--memory-mib): try "
                                    "again later")
        budget.taken += cost - self._bytes
        self._bytes = cost

    def release(self) -> None:
        self._budget.taken -= self._bytes
        self._bytes = 0
