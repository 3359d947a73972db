"""The checks that run before the environment exists."""

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from roles.triton.files import process_preflight as preflight

SCRIPT = "roles/triton/files/process_preflight.py"


def run_with(project: Path, elsewhere: str) -> subprocess.CompletedProcess[str]:
    """Run the script after `elsewhere` has made this machine look like another one."""
    code = f"{elsewhere}\nimport runpy; runpy.run_path({SCRIPT!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)


def test_the_supported_pythons_are_those_of_pyproject(project: Path) -> None:
    requires = tomllib.loads((project / "pyproject.toml").read_text())["project"]["requires-python"]
    first, below = (".".join(map(str, version)) for version in (preflight.PYTHON_FROM, preflight.PYTHON_BELOW))
    assert requires == f">={first},<{below}"


@pytest.mark.parametrize("version", [(3, 10, 12), (3, 13, 0), (2, 7, 18)])
def test_an_unsupported_python_is_named_with_what_is_expected_and_what_to_do(version: tuple[int, ...]) -> None:
    problem = preflight.python_problem(version) or ""
    assert f"Python {version[0]}.{version[1]} at {sys.executable} is not supported" in problem
    assert "expected 3.11 or 3.12" in problem
    assert "make up PYTHON=" in problem


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 9)])
def test_a_supported_python_is_no_problem(version: tuple[int, ...]) -> None:
    assert preflight.python_problem(version) is None


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64"), ("Windows", "AMD64")])
def test_a_platform_without_wheels_is_named(system: str, machine: str) -> None:
    assert f"{system} on {machine}" in (preflight.platform_problem(system, machine) or "")


@pytest.mark.parametrize("library", ["glibc 2.31", "not glibc"])
def test_an_old_or_foreign_c_library_is_named(library: str) -> None:
    assert f"The C library is {library}: expected glibc 2.35 or newer" in (preflight.glibc_problem(library) or "")


def test_glibc_versions_are_compared_as_numbers() -> None:
    assert preflight.glibc_problem("glibc 2.100") is None
    assert preflight.glibc_problem("glibc 2.4") is not None


@pytest.mark.parametrize(
    ("libpython", "environments", "packages"),
    [
        (False, True, "libpython3.11"),
        (True, False, "python3.11-venv"),
        (False, False, "python3.11-venv libpython3.11"),
    ],
)
def test_missing_packages_are_named_in_one_command(libpython: bool, environments: bool, packages: str) -> None:
    problem = preflight.packages_problem((3, 11, 2), libpython, environments) or ""
    assert re.findall(r"apt-get install (.*?)(?:  |$)", problem) == [packages]
    assert ("libpython3.11.so.1.0" in problem) is not libpython
    assert ("ensurepip" in problem) is not environments


def test_a_bare_debian_is_told_of_all_its_missing_packages_at_once(project: Path) -> None:
    elsewhere = (
        "import importlib.util, os.path\n"
        "found, exists = importlib.util.find_spec, os.path.exists\n"
        "importlib.util.find_spec = lambda name: None if name == 'ensurepip' else found(name)\n"
        "os.path.exists = lambda path: 'libpython' not in path and exists(path)\n"
        "import sys; sys.argv = ['preflight', '--venv']"
    )
    result = run_with(project, elsewhere)
    assert result.returncode == 1
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert result.stderr.count("error: ") == 1
    assert f"apt-get install python{minor}-venv libpython{minor}" in result.stderr


def test_a_missing_libpython_is_found_nowhere(tmp_path: Path) -> None:
    assert preflight.find_libpython("libpython3.11.so.1.0", ["", str(tmp_path)]) is None


def test_libpython_is_found_in_the_first_directory_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "libpython3.11.so.1.0").touch()
    assert preflight.find_libpython("libpython3.11.so.1.0", ["/nowhere", str(tmp_path)]) == str(tmp_path)


def test_an_unsupported_python_is_not_told_to_get_a_libpython(project: Path) -> None:
    result = run_with(project, "import sys; sys.version_info = (3, 10, 12)")
    assert result.returncode == 1
    assert "Python 3.10" in result.stderr
    assert "libpython" not in result.stderr


def test_all_problems_are_told_at_once(project: Path) -> None:
    elsewhere = "import os, platform; platform.machine = lambda: 'riscv64'; os.confstr = lambda name: 'glibc 2.17'"
    result = run_with(project, elsewhere)
    assert result.returncode == 1
    assert result.stderr.count("error: ") == 2
    assert result.stderr.count("Next: ") == 2


def test_this_machine_passes_and_its_libraries_are_told_to_the_role(project: Path) -> None:
    command = [sys.executable, SCRIPT, "--venv", "--json"]
    found = json.loads(subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout)
    assert (Path(found["libpython_dir"]) / f"libpython{found['python']}.so.1.0").exists()
    assert found["site_packages"] == sysconfig.get_path("purelib")
