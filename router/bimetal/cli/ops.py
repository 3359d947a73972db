"""`bimetal ops`: what this host's execution provider really does with operators."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bimetal.verify.cases import onnx_cases
from bimetal.verify.report import progress, summary
from bimetal.verify.results import default_file, document_of, write_results
from bimetal.verify.verification import Options, chosen, provider_of
from bimetal.verify.verification import verify as run_verification

ops_app = typer.Typer(help="Verify operators on this host.", no_args_is_help=True)

_DEFAULTS = Options()


@ops_app.callback()
def _ops() -> None:
    """Keeps `verify` a sub-command while it is the only one."""


@ops_app.command()
def verify(  # noqa: PLR0917 - each is an option of the command
    target: Annotated[str, typer.Option(help="cuda, tensorrt, rocm, migraphx or cpu")],
    only: Annotated[list[str] | None, typer.Option(help="an operator, such as Softmax; may be repeated")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the document; a file only with --out")] = False,
    out: Annotated[Path | None, typer.Option(help="the results file; default: a new one in STATE_DIR/verified")] = None,
    state_dir: Annotated[Path, typer.Option(envvar="BIMETAL_STATE_DIR", help="cluster's folder")] = Path(".bimetal"),
    deadline: Annotated[float, typer.Option(min=0.1, help="seconds after which a test is killed")] = (
        _DEFAULTS.deadline_seconds
    ),
    memory: Annotated[float, typer.Option(min=1, help="GiB that a worker process may have")] = (
        _DEFAULTS.memory_bytes / (1 << 30)
    ),
    repeats: Annotated[int, typer.Option(min=1, help="timed runs of each smallest and largest test")] = (
        _DEFAULTS.repeats
    ),
    derived: Annotated[
        bool, typer.Option(help="also half-precision and older variants, made from ONNX's tests")
    ] = _DEFAULTS.derived,
) -> None:
    """Run ONNX's own node tests on the execution provider of TARGET and write down what came of them."""
    which, provider = provider_of(target)
    cases = chosen(onnx_cases(), only or ())
    options = Options(deadline, int(memory * (1 << 30)), repeats, derived)
    console = Console(stderr=True)
    with progress(len({(case.domain, case.node.op_type) for case in cases}), console) as done:
        results = run_verification(which, provider, cases, options, done)
    if as_json:
        typer.echo(document_of(results), nl=False)
    else:
        Console(highlight=False).print(*summary(results), sep="\n")
        out = out or default_file(state_dir / "verified", results.host.name, which, results.started)
    if out is not None:
        write_results(results, out)
        console.print(f"Written to {out}.", highlight=False, soft_wrap=True)
