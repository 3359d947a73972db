"""Models that others made: those that bimetal serves, and the whole ONNX node-test set."""

import warnings
from pathlib import Path

import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases

from bimetal.model_repo.generate import generate
from bimetal.operators import ModelFileError, Placement, analyze, default_matrix, judge, place
from bimetal.operators.matrix.targets import PROVIDER_TARGETS

CUDA, MIGRAPHX, CPU = "CUDAExecutionProvider", "MIGraphXExecutionProvider", "CPUExecutionProvider"
CACHE = Path(__file__).parents[3] / ".cache" / "model-weights"


@pytest.fixture(scope="module")
def node_tests(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every model of ONNX's node tests, as files."""
    folder = tmp_path_factory.mktemp("node-tests")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # their reference results divide by zero on purpose
        cases = collect_testcases(None)
    files = []
    for case in cases:
        if case.model is not None:
            file = folder / f"{case.name}.onnx"
            file.write_bytes(case.model.SerializeToString())
            files.append(file)
    return files


def test_every_onnx_node_test_is_judged_for_every_provider(node_tests: list[Path]) -> None:
    matrix = default_matrix()
    assert len(node_tests) > 1500
    for file in node_tests:
        profile = analyze(file)
        assert profile.graph.nodes, file
        for provider, verdict in place(profile, matrix, PROVIDER_TARGETS).verdicts.items():
            assert 0 <= verdict.score <= 5
            unknown = [reason for reason in verdict.reasons if reason.source == "none"]
            # Classical learning, training and previews: domains that the matrix does not cover.
            assert all(reason.domain.startswith("ai.onnx.") for reason in unknown), (file, provider)


def test_models_inside_the_onnx_package_are_read() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    files = sorted(folder.glob("*/*/model.onnx"))
    assert len(files) > 100
    for file in files:
        assert analyze(file).graph.nodes


def served(name: str, folder: Path) -> Placement:
    """The placement of a model that bimetal generates itself."""
    file = folder / f"{name}.onnx"
    file.write_bytes(generate(name))
    return place(analyze(file), default_matrix())


def test_the_rope_block_belongs_to_nvidia(tmp_path: Path) -> None:
    placement = served("rope_attention", tmp_path)
    assert (placement.verdicts[CUDA].score, placement.verdicts[MIGRAPHX].score) == (5, 2)
    assert placement.verdicts[MIGRAPHX].reasons[0].operator == "RotaryEmbedding"


def test_the_quantised_block_belongs_to_amd(tmp_path: Path) -> None:
    placement = served("qlinear_block", tmp_path)
    assert placement.verdicts[CUDA].score < placement.verdicts[MIGRAPHX].score
    assert placement.must["QLinearConv(10)"] == MIGRAPHX


def wheel_model(name: str) -> Path:
    """The weights of a model source, where `make model-repo` has fetched them already."""
    source = (Path(__file__).parents[3] / "model_repo" / "models" / name / "model.yml").read_text()
    digest = next(line.split()[-1] for line in source.splitlines() if line.strip().startswith("sha256:"))
    file = CACHE / f"{digest}.onnx"
    if not file.is_file():
        pytest.skip(f"the weights of {name} are not in the cache; `make model-repo` fetches them")
    return file


def test_the_ocr_detector_is_warned_of_on_amd_for_its_dynamic_images() -> None:
    file = wheel_model("ocr_det")
    assert judge(file, CUDA).score >= 4
    amd = judge(file, MIGRAPHX)
    assert amd.score == 2
    assert any("images of dynamic size" in warning.text for warning in amd.warnings)


def test_the_voice_detector_is_warned_of_on_amd_for_its_dynamic_conv1d() -> None:
    amd = judge(wheel_model("vad_lstm"), MIGRAPHX)
    assert amd.score == 1
    assert any("one-dimensional convolution of dynamic length" in warning.text for warning in amd.warnings)


def test_the_file_type_classifier_needs_computed_shapes_that_amd_refuses() -> None:
    amd = judge(wheel_model("file_type"), MIGRAPHX)
    assert amd.score == 1
    assert amd.reasons[0].operator == "Expand"


def test_a_model_of_another_format_is_refused_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"w":{}}' + bytes(100))
    with pytest.raises(ModelFileError):
        judge(file, CUDA)
