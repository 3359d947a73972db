"""Which backends are home to a model, as observations come in."""

from collections.abc import Callable

from bimetal.state.fleet_state import FleetState, absorb
from bimetal.state.observation import Observation, ServedModel


def test_a_backend_that_dies_stays_home_to_its_models(state_of: Callable[..., FleetState]) -> None:
    state = absorb(state_of(cuda_0="m"), Observation("cuda-0", error="refused"))
    assert state.models["m"].homes == {"cuda-0"}
    assert state.served("cuda-0", "m") is None


def test_a_model_moves_when_its_backend_stops_listing_it(state_of: Callable[..., FleetState]) -> None:
    state = absorb(state_of(cuda_0="m", rocm_0="m"), Observation("cuda-0"))
    assert state.models["m"].homes == {"rocm-0"}


def test_a_model_without_a_home_is_forgotten(state_of: Callable[..., FleetState]) -> None:
    assert absorb(state_of(cuda_0="m"), Observation("cuda-0")).models == {}


def test_absorbing_leaves_the_older_state_as_it_was(state_of: Callable[..., FleetState]) -> None:
    before = state_of(cuda_0="m")
    absorb(before, Observation("cuda-0"))
    assert before.models["m"].homes == {"cuda-0"}


def test_a_model_that_is_loading_for_the_first_time_has_a_home_already() -> None:
    loading = ServedModel("m", (), {"1": ("LOADING", "")})
    assert absorb(FleetState(), Observation("cuda-0", models={"m": loading})).models["m"].homes == {"cuda-0"}
