"""How containers get a vendor's devices, on recorded hosts."""

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.filter import container_engine as filters
from ansible_collections.bimetal.cluster.plugins.modules import gpu_device_nodes as nodes

Json = dict[str, Any]
BOTH: Json = {
    "amd": ["/dev/kfd", "/dev/dri/renderD128"],
    "amd_groups": [109, 4242],
    "nvidia": ["/dev/nvidia0", "/dev/nvidiactl"],
    "without_link": [],
}
NONE: Json = {"amd": [], "amd_groups": [], "nvidia": [], "without_link": []}


@pytest.fixture
def mixed_host(tmp_path: Path) -> Path:
    """A host with an AMD and an NVIDIA card: each has a render node, and the kfd's group has no name."""
    for name, driver in {"renderD128": "nvidia-drm", "renderD129": "amdgpu"}.items():
        node = tmp_path / "dev/dri" / name
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        link = tmp_path / "sys/class/drm" / name / "device/driver"
        link.parent.mkdir(parents=True)
        link.symlink_to(f"../../bus/pci/drivers/{driver}")
    (tmp_path / "dev/kfd").touch()
    return tmp_path


# ROCm-docker 116 and 90, vllm 27881: the render group differs per host, or has no name at all.
def test_amds_devices_come_with_the_numbers_of_their_groups() -> None:
    assert filters.device_arguments(BOTH, "amd", "26.1.5") == [
        *("--device", "/dev/kfd", "--device", "/dev/dri/renderD128"),
        *("--group-add", "109", "--group-add", "4242"),
    ]


def test_a_container_gets_no_node_of_the_other_vendors_card(mixed_host: Path) -> None:
    assert nodes.amd_nodes(mixed_host) == ["/dev/kfd", "/dev/dri/renderD129"]


def test_the_groups_are_those_of_the_nodes_by_number(mixed_host: Path) -> None:
    found = nodes.groups(mixed_host, ["/dev/kfd", "/dev/dri/renderD129"])
    assert found == sorted({os.stat(mixed_host / "dev/kfd").st_gid} - {0})


def test_a_host_without_kfd_has_no_amd_devices(mixed_host: Path) -> None:
    (mixed_host / "dev/kfd").unlink()
    assert nodes.amd_nodes(mixed_host) == []


# toolkit 1246 and 1456: what `--gpus` does changed with the toolkit's release, so devices have their CDI names.
@pytest.mark.parametrize(
    ("version", "arguments"),
    [
        ("26.1.5", ["--device", "nvidia.com/gpu=all"]),
        ("25.0", ["--device", "nvidia.com/gpu=all"]),
        ("20.10.24", ["--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=all"]),
        ("9.0", ["--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=all"]),
    ],
)
def test_nvidias_devices_have_cdi_names_in_every_engine(version: str, arguments: list[str]) -> None:
    assert filters.device_arguments(BOTH, "nvidia", version) == arguments


def test_some_of_nvidias_devices_are_named_one_by_one() -> None:
    assert filters.device_arguments(BOTH, "nvidia", "28.0", ["0", "1:0"]) == [
        *("--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1:0")
    ]


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "cpu"])
def test_a_host_without_devices_yet_has_no_arguments(vendor: str) -> None:
    assert filters.device_arguments(NONE, vendor, "26.1.5") == []


# nvidia-docker 1730, toolkit 48 and 251: systemd's next reload took devices without a link from running containers.
def test_a_node_without_a_link_by_its_number_is_found(tmp_path: Path) -> None:
    (tmp_path / "dev/char").mkdir(parents=True)
    # A link to a character device that every machine has: its number counts, as a device node's would.
    (tmp_path / "dev/nvidia0").symlink_to("/dev/null")
    (tmp_path / "dev/nvidiactl").symlink_to("/dev/zero")
    (tmp_path / "dev/char/1:3").symlink_to("../nvidia0")
    assert nodes.nvidia_nodes(tmp_path) == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert nodes.without_link(tmp_path, ["/dev/nvidia0", "/dev/nvidiactl"]) == ["/dev/nvidiactl"]


@pytest.mark.parametrize(
    ("vendor", "version", "config"),
    [
        ("amd", "26.1.5", {"debug": True}),
        ("cpu", "", {"debug": True}),
        (
            "nvidia",
            "26.1.5",
            {
                "debug": True,
                "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}},
                "features": {"cdi": True},
            },
        ),
        (
            "nvidia",
            "20.10.24",
            {"debug": True, "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}},
        ),
    ],
)
def test_only_nvidia_needs_words_in_daemon_json(vendor: str, version: str, config: Json) -> None:
    assert filters.daemon({"debug": True}, vendor, version) == config


def test_the_inventorys_own_runtime_counts() -> None:
    own = {"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime"}}}
    assert filters.daemon(own, "nvidia", "20.10")["runtimes"] == own["runtimes"]


# toolkit 1246 and 1456.
@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (
            '[nvidia-container-cli]\nmode = "other"\n\n[nvidia-container-runtime]\nlog-level = "info"\nmode = "cdi"\n',
            "cdi",
        ),
        (
            '[nvidia-container-runtime]\nmode = "auto"\n\n[nvidia-container-runtime.modes.cdi]\ndefault-kind = "x"\n',
            "auto",
        ),
        ('[nvidia-container-runtime]\n#mode = "cdi"\n\n[other]\nmode = "cdi"\n', ""),
        ("", ""),
    ],
)
def test_the_toolkits_mode_is_the_one_of_its_runtime(text: str, mode: str) -> None:
    assert filters.toolkit_mode(text) == mode
