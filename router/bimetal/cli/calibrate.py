"""`bimetal calibrate`: what this host's devices really do."""

import importlib
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bimetal.calibration.benchmark import Benchmark, Options
from bimetal.calibration.document import Calibration
from bimetal.errors import BimetalError

_DEFAULTS = Options()


def calibrate(
    as_json: Annotated[bool, typer.Option("--json", help="Print the document instead of a table.")] = False,
    seconds: Annotated[float, typer.Option(min=0.01, help="Budget of each figure; a GPU has four.")] = (
        _DEFAULTS.seconds
    ),
) -> None:
    """Measure GEMM, memory bandwidth and PCIe bandwidth of every GPU with torch, or the CPU where there is none."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise BimetalError(
            f"torch is not installed here: {error}.",
            "Calibrate where torch is, for example in the server's container, or install bimetal[torch].",
        ) from error
    found = Benchmark(torch, time.perf_counter, Options(seconds)).run()
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        Console(highlight=False).print(_table(found))


def _table(found: Calibration) -> Table:
    table = Table(title=f"{found.host}, torch {found.torch}", title_justify="left")
    for heading in ("device", "GEMM TFLOP/s", "memory GB/s", "to device GB/s", "from device GB/s"):
        table.add_column(heading, justify="left" if heading == "device" else "right")
    for device in found.devices:
        table.add_row(
            f"{device.name} ({device.kind})",
            f"{device.gemm_tflops:.3g} ({device.gemm_type}, {device.gemm_size})",
            f"{device.memory_bandwidth_gbs:.4g}",
            *("-" if gbs is None else f"{gbs:.3g}" for gbs in (device.to_device_gbs, device.from_device_gbs)),
        )
    return table
