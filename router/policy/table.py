"""The decision: from what was observed to a routing table. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from router.fleet import Backend, Fleet
from router.fleet_state import FleetState, KnownModel
from router.observation import Observation
from router.policy.breaker import NEW, Breaker, State
from router.policy.weights import Factors, Standing, load_factor, weigh


@dataclass(frozen=True)
class OperatorScore:
    """What a model's operators say about one pool; `value` None when no model file could be read."""

    value: int | None
    reasons: tuple[str, ...]


UNKNOWN_OPERATORS = OperatorScore(None, ("no ONNX file in the pool's repository: its operators are unknown",))

Scores = Mapping[tuple[str, str], OperatorScore]
"""(model, pool) → operator score."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One backend as a place for one model.

    Attributes:
        factors: what its weight is made of; None for a blocked backend.
        share: part of the model's traffic that it should get, 0..1.
        blocked: why it gets nothing whatever its factors would be; "" if nothing blocks it.
    """

    backend: str
    pool: str
    score: OperatorScore
    factors: Factors | None
    share: float
    blocked: str = ""


@dataclass(frozen=True)
class ModelRoute:
    """Where requests for one model go."""

    model: str
    stateful: bool
    candidates: tuple[Candidate, ...]

    @property
    def shares(self) -> dict[str, float]:
        """Share by backend, those with none included. They sum to 1, or to 0 without an able backend."""
        return {c.backend: c.share for c in self.candidates}


@dataclass(frozen=True)
class RoutingTable:
    """Model → backends with weights: the whole decision."""

    routes: Mapping[str, ModelRoute] = field(default_factory=lambda: MappingProxyType({}))


def decide(fleet: Fleet, state: FleetState, breakers: Mapping[str, Breaker], scores: Scores) -> RoutingTable:
    """The routing table for what is known now.

    Args:
        breakers: by backend; missing means Healthy.
        scores: operator scores; missing means unknown.
    """
    places = {b.name: _place(b, fleet, state, breakers.get(b.name, NEW)) for b in fleet.backends}
    return RoutingTable({name: _route(places, scores, state.models[name]) for name in sorted(state.models)})


class _Place(NamedTuple):
    """A backend as every model sees it: why it is closed to all of them, and what it brings."""

    pool: str
    closed: str
    observation: Observation
    standing: Standing


def _place(backend: Backend, fleet: Fleet, state: FleetState, breaker: Breaker) -> _Place:
    observation = state.observations.get(backend.name, Observation(backend.name, error="not probed yet"))
    closed = ""
    if not observation.reachable:
        closed = f"unreachable: {observation.error}"
    elif breaker.state in {State.ISOLATED, State.FAULTED}:
        closed = f"{breaker.state}: {breaker.reason}"
    degraded = breaker.state is State.DEGRADED
    standing = Standing(
        backend.bandwidth_gbs,
        load_factor(observation.pending, fleet.policy.pending_half),
        fleet.breaker.degraded_weight if degraded else 1.0,
    )
    return _Place(backend.pool, closed, observation, standing)


def _route(places: Mapping[str, _Place], scores: Scores, model: KnownModel) -> ModelRoute:
    homes = {name: place for name, place in places.items() if name in model.homes}
    blocked = {name: place.closed or _not_ready(place, model.name) for name, place in homes.items()}
    judged = {name: scores.get((model.name, place.pool), UNKNOWN_OPERATORS) for name, place in homes.items()}
    factors = weigh({name: (judged[name].value, place.standing) for name, place in homes.items() if not blocked[name]})
    total = sum(f.product for f in factors.values())
    return ModelRoute(
        model.name,
        model.stateful,
        tuple(
            Candidate(
                name,
                place.pool,
                judged[name],
                factors.get(name),
                factors[name].product / total if name in factors else 0.0,
                blocked[name],
            )
            for name, place in homes.items()
        ),
    )


def _not_ready(place: _Place, model: str) -> str:
    served = place.observation.models.get(model)
    if served is not None and served.ready:
        return ""
    unavailable = served.unavailable if served else {}
    said = [f"version {v or '-'} {state} {reason}".strip() for v, (state, reason) in unavailable.items()]
    return f"model not ready: {'; '.join(said) or 'not in the repository index'}"
