"""What the cluster as a whole is: one server's answers, merged from what was observed. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from bimetal.policy.table import RoutingTable
from bimetal.state.fleet_state import FleetState

# What a cluster cannot do for a client that may be sent to another host with every request.
NOT_FOR_A_CLUSTER = {
    "shared memory": "shared memory is local to one Triton, and a cluster may answer from any of them: send the "
    "tensors in the request, or talk to the Triton on the client's own host",
    "trace": "trace settings belong to one Triton: set them there, on its own port",
    "log": "log settings belong to one Triton: set them there, on its own port",
}


_PUT_AWAY = {("UNAVAILABLE", "unloaded"), ("", "")}
"""State and reason of a model that somebody unloaded, and of one that nobody ever loaded."""
_MOST_VERSION_DIGITS = 18


def is_ready(table: RoutingTable, state: FleetState) -> bool:
    """Whether every model has an able backend, but for those that are unloaded everywhere on purpose.

    That is when one Triton calls itself ready. A cluster without any model is not.
    """
    able = {name: any(route.shares.values()) for name, route in table.routes.items()}
    return any(able.values()) and all(found or _is_put_away(state, name) for name, found in able.items())


def _is_put_away(state: FleetState, model: str) -> bool:
    listed = [o.models[model] for o in state.observations.values() if o.reachable and model in o.models]
    return bool(listed) and all(not m.ready and set(m.unavailable.values()) <= _PUT_AWAY for m in listed)


def version_number(text: str) -> str | None:
    """A version as the index writes it ("" for any); None for what Triton refuses in words of its own."""
    if not text:
        return ""
    return str(int(text)) if text.isascii() and text.isdigit() and len(text) <= _MOST_VERSION_DIGITS else None


def model_is_ready(table: RoutingTable, state: FleetState, model: str, version: str) -> bool:
    """Whether an able backend has that version ready ("" for any)."""
    route = table.routes.get(model)
    for candidate in route.candidates if route else ():
        served = state.served(candidate.backend, model)
        if candidate.share > 0 and served and (not version or version in served.versions):
            return True
    return False


def server_metadata(state: FleetState) -> dict[str, Any]:
    """Name and version of one reachable server (always the same one), and the extensions that all of them have."""
    servers = [o.server for _, o in sorted(state.observations.items()) if o.reachable and o.server]
    if not servers:
        return {}
    everywhere = set.intersection(*(set(s.get("extensions", ())) for s in servers))
    shared_memory = {"system_shared_memory", "cuda_shared_memory", "trace", "logging"}
    return {
        "name": servers[0].get("name", ""),
        "version": servers[0].get("version", ""),
        "extensions": [e for e in servers[0].get("extensions", ()) if e in everywhere - shared_memory],
    }


def repository_index(state: FleetState, ready_only: bool) -> list[dict[str, str]]:
    """The union of all repository indexes: READY where any backend is, else the state of one that is not."""
    ready: dict[tuple[str, str], dict[str, str]] = {}
    other: dict[tuple[str, str], dict[str, str]] = {}
    for observation in state.observations.values():
        for model in observation.models.values():
            for version in model.versions:
                ready[model.name, version] = {"name": model.name, "version": version, "state": "READY"}
            for version, (said, reason) in model.unavailable.items():
                entry = {"name": model.name, "version": version, "state": said, "reason": reason}
                other[model.name, version] = {k: v for k, v in entry.items() if v}
    merged = ready if ready_only else {**other, **ready}
    return [merged[key] for key in sorted(merged)]


def sum_statistics(answers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`model_stats` of several servers as one: counters added, `last_inference` the newest.

    Args:
        answers: ModelStatisticsResponse messages in JSON form (numbers may be strings, as protobuf writes int64).
    """
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for answer in answers:
        for stats in answer.get("model_stats", ()):
            key = (stats.get("name", ""), stats.get("version", ""))
            merged[key] = _add(merged[key], stats) if key in merged else dict(stats)
    return [merged[key] for key in sorted(merged)]


def _add(a: Any, b: Any, name: str = "") -> Any:
    """Two JSON values of the same meaning as one."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return {k: _add(a[k], b[k], k) if k in a and k in b else a.get(k, b.get(k)) for k in {**a, **b}}
    if isinstance(a, list) and isinstance(b, list):
        return _add_batches(a, b)
    if name in {"name", "version"} or not str(a).isdigit() or not str(b).isdigit():
        return a
    total = max(int(a), int(b)) if name == "last_inference" else int(a) + int(b)
    return str(total) if isinstance(a, str) else total


def _add_batches(a: list[Any], b: list[Any]) -> list[Any]:
    """Batch statistics are lists with an entry per batch size; memory usage lists are simply joined."""
    if not all(isinstance(x, Mapping) and "batch_size" in x for x in [*a, *b]):
        return a + b
    by_size = {x["batch_size"]: x for x in a}
    for entry in b:
        size = entry["batch_size"]
        merged = _add(by_size[size], entry) if size in by_size else entry
        by_size[size] = {**merged, "batch_size": size}
    return [by_size[size] for size in sorted(by_size, key=int)]
