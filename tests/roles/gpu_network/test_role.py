"""The role's checks and its firewall, run for real on this machine with fake commands."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Result = subprocess.CompletedProcess[str]
Run = Callable[..., Result]
Tool = Callable[[str, str], None]

REPORT: dict[str, Any] = {
    "hardware": {"gpus": [{"vendor": "amd", "numa_node": 1}]},
    "network": {
        "interfaces": [
            {"name": "ens1", "state": "up", "speed_mbps": 100000, "numa_node": 0, "mtu": 1500},
            {"name": "ens2", "state": "up", "speed_mbps": 100000, "numa_node": 1, "mtu": 1500},
        ],
        "infiniband": [],
    },
}


def words(result: Result) -> str:
    return " ".join((result.stdout + result.stderr).split())


@pytest.fixture
def preflight(ansible_playbook: Run, tmp_path: Path) -> Run:
    """Run the role's preflight with a report; by default the MTU is left alone."""

    def run(**variables: object) -> Result:
        usual: dict[str, object] = {
            "ansible_python_interpreter": sys.executable,
            "ansible_facts": {"os_family": "Debian", "distribution": "Debian"},
            "gpu_probe_report": REPORT,
            "triton_vendor": "amd",
            "gpu_network_mtu": 0,
            "gpu_network_conf_file": str(tmp_path / "rccl.conf"),
        }
        playbook = "tests/roles/gpu_network/preflight.yml"
        return ansible_playbook(playbook, "-i", "localhost,", "--extra-vars", json.dumps(usual | variables))

    return run


def test_the_fact_names_the_interface_on_the_gpus_node(preflight: Run) -> None:
    result = preflight()
    assert result.returncode == 0, result.stdout
    assert '"NCCL_SOCKET_IFNAME": "=ens2"' in result.stdout.replace("\\", "")


def test_a_host_without_collectives_is_told_nothing(preflight: Run) -> None:
    result = preflight(triton_vendor="cpu", gpu_network_conf_file="")
    assert result.returncode == 0, result.stdout
    assert "msg: '{}'" in result.stdout


def test_an_interface_that_nobody_configures_is_refused_with_the_way_around(preflight: Run, tool: Tool) -> None:
    link = [{"ifname": "ens2", "mtu": 1500, "max_mtu": 9978}]
    tool("ip", f"echo '{json.dumps(link)}'")
    tool("networkctl", "exit 1")
    tool("nmcli", "exit 1")
    result = preflight(gpu_network_mtu=9000)
    assert result.returncode != 0
    assert "- nobody is known to configure ens2: expected netplan, systemd-networkd, NetworkManager" in words(result)
    assert "gpu_network_mtu: 0 leaves it as it is" in words(result)


def test_rdma_that_must_be_there_and_is_not_stops_the_role(preflight: Run) -> None:
    assert "no RDMA port of localhost is active" in words(preflight(gpu_network_infiniband="on"))


def test_a_line_of_the_user_that_would_win_is_named(preflight: Run, tmp_path: Path) -> None:
    (tmp_path / "rccl.conf").write_text("NCCL_SOCKET_IFNAME=ens9\n")
    assert "says NCCL_SOCKET_IFNAME=ens9, which counts before" in words(preflight())


def test_the_world_is_no_source(preflight: Run) -> None:
    result = preflight(gpu_network_firewall_sources=["0.0.0.0/0"])
    assert "gpu_network_firewall_sources of localhost has 0.0.0.0/0" in words(result)


@pytest.fixture
def ports(ansible_playbook: Run, tmp_path: Path, tool: Tool) -> Run:
    """Run the module that opens ports; no firewall is there, unless a test makes one."""
    for name in ("firewall-cmd", "ufw", "nft"):
        tool(name, "exit 1")

    def run(*arguments: str, sources: tuple[str, ...] = ("192.0.2.0/24",)) -> Result:
        extra = {
            "ansible_python_interpreter": sys.executable,
            "ports": [{"port": "8000-8002", "protocol": "tcp"}],
            "sources": sources,
            "folder": str(tmp_path),
        }
        playbook = "tests/roles/gpu_network/ports.yml"
        return ansible_playbook(playbook, "-i", "localhost,", "--extra-vars", json.dumps(extra), *arguments)

    return run


def test_a_host_without_a_firewall_is_left_without_one(ports: Run) -> None:
    result = ports()
    assert "firewall=none added=0 removed=0" in result.stdout
    assert "changed=0" in result.stdout


FIREWALLD = """case "$*" in
--state) exit 0;;
--query*) grep -qxF -- "$*" {log}.runtime;;
"--permanent --query"*) exit 1;;
*) echo "$*" >> {log};;
esac"""


def test_firewalld_is_told_now_and_for_every_start(ports: Run, tool: Tool, tmp_path: Path) -> None:
    log = tmp_path / "firewalld"
    log.with_suffix(".runtime").touch()
    tool("firewall-cmd", FIREWALLD.format(log=log))
    assert "firewall=firewalld added=2" in ports().stdout
    rule = 'rule family="ipv4" source address="192.0.2.0/24" port port="8000-8002" protocol="tcp" accept'
    assert log.read_text().splitlines() == [f"--add-rich-rule={rule}", f"--permanent --add-rich-rule={rule}"]


def test_a_check_opens_nothing(ports: Run, tool: Tool, tmp_path: Path) -> None:
    log = tmp_path / "firewalld"
    log.with_suffix(".runtime").touch()
    tool("firewall-cmd", FIREWALLD.format(log=log))
    assert "firewall=firewalld added=2" in ports("--check").stdout
    assert not log.exists()


NFT = """case "$*" in
"--json list ruleset") cat {here}/ruleset;;
"--check --file -") cat > {here}/checked; [ ! -e {here}/refusal ] || {{ cat {here}/refusal >&2; exit 1; }};;
*) echo "$*" >> {here}/commands; cat >> {here}/commands;;
esac"""


@pytest.fixture
def nft(tool: Tool, ports: Run, tmp_path: Path) -> Path:
    """A host whose nftables drops what it does not know."""
    assert ports is not None  # makes the commands that this one replaces
    chain = {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input", "policy": "drop"}
    (tmp_path / "ruleset").write_text(json.dumps({"nftables": [{"chain": chain}]}))
    (tmp_path / "nftables.conf").write_text("flush ruleset\ntable inet filter { }\n")
    tool("nft", NFT.format(here=tmp_path))
    return tmp_path


def test_nftables_has_our_rule_now_and_at_every_start(ports: Run, nft: Path) -> None:
    assert "firewall=nftables added=2" in ports().stdout
    assert "insert rule inet filter input ip saddr { 192.0.2.0/24 }" in (nft / "commands").read_text()
    assert (nft / "nftables.conf").read_text().endswith(f'include "{nft}/bimetal.nft"\n')
    assert (nft / "checked").read_text().strip() == (nft / "nftables.conf").read_text().strip()


def test_a_file_that_a_start_would_not_read_is_put_back(ports: Run, nft: Path) -> None:
    (nft / "refusal").write_text("Error: No such file or directory; did you mean chain 'INPUT'?")
    result = ports()
    assert "nftables would not read" in words(result)
    assert "did you mean chain 'INPUT'?" in words(result)
    assert not (nft / "bimetal.nft").exists()
    assert "include" not in (nft / "nftables.conf").read_text()


def test_a_rule_of_ours_that_is_not_wanted_any_more_is_the_only_one_removed(ports: Run, nft: Path) -> None:
    present = json.loads((nft / "ruleset").read_text())
    words_of_rule = {"family": "inet", "table": "filter", "chain": "input", "expr": [{"accept": None}]}
    present["nftables"] += [
        {"rule": words_of_rule | {"handle": 5, "comment": "bimetal 0123456789ab"}},
        {"rule": words_of_rule | {"handle": 6, "comment": "ssh"}},
    ]
    (nft / "ruleset").write_text(json.dumps(present))
    assert "removed=1" in ports().stdout
    commands = (nft / "commands").read_text()
    assert "delete rule inet filter input handle 5" in commands
    assert "handle 6" not in commands
