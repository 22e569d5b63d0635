"""The network that reaches the hosts of a job. Without a choice MPI tries all networks of a host, and waits long at one that leads
nowhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path

_UP = 1                                # a flag of a route, in the kernel's table
_ROUTES = Path("/proc/net/route")


def network_of(names: Iterable[str], routes: Path = _ROUTES) -> str | None:
    """Return the smallest IPv4 network of this host ("10.0.0.0/24") that has the addresses of all these hosts; None: there is none, because
    a router lies between, a name has no such address, or there are no hosts."""
    try:
        addresses = [ipaddress.IPv4Address(socket.getaddrinfo(name, 0, socket.AF_INET)[0][4][0]) for name in names]
    except (OSError, ValueError):
        return None
    found = [network for network in _networks(routes) if all(address in network for address in addresses)]
    return str(max(found, key=lambda network: network.prefixlen)) if found and addresses else None


def _networks(routes: Path) -> list[ipaddress.IPv4Network]:
    """The networks that this host reaches without a router."""
    try:
        rows = [row.split() for row in routes.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [ipaddress.IPv4Network((_address(row[1]), str(_address(row[7]))))
            for row in rows if int(row[3], 16) & _UP and int(row[2], 16) == 0 and int(row[7], 16)]


def _address(text: str) -> ipaddress.IPv4Address:
    """Return an address of the kernel's table. Its bytes are in the order of this machine, which is x86-64."""
    return ipaddress.IPv4Address(int(text, 16).to_bytes(4, "little"))
