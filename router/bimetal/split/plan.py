"""Whether a model should be cut, where, and what that saves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite

from bimetal.operators.matrix.matrix import Matrix
from bimetal.operators.verdict import verdict
from bimetal.split.chain import PartCost
from bimetal.split.costs import DEVICES, Link
from bimetal.split.cut_model import CutModel
from bimetal.split.cut_points import chain_of, cut_points, uses_of
from bimetal.split.errors import SplitError
from bimetal.split.search import MAX_PARTS, best_split

WELL = 4  # a provider with this score or better "runs natively" (docs/operators.md): no reason to cut


@dataclass(frozen=True)
class Whole:
    """The model on one provider: its score there and the seconds of its operators; inf: it cannot run.

    `warnings` are the dangers that people met with such models there, in sentences.
    """

    provider: str
    score: int
    seconds: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Segment:
    """The nodes from `start` to before `stop` (topological order) on one provider.

    `inputs` and `outputs` name the tensors that cross its ends, as the pipeline passes them.
    """

    provider: str
    start: int
    stop: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cost: PartCost


@dataclass(frozen=True)
class SplitPlan:
    """The whole model on each provider beside the best split (no segments: it cannot be cut).

    `split` says whether the model is to be cut, `reason` why or why not, in one sentence.
    """

    wholes: tuple[Whole, ...]
    segments: tuple[Segment, ...]
    cut_points: int
    split: bool
    reason: str

    @property
    def seconds(self) -> float:
        """The best split's seconds; inf when there is none."""
        return sum(segment.cost.total for segment in self.segments) if self.segments else inf

    @property
    def best_whole(self) -> Whole:
        """The provider that runs the whole model fastest; of equal ones that with the higher score."""
        return min(self.wholes, key=lambda whole: (whole.seconds, -whole.score))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The dangers with the providers that the split uses: its segments share most of them."""
        used = {segment.provider for segment in self.segments}
        return tuple(warning for whole in self.wholes if whole.provider in used for warning in whole.warnings)


def plan_split(
    model: CutModel, targets: Sequence[str], link: Link, matrix: Matrix, *, force: int | None = None
) -> SplitPlan:
    """Weighs the best split against the whole model on its best target.

    Args:
        targets: onnxruntime execution providers.
        force: cut into exactly that many segments, whether it pays or not.

    Raises:
        SplitError: a target is unknown, or the model cannot be cut as `force` asks.
    """
    _check(targets, force)
    uses = uses_of(model)
    points = cut_points(model, uses)
    chain = chain_of(model, uses, points, targets, matrix)
    wholes = tuple(_whole(model, provider, matrix, chain.whole_seconds(row)) for row, provider in enumerate(targets))
    bounds = [0, *map(int, points), len(model.protos)]
    segments = tuple(
        _segment(model, bounds[part.start], bounds[part.stop], targets[part.target], chain.cost(part, link))
        for part in best_split(chain, link, force) or ()
    )
    if force is not None and not segments:
        raise SplitError(
            f"{model.file} cannot be cut into {force} segments on {', '.join(targets)}: "
            f"it has {len(points)} cut points, and each segment has to run on its target.",
            "Ask for fewer segments, or other targets.",
        )
    plan = SplitPlan(wholes, segments, len(points), force is not None, "")
    split, reason = (True, f"forced: {_compared(plan.best_whole, plan)}") if force is not None else _decision(plan)
    return replace(plan, split=split, reason=reason)


def _check(targets: Sequence[str], force: int | None) -> None:
    unknown = [target for target in targets if target not in DEVICES]
    if unknown or not targets or len(set(targets)) < len(targets):
        raise SplitError(
            f"targets {', '.join(targets) or '(none)'}: expected different ones of {', '.join(DEVICES)}.",
            "Correct --targets.",
        )
    if force is not None and not 2 <= force <= MAX_PARTS:
        raise SplitError(f"--force {force}: expected 2 to {MAX_PARTS} segments.", "Choose another number.")


def _whole(model: CutModel, provider: str, matrix: Matrix, seconds: float) -> Whole:
    found = verdict(model.profile, provider, matrix)
    return Whole(provider, found.score, seconds, tuple(warning.text for warning in found.warnings))


def _segment(model: CutModel, start: int, stop: int, provider: str, cost: PartCost) -> Segment:
    inputs, outputs = _boundary(model, start, stop)
    return Segment(provider, start, stop, inputs, outputs, cost)


def _boundary(model: CutModel, start: int, stop: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tensors that the nodes from `start` to before `stop` take from outside, and those that others want."""
    made = [name for proto in model.protos[start:stop] for name in proto.output if name]
    inside = set(made)
    taken = dict.fromkeys(name for names in model.reads[start:stop] for name in names if name not in inside)
    wanted = {name for names in model.reads[stop:] for name in names} | {tensor.name for tensor in model.outputs}
    return tuple(taken), tuple(name for name in made if name in wanted)


def _decision(plan: SplitPlan) -> tuple[bool, str]:
    best = plan.best_whole
    if not plan.segments:
        why = "it cannot be cut into segments that their targets run"
        return False, f"left whole on {best.provider}: {why}" if isfinite(best.seconds) else f"no target runs it: {why}"
    well = [whole for whole in plan.wholes if whole.score >= WELL and isfinite(whole.seconds)]
    if well:
        good = min(well, key=lambda whole: whole.seconds)
        return False, f"left whole, a target runs it well (score {good.score}): {_compared(good, plan)}"
    pays = plan.seconds < best.seconds
    return pays, f"{'pays' if pays else 'does not pay'}: {_compared(best, plan)}"


def _compared(whole: Whole, plan: SplitPlan) -> str:
    split = f"best split {plan.seconds * 1e3:.1f} ms"
    if not isfinite(whole.seconds):
        return f"no target runs it whole, {split}"
    saved = whole.seconds - plan.seconds
    change = f", {saved * 1e3:.1f} ms less ({saved / whole.seconds:.0%})" if saved > 0 else ""
    return f"whole on {whole.provider} {whole.seconds * 1e3:.1f} ms, {split}{change}"
