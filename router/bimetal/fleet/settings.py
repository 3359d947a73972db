"""How the router may treat the fleet: the sections of the fleet file that have a number for every habit."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A part of the fleet file: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BreakerSettings(Section):
    """When a backend is degraded, isolated, and for how long (seconds)."""

    degrade_after: int = Field(default=1, ge=1)
    """Failures in a row from which a backend is Degraded."""
    isolate_after: int = Field(default=3, ge=1)
    """Failures in a row from which it is Isolated."""
    recover_after: int = Field(default=10, ge=1)
    """Successes in a row after which a Degraded backend is Healthy."""
    transient_cooldown_s: float = Field(default=300, gt=0)
    """Isolation after time-outs and lost connections, in seconds."""
    persistent_cooldown_s: float = Field(default=1800, gt=0)
    """Isolation after memory ran out, in seconds."""
    degraded_weight: float = Field(default=0.5, gt=0, le=1)
    """Factor on the weight of a Degraded backend."""

    @model_validator(mode="after")
    def _isolation_comes_after_degradation(self) -> Self:
        if self.isolate_after <= self.degrade_after:
            raise ValueError(f"isolate_after must be above degrade_after ({self.degrade_after})")
        return self


class PolicySettings(Section):
    """How observations become weights."""

    pending_half: float = Field(default=32, gt=0)
    """Requests waiting in a backend's queues at which its weight is halved."""
    cool_margin_c: float = Field(default=10, gt=0)
    """°C below the temperature at which a device slows down from which on its heat does not matter."""
    retry_percent: float = Field(default=20, ge=0, le=100)
    """Retries that one model may have at once, in percent of its requests in flight."""
    retry_min_concurrent: int = Field(default=64, ge=0)
    """Retries always allowed at once. Peers have 3; losing one backend with more than 3 requests in
    flight then shows clients errors, so the floor is what one backend may have in flight."""


class ProbeSettings(Section):
    """How often the router looks at each Triton, in seconds."""

    interval_s: float = Field(default=0.25, ge=0.02)
    """Between two probes of one Triton."""
    timeout_s: float = Field(default=2.0, gt=0)
    """After which a probe counts as not answered."""
    config_refresh_s: float = Field(default=60.0, gt=0)
    """How long a model's configuration may be remembered while its READY versions do not change."""
    gpu_metrics_interval_s: float = Field(default=15.0, gt=0)
    """Between two readings of a host's GPU metrics."""
    gpu_metrics_stale_s: float = Field(default=180.0, gt=0)
    """Age from which GPU metrics say nothing; the role gpu_probe writes them every 60 s."""


class LearningSettings(Section):
    """How measured service times move the weights; docs/learning.md gives the reasons."""

    enabled: bool = True
    """Whether measured times move weights at all."""
    prior_requests: float = Field(default=10, gt=0)
    """How many measured requests the operator score and the bandwidth count as."""
    lesson_requests: float = Field(default=20, ge=0)
    """How many measured requests the learned time of a pool (`bimetal learn`) counts as."""
    floor: float = Field(default=0.03, ge=0, le=0.2)
    """Least share of an able backend of the best operator class, so that a wrong belief can be corrected."""
    sharpness: float = Field(default=4, gt=0, le=10)
    """Weight ~ (1 / time) ** sharpness: 1 shares in proportion to speed, more prefers the fastest."""
    indifference: float = Field(default=0.2, ge=0, le=2)
    """A backend that takes up to this much longer than the fastest counts as equally fast."""
    half_life_requests: float = Field(default=64, gt=0)
    """Newer requests after which a measured time counts half."""
    half_life_s: float = Field(default=3600, gt=0)
    """Seconds after which a measured time counts half."""
    most_waiting: float = Field(default=1, gt=0)
    """While at least this many requests wait in a backend's queues, times tell of the queue, not of the device."""
    interval_s: float = Field(default=2, gt=0)
    """Least time between two changes of what is believed of one model."""


class ModelSettings(Section):
    """What the router should do differently for one model.

    Devices differ in the batches that they like (AMD multiples of 32, NVIDIA of 8), so large requests may be shared
    out differently from small ones.
    """

    large_from: int = Field(ge=2)
    """Batch dimension from which a request is large."""
    large: dict[str, float] = Field(min_length=1)
    """Pool → factor (above 0, at most 1) on its weight for large requests; a pool that is not named keeps 1."""

    @model_validator(mode="after")
    def _factors_are_fractions(self) -> Self:
        wrong = {pool: f for pool, f in self.large.items() if not 0 < f <= 1}
        if wrong:
            raise ValueError(f"large: factors must be above 0 and at most 1, not {wrong}")
        return self
