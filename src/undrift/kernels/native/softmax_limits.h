// Limits of softmax regression by quadratics below the losses: of DiscountedSoftmax, and of the level of several classes.
#pragma once
#include <stdint.h>

namespace undrift {

// The ridge is forgotten like the data, but never below this share of its first value.
constexpr double SOFTMAX_LEAST_RIDGE = 1e-08;
// The ridge stays above this share of the largest curvature, so that the information matrix can be inverted in
// float64.
constexpr double SOFTMAX_LEAST_SHARE = 1e-09;
// After a row of larger leverage the covariance is computed again from the information matrix.
constexpr double SOFTMAX_FRESH_LEVERAGE = 1000.0;
// The covariance is computed again from the information matrix after this many rounds at the latest.
constexpr int64_t SOFTMAX_FRESH_AGE = 1024;

// With more classes the point from which the search for equal prices would begin is played as it is.
constexpr int64_t SOFTMAX_EXACT_CLASSES = 33;

} // namespace undrift
