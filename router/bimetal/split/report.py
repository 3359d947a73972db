"""A split plan as JSON and as a table for people."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from bimetal.split.chain import PartCost
from bimetal.split.cut_model import CutModel
from bimetal.split.plan import Segment, SplitPlan

_OPERATORS_SHOWN = 3


def as_json(model: CutModel, plan: SplitPlan) -> dict[str, Any]:
    """Everything about the plan as plain values; seconds are None where a provider cannot run the model."""
    return {
        "file": str(model.file),
        "split": plan.split,
        "reason": plan.reason,
        "nodes": len(model.protos),
        "cut_points": plan.cut_points,
        "whole": [
            {"provider": whole.provider, "score": whole.score, "seconds": _finite(whole.seconds)}
            for whole in plan.wholes
        ],
        "best_split_seconds": _finite(plan.seconds),
        "warnings": list(plan.warnings),
        "segments": [_segment(model, segment) for segment in plan.segments],
    }


def _segment(model: CutModel, segment: Segment) -> dict[str, Any]:
    cost = segment.cost
    return {
        "provider": segment.provider,
        "nodes": segment.stop - segment.start,
        "operators": _operators(model, segment),
        "inputs": list(segment.inputs),
        "outputs": list(segment.outputs),
        "bytes_in": cost.bytes_in,
        "bytes_out": cost.bytes_out,
        "seconds": {
            "operators": cost.compute,
            "transfer": cost.transfer,
            "hop": cost.hop,
            "total": cost.total,
        },
    }


def as_tables(model: CutModel, plan: SplitPlan) -> Iterable[RenderableType]:
    """The segments of the best split, if there is one, its dangers, and the sentence that decides."""
    if plan.segments:
        table = Table("segment", "nodes", "mostly", "MB in", "MB out", "operators ms", "link ms", "call ms")
        for index, segment in enumerate(plan.segments):
            mostly = [f"{name} x{count}" for name, count in list(_operators(model, segment).items())[:_OPERATORS_SHOWN]]
            table.add_row(
                f"{index} {segment.provider.removesuffix('ExecutionProvider')}",
                str(segment.stop - segment.start),
                ", ".join(mostly),
                *(f"{number:.2f}" for number in _numbers(segment.cost)),
            )
        yield table
        yield from (f"warning: {warning}" for warning in plan.warnings)
    yield f"{model.file.name}: {plan.reason}"


def _numbers(cost: PartCost) -> tuple[float, ...]:
    return (cost.bytes_in / 1e6, cost.bytes_out / 1e6, cost.compute * 1e3, cost.transfer * 1e3, cost.hop * 1e3)


def _operators(model: CutModel, segment: Segment) -> dict[str, int]:
    """How often each operator stands in the segment, most frequent first."""
    counts: dict[str, int] = {}
    for proto in model.protos[segment.start : segment.stop]:
        counts[proto.op_type] = counts.get(proto.op_type, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _finite(seconds: float) -> float | None:
    return seconds if isfinite(seconds) else None
