"""The command lines of servers in containers, as real runs render them from the example inventory."""

import configparser
import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
NEAR = Path("/sys/devices/system/node/node0/cpulist")


@pytest.fixture(scope="module")
def commands(ansible_playbook: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, list[str]]]:
    """Render all servers; their words by host."""

    def render(cdi_dirs: list[str], **variables: object) -> dict[str, list[str]]:
        state_dir = tmp_path_factory.mktemp("commands")
        # What gpu_probe would say of one GPU per vendor, near to the only node of this machine.
        gpus = [{"vendor": vendor, "numa_node": 0} for vendor in ("nvidia", "amd")]
        (state_dir / "facts").mkdir()
        (state_dir / "facts/gpu.fact").write_text(json.dumps({"hardware": {"gpus": gpus}}))
        own = {"bimetal_state_dir": str(state_dir), "test_cdi_dirs": cdi_dirs} | variables
        result = ansible_playbook(
            "tests/roles/playbooks/server_commands.yml",
            "--inventory=ansible/inventories/example",
            f"--extra-vars={json.dumps(own)}",
        )
        assert result.returncode == 0, result.stdout
        found = {}
        for file in (state_dir / "supervisor/conf.d").iterdir():
            parser = configparser.RawConfigParser()
            parser.read(file)
            section = f"program:{file.stem}"
            found[file.stem.removeprefix("triton-")] = shlex.split(parser[section]["command"])
        return found

    return render


@pytest.fixture(scope="module")
def plain(commands: Callable[..., dict[str, list[str]]]) -> dict[str, list[str]]:
    """On an engine without CDI."""
    return commands([])


def test_every_server_has_the_narrowest_rights_and_bounded_logs(plain: dict[str, list[str]]) -> None:
    assert len(plain) == 4
    for words in plain.values():
        rights = {"--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--rm", "--pull=never"}
        assert rights <= set(words)
        assert {"--log-driver=local", "--log-opt=max-size=10m"} <= set(words)


def test_an_image_is_run_by_id_or_by_digest(plain: dict[str, list[str]]) -> None:
    assert {host: words[-2] for host, words in plain.items()} == {
        "cuda-a100-0": "registry.example/cuda@sha256:cuda",
        "cuda-a100-1": "registry.example/cuda@sha256:cuda",
        "rocm-mi300x-0": "sha256:rocm",
        "cpu-0": "sha256:cpu",
    }


def test_a_server_listens_on_its_hosts_address_with_the_exact_model_state_mounted_read_only(
    plain: dict[str, list[str]],
) -> None:
    words = plain["rocm-mi300x-0"]
    assert "--env=BIMETAL_ADDRESS=192.0.2.20" in words
    assert "--mount=type=bind,readonly,source=/srv/bimetal/model_repo/rocm,target=/models" in words
    assert words[-1] == "--id=rocm-mi300x-0"


def test_nvidia_without_cdi_gets_gpus_amd_gets_its_devices_and_a_cpu_server_gets_none(
    plain: dict[str, list[str]],
) -> None:
    cuda = plain["cuda-a100-0"]
    assert cuda[cuda.index("--gpus") + 1] == "all"
    assert {"--device=/dev/kfd", "--device=/dev/dri"} <= set(plain["rocm-mi300x-0"])
    assert not any(word.startswith(("--device", "--gpus", "--group-add")) for word in plain["cpu-0"])


@pytest.mark.skipif(not NEAR.exists(), reason=f"this machine's kernel tells of no NUMA node ({NEAR})")
def test_a_server_stays_near_to_its_gpus(plain: dict[str, list[str]]) -> None:
    assert f"--cpuset-cpus={NEAR.read_text().strip()}" in plain["cuda-a100-0"]
    assert "--cpuset-mems=0" in plain["rocm-mi300x-0"]
    assert not any(word.startswith("--cpuset") for word in plain["cpu-0"])


def test_with_cdi_chosen_gpus_come_by_name_and_limits_and_environment_from_the_inventory(
    commands: Callable[..., dict[str, list[str]]], tmp_path: Path
) -> None:
    """nvidia-docker 1730: devices by CDI survive a reload of systemd."""
    (tmp_path / "nvidia.yaml").touch()
    words = commands(
        [str(tmp_path)],
        triton_gpus=[0, 2],
        triton_memory_limit="200g",
        triton_cpuset_cpus="0-15",
        triton_cpuset_mems="1",
        triton_environment={"NCCL_DEBUG": "WARN"},
    )
    cuda = words["cuda-a100-0"]
    assert [cuda[i + 1] for i, word in enumerate(cuda) if word == "--device"] == [
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=2",
    ]
    assert "--gpus" not in cuda
    limits = {"--memory=200g", "--cpuset-cpus=0-15", "--cpuset-mems=1", "--env=NCCL_DEBUG=WARN"}
    assert limits <= set(cuda)
    assert "--env=ROCR_VISIBLE_DEVICES=0,2" in words["rocm-mi300x-0"]
