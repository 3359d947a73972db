"""Connections of the control service to the Tritons, and the choice of whom to ask."""

import asyncio
from typing import Any

import aiohttp
import grpc
from tritonclient.grpc import service_pb2_grpc

from bimetal.circle.circle import Circle
from bimetal.control.cluster import model_is_ready
from bimetal.fleet.schema import Backend
from bimetal.security.dialing import Dialer, Options

_CHANNEL: Options = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A long error text of a Triton: the answer to our client is cut, but here it has to arrive.
    ("grpc.max_metadata_size", 2**20),
    ("grpc.absolute_max_metadata_size", 2**20),
]
_SEEN_WITHIN_S = 3.0
_LOOK_EVERY_S = 0.02
_MOST_WORDS = 300

ASK_TIMEOUT_S = 60.0
"""For a question about what is there."""
LOAD_TIMEOUT_S = 600.0
"""For a load or an unload: Triton answers when the model is ready, and a large one takes minutes."""


class Backends:
    """Whom to ask, and how."""

    def __init__(self, circle: Circle, http: aiohttp.ClientSession, dialer: Dialer) -> None:
        self._circle = circle
        self.http = http
        self._dialer = dialer
        self._channels: dict[str, grpc.aio.Channel] = {}

    def reachable(self) -> list[Backend]:
        """The backends that answered their last probe."""
        seen = self._circle.state.observations
        return [b for b in self._circle.fleet.backends if b.name in seen and seen[b.name].reachable]

    def homes_of(self, model: str) -> list[Backend]:
        """The reachable backends that list a model; all reachable ones for a model that nobody lists."""
        reachable = self.reachable()
        homes = [b for b in reachable if model in self._circle.state.observations[b.name].models]
        return homes or reachable

    def one_for(self, model: str) -> Backend | None:
        """Whom to ask about a model: the backend with the largest share, else any; None if none is reachable.

        A model that nobody knows is asked of any Triton, so that the answer is Triton's own.
        """
        route = self._circle.table.routes.get(model)
        shares = route.shares if route else {}
        return max(self.homes_of(model), key=lambda b: shares.get(b.name, 0.0), default=None)

    def out_of_service(self, model: str) -> str:
        """Why a model that the cluster knows cannot be served now, in words; "" if it can or is not known."""
        route = self._circle.table.routes.get(model)
        if route is None or any(route.shares.values()) or self._loaded_nowhere(model):
            return ""
        why = "; ".join(f"{c.backend}: {c.blocked or 'no weight'}" for c in route.candidates)
        return f"Request for model '{model}' has no healthy backend ({why})"

    def _loaded_nowhere(self, model: str) -> bool:
        """Whether every home can be asked and none has it: then Triton's own words are the answer."""
        known = self._circle.state.models.get(model)
        homes = known.homes if known else frozenset[str]()
        observations = [self._circle.state.observations.get(home) for home in homes]
        return all(o and o.reachable and not o.models[model].ready for o in observations)

    async def seen(self, model: str, ready: bool, backends: list[Backend]) -> None:
        """Wait until the probes have seen what a load or unload did, so that the next request finds it in the table.

        Gives up after some seconds: the load itself did succeed.
        """
        try:
            async with asyncio.timeout(_SEEN_WITHIN_S):
                while not self._knows(model, ready, backends):
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            return

    def _knows(self, model: str, ready: bool, backends: list[Backend]) -> bool:
        state = self._circle.state
        served = [state.served(b.name, model) for b in backends]
        if any((s is not None and s.ready) is not ready for s in served):
            return False
        return model_is_ready(self._circle.table, state, model, "") is ready

    def channel(self, backend: Backend) -> grpc.aio.Channel:
        """A kept gRPC channel to a backend."""
        if backend.name not in self._channels:
            self._channels[backend.name] = self._dialer.channel(backend, _CHANNEL)
        return self._channels[backend.name]

    async def ask(self, backend: Backend, request: Any, timeout_s: float) -> Any:
        """One Triton's answer over gRPC: `XRequest` is the message of method `X`. Raises grpc.aio.AioRpcError."""
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel(backend))
        method = type(request).__name__.removesuffix("Request")
        return await getattr(stub, method)(request, timeout=timeout_s)

    async def ask_all(self, backends: list[Backend], request: Any, timeout_s: float) -> dict[str, Any]:
        """Answer, or AioRpcError, by backend; all are asked at once."""

        async def attempt(backend: Backend) -> Any:
            try:
                return await self.ask(backend, request, timeout_s)
            except grpc.aio.AioRpcError as error:
                return error

        answers = await asyncio.gather(*(attempt(backend) for backend in backends))
        return dict(zip((b.name for b in backends), answers, strict=True))

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close()


def failed(failures: dict[str, str], asked: int) -> str:
    """One sentence about a fan-out that did not succeed everywhere, short enough for a gRPC status.

    model_analyzer 472: an error text that was too long broke the client.
    """
    said = "; ".join(f"{name}: {_shortened(text)}" for name, text in sorted(failures.items()))
    return f"failed on {len(failures)} of {asked} backends: {said}"


def _shortened(text: str) -> str:
    """`text`, or its beginning."""
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}…"
