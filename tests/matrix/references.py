"""What the library says: predictions, certificates and events of `play` on the rows of a reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .outcome import Answers
from .scenarios import Reference, Scenario

LEVEL = 0.9
"""Of the intervals that events are found by."""
_PLAYED: dict[int, tuple[Reference, dict[str, Any]]] = {}
"""References that were played, by identity, with the columns that came out."""


def play_reference(reference: Reference) -> dict[str, Any]:
    """Return the columns that one call of `play` gives; each reference is played once."""
    if id(reference) not in _PLAYED:
        model = reference.make_model()
        trace = model.play(reference.rows(slice(None)), reference.y, **reference.play)
        columns = trace_columns(trace, reference.classes, reference.play.get("quantiles", ()))
        _PLAYED[id(reference)] = reference, columns  # the reference too, so that no other gets its identity
    return _PLAYED[id(reference)][1]


def trace_columns(trace: Any, classes: list[str], levels: Any = ()) -> dict[str, Any]:
    """Return the columns of a trace under the names of answers."""
    if classes:
        return dict(zip([f"p({label})" for label in classes], np.exp(trace.yhat).T, strict=True))
    columns = {"yhat": trace.yhat}
    if trace.lower is not None:
        columns |= {"lower": trace.lower, "upper": trace.upper}
    for k, level in enumerate(levels):
        columns[f"q{level}"] = trace.quantiles[:, k]
    return columns


def expect_stream(scenario: Scenario, reference: Reference) -> Answers:
    """Return what the feature is about, as the library has it: columns by row, a certificate, or events."""
    if "certify" in scenario.options:
        return Answers(certificate_columns(_certify(reference)), single=True)
    if "alert" in scenario.options:
        return expect_events(scenario, reference)
    columns = play_reference(reference)
    return Answers({name: columns[name] for name in scenario.shows if name in columns})


def expect_seen_classes(scenario: Scenario, reference: Reference) -> Answers:
    """Return the same, but no share of the probability for classes that have not appeared, which `play` keeps."""
    expected = expect_stream(scenario, reference)
    if not reference.classes or not expected.columns:
        return expected
    total = np.sum(list(expected.columns.values()), axis=0)
    return Answers({name: p / total for name, p in expected.columns.items()})


def expect_peeked(scenario: Scenario) -> Answers:
    """Return what a model predicts that takes a row in when its label comes, and learns from what it predicted."""
    reference, delay = scenario.reference, scenario.options["delay"]
    model, peeked = reference.make_model(), []
    for t in range(scenario.rows):
        peeked.append(model.peek(reference.rows(slice(t, t + 1))))
        if t >= delay:
            row = reference.rows(slice(t - delay, t - delay + 1))
            model.learn(row, reference.y[t - delay], served=peeked[t - delay])
    if not reference.classes:
        return Answers({"yhat": np.array([served.yhat for served in peeked])})
    p = [model.served_probabilities(served) for served in peeked]
    totals = [sum(one.values()) or 1.0 for one in p]
    each = {
        name: [one.get(name, 0.0) / total for one, total in zip(p, totals, strict=True)] for name in reference.classes
    }
    return Answers({f"p({name})": np.array(column) for name, column in each.items()})


def expect_run(scenario: Scenario, reference: Reference) -> Answers:
    """Return what the folder of a run must hold: certificates do not charge rows before the first known label."""
    if "certify" not in scenario.options:
        return expect_stream(scenario, reference)
    return Answers(certificate_columns(_certify(reference, charge_unknown=False)), single=True)


def expect_events(scenario: Scenario, reference: Reference, begin: int = 0) -> Answers:
    """Return the events that a watch beside the loop finds from row `begin` on, or that somebody is told of them."""
    if scenario.shows == ("signal",):
        return Answers({"signal": np.array([True])}, single=True)
    return Answers({"events": np.array(_events(reference, begin))}, single=True)


def _certify(reference: Reference, *, charge_unknown: bool = True) -> Any:
    """Return the certificate against the best fixed predictor, from the library."""
    from undrift.regret import certify, comparators

    model = reference.make_model()
    rows, y = reference.rows(slice(None)), reference.y
    trace = model.play(rows, y)
    if charge_unknown:
        return certify(model, rows, y, trace, comparators.fixed)
    design = model.design(rows, y)
    u = comparators.fixed(design.rows, design.labels)
    rival = np.sum(u * design.rows, axis=1)
    return certify(model, rows, y, replace(trace, yhat=np.where(trace.known, trace.yhat, rival)), u)


def certificate_columns(certificate: Any) -> dict[str, Any]:
    """Return a certificate of the library under the names of answers."""
    return {"regret": np.array([certificate.regret]), "bound": np.array([certificate.bound])}


def _events(reference: Reference, begin: int) -> list[str]:
    from undrift.events import Watch

    model, watch = reference.make_model(), Watch(level=LEVEL)
    events = []
    for a in range(0, len(reference.y), 10):
        part = slice(a, a + 10)
        trace = model.play(reference.rows(part), reference.y[part], interval=LEVEL)
        for i, y in enumerate(reference.y[part]):
            if a + i < begin:
                continue
            events += watch.add_row(a + i, list(reference.columns), reference.Z[a + i])
            if trace.known[i]:
                events += watch.add_round(a + i, y, trace.yhat[i], trace.lower[i], trace.upper[i])
        if a + len(trace) > begin:
            events += watch.add_memory(a + len(trace) - 1, model.spectrum())
    return [name_event(event.kind, event.row) for event in events]


def name_event(kind: Any, row: int) -> str:
    """Return an event as it is compared: what changed, and in which row, from 0 on."""
    return f"{kind} in row {row}"
