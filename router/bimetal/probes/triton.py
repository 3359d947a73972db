"""One probe per backend: ask, tell what was seen, wait, ask again."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import structlog
import tritonclient.grpc.aio as triton
from tritonclient.utils import InferenceServerException

from bimetal.fleet.schema import Backend
from bimetal.fleet.settings import ProbeSettings
from bimetal.probes.metrics_text import pending_requests
from bimetal.security.dialing import Dialer
from bimetal.state.observation import Observation, ServedModel

log = structlog.get_logger(__name__)

# A channel that shares sockets with others would hide a server that came back, and grpc's default
# reconnect back-off (up to 120 s) would hide it for minutes.
_CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", -1),
]
STOPPING_REGION = "bimetal-stopping"
"""The shared-memory region that marks a server as about to get SIGTERM (images/rootfs/triton/opt/bimetal/serve): a mark
that a Triton can be given and asked for by its own protocol, on the ports that it has."""
_LEAST_PAUSE_S = 0.02
_NO_SHARED_MEMORY = {"StatusCode.UNIMPLEMENTED", "StatusCode.PERMISSION_DENIED", "StatusCode.UNAVAILABLE"}
"""What a server that was built without it, or restricts it to others, says."""
_SAMPLE_WEIGHT = 0.1
"""Of one sample in a mean: at the usual four probes a second, a mean over about the last 2.5 seconds."""


class TritonProbe:
    """Watches one backend and hands every finding to `report`.

    A failed probe drops its channel, so the next one connects afresh. Both protocols carry traffic, so both are
    asked: a server that hangs on one of them counts as unreachable.
    """

    def __init__(
        self,
        backend: Backend,
        settings: ProbeSettings,
        report: Callable[[Observation], None],
        http: aiohttp.ClientSession,
        dialer: Dialer,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._report = report
        self._http = http
        self._dialer = dialer
        self._client: triton.InferenceServerClient | None = None
        self._server: Mapping[str, Any] = {}
        self._known: dict[str, ServedModel] = {}
        self._fetched_at = 0.0
        self._pending: float | None = None
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Probe now instead of at the next interval."""
        self._wake.set()

    async def run(self) -> None:
        """Probe until cancelled."""
        try:
            while True:
                self._wake.clear()
                self._report(await self.probe())
                await self._pause()
        finally:
            await self._forget()

    async def probe(self) -> Observation:
        """Ask the backend once. Never raises for what the backend does: that is in `Observation.error`."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                models = await self._models()
                stopping = await self._is_stopping()
                await self._ask_http()
        except InferenceServerException as error:
            return await self._unreachable(f"{error.message()}")
        except aiohttp.ClientError as error:
            return await self._unreachable(f"HTTP port: {error or type(error).__name__}")
        except TimeoutError:
            return await self._unreachable(f"no answer within {self._settings.timeout_s:g} s")
        self._pending = smooth(self._pending, await self._count_pending())
        return Observation(
            self._backend.name, server=self._server, models=models, pending=self._pending, stopping=stopping
        )

    async def _pause(self) -> None:
        # However often something asks for a look, one backend is not probed without a breath in between.
        await asyncio.sleep(_LEAST_PAUSE_S)
        try:
            async with asyncio.timeout(self._settings.interval_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _unreachable(self, error: str) -> Observation:
        await self._forget()
        return Observation(self._backend.name, error=error)

    async def _forget(self) -> None:
        if self._client is not None:
            await self._client.close()
        self._client, self._server, self._known = None, {}, {}

    async def _models(self) -> dict[str, ServedModel]:
        if self._client is None:
            self._client = triton.InferenceServerClient(
                self._backend.grpc_address,
                creds=self._dialer.credentials(self._backend),
                channel_args=[*_CHANNEL, *self._dialer.options(self._backend)],
            )
        if not self._server:
            self._server = await self._client.get_server_metadata(as_json=True)
        index = await self._client.get_model_repository_index()
        now = asyncio.get_running_loop().time()
        refresh = now - self._fetched_at > self._settings.config_refresh_s
        if refresh:
            self._fetched_at = now
        listed = group_index(index)
        for name, model in listed.items():
            known = self._known.get(name)
            if known is None or known.versions != model.versions or refresh:
                known = await self._describe(model)
            self._known[name] = ServedModel(name, model.versions, model.unavailable, known.config, known.metadata)
        self._known = {name: self._known[name] for name in listed}
        return dict(self._known)

    async def _is_stopping(self) -> bool:
        assert self._client is not None
        try:
            status = await self._client.get_system_shared_memory_status()
        except InferenceServerException as error:
            if error.status() in _NO_SHARED_MEMORY:
                return False
            raise
        return STOPPING_REGION in status.regions

    async def _ask_http(self) -> None:
        """Whether anybody is there; whatever the answer is. On a connection of its own, as a new client's."""
        url = f"http://{self._backend.http_address}/v2/health/live"
        async with self._http.get(url, headers={"Connection": "close"}):
            pass

    async def _describe(self, model: ServedModel) -> ServedModel:
        """`model` with its configuration and metadata; without them if it is not ready."""
        assert self._client is not None
        if not model.ready:
            return model
        try:
            config = await self._client.get_model_config(model.name, as_json=True)
            metadata = await self._client.get_model_metadata(model.name, as_json=True)
        except InferenceServerException as error:
            if error.status() not in {"StatusCode.NOT_FOUND", "StatusCode.UNAVAILABLE"}:
                raise
            # Unloaded between the index and this question: the next probe's index will say so.
            return ServedModel(model.name, (), model.unavailable)
        return ServedModel(model.name, model.versions, model.unavailable, config["config"], metadata)

    async def _count_pending(self) -> float | None:
        url = f"http://{self._backend.metrics_address}/metrics"
        try:
            timeout = aiohttp.ClientTimeout(total=self._settings.timeout_s)
            async with self._http.get(url, timeout=timeout) as answer:
                return pending_requests(await answer.text()) if answer.ok else None
        except (aiohttp.ClientError, TimeoutError):
            return None


def smooth(mean: float | None, new: float | None) -> float | None:
    """The mean of a gauge after one more sample; a queue fills and empties within a probe interval.

    A missing sample is unknown, and the samples before it are too old to speak for it.
    """
    if mean is None or new is None:
        return new
    return mean + _SAMPLE_WEIGHT * (new - mean)


def group_index(index: Any) -> dict[str, ServedModel]:
    """A RepositoryIndexResponse as models by name: READY versions, and the others with state and reason.

    An entry without a version (a model that was never loaded) is listed under version "".
    """
    ready: dict[str, list[str]] = {}
    other: dict[str, dict[str, tuple[str, str]]] = {}
    for entry in index.models:
        ready.setdefault(entry.name, [])
        if entry.state == "READY":
            ready[entry.name].append(entry.version)
        else:
            other.setdefault(entry.name, {})[entry.version] = (entry.state, entry.reason)
    return {
        name: ServedModel(name, tuple(sorted(versions, key=_by_number)), other.get(name, {}))
        for name, versions in ready.items()
    }


def _by_number(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdigit() else (0, version)
