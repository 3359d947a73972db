"""The CLI's side of the admin API."""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from router.errors import BimetalError, RouterUnreachableError
from router.fleet import RouterAddress, join_host_port

_TIMEOUT_S = 10


class AdminClient:
    """Asks the router; every failure is a BimetalError."""

    def __init__(self, address: RouterAddress) -> None:
        self._base = f"http://{join_host_port(address.host, address.http_port)}"

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
        request = urllib.request.Request(self._base + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            raise BimetalError(_said(error.read()) or f"{self._base}{path} answered {error.code}.") from error
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise RouterUnreachableError(
                f"the router does not answer at {self._base}: {reason}.", "Start the cluster with `make up`."
            ) from error


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
