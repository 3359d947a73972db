"""Requests that the end-to-end tests send, made with tritonclient."""

from typing import Any

import numpy as np
import numpy.typing as npt

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(module: Any, name: str, values: npt.NDArray[Any], datatype: str = "FP32", **kwargs: Any) -> Any:
    """An input of tritonclient's gRPC or HTTP module."""
    made = module.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values, **kwargs)
    return made


def identity(module: Any, client: Any, values: npt.NDArray[Any] = ROWS, **kwargs: Any) -> npt.NDArray[Any]:
    """What the identity model gives back."""
    answer = client.infer("identity", [tensor(module, "INPUT0", values)], **kwargs)
    found: npt.NDArray[Any] = answer.as_numpy("OUTPUT0")
    return found
