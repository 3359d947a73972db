"""The router's view of itself as JSON: `status` and `explain`. Pure; the CLI and the admin API show the same."""

from collections.abc import Mapping, Set
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from bimetal.breaker.breaker import NEW, Breaker
from bimetal.errors import UnknownModelError
from bimetal.fleet.schema import Fleet
from bimetal.fleet.settings import LearningSettings
from bimetal.learning.bandit import prior_part
from bimetal.learning.evidence import Evidence
from bimetal.policy.table import Candidate, RoutingTable
from bimetal.policy.weights import Factors
from bimetal.state.fleet_state import FleetState


def status(
    fleet: Fleet,
    state: FleetState,
    *,
    breakers: Mapping[str, Breaker],
    table: RoutingTable,
    drained: Set[str],
    store_error: str | None,
) -> dict[str, Any]:
    """Backends with breaker state and models; models with shares (0..1 by backend, summing to 1 or 0)."""
    return {
        "backends": [
            {**_backend(b.name, fleet, state, breakers.get(b.name, NEW)), "drained": b.name in drained}
            for b in fleet.backends
        ],
        "models": [{"name": r.model, "shares": _rounded(r.shares)} for r in table.routes.values()],
        "store": {"ok": store_error is None, "error": store_error},
    }


def _backend(name: str, fleet: Fleet, state: FleetState, breaker: Breaker) -> dict[str, Any]:
    backend = fleet.backend(name)
    observation = state.observations.get(name)
    models = observation.models.values() if observation else ()
    return {
        "name": name,
        "pool": backend.pool,
        "vendor": fleet.pool_of(backend).vendor,
        "compute": backend.compute,
        "state": breaker.state.value,
        "tier": breaker.tier.value if breaker.tier else None,
        "until": breaker.until,
        "reason": breaker.reason,
        "ready": bool(observation and observation.reachable),
        "error": observation.error if observation else "not probed yet",
        "stopping": bool(observation and observation.stopping),
        "models": sorted(m.name for m in models if m.ready),
    }


def explain(model: str, fleet: Fleet, table: RoutingTable) -> dict[str, Any]:
    """Per backend: operator score, the factors of its weight, its share, and every reason in words.

    Raises:
        UnknownModelError: no backend has reported that model.
    """
    route = table.routes.get(model)
    if route is None:
        known = ", ".join(table.routes) or "none yet"
        raise UnknownModelError(f"no backend has reported a model named {model!r}.", f"Known models: {known}.")
    return {
        "model": model,
        "stateful": route.stateful,
        "backends": [_candidate(c, fleet) for c in route.candidates],
    }


def _candidate(candidate: Candidate, fleet: Fleet) -> dict[str, Any]:
    backend = fleet.backend(candidate.backend)
    pool = fleet.pool_of(backend)
    factors = candidate.factors
    return {
        "name": candidate.backend,
        "pool": candidate.pool,
        "vendor": pool.vendor,
        "provider": pool.provider,
        "compute": backend.compute,
        "score": candidate.score.value,
        "factors": {k: round(v, 4) for k, v in factors._asdict().items()} if factors else {},
        "weight": round(factors.product, 4) if factors else 0.0,
        "share": round(candidate.share, 4),
        "evidence": asdict(candidate.evidence) if candidate.evidence else None,
        "reasons": [
            *([candidate.blocked] if candidate.blocked else []),
            *_why(candidate, fleet.learning),
            *candidate.score.reasons,
        ],
    }


def _why(candidate: Candidate, learning: LearningSettings) -> list[str]:
    """What the factors mean, where they move the weight."""
    factors = candidate.factors
    if factors is None:
        return []
    words = []
    if factors.operators == 0:
        words.append("another backend is in a better class for its operators: no traffic")
    elif candidate.evidence:
        words += _measured(candidate.evidence, factors, learning)
    if factors.bandwidth < 1:
        fade = prior_part(candidate.evidence, learning) if factors.operators > 0 else 1.0
        words.append(f"memory bandwidth is {factors.bandwidth ** (1 / fade):.0%} of the fastest candidate's")
    if factors.temperature < 1:
        words.append(f"its hottest device is close to slowing down: weight x {factors.temperature:.1f}")
    if factors.load < 1:
        words.append(f"requests are waiting in its queues: weight x {factors.load:.1f}")
    if factors.breaker < 1:
        words.append(f"its breaker is Degraded: weight x {factors.breaker:g}")
    return words


def _measured(evidence: Evidence, factors: Factors, learning: LearningSettings) -> list[str]:
    words = [
        f"measured: {evidence.seconds * 1000:.3g} ms a request without waiting: weight x {factors.measured:.2g}; "
        f"counts as {evidence.requests:.0f} requests, operator score and bandwidth as {learning.prior_requests:g}"
    ]
    if evidence.remembered:
        lessons = f"its pool's time, measured on this cluster{_on(evidence.learned_at)} (lessons {evidence.version})"
        words.append(f"{evidence.remembered:.0f} of these requests stand for {lessons}")
    return words


def _on(at: float) -> str:
    """A date; nothing for lessons that were written before they had one."""
    return f" up to {datetime.fromtimestamp(at, UTC):%Y-%m-%d}" if at else ""


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items()}
