// What one instruction-set level offers to the dispatcher: plain structs and function pointers, nothing inline, so that
// no code compiled for a newer processor can leak into an older one's path.
#pragma once
#include "definitions.h"

namespace undrift {

// One call: a state of `learners` learners and a block of rounds. Outputs are (rounds, learners), row by row.
struct Run {
    double *state;      // (groups, InformationLayout(dim).size, lanes)
    size_t dim, lanes, learners;
    const double *beta; // (learners)
    const double *bend; // (learners), AIOLI only
    int64_t first;      // rounds closed before
    size_t rounds;
    const double *Z, *y;
    double *one, *two;  // m and h, or yhat and stability (either may be null in AIOLI's case)
    const void *paces;  // what the level made of beta, by unit; null: it works that out itself
};

// One call of a mixer: what N members said in a block of rounds, (rounds, members).
struct Mix {
    double *log_weights;
    const double *log_prior;
    size_t members, rounds;
    double share, log_one_minus_share; // and ln(1 - share)
    const double *E, *y;
    double *yhat, *losses;  // without losses nothing changes: only yhat is filled
    double *weights;        // (rounds, members), or null
    double *state;          // the rest: squared loss only
    int rule;
    double scale, log_members; // and max(1, ln N)
    double *clipped_losses;
};

// An ensemble of memories: what each member makes of them, and the mixture of the members.
struct Round {
    Run run;               // the memories; `one` and `two` are not used
    bool binary;           // AIOLI under logistic loss; otherwise VAW under squared loss
    size_t members, plain; // and how many of the first are member i = memory i with the hint of member 0
    const int64_t *at;     // (members): the memory of each, -1: always says 0
    const int64_t *hint;   // (members): 0 zero, 1 the last label, 2 the leader's prediction; VAW only
    double *last;          // (1): the label before, VAW only
    double *stability;     // (members): sums
    double *yhat;          // (rounds)
    Mix mix;               // without log-weights: no mixture, one member
};

// Many ensembles of one kind, each with its own rows: a slot of `states` for each, records in any order.
struct Keys {
    double *states;       // (keys, slot_size)
    int64_t *rounds;      // (keys): closed so far
    const int64_t *slots; // (records)
    size_t records;
    const double *Z, *y;
    double *yhat;
};

struct Table {
    const char *name;
    size_t width; // learners in one unit of a stack: units are what threads share out
    // 0, or 1 + index of the first z that may not be used, or -(1 + index) of the first such y
    int64_t (*refusal)(const double *Z, size_t nz, const double *y, size_t ny, bool binary);
    size_t (*scratch)(const Run &); // doubles one thread needs
    // units [begin, end) of a run, all its rounds
    void (*vaw_play)(const Run &, size_t begin, size_t end, double *scratch);
    void (*vaw_predict)(const Run &, size_t begin, size_t end, double *scratch);
    void (*aioli_play)(const Run &, size_t begin, size_t end, double *scratch);
    void (*aioli_predict)(const Run &, size_t begin, size_t end, double *scratch);
    size_t (*mix_scratch)(const Mix &);
    void (*mix_logistic)(const Mix &, double *scratch);
    void (*mix_squared)(const Mix &, double *scratch);
    size_t (*round_scratch)(const Round &);
    void (*round_play)(const Round &, double *scratch);
    void (*round_predict)(const Round &, double *scratch);
    size_t slot_lanes; // learners interleaved in one group of a slot
    size_t (*slot_size)(const Round &);
    size_t (*keys_scratch)(const Round &);
    void (*keys_play)(const Round &, const Keys &, double *scratch);
    // the scalar solve alone, for its own tests
    void (*log_odds)(const double *m0, const double *kappa, double *m, size_t count);
    // what the machine can do, for benchmarks: n times a fixed number of independent multiply-adds (returned), and n
    // passes that read and write an array
    double (*multiply_adds)(size_t n);
    void (*stream)(double *data, size_t size, size_t n);
};

// Each is defined when its level could be compiled; see CMakeLists.txt.
extern const Table table_portable, table_neon, table_v2, table_v3, table_v4;

} // namespace undrift
