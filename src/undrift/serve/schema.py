"""What requests and answers look like over HTTP: checked when they come, and described at /docs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from fastapi import FastAPI, Response
from fastapi import Request as HttpRequest
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictInt, ValidationError, WithJsonSchema, model_validator
from pydantic_core import from_json

from undrift.errors import InputError, RequestSizeError
from undrift.run.service.service import LARGEST_BATCH

_REFERENCE = "#/components/schemas/"
_KINDS = [{"type": kind} for kind in ("boolean", "integer", "number", "string", "null")]
CellValue = bool | int | float | str | None
SentCell = Annotated[Any, WithJsonSchema({"anyOf": _KINDS})]
"""A cell that was sent; lists and objects are refused later, so that a million of them cost one error."""
_NO_CELL = "must be a number, a text, true, false or null"
SentReference = Annotated[Any, WithJsonSchema({"anyOf": _KINDS[-2:]})]
Row = dict[str, SentCell]
_Many = FailFast(), Field(max_length=LARGEST_BATCH)


class Sent(BaseModel):
    """What a client sends, with fields of these names only; the first problem is the only one that is looked for."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False})

    @model_validator(mode="after")
    def refuse_unknown(self) -> Self:
        """Refuse unknown fields: all of them together are one problem."""
        for name in self.model_extra or ():
            raise ValueError(f"there is no field '{name:.60}'")
        return self


class SentRows(Sent):
    """Rows that have come."""

    rows: Annotated[list[Row], *_Many, Field(description="One object a row: column names and values.")]

    @model_validator(mode="after")
    def check_cells(self) -> Self:
        """Refuse cells that are lists or objects."""
        for i, row in enumerate(self.rows):
            for name, cell in row.items():
                if isinstance(cell, (list, dict)):
                    raise ValueError(f"rows {i} {name:.60}: {_NO_CELL}")
        return self


class PredictRequest(SentRows):
    """Rows that have come."""

    references: Annotated[
        list[SentReference] | None,
        Field(max_length=LARGEST_BATCH, description="Your own names for the rows, to give back with their labels."),
    ] = None

    @model_validator(mode="after")
    def check_references(self) -> Self:
        """Refuse names that are no texts."""
        if any(not isinstance(name, str | None) for name in self.references or ()):
            raise ValueError("references must be texts or null")
        return self


class Prediction(BaseModel):
    """The prediction of one row."""

    id: int = Field(description="Give it back with the label.")
    prediction: CellValue = Field(description="A number, or the likelier label; null before the first label.")
    probability: float | None = Field(description="Of the predicted label, for classes.")
    lower: float | None = Field(description="Lower end of the interval; null where there is none (/status says why).")
    upper: float | None = Field(description="Upper end of the interval.")
    known: bool = Field(description="False before the first label: then the prediction says nothing.")
    probabilities: dict[str, float] | None = Field(default=None, description="Of each class, by label.")
    quantiles: dict[str, float | None] | None = Field(default=None, description="By level, where the run has some.")


class PredictResponse(BaseModel):
    """Predictions, one for each row."""

    predictions: list[Prediction]


class LabelOfRow(Sent):
    """A label that has come, late or out of order."""

    id: StrictInt | None = Field(default=None, description="What predict returned for the row.")
    reference: str | None = Field(default=None, description="Or your own name for the row.")
    y: SentCell = Field(description="The label; null says that it will never come.")

    @model_validator(mode="after")
    def check_label(self) -> Self:
        """Refuse a label that is a list or an object."""
        if isinstance(self.y, (list, dict)):
            raise ValueError(f"y: {_NO_CELL}")
        return self


class LearnRequest(Sent):
    """Labels that have come."""

    labels: Annotated[list[LabelOfRow], *_Many]


class LearnResponse(BaseModel):
    """What became of labels."""

    learned: int = Field(description="Learned now.")
    repeated: int = Field(description="Learned or closed before; nothing is learned twice.")


class LearnLabelsResponse(LearnResponse):
    """What became of labels of rows that were served."""

    expired: int = Field(description="Not learned: their rows had waited too long and were given up (--hold).")


Request = TypeVar("Request", bound=BaseModel)


def read_request(kind: type[Request], body: bytes) -> Request:
    """Return a request that is what it should be, or say in one sentence what it is not.

    Reading the JSON first and checking it then takes half the time of pydantic's own way where a body is hostile.
    """
    try:
        value = from_json(body)
    except ValueError as error:
        raise InputError(f"the request is not valid JSON: {error!s:.200}") from None
    if not isinstance(value, dict):
        raise InputError(f"the request must be an object with {' and '.join(kind.model_fields)}; see /docs")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "too_long":
        raise RequestSizeError(f"a request holds 1 to {LARGEST_BATCH:,} {problems[0]['loc'][0]}; split it")
    raise InputError(describe_problem(problems))


def describe_problem(problems: Sequence[Any]) -> str:
    """Return the first of pydantic's problems as a sentence."""
    first = problems[0]
    where = " ".join(str(part) for part in first["loc"][:3])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where:.80}{': ' if where else ''}{what:.200}; /docs describes what is expected"


class PostRoute(NamedTuple):
    """A request that brings a body, which its handler reads by `read_request`."""

    path: str
    handle: Callable[[HttpRequest], Awaitable[Response]]
    """Its docstring describes it."""
    takes: type[BaseModel]
    returns: type[BaseModel]


def add_posts(app: FastAPI, *routes: PostRoute) -> None:
    """Let an application answer requests, and describe them at /docs.

    They are plain routes: what FastAPI does around a handler takes as long as a small request.
    """
    for route in routes:
        app.add_route(route.path, route.handle, methods=["POST"])

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            for path, handle, *kinds in routes:
                for kind in kinds:
                    own = kind.model_json_schema(ref_template=_REFERENCE + "{model}")
                    schemas |= own.pop("$defs", {}) | {kind.__name__: own}
                takes, returns = ({"schema": {"$ref": _REFERENCE + kind.__name__}} for kind in kinds)
                found["paths"][path] = {
                    "post": {
                        "summary": path.strip("/").title(),
                        "description": handle.__doc__,
                        "operationId": f"post_{path.strip('/')}",
                        "requestBody": {"required": True, "content": {"application/json": takes}},
                        "responses": {
                            "200": {"description": "Successful response", "content": {"application/json": returns}}
                        },
                    }
                }
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]  # FastAPI's documented way
