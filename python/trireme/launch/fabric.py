"""The transport of messages between ranks: ``--transport``, as Open MPI's settings and as a text for the job's first line.

| ``--transport`` | |
|---|---|
| ``auto`` | shared memory on one host; TCP on several; if this host has an InfiniBand or RoCE device, Open MPI chooses |
| ``tcp`` | shared memory, and TCP between hosts |
| ``ucx`` | UCX: InfiniBand, RoCE, else its own shared memory and TCP |
| ``ofi`` | libfabric: Omni-Path, EFA, Slingshot, else its own TCP |
"""

from __future__ import annotations

import os

TRANSPORTS = ("auto", "tcp", "ucx", "ofi")


def devices() -> list[str]:
    """Return the InfiniBand and RoCE devices of this host."""
    try:
        return sorted(os.listdir("/sys/class/infiniband"))
    except OSError:
        return []


def chosen(transport: str, is_remote: bool, found: list[str] | None = None) -> str:
    """Return the meaning of ``auto`` here: ``sm``, ``tcp`` or ``free``. Any other transport is returned unchanged."""
    if transport != "auto":
        return transport
    if not is_remote:
        return "sm"
    return "free" if (devices() if found is None else found) else "tcp"


def settings(way: str) -> list[tuple[str, str]]:
    """Return Open MPI's parameters for a transport. Open MPI uses UCX and libfabric for some devices only. These parameters allow all
    devices, unless the user's environment names devices.
    """
    if way == "free":
        return []
    if way == "ucx":
        return [("pml", "ucx"), *_unless_set(("opal_common_ucx_tls", "any"), ("opal_common_ucx_devices", "any"))]
    if way == "ofi":
        return [("pml", "cm"), ("mtl", "ofi"),
                *([] if "OMPI_MCA_mtl_ofi_provider_include" in os.environ else _unless_set(("mtl_ofi_provider_exclude", "shm,udp")))]
    # On one host ranks use shared memory alone, because MPI's TCP component listens on all interfaces in any case.
    return [("pml", "ob1"), ("btl", "self,vader" + ",tcp" * (way == "tcp"))]


def _unless_set(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    return [(key, value) for key, value in pairs if f"OMPI_MCA_{key}" not in os.environ]


def needed(way: str) -> tuple[str, str] | None:
    """Return what a transport needs in an Open MPI: the component, as `ompi_info --parsable` names it, and the library behind it."""
    return {"ucx": ("mca:pml:ucx:", "UCX"), "ofi": ("mca:mtl:ofi:", "libfabric")}.get(way)


def words(way: str) -> str:
    """Describe the transport, for the job's first line."""
    if way == "free":
        return f"over what Open MPI takes for {', '.join(devices())}"
    return {"sm": "over shared memory", "tcp": "over TCP", "ucx": "over UCX", "ofi": "over libfabric"}[way]
