"""What the roles nvidia_driver and rocm share is one file in both."""

from pathlib import Path

import pytest

SHARED = [
    *(f"module_utils/{name}.py" for name in ("driver_versions", "driver_packages", "driver_host", "driver_record")),
    "module_utils/apt_sources.py",
    *(f"library/{name}.py" for name in ("driver_package_set", "driver_package_record", "vendor_apt_source")),
    *(f"library/{name}.py" for name in ("driver_host_info", "dkms_module_info")),
]


@pytest.mark.parametrize("path", SHARED)
def test_a_shared_module_is_the_same_file(project: Path, path: str) -> None:
    assert (project / "roles/rocm" / path).samefile(project / "roles/nvidia_driver" / path)
