"""Finding scenarios, running several at a time, and removing what they leave."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.testbed import scenarios
from tests.testbed.engine import Engine, TestbedError
from tests.testbed.processes import Processes
from tests.testbed.report import Result
from tests.testbed.scenarios import Scenario

Fake = Callable[[str, str], None]

BOTH = [Scenario("a", "default", Path()), Scenario("b", "default", Path())]


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


def test_roles_and_scenarios_can_be_chosen(roles: Path) -> None:
    assert [str(scenario) for scenario in scenarios.find(roles, ["a"])] == ["a/default", "a/other"]
    assert [str(scenario) for scenario in scenarios.find(roles, ["b", "a/other"])] == ["a/other", "b/default"]


@pytest.mark.parametrize("name", ["c", "a/nothing", "default"])
def test_a_name_that_is_none_is_an_error_that_names_those_that_are(roles: Path, name: str) -> None:
    with pytest.raises(TestbedError, match=rf"'{name}' is no .*there are: a/default, a/other, b/default\."):
        scenarios.find(roles, ["a", name])


def test_the_longest_scenarios_start_first(roles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "LONGEST", ("b/default", "not/here"))
    assert str(scenarios.find(roles)[0]) == "b/default"


def test_a_scenario_runs_in_its_roles_folder_with_the_engine_and_names_of_its_own(
    fake: Fake, roles: Path, tmp_path: Path
) -> None:
    fake("molecule", 'echo "$PWD $DOCKER_HOST $TESTBED_SUFFIX $*"; echo oops >&2; exit 1')
    [scenario] = scenarios.find(roles, ["b"])
    result = scenarios.run(scenario, Engine("unix:///e.sock"), tmp_path / "logs", Processes())
    assert not result.passed
    assert result.log.read_text() == f"{roles}/b unix:///e.sock -b-default test --scenario-name default\noops\n"


def test_what_an_interrupted_run_remembered_is_forgotten(fake: Fake, roles: Path, tmp_path: Path) -> None:
    fake("molecule", 'ls "$MOLECULE_EPHEMERAL_DIRECTORY"; mkdir "$MOLECULE_EPHEMERAL_DIRECTORY" && echo anew')
    [scenario] = scenarios.find(roles, ["b"])
    for _ in range(2):
        result = scenarios.run(scenario, Engine("unix:///e.sock"), tmp_path / "logs", Processes())
        assert result.log.read_text().endswith("anew\n")


def test_several_run_at_a_time_and_a_failure_stops_none(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)

    def test(scenario: Scenario) -> Result:
        together.wait()
        return Result(str(scenario), scenario.role == "b", 1.0, tmp_path)

    seen: list[Result] = []
    results = scenarios.run_all(BOTH, 2, test, seen.append, Processes())
    assert [(result.name, result.passed) for result in results] == [("a/default", False), ("b/default", True)]
    assert {result.name for result in seen} == {"a/default", "b/default"}


def test_an_interrupted_run_ends_what_runs_and_starts_nothing_else(tmp_path: Path, fake: Fake) -> None:
    fake("molecule", "exec sleep 60")
    processes = Processes()

    def interrupt(_: Result) -> None:
        raise KeyboardInterrupt

    def test(scenario: Scenario) -> Result:
        if scenario.role == "a":
            return Result("a/default", True, 0.0, tmp_path)
        return scenarios.run(scenario, Engine("unix:///e.sock"), tmp_path, processes)

    with pytest.raises(KeyboardInterrupt):
        scenarios.run_all(BOTH, 2, test, interrupt, processes)
    assert processes.ended
    assert not processes.running


def test_only_molecules_containers_of_these_scenarios_are_removed(fake: Fake, tmp_path: Path) -> None:
    fake("docker", 'echo "$*" >> "$FAKES/asked"; case "$*" in *name=-a-*) echo left ;; esac')
    scenarios.remove_containers(Engine("unix:///e.sock"), BOTH)
    listing = "ps --all --quiet --filter name={}$ --filter label=owner=molecule"
    assert (tmp_path / "asked").read_text().splitlines() == [
        listing.format("-a-default"),
        "rm --force --volumes left",
        listing.format("-b-default"),
    ]
