"""What the router saw of a backend: plain values, made by the probes and read by policy and control."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class ServedModel:
    """One model on one backend.

    Attributes:
        versions: versions that the repository index calls READY, ascending by number.
        unavailable: versions in another state, with the state and the reason that Triton gives.
        config: ModelConfig as Triton's JSON names it; empty until it was fetched.
        metadata: ModelMetadata as Triton's JSON names it; empty until it was fetched.
    """

    name: str
    versions: tuple[str, ...] = ()
    unavailable: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def ready(self) -> bool:
        """Whether at least one version is READY."""
        return bool(self.versions)

    @property
    def stateful(self) -> bool:
        """Whether requests of one sequence must stay on one backend and are never retried."""
        return "sequence_batching" in self.config

    @property
    def decoupled(self) -> bool:
        """Whether one request may have any number of responses (stream only)."""
        return bool(self.config.get("model_transaction_policy", {}).get("decoupled", False))


@dataclass(frozen=True)
class ThermalReading:
    """How hot the devices of one backend are.

    Attributes:
        margin_c: °C between its hottest device and the temperature at which that slows down; None if unknown.
    """

    backend: str
    margin_c: float | None


@dataclass(frozen=True)
class Observation:
    """What one probe of one backend found.

    Attributes:
        backend: name in the fleet file.
        error: why the backend could not be reached; None if it answered.
        server: ServerMetadata (name, version, extensions); empty if unreachable.
        models: by name.
        pending: requests waiting in its queues, as a mean over the last seconds; None if the metrics endpoint
            did not say.
        stopping: whether it was marked as about to stop (`router.probes.triton.STOPPING_REGION`).
    """

    backend: str
    error: str | None = None
    server: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, ServedModel] = field(default_factory=lambda: MappingProxyType({}))
    pending: float | None = None
    stopping: bool = False

    @property
    def reachable(self) -> bool:
        """Whether the backend answered its last probe."""
        return self.error is None
