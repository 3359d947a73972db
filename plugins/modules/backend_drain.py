#!/usr/bin/python
"""Ansible module: take a backend out of a gateway's table and wait until its requests are done, or put it back.

Standard library only.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: backend_drain
short_description: Drain a backend through the router's admin API and wait for its requests, or end that drain
description:
  - Takes a backend out of a gateway's table and waits until its requests are done, or puts it back. It runs on the
    gateway's host, where the router's admin API and Envoy's admin interface are.
  - A drain of its own leaves a mark, so that a run that was interrupted is caught up by the next one, and a drain
    that a person asked for is never ended.
options:
  backend: {type: str, required: true, description: The backend's name in the fleet file.}
  state: {type: str, required: true, choices: [drained, undrained], description: What it shall be.}
  addresses: {type: list, elements: str, required: true, description: IP:PORT of its HTTP and gRPC services.}
  router_url: {type: str, required: true, description: Where the admin API is.}
  envoy_url: {type: str, required: true, description: Where the gateway's admin interface is.}
  marks_dir: {type: path, required: true, description: Directory that keeps one file per drain of ours.}
  token_file: {type: path, description: File with the admin token.}
  ca_file: {type: path, description: The authority that the router's certificate is of.}
  timeout_seconds: {type: int, default: 60, description: How long its requests, or its models, may take.}
  required: {type: bool, default: false, description: Whether a drain that cannot be had is an error.}
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.backend_drain:
    backend: cuda-0
    state: drained
    addresses: ["192.0.2.10:8000", "192.0.2.10:8001"]
    router_url: http://127.0.0.1:8002
    envoy_url: http://127.0.0.1:18901
    marks_dir: /var/lib/bimetal/drains
"""

RETURN = r"""
drained:
  description: Whether the backend gets no new request now.
  type: bool
  returned: always
in_flight:
  description: Requests that it still had in the end; null when the gateway could not be asked.
  type: int
  returned: when drained
"""

_POLL_SECONDS = 0.25
_REQUEST_SECONDS = 10

Ask = Callable[[str, str], Any]
"""Method and path to the answer's JSON (None for an empty one). Raises OSError, urllib.error.HTTPError among them."""


def asker(url: str, token_file: str | None, ca_file: str | None) -> Ask:
    """How a server is asked: past any proxy of the environment, which would get to see the token."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if ca_file:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file)))
    opener = urllib.request.build_opener(*handlers)
    headers = {"authorization": f"Bearer {Path(token_file).read_text().strip()}"} if token_file else {}

    def ask(method: str, path: str) -> Any:
        request = urllib.request.Request(url + path, headers=headers, method=method)
        with opener.open(request, timeout=_REQUEST_SECONDS) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    return ask


def in_flight(clusters: dict[str, Any], addresses: Iterable[str]) -> int | None:
    """Requests that Envoy (`/clusters?format=json`) has at these addresses; None while it still sends more there."""
    wanted, requests = set(addresses), 0
    for cluster in clusters.get("cluster_statuses", []):
        for host in cluster.get("host_statuses", []):
            socket = host["address"].get("socket_address", {})
            if f"{socket.get('address')}:{socket.get('port_value')}" not in wanted:
                continue
            if host.get("health_status", {}).get("eds_health_status") != "DRAINING":
                return None
            requests += sum(int(stat.get("value", 0)) for stat in host["stats"] if stat["name"] == "rq_active")
    return requests


def only_here(status: dict[str, Any], backend: str) -> list[str]:
    """Models that no other backend gets requests for."""
    return [
        model["name"]
        for model in status["models"]
        if model["shares"].get(backend, 0) > 0 and sum(share > 0 for share in model["shares"].values()) == 1
    ]


def find(status: dict[str, Any], backend: str) -> dict[str, Any] | None:
    """The backend's part of the router's status; None for a backend that it does not know."""
    return next((known for known in status["backends"] if known["name"] == backend), None)


def wait(seen: Callable[[], int | None], timeout_seconds: float) -> int | None:
    """Poll until `seen` is 0 or the time is over; what it was last."""
    deadline = time.monotonic() + timeout_seconds
    while (last := seen()) != 0 and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return last


class Drain:
    """One backend at one gateway."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module, self._wanted = module, module.params
        wanted = self._wanted
        self._name: str = wanted["backend"]
        self._mark = Path(wanted["marks_dir"]) / urllib.parse.quote(self._name, safe="")
        try:
            self._router = asker(wanted["router_url"], wanted["token_file"], wanted["ca_file"])
        except OSError as error:
            self._refuse(f"The router's token or authority cannot be read: {error}. Correct router_security.")
        self._envoy = asker(wanted["envoy_url"], None, None)

    def drain(self) -> None:
        """Out of the table, and wait for what it has."""
        backend, status = self._known()
        ours = self._mark.exists()
        changed = not backend["drained"]
        if alone := only_here(status, self._name):
            self._module.warn(f"{self._name} is drained, and only it serves {', '.join(alone)}: no requests for these.")
        if self._module.check_mode:
            self._module.exit_json(changed=changed, drained=backend["drained"], in_flight=None)
        if changed:
            # Before the drain: one without a mark would look like a person's for ever.
            self._mark.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._mark.touch()
            self._tell("drain")
        left, failure = self._wait_for_requests()
        if left != 0:
            self._module.warn(
                f"{self._name} is drained, but {failure or f'still has {left or 0} requests'} after "
                f"{self._wanted['timeout_seconds']} s. It goes on: Triton finishes what it has when it is stopped."
            )
        by = "this run" if changed else "an earlier run" if ours else "a person, who has to end it"
        self._module.exit_json(changed=changed, drained=True, in_flight=left, msg=f"{self._name}: drained by {by}")

    def _wait_for_requests(self) -> tuple[int | None, str]:
        failure = ""

        def seen() -> int | None:
            nonlocal failure
            try:
                clusters = self._envoy("GET", "/clusters?format=json")
            except (OSError, ValueError) as error:
                failure = f"the gateway's admin interface at {self._wanted['envoy_url']} does not answer ({error})"
                return None
            failure = ""
            return in_flight(clusters, self._wanted["addresses"])

        left = wait(seen, self._wanted["timeout_seconds"])
        return left, failure

    def undrain(self) -> None:
        """Back into the table, if it was us who took it out and once the router sees it ready."""
        if not self._mark.exists():
            self._module.exit_json(changed=False, drained=False, msg=f"{self._name}: not drained by a run like this")
        backend, _ = self._known()
        if self._module.check_mode:
            self._module.exit_json(changed=True, drained=backend["drained"])
        if wait(self._not_ready, self._wanted["timeout_seconds"]) != 0:
            self._refuse(
                f"The router does not see {self._name} ready within {self._wanted['timeout_seconds']} s, so it stays "
                f"drained. Look at `bimetal status`; run this again, or `bimetal undrain {self._name}`."
            )
        self._tell("undrain")
        self._mark.unlink()
        self._module.exit_json(changed=True, drained=False, msg=f"{self._name}: gets requests again")

    def _not_ready(self) -> int:
        try:
            backend = find(self._router("GET", "/admin/status"), self._name)
        except OSError:  # it may be on its way to a new fleet file
            return 1
        return 0 if backend and backend["ready"] else 1

    def _known(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The backend and the router's whole status; ends the module where there is none."""
        try:
            status: dict[str, Any] = self._router("GET", "/admin/status")
        except urllib.error.HTTPError as error:
            url = self._wanted["router_url"]
            self._refuse(f"The router at {url} answered {error.code}: expected its status. {_HINT}")
        except OSError as error:
            reason = getattr(error, "reason", error)
            self._without(f"the router at {self._wanted['router_url']} does not answer ({reason})")
        backend = find(status, self._name)
        if backend is None:
            self._mark.unlink(missing_ok=True)
            self._without(f"the router at {self._wanted['router_url']} knows no backend of that name")
        return backend, status

    def _without(self, why: str) -> NoReturn:
        """There is nobody to drain it: said, and an error only where a drain was demanded."""
        word = self._wanted["state"]
        if self._wanted["required"]:
            self._refuse(
                f"{self._name} cannot be {word}: {why}. Start the router, or set router_drain_required: false."
            )
        self._module.warn(f"{self._name} is not {word}: {why}.")
        self._module.exit_json(changed=False, drained=False, in_flight=None)
        raise AssertionError("exit_json does not return")

    def _tell(self, word: str) -> None:
        try:
            self._router("POST", f"/admin/backends/{urllib.parse.quote(self._name, safe='')}/{word}")
        except OSError as error:
            self._refuse(f"The router did not {word} {self._name}: {error}. Try `bimetal {word} {self._name}`.")

    def _refuse(self, sentence: str) -> NoReturn:
        self._module.fail_json(msg=sentence)
        raise AssertionError("fail_json does not return")


_HINT = "With security.admin_token, router_security has to name the token's file."


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "backend": {"type": "str", "required": True},
            "state": {"type": "str", "required": True, "choices": ["drained", "undrained"]},
            "addresses": {"type": "list", "elements": "str", "required": True},
            "router_url": {"type": "str", "required": True},
            "envoy_url": {"type": "str", "required": True},
            "marks_dir": {"type": "path", "required": True},
            "token_file": {"type": "path", "no_log": False},
            "ca_file": {"type": "path"},
            "timeout_seconds": {"type": "int", "default": 60},
            "required": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    drain = Drain(module)
    if module.params["state"] == "drained":
        drain.drain()
    else:
        drain.undrain()


if __name__ == "__main__":
    main()
