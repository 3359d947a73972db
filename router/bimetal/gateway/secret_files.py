"""The files from which Envoy takes certificates and API keys."""

import json
from typing import Any

from bimetal.files import write_whole
from bimetal.fleet.schema import Fleet
from bimetal.security.secrets import read_api_keys
from bimetal.xds.tls import (
    API_KEY_FILTER,
    GATEWAY_CERTIFICATE,
    INTERNAL_CA,
    INTERNAL_CERTIFICATE,
    api_key_config,
    ca_secret,
    certificate_secret,
    secret_file,
)


def write_secret_files(fleet: Fleet) -> None:
    """Write what `fleet.security` names; a running Envoy takes changes over at once.

    Only the file of API keys holds secrets; the others name paths.

    Raises:
        SecretFileError: the API keys cannot be used.
        BimetalError: a file cannot be written.
    """
    gateway, internal = fleet.security.gateway, fleet.security.internal
    contents: dict[str, dict[str, Any]] = {}
    if gateway.certificate and gateway.private_key:
        contents[GATEWAY_CERTIFICATE] = certificate_secret(
            GATEWAY_CERTIFICATE, gateway.certificate, gateway.private_key
        )
    if internal:
        contents[INTERNAL_CERTIFICATE] = certificate_secret(
            INTERNAL_CERTIFICATE, internal.certificate, internal.private_key
        )
        contents[INTERNAL_CA] = ca_secret(internal)
    if gateway.api_keys:
        contents[API_KEY_FILTER] = api_key_config(read_api_keys(gateway.api_keys), gateway.open_health)
    for name, content in contents.items():
        write_whole(secret_file(fleet.state_dir, name), json.dumps(content, indent=2), mode=0o600)
