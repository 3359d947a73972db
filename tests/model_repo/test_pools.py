import pytest

from bimetal.model_repo.pools import POOLS, preferred_batch_sizes


@pytest.mark.parametrize(
    ("pool", "max_batch_size", "sizes"),
    [
        ("cuda", 64, [8, 16, 32, 64]),
        ("cuda", 32, [8, 16, 32]),
        ("cuda", 20, [8, 16]),
        ("cuda", 7, []),
        ("cuda", 0, []),
        ("rocm", 64, [32, 64]),
        ("rocm", 32, [32]),
        ("rocm", 31, []),
        ("cpu", 64, []),
    ],
)
def test_preferred_batch_sizes_fill_the_vendors_matrix_units_and_stay_within_the_maximum(
    pool: str, max_batch_size: int, sizes: list[int]
) -> None:
    assert preferred_batch_sizes(POOLS[pool], max_batch_size) == sizes
