// Which numbers an online estimator can use.
#pragma once
#include "estimator.h"

namespace undrift {

// 0, or 1 + index of the first feature that may not be used, or -(1 + index) of the first such label; NaN is missing.
inline int64_t refusal(const Estimator &e, const double *Z, size_t rows, const double *y, size_t labels) {
    for (size_t i = 0; i < rows * e.plan.stride(); ++i)
        if (Z[i] == Z[i] && !(std::fabs(Z[i]) <= INPUT_LIMIT)) return 1 + static_cast<int64_t>(i);
    for (size_t i = 0; i < labels; ++i)
        if (y[i] == y[i] && !(e.plan.binary ? std::fabs(y[i]) == 1.0 : std::fabs(y[i]) <= INPUT_LIMIT)) return -1 - static_cast<int64_t>(i);
    return 0;
}

} // namespace undrift
