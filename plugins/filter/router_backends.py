"""Filters: backends that leave, and models that would have none left. Standard library only."""

from __future__ import annotations

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


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Any]:
        return {"router_backend_names": router_backend_names, "router_orphans": router_orphans}
