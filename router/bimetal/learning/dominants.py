"""Which operators take most of a model's time, from the file that a pool's repository holds."""

from functools import lru_cache
from pathlib import Path

from bimetal.fleet.schema import Fleet
from bimetal.learning.operator_fold import Operator
from bimetal.operators import ModelFileError, analyze, default_matrix, verdict
from bimetal.operators.matrix.targets import Target, target_of

LEAST_SHARE = 0.25


def dominants_of(fleet: Fleet, model: str, pool: str) -> frozenset[Operator]:
    """The operators with a quarter of the model's estimated time in the pool, or more; empty where no file tells."""
    settings = fleet.pools[pool]
    versions = [path for path in (settings.repository / model).glob("*/model.onnx") if path.parent.name.isdecimal()]
    newest = max(versions, key=lambda path: int(path.parent.name), default=None)
    return frozenset() if newest is None else _dominants(newest, settings.provider)


@lru_cache(maxsize=256)
def _dominants(file: Path, provider: str) -> frozenset[Operator]:
    try:
        reasons = verdict(analyze(file), provider, default_matrix()).reasons
    except (ModelFileError, ValueError):
        return frozenset()
    return frozenset(Operator(r.domain, r.operator, r.version) for r in reasons if r.share >= LEAST_SHARE)


def own_targets(fleet: Fleet) -> dict[str, Target]:
    """The target of each pool whose every backend computes on what its provider is for."""
    found = {}
    for name, settings in fleet.pools.items():
        target = target_of(settings.provider)
        backends = [backend for backend in fleet.backends if backend.pool == name]
        if target is Target.CPU or (backends and all(backend.compute == "gpu" for backend in backends)):
            found[name] = target
    return found
