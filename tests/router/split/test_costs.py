"""What an operator costs on each vendor, by its score there."""

from math import inf

import pytest

from bimetal.operators.costs.cost import CONVERSION, LAUNCH, Cost
from bimetal.split.costs import DEVICES, Link, node_seconds

CUDA, AMD = DEVICES["CUDAExecutionProvider"], DEVICES["MIGraphXExecutionProvider"]
PRODUCT = Cost(flops=10**13, bytes=10**6)


@pytest.mark.parametrize("score", [3, 4, 5])
def test_a_native_operator_takes_the_rates_of_the_device(score: int) -> None:
    assert node_seconds(PRODUCT, score, CUDA) == pytest.approx(LAUNCH + 1e13 / 989e12)
    assert node_seconds(PRODUCT, score, AMD) == pytest.approx(LAUNCH + 1e13 / 1307.4e12)
    assert node_seconds(Cost(0, 10**9), score, AMD) == pytest.approx(LAUNCH + 1e9 / 5.3e12)


def test_a_conversion_costs_several_kernels() -> None:
    assert node_seconds(PRODUCT, 2, CUDA) == pytest.approx(CONVERSION * node_seconds(PRODUCT, 3, CUDA))


def test_what_falls_back_costs_the_cpus_time_behind_either_vendor() -> None:
    assert node_seconds(PRODUCT, 1, CUDA) == node_seconds(PRODUCT, 1, AMD) == PRODUCT.seconds(1)


def test_what_cannot_run_is_never_worth_it_and_a_view_is_free_where_it_can() -> None:
    assert node_seconds(Cost(0, 0), 0, CUDA) == inf
    assert node_seconds(Cost(0, 0), 1, CUDA) == 0


def test_a_byte_costs_the_network_and_the_copies() -> None:
    assert Link(gbps=8, hop_seconds=1, copy_seconds_per_byte=2e-9).seconds_per_byte == pytest.approx(3e-9)
