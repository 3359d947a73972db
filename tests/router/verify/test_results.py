"""The document: what is written is what is read, and what is no document is refused in words."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bimetal.errors import BimetalError
from bimetal.operators.matrix.targets import Target
from bimetal.verify import Results, ResultsError, read_results, write_results
from bimetal.verify.results import default_file


@pytest.fixture
def document(cases_of: Callable[..., Any], verify_on_cpu: Callable[..., Results]) -> Results:
    return verify_on_cpu(cases_of("Relu", "RoiAlign"), repeats=1)


def test_a_document_survives_its_file(document: Results, tmp_path: Path) -> None:
    write_results(document, tmp_path / "new" / "results.json")
    assert read_results(tmp_path / "new" / "results.json") == document
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["results.json"]


def test_the_document_names_host_versions_provider_and_date(document: Results, tmp_path: Path) -> None:
    write_results(document, tmp_path / "results.json")
    values = json.loads((tmp_path / "results.json").read_text())
    assert values["format"] == 1
    assert (values["target"], values["provider"]) == ("cpu", "CPUExecutionProvider")
    assert values["host"]["cpus"] >= 1
    assert values["onnxruntime"][0].isdigit()
    assert datetime.fromisoformat(values["started"]).tzinfo is not None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "format: Input should be 1"),
        ({"target": "gpu"}, "target: Input should be 'cuda'"),
        ({"started": "2026-05-04T12:00:00"}, "started: Input should have timezone info"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"records": [{"operator": "Relu"}]}, "records.0.domain: Field required"),
    ],
)
def test_a_document_with_a_bad_field_is_refused_by_file_and_field(
    document: Results, tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({**json.loads(document.model_dump_json()), **change}))
    with pytest.raises(ResultsError) as refused:
        read_results(file)
    assert str(refused.value).startswith(f"{file}: no verification results: {complaint}")
    assert "Run `bimetal ops verify` on that host again, or remove the file." in str(refused.value)


@pytest.mark.parametrize("content", [b"", b'{"format": 1, "tar', b"\x80\x00binary", b"[]"])
def test_a_corrupt_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(content)
    with pytest.raises(ResultsError, match=r"results\.json: no verification results"):
        read_results(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot be read"):
        read_results(tmp_path)


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_left(document: Results, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BimetalError, match="cannot be written"):
        write_results(document, tmp_path / "file" / "results.json")


def test_each_run_has_a_file_of_its_own() -> None:
    started = datetime(2026, 5, 4, 12, 30, 5, tzinfo=UTC)
    assert default_file(Path("v"), "h200-3", Target.CUDA, started) == Path("v/h200-3-cuda-20260504T123005Z.json")
