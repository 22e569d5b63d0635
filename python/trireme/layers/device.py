"""Places, as a layer."""

from __future__ import annotations

from ..native.tensor import CPUPlace


def get_places(device_count: int | None = None, device_type: str | None = None) -> list[CPUPlace]:
    """Return ``device_count`` places (default: one), which are processors. ``device_type`` may be "CPU" or "AUTO".

    >>> fluid.layers.device.get_places(2)
    [CPUPlace, CPUPlace]
    """
    if device_type not in (None, "CPU", "AUTO"):
        raise ValueError(f"get_places: device_type must be 'CPU' or 'AUTO', got {device_type!r}")
    from ..program.places import cpu_places

    return cpu_places(device_count)


__all__ = ["get_places"]
