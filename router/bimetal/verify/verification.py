"""One verification: the cases of each operator, run in worker processes, put together as results."""

import difflib
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Literal

import onnx
import onnxruntime as ort

from bimetal.errors import BimetalError
from bimetal.operators.matrix.targets import PROVIDER_TARGETS, Target
from bimetal.operators.verdict import operator_label
from bimetal.verify.cases import Case, Variant, by_variant
from bimetal.verify.execution import Settings
from bimetal.verify.host import this_host
from bimetal.verify.records import record
from bimetal.verify.results import Record, Results
from bimetal.verify.supervisor import Supervisor
from bimetal.verify.variants import derived_cases, extremes
from bimetal.verify.worker import REAL_RUNNER, WorkerSettings

PROVIDERS = {target: provider for provider, target in PROVIDER_TARGETS.items()}


class VerificationError(BimetalError):
    """What was asked for cannot be verified on this host."""


@dataclass(frozen=True)
class Options:
    """What a verification may take.

    Args:
        deadline_seconds: a case that takes longer is killed; compiling for a GPU takes its time.
        memory_bytes: what a worker process may have.
        repeats: how often the smallest and the largest case of a variant are run for their time.
        derived: whether half-precision and older variants are derived from ONNX's cases.
        runner: the function that runs a case; tests put another in its place.
    """

    deadline_seconds: float = 60
    memory_bytes: int = 8 << 30
    repeats: int = 10
    derived: bool = True
    runner: str = REAL_RUNNER


def provider_of(target: str, available: Iterable[str] | None = None) -> tuple[Target, str]:
    """The target and its execution provider, which this host's onnxruntime must have.

    Raises:
        VerificationError: no such target, one that runs no ONNX, or a provider that is not there.
    """
    known = ", ".join(sorted(PROVIDERS))
    if target not in PROVIDERS:
        raise VerificationError(f"{target!r} is no target that runs ONNX models; expected one of {known}.")
    provider = PROVIDERS[Target(target)]
    present = list(ort.get_available_providers() if available is None else available)
    if provider not in present:
        raise VerificationError(
            f"This host's onnxruntime {ort.__version__} has no {provider}; it has {', '.join(present)}.",
            f"Run it on a {target} host, or install the onnxruntime package that has the provider.",
        )
    return Target(target), provider


def chosen(cases: Iterable[Case], only: Sequence[str]) -> list[Case]:
    """The cases of the operators in `only` (all when empty); a name may have its domain before it.

    Raises:
        VerificationError: ONNX has no node tests of an operator that is named.
    """
    names: dict[str, set[str]] = {}
    cases = list(cases)
    for case in cases:
        operator = case.node.op_type
        names.setdefault(operator, set()).update({operator, f"{case.domain}.{operator}"})
    for name in only:
        if not any(name in spellings for spellings in names.values()):
            near = difflib.get_close_matches(name, names, n=3)
            hint = f"Did you mean {', '.join(near)}?" if near else "Leave --only out to verify every operator."
            raise VerificationError(f"onnx {onnx.__version__} has no node test of an operator {name!r}.", hint)
    return [c for c in cases if not only or {c.node.op_type, f"{c.domain}.{c.node.op_type}"} & set(only)]


def verify(
    target: Target, provider: str, cases: Sequence[Case], options: Options, done: Callable[[str], None]
) -> Results:
    """Runs the cases, and those derived from them, on a provider.

    Args:
        cases: ONNX's (`onnx_cases`), or some of them.
        done: called with each operator's label when it is done.

    Raises:
        WorkerError: the provider does not start.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bimetal-verify-") as folder:
        settings = Settings(provider, Path(folder), options.repeats)
        workers = WorkerSettings(settings, options.memory_bytes, options.runner)
        with Supervisor(workers, options.deadline_seconds) as supervisor:
            records = tuple(_records(by_variant(cases), options, settings, supervisor, done))
    return Results(
        target=target,
        provider=provider,
        host=this_host(settings.threads),
        onnxruntime=ort.__version__,
        onnx=onnx.__version__,
        bimetal=version("bimetal"),
        python=platform.python_version(),
        started=started,
        duration_seconds=time.monotonic() - clock,
        transfer=_transfer(target, records),
        records=records,
    )


def _transfer(target: Target, records: Iterable[Record]) -> Literal["measured", "unavailable", "no_device"]:
    if target is Target.CPU:
        return "no_device"
    timings = [timing for record in records for timing in (record.smallest, record.largest)]
    return "measured" if any(timing and timing.transfer_seconds is not None for timing in timings) else "unavailable"


def _records(
    own: Mapping[Variant, list[Case]],
    options: Options,
    settings: Settings,
    supervisor: Supervisor,
    done: Callable[[str], None],
) -> Iterator[Record]:
    for (domain, operator), variants in groupby(own, key=lambda variant: (variant.domain, variant.operator)):
        of_operator = {variant: own[variant] for variant in variants}
        derived = derived_cases(of_operator) if options.derived else {}
        for variant, cases in sorted({**of_operator, **derived}.items()):
            timed = extremes(cases)
            outcomes = list(supervisor.run(cases, timed))
            yield record(variant, "onnx" if variant in of_operator else "derived", outcomes, timed, settings)
        done(operator_label(domain, operator, max(of_operator).version))
