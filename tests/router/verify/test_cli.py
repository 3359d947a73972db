"""`bimetal ops verify`: tables for people, the document for programs, a file for the router."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bimetal.cli.ops import ops_app
from bimetal.verify import read_results
from bimetal.verify.verification import VerificationError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(
        ops_app, ["verify", "--target", "cpu", "--no-derived", *arguments], catch_exceptions=False
    )


def test_the_summary_counts_and_names_what_failed(tmp_path: Path) -> None:
    result = run("--only", "Relu", "--only", "RoiAlign", "--out", str(tmp_path / "r.json"))
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "cpu (CPUExecutionProvider): operator variants" in text
    assert "RoiAlign(22) fp32: 3 of 3 failed; test_roialign_aligned_false refused: NOT_IMPLEMENTED" in text
    assert "2 operators: 1 passed all of ONNX's tests, 0 some, 1 none; 1 of 4 tests passed." in text
    assert "CPUExecutionProvider copies nothing to a device: there are no transfer times." in text


def test_json_is_the_document_and_a_file_only_where_one_is_asked_for(tmp_path: Path) -> None:
    assert json.loads(run("--only", "Relu", "--json", "--state-dir", str(tmp_path)).stdout)["format"] == 1
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_document_that_is_written(tmp_path: Path) -> None:
    result = run("--only", "Relu", "--json", "--out", str(tmp_path / "r.json"))
    document = read_results(tmp_path / "r.json")
    assert result.stdout == (tmp_path / "r.json").read_text()
    assert json.loads(result.stdout) == document.model_dump(mode="json")
    assert "Written to" in result.stderr


def test_without_out_each_run_adds_a_file_to_the_state_directory(tmp_path: Path) -> None:
    run("--only", "Relu", "--state-dir", str(tmp_path))
    (file,) = (tmp_path / "verified").iterdir()
    assert read_results(file).records[0].operator == "Relu"


def test_what_cannot_be_verified_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="no node test of an operator 'Rellu'"):
        run("--only", "Rellu", "--state-dir", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
