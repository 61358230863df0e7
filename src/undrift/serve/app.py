"""The HTTP application around a service: predict, learn, health, metrics, and the live page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from importlib import resources
from typing import Annotated

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from undrift import __version__
from undrift.errors import UndriftError
from undrift.serve.limits import RequestLimits, limit_requests
from undrift.serve.metrics import ServiceMetrics
from undrift.serve.service import Label, Service

SHOWN_ROUNDS = 300
"""Rounds on the live page."""
SHOWN_EVENTS = 8
"""Events on the live page."""
CellValue = bool | int | float | str | None


class PredictRequest(BaseModel):
    """Rows that have come."""

    model_config = ConfigDict(extra="forbid")
    rows: Annotated[list[dict[str, CellValue]], Field(description="One object a row: column names and values.")]
    references: Annotated[
        list[str | None] | None, Field(description="Your own names for the rows, to give back with their labels.")
    ] = None


class Prediction(BaseModel):
    """The prediction of one row."""

    id: int = Field(description="Give it back with the label.")
    prediction: CellValue = Field(description="A number, or the likelier label.")
    probability: float | None = Field(description="Of the positive label, for two classes.")
    lower: float | None = Field(description="Lower end of the interval; null where there is none yet.")
    upper: float | None = Field(description="Upper end of the interval.")
    known: bool = Field(description="False before the first label: then the prediction says nothing.")


class PredictResponse(BaseModel):
    """Predictions, one for each row."""

    predictions: list[Prediction]


class LabelOfRow(BaseModel):
    """A label that has come, late or out of order."""

    model_config = ConfigDict(extra="forbid")
    id: int | None = Field(default=None, description="What predict returned for the row.")
    reference: str | None = Field(default=None, description="Or your own name for the row.")
    y: CellValue = Field(description="The label; null says that it will never come.")


class LearnRequest(BaseModel):
    """Labels that have come."""

    model_config = ConfigDict(extra="forbid")
    labels: list[LabelOfRow]


class LearnResponse(BaseModel):
    """What became of labels."""

    learned: int = Field(description="Learned now.")
    repeated: int = Field(description="Learned or closed before; nothing is learned twice.")


def make_app(service: Service, limits: RequestLimits | None = None) -> FastAPI:
    """Return the application of a service."""
    rules = RequestLimits() if limits is None else limits
    metrics = ServiceMetrics(service)

    @contextlib.asynccontextmanager
    async def tend(app: FastAPI) -> AsyncIterator[None]:
        async def loop() -> None:
            while True:
                await asyncio.sleep(1.0)
                with contextlib.suppress(UndriftError):  # a full disk: requests say so
                    service.tend()

        task = asyncio.create_task(loop())
        yield
        task.cancel()

    app = FastAPI(title="undrift", version=__version__, docs_url=None, redoc_url=None, lifespan=tend)

    @app.exception_handler(UndriftError)
    async def refuse(request: Request, error: UndriftError) -> JSONResponse:
        metrics.refused.inc()
        status = 507 if "cannot be written" in str(error) else 422
        return JSONResponse({"detail": str(error)}, status)

    @app.post("/predict")
    async def predict(body: PredictRequest) -> PredictResponse:
        """Predict rows that have come; each waits for its label from then on."""
        with metrics.measure("predict"):
            answers = service.predict(body.rows, body.references)
        return PredictResponse(predictions=[Prediction(**one._asdict()) for one in answers])

    @app.post("/learn")
    async def learn(body: LearnRequest) -> LearnResponse:
        """Learn labels; what is acknowledged here is learned exactly once, whatever happens."""
        labels = []
        for one in body.labels:
            row = one.id if one.id is not None else one.reference
            if row is None or (one.id is not None and one.reference is not None):
                raise HTTPException(422, "a label needs the id of its row, or its reference, not both")
            labels.append(Label(row, one.y))
        with metrics.measure("learn"):
            result = service.learn(labels)
        return LearnResponse(learned=result.learned, repeated=result.repeated)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the service is alive."""
        return {"status": "ok"}

    @app.get("/status")
    async def status() -> dict[str, object]:
        """Say how the service is doing."""
        return service.facts()

    @app.get("/events")
    async def events() -> Response:
        """Return what changed lately, one JSON object a line, oldest first."""
        lines = [json.dumps(event.as_dict()) + "\n" for event in service.events]
        return Response("".join(lines), media_type="application/x-ndjson")

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", response_class=HTMLResponse)
    async def page() -> str:
        """Show the live page."""
        return _asset("live.html")

    @app.get("/docs", response_class=HTMLResponse)
    async def docs() -> str:
        """Describe the interface."""
        return _asset("docs.html")

    @app.get("/live")
    async def live(request: Request) -> StreamingResponse:
        """Stream the state of the service, once a second, as server-sent events."""
        return StreamingResponse(_events(service, request), media_type="text/event-stream")

    limit_requests(app, rules)
    return app


async def _events(service: Service, request: Request) -> AsyncIterator[str]:
    last = None
    while not await request.is_disconnected():
        now = (service.journal.last, service.model.rounds)
        if now == last:
            yield ": nothing new\n\n"
        else:
            rounds = [list(one) for one in service.recent.last(SHOWN_ROUNDS)]
            told = [event.as_dict() for event in list(service.events)[-SHOWN_EVENTS:]]
            facts = {**service.facts(), "recent": rounds, "events": told}
            yield f"data: {json.dumps(facts, allow_nan=False)}\n\n"
            last = now
        await asyncio.sleep(1.0)


def _asset(name: str) -> str:
    return resources.files("undrift.serve").joinpath(name).read_text(encoding="utf-8")
