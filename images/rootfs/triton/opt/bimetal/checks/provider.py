"""What onnxruntime can compute on, as the models' runner would get it."""

import subprocess
import sys

from checks.outcome import Failed, Skipped

ASK = "import onnxruntime as o; print(o.__version__, *o.get_available_providers())"


def provider_is_offered(facts):
    """The matrix' provider is among those of this onnxruntime."""
    if facts["server"] == "base":
        raise Skipped("the base's own onnxruntime backend serves, which has no Python module")
    asked = subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=False)
    if asked.returncode != 0:
        raise Failed(f"onnxruntime cannot be imported: {asked.stderr.decode().strip().splitlines()[-1]}")
    version, *offered = asked.stdout.decode().split()
    if facts["provider"] not in offered:
        raise Failed(f"onnxruntime {version} offers {', '.join(offered)}, expected {facts['provider']}")
    return f"onnxruntime {version} offers {facts['provider']}"
