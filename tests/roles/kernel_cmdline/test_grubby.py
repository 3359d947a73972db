"""The role on an EL host's boot loader, played by a script that keeps two entries as grubby does."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Playbook = Callable[..., subprocess.CompletedProcess[str]]

SHOW = r"""
echo "$*" >> "$STATE.calls"
case "$1" in
  --info=ALL)
    index=0
    while read -r line; do
      printf 'index=%s\nkernel="/boot/vmlinuz-5.14.0-%s.el9.x86_64"\nargs="%s"\n' "$index" "$index" "$line"
      index=$((index + 1))
    done < "$STATE" ;;
"""
UPDATE = r"""
  --update-kernel=ALL)
    shift
    for option; do
      case "$option" in
        --remove-args=*) for word in ${option#*=}; do sed -i "s/ $word\\b//" "$STATE"; done ;;
        --args=*) sed -i "s/\$/ ${option#*=}/" "$STATE" ;;
      esac
    done ;;
esac
"""
# augeasproviders_grub 95 and sap_install 1081: the tool succeeds, and the entries are as they were.
NO_UPDATE = "esac\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The command lines of two entries, one with a value that contradicts."""
    state = tmp_path / "entries"
    state.write_text("ro quiet $tuned_params\nro pcie_aspm=force\n")
    return state


@pytest.fixture
def converge(
    ansible_playbook: Playbook, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the role with that grubby; it touches nothing but the entries."""

    def run(grubby: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "grubby"
        script.write_text(f"#!/bin/sh\nSTATE={state}\n{grubby}")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        variables = '{"kernel_cmdline_boot_loader": "grubby", "kernel_cmdline_aspm_policy": "",'
        variables += '"kernel_cmdline_gpu_vendors": ["nvidia"], "kernel_cmdline_extra_parameters": []}'
        options = ["--inventory", "gpu-0,", "--extra-vars", variables, *arguments]
        return ansible_playbook("tests/roles/kernel_cmdline/local.yml", *options)

    return run


def test_all_entries_get_the_parameters_and_a_second_run_changes_nothing(
    converge: Callable[..., subprocess.CompletedProcess[str]], state: Path
) -> None:
    first = converge(SHOW + UPDATE)
    assert first.returncode == 0, first.stdout
    assert "changed=1" in first.stdout
    assert state.read_text() == "ro quiet $tuned_params pcie_aspm=off iommu=pt\nro pcie_aspm=off iommu=pt\n"
    second = converge(SHOW + UPDATE)
    assert "changed=0" in second.stdout, second.stdout


def test_a_check_changes_nothing(converge: Callable[..., subprocess.CompletedProcess[str]], state: Path) -> None:
    before = state.read_text()
    run = converge(SHOW + UPDATE, "--check", "--diff")
    assert run.returncode == 0, run.stdout
    assert "changed=1" in run.stdout
    assert state.read_text() == before
    assert "update" not in Path(f"{state}.calls").read_text()


def test_a_grubby_that_leaves_the_entries_as_they_were_is_not_believed(
    converge: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    run = converge(SHOW + NO_UPDATE)
    assert run.returncode == 2
    output = " ".join(run.stdout.split())
    assert "succeeded, and the entries still need --remove-args=pcie_aspm=force --args=pcie_aspm=off iommu=pt" in output


def test_a_grubby_that_knows_no_kernel_is_an_error(
    converge: Callable[..., subprocess.CompletedProcess[str]], state: Path
) -> None:
    state.write_text("")
    run = converge(SHOW + UPDATE)
    assert run.returncode == 2
    assert "lists no kernel: expected at least the running one" in " ".join(run.stdout.split())
