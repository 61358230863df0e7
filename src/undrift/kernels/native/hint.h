// Discounted VAW with a hint, from one pass over the learner: the leader's prediction m and the leverage h.
#pragma once

namespace {

// The prediction (m + h hint) / (1 + h): the leader's, pulled towards the hint where it knows little. Fills the stability
// of the round, (hint - y)^2 / 2 h / (1 + h). X is a number or a vector of them.
template <class X> static inline X hinted_prediction(X m, X h, X hint, X y, X &stability) {
    const X part = 1.0 / (1.0 + h), gain = h * part, error = hint - y;
    stability = ((error * error) * gain) * 0.5;
    return m * part + gain * hint;
}

} // namespace
