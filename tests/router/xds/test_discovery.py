"""The discovery service over a real gRPC connection: who is sent what, and when."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import grpc
import pytest
from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryRequest, DiscoveryResponse

from bimetal.xds.server import DataPlane, DiscoveryService
from bimetal.xds.snapshot import CLUSTER, ENDPOINTS, LISTENER, Resources, pack
from tests.patience import PATIENCE_S


class Client:
    """One data plane: what it sends is chosen, what it receives is awaited."""

    def __init__(self, channel: grpc.aio.Channel, agent: str) -> None:
        self._agent = agent
        self._call = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).StreamAggregatedResources()

    async def ask(
        self, type_url: str, *names: str, answering: DiscoveryResponse | None = None, error: str = ""
    ) -> None:
        request = DiscoveryRequest(type_url=type_url, resource_names=names)
        request.node.id, request.node.user_agent_name = "n", self._agent
        if answering is not None:
            request.response_nonce, request.version_info = answering.nonce, answering.version_info
        if error:
            request.error_detail.message = error
        await self._call.write(request)

    async def hear(self) -> DiscoveryResponse:
        return await asyncio.wait_for(self._call.read(), PATIENCE_S)

    async def hears_nothing_of_clusters(self) -> bool:
        """Whether no clusters are due: they would come before the listeners that are asked for now."""
        await self.ask(LISTENER)
        heard: str = (await self.hear()).type_url
        return heard == LISTENER

    def hang_up(self) -> None:
        self._call.cancel()


class World:
    """What the service would publish, by kind of data plane."""

    def __init__(self) -> None:
        self.clusters = {"grpc/a": "one"}
        self.built: list[DataPlane] = []

    def build(self, plane: DataPlane) -> dict[str, Resources]:
        self.built.append(plane)
        named = ((n, pack(Cluster(name=n, alt_stat_name=f"{plane}:{v}"))) for n, v in self.clusters.items())
        return {CLUSTER: Resources.of(named), ENDPOINTS: Resources.of(()), LISTENER: Resources.of(())}


Scenario = Callable[[DiscoveryService, World, Callable[[str], Client]], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(run_async: Callable[[Coroutine[Any, Any, Any]], Any]) -> Callable[[Scenario], None]:
    """Runs a scenario against a served DiscoveryService."""

    async def main(scenario: Scenario) -> None:
        world = World()
        service = DiscoveryService(world.build)
        server = grpc.aio.server()
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await scenario(service, world, lambda agent: Client(channel, agent))
        await server.stop(0)

    return lambda scenario: run_async(main(scenario))


def names(response: DiscoveryResponse) -> list[str]:
    found = []
    for packed in response.resources:
        cluster = Cluster()
        packed.Unpack(cluster)
        found.append(f"{cluster.name}={cluster.alt_stat_name}")
    return sorted(found)


def test_nothing_is_said_before_the_first_decision_is_published(play: Play) -> None:
    async def scenario(service: DiscoveryService, world: World, connect: Callable[[str], Client]) -> None:
        envoy = connect("envoy")
        await envoy.ask(CLUSTER)
        answer = asyncio.create_task(envoy.hear())
        while not service.connected()[DataPlane.ENVOY]:
            await asyncio.sleep(0.01)
        assert world.built == []
        await service.publish()
        assert names(await answer) == ["grpc/a=envoy:one"]

    play(scenario)


def test_each_kind_of_data_plane_gets_its_own_shape(play: Play) -> None:
    async def scenario(service: DiscoveryService, world: World, connect: Callable[[str], Client]) -> None:
        await service.publish()
        for agent, shape in (("envoy", "envoy"), ("gRPC Python", "proxyless")):
            client = connect(agent)
            await client.ask(CLUSTER, "grpc/a")
            assert names(await client.hear()) == [f"grpc/a={shape}:one"]
        assert world.built == [DataPlane.ENVOY, DataPlane.PROXYLESS]
        assert service.connected() == {DataPlane.ENVOY: 1, DataPlane.PROXYLESS: 1}

    play(scenario)


def test_an_update_is_sent_when_the_content_changed_and_only_then(play: Play) -> None:
    async def scenario(service: DiscoveryService, world: World, connect: Callable[[str], Client]) -> None:
        envoy = connect("envoy")
        await envoy.ask(CLUSTER)
        await service.publish()
        first = await envoy.hear()
        await envoy.ask(CLUSTER, answering=first)
        await service.publish()
        assert await envoy.hears_nothing_of_clusters()
        world.clusters["grpc/a"] = "two"
        await service.publish()
        second = await envoy.hear()
        assert names(second) == ["grpc/a=envoy:two"]
        assert second.version_info != first.version_info

    play(scenario)


def test_the_same_content_has_the_same_version_after_a_restart_of_the_router(play: Play) -> None:
    versions = []

    async def scenario(service: DiscoveryService, _world: World, connect: Callable[[str], Client]) -> None:
        envoy = connect("envoy")
        await envoy.ask(CLUSTER)
        await service.publish()
        versions.append((await envoy.hear()).version_info)

    play(scenario)
    play(scenario)
    assert versions[0] == versions[1]


def test_a_client_of_one_model_is_not_bothered_by_another_models_change(play: Play) -> None:
    async def scenario(service: DiscoveryService, world: World, connect: Callable[[str], Client]) -> None:
        world.clusters["grpc/b"] = "one"
        client = connect("gRPC Python")
        await client.ask(CLUSTER, "grpc/a")
        await service.publish()
        await client.ask(CLUSTER, "grpc/a", answering=await client.hear())
        world.clusters["grpc/b"] = "two"
        await service.publish()
        assert await client.hears_nothing_of_clusters()

    play(scenario)


def test_asking_for_more_names_is_answered_at_once(play: Play) -> None:
    async def scenario(service: DiscoveryService, world: World, connect: Callable[[str], Client]) -> None:
        world.clusters["grpc/b"] = "one"
        client = connect("gRPC Python")
        await client.ask(CLUSTER, "grpc/a")
        await service.publish()
        await client.ask(CLUSTER, "grpc/a", "grpc/b", answering=await client.hear())
        assert names(await client.hear()) == ["grpc/a=proxyless:one", "grpc/b=proxyless:one"]

    play(scenario)


def test_an_unknown_name_is_answered_with_nothing_so_that_the_client_can_say_so(play: Play) -> None:
    async def scenario(service: DiscoveryService, _world: World, connect: Callable[[str], Client]) -> None:
        client = connect("gRPC Python")
        await client.ask(CLUSTER, "grpc/nope")
        await service.publish()
        assert names(await client.hear()) == []

    play(scenario)


def test_a_rejected_update_is_counted_and_not_sent_again_until_something_changes(play: Play) -> None:
    async def scenario(service: DiscoveryService, world: World, connect: Callable[[str], Client]) -> None:
        envoy = connect("envoy")
        await envoy.ask(CLUSTER)
        await service.publish()
        await envoy.ask(CLUSTER, answering=await envoy.hear(), error="no such field")
        assert await envoy.hears_nothing_of_clusters()
        assert service.rejections == 1
        world.clusters["grpc/a"] = "mended"
        await service.publish()
        assert names(await envoy.hear()) == ["grpc/a=envoy:mended"]

    play(scenario)


def test_a_data_plane_that_hangs_up_is_forgotten(play: Play) -> None:
    async def scenario(service: DiscoveryService, _world: World, connect: Callable[[str], Client]) -> None:
        envoy = connect("envoy")
        await envoy.ask(CLUSTER)
        await service.publish()
        await envoy.hear()
        envoy.hang_up()
        async with asyncio.timeout(PATIENCE_S):
            while service.connected()[DataPlane.ENVOY]:
                await asyncio.sleep(0.01)

    play(scenario)


@pytest.mark.parametrize(
    ("agent", "kind"), [("envoy", DataPlane.ENVOY), ("gRPC Python", DataPlane.PROXYLESS), ("", DataPlane.PROXYLESS)]
)
def test_data_planes_are_told_apart_by_user_agent(agent: str, kind: DataPlane) -> None:
    assert DataPlane.of(agent) is kind
