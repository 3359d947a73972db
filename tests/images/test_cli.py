"""What a person types and sees."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bimetal.images import cli, engine
from bimetal.images.errors import EngineError, MatrixError

runner = CliRunner()


def test_the_plan_names_every_image_with_its_base_and_what_was_proven() -> None:
    lines = json.loads(runner.invoke(cli.app, ["plan", "--json"]).stdout)
    assert {line["image"] for line in lines} >= {"cpu", "cuda", "rocm", "router"}
    assert all(line["base"] and line["proven"] and line["budget_mb"] for line in lines)


def test_offline_the_plan_has_bootstrapped_bases_only() -> None:
    lines = json.loads(runner.invoke(cli.app, ["plan", "--json"], env={"OFFLINE_BASE": "1"}).stdout)
    assert {line["base"].split()[0] for line in lines} == {"mmdebstrap"}


def test_a_flag_that_is_neither_yes_nor_no_is_refused() -> None:
    answer = runner.invoke(cli.app, ["plan"], env={"OFFLINE_BASE": "maybe"})
    assert isinstance(answer.exception, MatrixError)
    assert "OFFLINE_BASE=maybe is neither yes nor no" in str(answer.exception)


def test_a_dockerfile_can_be_read_without_an_engine() -> None:
    printed = runner.invoke(cli.app, ["dockerfile", "cuda:11.8-debian"]).stdout
    assert re.search(r"^FROM debian@sha256:[0-9a-f]{64}$", printed, re.MULTILINE)
    assert "libcudart11.0=11.8.*" in printed


def test_an_error_is_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def connect() -> engine.Engine:
        raise EngineError("No Docker engine answers: refused.", "start one")

    monkeypatch.setattr(engine, "connect", connect)
    monkeypatch.setattr("sys.argv", ["bimetal-images", "build", "cpu", "--lock", str(tmp_path / "lock.json")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: No Docker engine answers: refused. Next: start one\n"
    assert list(tmp_path.iterdir()) == []


def test_a_base_that_the_matrix_lacks_cannot_be_pinned() -> None:
    answer = runner.invoke(cli.app, ["pin", "mars"])
    assert "'mars' is no base of the matrix. Next: name one of bookworm" in str(answer.exception)


def test_an_image_that_was_not_built_cannot_be_pushed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "connect", lambda: None)
    answer = runner.invoke(cli.app, ["push", "cpu", "--lock", str(tmp_path / "lock.json")])
    assert "cpu:bookworm is not in lock.json. Next: build it" in str(answer.exception)
