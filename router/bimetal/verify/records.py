"""From the outcomes of one operator variant's cases to its record."""

from collections.abc import Iterable, Sequence
from typing import Literal

from bimetal.verify.cases import Case, Variant
from bimetal.verify.execution import Nodes, Outcome, Settings
from bimetal.verify.results import CaseFailure, Execution, Record, Timing

CPU = "CPUExecutionProvider"
# They hand whole subgraphs to a compiler: their nodes in a profile have names of their own.
_COMPILING = frozenset({"MIGraphXExecutionProvider", "TensorrtExecutionProvider"})
_WORST_FIRST = (
    Execution.FALLBACK,
    Execution.INLINED,
    Execution.BEHIND,
    Execution.CAST,
    Execution.NATIVE,
    Execution.FOLDED,
)


def record(
    variant: Variant,
    origin: Literal["onnx", "derived"],
    outcomes: Sequence[tuple[Case, Outcome | None]],
    timed: Sequence[Case],
    settings: Settings,
) -> Record:
    """Puts together what came of a variant's cases.

    Args:
        outcomes: each case with its outcome, None for one that was not run.
        timed: the smallest and the largest case (one when they have the same size).
        settings: what the cases were run with.
    """
    ran = [(case, outcome) for case, outcome in outcomes if outcome is not None]
    seen = [(execution(variant.operator, o.nodes, settings.provider), o.nodes) for _, o in ran if o.nodes is not None]
    worst = min(seen, key=lambda pair: _WORST_FIRST.index(pair[0])) if seen else None
    timings = [_timing(case, outcome, settings) for wanted in timed for case, outcome in ran if case is wanted]
    return Record(
        domain=variant.domain,
        operator=variant.operator,
        version=variant.version,
        type=variant.type,
        origin=origin,
        passed=sum(outcome.failure is None for _, outcome in ran),
        failures=tuple(_failures(ran)),
        skipped=len(outcomes) - len(ran),
        execution=worst[0] if worst else None,
        nodes=worst[1] if worst else (),
        smallest=timings[0] if timings else None,
        largest=timings[-1] if timings else None,
    )


def execution(operator: str, nodes: Nodes, provider: str) -> Execution:
    """What the nodes that ran, as (operator, provider), say of an operator on that provider."""
    if not nodes:
        return Execution.FOLDED
    own = [where for name, where in nodes if name == operator] or [where for _, where in nodes]
    if provider != CPU and CPU in own:
        return Execution.FALLBACK
    if any(where != provider for where in own):
        return Execution.BEHIND
    names = {name for name, _ in nodes}
    if operator not in names and provider not in _COMPILING:
        return Execution.INLINED
    return Execution.CAST if "Cast" in names - {operator} else Execution.NATIVE


def _failures(ran: Iterable[tuple[Case, Outcome]]) -> Iterable[CaseFailure]:
    for case, outcome in ran:
        if outcome.failure is not None:
            kind, detail = outcome.failure
            yield CaseFailure(case=case.name, kind=kind, detail=detail)


def _timing(case: Case, outcome: Outcome, settings: Settings) -> Timing | None:
    if outcome.compile_seconds is None:
        return None
    return Timing(
        case=case.name,
        elements=case.elements,
        bytes=case.bytes,
        compile_seconds=outcome.compile_seconds,
        repeats=0 if outcome.run_mean_seconds is None else settings.repeats,
        run_mean_seconds=outcome.run_mean_seconds,
        run_std_seconds=outcome.run_std_seconds,
        transfer_seconds=outcome.transfer_seconds,
    )
