"""The `learning` section of the fleet file."""

from pydantic import BaseModel, ConfigDict, Field


class LearningSettings(BaseModel):
    """How measured service times move the weights; docs/learning.md gives the reasons."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
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
    half_life_s: float = Field(default=3600, gt=0)
    most_waiting: float = Field(default=1, gt=0)
    """While at least this many requests wait in a backend's queues, times tell of the queue, not of the device."""
    interval_s: float = Field(default=2, gt=0)
    """Least time between two changes of what is believed of one model."""
