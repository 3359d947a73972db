"""``python -m bimetal.model_repo.build``: render the model sources into one Triton repository per pool."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from bimetal.errors import BimetalError
from bimetal.model_repo.errors import BuildError
from bimetal.model_repo.pools import POOLS, Compute, Pool
from bimetal.model_repo.render import render_config
from bimetal.model_repo.repository import Status, refuse_foreign, remove_stale, write_model
from bimetal.model_repo.signature import check_signature
from bimetal.model_repo.sources import ModelSource, load_sources
from bimetal.model_repo.weights import CACHE_DIR, obtain
from bimetal.resources import resource, work_dir

OUT_DIR = work_dir("model_repo")
RUNNER = resource("model_repo/runner/model.py")

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

Summary = dict[str, dict[str, Status]]
Step = Callable[[str], None]


def build(
    sources: Mapping[str, ModelSource],
    selected: Iterable[str],
    computes: Mapping[str, Compute],
    *,
    out: Path = OUT_DIR,
    cache: Path = CACHE_DIR,
    on_step: Step = lambda _: None,
) -> Summary:
    """Render the ``selected`` models for each pool of ``computes`` into ``out/<pool>/<model>``.

    Everything is obtained and checked before anything is written: a BuildError leaves ``out`` as it was.
    """
    files: dict[str, dict[str, bytes]] = {}
    for name in selected:
        on_step(f"weights of {name}")
        files[name] = _version_files(sources[name], cache)
        for pool in computes:
            refuse_foreign(out / pool / name)
    return {
        pool: _write_pool(out / pool, POOLS[pool], compute, sources=sources, files=files, on_step=on_step)
        for pool, compute in computes.items()
    }


def _version_files(model: ModelSource, cache: Path) -> dict[str, bytes]:
    """The files of version 1, which no pool changes."""
    if model.source is None:
        return {"1/model.py": (model.directory / "model.py").read_bytes()}
    onnx_file = obtain(model.source, cache)
    check_signature(model, onnx_file)
    return {"1/model.py": RUNNER.read_bytes(), "1/model.onnx": onnx_file}


def _write_pool(
    repository: Path,
    pool: Pool,
    compute: Compute,
    *,
    sources: Mapping[str, ModelSource],
    files: Mapping[str, Mapping[str, bytes]],
    on_step: Step,
) -> dict[str, Status]:
    statuses: dict[str, Status] = {}
    for name, version in files.items():
        on_step(f"{pool.name}/{name}")
        config = render_config(sources[name], pool, compute).encode()
        statuses[name] = write_model(repository / name, {"config.pbtxt": config, **version})
    return statuses | dict.fromkeys(remove_stale(repository, sources.keys()), "removed")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status: 0 built, 1 failed, 2 wrong arguments or a wrong source file."""
    console = Console(stderr=True)
    options = argument_parser().parse_args(arguments)
    try:
        sources = load_sources()
        selected = _selected(options.model, sources)
        computes = _computes(options.pool or list(POOLS), options.compute)
    except (BuildError, argparse.ArgumentTypeError) as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return EXIT_USAGE
    try:
        with _progress(console, len(selected) * (1 + len(computes))) as on_step:
            summary = build(sources, selected, computes, out=options.out, cache=options.cache, on_step=on_step)
    except (BimetalError, OSError) as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return EXIT_FAILED
    _report(summary, computes, as_json=options.json)
    return EXIT_OK


def argument_parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bimetal.model_repo.build", description=__doc__)
    parser.add_argument(
        "--pool",
        nargs="+",
        action="extend",
        choices=POOLS,
        metavar="POOL",
        help=f"of {', '.join(POOLS)}; all",
    )
    parser.add_argument("--model", nargs="+", action="extend", metavar="NAME", help="only these models; all")
    parser.add_argument("--out", type=Path, default=OUT_DIR, metavar="DIR", help="parent of the pools' folders")
    parser.add_argument("--cache", type=Path, default=CACHE_DIR, metavar="DIR", help="where fetched weights are kept")
    parser.add_argument(
        "--compute",
        nargs="+",
        action="extend",
        default=[],
        metavar="[POOL=]cpu|gpu",
        help="what the machines of a pool (of every pool, without POOL=) compute on; gpu for cuda and rocm",
    )
    parser.add_argument("--json", action="store_true", help='print {"POOL": {"MODEL": "built|unchanged|removed"}}')
    return parser


def _selected(names: Sequence[str] | None, sources: Mapping[str, ModelSource]) -> list[str]:
    unknown = sorted(set(names or ()) - sources.keys())
    if unknown:
        raise argparse.ArgumentTypeError(
            f"--model: no source for {', '.join(unknown)}; expected one of {', '.join(sources)}"
        )
    return [name for name in sources if not names or name in names]


def _computes(pools: Iterable[str], assignments: Sequence[str]) -> dict[str, Compute]:
    """What each pool computes on; later ``--compute`` values win over earlier ones."""
    computes = {name: POOLS[name].default_compute for name in POOLS if name in set(pools)}
    for assignment in assignments:
        pool, _, value = assignment.rpartition("=")
        if value not in get_args(Compute) or (pool and pool not in POOLS):
            raise argparse.ArgumentTypeError(
                f"--compute {assignment}: expected cpu or gpu, or POOL=cpu for one of {', '.join(POOLS)}"
            )
        compute: Compute = "gpu" if value == "gpu" else "cpu"
        for name in computes.keys() & ({pool} if pool else POOLS.keys()):
            computes[name] = compute
    if computes.get("cpu") == "gpu":
        raise argparse.ArgumentTypeError("--compute gpu: the cpu pool computes on the CPU; name the pools meant")
    return computes


@contextmanager
def _progress(console: Console, steps: int) -> Iterator[Step]:
    """A bar on a terminal, nothing elsewhere: the summary says it all."""
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("model repository", total=steps)

        def on_step(description: str) -> None:
            progress.update(task, description=description)
            progress.advance(task)

        yield on_step


def _report(summary: Summary, computes: Mapping[str, Compute], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
        return
    table = Table("model", *(f"{pool} (compute: {computes[pool]})" for pool in summary))
    for name in sorted({name for statuses in summary.values() for name in statuses}):
        table.add_row(name, *(statuses.get(name, "-") for statuses in summary.values()))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
