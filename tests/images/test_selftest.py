"""The self-test's own checks, on this machine's files: each must be able to fail."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bimetal.resources import resource
from tests.patience import PATIENCE_S

COMMON = resource("images/rootfs") / "common/opt/bimetal"
FACTS: dict[str, Any] = {"name": "cpu:x", "kind": "train", "vendor": "cpu", "server": "wheel", "provider": "x"}
FACTS |= {"libraries": [], "library_dirs": [], "code_dirs": [], "versions": {}}


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package as it lies in an image."""
    monkeypatch.syspath_prepend(str(COMMON))
    yield importlib.import_module("checks")
    for name in [name for name in sys.modules if name.split(".")[0] == "checks"]:
        del sys.modules[name]


@pytest.fixture
def numpy_alone(tmp_path: Path) -> Path:
    """numpy's compiled module where a wheel has it, without the libraries that the wheel brings for it."""
    package = Path(np.__file__).parent
    [module] = (package / "core").glob("_multiarray_umath*.so")
    (tmp_path / "numpy/core").mkdir(parents=True)
    return Path(shutil.copy(module, tmp_path / "numpy/core"))


def test_a_library_that_is_missing_is_named_with_who_needs_it(
    checks: ModuleType, tmp_path: Path, numpy_alone: Path
) -> None:
    facts = FACTS | {"code_dirs": [str(tmp_path)]}
    with pytest.raises(checks.Failed, match=rf"not found: libopenblas\S* \(needed by {numpy_alone}\)"):
        checks.every_library_resolves(facts)
    shutil.copytree(Path(np.__file__).parents[1] / "numpy.libs", tmp_path / "numpy.libs")
    assert checks.every_library_resolves(facts) == "4 files, nothing missing"


@pytest.mark.usefixtures("checks")
def test_the_first_folder_of_a_soname_counts() -> None:
    libraries = importlib.import_module("checks.libraries")
    cache = b"2 libs\n\tlibx.so.1 (libc6) => /first/libx.so.1\n\tlibx.so.1 (libc6) => /second/libx.so.1\n"
    assert libraries.first_of_each_soname(cache) == {"libx.so.1": "/first/libx.so.1"}


def test_a_vendors_library_from_elsewhere_is_named_with_where_it_should_be(checks: ModuleType) -> None:
    libraries = importlib.import_module("checks.libraries")
    printed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, check=True).stdout
    c_library = libraries.first_of_each_soname(printed)["libc.so.6"]
    facts = FACTS | {"libraries": ["libc.so.6"], "library_dirs": [str(Path(c_library).parent)]}
    assert checks.vendor_libraries_come_first(facts).startswith("1 of the vendor's")
    with pytest.raises(checks.Failed, match=r"libc.so.6 is .*, expected in /elsewhere"):
        checks.vendor_libraries_come_first(facts | {"library_dirs": ["/elsewhere"]})
    with pytest.raises(checks.Failed, match=r"libmissing.so.1 is nowhere"):
        checks.vendor_libraries_come_first(facts | {"libraries": ["libmissing.so.1"]})


def test_without_a_device_node_the_cpu_is_said_to_compute(checks: ModuleType) -> None:
    assert checks.device(FACTS) == "no device: CPU"


def self_test(tmp_path: Path, check: str) -> subprocess.CompletedProcess[str]:
    """Run the script with one check in the place of the image's own."""
    shutil.copytree(COMMON, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "checks/__init__.py").write_text(
        "from checks.outcome import Failed, Skipped\n\n\n"
        f"def check(facts):\n    {check}\n\n\n"
        'CHECKS = {"train": [("first", check), ("second", lambda facts: "fine")]}\n'
    )
    (tmp_path / "image.json").write_text(json.dumps(FACTS))
    return subprocess.run(
        [sys.executable, str(tmp_path / "selftest")], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_a_failed_check_stops_none_of_the_others_and_is_the_exit_status(tmp_path: Path) -> None:
    done = self_test(tmp_path, 'raise Failed("broken")')
    assert done.returncode == 1
    assert [line.rpartition(" (")[0] for line in done.stdout.splitlines()[:2]] == [
        "FAIL first: broken",
        "ok   second: fine",
    ]
    assert done.stdout.splitlines()[-1] == "cpu:x: 1 failed"


def test_what_does_not_apply_is_said_and_fails_nothing(tmp_path: Path) -> None:
    done = self_test(tmp_path, 'raise Skipped("not here")')
    assert done.returncode == 0
    assert done.stdout.startswith("skip first: not here")
    assert done.stdout.endswith("cpu:x: every check passed\n")
