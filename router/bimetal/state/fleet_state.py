"""The fleet state: the newest observation of each backend, and which backends are home to a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from bimetal.state.observation import Observation, ServedModel, ThermalReading


@dataclass(frozen=True)
class KnownModel:
    """A model that at least one backend has reported.

    Attributes:
        homes: backends that have it, or had it when they were last reachable.
        stateful: whether any of them declares sequence batching.
    """

    name: str
    homes: frozenset[str]
    stateful: bool


@dataclass(frozen=True)
class FleetState:
    """Everything observed so far. A value: `absorb` and `warm` return the next one.

    Attributes:
        thermal_margins: °C by backend, as in `ThermalReading`; a missing one is unknown.
    """

    observations: Mapping[str, Observation] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, KnownModel] = field(default_factory=lambda: MappingProxyType({}))
    thermal_margins: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def served(self, backend: str, model: str) -> ServedModel | None:
        """The model as that backend last reported it; None if unreachable or not listed."""
        observation = self.observations.get(backend)
        return observation.models.get(model) if observation else None


def absorb(state: FleetState, new: Observation) -> FleetState:
    """The fleet state after one more observation.

    An unreachable backend stays home to its models, so that they keep a route with an honest error. A model
    that no reachable or remembered backend lists any more is forgotten.
    """
    observations = {**state.observations, new.backend: new}
    if not new.reachable:
        return replace(state, observations=observations)
    models = {name: replace(model, homes=model.homes - {new.backend}) for name, model in state.models.items()}
    for name, served in new.models.items():
        before = models.get(name, KnownModel(name, frozenset(), stateful=False))
        models[name] = KnownModel(
            name,
            before.homes | {new.backend},
            stateful=served.stateful or (before.stateful and bool(before.homes)),
        )
    return replace(state, observations=observations, models={name: m for name, m in models.items() if m.homes})


def warm(state: FleetState, new: ThermalReading) -> FleetState:
    """The fleet state after one more reading of a backend's temperatures."""
    margins = {name: margin for name, margin in state.thermal_margins.items() if name != new.backend}
    if new.margin_c is not None:
        margins[new.backend] = new.margin_c
    return replace(state, thermal_margins=margins)
