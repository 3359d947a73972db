"""The decision: from what was observed to a routing table. Pure."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from bimetal.breaker.breaker import NEW, Breaker, State
from bimetal.fleet.schema import Backend, Fleet
from bimetal.fleet.size_class import SizeClass
from bimetal.learning.bandit import with_floor
from bimetal.learning.evidence import Beliefs, Evidence, Key
from bimetal.policy.weights import Factors, Standing, load_factor, temperature_factor, weigh
from bimetal.state.fleet_state import FleetState, KnownModel
from bimetal.state.observation import Observation


@dataclass(frozen=True)
class OperatorScore:
    """What a model's operators say about one pool; `value` None when no model file could be read."""

    value: int | None
    reasons: tuple[str, ...]


UNKNOWN_OPERATORS = OperatorScore(
    None, ("no ONNX or PyTorch file in the pool's repository: its operators are unknown",)
)

Scores = Mapping[tuple[str, str], OperatorScore]
"""(model, pool) → operator score."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One backend as a place for one model.

    Attributes:
        factors: what its weight is made of; None for a blocked backend.
        share: part of the model's traffic that it should get, 0..1.
        large_share: the same for large requests; equal to `share` where the model has no size classes.
        evidence: what its factors were taught by, of small requests; None if it was not measured.
        blocked: why it gets nothing whatever its factors would be; "" if nothing blocks it.
        draining: it gets nothing new, and may still be at work on what it has.
    """

    backend: str
    pool: str
    score: OperatorScore
    factors: Factors | None
    share: float
    large_share: float
    blocked: str = ""
    evidence: Evidence | None = None
    draining: bool = False


@dataclass(frozen=True)
class ModelRoute:
    """Where requests for one model go.

    Attributes:
        stateful: requests of one sequence stay on one backend and are never retried.
        large_from: batch dimension from which a request is large; None if the model has no size classes.
    """

    model: str
    stateful: bool
    candidates: tuple[Candidate, ...]
    large_from: int | None = None

    def share_of(self, candidate: Candidate, size: SizeClass) -> float:
        """A candidate's share of the requests of one size class."""
        return candidate.large_share if size is SizeClass.LARGE else candidate.share

    @property
    def size_classes(self) -> tuple[SizeClass, ...]:
        """The size classes that are routed apart."""
        return tuple(SizeClass) if self.large_from else (SizeClass.SMALL,)

    @property
    def shares(self) -> dict[str, float]:
        """Share by backend, those with none included. They sum to 1, or to 0 without an able backend."""
        return {c.backend: c.share for c in self.candidates}


@dataclass(frozen=True)
class RoutingTable:
    """Model → backends with weights: the whole decision."""

    routes: Mapping[str, ModelRoute] = field(default_factory=lambda: MappingProxyType({}))


def decide(
    fleet: Fleet,
    state: FleetState,
    breakers: Mapping[str, Breaker],
    scores: Scores,
    drained: Set[str] = frozenset(),
    *,
    beliefs: Beliefs = MappingProxyType({}),
    bandwidths: Mapping[str, float] = MappingProxyType({}),
) -> RoutingTable:
    """The routing table for what is known now.

    Args:
        breakers: by backend; missing means Healthy.
        scores: operator scores; missing means unknown.
        drained: backends that a person wants empty.
        beliefs: measured times; missing means not measured.
        bandwidths: memory bandwidths in GB/s that were measured, in place of the fleet file's.
    """
    places = {
        b.name: _place(
            b,
            fleet,
            state,
            breakers.get(b.name, NEW),
            bandwidths.get(b.name, b.bandwidth_gbs),
            drained=b.name in drained,
        )
        for b in fleet.backends
    }
    return RoutingTable(
        {name: _route(places, scores, state.models[name], fleet, beliefs) for name in sorted(state.models)}
    )


class _Place(NamedTuple):
    """A backend as every model sees it: why it is closed to all of them, and what it brings."""

    pool: str
    closed: str
    draining: bool
    observation: Observation
    standing: Standing


def _place(
    backend: Backend, fleet: Fleet, state: FleetState, breaker: Breaker, bandwidth_gbs: float | None, *, drained: bool
) -> _Place:
    observation = state.observations.get(backend.name, Observation(backend.name, error="not probed yet"))
    closed, draining = "", False
    if not observation.reachable:
        closed = f"unreachable: {observation.error}"
    elif breaker.state in {State.ISOLATED, State.FAULTED}:
        closed = f"{breaker.state}: {breaker.reason}"
    elif drained:
        closed, draining = "drained by a person", True
    elif observation.stopping:
        closed, draining = "about to stop", True
    degraded = breaker.state is State.DEGRADED
    standing = Standing(
        bandwidth_gbs,
        load_factor(observation.pending, fleet.policy.pending_half),
        fleet.breaker.degraded_weight if degraded else 1.0,
        temperature_factor(state.thermal_margins.get(backend.name), fleet.policy.cool_margin_c),
    )
    return _Place(backend.pool, closed, draining, observation, standing)


def _route(
    places: Mapping[str, _Place], scores: Scores, model: KnownModel, fleet: Fleet, beliefs: Beliefs
) -> ModelRoute:
    homes = {name: place for name, place in places.items() if name in model.homes}
    blocked = {name: place.closed or _not_ready(place, model.name) for name, place in homes.items()}
    judged = {name: scores.get((model.name, place.pool), UNKNOWN_OPERATORS) for name, place in homes.items()}
    able = {name: _Seen(judged[name].value, place) for name, place in homes.items() if not blocked[name]}
    settings = fleet.models.get(model.name)
    factors = _factors(able, model, fleet, beliefs, SizeClass.SMALL)
    shares = large = _shares(factors, model, fleet)
    if settings:
        large = _shares(_factors(able, model, fleet, beliefs, SizeClass.LARGE), model, fleet)
    return ModelRoute(
        model.name,
        model.stateful,
        tuple(
            Candidate(
                name,
                place.pool,
                judged[name],
                factors.get(name),
                shares.get(name, 0.0),
                large.get(name, 0.0),
                blocked[name],
                None if model.stateful else beliefs.get(Key(model.name, name)),
                place.draining,
            )
            for name, place in homes.items()
        ),
        settings.large_from if settings else None,
    )


class _Seen(NamedTuple):
    """An able backend as one model sees it."""

    score: int | None
    place: _Place


def _factors(
    able: Mapping[str, _Seen], model: KnownModel, fleet: Fleet, beliefs: Beliefs, size: SizeClass
) -> dict[str, Factors]:
    settings = fleet.models.get(model.name)
    by_pool = settings.large if settings and size is SizeClass.LARGE else {}
    candidates = {}
    for name, (score, place) in able.items():
        standing, by_size = place.standing, by_pool.get(place.pool, 1.0)
        if model.stateful:
            # A change of weights moves sequences, and one that moves is lost: only what stands still counts.
            standing = Standing(standing.bandwidth_gbs, load=1.0, breaker=1.0, size=by_size)
        else:
            evidence = beliefs.get(Key(model.name, name, size)) if beliefs else None
            if evidence or by_size != 1.0:
                standing = standing._replace(evidence=evidence, size=by_size)
        candidates[name] = (score, standing)
    return weigh(candidates, fleet.learning)


def _shares(factors: Mapping[str, Factors], model: KnownModel, fleet: Fleet) -> dict[str, float]:
    explores = fleet.learning.enabled and not model.stateful
    return with_floor({name: f.product for name, f in factors.items()}, fleet.learning.floor if explores else 0.0)


def _not_ready(place: _Place, model: str) -> str:
    served = place.observation.models.get(model)
    if served is not None and served.ready:
        return ""
    unavailable = served.unavailable if served else {}
    said = [f"version {v or '-'} {state} {reason}".strip() for v, (state, reason) in unavailable.items()]
    return f"model not ready: {'; '.join(said) or 'not in the repository index'}"
