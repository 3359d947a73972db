"""When measured bandwidths take the place of data sheets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bimetal.calibration import CalibrationBook, CalibrationError, read_calibration
from bimetal.fleet.schema import Fleet
from bimetal.policy.table import decide
from bimetal.state.fleet_state import FleetState

FleetOf = Callable[..., Fleet]
RunAsync = Callable[..., Any]


def document(gbs: float, **more: object) -> str:
    device = {
        "name": "x",
        "kind": "gpu",
        "gemm_size": 1024,
        "gemm_type": "float16",
        "gemm_tflops": 100.0,
        "memory_bandwidth_gbs": gbs,
    }
    usual = {"host": "h", "vendor": "nvidia", "torch": "2", "started": "2026-01-01T00:00:00Z", "devices": [device]}
    return json.dumps(usual | more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "calibrated").mkdir()
    return tmp_path / "calibrated"


@pytest.fixture
def fleet(fleet_of: FleetOf) -> Fleet:
    """Data sheets say that rocm-0 is four times as fast."""
    sheets = {"cuda-0": 1000.0, "rocm-0": 4000.0}
    return fleet_of(
        *sheets, extras={n: {"devices": [{"model": "x", "memory_bandwidth_gbs": g}]} for n, g in sheets.items()}
    )


def test_measured_bandwidths_count_when_all_backends_have_them_and_not_before(
    fleet: Fleet, folder: Path, state_of: Callable[..., FleetState], run_async: RunAsync
) -> None:
    book = CalibrationBook(fleet)
    state = state_of(cuda_0="m", rocm_0="m")

    def shares() -> dict[str, float]:
        table = decide(fleet, state, {}, {}, bandwidths=book.bandwidths)
        return {c.backend: round(c.share, 2) for c in table.routes["m"].candidates}

    (folder / "rocm-0.json").write_text(document(3000))
    assert run_async(book.refresh()) is False
    assert shares() == {"cuda-0": 0.2, "rocm-0": 0.8}
    (folder / "cuda-0.json").write_text(document(1000))
    assert run_async(book.refresh()) is True
    assert shares() == {"cuda-0": 0.25, "rocm-0": 0.75}


def test_a_calibration_that_cannot_be_read_brings_the_data_sheets_back(
    fleet: Fleet, folder: Path, run_async: RunAsync
) -> None:
    book = CalibrationBook(fleet)
    for name in ("cuda-0", "rocm-0"):
        (folder / f"{name}.json").write_text(document(1000))
    assert run_async(book.refresh()) is True
    (folder / "cuda-0.json").write_text("{")
    assert run_async(book.refresh()) is True
    assert book.bandwidths == {}


def test_an_unchanged_folder_is_not_read_again(fleet: Fleet, folder: Path, run_async: RunAsync) -> None:
    book = CalibrationBook(fleet)
    for name in ("cuda-0", "rocm-0"):
        (folder / f"{name}.json").write_text(document(1000))
    assert run_async(book.refresh()) is True
    assert run_async(book.refresh()) is False
    assert book.bandwidths == {"cuda-0": 1000, "rocm-0": 1000}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (document(0), "devices.0.memory_bandwidth_gbs: Input should be greater than 0"),
        (document(1, devices=[]), "devices: Tuple should have at least 1 item"),
        (document(1, vendor="intel"), "vendor: Input should be 'nvidia', 'amd' or 'cpu'"),
        ("no JSON", "the document: Invalid JSON"),
    ],
)
def test_a_document_that_does_not_fit_is_named_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(CalibrationError) as error:
        read_calibration(file)
    assert str(error.value).startswith(f"{file}: no calibration: {words}")
    assert "Run ansible/playbooks/calibrate.yml for that host again" in str(error.value)
