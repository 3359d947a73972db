"""Filters: backends that leave, and models that would have none left. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any


def router_backend_names(hosts: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The backends of hosts: named as the host where `triton_name` is not set."""
    return [str(hostvars[host].get("triton_name", host)) for host in hosts]


def router_orphans(models: Sequence[Mapping[str, Any]], leaving: Collection[str]) -> list[str]:
    """Names of the models whose whole share is with backends that leave.

    Args:
        models: as in `bimetal status --json`: name, and shares by backend.
        leaving: names of the backends.
    """
    serving = {model["name"]: {name for name, share in model["shares"].items() if share > 0} for model in models}
    # A model that nobody serves now is not made worse.
    return [name for name, backends in serving.items() if backends and backends <= set(leaving)]


def router_shared_addresses(
    backends: Sequence[Mapping[str, Any]], *listeners: Mapping[str, Sequence[int | str]]
) -> list[str]:
    """Addresses that more than one service of the fleet would use, as `host:port`.

    Args:
        backends: variables of hosts: `triton_host` and the three ports.
        listeners: ports by host, of each of the other services.
    """
    used = Counter(
        f"{backend['triton_host']}:{backend[f'triton_{port}_port']}"
        for backend in backends
        for port in ("http", "grpc", "metrics")
    )
    used.update(f"{host}:{port}" for services in listeners for host, ports in services.items() for port in ports)
    return sorted(address for address, count in used.items() if count > 1)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Any]:
        """Each by its own name."""
        return {
            "router_backend_names": router_backend_names,
            "router_orphans": router_orphans,
            "router_shared_addresses": router_shared_addresses,
        }
