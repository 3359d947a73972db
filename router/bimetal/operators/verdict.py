"""A model's verdict for one execution provider: score, and the reasons in words.

Each operator (with its version and its score here) has a share of the model's estimated time on
that provider: the larger of its share of the critical path and of the whole. It pulls the model
down from 5 in full once that share reaches FULL_SHARE, and in proportion below it:

    value = min over operators of 5 - (5 - score) * min(1, share / FULL_SHARE)

So a cheap operator off the critical path cannot sink a model, and an expensive one that falls
back to the CPU does: its time is the CPU's, copies included. Two things do not depend on time: an
operator that scores 0 makes the model 0 (no session can be created), and a danger caps the value.
The model's score is the value rounded down. Where a file does not tell the shapes of its inputs, every
operator counts as if it were all of the time: the weakest decides. Operators that no source mentions count
only in ONNX files (0): both builds of PyTorch share one list of aten operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bimetal.operators.dangers.dangers import Danger, dangers
from bimetal.operators.graph import Node
from bimetal.operators.matrix.matrix import Matrix
from bimetal.operators.matrix.targets import SPOKEN, target_of
from bimetal.operators.node_judge import UNMENTIONED, Finding, NodeJudge
from bimetal.operators.profile import Profile, critical_path

FULL_SHARE = 0.10
UNKNOWN_VALUE = 3.0  # of a model of whose operators nothing is known
WHOLE_MODEL = "*"  # in place of an operator's name where the model as a whole is the reason

MEANING = {
    5: "runs natively and fast",
    4: "runs natively",
    3: "runs natively, with limits",
    2: "runs through a conversion",
    1: "runs only on the CPU",
    0: "does not run",
}


@dataclass(frozen=True)
class Reason:
    """Why an operator has its score with a provider; `text` is one sentence for people.

    `share` (0 to 1) is the operator's part of the estimated time, `effect` what the reason alone
    would make of the model (0 to 5).
    """

    operator: str
    domain: str
    version: int
    opset: int
    provider: str
    score: int
    text: str
    source: str
    nodes: int = 1
    share: float = 0.0
    effect: float = 5.0

    @property
    def label(self) -> str:
        """The operator with its version, such as `Softplus(22)`."""
        return operator_label(self.domain, self.operator, self.version)


@dataclass(frozen=True)
class Verdict:
    """How well a provider runs a model, 0 to 5; the first of `reasons` decided.

    `value` is the score before it is rounded down; `fallback` names the operators that run on the
    CPU, `warnings` the dangers (those that cap the score are among `reasons`, too).
    """

    score: int
    reasons: tuple[Reason, ...]
    value: float
    fallback: tuple[str, ...] = ()
    warnings: tuple[Reason, ...] = ()


def operator_label(domain: str, operator: str, version: int) -> str:
    """As people read it: `relu` of aten, `Conv(11)` of ONNX, `com.microsoft.Gelu(1)` of any other domain."""
    if domain == "aten":
        return operator
    return f"{operator}({version})" if domain == "ai.onnx" else f"{domain}.{operator}({version})"


def verdict(profile: Profile, provider: str, matrix: Matrix) -> Verdict:
    """The verdict of a provider on a profiled model.

    Raises:
        ValueError: no matrix column describes that provider.
    """
    target = target_of(provider)
    judge = NodeJudge(matrix, target)
    findings = [judge.finding(node) for node in profile.graph.nodes]
    reasons = _operator_reasons(profile, provider, findings)
    warnings = [_danger_reason(danger, provider, findings) for danger in dangers(profile.graph, target)]
    caps = [warning for warning in warnings if warning.effect < 5]
    ordered = sorted([*reasons, *caps], key=lambda reason: (reason.effect, reason.score, -reason.share, reason.label))
    value = min((reason.effect for reason in ordered), default=UNKNOWN_VALUE if profile.graph.nodes else 5.0)
    fallback = tuple(dict.fromkeys(reason.label for reason in ordered if reason.score == 1 and reason in reasons))
    return Verdict(int(value + 1e-9), tuple(ordered), value, fallback, tuple(warnings))


def _operator_reasons(profile: Profile, provider: str, findings: Sequence[Finding]) -> list[Reason]:
    nodes = profile.graph.nodes
    seconds = [cost.seconds(finding.score) for cost, finding in zip(profile.costs, findings, strict=True)]
    shares = _shares(seconds, critical_path(profile.graph, seconds))
    groups: dict[tuple[str, str, int, Finding], list[int]] = {}
    for node, finding in zip(nodes, findings, strict=True):
        if finding is UNMENTIONED:
            continue
        groups.setdefault((node.domain, node.operator, node.version, finding), []).append(node.index)
    reasons = []
    for (domain, operator, version, finding), members in groups.items():
        share = max(sum(part[index] for index in members) for part in shares) if profile.graph.timed else 1.0
        first = nodes[members[0]]
        reasons.append(
            Reason(
                operator=operator,
                domain=domain,
                version=version,
                opset=first.opset,
                provider=provider,
                score=finding.score,
                text=_sentence(first, provider, finding, len(members), share if profile.graph.timed else None),
                source=finding.source,
                nodes=len(members),
                share=share,
                effect=0.0 if finding.score == 0 else 5 - (5 - finding.score) * min(1.0, share / FULL_SHARE),
            )
        )
    return reasons


def _shares(seconds: Sequence[float], path: frozenset[int]) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Each node's share of the critical path (0 off it) and of the whole."""
    whole = dict(enumerate(seconds))
    on_path = {index: seconds[index] if index in path else 0.0 for index in whole}
    return _normalised(on_path), _normalised(whole)


def _normalised(seconds: Mapping[int, float]) -> Mapping[int, float]:
    """Parts of one; equal parts when nothing takes time (a model of views only)."""
    total = sum(seconds.values())
    if total == 0:
        return dict.fromkeys(seconds, 1 / len(seconds)) if seconds else {}
    return {index: value / total for index, value in seconds.items()}


def _sentence(node: Node, provider: str, finding: Finding, nodes: int, share: float | None) -> str:
    detail = f": {finding.detail}" if finding.detail else ""
    count = "1 node" if nodes == 1 else f"{nodes} nodes"
    time = "" if share is None else f", {share:.0%} of the time"
    return f"{_spoken(node)} {MEANING[finding.score]} with {SPOKEN.get(provider, provider)}{detail} ({count}{time})."


def _spoken(node: Node) -> str:
    if node.domain == "aten":
        return f"aten::{node.operator}"
    return f"{_named(node)} at opset {node.opset}"


def _named(node: Node) -> str:
    return node.operator if node.domain == "ai.onnx" else f"{node.domain}.{node.operator}"


def _danger_reason(danger: Danger, provider: str, findings: Sequence[Finding]) -> Reason:
    node = danger.node
    score = findings[node.index].score
    cap = danger.rule.cap
    where = "" if danger.rule.whole_model else f" (node {node.label})"
    subject = f"The model at opset {node.opset}" if danger.rule.whole_model else _spoken(node)
    return Reason(
        operator=WHOLE_MODEL if danger.rule.whole_model else node.operator,
        domain=node.domain,
        version=node.version,
        opset=node.opset,
        provider=provider,
        score=score if cap is None else min(score, cap),
        text=f"{subject} with {SPOKEN.get(provider, provider)} is known for trouble: {danger.text}{where}.",
        source="; ".join(danger.sources),
        effect=5.0 if cap is None else float(cap),
    )
