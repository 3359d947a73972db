"""Verdicts on PyTorch files: a CUDA or a ROCm build of torch, by the aten operators that are called.

A file tells neither times nor, in TorchScript, shapes. So the weakest operator decides, and
operators that no source mentions are listed and do not count: both builds share the operator list.
"""

from collections.abc import Mapping

from router.operators.dangers import reports_by_rule
from router.operators.matrix import Matrix
from router.operators.targets import Target
from router.operators.torch_file import TorchModel
from router.operators.verdict import MEANING, Reason, Verdict

TORCH_TARGETS = (Target.TORCH_CUDA, Target.TORCH_ROCM)
_BUILD = {Target.TORCH_CUDA: "PyTorch for CUDA", Target.TORCH_ROCM: "PyTorch for ROCm"}

# aten operator -> (rule of operator_reports.csv, best score left on ROCm, what was seen there)
_ROCM_REPORTS: Mapping[str, tuple[str, int | None, str]] = {
    "scaled_dot_product_attention": (
        "aten-sdpa",
        3,
        "wrong or NaN results with custom masks, head dimensions 8 and 80, long masked or large bf16 inputs",
    ),
    "_grouped_mm": ("aten-grouped-mm", None, "refused before the fallback of late 2025"),
    "_scaled_grouped_mm": ("aten-grouped-mm", None, "refused before the fallback of late 2025"),
    "_scaled_mm": ("aten-scaled-mm", 3, "a tenth of the H100's FP8 rate on MI300X in one report"),
    "conv_transpose2d": (
        "conv-transpose-2d",
        2,
        "fails on gfx90a with padding; 19.6 times slower on MI355X than on B300",
    ),
    "conv3d": ("conv-3d-half", 3, "up to 70 s a call in half precision"),
    "conv1d": ("conv-1d", 3, "speech models eight times slower than on the CPU"),
    "lstm": ("lstm-bidirectional-half", 3, "silently wrong for four bidirectional fp16 layers from batch 110"),
}
_DYNAMIC_CONV1D = ("conv-1d-dynamic", 1, "each unseen length compiles; on ROCm 5.6 the driver timed out")
_CUDA_REPORTS: Mapping[str, tuple[str, int | None, str]] = {
    "_cslt_sparse_mm": ("aten-sparse-int8", None, "int8 2:4 sparse products are rejected by cuSPARSELt"),
}


def torch_verdict(model: TorchModel, target: Target, matrix: Matrix) -> Verdict:
    """The verdict of one build of torch; see the module's text for what decides."""
    reasons = [reason for operator in model.operators if (reason := _reason(model, operator, target, matrix))]
    warnings = list(_warnings(model, target))
    caps = [warning for warning in warnings if warning.effect < 5]
    ordered = sorted([*reasons, *caps], key=lambda reason: (reason.effect, reason.score, reason.operator))
    value = min((reason.effect for reason in ordered), default=5.0)
    return Verdict(int(value), tuple(ordered), value, warnings=tuple(warnings))


def unmentioned(model: TorchModel, matrix: Matrix) -> tuple[str, ...]:
    """The operators that no source mentions."""
    return tuple(op for op in model.operators if matrix.judge("aten", op, 1, Target.TORCH_CUDA) is None)


def _reason(model: TorchModel, operator: str, target: Target, matrix: Matrix) -> Reason | None:
    judgement = matrix.judge("aten", operator, 1, target)
    if judgement is None:
        return None
    cell = judgement.decided_by
    fact = judgement.fact or cell
    detail = f": {fact.limits}" if fact.limits else ""
    if judgement.finding is not None and judgement.fact is not None:
        agrees = (judgement.fact.score >= 3) == (judgement.finding.score >= 3)
        heard = f"practitioners {'agree' if agrees else 'say otherwise'} ({judgement.finding.limits})"
        detail = f"{detail}; {heard}" if detail else f": {heard}"
    calls = model.operators[operator]
    return _make(
        model,
        operator,
        target,
        score=judgement.score,
        effect=float(judgement.score),
        text=f"aten::{operator} {MEANING[judgement.score]} with {_BUILD[target]}{detail} ({calls} in the file).",
        source="; ".join(matrix.sources[source] for source in cell.sources),
    )


def _warnings(model: TorchModel, target: Target) -> list[Reason]:
    known = _ROCM_REPORTS if target is Target.TORCH_ROCM else _CUDA_REPORTS
    found = []
    for operator in model.operators:
        seen = known.get(operator)
        if target is Target.TORCH_ROCM and operator == "conv1d" and operator in model.dynamic_length:
            seen = _DYNAMIC_CONV1D
        if seen is None:
            continue
        rule, cap, what = seen
        threads = "; ".join(f"{report.thread} ({report.status})" for report in reports_by_rule().get(rule, ()))
        text = f"aten::{operator} with {_BUILD[target]} is known for trouble: {what}."
        effect = 5.0 if cap is None else float(cap)
        found.append(_make(model, operator, target, score=int(effect), effect=effect, text=text, source=threads))
    return found


def _make(
    model: TorchModel, operator: str, target: Target, *, score: int, effect: float, text: str, source: str
) -> Reason:
    return Reason(
        operator=operator,
        domain="aten",
        version=1,
        opset=model.opset,
        provider=target,
        score=score,
        text=text,
        source=source,
        nodes=model.operators[operator],
        effect=effect,
    )
