"""torch computes where the matrix says, or on the CPU, and says which."""

from checks.devices import NO_DEVICE
from checks.outcome import Failed


def computes(facts):  # noqa: ARG001 - every check gets the facts
    """A product of two matrices on the device, compared with the CPU's."""
    import torch  # noqa: PLC0415 - only this image has it

    where = "cuda" if torch.cuda.is_available() else "cpu"
    left, right = torch.ones(8, 8), torch.full((8, 8), 2.0)
    product = (left.to(where) @ right.to(where)).cpu()
    if not torch.equal(product, torch.full((8, 8), 16.0)):
        raise Failed(f"torch {torch.__version__} computes wrong products on {where}")
    name = torch.cuda.get_device_name(0) if where == "cuda" else NO_DEVICE
    return f"torch {torch.__version__} computes on: {name}"
