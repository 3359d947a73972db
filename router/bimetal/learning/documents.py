"""What the store keeps of the learning, as JSON documents. Frozen values; unknown fields are refused."""

from pydantic import BaseModel, ConfigDict, Field

from bimetal.learning.evidence import Key
from bimetal.operators.matrix.matrix import Place
from bimetal.operators.matrix.targets import Target

STATISTICS = "statistics"
"""Kind of the record that holds a `Statistics`, and begin of its name: each router writes its own, only the newest is
kept."""
LESSONS = "lessons"
"""Kind of the record that holds a `Lessons`: written by `bimetal learn`, every version is kept."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArmRecord(_Document):
    """The sketches of one arm at one time (Unix seconds): weight by bucket."""

    model: str
    backend: str
    size_class: str
    at: float
    recent: dict[int, float]
    week: dict[int, float]


class BeliefRecord(_Document):
    """Evidence as it was last applied, so that a restart moves no share."""

    model: str
    backend: str
    size_class: str
    seconds: float = Field(gt=0)
    requests: float = Field(gt=0)
    remembered: float = 0.0
    version: int = 0
    learned_at: float = 0.0


class Statistics(_Document):
    """Everything that the router has measured and believes."""

    arms: tuple[ArmRecord, ...] = ()
    beliefs: tuple[BeliefRecord, ...] = ()


class PoolTime(_Document):
    """How long a model takes in a pool, as a `bimetal learn` found it.

    `computed_on` is `cpu` if any of the measured backends computes on the CPU, whatever its pool is named after; `at`
    is when that was found, in Unix seconds.
    """

    model: str
    pool: str
    size_class: str
    seconds: float = Field(gt=0)
    requests: float = Field(gt=0)
    computed_on: str
    at: float = 0.0

    @property
    def arm(self) -> Key:
        """The pool's place in the order of all: (model, pool, size class)."""
        return Key(self.model, self.pool, self.size_class)


class OperatorLesson(_Document):
    """How fast an operator was in the pools of a target, as `bimetal learn` found it: a cell of the operator matrix.

    `score` is 3 to 5, `at` when it was found (Unix seconds), `models` those that the operator dominates.
    """

    domain: str
    operator: str
    version: int
    target: Target
    score: int = Field(ge=3, le=5)
    reason: str
    models: tuple[str, ...]
    at: float

    @property
    def place(self) -> Place:
        """Where it is in the operator matrix."""
        return self.domain, self.operator, self.version, self.target


class Lessons(_Document):
    """One version of what was learned: of every (model, pool, size class), and of operators."""

    times: tuple[PoolTime, ...] = ()
    operators: tuple[OperatorLesson, ...] = ()
