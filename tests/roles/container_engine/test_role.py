"""The role's own steps, run for real on this machine with an engine of fake commands; real engines are molecule's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Result = subprocess.CompletedProcess[str]
Run = Callable[..., Result]
Tool = Callable[[str, str], None]

DEBIAN_12 = {"distribution": "Debian", "distribution_version": "12.12", "distribution_release": "bookworm"}
DEBIAN_13 = {"distribution": "Debian", "distribution_version": "13.1", "distribution_release": "trixie"}
NOBLE = {"distribution": "Ubuntu", "distribution_version": "24.04", "distribution_release": "noble"}
RHEL = {
    "distribution": "RedHat",
    "distribution_version": "9.6",
    "distribution_release": "Plow",
    "os_family": "RedHat",
}

# An engine of a version, with what it says of itself in $HERE/info and its containers in $HERE/containers.
DOCKER = """case "$1" in
--version) echo "Docker version {version}, build 1";;
info) cat {here}/info;;
ps) cat {here}/containers;;
esac"""
DOCKERD = """case "$*" in
--version) echo "Docker version {version}, build 1";;
--help) echo "{help}";;
--validate*) [ ! -e {here}/refusal ] || {{ cat {here}/refusal >&2; exit 1; }};;
esac"""


def words(result: Result) -> str:
    return " ".join((result.stdout + result.stderr).split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "etc/daemon.json"


@pytest.fixture
def engine(tool: Tool, tmp_path: Path) -> Callable[..., None]:
    """Make an engine; `containers` run in it."""

    def make(version: str = "26.1.5", containers: str = "", argv: str = "/usr/sbin/dockerd -H fd://") -> None:
        help_text = "--validate" if int(version.partition(".")[0]) >= 23 else "no such option"
        (tmp_path / "info").write_text(json.dumps({"Runtimes": {"runc": {"path": "runc"}}, "CDISpecDirs": []}))
        (tmp_path / "containers").write_text(containers)
        tool("docker", DOCKER.format(version=version, here=tmp_path))
        tool("dockerd", DOCKERD.format(version=version, here=tmp_path, help=help_text))
        tool("systemctl", f"echo 'ExecStart={{ path=x ; argv[]={argv} ; ignore_errors=no }}'")
        tool("dpkg-query", "exit 1")

    return make


@pytest.fixture
def merge(ansible_playbook: Run, file: Path) -> Run:
    """Run the module that writes daemon.json."""

    def run(config: dict[str, Any], *arguments: str, argv: tuple[str, ...] = ()) -> Result:
        extra = json.dumps(
            {
                "ansible_python_interpreter": sys.executable,
                "path": str(file),
                "config": config,
                "argv": list(argv),
            }
        )
        playbook = "tests/roles/container_engine/daemon.yml"
        return ansible_playbook(playbook, "-i", "localhost,", "--extra-vars", extra, *arguments)

    return run


@pytest.fixture
def preflight(ansible_playbook: Run, file: Path) -> Run:
    """Run the role's preflight on recorded facts."""

    def run(facts: dict[str, str], **variables: object) -> Result:
        gathered = {"os_family": "Debian", **facts}
        gathered["distribution_major_version"] = gathered["distribution_version"].partition(".")[0]
        usual = {
            "ansible_facts": gathered,
            "ansible_python_interpreter": sys.executable,
            "container_engine_daemon_file": str(file),
        }
        playbook = "tests/roles/container_engine/preflight.yml"
        return ansible_playbook(playbook, "-i", "localhost,", "--extra-vars", json.dumps(usual | variables))

    return run


# nvidia-docker 542.
def test_a_broken_daemon_json_is_named_by_line_and_stays_as_it_is(
    merge: Run, engine: Callable[..., None], file: Path
) -> None:
    engine()
    file.parent.mkdir()
    file.write_text('{\n  "debug": true\n}}\n')
    result = merge({"features": {"cdi": True}})
    assert result.returncode != 0
    assert f"{file}, line 3, column 2: Extra data; the line is '}}}}'. Nothing was changed" in words(result)
    assert os.listdir(file.parent) == ["daemon.json"]
    assert file.read_text() == '{\n  "debug": true\n}}\n'


# ansible-role-nvidia-docker 9 and geerlingguy.docker 84.
def test_a_users_file_is_merged_backed_up_validated_and_then_left_alone(
    merge: Run, engine: Callable[..., None], file: Path
) -> None:
    engine()
    file.parent.mkdir()
    before = '{"data-root": "/srv/docker", "dns": ["10.0.0.1"]}'
    file.write_text(before)
    file.chmod(0o600)
    result = merge({"features": {"cdi": True}}, "--diff")
    assert "action=restart validated=True" in result.stdout
    assert json.loads(file.read_text()) == {
        "data-root": "/srv/docker",
        "dns": ["10.0.0.1"],
        "features": {"cdi": True},
    }
    assert file.stat().st_mode & 0o777 == 0o600
    (backup,) = [path for path in file.parent.iterdir() if path != file]
    assert backup.read_text() == before
    again = merge({"features": {"cdi": True}})
    assert "changed=0" in again.stdout
    assert "action=none" in again.stdout


def test_a_check_shows_the_difference_and_writes_nothing(merge: Run, engine: Callable[..., None], file: Path) -> None:
    engine()
    result = merge({"debug": True}, "--check", "--diff")
    assert '+  "debug": true' in result.stdout
    assert not file.parent.exists()


def test_what_dockerd_refuses_is_said_in_its_words_and_not_written(
    merge: Run, engine: Callable[..., None], file: Path, tmp_path: Path
) -> None:
    engine()
    (tmp_path / "refusal").write_text("the following directives don't match any configuration option: featurs")
    result = merge({"featurs": {"cdi": True}})
    assert result.returncode != 0
    assert "dockerd refuses what" in words(result)
    assert "don't match any configuration option: featurs. Nothing was changed." in words(result)
    assert list(file.parent.iterdir()) == []


def test_an_engine_that_cannot_validate_is_not_asked(merge: Run, engine: Callable[..., None], tmp_path: Path) -> None:
    engine("20.10.24")
    (tmp_path / "refusal").write_text("unknown flag: --validate")
    assert "validated=False" in merge({"debug": True}).stdout


def test_a_key_that_is_a_flag_already_is_refused(merge: Run, engine: Callable[..., None], file: Path) -> None:
    engine()
    result = merge({"hosts": ["tcp://10.0.0.1:2376"]}, argv=("/usr/sbin/dockerd", "-H", "fd://"))
    assert "hosts: set on dockerd's command line (/usr/sbin/dockerd -H fd://) and in" in words(result)
    assert not file.exists()


@pytest.mark.parametrize(
    ("facts", "variables", "decision"),
    [
        (DEBIAN_12, {}, "packages=docker.io repositories= suite=bookworm"),
        (DEBIAN_13, {}, "packages=docker.io,docker-cli repositories= suite=trixie"),
        (
            NOBLE,
            {"container_engine_source": "docker", "triton_vendor": "nvidia"},
            "packages=docker-ce,docker-ce-cli,containerd.io "
            "repositories=https://download.docker.com/linux/ubuntu,"
            "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) suite=noble",
        ),
        (RHEL, {"container_engine_source": "docker"}, "packages=docker-ce,docker-ce-cli,containerd.io"),
    ],
)
def test_the_source_is_chosen_on_recorded_facts(
    preflight: Run, engine: Callable[..., None], facts: dict[str, str], variables: dict[str, object], decision: str
) -> None:
    engine()
    result = preflight(facts, **variables)
    assert result.returncode == 0, result.stdout
    assert decision in words(result)


def test_a_rhel_has_no_docker_of_its_own(preflight: Run, engine: Callable[..., None]) -> None:
    engine()
    assert "expected container_engine_source docker there" in words(preflight(RHEL))


def test_another_sources_engine_is_not_replaced(preflight: Run, engine: Callable[..., None], tool: Tool) -> None:
    engine()
    tool("dpkg-query", '[ "$4" = docker-ce ] && echo "installed 5:27.0"')
    result = preflight(DEBIAN_12)
    assert "docker-ce is installed on localhost: container_engine_source distribution would take it" in words(result)


def test_podman_under_dockers_name_is_refused(preflight: Run, engine: Callable[..., None], tool: Tool) -> None:
    engine()
    tool("docker", "echo podman version 4.3.1")
    assert "The command docker on localhost is Podman's" in words(preflight(DEBIAN_12))


def test_a_file_that_the_engine_does_not_read_is_refused(preflight: Run, engine: Callable[..., None]) -> None:
    """toolkit 1404: configuration was written where the engine does not read."""
    engine(argv="/usr/sbin/dockerd --config-file /opt/daemon.json")
    assert "runs with --config-file /opt/daemon.json: expected" in words(preflight(DEBIAN_12))


# nvidia-docker 1730, toolkit 48 and 251: running containers are not taken down for a change of configuration.
def test_a_restart_under_running_containers_is_refused_before_anything_is_written(
    preflight: Run, engine: Callable[..., None], file: Path
) -> None:
    engine(containers="triton-0\n")
    result = preflight(DEBIAN_12, container_engine_daemon={"data-root": "/srv"})
    assert "makes the engine of localhost restart, and that ends triton-0" in words(result)
    assert not file.exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"container_engine_drain_tasks": "drain.yml"},
        {"container_engine_restart_undrained": True},
        {"container_engine_daemon": {"debug": True}},
    ],
)
def test_a_drain_a_word_of_the_inventory_or_a_mere_reload_lets_it_pass(
    preflight: Run, engine: Callable[..., None], variables: dict[str, object]
) -> None:
    engine(containers="triton-0\n")
    result = preflight(DEBIAN_12, **({"container_engine_daemon": {"data-root": "/srv"}} | variables))
    assert result.returncode == 0, result.stdout
