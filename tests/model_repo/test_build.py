import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bimetal.model_repo.build import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Summary, build, main
from bimetal.model_repo.errors import OutputError, SourceError
from bimetal.model_repo.pools import Compute
from bimetal.model_repo.repository import MARKER
from bimetal.model_repo.sources import ModelSource, load_source, load_sources

OFFLINE = ("identity", "qlinear_block")  # models that need no wheel


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests fetch nothing: a build that tries fails at once."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def render(tmp_path: Path, out: Path) -> Callable[..., Summary]:
    def render(sources: dict[str, ModelSource] | None = None, **computes: Compute) -> Summary:
        models = sources or {name: load_sources()[name] for name in OFFLINE}
        return build(models, models, computes or {"cuda": "cpu"}, out=out, cache=tmp_path / "cache")

    return render


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def test_a_pools_repository_holds_config_runner_and_the_onnx_file_unchanged(
    render: Callable[..., Summary], out: Path
) -> None:
    assert render(cuda="gpu", rocm="cpu") == {
        "cuda": {"identity": "built", "qlinear_block": "built"},
        "rocm": {"identity": "built", "qlinear_block": "built"},
    }
    for pool in ("cuda", "rocm"):
        assert set(snapshot(out / pool)) == {
            f"identity/{MARKER}",
            "identity/1/model.py",
            "identity/config.pbtxt",
            f"qlinear_block/{MARKER}",
            "qlinear_block/1/model.onnx",
            "qlinear_block/1/model.py",
            "qlinear_block/config.pbtxt",
        }
    onnx_files = {(out / pool / "qlinear_block/1/model.onnx").read_bytes() for pool in ("cuda", "rocm")}
    assert len(onnx_files) == 1


def test_a_second_build_changes_nothing_and_keeps_the_time_stamps(render: Callable[..., Summary], out: Path) -> None:
    render()
    before = snapshot(out)
    assert render() == {"cuda": {"identity": "unchanged", "qlinear_block": "unchanged"}}
    assert snapshot(out) == before


def test_a_changed_source_rewrites_only_what_it_changed(render: Callable[..., Summary], out: Path) -> None:
    render()
    before = snapshot(out)
    assert render(cuda="gpu") == {"cuda": {"identity": "unchanged", "qlinear_block": "built"}}
    after = snapshot(out)
    assert [name for name in after if after[name] != before[name]] == ["cuda/qlinear_block/config.pbtxt"]


def test_a_model_without_a_source_is_removed_but_nothing_that_the_builder_did_not_make(
    render: Callable[..., Summary], out: Path
) -> None:
    render()
    (out / "cuda" / "by_hand" / "1").mkdir(parents=True)
    only = {"identity": load_sources()["identity"]}
    assert render(only) == {"cuda": {"identity": "unchanged", "qlinear_block": "removed"}}
    assert sorted(path.name for path in (out / "cuda").iterdir()) == ["by_hand", "identity"]


def test_files_that_a_model_has_no_more_are_removed(render: Callable[..., Summary], out: Path) -> None:
    render()
    leftover = out / "cuda" / "identity" / "1" / "model.onnx"
    leftover.write_bytes(b"of an earlier source")
    cached = out / "cuda" / "identity" / "1" / "__pycache__" / "model.pyc"
    cached.parent.mkdir()
    cached.write_bytes(b"Triton's")
    assert render()["cuda"]["identity"] == "built"
    assert not leftover.exists()
    assert cached.exists()


def test_a_folder_of_the_same_name_made_by_hand_is_refused_before_anything_is_written(
    render: Callable[..., Summary], out: Path
) -> None:
    by_hand = out / "cuda" / "qlinear_block"
    by_hand.mkdir(parents=True)
    with pytest.raises(OutputError, match="was not made by the builder"):
        render()
    assert list(by_hand.iterdir()) == []
    assert not (out / "cuda" / "identity").exists()


def test_a_source_that_does_not_fit_its_onnx_file_leaves_the_output_as_it_was(
    render: Callable[..., Summary], out: Path, tmp_path: Path
) -> None:
    render()
    before = snapshot(out)
    original = load_sources()["qlinear_block"].directory / "model.yml"
    changed = tmp_path / "qlinear_block" / "model.yml"
    changed.parent.mkdir()
    changed.write_text(original.read_text().replace("[8, 32, 32]", "[9, 32, 32]"))
    with pytest.raises(SourceError, match=r"outputs\.features\.dims"):
        render({"identity": load_sources()["identity"], "qlinear_block": load_source(changed)})
    assert snapshot(out) == before


def test_json_lists_each_pool_and_model(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(out), "--pool", "cuda", "rocm", "--model", "identity", "--json"]
    assert main(arguments) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == {"cuda": {"identity": "built"}, "rocm": {"identity": "built"}}
    assert main(arguments) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == {
        "cuda": {"identity": "unchanged"},
        "rocm": {"identity": "unchanged"},
    }


def test_the_table_says_what_each_pool_computes_on(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(out), "--model", "identity", "--compute", "cuda=cpu"]) == EXIT_OK
    words = " ".join(capsys.readouterr().out.split())
    for pool, compute in (("cuda", "cpu"), ("rocm", "gpu"), ("cpu", "cpu")):
        assert f"{pool} (compute: {compute})" in words.replace("┃", "").replace("  ", " ")


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        ([], {"cuda": "KIND_GPU", "rocm": "KIND_GPU", "cpu": "KIND_CPU"}),
        (["--compute", "cpu"], {"cuda": "KIND_CPU", "rocm": "KIND_CPU", "cpu": "KIND_CPU"}),
        (["--compute", "rocm=cpu"], {"cuda": "KIND_GPU", "rocm": "KIND_CPU", "cpu": "KIND_CPU"}),
        (["--compute", "cpu", "--compute", "cuda=gpu"], {"cuda": "KIND_GPU", "rocm": "KIND_CPU", "cpu": "KIND_CPU"}),
    ],
)
def test_compute_is_said_per_pool_or_for_all(out: Path, arguments: list[str], kinds: dict[str, str]) -> None:
    assert main(["--out", str(out), "--model", "qlinear_block", "--json", *arguments]) == EXIT_OK
    for pool, kind in kinds.items():
        assert f"kind: {kind}" in (out / pool / "qlinear_block" / "config.pbtxt").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model", "identiti"], "--model: no source for identiti; expected one of file_type, identity"),
        (["--compute", "tpu=cpu"], "--compute tpu=cpu: expected cpu or gpu, or POOL=cpu for one of cuda, rocm, cpu"),
        (["--compute", "cuda=fpga"], "--compute cuda=fpga: expected cpu or gpu"),
        (["--compute", "gpu"], "the cpu pool computes on the CPU"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_that_says_what_was_expected(
    out: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(["--out", str(out), *arguments]) == EXIT_USAGE
    assert expected in capsys.readouterr().err
    assert not out.exists()


def test_weights_that_cannot_be_had_are_a_failure_with_the_next_step(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    assert main(["--out", str(out), "--cache", str(cache), "--model", "vad_lstm", "identity"]) == EXIT_FAILED
    assert "silero-vad==6.2.3: pip could not download the wheel" in capsys.readouterr().err
    assert not out.exists()
