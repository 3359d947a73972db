"""What every image promises."""

import pytest

from bimetal.images import check, sbom
from bimetal.images.engine import Engine
from bimetal.images.matrix import Row
from tests.images.docker.containers import Image
from tests.images.docker.levels import on_every_image_of, rows


def test_every_image_that_needs_no_registry_is_among_the_tested() -> None:
    assert {str(row) for row in rows()} >= {"cpu:bookworm", "cuda:11.8-debian", "rocm:5.7-debian", "router:bookworm"}


@on_every_image_of("common")
def test_an_image_passes_its_self_test_without_network_or_rights(engine: Engine, image: Image, row: Row) -> None:
    entry = image.entry(row)
    output = check.self_test(engine, image(row), row.image.kind, entry["base_id"])
    assert "device: no device: CPU" in output or "by the driver" in output or "by HIP" in output
    assert output.rstrip().endswith("every check passed")


@on_every_image_of("common")
def test_an_image_is_within_its_budget(image: Image, row: Row) -> None:
    assert image.entry(row)["size"] <= row.variant.budget_mb * 1_000_000


@on_every_image_of("common")
def test_an_image_lists_what_it_has_installed(engine: Engine, image: Image, row: Row) -> None:
    pytest.importorskip("cyclonedx", reason="the extra 'images' is not installed")
    found = sbom.contents(engine, image(row))
    names = {(package.kind, package.name) for package in found.packages}
    assert ("deb", "libc6") in names
    assert {("pypi", name) for name in row.variant.roots if name in {"numpy", "tritonclient"}} <= names
    assert sbom.count(sbom.document("bimetal/x", "1", found)) == len(found.packages)
