"""The text of a gRPC status fits into what clients take."""

from urllib.parse import quote

import pytest

from bimetal.control.grpc_methods import bounded


@pytest.mark.parametrize("text", ["", "Request for unknown model: 'nope'", "n" * 6000])
def test_a_usual_text_is_left_alone(text: str) -> None:
    assert bounded(text) == text


@pytest.mark.parametrize("letter", ["n", "ü", "%", "\n", "😀"])
def test_a_long_text_is_cut_to_what_a_client_takes(letter: str) -> None:
    """model_analyzer 472: a long error text broke the client."""
    cut = bounded(letter * 100_000)
    assert cut.startswith(letter * 400)
    assert cut.endswith("…")
    assert len(quote(cut)) < 8192
