"""A model source and a pool give the text of Triton's ``config.pbtxt``."""

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bimetal.model_repo.pools import Compute, Pool, preferred_batch_sizes
from bimetal.model_repo.sources import ModelSource
from bimetal.resources import resource

# autoescape is for HTML; every value here is validated to need no escaping in protobuf's text format.
_TEMPLATES = Environment(
    loader=FileSystemLoader(resource("model_repo/templates")),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def render_config(model: ModelSource, pool: Pool, compute: Compute) -> str:
    """``config.pbtxt`` of ``model`` in ``pool``, where ``compute`` is what its machines really have."""
    # What has no ONNX to hand to an execution provider is plain Python, and that runs on the host everywhere.
    actual: Compute = compute if model.kind == "onnx" else "cpu"
    return _TEMPLATES.get_template("config.pbtxt.j2").render(
        model=model,
        pool=pool,
        computes_on=_computes_on(model, pool, compute),
        instance_kind="KIND_GPU" if actual == "gpu" else "KIND_CPU",
        preferred_batch_sizes=preferred_batch_sizes(pool, model.max_batch_size),
        parameters=_parameters(model, pool, actual),
    )


def _parameters(model: ModelSource, pool: Pool, compute: Compute) -> dict[str, str]:
    parameters = {"provider": pool.provider, "compute": compute}
    if model.kind == "onnx":
        parameters["intra_op_threads"] = str(_intra_op_threads(model, compute))
    return parameters


def _intra_op_threads(model: ModelSource, compute: Compute) -> int:
    """On the CPU one thread per model: many models share the cores. 0 leaves the choice to ONNX Runtime."""
    if model.intra_op_threads is not None:
        return model.intra_op_threads
    return 1 if compute == "cpu" else 0


def _computes_on(model: ModelSource, pool: Pool, compute: Compute) -> str:
    if model.kind == "python":
        return "the host's CPU, in Python"
    if compute == "gpu":
        return f"the GPU, by {pool.provider}"
    if pool.default_compute == "cpu":
        return f"the host's CPU, by {pool.provider}"
    return f"the host's CPU (compute: cpu), standing in for {pool.provider}"
