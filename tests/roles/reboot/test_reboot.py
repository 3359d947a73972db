"""When a host is rebooted. Check mode only: a mistake must not take the test machine down."""

import json
import subprocess
from collections.abc import Callable

import pytest

Result = subprocess.CompletedProcess[str]
Reboot = Callable[..., str]

REASONS = "nouveau is loaded; the kernel runs without pcie_aspm=off iommu=pt"


@pytest.fixture
def reboot(ansible_playbook: Callable[..., Result]) -> Reboot:
    """Run the role, and give its output as one line."""

    def run(expected: int = 0, **variables: object) -> str:
        extra = json.dumps({"test_needed": True, "reboot_allowed": True} | variables)
        # A name of its own in the inventory, as in a copy of an example: no variable says that it is this machine.
        result = ansible_playbook("tests/roles/reboot/reboot.yml", "--check", "-i", "gpu-0,", "--extra-vars", extra)
        assert result.returncode == expected, result.stdout
        return " ".join(result.stdout.split())

    return run


def test_the_machine_that_runs_the_playbook_is_never_rebooted(reboot: Reboot) -> None:
    said = reboot()
    assert "gpu-0 will not be rebooted, though reboots are allowed" in said
    why = "it runs the kernel of the machine that runs this playbook"
    assert f"Reboot needed on gpu-0 ({why}): {REASONS}." in said
    assert "TASK [bimetal.cluster.reboot : Reboot]" not in said


def test_without_leave_it_is_said_what_a_reboot_is_needed_for(reboot: Reboot) -> None:
    said = reboot(reboot_allowed=False)
    assert f"Reboot needed on gpu-0 (reboot_allowed is false): {REASONS}." in said
    assert "TASK [bimetal.cluster.reboot : Reboot]" not in said


def test_a_host_on_which_no_role_needs_it_is_not_rebooted(reboot: Reboot) -> None:
    said = reboot(test_needed=False, _reboot_impossible="")
    assert "Reboot needed" not in said
    assert "TASK [bimetal.cluster.reboot : Reboot]" not in said


def test_a_host_that_serves_is_drained_before_its_one_reboot_for_everything(reboot: Reboot) -> None:
    # As a host elsewhere, with no gateway to ask. Ansible's own module is the last to refuse a local connection.
    said = reboot(_reboot_impossible="", triton_host="192.0.2.10", expected=2)
    steps = [
        "TASK [Drain it]",
        "TASK [bimetal.cluster.reboot : Reboot]",
        "with local connection would reboot the control node",
    ]
    positions = [said.find(step) for step in steps]
    assert -1 not in positions
    assert positions == sorted(positions)
    assert said.count("TASK [bimetal.cluster.reboot : Reboot]") == 1


# ansible-role-nvidia-driver 20: a reboot on a local connection ended the controller.
@pytest.mark.parametrize(
    ("allowed", "why"),
    [("true", "it runs the kernel of the machine that runs this playbook"), ("false", "reboot_allowed is false")],
)
def test_what_a_role_needs_is_refused_with_the_reason_and_announced_before_any_change(
    ansible_playbook: Callable[..., Result], allowed: str, why: str
) -> None:
    run = ansible_playbook(
        "tests/roles/reboot/kernel_cmdline.yml", "--check", "-i", "gpu-0,", "--extra-vars", f"reboot_allowed={allowed}"
    )
    assert run.returncode == 0, run.stdout
    said = " ".join(run.stdout.split())
    assert f"Reboot needed on gpu-0 ({why}): the kernel runs without bimetal_test=1." in said
    changes = said.index("TASK [bimetal.cluster.kernel_cmdline : Set the parameters of the next boot]")
    assert ("gpu-0 will not be rebooted, though reboots are allowed" in said[:changes]) == (allowed == "true")
