"""Software, system and network of a recorded host, and what is found wrong there."""

import gzip
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Json = dict[str, Any]
Probe = Callable[..., Json]

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def statuses(document: Json, check: str) -> list[str]:
    return [found["status"] for found in document["findings"] if found["check"] == check]


@pytest.mark.parametrize(
    ("version", "meets", "status"),
    [("11.7", False, "fail"), ("11.8", True, "ok"), ("13.1", True, "ok")],
)
def test_the_drivers_cuda_is_held_against_the_minimum(
    host: Any, probe: Probe, nvidia_xml: Callable[..., str], *, version: str, meets: bool, status: str
) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml().replace("12.2", version))
    document = probe(host)
    assert document["software"]["cuda"]["meets_minimum"] is meets
    assert statuses(document, "cuda") == [status]


@pytest.mark.parametrize(
    ("version", "meets"), [("5.5.1-74", False), ("5.6.0-67", True), ("5.10.0", True), ("6.4.0-120", True)]
)
def test_rocm_versions_are_compared_as_numbers(host: Any, probe: Probe, version: str, meets: bool) -> None:
    host.amd_gpu()
    host.file("/opt/rocm/.info/version", version + "\n")
    assert probe(host)["software"]["rocm"]["meets_minimum"] is meets


def test_the_distributions_rocm_is_found_where_amds_is_not(host: Any, probe: Probe) -> None:
    host.amd_gpu()
    host.tool("dpkg-query", [("rocminfo", "6.1.2-1")])
    rocm = probe(host)["software"]["rocm"]
    assert (rocm["version"], rocm["source"], rocm["meets_minimum"]) == ("6.1.2-1", "distribution", True)


def test_a_minimum_without_a_version_is_unknown_and_not_failed(host: Any, probe: Probe) -> None:
    host.amd_gpu()
    document = probe(host)
    assert document["software"]["rocm"]["meets_minimum"] is None
    assert statuses(document, "rocm") == ["warn"]


def test_the_first_library_of_the_loader_hides_the_second(host: Any, probe: Probe) -> None:
    """ROCm/ROCm issue 3656: the distribution's copy outranked AMD's."""
    host.ldconfig(
        {"libamdhip64.so.6": "/usr/lib/x86_64-linux-gnu", "libcuda.so.1": "/usr/lib/x86_64-linux-gnu"},
        {"libamdhip64.so.6": "/opt/rocm-6.4.0/lib"},
    )
    document = probe(host)
    assert document["software"]["libraries"]["shadowed"] == {"libamdhip64.so": ["/opt/rocm-6.4.0/lib/libamdhip64.so.6"]}
    assert statuses(document, "library_order") == ["warn"]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (
            "nvidia-current/535.261.03, 6.1.0-43-amd64, x86_64: installed",
            {"module": "nvidia-current", "version": "535.261.03", "kernel": "6.1.0-43-amd64", "state": "installed"},
        ),
        (
            "nvidia, 470.57.02, 5.4.0-80-generic, x86_64: installed",
            {"module": "nvidia", "version": "470.57.02", "kernel": "5.4.0-80-generic", "state": "installed"},
        ),
        (
            "amdgpu/6.12.12-2187269.24.04: added",
            {"module": "amdgpu", "version": "6.12.12-2187269.24.04", "kernel": None, "state": "added"},
        ),
    ],
)
def test_dkms_is_read_in_both_spellings(host: Any, probe: Probe, line: str, entry: Json) -> None:
    host.tool("dkms", [("status", line + "\n")])
    assert probe(host)["software"]["dkms"] == [entry]


@pytest.mark.parametrize(
    ("enabled", "active", "words"),
    [("masked", "inactive", "masked"), ("enabled", "failed", "failed"), ("enabled", "active", None)],
)
def test_a_masked_or_failed_persistence_daemon_is_named(
    host: Any, probe: Probe, enabled: str, active: str, words: str | None
) -> None:
    """ansible-role-nvidia-driver issues 79 and 3: the unit was masked, or ran with no device."""
    host.nvidia_gpu()
    host.tool("systemctl", [("is-enabled nvidia-persistenced", enabled), ("is-active", active), ("*", "", 1)])
    messages = [found["message"] for found in probe(host)["findings"] if found["check"] == "nvidia_persistenced"]
    assert [words in message for message in messages] == ([True] if words else [])


def test_a_persistence_daemon_is_not_missed_without_an_nvidia_gpu(host: Any, probe: Probe) -> None:
    """ansible-role-nvidia-driver issue 3."""
    host.amd_gpu()
    assert statuses(probe(host), "nvidia_persistenced") == []


@pytest.mark.parametrize(
    ("command_line", "config", "by"),
    [
        ("quiet iommu=pt", None, "parameter"),
        ("quiet", "CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y\n", "kernel configuration"),
        ("quiet", "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set\n", None),
        ("iommu=pt iommu=nopt", None, None),
    ],
)
def test_pass_through_is_also_seen_in_the_kernels_configuration(
    host: Any, probe: Probe, command_line: str, config: str | None, by: str | None
) -> None:
    """ROCm/rccl issue 2112: "missing iommu=pt" on a kernel that is built with it."""
    host.amd_gpu()
    host.file("/sys/class/iommu/ivhd0/type", "")
    host.file("/proc/cmdline", command_line)
    if config:
        host.file("/boot/config-6.1.0-43-amd64", config)
    document = probe(host)
    assert document["system"]["iommu"]["passthrough_by"] == by
    assert statuses(document, "iommu") == ([] if by else ["warn"])


def test_the_running_kernels_own_configuration_is_read_where_boot_has_none(host: Any, probe: Probe) -> None:
    host.file("/sys/class/iommu/ivhd0/type", "")
    host.file("/proc/config.gz", gzip.compress(b"CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y\n"))
    assert probe(host)["system"]["iommu"]["passthrough"] is True


@pytest.mark.parametrize(
    ("policy", "command_line", "off"),
    [
        ("[default] performance powersave powersupersave", "quiet", False),
        ("default [performance] powersave powersupersave", "quiet", True),
        ("[default] performance powersave powersupersave", "pcie_aspm=off", True),
        (None, "quiet", None),
    ],
)
def test_power_saving_of_links_is_on_off_or_unknown(
    host: Any, probe: Probe, policy: str | None, command_line: str, off: bool | None
) -> None:
    host.nvidia_gpu()
    host.file("/proc/cmdline", command_line)
    if policy:
        host.file("/sys/module/pcie_aspm/parameters/policy", policy)
    document = probe(host)
    assert document["system"]["aspm"]["off"] is off
    assert statuses(document, "aspm") == (["warn"] if off is False else [])


@pytest.mark.parametrize(
    ("files", "enabled"),
    [
        ({}, False),
        ({"/sys/firmware/efi/fw_platform_size": b"64"}, None),
        ({SECURE_BOOT: b"\x06\x00\x00\x00\x01"}, True),
        ({SECURE_BOOT: b"\x06\x00\x00\x00\x00"}, False),
    ],
    ids=["BIOS", "EFI, variable unreadable", "on", "off"],
)
def test_secure_boot_is_on_off_or_unknown(
    host: Any, probe: Probe, files: dict[str, bytes], enabled: bool | None
) -> None:
    for path, content in files.items():
        host.file(path, content)
    assert probe(host)["system"]["secure_boot"]["enabled"] is enabled


def interface(host: Any, name: str, speed: int, mtu: int = 1500, node: int = 0) -> None:
    base = f"/sys/class/net/{name}"
    files = {"speed": speed, "mtu": mtu, "device/numa_node": node}
    for path, content in files.items():
        host.file(f"{base}/{path}", str(content))
    host.file(f"{base}/operstate", "up" if speed > 0 else "down")


def test_only_physical_interfaces_count_and_the_fastest_carries_collectives(host: Any, probe: Probe) -> None:
    host.file("/sys/class/net/lo/mtu", "65536")
    interface(host, "eno1", 1000)
    interface(host, "ens1f0", 100000, mtu=9000)
    interface(host, "ens2f0", -1)
    layer = probe(host)["network"]
    assert [(found["name"], found["speed_mbps"]) for found in layer["interfaces"]] == [
        ("eno1", 1000),
        ("ens1f0", 100000),
        ("ens2f0", None),
    ]
    assert layer["collective_interface"] == {"configured": None, "fastest": "ens1f0"}


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("/etc/nccl.conf", "ens1f0", "ens1f0"),
        # As role gpu_network writes it: RCCL has a file of its own, and "=" stands for whole names.
        ("/etc/rccl.conf", "=ens1f0,ens2f0", "ens1f0"),
        ("/etc/nccl.conf", "^docker0", None),
    ],
)
def test_the_interface_that_nccl_or_rccl_is_told_is_named(
    host: Any, probe: Probe, path: str, value: str, name: str | None
) -> None:
    host.file(path, f"NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME={value}\n")
    assert probe(host)["network"]["collective_interface"]["configured"] == name


def test_small_frames_and_a_far_interface_are_found_only_where_there_are_gpus(host: Any, probe: Probe) -> None:
    interface(host, "ens1f0", 100000, node=1)
    assert statuses(probe(host), "mtu") == []
    host.pci("0000:0b:00.0", "10de:20b2", "0302", numa_node="0")
    document = probe(host)
    assert (statuses(document, "mtu"), statuses(document, "numa")) == (["warn"], ["warn"])


def rdma_port(host: Any) -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for name, content in {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}.items():
        host.file(f"{port}/{name}", content)


BANDWIDTH = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             {peak}             {average}               0.734
"""


@pytest.mark.parametrize(("average", "status"), [("39.90", "fail"), ("40.00", "ok"), ("385.11", "ok")])
def test_rdma_to_a_peer_must_reach_its_floor(
    host: Any, probe: Probe, module: Callable[[str], ModuleType], average: str, status: str
) -> None:
    rdma_port(host)
    host.tool(
        "ib_write_bw", [("-d mlx5_0 -i 1 --report_gbits -F gpu-2", BANDWIDTH.format(peak="390", average=average))]
    )
    document = probe(host, peer=module("report").Peer("gpu-2"))
    assert document["network"]["rdma_bandwidth"]["gbps"] == float(average)
    assert statuses(document, "rdma_bandwidth") == [status]


def test_a_peer_that_does_not_listen_is_no_bandwidth_and_says_what_to_start(
    host: Any, probe: Probe, module: Callable[[str], ModuleType]
) -> None:
    rdma_port(host)
    host.tool("ib_write_bw", [("*", "Couldn't connect to gpu-2:18515\n", 1)])
    document = probe(host, peer=module("report").Peer("gpu-2"))
    assert document["network"]["rdma_bandwidth"] is None
    assert "on gpu-2 first" in document["collectors"]["ib_write_bw"]["next_step"]
    assert statuses(document, "ib_write_bw") == ["fail"]


def test_cores_are_counted_once_however_many_threads_they_run(host: Any, probe: Probe) -> None:
    blocks = [
        f"processor : {thread}\nvendor_id : AuthenticAMD\nmodel name : AMD EPYC 9654\n"
        f"physical id : {thread // 2 % 2}\ncore id : {thread // 4}\nmicrocode : 0xa101148"
        for thread in range(16)
    ]
    host.file("/proc/cpuinfo", "\n\n".join(blocks) + "\n")
    assert probe(host)["hardware"]["cpu"] == {
        "vendor": "AuthenticAMD",
        "model": "AMD EPYC 9654",
        "sockets": 2,
        "cores": 8,
        "threads": 16,
        "microcode": "0xa101148",
    }


def test_drives_and_power_supplies_are_listed_with_their_sizes(host: Any, probe: Probe) -> None:
    host.file("/sys/block/nvme0n1/size", "3750748848")
    host.file("/sys/block/nvme0n1/device/model", "SAMSUNG MZQL21T9HCJR")
    host.file("/sys/block/sda/size", "1000")
    supply = "Handle 0x0046\nSystem Power Supply\n\tName: PSU1\n\tMax Power Capacity: 3000 W\n"
    host.tool("dmidecode", [("-t 39", f"# dmidecode 3.4\n\n{supply}\n{supply.replace('3000 W', 'Unknown')}")])
    layer = probe(host)["hardware"]
    assert layer["nvme"] == [{"name": "nvme0n1", "model": "SAMSUNG MZQL21T9HCJR", "bytes": 1920383410176}]
    assert [supply["watts"] for supply in layer["power_supplies"]] == [3000, None]
