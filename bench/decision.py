"""The decision for a large fleet: the table computed and every resource for the gateway made."""

import statistics
import time
from pathlib import Path

from bimetal.fleet.schema import Fleet
from bimetal.policy.table import OperatorScore, decide
from bimetal.state.fleet_state import FleetState, absorb
from bimetal.state.observation import Observation, ServedModel
from bimetal.xds import envoy

MODELS, BACKENDS = 100, 50
_ROUNDS = 11


def decision_ms() -> float:
    """Median milliseconds from a changed observation to a snapshot that is ready to send."""
    fleet, state, scores = _large_fleet()
    taken = []
    for round_number in range(_ROUNDS):
        name = fleet.backends[round_number].name
        changed = Observation(name, error="refused")
        start = time.perf_counter()
        state = absorb(state, changed)
        envoy.snapshot(decide(fleet, state, {}, scores), fleet)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def _large_fleet() -> tuple[Fleet, FleetState, dict[tuple[str, str], OperatorScore]]:
    pools = {
        "cuda": {"vendor": "nvidia", "provider": "CUDAExecutionProvider", "repository": Path("/nowhere")},
        "rocm": {"vendor": "amd", "provider": "MIGraphXExecutionProvider", "repository": Path("/nowhere")},
    }
    backends = [
        {
            "name": f"b-{i}",
            "pool": ("cuda", "rocm")[i % 2],
            "host": f"10.0.0.{i + 1}",
            "http_port": 8000,
            "grpc_port": 8001,
            "metrics_port": 8002,
            "devices": [{"model": "some", "memory_bandwidth_gbs": 1000 + i}],
        }
        for i in range(BACKENDS)
    ]
    fleet = Fleet.model_validate({"version": 1, "state_dir": "/nowhere", "pools": pools, "backends": backends})
    models = {f"m-{i}": ServedModel(f"m-{i}", ("1",)) for i in range(MODELS)}
    state = FleetState()
    for backend in fleet.backends:
        state = absorb(state, Observation(backend.name, models=models, pending=1.0))
    return fleet, state, {(m, p): OperatorScore(4, ()) for m in models for p in pools}
