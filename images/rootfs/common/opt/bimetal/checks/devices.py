"""The accelerator behind this container, or that there is none."""

import ctypes
from pathlib import Path

from checks.outcome import Failed

NO_DEVICE = "no device: CPU"


def device(facts):
    """Its count by the vendor's own runtime; without a device node the CPU computes, and that is said."""
    return {"nvidia": _nvidia, "amd": _amd, "cpu": lambda: NO_DEVICE}[facts["vendor"]]()


def _nvidia():
    if not Path("/dev/nvidiactl").exists():
        return NO_DEVICE
    return f"{_count('libcuda.so.1', 'cuInit', 'cuDeviceGetCount')} NVIDIA by the driver"


def _amd():
    if not Path("/dev/kfd").exists():
        return NO_DEVICE
    library = next(name for name in ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5") if _loads(name))
    return f"{_count(library, 'hipInit', 'hipGetDeviceCount')} AMD by HIP"


def _loads(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _count(library, init, get_count):
    runtime = ctypes.CDLL(library)
    status = getattr(runtime, init)(0)
    count = ctypes.c_int(0)
    if status == 0:
        status = getattr(runtime, get_count)(ctypes.byref(count))
    if status != 0 or count.value == 0:
        raise Failed(f"the device node is there, but {library} counts {count.value} devices (status {status})")
    return count.value
