"""The wheel, installed where no checkout is: its commands find what they need beside the code."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(cwd)} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel's programs, in an environment with the wheel and, of this one, all but the project."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, ROOT, cwd=folder)
    venv.create(folder / "venv", with_pip=False)
    [wheel] = folder.glob("*.whl")
    site = next((folder / "venv/lib").glob("python3.*/site-packages"))
    # Not as a .pth file, whose own .pth files would be read too, the editable install's among them.
    (site / "sitecustomize.py").write_text(f"import sys\nsys.path.append({sysconfig.get_path('purelib')!r})\n")
    run(sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "--no-deps", wheel, cwd=folder)
    return folder / "venv/bin"


def test_the_code_is_the_wheels(programs: Path, tmp_path: Path) -> None:
    where = run(
        programs / "python", "-c", "import bimetal.images, bimetal.model_repo; print(bimetal.__path__)", cwd=tmp_path
    )
    assert str(programs.parent) in where
    assert str(ROOT) not in where.replace(str(programs.parent), "")


def test_bimetal_judges_a_model(programs: Path, tmp_path: Path) -> None:
    run(programs / "python", "-m", "bimetal.model_repo.build", "--model", "rope_attention", cwd=tmp_path)
    model = tmp_path / "model_repo/cuda/rope_attention/1/model.onnx"
    analysis = json.loads(run(programs / "bimetal", "model", "analyze", model, "--json", cwd=tmp_path))
    assert "CUDAExecutionProvider" in analysis["verdicts"]


def test_bimetal_images_knows_the_matrix_the_lock_and_the_templates(programs: Path, tmp_path: Path) -> None:
    plan = json.loads(run(programs / "bimetal-images", "plan", "--json", OFFLINE_BASE="1", cwd=tmp_path))
    assert {"cpu", "router"} <= {line["image"] for line in plan}
    assert "FROM" in run(programs / "bimetal-images", "dockerfile", "router", OFFLINE_BASE="1", cwd=tmp_path)


def test_the_routers_image_gets_the_code_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    code = "from bimetal.images.app import app_files; print(*app_files('/site'), sep='\\n')"
    files = set(run(programs / "python", "-c", code, cwd=tmp_path).splitlines())
    assert {"rootfs/site/bimetal/errors.py", "rootfs/site/bimetal/shipped/model_repo/runner/model.py"} <= files
    assert not [file for file in files if file.startswith("rootfs/site/bimetal/images/")]
