"""Command line: prints the document, and writes Ansible's fact and Prometheus' textfile where asked."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

from . import counters, report, textfile
from .counters import Counters
from .files import locked, write_atomically
from .host import TOOL_TIMEOUT_SECONDS, Host
from .kernel_log import KernelLog
from .network import MINIMUM_RDMA_GBPS
from .reading import Json, attempt


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="gpu_probe", description="What this GPU server is made of, as JSON.")
    options.add_argument(
        "--root",
        type=Path,
        help="a recorded host: files are DIR/sys, DIR/proc, …, tools are DIR/bin/nvidia-smi, … and no others",
        metavar="DIR",
    )
    options.add_argument("--fact", type=Path, metavar="FILE", help="also write the document there, for Ansible")
    options.add_argument("--textfile", type=Path, metavar="FILE", help="write metrics there; needs --state")
    options.add_argument("--state", type=Path, metavar="FILE", help="where counters are kept between runs")
    options.add_argument("--peer", metavar="HOST", help="measure RDMA to a host where ib_write_bw listens")
    options.add_argument("--peer-minimum-gbps", type=float, default=MINIMUM_RDMA_GBPS, metavar="GBPS")
    options.add_argument("--tool-timeout", type=float, default=TOOL_TIMEOUT_SECONDS, metavar="SECONDS")
    options.add_argument("--quiet", action="store_true", help="print nothing")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when the document is complete in form, whatever it says; 1 when a file cannot be written."""
    options = parser().parse_args(arguments)
    if options.textfile and not options.state:
        parser().error("--textfile needs --state: counters must survive from run to run")
    if options.root and not options.root.is_dir():
        parser().error(f"--root {options.root} is no directory: expected a recorded host with sys, proc and bin")
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    peer = report.Peer(options.peer, options.peer_minimum_gbps) if options.peer else None
    document, log = report.build(Host(options.root, options.tool_timeout), now.isoformat(timespec="seconds"), peer)
    try:
        if options.state:
            with locked(options.state):
                state = count(options.state, document, log)
                write_atomically(options.state, counters.dump(state))
            if options.textfile:
                write_atomically(options.textfile, textfile.render(document, state, now.timestamp()))
        if options.fact:
            write_atomically(options.fact, to_json(document))
    except OSError as error:
        sys.stderr.write(
            f"error: {error.filename or options.state} cannot be written: {error.strerror}. "
            "Expected: its directory exists, and root runs the probe.\n"
        )
        return 1
    if not options.quiet:
        sys.stdout.write(to_json(document))
    return 0


def to_json(document: Json) -> str:
    """Numbers come from Python, not from a locale: always with a decimal point."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def count(path: Path, document: Json, log: KernelLog) -> Counters:
    """The counters of the last run, moved on; an unreadable state file is a failed collector and begins anew."""
    text = path.read_text(encoding="utf-8") if path.exists() else None
    loaded, result = attempt("state", lambda: counters.load(text))
    document["collectors"]["state"] = result.as_json()
    state = loaded or Counters()
    state.add_events(document["system"]["boot_id"], log.events)
    for gpu in document["hardware"]["gpus"]:
        for kind in ("ecc_corrected", "ecc_uncorrected"):
            state.add_level((kind, gpu["pci_address"], ""), gpu["readings"][kind])
    return state
