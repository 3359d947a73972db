"""A model's verdict for one execution provider: score, and the reasons in words."""

from dataclasses import dataclass

from router.operators.graph import Graph, Node
from router.operators.matrix import Cell, Matrix
from router.operators.targets import target_of

_MEANING = {
    5: "runs natively and fast",
    4: "runs natively",
    3: "runs natively, with limits",
    2: "runs through a conversion",
    1: "runs only on the CPU",
    0: "does not run",
}


@dataclass(frozen=True)
class Reason:
    """Why an operator has its score with a provider; `text` is one sentence for people."""

    operator: str
    domain: str
    version: int
    opset: int
    provider: str
    score: int
    text: str
    source: str


@dataclass(frozen=True)
class Verdict:
    """How well a provider runs a model, 0 to 5; the first of `reasons` decided."""

    score: int
    reasons: tuple[Reason, ...]


def verdict(graph: Graph, provider: str, matrix: Matrix) -> Verdict:
    """The verdict of the weakest operator.

    Raises:
        ValueError: no matrix column describes that provider.
    """
    operators = {(node.domain, node.operator, node.version): node for node in graph.nodes}
    reasons = sorted(
        (reason_for(node, provider, matrix) for node in operators.values()), key=lambda r: (r.score, r.operator)
    )
    return Verdict(min((reason.score for reason in reasons), default=5), tuple(reasons))


def reason_for(node: Node, provider: str, matrix: Matrix) -> Reason:
    """What the matrix says of one node."""
    judgement = matrix.judge(node.domain, node.operator, node.version, target_of(provider))
    name = node.operator if node.domain == "ai.onnx" else f"{node.domain}.{node.operator}"
    subject = f"{name} at opset {node.opset}"
    if judgement is None:
        score, detail, source = 0, "no source knows this operator", "none"
    else:
        score, source = judgement.score, _sources(judgement.decided_by, matrix)
        detail = judgement.decided_by.limits
        if (
            judgement.finding is not None
            and judgement.fact is not None
            and judgement.finding is not judgement.decided_by
        ):
            detail = f"{detail}; practitioners say otherwise ({judgement.finding.limits})" if detail else detail
    text = f"{subject} {_MEANING[score]} with {provider}{': ' + detail if detail else ''}."
    return Reason(node.operator, node.domain, node.version, node.opset, provider, score, text, source)


def _sources(cell: Cell, matrix: Matrix) -> str:
    return "; ".join(matrix.sources[source] for source in cell.sources)
