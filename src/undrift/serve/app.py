"""The HTTP application around a service: predict, learn, health, metrics, and the live page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from undrift import __version__
from undrift.errors import InputError, RequestSizeError, UnavailableError, UndriftError
from undrift.serve.compact_json import to_json
from undrift.serve.journaled_service import JournaledService
from undrift.serve.keyed_models import KeyedModels
from undrift.serve.limits import RequestLimits, limit_requests
from undrift.serve.live import SHOWN_KEYS, LiveView
from undrift.serve.metrics import ServiceMetrics
from undrift.serve.schema import (
    LearnLabelsResponse,
    LearnRequest,
    PredictRequest,
    PredictResponse,
    describe_interface,
    describe_problem,
    read_request,
)
from undrift.serve.service import Label, Service
from undrift.serve.service_thread import ServiceThread

SECONDS_BETWEEN_CARE = 0.25
"""How often rows that waited too long are given up, and what is due is saved."""


def make_app(service: Service, limits: RequestLimits | None = None) -> FastAPI:
    """Return the application of a service."""
    rules = RequestLimits() if limits is None else limits
    metrics, thread = ServiceMetrics(service), ServiceThread()
    app, view = make_base(service, thread), LiveView(service, thread)

    @app.exception_handler(UndriftError)
    async def refuse(request: Request, error: UndriftError) -> JSONResponse:
        metrics.refused.inc()
        return refuse_with_status(error)

    @app.post("/predict", response_model=PredictResponse)
    async def predict(request: Request) -> Response:
        """Predict rows that have come; each waits for its label from then on."""
        return await thread.call(_predict, service, metrics, await request.body())

    @app.post("/learn", response_model=LearnLabelsResponse)
    async def learn(request: Request) -> Response:
        """Learn labels; what is acknowledged here is learned exactly once, whatever happens."""
        return await thread.call(_learn, service, metrics, await request.body())

    @app.get("/events")
    async def events() -> Response:
        """Return what changed lately, one JSON object a line, oldest first."""
        lines = await thread.call(lambda: [json.dumps(event.as_dict()) + "\n" for event in service.events])
        return Response("".join(lines), media_type="application/x-ndjson")

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(await thread.call(metrics.text), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/live", response_class=StreamingResponse)
    async def live(key: str | None = None) -> Response:
        """Stream the state of the service, or of one key, once a second, as server-sent events."""
        return await view.stream(key)

    add_pages(app, service, thread, page="live.html")
    if service.is_restored and isinstance(service.models, KeyedModels):
        _add_keys(app, service, service.models, thread)
    describe_interface(app, {"/predict": PredictRequest, "/learn": LearnRequest})
    limit_requests(app, rules)
    return app


def _predict(service: Service, metrics: ServiceMetrics, body: bytes) -> Response:
    request = read_request(PredictRequest, body)
    with metrics.measure("predict"):
        answers = service.predict(request.rows, request.references)
    return answer_json({"predictions": [one._asdict() for one in answers]})


def _learn(service: Service, metrics: ServiceMetrics, body: bytes) -> Response:
    labels = []
    for one in read_request(LearnRequest, body).labels:
        row = one.id if one.id is not None else one.reference
        if row is None or (one.id is not None and one.reference is not None):
            raise InputError("a label needs the id of its row, or its reference, not both")
        labels.append(Label(row, one.y))
    with metrics.measure("learn"):
        result = service.learn(labels)
    return answer_json(result._asdict())


def _add_keys(app: FastAPI, service: Service, models: KeyedModels, thread: ServiceThread) -> None:
    """Add what is there where every key has a model."""

    def worst_keys(count: int) -> list[dict[str, Any]]:
        service.require_restored()
        return models.worst_keys(count)

    def key_facts(key: str) -> dict[str, Any]:
        service.require_restored()
        return models.key_facts(key)

    @app.get("/keys")
    async def keys(count: Annotated[int, Query(ge=1)] = SHOWN_KEYS) -> list[dict[str, Any]]:
        """Return the keys that do worst: whose error is largest beside that of the naive guess."""
        return await thread.call(worst_keys, count)

    @app.get("/keys/{key:path}")
    async def key(key: str) -> dict[str, Any]:
        """Return how one key is doing."""
        return await thread.call(key_facts, key)


def make_base(service: JournaledService, thread: ServiceThread) -> FastAPI:
    """Return an application that takes care of a service as long as it runs; `thread` is closed at its end."""

    @contextlib.asynccontextmanager
    async def care(app: FastAPI) -> AsyncIterator[None]:
        async def loop() -> None:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_CARE)
                before = service.failure
                await thread.call(service.tend)  # raises nothing
                if service.failure not in (None, before):
                    print(f"undrift serve: {service.failure}", file=sys.stderr, flush=True)

        task = asyncio.create_task(loop())
        yield
        task.cancel()
        thread.close()

    app = FastAPI(title="undrift", version=__version__, docs_url=None, redoc_url=None, lifespan=care)

    @app.exception_handler(RequestValidationError)
    async def refuse_query(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": describe_problem(error.errors())}, 422)

    return app


def add_pages(app: FastAPI, service: JournaledService, thread: ServiceThread, *, page: str) -> None:
    """Add what every service has: health, readiness, status, its page, and the description of the interface."""

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the process is alive, and what failed if something did: a restart would not help."""
        return _describe_health(service)

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Say whether requests are answered: 503 while the state could not be restored from the journal."""
        return JSONResponse(_describe_health(service), 200 if service.is_restored else 503)

    @app.get("/status")
    async def status() -> dict[str, object]:
        """Say how the service is doing."""
        return await thread.call(service.facts)

    @app.get("/", response_class=HTMLResponse)
    async def home() -> str:
        """Show the page of the service."""
        return _asset(page)

    @app.get("/docs", response_class=HTMLResponse)
    async def docs() -> str:
        """Describe the interface."""
        return _asset("docs.html")


def _describe_health(service: JournaledService) -> dict[str, str]:
    """Return what probes are told; read beside the service's thread, so that it is there at once."""
    if service.failure is None and service.is_restored:
        return {"status": "ok"}
    return {"status": "degraded" if service.is_restored else "stopped", "detail": service.failure or "restoring"}


def refuse_with_status(error: UndriftError) -> JSONResponse:
    """Return a refusal: 503 while the state is not restored, 507 on a full disk, 413 and 422 for what was sent."""
    status = 507 if "cannot be written" in str(error) else 422
    for kind, own in ((UnavailableError, 503), (RequestSizeError, 413)):
        status = own if isinstance(error, kind) else status
    return JSONResponse({"detail": str(error)}, status)


def answer_json(value: object) -> Response:
    """Return JSON values as an answer."""
    return Response(to_json(value), media_type="application/json")


def _asset(name: str) -> str:
    return resources.files("undrift.serve").joinpath(name).read_text(encoding="utf-8")
