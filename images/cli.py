"""The command line: `bimetal-images plan|build|test|push|sbom|pin|dockerfile`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from images import bases, check, engine, lock, matrix, render, revision, sbom, tables
from images.build import PYTHON_REPOSITORY, Builder, Built
from images.engine import Step
from images.errors import ImageError, MatrixError
from images.matrix import Row

CACHE = render.PROJECT / ".cache" / "images"
NO, YES = ("", "0", "false", "no"), ("1", "true", "yes")

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Container images of one matrix.")
Images = Annotated[list[str] | None, typer.Argument(help="Images, or image:variant; all without any.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Offline = Annotated[str, typer.Option("--offline-base", envvar="OFFLINE_BASE", help="1: bootstrap the bases.")]
Repository = Annotated[str, typer.Option("--repository", envvar="IMAGE_REPOSITORY", help="Prefix of the names.")]
LockFile = Annotated[Path, typer.Option("--lock", envvar="IMAGES_LOCK", help="The lock of images.")]
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
    offline_base: Offline = "",
    repository: Repository = _REPOSITORY,
    lock_file: LockFile = _LOCK,
    as_json: JsonOption = False,
) -> None:
    """Build, and write the lock of images."""
    loaded, rows = _rows(images, offline_base)
    builder = Builder(
        loaded,
        engine.connect(),
        CACHE,
        revision.of(render.PROJECT),
        repository=repository,
        offline=_flag(offline_base),
    )
    results: list[Built] = []
    try:
        for row in rows:
            with _progress(str(row)) as on_step:
                built = builder.build(row, on_step)
            lock.record(lock_file, str(row), built.lock_entry())
            results.append(built)
    finally:  # one that fails takes nothing from those before it
        _print(json.dumps([asdict(built) for built in results], indent=2) if as_json else tables.built_table(results))


@app.command("test")
def run_self_tests(images: Images = None, offline_base: Offline = "", lock_file: LockFile = _LOCK) -> None:
    """Run the self-test of every image in a container without rights."""
    _, rows = _rows(images, offline_base)
    connected = engine.connect()
    for row in rows:
        output = check.self_test(connected, _reference(row, lock_file), row.image.kind)
        _print(output.rstrip())


@app.command()
def push(images: Images = None, offline_base: Offline = "", lock_file: LockFile = _LOCK) -> None:
    """Push what was built, self-test first, and put the registry's digests into the lock."""
    _, rows = _rows(images, offline_base)
    connected = engine.connect()
    for row in rows:
        entry = lock.entry_of(lock_file, str(row))
        check.self_test(connected, _reference(row, lock_file), row.image.kind)
        digest = connected.push(entry["repository"], entry["tag"])
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
def pin(base: Annotated[str, typer.Argument(help="A base of the matrix.")]) -> None:
    """Ask the registry which digest a base has now, for matrix.yml."""
    loaded = matrix.load()
    if base not in loaded.bases:
        raise MatrixError(f"'{base}' is no base of the matrix.", f"name one of {', '.join(loaded.bases)}")
    image = loaded.bases[base].image
    _print(f'{base}: {{image: "{image}", digest: "{engine.connect().registry_digest(image)}"}}')


@app.command()
def dockerfile(image: str, offline_base: Offline = "") -> None:
    """Print the Dockerfile that a build would use (for hadolint and for reading)."""
    loaded, [row] = _rows([image], offline_base)
    base = bases.origin(row.variant.base, row.base, {}, offline=False).replace(" (not pinned)", "")
    python_image = PYTHON_REPOSITORY if row.variant.server == "wheel" else None
    _print(render.dockerfile(row, base, python_image, loaded.python).rstrip())


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


@contextmanager
def _progress(title: str) -> Iterator[Step]:
    """A line that follows the build's steps on a terminal; elsewhere one line at the start, on stderr."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    if not console.is_terminal:
        console.print(f"{title} ...", highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda step: progress.update(task, description=f"{title}  {step[:80]}")


def main() -> None:
    """The console script: an error of ours is one line and exit status 1, never a traceback."""
    try:
        app()
    except ImageError as error:
        Console(stderr=True).print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
