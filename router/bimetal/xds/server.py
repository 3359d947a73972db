"""The aggregated discovery service (state of the world): hands each data plane the snapshot of its kind.

One stream per data plane. Envoy and grpcio are told apart by the user agent of their node. Nothing is answered before
the first decision was published, so a router that has just started never empties anybody's table.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import structlog
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryRequest, DiscoveryResponse

from bimetal.xds.snapshot import CLUSTER, ENDPOINTS, LISTENER, ROUTES, Resources, Snapshot

log = structlog.get_logger(__name__)

# A cluster before its endpoints, endpoints before the listener and routes that use them: so a route never points at
# what its data plane has not heard of (xDS protocol, "Eventual consistency considerations").
_ORDER = (CLUSTER, ENDPOINTS, LISTENER, ROUTES)


class DataPlane(StrEnum):
    """The two kinds of data plane, which want differently shaped resources."""

    ENVOY = "envoy"
    PROXYLESS = "proxyless"

    @classmethod
    def of(cls, user_agent: str) -> "DataPlane":
        """The kind that announces itself with that user agent (`Node.user_agent_name`)."""
        return cls.ENVOY if user_agent == "envoy" else cls.PROXYLESS


@dataclass
class _Subscription:
    """What one stream wants of one type (no names: everything), and what it was last sent."""

    names: frozenset[str]
    version: str | None = None
    nonce: str = ""


@dataclass(eq=False)
class _Stream:
    """One connected data plane."""

    plane: DataPlane
    node: str
    subscriptions: dict[str, _Subscription] = field(default_factory=dict)
    nonces: int = 0


class DiscoveryService(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]  # generated, untyped
    """Serves snapshots.

    Args:
        build: makes the snapshot of one kind from the newest table; called once per publication, and only for kinds
            that are connected.
    """

    def __init__(self, build: Callable[[DataPlane], Snapshot]) -> None:
        self._build = build
        self._snapshots: dict[DataPlane, Snapshot] = {}
        self._publications = 0
        self._news = asyncio.Condition()
        self._streams: set[_Stream] = set()
        self.rejections = 0

    def connected(self) -> dict[DataPlane, int]:
        """Connected data planes by kind."""
        return {plane: sum(s.plane is plane for s in self._streams) for plane in DataPlane}

    async def publish(self) -> None:
        """Say that the table has changed: every stream gets what differs for it."""
        async with self._news:
            self._publications += 1
            self._snapshots.clear()
            self._news.notify_all()

    async def StreamAggregatedResources(  # noqa: N802  # the name is the protocol's
        self, requests: AsyncIterator[DiscoveryRequest], _context: Any
    ) -> AsyncIterator[DiscoveryResponse]:
        """One data plane's conversation, until it hangs up."""
        first = await anext(aiter(requests), None)
        if first is None:
            return
        stream = _Stream(DataPlane.of(first.node.user_agent_name), first.node.id)
        self._streams.add(stream)
        log.info("data plane connected", plane=stream.plane, node=stream.node)
        self._listen(stream, first)
        listener = asyncio.create_task(self._listen_on(stream, requests))
        try:
            async for response in self._responses(stream, listener):
                yield response
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener
            self._streams.discard(stream)
            log.info("data plane left", plane=stream.plane, node=stream.node)

    async def _listen_on(self, stream: _Stream, requests: AsyncIterator[DiscoveryRequest]) -> None:
        try:
            async for request in requests:
                self._listen(stream, request)
                async with self._news:
                    self._news.notify_all()
        finally:
            async with self._news:
                self._news.notify_all()

    def _listen(self, stream: _Stream, request: DiscoveryRequest) -> None:
        """Take in one request: a subscription, an acknowledgement or a rejection."""
        names = frozenset(request.resource_names)
        subscription = stream.subscriptions.get(request.type_url)
        if subscription is None:
            stream.subscriptions[request.type_url] = _Subscription(names)
            return
        if request.response_nonce != subscription.nonce:
            return  # about an older response; the data plane will speak again about the newest
        if request.HasField("error_detail"):
            self.rejections += 1
            log.error(
                "data plane rejected an update and keeps its last one",
                plane=stream.plane, node=stream.node, type=request.type_url, error=request.error_detail.message,
            )  # fmt: skip
        if names != subscription.names:
            subscription.names, subscription.version = names, None

    async def _responses(self, stream: _Stream, listener: asyncio.Task[None]) -> AsyncIterator[DiscoveryResponse]:
        """What the stream has not been sent yet, as it comes up, until the data plane hangs up."""
        while not listener.done():
            for type_url in _ORDER:
                response = self._response(stream, type_url)
                if response is not None:
                    yield response
            async with self._news:
                await self._news.wait_for(lambda: listener.done() or self._is_behind(stream))

    def _is_behind(self, stream: _Stream) -> bool:
        return any(self._due(stream, type_url) is not None for type_url in _ORDER)

    def _due(self, stream: _Stream, type_url: str) -> Resources | None:
        """The resources of a type that the stream wants and does not have; None if it has them."""
        subscription = stream.subscriptions.get(type_url)
        if subscription is None or not self._publications:
            return None
        wanted = self._snapshot(stream.plane).get(type_url, Resources("", {})).select(subscription.names)
        return wanted if wanted.version != subscription.version else None

    def _response(self, stream: _Stream, type_url: str) -> DiscoveryResponse | None:
        due = self._due(stream, type_url)
        if due is None:
            return None
        stream.nonces += 1
        subscription = stream.subscriptions[type_url]
        subscription.version, subscription.nonce = due.version, str(stream.nonces)
        return DiscoveryResponse(
            type_url=type_url,
            version_info=due.version,
            nonce=subscription.nonce,
            resources=due.by_name.values(),
        )

    def _snapshot(self, plane: DataPlane) -> Snapshot:
        if plane not in self._snapshots:
            self._snapshots[plane] = self._build(plane)
        return self._snapshots[plane]
