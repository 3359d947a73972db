"""Dangers that a model file shows, with the public reports that warn of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from bimetal.operators.dangers.onnx_rules import RULES
from bimetal.operators.dangers.rule import Rule
from bimetal.operators.graph import Graph, Node
from bimetal.operators.matrix.matrix import DATA, read_rows
from bimetal.operators.matrix.targets import Target

REPORTS_FILE = DATA / "operator_reports.csv"


@dataclass(frozen=True)
class Report:
    """A public thread about an operator that misbehaves on one vendor."""

    thread: str
    condition: str
    symptom: str
    status: str


@dataclass(frozen=True)
class Danger:
    """A rule that a node has triggered."""

    rule: Rule
    node: Node
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        """What the rule warns of, as a sentence for people."""
        return self.rule.warning


def dangers(graph: Graph, target: Target) -> Iterator[Danger]:
    """One danger per rule and target: the first node that shows it."""
    reports = reports_by_rule()
    for rule in RULES:
        if target not in rule.targets:
            continue
        node = rule.find(graph)
        if node is not None:
            threads = [f"{report.thread} ({report.status})" for report in reports.get(rule.name, ())]
            yield Danger(rule, node, tuple(filter(None, (*threads, rule.extra_source))))


@lru_cache(maxsize=1)
def reports_by_rule() -> Mapping[str, tuple[Report, ...]]:
    """The reports behind each rule."""
    found: dict[str, tuple[Report, ...]] = {}
    for _, row in read_rows(REPORTS_FILE, ("number", "thread", "condition", "symptom", "status", "rule", "unseen")):
        if row["rule"]:
            report = Report(row["thread"], row["condition"], row["symptom"], row["status"])
            found[row["rule"]] = (*found.get(row["rule"], ()), report)
    return found
