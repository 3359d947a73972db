"""Where a model should run: the verdicts of several providers side by side."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bimetal.operators.matrix.matrix import Matrix
from bimetal.operators.matrix.targets import TORCH_BUILDS
from bimetal.operators.preference import preference
from bimetal.operators.profile import Profile
from bimetal.operators.verdict import Reason, Verdict, verdict

POOL_PROVIDERS = ("CUDAExecutionProvider", "MIGraphXExecutionProvider", "CPUExecutionProvider")
_HOST = "CPUExecutionProvider"


@dataclass(frozen=True)
class Placement:
    """The verdict of each provider, and each operator by who can run it on an accelerator.

    `must`: only one of the accelerators can (through a conversion at least); `may`: several can;
    `fallback`: none can, the CPU runs it wherever the model goes. `preference` are the shares that the
    router would give pools of equal devices; all zero when none can run the model.
    """

    verdicts: Mapping[str, Verdict]
    must: Mapping[str, str]
    may: Mapping[str, tuple[str, ...]]
    fallback: tuple[str, ...]
    preference: Mapping[str, float]


def place(profile: Profile, matrix: Matrix, providers: Iterable[str] | None = None) -> Placement:
    """Compares providers for one model: onnxruntime's, or PyTorch's builds for a PyTorch file.

    Raises:
        ValueError: a provider has no column in the matrix.
    """
    if providers is None:
        providers = POOL_PROVIDERS if profile.graph.format == "ONNX" else tuple(TORCH_BUILDS)
    verdicts = {provider: verdict(profile, provider, matrix) for provider in providers}
    able = _able_accelerators(verdicts)
    return Placement(
        verdicts=verdicts,
        must={label: who[0] for label, who in able.items() if len(who) == 1},
        may={label: who for label, who in able.items() if len(who) > 1},
        fallback=tuple(label for label, who in able.items() if not who),
        preference=preference({provider: each.score for provider, each in verdicts.items()}),
    )


def _able_accelerators(verdicts: Mapping[str, Verdict]) -> dict[str, tuple[str, ...]]:
    """Each operator of the model with the accelerators that run every one of its nodes."""
    worst: dict[str, dict[str, int]] = {}
    for provider, each in verdicts.items():
        for reason in _operator_reasons(each):
            scores = worst.setdefault(reason.label, {})
            if provider != _HOST:
                scores[provider] = min(reason.score, scores.get(provider, 5))
    return {
        label: tuple(provider for provider, score in scores.items() if score >= 2) for label, scores in worst.items()
    }


def _operator_reasons(each: Verdict) -> Iterable[Reason]:
    return (reason for reason in each.reasons if reason not in each.warnings)
