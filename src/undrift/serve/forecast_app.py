"""The HTTP application of a folder of forecasts: the next steps, and new values."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from undrift.errors import UndriftError
from undrift.serve.app import add_pages, answer_json, make_base, refuse_with_status
from undrift.serve.forecast_service import ForecastService
from undrift.serve.limits import RequestLimits, limit_requests
from undrift.serve.schema import CellValue, LearnResponse, SentRows, describe_interface, read_request
from undrift.serve.service_thread import ServiceThread


class ForecastLearnRequest(SentRows):
    """Rows that have come, each with its time (the column of the file) and a value for each series."""


class ForecastResponse(BaseModel):
    """The next steps of every series."""

    level: float = Field(description="Part of the values that intervals are made to hold.")
    last: str | int = Field(description="The last row that was learned: its time, or its number.")
    forecasts: dict[str, list[dict[str, CellValue]]] = Field(
        description="For each series a list of steps: step, time, yhat, lower, upper."
    )


def make_forecast_app(service: ForecastService, limits: RequestLimits | None = None) -> FastAPI:
    """Return the application of a service of forecasts."""
    thread = ServiceThread()
    app = make_base(service, thread)

    @app.exception_handler(UndriftError)
    async def refuse(request: Request, error: UndriftError) -> JSONResponse:
        return refuse_with_status(error)

    @app.get("/forecast", response_model=ForecastResponse)
    async def forecast(level: float | None = None) -> Response:
        """Forecast the next steps of every series from what was learned so far."""
        return await thread.call(lambda: answer_json(service.forecast(level)))

    @app.post("/learn", response_model=LearnResponse)
    async def learn(request: Request) -> Response:
        """Learn rows that are later than the last one; others were learned before, and are counted as repeated."""
        return await thread.call(_learn, service, await request.body())

    add_pages(app, service, thread, page="docs.html")
    describe_interface(app, {"/learn": ForecastLearnRequest})
    limit_requests(app, RequestLimits() if limits is None else limits)
    return app


def _learn(service: ForecastService, body: bytes) -> Response:
    return answer_json(service.learn(read_request(ForecastLearnRequest, body).rows)._asdict())
