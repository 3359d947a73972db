"""`bimetal` as a whole: what its help costs, and that every command is where the help says."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bimetal.cli.later import command_at
from bimetal.cli.main import LATER, app

_HEAVY = ("onnx", "onnxruntime", "grpc", "numpy", "aiohttp", "tritonclient")
_LOADED = "import sys, bimetal.cli.main; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def test_commands_that_ask_the_router_load_nothing_that_they_do_not_need() -> None:
    loaded = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert set(_HEAVY) & set(loaded) == set()


@pytest.mark.parametrize("name", LATER)
def test_the_help_says_what_the_command_says_of_itself(name: str) -> None:
    where, words = LATER[name]
    assert (command_at(where).help or "").splitlines()[0] == words


def test_help_lists_every_command() -> None:
    printed = CliRunner().invoke(app, ["--help"]).output
    assert [name for name in get_command(app).commands if name not in printed] == []  # type: ignore[attr-defined]  # it is a group


def test_a_commands_own_help_names_its_options_under_its_whole_name() -> None:
    printed = CliRunner().invoke(app, ["model", "analyze", "--help"]).output
    assert "model analyze [OPTIONS]" in printed
    assert "--input" in printed


def test_arguments_options_and_exit_codes_pass_through(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    wrong = CliRunner().invoke(app, ["model", "analyze", "--json", str(tmp_path / "text.onnx")])
    assert wrong.exit_code == 1
    assert "is no ONNX model" in wrong.output
    unknown = CliRunner().invoke(app, ["learn", "--frobnicate"])
    assert unknown.exit_code == 2
