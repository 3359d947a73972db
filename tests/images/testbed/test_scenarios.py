"""Finding scenarios, running them, and what a person sees of it."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from images.testbed import scenarios
from images.testbed.engine import Engine, TestbedError
from images.testbed.scenarios import Result, Scenario

Fake = Callable[[str, str], None]


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    """Two roles with three scenarios, and one without any."""
    for path in ("a/molecule/default", "a/molecule/other", "b/molecule/default"):
        (tmp_path / "roles" / path).mkdir(parents=True)
        (tmp_path / "roles" / path / "molecule.yml").touch()
    (tmp_path / "roles/c/tasks").mkdir(parents=True)
    return tmp_path / "roles"


def test_every_scenario_of_every_role_is_found(roles: Path) -> None:
    assert [str(scenario) for scenario in scenarios.find(roles)] == ["a/default", "a/other", "b/default"]


def test_the_scenarios_of_one_role_can_be_chosen(roles: Path) -> None:
    assert [str(scenario) for scenario in scenarios.find(roles, "a")] == ["a/default", "a/other"]


def test_a_role_without_scenarios_is_an_error_that_names_those_that_have(roles: Path) -> None:
    with pytest.raises(TestbedError, match=r"Role 'c' has no molecule scenario; roles that have: a, b\."):
        scenarios.find(roles, "c")


def test_a_scenario_runs_in_its_roles_folder_with_the_engine_and_its_output_in_a_log(
    fake: Fake, roles: Path, tmp_path: Path
) -> None:
    fake("molecule", 'echo "$PWD $DOCKER_HOST $*"; echo oops >&2; exit 1')
    [scenario] = scenarios.find(roles, "b")
    result = scenarios.run(scenario, Engine("unix:///e.sock"), tmp_path / "logs")
    assert not result.passed
    assert result.log.read_text() == f"{roles}/b unix:///e.sock test --scenario-name default\noops\n"


def test_without_molecule_the_next_step_is_said(roles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError, match="Next: run it through make: make molecule"):
        scenarios.run(scenarios.find(roles)[0], Engine("unix:///e.sock"), tmp_path)


def test_a_failure_shows_the_end_of_its_log_and_stops_none_of_the_others(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nTASK [Install] fatal\n")
    out = io.StringIO()
    both = [Scenario("a", "default", tmp_path), Scenario("b", "default", tmp_path)]
    results = scenarios.run_all(both, lambda scenario: Result(scenario, scenario.role == "b", 61.4, log), out)
    assert [result.passed for result in results] == [False, True]
    assert out.getvalue().splitlines() == [
        "[1/2] a/default ... FAILED in 61 s",
        "    first",
        "    TASK [Install] fatal",
        f"    Whole log: {log}",
        "[2/2] b/default ... passed in 61 s",
    ]


def test_the_summary_has_a_line_for_each_scenario_and_the_counts() -> None:
    here = Path()
    table = scenarios.summary(
        [
            Result(Scenario("microcode", "default", here), True, 50.2, here),
            Result(Scenario("b", "default", here), False, 9.9, here),
        ]
    )
    assert table == (
        "microcode/default  passed     50 s\nb/default          FAILED     10 s\n1 passed, 1 failed\nin 60 s\n"
    )
