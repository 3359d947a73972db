"""The test bed's command line: `python -m tests.testbed {images,molecule,vm,engine}` in the project's root."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NoReturn

from tests.testbed import report, scenarios, vm_steps
from tests.testbed.engine import Engine, TestbedError, engine
from tests.testbed.processes import Processes
from tests.testbed.report import Result
from tests.testbed.systemd_image import SUITES, Suite, ensure

PROJECT = Path(__file__).parents[2]
NOTICED_WITHIN_SECONDS = 0.2


def ensure_images(suites: list[Suite], running: Engine, data_dir: Path, *, rebuild: bool = False) -> None:
    """Have the images of all suites, saying which of them were made."""
    for suite in suites:
        started = time.monotonic()
        print(f"{suite.tag} ... ", end="", flush=True)
        built = ensure(suite, running, data_dir, rebuild=rebuild)
        print(f"built in {time.monotonic() - started:.0f} s" if built else "up to date")


def chosen_suites(name: str | None) -> list[Suite]:
    """The suite of that name, or all."""
    return [suite for suite in SUITES if name in (None, suite.name)]


def images(options: argparse.Namespace) -> int:
    """Build what is missing or out of date."""
    with engine(options.data_dir) as running:
        ensure_images(chosen_suites(options.suite), running, options.data_dir, rebuild=options.rebuild)
    return 0


@contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """No second run with this data directory for the block: each removes what an earlier one left."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "molecule.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TestbedError(
                f"Another make molecule runs with {data_dir}. Next: wait for its end, or use another directory and"
                " engine: TESTBED_DIR=/path make molecule"
            ) from None
        yield


def molecule(options: argparse.Namespace) -> int:
    """Engine up, images, every scenario, summary; status 1 when one failed."""
    chosen = scenarios.find(PROJECT / "roles", options.scenarios)
    progress = sys.stderr if options.json else sys.stdout
    processes = Processes()
    started = time.monotonic()
    with alone(options.data_dir), engine(options.data_dir) as running, redirect_stdout(progress):
        ensure_images(list(SUITES), running, options.data_dir)
        scenarios.remove_containers(running, chosen)
        try:
            results = scenarios.run_all(
                chosen,
                options.jobs,
                lambda scenario: scenarios.run(scenario, running, options.data_dir / "logs", processes),
                lambda result: print(report.line(result), end="", flush=True),
                processes,
            )
        finally:
            scenarios.remove_containers(running, chosen)
    return conclude(results, time.monotonic() - started, as_json=options.json)


def conclude(results: list[Result], seconds: float, *, as_json: bool) -> int:
    """Print what came of the run; the status of the command."""
    print(report.document(results, seconds) if as_json else f"\n{report.table(results, seconds)}", end="")
    return 0 if all(result.passed for result in results) else 1


def vm(options: argparse.Namespace) -> int:
    """Disk, machine, site.yml over SSH with its reboot, and what is to be seen then; status 1 when a step failed."""
    progress = sys.stderr if options.json else sys.stdout
    started = time.monotonic()
    with redirect_stdout(progress):
        results = vm_steps.run(PROJECT, options.data_dir, lambda result: print(report.line(result), end="", flush=True))
    return conclude(results, time.monotonic() - started, as_json=options.json)


def hold(options: argparse.Namespace) -> NoReturn:
    """Keep engine and images up until Ctrl-C or SIGTERM, for work on one role with molecule itself."""
    with engine(options.data_dir) as running:
        ensure_images(list(SUITES), running, options.data_dir)
        print(f"export DOCKER_HOST={running.host}\nUp until Ctrl-C.", flush=True)
        while True:  # not signal.pause(): a signal that comes just before it would be noticed at the next one
            time.sleep(NOTICED_WITHIN_SECONDS)


def arguments() -> argparse.ArgumentParser:
    """The command line's grammar."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description="Hosts to test the roles on.")
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(os.environ.get("TESTBED_DIR") or PROJECT / ".cache/testbed"),
        help="images, engine data and logs (default: $TESTBED_DIR, else .cache/testbed)",
    )
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("images", help="build the images that are missing or out of date")
    build.add_argument("--suite", choices=[suite.name for suite in SUITES], help="only this one")
    build.add_argument("--rebuild", action="store_true", help="also those that are up to date (archive updates)")
    build.set_defaults(run=images)
    test = commands.add_parser("molecule", help="run the roles' scenarios")
    test.add_argument("scenarios", nargs="*", metavar="ROLE[/SCENARIO]", help="only these (default: all)")
    test.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    test.add_argument("--json", action="store_true", help="print the results as JSON, progress on stderr")
    test.set_defaults(run=molecule)
    machine = commands.add_parser("vm", help="provision a virtual machine over SSH, with its reboot")
    machine.add_argument("--json", action="store_true", help="print the results as JSON, progress on stderr")
    machine.set_defaults(run=vm)
    commands.add_parser("engine", help="keep engine and images up until Ctrl-C").set_defaults(run=hold)
    return parser


def main() -> int:
    """Entry point; a test bed that cannot be had is one line on stderr and status 2."""
    options = arguments().parse_args()
    options.data_dir = options.data_dir.absolute()
    # A run that is ended, or whose terminal is closed, stops its engine too.
    for ended in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ended, lambda number, _: sys.exit(128 + number))
    try:
        status: int = options.run(options)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


if __name__ == "__main__":
    sys.exit(main())
