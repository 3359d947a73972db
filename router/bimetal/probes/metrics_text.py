"""Triton's metrics text, read for the one number the policy wants."""

from prometheus_client.parser import text_string_to_metric_families


def pending_requests(text: str) -> float | None:
    """Requests waiting in the queues of all models of one Triton.

    Source: `nv_inference_pending_request_count`, a gauge per model and version. None if the text does not
    have it, or is not in Prometheus' text format: unknown, which is not 0.
    """
    try:
        counts = [
            sample.value
            for family in text_string_to_metric_families(text)
            if family.name == "nv_inference_pending_request_count"
            for sample in family.samples
        ]
    except ValueError:
        return None
    return sum(counts) if counts else None
