"""The commands of docs/security.md make files that the router accepts."""

import re
import subprocess
from pathlib import Path

import yaml

from bimetal.fleet.file import load_fleet
from bimetal.security.files import check_security_files
from tests.patience import PATIENCE_S

DOCS = Path(__file__).parents[3] / "docs/security.md"


def test_the_documented_commands_make_what_the_documented_section_names(tmp_path: Path) -> None:
    text = DOCS.read_text().replace("/etc/bimetal", str(tmp_path))
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (section,) = re.findall(r"```yaml\n(security:.*?)backends:", text, re.DOTALL)
    subprocess.run(["bash", "-euc", commands], check=True, capture_output=True, timeout=PATIENCE_S)
    ports = {"http_port": 1, "grpc_port": 2, "metrics_port": 3}
    fleet = {
        "version": 1,
        "state_dir": str(tmp_path),
        "gateway": {"host": "192.0.2.1"},
        "router": {"host": "192.0.2.1"},
        "pools": {"cuda": {"vendor": "nvidia", "provider": "CUDAExecutionProvider", "repository": str(tmp_path)}},
        "backends": [{"name": "cuda-0", "pool": "cuda", "host": "192.0.2.10", "tls": True, **ports}],
        **yaml.safe_load(section),
    }
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump(fleet))
    check_security_files(file, load_fleet(file))
    for name in ("host", "cuda-0", "client"):
        verify = ["openssl", "verify", "-CAfile", "ca.crt", f"{name}.crt"]
        subprocess.run(verify, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_S)
