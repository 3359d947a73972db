"""The interfaces near the GPUs, what NCCL and RCCL are told, and what is refused."""

from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.filter import gpu_network as filters

Json = dict[str, Any]


def interface(name: str, node: int | None = None, speed: int | None = 100_000, state: str = "up") -> Json:
    return {"name": name, "state": state, "speed_mbps": speed, "numa_node": node, "mtu": 1500}


def port(device: str, node: int | None, state: str = "ACTIVE") -> Json:
    return {"device": device, "port": 1, "state": state, "numa_node": node, "link_layer": "InfiniBand"}


def report(interfaces: list[Json], gpu_nodes: list[int | None], ports: list[Json] | None = None) -> Json:
    gpus = [{"vendor": "amd", "numa_node": node} for node in gpu_nodes]
    return {"hardware": {"gpus": gpus}, "network": {"interfaces": interfaces, "infiniband": ports or []}}


@pytest.mark.parametrize(
    ("interfaces", "gpu_nodes", "chosen"),
    [
        ([interface("ens1", 0), interface("ens2", 1)], [1, 1, 1, 0], "ens2"),
        ([interface("ens1", 0, 400_000), interface("ens2", 1, 25_000)], [1], "ens2"),
        ([interface("ens1", 0, 25_000), interface("ens2", 0)], [0], "ens2"),
        ([interface("ens2", 0), interface("ens1", 0)], [0], "ens1"),
        ([interface("ens1", 0, state="down"), interface("ens2", 1)], [0], "ens2"),
        ([interface("ens1", None, None)], [None], "ens1"),
        ([interface("ens1", 0, state="down")], [0], ""),
        ([], [0], ""),
    ],
)
def test_the_interface_is_near_to_most_gpus_then_fast_then_first_by_name(
    interfaces: list[Json], gpu_nodes: list[int | None], chosen: str
) -> None:
    assert filters.nearest(report(interfaces, gpu_nodes)) == chosen


def test_only_gpus_of_the_vendor_count() -> None:
    found = report([interface("ens1", 0), interface("ens2", 1)], [1, 1])
    found["hardware"]["gpus"].append({"vendor": "nvidia", "numa_node": 0})
    assert filters.nearest(found, "nvidia") == "ens1"


@pytest.mark.parametrize(
    ("ports", "chosen"),
    [
        ([port("mlx5_0", 0), port("mlx5_1", 1), port("mlx5_2", 1)], ["mlx5_1:1", "mlx5_2:1"]),
        ([port("mlx5_0", 0), port("mlx5_1", 1, "DOWN")], ["mlx5_0:1"]),
        ([port("mlx5_0", 0, "DOWN")], []),
    ],
)
def test_rdma_is_by_active_ports_near_to_the_gpus_or_by_any(ports: list[Json], chosen: list[str]) -> None:
    assert filters.rdma_ports(report([], [1, 1], ports), "amd") == chosen


def test_names_are_whole_because_ens1_is_a_prefix_of_ens10() -> None:
    assert filters.environment(["ens1", "ens2"], ["mlx5_0:1"], "auto") == {
        "NCCL_SOCKET_IFNAME": "=ens1,ens2",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": "=mlx5_0:1",
    }


@pytest.mark.parametrize(("ports", "infiniband"), [([], "auto"), (["mlx5_0:1"], "off")])
def test_without_rdma_nobody_waits_for_it(ports: list[str], infiniband: str) -> None:
    assert filters.environment(["ens1"], ports, infiniband) == {"NCCL_SOCKET_IFNAME": "=ens1", "NCCL_IB_DISABLE": "1"}


def test_a_line_that_counts_before_ours_is_found_and_our_own_block_is_not() -> None:
    marker = "# {mark} bimetal"
    text = "NCCL_DEBUG=WARN\nNCCL_IB_DISABLE = 1\n# BEGIN bimetal\nNCCL_SOCKET_IFNAME==ens9\n# END bimetal\n"
    wanted = {"NCCL_SOCKET_IFNAME": "=ens1", "NCCL_IB_DISABLE": "0"}
    assert filters.conf_conflicts(text, wanted, marker) == ["NCCL_IB_DISABLE=1"]
    assert filters.conf_conflicts(text, wanted | {"NCCL_IB_DISABLE": "1"}, marker) == []


def info(**words: Any) -> Json:
    usual = {
        "exists": True,
        "max_mtu": 9978,
        "kind": "",
        "lower_mtus": {},
        "managers": [{"name": "networkd", "place": "/etc/systemd/network/10-gpu.network"}],
        "own_mtu": "",
    }
    return usual | words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({}, ""),
        ({"max_mtu": 0}, ""),
        ({"kind": "bond", "lower_mtus": {"ens1": 1500}}, ""),
        ({"exists": False}, "there is no interface ens1.7"),
        ({"max_mtu": 1500}, "driver takes 1500 at most"),
        ({"kind": "vlan", "lower_mtus": {"ens1": 1500}}, "lies on ens1 (1500), which must have 9000 first"),
        ({"managers": []}, "nobody is known to configure ens1.7"),
        ({"managers": [{"name": "networkd"}, {"name": "ifupdown"}]}, "networkd and ifupdown both configure ens1.7"),
        (
            {"managers": [{"name": "networkmanager", "place": "11-22"}], "own_mtu": "1500"},
            "nmcli connection modify 11-22 802-3-ethernet.mtu 0",
        ),
    ],
)
def test_an_interface_that_could_not_keep_its_mtu_is_refused(words: Json, says: str) -> None:
    problem = filters.interface_problem("ens1.7", info(**words), 9000)
    assert says in problem if says else problem == ""


def test_the_world_and_what_is_no_network_are_refused_as_sources() -> None:
    sources = ["192.0.2.0/24", "2001:db8::/64", "192.0.2.7", "0.0.0.0/0", "::/0", "everybody"]
    assert filters.open_sources(sources) == ["0.0.0.0/0", "::/0", "everybody"]
