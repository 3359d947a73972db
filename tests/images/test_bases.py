"""Where a build starts."""

from pathlib import Path

import pytest

from images import bases
from images.errors import ImageError, RegistryError
from images.matrix import Base, Matrix
from tests.images.fakes import DIGEST, FakeEngine

PINNED = f"debian@{DIGEST}"


def resolve(
    matrix: Matrix,
    engine: FakeEngine,
    cache: Path,
    name: str = "bookworm",
    *,
    offline: bool = False,
    **environment: str,
) -> bases.Resolved:
    return bases.resolve(name, matrix.bases[name], engine, cache, offline=offline, environment=environment)


def test_a_base_is_pulled_by_its_digest_once(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    first = resolve(matrix, engine, tmp_path)
    assert first == bases.Resolved(PINNED, "sha256:base", "digest")
    assert resolve(matrix, engine, tmp_path) == first
    assert engine.pulled == [PINNED]


def test_a_base_of_another_digest_is_refused(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    engine.answers_to_pull = {"Id": "sha256:other", "RepoDigests": [f"debian@sha256:{'b' * 64}"]}
    with pytest.raises(RegistryError, match=r"expected debian@sha256:a+, and the engine has something else"):
        resolve(matrix, engine, tmp_path)


def test_a_base_without_a_digest_is_refused_with_the_two_ways_on(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path
) -> None:
    with pytest.raises(ImageError, match=r"has no digest.*Next: bimetal-images pin vendor, or .*BASE_VENDOR="):
        resolve(matrix, engine, tmp_path, "vendor")
    assert engine.pulled == []


def test_an_override_wins_over_everything(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    engine.images["mine:1"] = {"Id": "sha256:mine"}
    resolved = resolve(matrix, engine, tmp_path, "vendor", offline=True, BASE_VENDOR="mine:1")
    assert resolved == bases.Resolved("mine:1", "sha256:mine", "BASE_VENDOR")


def test_an_override_that_the_engine_lacks_is_an_error(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="BASE_BOOKWORM=mine:1: the engine has no such image"):
        resolve(matrix, engine, tmp_path, BASE_BOOKWORM="mine:1")


@pytest.mark.parametrize("image", ["registry:5000/triton", "registry:5000/triton:1"])
def test_a_registrys_port_is_no_tag(image: str) -> None:
    assert bases.repository(image) == "registry:5000/triton"


def test_the_variable_of_a_base_is_its_name_in_capitals() -> None:
    assert bases.override_variable("ngc-22.12") == "BASE_NGC_22_12"


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in first on PATH, that writes its arguments where the root goes."""
    script = tmp_path / "bin/mmdebstrap"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nfor last; do :; done\necho "$SOURCE_DATE_EPOCH $*" > "$last"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    return script


@pytest.mark.usefixtures("mmdebstrap")
def test_offline_a_base_is_bootstrapped_once_and_kept(matrix: Matrix, engine: FakeEngine, tmp_path: Path) -> None:
    resolved = resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert (resolved.reference, resolved.origin) == ("local/debian:bookworm", "mmdebstrap bookworm")
    assert engine.pulled == []
    made = (tmp_path / "cache/bookworm.tar").read_text()
    assert made.startswith(bases.EPOCH)
    engine.images.clear()  # another engine gets the same root
    assert resolve(matrix, engine, tmp_path / "cache", offline=True) == resolved


def test_a_bootstrap_that_breaks_off_leaves_nothing_that_passes_for_a_base(
    matrix: Matrix, engine: FakeEngine, tmp_path: Path, mmdebstrap: Path
) -> None:
    mmdebstrap.write_text('#!/bin/sh\nfor last; do :; done\necho half > "$last"; echo "E: no mirror" >&2; exit 1\n')
    with pytest.raises(ImageError, match=r"mmdebstrap bookworm failed: E: no mirror. Next: check the mirror"):
        resolve(matrix, engine, tmp_path / "cache", offline=True)
    assert list((tmp_path / "cache").iterdir()) == []
    assert engine.images == {}


def test_the_origin_says_what_would_happen_without_asking(matrix: Matrix) -> None:
    base = matrix.bases["bookworm"]
    assert bases.origin("bookworm", base, {}, offline=True) == "mmdebstrap bookworm"
    assert bases.origin("bookworm", base, {}, offline=False).startswith("debian:bookworm-slim@sha256:aaaa")
    assert bases.origin("x", Base(image="v:1"), {}, offline=False) == "v:1 (not pinned)"
    assert bases.origin("x", base, {"BASE_X": "mine"}, offline=True) == "mine (BASE_X)"
