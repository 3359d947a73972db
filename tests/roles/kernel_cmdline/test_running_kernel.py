"""The running kernel: its command line, its configuration, its ASPM policy, and kernel-install's line."""

import gzip
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import kernel_install
from ansible_collections.bimetal.cluster.plugins.modules import aspm_policy as aspm
from ansible_collections.bimetal.cluster.plugins.modules import running_cmdline as running

BUILT_IN = {"iommu=pt": "CONFIG_IOMMU_DEFAULT_PASSTHROUGH"}
WANTED = ["pcie_aspm=off", "iommu=pt"]


# rccl 2112: "missing iommu=pt" on a kernel that is built with it.
def test_a_parameter_that_the_kernel_is_built_with_is_not_missing() -> None:
    options = running.enabled_options("CONFIG_IOMMU_SUPPORT=y\nCONFIG_IOMMU_DEFAULT_PASSTHROUGH=y\n")
    assert running.compare("quiet", WANTED, BUILT_IN, options) == (["pcie_aspm=off"], ["iommu=pt"])


@pytest.mark.parametrize(
    "text", ["# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set\n", "CONFIG_IOMMU_DEFAULT_PASSTHROUGH=m\n", ""]
)
def test_a_parameter_that_is_neither_given_nor_built_in_is_missing(text: str) -> None:
    options = running.enabled_options(text)
    assert running.compare("pcie_aspm=off", WANTED, BUILT_IN, options) == (["iommu=pt"], [])


def test_a_parameter_on_the_line_needs_no_configuration() -> None:
    assert running.compare("iommu=pt pcie_aspm=off", WANTED, BUILT_IN, set()) == ([], [])


def test_the_configuration_is_that_of_the_running_kernel(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/config-6.1.0-2-amd64").write_text("CONFIG_A=y\n")
    (tmp_path / "boot/config-6.1.0-1-amd64").write_text("CONFIG_B=y\n")
    assert running.kernel_config(tmp_path, "6.1.0-1-amd64") == ("/boot/config-6.1.0-1-amd64", "CONFIG_B=y\n")


def test_the_configuration_that_the_kernel_itself_carries_is_read(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_A=y\n"))
    assert running.kernel_config(tmp_path, "6.1.0") == ("/proc/config.gz", "CONFIG_A=y\n")
    assert running.kernel_config(tmp_path / "none", "6.1.0") == (None, "")


def test_the_policy_in_force_is_the_one_in_brackets() -> None:
    assert aspm.selected("default [performance] powersave powersupersave\n") == "performance"


def test_a_policy_that_cannot_be_set_has_a_reason(tmp_path: Path) -> None:
    assert "no ASPM support" in str(aspm.obstacle(tmp_path / "policy"))
    policy = tmp_path / "policy"
    policy.touch()
    assert aspm.obstacle(policy) is None


def test_a_kernel_that_refuses_is_quoted_and_another_error_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> None:
        def write(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "write_text", write)

    refuse(1)
    assert "pcie_aspm=off" in str(aspm.set_policy(Path("policy"), "performance"))
    refuse(22)
    assert "knows no policy 'fast'" in str(aspm.set_policy(Path("policy"), "fast"))
    refuse(5)
    with pytest.raises(OSError, match="Input/output"):
        aspm.set_policy(Path("policy"), "performance")


class TestKernelInstallsLine:
    """Where the line comes from when /etc/kernel/cmdline is not there yet."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cmdline").write_text(r"initrd=\0123\initrd BOOT_IMAGE=/vmlinuz root=LABEL=r ro" + "\n")
        return tmp_path

    def test_it_is_the_running_one_without_the_boot_loaders_words(self, root: Path) -> None:
        assert kernel_install.current_line(root) == "root=LABEL=r ro"

    def test_the_distributions_file_comes_before_the_running_line(self, root: Path) -> None:
        (root / "usr/lib/kernel").mkdir(parents=True)
        (root / "usr/lib/kernel/cmdline").write_text("root=LABEL=d\n")
        assert kernel_install.current_line(root) == "root=LABEL=d"

    def test_the_hosts_own_file_comes_first_and_may_have_several_lines(self, root: Path) -> None:
        (root / "etc/kernel").mkdir(parents=True)
        (root / "etc/kernel/cmdline").write_text("root=LABEL=e\n  quiet\n")
        assert kernel_install.current_line(root) == "root=LABEL=e quiet"

    def test_it_is_written_once_and_a_file_that_says_the_same_on_several_lines_is_left_alone(self, root: Path) -> None:
        [(path, text)] = kernel_install.plan(root, ["iommu=pt"], ["ro"])
        assert (path, text) == (root / "etc/kernel/cmdline", "root=LABEL=r iommu=pt\n")
        path.parent.mkdir(parents=True)
        path.write_text("root=LABEL=r\niommu=pt\n")
        assert kernel_install.plan(root, ["iommu=pt"], ["ro"]) == []


def test_the_role_says_what_for_a_reboot_is_needed_and_which_role_does_it(
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    # A name of its own in the inventory, as in a copy of an example: no variable says that it is this machine.
    run = ansible_playbook(
        "tests/roles/kernel_cmdline/local.yml", "--check", "--inventory", "gpu-0,", reboot_allowed="true"
    )
    assert run.returncode == 0, run.stdout
    output = " ".join(run.stdout.split())
    assert "Reboot needed on gpu-0, which role reboot does: the kernel runs without bimetal_test=1." in output


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"kernel_cmdline_boot_loader": "auto"}, "No boot loader was found on gpu-0: expected one of grub, grubby"),
        ({"kernel_cmdline_extra_parameters": "[quiet, mem=1G, mem=2G]"}, "mem=1G cannot be in force together"),
        ({"kernel_cmdline_gpu_vendors": "[intel]"}, "nvidia, amd"),
    ],
)
def test_a_host_that_cannot_be_configured_is_left_as_it_was_and_told_why(
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]], variables: dict[str, str], expected: str
) -> None:
    extra = [word for name, value in variables.items() for word in ("--extra-vars", f"{{{name}: {value}}}")]
    run = ansible_playbook("tests/roles/kernel_cmdline/local.yml", "--check", "--inventory", "gpu-0,", *extra)
    assert run.returncode == 2
    assert expected in " ".join(run.stdout.split())
    assert "changed=0" in run.stdout
