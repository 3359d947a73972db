"""site.yml on servers: checks before changes, and where a failure stops it. Two recorded hosts play the servers."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

Result = subprocess.CompletedProcess[str]
Site = Callable[..., Result]

HOSTS = ("server-a", "server-b")
# Roles that would change the machine that runs the tests.
WITHOUT = ["microcode", "nvidia_driver", "rocm", "tuning", "container_engine", "gpu_network", "kernel_cmdline"]


def includes(path: Path) -> Iterator[tuple[str, str]]:
    """Role and entry point of every include_role in a playbook, in its order."""
    for play in yaml.safe_load(path.read_text()):
        for task in play.get("tasks", []):
            words = task.get("ansible.builtin.include_role")
            if words:
                yield words["name"], words.get("tasks_from", "main")


def test_every_role_that_has_checks_makes_them_before_the_first_change(project: Path) -> None:
    playbooks = project / "ansible/playbooks"
    checked = list(includes(playbooks / "preflight.yml"))
    assert {entry for _, entry in checked} == {"preflight"}
    changing = {role for role, entry in includes(playbooks / "provision.yml") if entry == "main"}
    with_checks = {role for role in changing if (project / f"roles/{role}/tasks/preflight.yml").exists()}
    assert with_checks - {role for role, _ in checked} == set()

    site = yaml.safe_load((project / "ansible/site.yml").read_text())
    order = [play["ansible.builtin.import_playbook"] for play in site]
    assert order == [f"playbooks/{name}.yml" for name in ("preflight", "serve_preflight", "provision")] + ["serve.yml"]


def test_an_upgraded_host_gets_what_a_new_one_gets_in_the_same_order(project: Path) -> None:
    tasks = yaml.safe_load((project / "ansible/playbooks/tasks/provision_host.yml").read_text())
    one_host = [task["ansible.builtin.include_role"] for task in tasks]
    upgraded = [(words["name"], words.get("tasks_from", "main")) for words in one_host]
    assert upgraded == list(includes(project / "ansible/playbooks/provision.yml"))


@pytest.fixture
def site(ansible_playbook: Callable[..., Result], tmp_path: Path) -> Site:
    """Run site.yml on two hosts whose files are in `tmp_path`; variables of one host by its name with underscores."""

    def variables(host: str) -> dict[str, Any]:
        files = tmp_path / host
        (files / "root/bin").mkdir(parents=True, exist_ok=True)
        return {
            "gpu_probe_install_dir": str(files / "lib"),
            "gpu_probe_fact_file": str(files / "facts.d/gpu.fact"),
            "gpu_probe_textfile": str(files / "textfile/gpu.prom"),
            "gpu_probe_state_file": str(files / "state/counters.json"),
            "gpu_probe_root": str(files / "root"),
        }

    def run(*arguments: str, **more: dict[str, Any]) -> Result:
        hosts = {name: variables(name) | more.get(name.replace("-", "_"), {}) for name in HOSTS}
        inventory = {
            "all": {
                "vars": {
                    "ansible_connection": "local",
                    "ansible_become": False,
                    "ansible_python_interpreter": sys.executable,
                    "gpu_probe_python": sys.executable,
                    "gpu_probe_timer_enabled": False,
                    "provision_without": WITHOUT,
                    "reboot_allowed": True,
                    "hardware_check_accepted": ["cpu", "memory", "nvme", "network"],
                },
                "children": {
                    "provisioned": {"hosts": hosts},
                    **{name: {} for name in ("nvidia", "amd", "triton", "gateways", "supervisors")},
                },
            }
        }
        (tmp_path / "hosts.json").write_text(json.dumps(inventory))
        return ansible_playbook("ansible/site.yml", "-i", str(tmp_path / "hosts.json"), *arguments)

    return run


def test_a_failed_check_on_one_server_leaves_every_server_untouched(site: Site, tmp_path: Path) -> None:
    result = site(server_b={"hardware_check_accepted": []})
    assert result.returncode != 0
    assert "server-b does not have the hardware that bimetal needs" in result.stdout
    assert "PLAY [Install the probe]" not in result.stdout
    assert sorted(path.name for host in HOSTS for path in (tmp_path / host).iterdir()) == ["root", "root"]


# ansible-role-nvidia-driver 20: a reboot on a local connection ended the controller.
def test_servers_are_provisioned_and_this_machine_is_told_first_that_it_is_never_rebooted(
    site: Site, tmp_path: Path
) -> None:
    result = site()
    assert result.returncode == 0, result.stdout
    words = " ".join(result.stdout.split())
    told = words.index(
        "Host server-b will not be rebooted, though reboots are allowed: it runs the kernel of the machine"
    )
    assert told < words.index("PLAY [Install the probe]")
    assert all((tmp_path / host / "facts.d/gpu.fact").exists() for host in HOSTS)
