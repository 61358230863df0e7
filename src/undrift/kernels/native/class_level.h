// Rounds of the level of several classes: softmax regression over log-odds, baselines and the last mixer.
// tests/twins/class_level.py is the twin, and explains the recursion.
#pragma once
#include "definitions.h"

namespace undrift {

// Rows of K log-odds. Everything that a call leaves out is null.
struct ClassLevelCall {
    double *state; // of ClassLevelLayout
    size_t classes, given, rows;
    const double *S;       // (rows, K)
    const double *y;       // (rows): class numbers
    const double *weight;  // (rows)
    const double *elapsed; // (rows)
    const double *offered; // (rows, given, K): probabilities made elsewhere; NaN: missing
    double *out;           // (rows, width): records, or their first K numbers, the log-probabilities
    size_t width;
};

struct ClassLevelTable {
    size_t (*scratch)(size_t classes, size_t given);                              // doubles that a call needs
    void (*play)(const ClassLevelCall &, double *scratch);                        // predict and learn, row after row
    void (*predict)(const ClassLevelCall &, double *scratch);                     // nothing changes
    void (*settle)(const ClassLevelCall &, const double *record, double *scratch); // learn one row as it was served
};

// Each is defined when its level could be compiled; see CMakeLists.txt.
extern const ClassLevelTable class_level_portable, class_level_neon, class_level_v2, class_level_v3, class_level_v4;

} // namespace undrift
