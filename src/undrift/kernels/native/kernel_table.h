// What one instruction-set level offers: plain structs and function pointers, nothing inline, so that no code compiled for
// a newer processor can be run on an older one.
#pragma once
#include "adam.h"
#include "class_level.h"
#include "definitions.h"

namespace undrift {

// Rounds of a stack of learners. Outputs are (rounds, learners), row by row.
struct LearnerCall {
    double *state; // (groups, InformationLayout(dim).size, lanes)
    size_t dim, lanes, learners;
    const double *beta;              // (learners)
    const double *inverse_curvature; // (learners), AIOLI only
    int64_t first;                   // rounds closed before
    size_t rounds;
    const double *Z, *y;
    double *m_or_yhat;      // the leader's predictions m of VAW, or the log-odds of AIOLI
    double *h_or_stability; // the leverages h of VAW, or the stability of AIOLI; null where AIOLI only predicts
    const void *discounts;  // DiscountLanes by unit, worked out before; null: the level works them out itself
    // The rest is for rounds that differ in weight or in elapsed time (weighted_rounds.h); all null in ordinary ones.
    const double *aged_beta;      // (learners): beta^elapsed; then the call has one round, which is a floor round
    const double *between_floors; // (learners): how far a raised pivot may go in it, see discount_between_floors
    const double *weight;         // (rounds): AIOLI's losses count so much each
    double *leverage;             // (rounds, learners): AIOLI's h
    double *point;                // (rounds, learners): where AIOLI's copies beyond the first are expanded; see count_copies
};

// Rounds of learners that share their information matrix among several outputs; `run` has one lane, no y and no m.
struct OutputsCall {
    LearnerCall run;
    size_t outputs;
    double *theta;   // (learners, dim, outputs)
    const double *Y; // (rounds, outputs); NaN: missing
    double *m;       // (rounds, learners, outputs)
};

// Rounds of a mixer: the predictions E of its members, (rounds, members), and the labels.
struct MixerCall {
    double *log_weights;
    const double *log_prior;
    size_t members, rounds;
    double share, log_one_minus_share; // the second is ln(1 - share)
    double growing; // logistic loss only: where it is positive, the share of round t is 1/(late (growing + t))
    double late = 1.0; // labels came so many rows after the members predicted, 1 if promptly
    const double *E, *y;
    double *yhat;
    double *losses;  // null: nothing changes, only yhat is filled
    double *weights; // (rounds, members), or null
    // The rest is for squared loss only.
    double *state; // the numbers of MixerState
    int rule;      // one of MixingRule
    double scale, log_members; // the second is max(1, ln members)
    double *clipped_losses;
    const double *served; // (rounds): what was predicted when rows were served; null: yhat
};

// Rounds of an ensemble: learners that differ in their discount, members that follow one of them each, and their mixture.
struct EnsembleCall {
    LearnerCall run;       // the learners; its outputs are not used
    bool binary;           // AIOLI under logistic loss; otherwise VAW under squared loss
    size_t members;
    size_t in_order;       // see members_in_order
    const int64_t *leader; // (members): the learner that each follows; -1: it always predicts 0
    const int64_t *hint;   // (members): one of Hint; VAW only
    double *last_label;    // (1): the label of the round before; VAW only
    double *stability;     // (members): sums
    double *yhat;          // (rounds)
    MixerCall mix;         // without log-weights there is no mixture, and one member
};

// Rounds of many ensembles of one kind, each with rows of its own: a slot of `states` for each, records in any order.
struct KeyedCall {
    double *states;       // (keys, slot_size)
    int64_t *rounds;      // (keys): closed so far
    const int64_t *slots; // (records)
    size_t records;
    const double *Z, *y;
    double *yhat;
};

struct KernelTable {
    const char *name;
    size_t width; // learners in one unit of a stack; threads share units out
    // 0, or 1 + index of the first z that may not be used, or -(1 + index) of the first such y
    int64_t (*invalid_input)(const double *Z, size_t nz, const double *y, size_t ny, bool binary);
    size_t (*learner_scratch)(const LearnerCall &); // doubles that one thread needs
    // All rounds of the units begin .. end-1.
    void (*vaw_play)(const LearnerCall &, size_t begin, size_t end, double *scratch);
    void (*vaw_predict)(const LearnerCall &, size_t begin, size_t end, double *scratch);
    void (*aioli_play)(const LearnerCall &, size_t begin, size_t end, double *scratch);
    void (*aioli_predict)(const LearnerCall &, size_t begin, size_t end, double *scratch);
    size_t (*mixer_scratch)(const MixerCall &);
    void (*mix_logistic)(const MixerCall &, double *scratch);
    void (*mix_squared)(const MixerCall &, double *scratch);
    size_t (*ensemble_scratch)(const EnsembleCall &);
    void (*ensemble_play)(const EnsembleCall &, double *scratch);
    void (*ensemble_predict)(const EnsembleCall &, double *scratch);
    size_t slot_lanes; // learners interleaved in one group of a slot
    size_t (*slot_size)(const EnsembleCall &);
    size_t (*keyed_scratch)(const EnsembleCall &);
    void (*keyed_play)(const EnsembleCall &, const KeyedCall &, double *scratch);
    const AdamTable *adam;
    const ClassLevelTable *class_level;
    size_t (*outputs_scratch)(const OutputsCall &);
    void (*outputs_play)(const OutputsCall &, double *scratch);
    void (*outputs_predict)(const OutputsCall &, double *scratch);
    // The scalar equation of logistic loss by itself, for its own tests.
    void (*log_odds)(const double *m0, const double *kappa, double *m, size_t count);
};

// Each is defined when its level could be compiled; see CMakeLists.txt.
extern const KernelTable table_portable, table_neon, table_v2, table_v3, table_v4;

} // namespace undrift
