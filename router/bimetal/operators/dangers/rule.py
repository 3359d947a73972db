"""What a rule about a danger is."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bimetal.operators.graph import Graph, Node
from bimetal.operators.matrix.targets import Target

PRACTITIONERS = "practitioners' findings"


@dataclass(frozen=True)
class Rule:
    """A condition and what it means.

    `find` gives the first node that shows the condition; for `whole_model` conditions any node.
    `cap` is the best score that the model can then have on the targets: 1 for wrong results, hangs
    and failures, 2 for what is slower by an order of magnitude or compiles in the request, 3 for
    what depends on the device, None for what is only worth knowing.
    """

    name: str
    targets: frozenset[Target]
    cap: int | None
    warning: str
    find: Callable[[Graph], Node | None]
    whole_model: bool = False
    extra_source: str = ""


def first(operators: Collection[str], shows: Callable[[Node], bool]) -> Callable[[Graph], Node | None]:
    """Finds the first node of one of these operators that shows it; None when none does."""
    return lambda graph: next((node for node in graph.nodes if node.operator in operators and shows(node)), None)


def model(shows: Callable[[Graph], bool]) -> Callable[[Graph], Node | None]:
    """For what the graph as a whole shows: its first node stands for it."""
    return lambda graph: graph.nodes[0] if graph.nodes and shows(graph) else None
