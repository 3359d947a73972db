"""What a target does with one node: the matrix's cell, and whether its limits touch this node."""

from dataclasses import dataclass

from bimetal.operators.graph import Node
from bimetal.operators.matrix.matrix import INLINED, Cell, Judgement, Matrix
from bimetal.operators.matrix.targets import TORCH_BUILDS, Target
from bimetal.operators.onnx.function_body import body_of
from bimetal.operators.onnx.limits import broken_limit, unsupported_type
from bimetal.operators.onnx.main_type import main_type

# onnxruntime picks a kernel by type; the parsers of the other two cast, or were not tested by type.
_TYPED_KERNELS = frozenset({Target.CUDA, Target.ROCM})


@dataclass(frozen=True)
class Finding:
    """The score of a node on a target, what limits it, and where that is known from."""

    score: int
    detail: str
    source: str


UNMENTIONED = Finding(4, "no source mentions this operator", "none")
"""Of an aten operator that nothing is known of: it is native in either build, or in none."""


class NodeJudge:
    """Judges nodes for one target."""

    def __init__(self, matrix: Matrix, target: Target) -> None:
        self._matrix = matrix
        self._target = target

    def finding(self, node: Node) -> Finding:
        """The score (0-5) from the matrix, or from tests or the function's body where they know more."""
        judgement = self._matrix.judge(node.domain, node.operator, node.version, self._target)
        if judgement is None and self._target in TORCH_BUILDS.values():
            return UNMENTIONED
        if judgement is None:
            return Finding(0, "no source knows this operator", "none")
        cell = judgement.decided_by
        verified = self._verified(node, cell)
        if verified is None and cell.limits.endswith(INLINED) and (body := self._body(node)) is not None:
            sources = dict.fromkeys((*self._described(cell), *filter(None, body.source.split("; "))))
            return Finding(min(2, body.score), f"{cell.limits} {body.detail}", "; ".join(sources))
        score, detail = verified or self._within_limits(node, judgement.score, judgement.fact or cell)
        for said in (_said_by_practitioners(judgement), _said_by_times(judgement, score)):
            detail = "; ".join(filter(None, (detail, said)))
        if judgement.learned is not None:
            score = judgement.learned.applied_to(score)
        return Finding(score, detail, "; ".join(self._described(cell)))

    def _described(self, cell: Cell) -> list[str]:
        return [self._matrix.sources[source] for source in cell.sources]

    def _body(self, node: Node) -> Finding | None:
        """What becomes of the function body's operators here; None where there is no body to look at.

        The score is the weakest operator's: none of them can be left out.
        """
        body = body_of(node)
        works = [each for each in body if not all(tensor.constant for tensor in each.outputs if tensor)]
        if not works:
            return Finding(4, "(all of it is known before the model runs)", "") if body else None
        worst, at = min(((self.finding(each), each) for each in works), key=lambda pair: pair[0].score)
        names = ", ".join(dict.fromkeys(each.operator for each in works))
        if worst.score >= 3:
            return Finding(worst.score, f"({names}: all native)", worst.source)
        return Finding(worst.score, f"({names}); its {at.operator}({at.version}): {worst.detail}", worst.source)

    def _verified(self, node: Node, cell: Cell) -> tuple[int, str] | None:
        """What was verified of the node's type; None where it was not run."""
        inputs, outputs = ([tensor.type if tensor else None for tensor in side] for side in (node.inputs, node.outputs))
        kind = main_type(node.domain, node.operator, node.version, inputs, outputs)
        fact = cell.verified.get(kind or "")
        return None if fact is None else (fact.score, fact.text)

    def _within_limits(self, node: Node, score: int, cell: Cell) -> tuple[int, str]:
        """The cell's score once this node's attributes, types and constants are looked at."""
        if score < 3:
            return score, cell.limits
        missing_type = unsupported_type(node, cell)
        if missing_type is not None and self._target in _TYPED_KERNELS:
            return self._behind(node, f"no kernel for {missing_type}")
        answered, broken = broken_limit(node, self._target) if score == 3 else (False, None)
        if broken is not None:
            return self._behind(node, broken)
        if missing_type is not None:
            return 3, f"{missing_type} is not among its documented types"
        return (4, "") if answered else (score, cell.limits)

    def _behind(self, node: Node, why: str) -> tuple[int, str]:
        """The target does not take the node: what does the next provider do with it?"""
        if self._target is Target.TENSORRT and self._score(node, Target.CUDA) >= 3:
            return 3, f"{why}: the CUDA provider behind it runs the node"
        if self._score(node, Target.CPU) >= 2:
            return 1, f"{why}: the node runs on the CPU"
        return 0, f"{why}, and the CPU has no kernel either"

    def _score(self, node: Node, target: Target) -> int:
        judgement = self._matrix.judge(node.domain, node.operator, node.version, target)
        return 0 if judgement is None else judgement.score


def _said_by_times(judgement: Judgement, score: int) -> str:
    """What was learned on this cluster, where it speaks of the operator as it runs here."""
    return judgement.learned.text if judgement.learned is not None and score >= 3 else ""


def _said_by_practitioners(judgement: Judgement) -> str:
    """The finding beside a fact, said with whether it agrees."""
    fact, finding = judgement.fact, judgement.finding
    if finding is None or fact is None:
        return ""
    agrees = (fact.score >= 3) == (finding.score >= 3)
    return f"practitioners {'agree' if agrees else 'say otherwise'} ({finding.limits})"
