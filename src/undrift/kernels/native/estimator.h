// An online estimator's round over one state vector: a row is served, which gives a record of plain numbers, and settled
// from that record when its label is known. The twin is tests/twins/estimator.py.
#pragma once
#include <string.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "dispatch.h"
#include "estimator_context.h"
#include "estimator_rows.h"
#include "given_mixer.h"
#include "intervals.h"

namespace undrift {

// Memories over one design and the mixture of their answers; the last mixer is a stage without memories.
struct Stage {
    size_t dim = 0, members = 0;
    double share = 0.0, scale = 1.0;
    int rule = 0;
    std::vector<double> beta, inverse_curvature, log_prior;
    size_t information = 0, log_weights = 0, losses = 0, clipped_losses = 0, mixer = 0; // where they are in the state
    // Of a family: one of FamilyDesign; how many running means of the features it sees, -1: the last labels alone; of an
    // expanded one also the hinges of an input, how many products are chosen by residuals, the inputs in the order in which products pair them, and its table of columns.
    int design = 0, spans = 0;
    size_t knots = 0, screened = 0, columns = 0, columns_count = 0;
    std::vector<double> order;

    bool given() const { return design == FamilyDesign::GIVEN; }
    bool has_singles() const { return design >= FamilyDesign::CONTEXT; } // level 2 hears every memory by itself
    size_t memories() const { return beta.size(); }
    size_t lanes() const { return memories() <= 1 ? 1 : memories() <= size_t(FEW_LANES) ? FEW_LANES : LANES; }
    size_t units(const KernelTable &level) const {
        return lanes() == 1 ? memories() : (memories() + level.width - 1) / level.width;
    }
    void predict(const KernelTable &level, bool binary, const LearnerCall &run, double *scratch) const {
        const KernelTable &own = level_for_lanes(level, lanes());
        (binary ? own.aioli_predict : own.vaw_predict)(run, 0, units(own), scratch);
    }
    void play(const KernelTable &level, bool binary, const LearnerCall &run, double *scratch) const {
        const KernelTable &own = level_for_lanes(level, lanes());
        (binary ? own.aioli_play : own.vaw_play)(run, 0, units(own), scratch);
    }
    LearnerCall run(double *S, int64_t first, size_t rows, const double *Z) const {
        LearnerCall run{};
        run.state = S + information;
        run.dim = dim;
        run.lanes = lanes();
        run.learners = memories();
        run.beta = beta.data();
        run.inverse_curvature = inverse_curvature.data();
        run.first = first;
        run.rounds = rows;
        run.Z = Z;
        return run;
    }
    MixerCall mix(double *S, size_t rows, const double *E) const {
        MixerCall mix{};
        mix.log_weights = S + log_weights;
        mix.log_prior = log_prior.data();
        mix.members = members;
        mix.rounds = rows;
        mix.share = share;
        mix.log_one_minus_share = std::log1p(-share);
        mix.E = E;
        mix.state = S + mixer;
        mix.rule = rule;
        mix.scale = scale;
        mix.log_members = std::fmax(1.0, std::log(static_cast<double>(members)));
        return mix;
    }
};

// What stays the same for all estimators of one kind, and where the parts of a state vector are.
struct EstimatorPlan {
    bool binary = false, indicators = false;
    size_t dim = 0, began = 0;      // features now, and when the core began: waves are made of those
    size_t given = 0;               // answers made elsewhere that come with a row, after its features; NaN: none
    size_t offered = 0;             // the first of them, which are combined with the prediction at the end
    size_t unused = 0;              // columns of a row after these that are not for this arm
    bool despiked = false;          // whether labels are cut where they jump too far, as the robust arm does
    bool owns_rows = true;          // whether the warm-up's rows are cleared here, after the last refit
    GivenMixer given_mixer;         // by which offered answers are combined
    size_t robust_record = 0;       // numbers of a record of the robust arm
    std::vector<double> waves;      // (count, 5)
    std::vector<double> spans;      // over about how many rows each running mean of the features is taken
    std::vector<Stage> families;    // the linear ones first, given ones last
    size_t reference = 0;           // the family that level 2 corrects: the one with context
    size_t screening = 0;           // the linear family whose residuals choose products
    Stage level2, last, gate;       // the gate's bucket 0: a mixer of the raw and the robust arm
    Intervals intervals;            // around the predictions of an arm that serves them
    std::vector<double> blank;      // the state before the first round
    size_t numbers = 0, value = 0, seen = 0, missing = 0, center = 0, scale = 0, limit = 0, exceeded = 0, buffer = 0, known = 0;
    size_t labels = 0, hints = 0, label_contexts = 0, despiker = 0, intervals_at = 0;
    size_t gate_numbers = 0, gate_buckets = 0, given_numbers = 0, given_members = 0;
    size_t label_context = 0, means = 0, mean_rows = 0, errors = 0, family_losses = 0, given_rows = 0, row_weights = 0;

    size_t waves_count() const { return waves.size() / 5; }
    size_t width() const { return indicators ? 2 * dim : dim; }
    size_t levels() const { return intervals.levels(); }
    size_t quantiles() const { return intervals.quantiles(); }
    size_t stride() const { return dim + given + unused; }
    size_t combined() const { return offered ? offered + 3 : 0; } // own prediction, offered answers, their mean and median
    size_t learned() const { return families.size() - given; } // families with memories
    size_t candidates() const { return families.size() + 3; }
    size_t inputs() const { return indicators ? 2 * began : began; } // scaled features that the core began with
    size_t differences() const { return spans.size() * inputs(); }
    size_t singles() const {
        size_t count = 0;
        for (const Stage &one : families) count += one.has_singles() ? one.memories() : 0;
        return count;
    }
    size_t widest() const {
        size_t most = 0;
        for (const Stage &one : families) most = std::max(most, one.dim);
        return most;
    }
    size_t answers() const {
        size_t count = level2.members;
        for (const Stage &one : families) count += one.members;
        return count;
    }
    // A record: its head, the filled row, a mask of holes, the last labels, the families' last errors, the features'
    // differences from their means, which given answers there were, the answers of every stage, the candidates, the quantiles, the unit of
    // intervals, the first columns of the spread model, and the record of the robust arm.
    size_t row_at() const { return RecordPart::SIZE; }
    size_t holes_at() const { return row_at() + dim; }
    size_t labels_at() const { return holes_at() + dim; }
    size_t errors_at() const { return labels_at() + LabelContext::SIZE; }
    size_t differences_at() const { return errors_at() + families.size(); }
    size_t spoke_at() const { return differences_at() + differences(); }
    size_t answers_at() const { return spoke_at() + given; }
    size_t candidates_at() const { return answers_at() + answers(); }
    size_t quantiles_at() const { return candidates_at() + candidates(); }
    size_t robust_at() const { return quantiles_at() + intervals.served_numbers(); }
    size_t record_size() const { return robust_at() + robust_record; }
    Scaling scaling(double *S) const { return {S + center, S + scale, S + limit, S + exceeded}; }
};

// Scratch of one call, for up to `rows` rows at a time; the kernels' own comes last.
struct EstimatorScratch {
    double *filled, *holes, *wide, *X, *design, *m, *h, *E, *mixtures, *F, *y, *soft, *target, *hint, *level2_hint;
    double *given, *labels, *differences, *errors, *singles, *low, *high; // errors: (rows + 1, families), those before each row
    double *candidates, *yhat, *weight, *elapsed, *record, *kernel;
    bool weighted = false; // whether a row has a weight (`weight`) or a time before it (`elapsed`) other than 1
    EstimatorScratch(const EstimatorPlan &p, const KernelTable &level, size_t rows);
};

class Estimator {
  public:
    EstimatorPlan plan;
    // A second, simpler estimator over the same rows and the same state vector, which cuts labels that jump too far.
    std::shared_ptr<const Estimator> robust;

    // Serve one row, which comes the time `elapsed` after the one before. With `commit` it has really come: last-seen values,
    // scaling and the serial number advance.
    void serve(const KernelTable &level, double *S, const double *z, double *record, bool commit, double elapsed = 1.0) const;
    // A row has come that was predicted before: what depends on features alone and the serial number advance.
    void advance(const KernelTable &level, double *S, const double *z) const;
    // Settle a record, which says how often it counts and the time before its row; a NaN label closes it without a lesson.
    void settle(const KernelTable &level, double *S, const double *record, double y) const;
    // Serve and settle rows at once. `quantiles` (rows, quantiles), `known`, `weight` and `elapsed` (rows) may be null.
    void play(const KernelTable &level, double *S, const double *Z, const double *y, size_t rows, double *yhat, double *quantiles,
              double *known, const double *weight = nullptr, const double *elapsed = nullptr) const;
    // Take the scaling from the first rows again and let a fresh core learn them in the order they were settled.
    void refit(const KernelTable &level, double *S) const;

  private:
    // The same for this arm alone; `other` is the prediction of the robust arm.
    void serve_own(const KernelTable &level, double *S, const double *z, double *record, bool commit, double elapsed, double other) const;
    void settle_own(const KernelTable &level, double *S, const double *record, double y) const;
    double gate_weight(const double *S, size_t bucket) const;
    void gate_predict(const KernelTable &level, double *S, double *record, double late, double *scratch) const;
    void gate_learn(const KernelTable &level, double *S, const double *record, double y, double late, double *scratch) const;
    std::vector<double> gather_given(const double *candidates, const double *spoke, double own) const;
    double take_row(double *S, const double *z, EstimatorScratch &w, double *filled, double *holes, double *differences, bool commit) const;
    void impute(double *S, const double *z, double *filled, double *holes, bool commit) const;
    void widen(const double *filled, const double *holes, double *wide) const;
    void design(const double *S, const Stage &stage, const double *X, const double *labels, const double *differences, double *out) const;
    void scale_labels(const double *S, const double *labels, double *out) const;
    void answer(const Stage &stage, const double *m, const double *h, double hint, double center, double low, double high, double *E) const;
    void level2_row(const double *mixtures, size_t stride, const double *singles, double hint, const double *errors, double center,
                    double scale, double *F) const;
    double level2_hint(const double *S, const double *mixtures, size_t stride, double scale) const;
    void level2_answers(const double *m, const double *h, double hint, double reference, double scale, double *E) const;
    double miss(double mixture, double label) const;
    void learn_family(const KernelTable &level, double *S, const Stage &stage, EstimatorScratch &w, size_t rows,
                      const double *served, bool judged, double late, int64_t first, double *mixture) const;
    void mix_predict(const KernelTable &level, const Stage &stage, double *S, const double *E, double *yhat, double *scratch) const;
    void mix_learn(const KernelTable &level, const Stage &stage, double *S, const double *E, const double *y, size_t rows,
                   const double *served, double late, double *yhat, double *scratch) const;
    void widen_range(const Stage &stage, double *S, double label) const;
    void learn_stages(const KernelTable &level, double *S, EstimatorScratch &w, size_t rows, const double *record, bool judged,
                      int64_t first, int64_t level2_first) const;
    bool is_unjudged(const double *S) const;
    void weigh_unserved(const KernelTable &level, double *S, EstimatorScratch &w, int64_t first) const;
    double given_answer(double value) const;
    void take_given(const double *z, double *given) const;
    bool all_spoke(const double *z) const;
    void fill_silent(const KernelTable &level, double *S, const double *given, double *candidates, double *scratch) const;
    void serve_scaled(const KernelTable &level, double *S, EstimatorScratch &w, double *record, double other) const;
    double learned_label(double *S, double y) const;
    void take_label(double *S, double serial, double y, double soft) const;
    void baselines(const double *S, double *out, double *hint) const;
    void judge(const KernelTable &level, double *S, EstimatorScratch &w, size_t rows, const double *record) const;
    void finish_serving(const KernelTable &level, double *S, double *record, const double *candidates, double other, double late,
                        double *scratch) const;
    void finish_settling(const KernelTable &level, double *S, const double *record, const double *candidates, double y, double late, double *scratch) const;
    double lateness(const double *S, const double *record) const;
    void serve_intervals(const double *S, const double *X, const double *labels, const double *candidates, double yhat, double label_scale,
                         double *numbers) const;
    void remember(double *S, const double *filled, const double *holes, double y, double hint, const double *labels,
                  const double *given, double weight = 1.0, double elapsed = 1.0) const;
    void play_memories(const KernelTable &level, const Stage &stage, const LearnerCall &run, const EstimatorScratch &w) const;
    void restart(double *S, const Stage &one) const;
    template <class Visit>
    void replay(double *S, const KernelTable &level, const std::vector<double> &soft, const std::vector<double> &contexts, Visit visit) const;
    void choose_family_columns(const KernelTable &level, double *S, const std::vector<double> &soft, const std::vector<double> &contexts) const;
};

} // namespace undrift
