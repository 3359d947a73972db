"""The CLI's side of the admin API."""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from bimetal.errors import BimetalError, RouterUnreachableError
from bimetal.fleet.schema import Fleet, join_host_port
from bimetal.security.secrets import read_token

_TIMEOUT_S = 10


class AdminClient:
    """Asks the router; every failure is a BimetalError."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        scheme = "https" if fleet.security.internal else "http"
        self._base = f"{scheme}://{join_host_port(fleet.router.host, fleet.router.http_port)}"

    def status(self) -> dict[str, Any]:
        """What `bimetal status --json` prints."""
        answer: dict[str, Any] = json.loads(self._ask("/admin/status"))
        return answer

    def explain(self, model: str) -> dict[str, Any]:
        """What `bimetal explain MODEL --json` prints."""
        answer: dict[str, Any] = json.loads(self._ask(f"/admin/explain/{urllib.parse.quote(model, safe='')}"))
        return answer

    def tell(self, backend: str, word: str) -> None:
        """Act on a backend: `clear`, `drain` or `undrain`."""
        self._ask(f"/admin/backends/{urllib.parse.quote(backend, safe='')}/{word}", method="POST")

    def _ask(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(self._base + path, headers=self._authorization(), method=method)
        try:
            with self._opener().open(request, timeout=_TIMEOUT_S) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            raise BimetalError(_said(error.read()) or f"{self._base}{path} answered {error.code}.") from error
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise RouterUnreachableError(
                f"the router does not answer at {self._base}: {reason}.", "Start the cluster with `make up`."
            ) from error

    def _authorization(self) -> dict[str, str]:
        """Raises SecretFileError."""
        file = self._fleet.security.admin_token
        return {"authorization": f"Bearer {read_token(file)}"} if file else {}

    def _opener(self) -> urllib.request.OpenerDirector:
        """Past any proxy of the environment, which would get to see the token."""
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._fleet.security.internal:
            context = ssl.create_default_context(cafile=str(self._fleet.security.internal.ca))
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
