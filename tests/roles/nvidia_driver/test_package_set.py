"""Which packages make up one driver, and what keeps apt to them."""

from pathlib import Path

import pytest
import yaml
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_packages as packages

PATTERNS = ["(lib)?nvidia-.*", "libcuda1"]

# Debian 12 with its security archive: a newer driver there, without the open module, and an old daemon.
MADISON = """\
nvidia-kernel-dkms | 535.309.01-0+deb12u1 | http://security.example bookworm-security/non-free amd64 Packages
nvidia-kernel-dkms | 535.261.03-1 | http://deb.example bookworm/non-free amd64 Packages
nvidia-graphics-drivers | 535.309.01-0+deb12u1 | http://security.example bookworm-security/non-free Sources
  libcuda1 | 535.309.01-0+deb12u1 | http://security.example bookworm-security/non-free amd64 Packages
  libcuda1 | 535.261.03-1 | http://deb.example bookworm/non-free amd64 Packages
nvidia-smi | 535.309.01-0+deb12u1 | http://security.example bookworm-security/non-free amd64 Packages
nvidia-smi | 535.261.03-1 | http://deb.example bookworm/non-free amd64 Packages
nvidia-open-kernel-dkms | 535.261.03-1 | http://deb.example bookworm/contrib amd64 Packages
nvidia-persistenced | 535.171.04-1~deb12u1 | http://deb.example bookworm/contrib amd64 Packages
nvidia-cuda-toolkit | 11.8.89~11.8.0-5~deb12u1 | http://deb.example bookworm/non-free amd64 Packages
"""
REQUIRED = ["nvidia-kernel-dkms", "nvidia-smi", "nvidia-persistenced"]
LAGGING = ["nvidia-persistenced"]

POLICY = """\
rocminfo:
  Installed: (none)
  Candidate: 6.1.2-1
  Version table:
     6.1.2-1 500
        500 http://deb.example/debian trixie/main amd64 Packages
     1.0.0.70100-20~24.04 {priority}
        {priority} https://mirror.example/rocm/apt/7.1 noble/main amd64 Packages
amd-smi-lib:
  Installed: 26.1.0.70100-20~24.04
  Candidate: 26.1.0.70100-20~24.04
  Version table:
 *** 26.1.0.70100-20~24.04 600
        600 https://mirror.example/rocm/apt/7.1 noble/main amd64 Packages
        100 /var/lib/dpkg/status
amdgpu-dkms:
  Installed: (none)
  Candidate: (none)
  Version table:
"""


@pytest.fixture
def available() -> dict[str, list[str]]:
    found: dict[str, list[str]] = packages.parse_madison(MADISON)
    return found


# ansible-role-nvidia-driver 28, 11 and 60: with the top package pinned alone, libcuda1 came from the newer set.
def test_every_package_of_the_version_belongs_to_the_set(available: dict[str, list[str]]) -> None:
    chosen = packages.choose(available, REQUIRED, LAGGING, "535.261.03")
    assert chosen.version == "535.261.03"
    assert chosen.packages == {
        "nvidia-kernel-dkms": "535.261.03-1",
        "libcuda1": "535.261.03-1",
        "nvidia-smi": "535.261.03-1",
        "nvidia-open-kernel-dkms": "535.261.03-1",
        "nvidia-persistenced": "535.171.04-1~deb12u1",
    }


def test_a_branch_means_its_newest_version(available: dict[str, list[str]]) -> None:
    chosen = packages.choose(available, REQUIRED, LAGGING, "535")
    assert chosen.version == "535.309.01"
    assert chosen.packages["libcuda1"] == "535.309.01-0+deb12u1"
    assert "nvidia-open-kernel-dkms" not in chosen.packages


def test_a_branch_means_the_newest_version_that_all_required_packages_have(available: dict[str, list[str]]) -> None:
    chosen = packages.choose(available, ["nvidia-open-kernel-dkms", "nvidia-smi"], LAGGING, "535")
    assert chosen.version == "535.261.03"


def test_a_version_that_one_package_lacks_is_refused_with_what_apt_knows(available: dict[str, list[str]]) -> None:
    with pytest.raises(packages.PackageSetError, match=r"No version 535\.309\.01 that all of .* have") as raised:
        packages.choose(available, ["nvidia-open-kernel-dkms", "nvidia-smi"], LAGGING, "535.309.01")
    assert "nvidia-open-kernel-dkms: 535.261.03-1" in str(raised.value)


def test_a_package_that_apt_does_not_know_is_named(available: dict[str, list[str]]) -> None:
    with pytest.raises(packages.PackageSetError, match="nvidia-driver-cuda: unknown to apt"):
        packages.choose(available, ["nvidia-smi", "nvidia-driver-cuda"], LAGGING, "535")


def test_a_daemon_of_another_branch_does_not_lag_it_does_not_fit() -> None:
    available = {"nvidia-smi": ["550.1-1"], "nvidia-persistenced": ["535.171.04-1"]}
    with pytest.raises(packages.PackageSetError, match="nvidia-persistenced"):
        packages.choose(available, ["nvidia-smi", "nvidia-persistenced"], LAGGING, "550")


def test_a_package_that_lags_is_not_newer_than_the_driver_where_an_older_one_is_to_be_had() -> None:
    available = {"nvidia-smi": ["535.261-1", "535.309-1"], "nvidia-modprobe": ["535.309-1", "535.171-1", "525.1-1"]}
    required, lagging = ["nvidia-smi"], ["nvidia-modprobe"]
    assert packages.choose(available, required, lagging, "535.261").packages["nvidia-modprobe"] == "535.171-1"
    available["nvidia-modprobe"] = ["535.309-1"]
    assert packages.choose(available, required, lagging, "535.261").packages["nvidia-modprobe"] == "535.309-1"


def test_of_several_revisions_the_newest_is_taken() -> None:
    available = {"nvidia-smi": ["535.1-9", "535.1-10", "535.1-10~deb12u1"]}
    assert packages.choose(available, ["nvidia-smi"], [], "535").packages == {"nvidia-smi": "535.1-10"}


def test_names_are_matched_whole() -> None:
    names = ["nvidia-smi", "libnvidia-ml1", "libcuda1", "libcuda11-dev", "xnvidia-smi"]
    assert packages.selected(names, PATTERNS) == ["libcuda1", "libnvidia-ml1", "nvidia-smi"]


def test_pins_name_every_package_and_may_go_back() -> None:
    text = packages.preferences({"b": "2-1", "a": "2-1", "c": "1-1"}, "one set")
    assert text.startswith(packages.MARKER)
    assert "Package: a b\nPin: version 2-1\nPin-Priority: 1001\n" in text
    assert "Package: c\nPin: version 1-1\n" in text


def test_a_pin_that_another_one_outranks_is_found() -> None:
    candidates = packages.parse_policy(POLICY.format(priority=600))
    wanted = {"rocminfo": "1.0.0.70100-20~24.04", "amd-smi-lib": "26.1.0.70100-20~24.04", "absent": "1"}
    assert packages.outranked(candidates, wanted) == {"absent": "nothing", "rocminfo": "6.1.2-1"}


# ROCm 3656, 5797 and 6367: the distribution's own rocminfo outranks AMD's repository.
def test_a_candidate_of_the_distribution_is_found_with_its_archive() -> None:
    candidates = packages.parse_policy(POLICY.format(priority=500))
    assert packages.from_elsewhere(candidates, ["https://mirror.example/rocm/apt/7.1/"]) == [
        "amdgpu-dkms (none) of no archive",
        "rocminfo 6.1.2-1 of http://deb.example/debian trixie/main amd64 Packages",
    ]


def test_only_what_is_installed_counts_as_installed() -> None:
    text = "nvidia-smi 535.1-1 installed\nlibcuda1:amd64 535.1-1 installed\nold 1-1 config-files\nnone  not-installed\n"
    assert packages.parse_installed(text) == {"nvidia-smi": "535.1-1", "libcuda1": "535.1-1"}


@pytest.mark.parametrize(
    ("role", "members", "others"),
    [
        (
            "nvidia_driver",
            ["nvidia-kernel-dkms", "nvidia-cuda-mps", "libnvidia-ml1", "libcuda1", "libgl1-nvidia-glvnd-glx"],
            ["nvidia-container-toolkit", "libnvidia-container1", "nvidia-cuda-toolkit", "libcudart11.0"],
        ),
        (
            "rocm",
            ["amdgpu-dkms", "rocminfo", "rocm-smi-lib", "hip-runtime-amd", "hipcc", "rocblas-dev", "amd-smi-lib"],
            ["rocksdb-tools", "librocksdb7.8", "hiphop-php", "rocs", "amd64-microcode", "half"],
        ),
    ],
)
def test_a_rollback_removes_nothing_that_only_shares_a_word_with_the_driver(
    project: Path, role: str, members: list[str], others: list[str]
) -> None:
    data: dict[str, list[str]] = {}
    for path in (project / f"roles/{role}/vars/main").glob("*.yml"):
        data |= yaml.safe_load(path.read_text())
    assert packages.selected([*members, *others], data[f"_{role}_patterns"]) == sorted(members)
