"""The HTTP application around a service: predict, learn, health, metrics, and the live page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from undrift import __version__
from undrift.errors import InputError, UnavailableError, UndriftError
from undrift.serve.compact_json import to_json
from undrift.serve.keyed_models import KeyedModels
from undrift.serve.limits import RequestLimits, limit_requests
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

SHOWN_ROUNDS = 300
"""Rounds on the live page."""
SHOWN_EVENTS = 8
"""Events on the live page."""
SHOWN_KEYS = 10
"""Worst keys on the live page."""
SECONDS_BETWEEN_CARE = 0.25
"""How often rows that waited too long are given up, and what is due is saved."""


def make_app(service: Service, limits: RequestLimits | None = None) -> FastAPI:
    """Return the application of a service."""
    rules = RequestLimits() if limits is None else limits
    metrics = ServiceMetrics(service)
    app = make_base(service.tend)

    @app.exception_handler(UndriftError)
    async def refuse(request: Request, error: UndriftError) -> JSONResponse:
        metrics.refused.inc()
        return refuse_with_status(error)

    @app.post("/predict", response_model=PredictResponse)
    async def predict(request: Request) -> Response:
        """Predict rows that have come; each waits for its label from then on."""
        body = read_request(PredictRequest, await request.body())
        with metrics.measure("predict"):
            answers = service.predict(body.rows, body.references)
        return answer_json({"predictions": [one._asdict() for one in answers]})

    @app.post("/learn", response_model=LearnLabelsResponse)
    async def learn(request: Request) -> Response:
        """Learn labels; what is acknowledged here is learned exactly once, whatever happens."""
        labels = []
        for one in read_request(LearnRequest, await request.body()).labels:
            row = one.id if one.id is not None else one.reference
            if row is None or (one.id is not None and one.reference is not None):
                raise InputError("a label needs the id of its row, or its reference, not both")
            labels.append(Label(row, one.y))
        with metrics.measure("learn"):
            result = service.learn(labels)
        return answer_json(result._asdict())

    @app.get("/events")
    async def events() -> Response:
        """Return what changed lately, one JSON object a line, oldest first."""
        lines = [json.dumps(event.as_dict()) + "\n" for event in service.events]
        return Response("".join(lines), media_type="application/x-ndjson")

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/live")
    async def live(request: Request, key: str | None = None) -> StreamingResponse:
        """Stream the state of the service, or of one key, once a second, as server-sent events."""
        _show(service, key)  # refuses an unknown key before anything is sent
        return StreamingResponse(_stream(service, request, key), media_type="text/event-stream")

    add_pages(app, service.facts, page="live.html")
    if isinstance(service.models, KeyedModels):
        _add_keys(app, service.models)
    describe_interface(app, {"/predict": PredictRequest, "/learn": LearnRequest})
    limit_requests(app, rules)
    return app


def _add_keys(app: FastAPI, models: KeyedModels) -> None:
    """Add what is there where every key has a model."""

    @app.get("/keys")
    async def keys(count: Annotated[int, Query(ge=1)] = SHOWN_KEYS) -> list[dict[str, Any]]:
        """Return the keys that do worst: whose error is largest beside that of the naive guess."""
        return models.worst_keys(count)

    @app.get("/keys/{key:path}")
    async def key(key: str) -> dict[str, Any]:
        """Return how one key is doing."""
        return models.key_facts(key)


def make_base(tend: Callable[[], None]) -> FastAPI:
    """Return an application that calls `tend` now and then as long as it runs."""

    @contextlib.asynccontextmanager
    async def care(app: FastAPI) -> AsyncIterator[None]:
        async def loop() -> None:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_CARE)
                tend()  # raises nothing

        task = asyncio.create_task(loop())
        yield
        task.cancel()

    app = FastAPI(title="undrift", version=__version__, docs_url=None, redoc_url=None, lifespan=care)

    @app.exception_handler(RequestValidationError)
    async def refuse_query(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": describe_problem(error.errors())}, 422)

    return app


def add_pages(app: FastAPI, facts: Callable[[], dict[str, Any]], *, page: str) -> None:
    """Add what every service has: health, status, its page, and the description of the interface."""

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the service is alive."""
        return {"status": "ok"}

    @app.get("/status")
    async def status() -> dict[str, object]:
        """Say how the service is doing."""
        return facts()

    @app.get("/", response_class=HTMLResponse)
    async def home() -> str:
        """Show the page of the service."""
        return _asset(page)

    @app.get("/docs", response_class=HTMLResponse)
    async def docs() -> str:
        """Describe the interface."""
        return _asset("docs.html")


def _show(service: Service, key: str | None) -> dict[str, Any]:
    """Return what the live page shows."""
    models = service.models
    keyed: dict[str, Any] = {}
    if isinstance(models, KeyedModels):
        keyed["worst"] = models.worst_keys(SHOWN_KEYS)
        if key is not None:
            keyed["chosen"] = models.key_facts(key)
    elif key is not None:
        raise InputError("this service has one model and no keys; leave the key away")
    told = [event.as_dict() for event in list(service.events) if key is None or event.key == key][-SHOWN_EVENTS:]
    rounds = [list(one) for one in models.recent(key, SHOWN_ROUNDS)]
    return {**service.facts(), **keyed, "recent": rounds, "events": told}


async def _stream(service: Service, request: Request, key: str | None) -> AsyncIterator[str]:
    last = None
    while not await request.is_disconnected():
        now = service.journal.last
        if now == last:
            yield ": nothing new\n\n"
        else:
            yield f"data: {json.dumps(_show(service, key), allow_nan=False)}\n\n"
            last = now
        await asyncio.sleep(1.0)


def refuse_with_status(error: UndriftError) -> JSONResponse:
    """Return a refusal: 503 while the state is not restored, 507 where the disk is full, 422 for what was sent."""
    full = "cannot be written" in str(error)
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, UnavailableError) else 507 if full else 422)


def answer_json(value: object) -> Response:
    """Return JSON values as an answer."""
    return Response(to_json(value), media_type="application/json")


def _asset(name: str) -> str:
    return resources.files("undrift.serve").joinpath(name).read_text(encoding="utf-8")
