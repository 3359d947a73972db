"""The command line: `bimetal-images plan|build|test|push|sbom|pin|dockerfile`."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bimetal.errors import BimetalError
from bimetal.images import bases, check, engine, lock, matrix, render, report, revision, sbom, tables
from bimetal.images.build import PYTHON_REPOSITORY, Builder, Built
from bimetal.images.errors import ImageError, MatrixError
from bimetal.images.matrix import Row
from bimetal.images.parallel import Crew
from bimetal.resources import cache_dir

CACHE = cache_dir("images")
# Each build computes on one core most of the time; more than four would fight for the disk.
JOBS = min(os.cpu_count() or 1, 4)
NO, YES = ("", "0", "false", "no"), ("1", "true", "yes")

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Container images of one matrix.")
Images = Annotated[list[str] | None, typer.Argument(help="Images, or image:variant; all without any.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Offline = Annotated[str, typer.Option("--offline-base", envvar="OFFLINE_BASE", help="1: bootstrap the bases.")]
Repository = Annotated[str, typer.Option("--repository", envvar="IMAGE_REPOSITORY", help="Prefix of the names.")]
LockFile = Annotated[Path, typer.Option("--lock", envvar="IMAGES_LOCK", help="The lock of images.")]
Cache = Annotated[Path, typer.Option("--cache", envvar="IMAGES_CACHE", help="Keeps wheels and bootstrapped roots.")]
_LOCK = CACHE / "images.lock.json"
_REPOSITORY = "bimetal"


@app.command()
def plan(images: Images = None, offline_base: Offline = "", as_json: JsonOption = False) -> None:
    """Show what would be built of what; asks nobody."""
    loaded, rows = _rows(images, offline_base)
    lines = tables.plan_lines(loaded, rows, os.environ, offline=_flag(offline_base))
    _print(json.dumps(lines, indent=2) if as_json else tables.plan_table(lines))


@app.command()
def build(
    images: Images = None,
    *,
    offline_base: Offline = "",
    repository: Repository = _REPOSITORY,
    lock_file: LockFile = _LOCK,
    cache: Cache = CACHE,
    jobs: Annotated[int, typer.Option(min=1, envvar="IMAGES_JOBS", help="How many are built at once.")] = JOBS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Again, with the packages that the archive has now.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build, and write the lock of images."""
    loaded, rows = _rows(images, offline_base)
    offline, connected = _flag(offline_base), engine.connect()
    builder = Builder(
        loaded,
        connected,
        cache,
        revision.of_project(),
        repository=repository,
        offline=offline,
        fresh=fresh,
    )
    builder.preflight(rows)
    if fresh and offline:
        bases.forget(loaded.bases, rows, connected, cache / "bases")
    done, errors = _build_all(builder, rows, lock_file, jobs)
    _print(json.dumps([asdict(built) for built in done], indent=2) if as_json else tables.built_table(done))
    for error in errors[:-1]:
        _complain(error)
    if errors:  # main prints the last one
        raise errors[-1]


def _build_all(builder: Builder, rows: list[Row], lock_file: Path, jobs: int) -> tuple[list[Built], list[ImageError]]:
    """Build rows side by side and record each as it is done: one that fails takes nothing from the others."""
    results: dict[str, Built] = {}
    recording = threading.Lock()

    def work(row: Row) -> None:
        built = builder.build(row, reports[str(row)])
        with recording:
            lock.record(lock_file, str(row), built.lock_entry())
            results[str(row)] = built

    with report.display() as display:
        reports = {str(row): display.report(str(row)) for row in rows}
        # The largest first: what begins last decides when all of it ends.
        crew = Crew(sorted(rows, key=lambda row: -row.variant.budget_mb), work, jobs)
        try:
            crew.run()
        except KeyboardInterrupt:
            display.stop()
            crew.interrupt()
            _complain(ImageError("Interrupted: what was not whole got no name.", "the same command goes on"))
            raise typer.Exit(130) from None  # as shells say it
    return [results[str(row)] for row in rows if str(row) in results], crew.errors


@app.command("test")
def run_self_tests(images: Images = None, offline_base: Offline = "", lock_file: LockFile = _LOCK) -> None:
    """Run the self-test of every image in a container without rights."""
    _, rows = _rows(images, offline_base)
    connected = engine.connect()
    for row in rows:
        entry = lock.entry_of(lock_file, str(row))
        _print(check.self_test(connected, _reference(row, lock_file), row.image.kind, entry["base_id"]).rstrip())


@app.command()
def push(images: Images = None, offline_base: Offline = "", lock_file: LockFile = _LOCK) -> None:
    """Push what was built, self-test first, and put the registry's digests into the lock."""
    _, rows = _rows(images, offline_base)
    connected = engine.connect()
    with report.display() as display:
        for row in rows:
            entry = lock.entry_of(lock_file, str(row))
            pushing = display.report(str(row))
            pushing.step("self-test")
            check.self_test(connected, _reference(row, lock_file), row.image.kind, entry["base_id"])
            pushing.step(f"push {entry['repository']}:{entry['tag']}")
            digest = connected.push(entry["repository"], entry["tag"], pushing)
            lock.record(lock_file, str(row), entry | {"digest": digest})
            _print(f"{entry['repository']}@{digest}")


@app.command("sbom")
def write_sboms(
    images: Images = None,
    offline_base: Offline = "",
    lock_file: LockFile = _LOCK,
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = CACHE / "sbom",
) -> None:
    """Write a CycloneDX file for every image that was built."""
    _, rows = _rows(images, offline_base)
    connected = engine.connect()
    out.mkdir(parents=True, exist_ok=True)
    for row in rows:
        reference = _reference(row, lock_file)
        text = sbom.document(f"bimetal/{row.name}", reference.rpartition(":")[2], sbom.contents(connected, reference))
        file = out / f"{row.name}-{row.variant_name}.cdx.json"
        file.write_text(text + "\n")
        _print(f"{file}: {sbom.count(text)} packages")


@app.command()
def pin(
    names: Annotated[list[str] | None, typer.Argument(metavar="BASE…", help="Bases; all without any.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the digests into matrix.yml.")] = False,
) -> None:
    """Ask the registries which digest a base has now."""
    loaded = matrix.load()
    if unknown := [name for name in names or () if name not in loaded.bases]:
        raise MatrixError(f"'{unknown[0]}' is no base of the matrix.", f"name one of {', '.join(loaded.bases)}")
    connected = engine.connect()
    file = matrix.file_in_use()
    text = file.read_text()
    for name in names or loaded.bases:
        digest = connected.registry_digest(loaded.bases[name].image)
        text = bases.with_digest(text, name, digest)
        _print(f"{name}: {digest}")
    if write:  # all of them, or none
        file.write_text(text)


@app.command()
def dockerfile(image: str, offline_base: Offline = "") -> None:
    """Print the Dockerfile that a build would use (for hadolint and for reading)."""
    _, [row] = _rows([image], offline_base)
    base = bases.reference(row.base)
    python_image = PYTHON_REPOSITORY if row.variant.server == "wheel" else None
    _print(render.dockerfile(row, base, python_image, row.python).rstrip())


def _rows(images: list[str] | None, offline_base: str) -> tuple[matrix.Matrix, list[Row]]:
    loaded = matrix.load()
    return loaded, matrix.choose(loaded, images or [], offline=_flag(offline_base))


def _flag(value: str) -> bool:
    if value.lower() not in (*NO, *YES):
        raise MatrixError(f"OFFLINE_BASE={value} is neither yes nor no.", "OFFLINE_BASE=1, or leave it away")
    return value.lower() in YES


def _reference(row: Row, lock_file: Path) -> str:
    entry = lock.entry_of(lock_file, str(row))
    return f"{entry['repository']}:{entry['tag']}"


def _print(what: object) -> None:
    if isinstance(what, str):
        sys.stdout.write(f"{what}\n")
    else:
        Console().print(what)


def _complain(error: BimetalError) -> None:
    Console(stderr=True).print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """The console script: an error of ours is one line and exit status 1, never a traceback."""
    try:
        app()
    except BimetalError as error:
        _complain(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
