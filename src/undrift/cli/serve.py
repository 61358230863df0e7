"""`undrift serve`: predictions over HTTP, learned from when their labels come."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.output import format_json, printable
from undrift.cli.run_options import Json, Quiet, Versions
from undrift.errors import InputError, MissingExtraError

TOKEN = "UNDRIFT_TOKEN"
"""Name of the environment variable that holds the access token."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    model: Annotated[Path, typer.Argument(help="Folder of a run, a fleet or forecasts, or a file with a model.")],
    key: Annotated[
        str | None,
        typer.Option(
            "--key", "-k", help="With a saved estimator: column that names a row's key; each has its own model."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Listen here; beyond this machine a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: any that is free.")] = 8000,
    level: Annotated[
        float | None,
        typer.Option("--level", help="Of the intervals: 0.5, 0.8, 0.9, 0.95, 0.99 [default: the run's]."),
    ] = None,
    hold: Annotated[float, typer.Option("--hold", help="Hours that a row waits for its label; 0: no limit.")] = 168.0,
    durable: Annotated[bool, typer.Option("--durable", help="What was answered survives a power cut; slower.")] = False,
    rate: Annotated[float | None, typer.Option("--rate", help="Most requests a second [default: no limit].")] = None,
    largest: Annotated[int, typer.Option("--largest", help="Most bytes of a request.")] = 4 << 20,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="Another name of this service, such as a proxy's; may be repeated."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", help="Site whose pages may call it: https://example.com; may be repeated."),
    ] = None,
    versions: Versions = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Serve a model over HTTP: predict rows now, learn their labels when they come.

    POST /predict and /learn, GET / (live page), /docs, /health, /ready and /metrics. Everything is on the disk before
    it is answered: a kill loses nothing, and no label is learned twice. Stop it with Ctrl-C; give the same command to
    go on. An access token is read from the environment variable UNDRIFT_TOKEN. Requests must be called by a name of
    this machine (localhost, 127.0.0.1, the address of --host), and pages of other sites are refused.
    """
    token = os.environ.get(TOKEN) or None
    if host not in LOOPBACK and token is None:
        raise InputError(f"--host {host}: others than this machine could write; put an access token into {TOKEN} first")
    if not hold >= 0.0:
        raise InputError(f"--hold must be a number of hours, or 0 for no limit, got {hold:g}")
    if rate is not None and not rate > 0.0:
        raise InputError(f"--rate must be above 0, got {rate:g}")
    try:
        from undrift.serve.server import run_server
    except ImportError as error:
        raise MissingExtraError(
            f"undrift serve: needs {error.name}; install it with: pip install 'undrift[serve]'"
        ) from None
    from undrift.serve import open_service
    from undrift.serve.app import make_app, make_forecast_app
    from undrift.serve.limits import RequestLimits
    from undrift.serve.open_service import holds_forecasts, open_forecasts

    def announce(url: str) -> None:
        if json:
            print(format_json({"url": url, "pid": os.getpid()}, indent=None), flush=True)
        if not quiet:
            print(
                printable(f"serving {model} at {url} (live page there, interface at {url}docs); Ctrl-C ends it"),
                file=sys.stderr,
            )

    limits = RequestLimits(
        token=token,
        largest_body=largest,
        requests_per_second=rate,
        hosts=(host, *(allow_host or ())),
        origins=tuple(allow_origin or ()),
    )
    if holds_forecasts(model):
        if versions is not None:
            raise InputError(f"{model}: a folder of forecasts keeps no versions; leave out --versions")
        with open_forecasts(model, durable=durable) as forecasts:
            run_server(make_forecast_app(forecasts, limits), limits, host, port, announce)
        return 0
    seconds = 3600.0 * hold if hold else None
    with open_service(model, key=key, level=level, hold=seconds, durable=durable, versions=versions) as service:
        run_server(make_app(service, limits), limits, host, port, announce)
    return 0
