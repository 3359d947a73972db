"""Small values that the router's tests share."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bimetal.fleet.schema import Fleet
from bimetal.state.fleet_state import FleetState, absorb
from bimetal.state.observation import Observation, ServedModel
from tests.postgres import Postgres


@pytest.fixture
def fleet_of(tmp_path: Path) -> Callable[..., Fleet]:
    """Makes a fleet: one backend per name, the pool before the dash; sections and per-backend extras on request."""

    def make(*names: str, extras: dict[str, dict[str, Any]] | None = None, **sections: Any) -> Fleet:
        backends = [
            {
                "name": name,
                "pool": name.split("-")[0],
                "host": "127.0.0.1",
                "http_port": 20000 + 10 * i,
                "grpc_port": 20001 + 10 * i,
                "metrics_port": 20002 + 10 * i,
                **(extras or {}).get(name, {}),
            }
            for i, name in enumerate(names)
        ]
        pools = {
            "cuda": {"vendor": "nvidia", "provider": "CUDAExecutionProvider", "repository": tmp_path / "cuda"},
            "rocm": {"vendor": "amd", "provider": "MIGraphXExecutionProvider", "repository": tmp_path / "rocm"},
            "cpu": {"vendor": "cpu", "provider": "CPUExecutionProvider", "repository": tmp_path / "cpu"},
        }
        document = {"version": 1, "state_dir": tmp_path, "pools": pools, "backends": backends, **sections}
        return Fleet.model_validate(document)

    return make


def observation(backend: str, *models: str, **fields: Any) -> Observation:
    """A reachable backend with those models ready."""
    return Observation(backend, models={m: ServedModel(m, ("1",)) for m in models}, **fields)


@pytest.fixture
def state_of() -> Callable[..., FleetState]:
    """Makes a fleet state from observations, or from `backend="model model"` for reachable ones."""

    def make(*observations: Observation, **served: str) -> FleetState:
        state = FleetState()
        for name, models in served.items():
            state = absorb(state, observation(name.replace("_", "-"), *models.split()))
        for each in observations:
            state = absorb(state, each)
        return state

    return make


@pytest.fixture
def seen() -> Callable[..., Observation]:
    """`observation` as a fixture."""
    return observation


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'router.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture(scope="session")
def run_async() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs a coroutine on the one event loop of the session: grpc.aio does not bear a second one in a process."""

    async def keep_grpc() -> None:
        grpc.aio.init_grpc_aio()

    with asyncio.Runner() as runner:
        runner.run(keep_grpc())
        yield runner.run
        gc.collect()  # a grpc server schedules its shutdown when it is freed: while there is a loop, please
        runner.run(asyncio.sleep(0))
