"""The HTTP applications: predict, learn, health, metrics and the live page of a service; forecasts and new values."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import resources
from queue import SimpleQueue
from threading import Thread
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from undrift import __version__
from undrift.errors import InputError, RequestSizeError, UnavailableError, UndriftError
from undrift.run.service.journaled_service import JournaledService, to_json
from undrift.run.service.served_keys import ServedKeys
from undrift.run.service.service import Label, Service
from undrift.serve.forecast_service import ForecastService
from undrift.serve.limits import RequestLimits, limit_requests
from undrift.serve.metrics import ServiceMetrics
from undrift.serve.schema import (
    CellValue,
    LearnLabelsResponse,
    LearnRequest,
    LearnResponse,
    PostRoute,
    PredictRequest,
    PredictResponse,
    SentRows,
    add_posts,
    describe_problem,
    read_request,
)

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

    async def predict(request: Request) -> Response:
        """Predict rows that have come; each waits for its label from then on."""
        return await thread.call(_predict, service, metrics, await request.body())

    async def learn(request: Request) -> Response:
        """Learn labels; what is acknowledged here is learned exactly once, whatever happens."""
        return await thread.call(_learn, service, metrics, await request.body())

    add_posts(
        app,
        PostRoute("/predict", predict, PredictRequest, PredictResponse),
        PostRoute("/learn", learn, LearnRequest, LearnLabelsResponse),
    )

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
    if service.is_restored and isinstance(service.models, ServedKeys):
        _add_keys(app, service, service.models, thread)
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


def _add_keys(app: FastAPI, service: Service, models: ServedKeys, thread: ServiceThread) -> None:
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


Given = ParamSpec("Given")
Found = TypeVar("Found")


class ServiceThread:
    """Makes calls one after the other, in the order they were asked for: none sees half of what another one does.

    It is a queue and a thread: an executor's futures take longer than a small request.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: Thread | None = None

    async def call(self, function: Callable[Given, Found], *arguments: Given.args, **options: Given.kwargs) -> Found:
        """Return what a function returns, called in the thread."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="undrift-service", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        self._calls.put(_Call(loop, answer, partial(function, *arguments, **options)))
        return await answer

    def close(self) -> None:
        """Wait for the call that is being made; those that have not begun are given up."""
        while not self._calls.empty():
            if (call := self._calls.get()) is not None:
                call.answer.cancel()
        self._calls.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if call.answer.cancelled():
                continue
            try:
                finish = partial(_set_result, call.answer, call.function())
            except BaseException as error:  # whoever awaits the answer gets it
                finish = partial(_set_error, call.answer, error)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                call.loop.call_soon_threadsafe(finish)


class _Call(NamedTuple):
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    function: Callable[[], Any]


def _set_result(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():  # its client may have gone away
        answer.set_result(result)


def _set_error(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


MOST_READERS = 100
"""Readers of the stream at the same time; more are refused with 503."""
SECONDS_BETWEEN_LOOKS = 1.0
"""How often a reader is sent what is new; it is written once for all readers of the same key."""
SHOWN_ROUNDS = 300
"""Rounds on the live page."""
SHOWN_EVENTS = 8
"""Events on the live page."""
SHOWN_KEYS = 10
"""Worst keys on the live page."""


class LiveView:
    """What the live page shows of a service.

    Parameters
    ----------
    service
        What is shown.
    thread
        The thread that calls it.
    """

    def __init__(self, service: Service, thread: ServiceThread) -> None:
        self._service, self._thread = service, thread
        self._written: dict[str | None, tuple[float, tuple[object, ...], str]] = {}
        self.readers: WeakSet[StreamingResponse] = WeakSet()

    async def stream(self, key: str | None) -> Response:
        """Return the stream of the service, or of one key; an unknown key is refused before anything is sent."""
        if len(self.readers) >= MOST_READERS:
            sentence = f"the live page has {MOST_READERS} readers, and no more are taken; GET /status has its numbers"
            return JSONResponse({"detail": sentence}, 503)
        reader = _ReaderStream(self, key)
        self.readers.add(reader)
        await self._thread.call(self._write, key, oldest=time.monotonic())
        return reader

    async def events(self, key: str | None) -> AsyncIterator[str]:
        """Yield server-sent events until the reader goes away; one that does not read is cut off by the server."""
        version: tuple[object, ...] = ()
        while True:
            if version == (self._service.journal.last, self._service.failure):
                yield ": nothing new\n\n"
            else:
                try:
                    version, text = await self._thread.call(
                        self._write, key, oldest=time.monotonic() - SECONDS_BETWEEN_LOOKS
                    )
                except UndriftError:  # the state is not restored: the next request says why
                    return
                yield text
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def _write(self, key: str | None, *, oldest: float) -> tuple[tuple[object, ...], str]:
        """Return the state as an event, written at `oldest` or later, and its version; for the service's thread."""
        self._written = {name: one for name, one in self._written.items() if one[0] > oldest}
        if key not in self._written:
            version = self._service.journal.last, self._service.failure
            shown = json.dumps(self._show(key), allow_nan=False)
            self._written[key] = time.monotonic(), version, f"data: {shown}\n\n"
        return self._written[key][1:]

    def _show(self, key: str | None) -> dict[str, Any]:
        models = self._service.models
        keyed: dict[str, Any] = {}
        if isinstance(models, ServedKeys):
            keyed["worst"] = models.worst_keys(SHOWN_KEYS)
            if key is not None:
                keyed["chosen"] = models.key_facts(key)
        elif key is not None:
            raise InputError("this service has one model and no keys; omit the key")
        events = [event.as_dict() for event in self._service.events if key is None or event.key == key]
        rounds = [one.page_values() for one in models.recent(key, SHOWN_ROUNDS)]
        facts = {**self._service.facts(), "failure": self._service.failure}
        return {**facts, **keyed, "recent": rounds, "events": events[-SHOWN_EVENTS:]}


class _ReaderStream(StreamingResponse):
    """The stream to one reader, which counts as long as it is read."""

    def __init__(self, view: LiveView, key: str | None) -> None:
        super().__init__(view.events(key), media_type="text/event-stream")
        self._view = view

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._view.readers.discard(self)


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

    async def learn(request: Request) -> Response:
        """Learn rows that are later than the last one; others were learned before, and are counted as repeated."""
        return await thread.call(_learn_rows, service, await request.body())

    add_posts(app, PostRoute("/learn", learn, ForecastLearnRequest, LearnResponse))
    add_pages(app, service, thread, page="docs.html")
    limit_requests(app, RequestLimits() if limits is None else limits)
    return app


def _learn_rows(service: ForecastService, body: bytes) -> Response:
    return answer_json(service.learn(read_request(ForecastLearnRequest, body).rows)._asdict())
