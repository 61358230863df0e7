"""A client of the service that needs nothing but Python."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from undrift.errors import InputError

Value = float | int | str | bool | None


class ServedAnswer(NamedTuple):
    """The prediction of one row, as the service gave it."""

    id: int
    """Give it back with the label."""
    prediction: Value
    """A number, or the likelier label."""
    probability: float | None
    """Of the predicted label, for classes."""
    lower: float | None
    """Ends of the interval; None where there is none yet."""
    upper: float | None
    known: bool
    """Whether any label was learned before."""
    probabilities: Mapping[str, float] | None = None
    """Of each class, by its label."""
    quantiles: Mapping[str, float | None] | None = None
    """By their levels, where a run has some."""


class Client:
    """Talks to one service over one connection; a connection that was lost is opened again.

    Parameters
    ----------
    url
        Where the service is, as `undrift serve` printed it.
    token
        Access token, if the service wants one.
    timeout
        Seconds to wait for an answer.

    Examples
    --------
    A label may be sent again when it is not known whether the first attempt arrived: it is learned once.

    >>> client = Client("http://127.0.0.1:8000")                             # doctest: +SKIP
    >>> answer, = client.predict([{"temperature": 21.5}])                    # doctest: +SKIP
    >>> client.learn({answer.id: 18.2})                                      # doctest: +SKIP
    1
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 10.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"Client: url must be http://HOST:PORT, got {url!r:.80}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def predict(
        self, rows: Sequence[Mapping[str, Value]], references: Sequence[str | None] | None = None
    ) -> list[ServedAnswer]:
        """Return the predictions of rows that have come."""
        body = {"rows": [dict(row) for row in rows], "references": None if references is None else list(references)}
        return [ServedAnswer(**one) for one in self._ask("POST", "/predict", body, again=False)["predictions"]]

    def learn(self, labels: Mapping[int | str, Value]) -> int:
        """Send labels by id, or by reference; return how many were learned now."""
        items = [{"id" if isinstance(row, int) else "reference": row, "y": y} for row, y in labels.items()]
        return int(self._ask("POST", "/learn", {"labels": items})["learned"])

    def status(self) -> dict[str, Any]:
        """Return how the service is doing."""
        return self._ask("GET", "/status")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, verb: str, path: str, body: object = None, *, again: bool = True) -> dict[str, Any]:
        payload = None if body is None else json.dumps(body, allow_nan=False)
        try:
            self._connection.request(verb, path, payload, self._headers)
            response = self._connection.getresponse()
            text = response.read()
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            if again:  # the service may have been started anew; a label that arrived twice is learned once
                return self._ask(verb, path, body, again=False)
            host = f"{self._connection.host}:{self._connection.port}"
            raise InputError(f"Client: no service answers at {host} ({error}); is undrift serve running?") from None
        answer = json.loads(text) if text else {}
        if response.status != 200:
            raise InputError(f"Client: refused ({response.status}): {answer.get('detail', text[:200])}")
        return dict(answer)
