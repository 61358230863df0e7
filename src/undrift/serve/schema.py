"""What requests and answers look like over HTTP: checked when they come, and described at /docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from undrift.errors import InputError

_REFERENCE = "#/components/schemas/"
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
    probability: float | None = Field(description="Of the positive label, for two classes; of the predicted one.")
    lower: float | None = Field(description="Lower end of the interval; null where there is none (/status says why).")
    upper: float | None = Field(description="Upper end of the interval.")
    known: bool = Field(description="False before the first label: then the prediction says nothing.")
    probabilities: dict[str, float] | None = Field(default=None, description="Of several classes, by label.")


class PredictResponse(BaseModel):
    """Predictions, one for each row."""

    predictions: list[Prediction]


class LabelOfRow(BaseModel):
    """A label that has come, late or out of order."""

    model_config = ConfigDict(extra="forbid")
    id: StrictInt | None = Field(default=None, description="What predict returned for the row.")
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


class LearnLabelsResponse(LearnResponse):
    """What became of labels of rows that were served."""

    expired: int = Field(description="Not learned: their rows had waited too long and were given up (--hold).")


Request = TypeVar("Request", bound=BaseModel)


def read_request(kind: type[Request], body: bytes) -> Request:
    """Return a request that is what it should be, or say in one sentence what it is not."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InputError(describe_problem(error.errors(include_url=False, include_input=False))) from None


def describe_problem(problems: Sequence[Any]) -> str:
    """Return the first of pydantic's problems as a sentence; a value of no allowed kind has one for each kind."""
    first = problems[0]
    where = " ".join(str(part) for part in first["loc"][:3]) or "the request"
    what = "must be a number, a text, true, false or null" if first["loc"][3:] else first["msg"]
    return f"{where:.80}: {what:.200}; /docs describes what is expected"


def describe_interface(app: FastAPI, bodies: dict[str, type[BaseModel]]) -> None:
    """Add the bodies of POST requests to the description of the interface: they are read by `read_request`."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes)
            for path, kind in bodies.items():
                own = kind.model_json_schema(ref_template=_REFERENCE + "{model}")
                found["components"]["schemas"] |= own.pop("$defs", {}) | {kind.__name__: own}
                content = {"application/json": {"schema": {"$ref": _REFERENCE + kind.__name__}}}
                found["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]  # FastAPI's documented way
