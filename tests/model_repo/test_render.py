"""The rendered text, read back with Triton's own protobuf schema."""

import itertools

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from bimetal.model_repo.pools import POOLS, Compute
from bimetal.model_repo.render import render_config
from bimetal.model_repo.sources import ModelSource, load_sources

SOURCES = load_sources()
EVERY_CONFIG = list(itertools.product(SOURCES, POOLS, ("cpu", "gpu")))


def config(model: str | ModelSource, pool: str, compute: Compute) -> ModelConfig:
    source = SOURCES[model] if isinstance(model, str) else model
    return text_format.Parse(render_config(source, POOLS[pool], compute), ModelConfig())


def parameter(parsed: ModelConfig, name: str) -> str:
    return str(parsed.parameters[name].string_value)


@pytest.mark.parametrize(("model", "pool", "compute"), EVERY_CONFIG)
def test_every_config_is_what_triton_reads_and_has_the_sources_tensors(model: str, pool: str, compute: Compute) -> None:
    parsed, source = config(model, pool, compute), SOURCES[model]
    assert (parsed.name, parsed.backend, parsed.max_batch_size) == (model, "python", source.max_batch_size)
    assert [list(tensor.dims) for tensor in parsed.input] == [tensor.dims for tensor in source.inputs]
    assert [tensor.name for tensor in parsed.output] == [tensor.name for tensor in source.outputs]
    assert parameter(parsed, "provider") == POOLS[pool].provider


@pytest.mark.parametrize(
    ("pool", "compute", "kind"),
    [("cuda", "gpu", "KIND_GPU"), ("rocm", "gpu", "KIND_GPU"), ("cuda", "cpu", "KIND_CPU"), ("cpu", "cpu", "KIND_CPU")],
)
def test_instances_are_where_the_pool_really_computes(pool: str, compute: Compute, kind: str) -> None:
    parsed = config("ocr_det", pool, compute)
    assert ModelInstanceGroup.Kind.Name(parsed.instance_group[0].kind) == kind
    assert parameter(parsed, "compute") == compute


def test_a_python_model_never_claims_the_gpu() -> None:
    parsed = config("identity", "cuda", "gpu")
    assert ModelInstanceGroup.Kind.Name(parsed.instance_group[0].kind) == "KIND_CPU"
    assert parameter(parsed, "compute") == "cpu"


@pytest.mark.parametrize(
    ("model", "pool", "compute", "sentence"),
    [
        ("ocr_det", "cuda", "gpu", "# Computes on: the GPU, by CUDAExecutionProvider."),
        ("ocr_det", "rocm", "cpu", "# Computes on: the host's CPU (compute: cpu), standing in for MIGraphX"),
        ("ocr_det", "cpu", "cpu", "# Computes on: the host's CPU, by CPUExecutionProvider."),
        ("repeat", "cuda", "gpu", "# Computes on: the host's CPU, in Python."),
    ],
)
def test_the_config_says_in_words_what_computes(model: str, pool: str, compute: Compute, sentence: str) -> None:
    assert sentence in render_config(SOURCES[model], POOLS[pool], compute)


@pytest.mark.parametrize(("pool", "sizes"), [("cuda", [8, 16, 32]), ("rocm", [32]), ("cpu", [])])
def test_a_model_that_batches_prefers_its_pools_batch_sizes(pool: str, sizes: list[int]) -> None:
    parsed = config("ocr_det", pool, "cpu")
    assert parsed.HasField("dynamic_batching")
    assert list(parsed.dynamic_batching.preferred_batch_size) == sizes


def test_a_model_without_a_batch_dimension_is_not_batched() -> None:
    assert not config("vad_lstm", "cuda", "cpu").HasField("dynamic_batching")


def test_only_repeat_is_decoupled() -> None:
    decoupled = [name for name in SOURCES if config(name, "cpu", "cpu").model_transaction_policy.decoupled]
    assert decoupled == ["repeat"]


def test_an_optional_input_may_be_left_out() -> None:
    optional = {tensor.name: tensor.optional for tensor in config("slow_identity", "cpu", "cpu").input}
    assert optional == {"INPUT0": False, "DELAY_MS": True}


@pytest.mark.parametrize(
    ("declared", "compute", "threads"), [(None, "cpu", "1"), (None, "gpu", "0"), (3, "cpu", "3"), (0, "cpu", "0")]
)
def test_a_model_on_the_cpu_has_one_thread_unless_its_source_says_otherwise(
    declared: int | None, compute: Compute, threads: str
) -> None:
    model = SOURCES["ocr_det"].model_copy(update={"intra_op_threads": declared})
    assert parameter(config(model, "cuda", compute), "intra_op_threads") == threads
