"""Connections of the control service to the Tritons, and the choice of whom to ask."""

from typing import Any

import aiohttp
import grpc

from router.circle import Circle
from router.fleet import Backend

_CHANNEL = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Backends:
    """Whom to ask, and how."""

    def __init__(self, circle: Circle, http: aiohttp.ClientSession) -> None:
        self._circle = circle
        self.http = http
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
        if route is None or any(route.shares.values()):
            return ""
        why = "; ".join(f"{c.backend}: {c.blocked or 'no weight'}" for c in route.candidates)
        return f"Request for model '{model}' has no healthy backend ({why})"

    def channel(self, backend: Backend) -> grpc.aio.Channel:
        """A kept gRPC channel to a backend."""
        if backend.name not in self._channels:
            self._channels[backend.name] = grpc.aio.insecure_channel(backend.grpc_address, _CHANNEL)
        return self._channels[backend.name]

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close()


def failed(failures: dict[str, str], asked: int) -> str:
    """One sentence about a fan-out that did not succeed everywhere."""
    said = "; ".join(f"{name}: {text}" for name, text in sorted(failures.items()))
    return f"failed on {len(failures)} of {asked} backends: {said}"


Message = Any
