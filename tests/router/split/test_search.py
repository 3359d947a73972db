"""The search finds what trying everything finds, and its costs are those of the parts."""

from collections.abc import Iterator
from itertools import combinations, pairwise, product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bimetal.split.chain import Chain, CutTensor, Part
from bimetal.split.costs import Link
from bimetal.split.search import MAX_ATOMS, best_split

LINK = Link(gbps=8, hop_seconds=2.0, copy_seconds_per_byte=1.0)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """A random graph of one to seven atoms on one to three targets; some operators cannot run somewhere."""
    length, targets = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    seconds = [[draw(st.sampled_from([0.0, 1.0, 3.0, 10.0, 40.0, inf])) for _ in range(length)] for _ in range(targets)]
    tensors = []
    for _ in range(draw(st.integers(1, 8))):
        maker = draw(st.integers(-1, length - 1))
        readers = draw(st.sets(st.integers(maker + 1, length - 1))) if maker + 1 < length else set()
        output = maker >= 0 and (not readers or draw(st.booleans()))
        tensors.append(CutTensor(draw(st.integers(0, 5)), maker, tuple(sorted(readers)), output))
    return Chain(np.array(seconds), tensors)


def every_split(chain: Chain, counts: range) -> Iterator[list[Part]]:
    """Every row of parts with a target each, different from its neighbour's where there is a choice."""
    for count in counts:
        for inner in combinations(range(1, chain.length), count - 1):
            bounds = [0, *inner, chain.length]
            for targets in product(range(chain.targets), repeat=count):
                if chain.targets > 1 and any(a == b for a, b in pairwise(targets)):
                    continue
                yield [Part(bounds[i], bounds[i + 1], targets[i]) for i in range(count)]


def total(chain: Chain, parts: list[Part] | None) -> float:
    """The sum of the parts' costs; infinite where a part takes or gives nothing, or there is no split."""
    costs = [chain.cost(part, LINK) for part in parts or ()]
    if not costs or any(cost.bytes_in == 0 or cost.bytes_out == 0 for cost in costs):
        return inf
    return sum(cost.total for cost in costs)


@settings(max_examples=150, deadline=None)
@given(chains())
def test_it_finds_the_optimum_of_all_splits(chain: Chain) -> None:
    optimum = min((total(chain, parts) for parts in every_split(chain, range(2, chain.length + 1))), default=inf)
    assert total(chain, best_split(chain, LINK)) == pytest.approx(optimum)


@settings(max_examples=150, deadline=None)
@given(chains(), st.integers(1, 4))
def test_it_finds_the_optimum_of_a_forced_number_of_parts(chain: Chain, count: int) -> None:
    optimum = min((total(chain, parts) for parts in every_split(chain, range(count, count + 1))), default=inf)
    parts = best_split(chain, LINK, count)
    assert total(chain, parts) == pytest.approx(optimum)
    assert parts is None or len(parts) == count


@settings(max_examples=100, deadline=None)
@given(chains())
def test_the_parts_cover_every_atom_once_and_in_order(chain: Chain) -> None:
    parts = best_split(chain, LINK)
    if parts is not None:
        assert [atom for part in parts for atom in range(part.start, part.stop)] == list(range(chain.length))


def test_a_cost_is_operators_and_bytes_and_one_call() -> None:
    chain = Chain(
        np.array([[1.0, 2.0, 4.0]]),
        [CutTensor(10, -1, (0, 2)), CutTensor(100, 0, (1, 2)), CutTensor(1000, 2, (), output=True)],
    )
    cost = chain.cost(Part(1, 3, 0), LINK)
    assert (cost.compute, cost.bytes_in, cost.bytes_out, cost.hop) == (6.0, 110, 1000, 2.0)
    assert cost.transfer == pytest.approx(1110 * (1 + 1e-9))
    assert cost.total == pytest.approx(6.0 + 1110 * (1 + 1e-9) + 2.0)


def test_a_split_follows_the_faster_target_of_each_stretch() -> None:
    chain = Chain(
        np.array([[1.0, 1.0, 90.0, 90.0, 1.0], [90.0, 90.0, 1.0, 1.0, 90.0]]),
        [CutTensor(1, maker, (maker + 1,)) for maker in range(-1, 4)] + [CutTensor(1, 4, (), output=True)],
    )
    assert best_split(chain, LINK) == [Part(0, 2, 0), Part(2, 4, 1), Part(4, 5, 0)]


def test_a_chain_of_the_largest_size_is_searched_exactly() -> None:
    """10,000 atoms with a skip connection every tenth; the two stretches that differ are found."""
    seconds = np.full((2, MAX_ATOMS), 1.0)
    seconds[1, :6000] = 2
    seconds[1, 6000:] = 0.5
    tensors = [CutTensor(4, maker, (maker + 1,)) for maker in range(-1, MAX_ATOMS - 1)]
    tensors += [CutTensor(4, maker, (maker + 9,)) for maker in range(0, MAX_ATOMS - 10, 10)]
    chain = Chain(seconds, [*tensors, CutTensor(4, MAX_ATOMS - 1, (), output=True)])
    assert best_split(chain, LINK) == [Part(0, 6000, 0), Part(6000, MAX_ATOMS, 1)]
