"""What a probe makes of a Triton's answers."""

from tritonclient.grpc import service_pb2 as pb

from bimetal.probes.metrics_text import pending_requests
from bimetal.probes.triton import group_index, smooth

METRICS = """\
# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="a",version="1"} 3
nv_inference_pending_request_count{model="b",version="1"} 4
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.5
"""


def test_pending_requests_are_summed_over_models() -> None:
    assert pending_requests(METRICS) == 7


def test_metrics_without_the_gauge_are_unknown_not_zero() -> None:
    assert pending_requests("nv_cpu_utilization 0.5\n") is None
    assert pending_requests("") is None


def test_text_that_is_no_metrics_is_unknown() -> None:
    assert pending_requests("<html>502 Bad Gateway</html>") is None


def test_a_single_burst_moves_the_mean_little_and_a_lasting_one_all_the_way() -> None:
    assert smooth(0.0, 100.0) == 10.0
    mean: float | None = 0.0
    for _ in range(100):
        mean = smooth(mean, 100.0)
    assert mean is not None
    assert round(mean) == 100


def test_a_missing_sample_makes_the_load_unknown() -> None:
    """llm-d: herds from stale telemetry; stale is unknown."""
    assert smooth(50.0, None) is None
    assert smooth(None, 8.0) == 8.0


def _index(*entries: tuple[str, str, str, str]) -> pb.RepositoryIndexResponse:
    models = [pb.RepositoryIndexResponse.ModelIndex(name=n, version=v, state=s, reason=r) for n, v, s, r in entries]
    return pb.RepositoryIndexResponse(models=models)


def test_the_index_is_grouped_by_model_with_versions_in_number_order() -> None:
    grouped = group_index(_index(("m", "10", "READY", ""), ("m", "9", "READY", ""), ("m", "2", "UNAVAILABLE", "gone")))
    assert grouped["m"].versions == ("9", "10")
    assert grouped["m"].unavailable == {"2": ("UNAVAILABLE", "gone")}


def test_a_model_that_was_never_loaded_is_known_but_not_ready() -> None:
    grouped = group_index(_index(("m", "", "", "")))
    assert not grouped["m"].ready
    assert grouped["m"].unavailable == {"": ("", "")}
