"""The command line: what goes to stdout, and the status."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed import __main__ as cli

Fake = Callable[[str, str], None]


@pytest.fixture
def run(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in a project with two roles' scenarios, an engine that answers, and images that are there."""
    for role in ("a", "b"):
        (tmp_path / f"roles/{role}/molecule/default").mkdir(parents=True)
        (tmp_path / f"roles/{role}/molecule/default/molecule.yml").touch()
    fake("docker", "true")
    fake("molecule", 'echo "of $PWD"; test "${PWD##*/}" = a')
    monkeypatch.setenv("DOCKER_HOST", "unix:///e.sock")
    monkeypatch.setattr(cli, "PROJECT", tmp_path)
    monkeypatch.setattr(cli, "ensure", lambda *_, **__: False)

    def command(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["testbed", "--data-dir", str(tmp_path / "data"), *words])
        return cli.main()

    return command


def test_people_get_a_line_for_each_scenario_the_log_of_failures_and_a_table(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("molecule") == 1
    text = capsys.readouterr().out
    assert "a/default ... passed in 0 s\n" in text
    assert f"b/default ... FAILED in 0 s\n    of {tmp_path}/roles/b\n    Whole log: " in text
    assert f"of {tmp_path}/roles/a" not in text
    assert text.endswith("\na/default  passed      0 s\nb/default  FAILED      0 s\n1 passed, 1 failed in 0 s\n")


def test_programs_get_json_and_nothing_else_on_stdout(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("molecule", "--json", "a") == 0
    captured = capsys.readouterr()
    assert [check["name"] for check in json.loads(captured.out)["checks"]] == ["a/default"]
    assert "a/default ... passed" in captured.err


def test_a_name_that_is_no_scenario_is_one_line_and_status_2(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("molecule", "c") == 2
    assert (
        capsys.readouterr().err
        == "error: 'c' is no role with scenarios and no scenario; there are: a/default, b/default.\n"
    )


def test_a_second_run_does_not_remove_the_containers_of_the_first(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with cli.alone(tmp_path / "data"):
        assert run("molecule") == 2
    assert f"Another make molecule runs with {tmp_path}/data. Next: wait" in capsys.readouterr().err
    assert run("molecule", "a") == 0
