// The last two steps of an online estimator's prediction: the gate between the raw and the robust arm, and the mixer of answers
// that were given with the row. The twin, which says what they are, is tests/twins/estimator_gate.py.
#include "estimator.h"

#include <algorithm>

namespace undrift {

namespace {

// In bucket 0, where the arms agree, a label farther than this many mean |residuals| from both does not show which
// arm is better: it is cut there when they are compared. In the other buckets it is cut one mean |residual| beyond
// the arms.
constexpr double GATE_CUT = 8.0;
// Log-odds of the two arms stay within this in the buckets of disagreement: as a round moves them by 2, three rounds
// turn them.
constexpr double MOST_GATE_ODDS = 5.0;
// A bucket that is used for the first time begins with the raw arm's weight in the nearest used one, at least this
// and at most 1 less this.
constexpr double LEAST_PRIOR = 0.05;
// A bucket whose nearest used one is bucket 0 begins with at most this weight of the raw arm: arms that agree do not
// show which to trust where they do not.
constexpr double MOST_PRIOR = 0.5;

double log_odds(double p) { return std::log(p) - std::log1p(-p); }

// The bucket of arms that disagree by `distance`, in units of the mean |residual|.
size_t bucket_of(double distance, double unit) {
    if (!(unit > 0.0) || 0.25 * distance * distance == 0.0) return 0;
    size_t bucket = 0;
    double reach = FIRST_DISAGREEMENT * unit;
    for (; bucket + 1 < size_t(GATE_BUCKETS) && std::fabs(distance) > reach; ++bucket) reach *= DISAGREEMENT_STEP;
    return bucket;
}
} // namespace

// The raw arm's weight in a bucket; one that was not used so far begins with that of the nearest used one.
double Estimator::gate_weight(const double *S, size_t bucket) const {
    const double *buckets = S + plan.gate_buckets;
    const auto weight = [&](size_t k) {
        const double *odds = S + plan.gate.log_weights;
        return sigmoid(k ? buckets[k * GateBucket::SIZE + GateBucket::LOG_ODDS] : odds[0] - odds[1]);
    };
    const auto used = [&](size_t k) { return k < size_t(GATE_BUCKETS) && buckets[k * GateBucket::SIZE + GateBucket::ROUNDS] > 0.0; };
    if (used(bucket) || !bucket) return weight(bucket);
    const auto begin_with = [&](size_t k) { return clip(weight(k), LEAST_PRIOR, k ? 1.0 - LEAST_PRIOR : MOST_PRIOR); };
    for (size_t away = 1; away < size_t(GATE_BUCKETS); ++away) {
        if (away <= bucket && used(bucket - away)) return begin_with(bucket - away);
        if (used(bucket + away)) return begin_with(bucket + away);
    }
    return MOST_PRIOR;
}

// Choose between the two arms (RAW and ROBUST of the record); fills BUCKET, UNIT and GATED. The last label is that of the row
// `late` rows before; where labels are late, a wrong choice lasts until the first of them comes, so that the robust arm decides a tie.
void Estimator::gate_predict(const KernelTable &level, double *S, double *record, double late, double *scratch) const {
    double raw = record[RecordPart::RAW], robust_answer = record[RecordPart::ROBUST];
    const double unit = S[plan.gate_numbers + GateNumber::UNIT];
    const size_t bucket = bucket_of(raw - robust_answer, unit);
    record[RecordPart::UNIT] = unit;
    record[RecordPart::BUCKET] = static_cast<double>(bucket);
    if (!bucket) {
        const double arms[] = {raw, robust_answer};
        mix_predict(level, plan.gate, S, arms, record + RecordPart::GATED, scratch);
        return;
    }
    const double weight = gate_weight(S, bucket), reach = FARTHEST_MEMBER * unit;
    if (weight > 0.5 || (weight == 0.5 && !(late > 1.0)))
        robust_answer = clip(robust_answer, raw - reach, raw + reach);
    else
        raw = clip(raw, robust_answer - reach, robust_answer + reach);
    record[RecordPart::GATED] = (1.0 - weight) * robust_answer + weight * raw;
}

// Judge both arms by the label, in the bucket that the row was served from.
void Estimator::gate_learn(const KernelTable &level, double *S, const double *record, double y, double late, double *scratch) const {
    double *n = S + plan.gate_numbers;
    const double raw = record[RecordPart::RAW], other = record[RecordPart::ROBUST], served = record[RecordPart::GATED];
    const double unit = record[RecordPart::UNIT], quarter = 0.25 * (raw - other) * (raw - other);
    const size_t bucket = quarter > 0.0 ? static_cast<size_t>(clip(record[RecordPart::BUCKET], 0.0, double(GATE_BUCKETS - 1))) : 0;
    double *own = S + plan.gate_buckets + bucket * GateBucket::SIZE;
    late = std::max(late, 1.0);
    const double room = unit > 0.0 ? (bucket ? unit : GATE_CUT * unit) : std::numeric_limits<double>::infinity();
    const double s = clip(y, std::min(raw, other) - room, std::max(raw, other) + room);
    if (!bucket) {
        const double arms[] = {raw, other};
        double now;
        mix_learn(level, plan.gate, S, arms, &s, 1, &served, late, &now, scratch);
        n[GateNumber::LATE] += (served - now) * (0.5 * (served + now) - s);
    } else {
        const double slow = std::min(late, MOST_LATENESS), iota = quarter * slow;
        if (own[GateBucket::ROUNDS] == 0.0) {
            own[GateBucket::PRIOR] = gate_weight(S, bucket);
            own[GateBucket::LOG_ODDS] = log_odds(own[GateBucket::PRIOR]);
        }
        const double odds = own[GateBucket::LOG_ODDS], rise = std::max(iota - own[GateBucket::INVERSE_RATE], 0.0);
        n[GateNumber::RAW_COST] += rise * price(odds); // the first rise is that from 0
        n[GateNumber::ROBUST_COST] += rise * price(-odds);
        const double raw_loss = 0.5 * (raw - s) * (raw - s), other_loss = 0.5 * (other - s) * (other - s);
        const double least = std::min(raw_loss, other_loss), weight = sigmoid(odds);
        const double mixed = weight * std::exp((least - raw_loss) / iota) + (1.0 - weight) * std::exp((least - other_loss) / iota);
        n[GateNumber::GAPS] += 0.5 * (served - s) * (served - s) - (least - iota * std::log(mixed));
        const double posterior = odds + 2.0 * ((s - raw) + (s - other)) / ((raw - other) * slow); // by (other_loss - raw_loss) / iota
        const double share = GATE_SHARE / late, cut = sigmoid(clip(posterior, -MOST_GATE_ODDS, MOST_GATE_ODDS));
        const double next = log_odds((1.0 - share) * cut + share * own[GateBucket::PRIOR]);
        n[GateNumber::RAW_COST] += iota * std::max(price(next) - price(posterior), 0.0);
        n[GateNumber::ROBUST_COST] += iota * std::max(price(-next) - price(-posterior), 0.0);
        own[GateBucket::LOG_ODDS] = next;
        own[GateBucket::INVERSE_RATE] = iota;
    }
    widen_range(plan.gate, S, y);
    n[GateNumber::RAW_CUT] += (s - y) * (served - raw);
    n[GateNumber::ROBUST_CUT] += (s - y) * (served - other);
    own[GateBucket::ROUNDS] += 1.0;
    n[GateNumber::ROBUST_LOSS] += 0.5 * (other - y) * (other - y);
    // What was served until a label came late could not know it: the better arm says what is ordinary.
    const double residual = late > 1.0 ? std::min(std::fabs(raw - y), std::fabs(other - y)) : std::fabs(served - y);
    follow_residual(n[GateNumber::UNIT], n[GateNumber::ROUNDS], residual);
}

// The members of the mixer of given answers.
std::vector<double> Estimator::gather_given(const double *candidates, const double *spoke, double own) const {
    std::vector<double> answers(plan.offered), members(plan.combined());
    const double *given = candidates + 1 + plan.learned(), none = std::numeric_limits<double>::quiet_NaN();
    for (size_t k = 0; k < plan.offered; ++k) answers[k] = spoke[k] != 0.0 ? given[k] : none;
    plan.given_mixer.gather(answers.data(), own, members.data());
    return members;
}

// What follows the last mixer, whose answer is RAW: the gate, then the mixer of given answers. Fills the head of the record.
void Estimator::finish_serving(const KernelTable &level, double *S, double *record, const double *candidates, double other, double late,
                               double *scratch) const {
    const bool known = record[RecordPart::KNOWN] != 0.0;
    record[RecordPart::ROBUST] = robust && known ? other : record[RecordPart::RAW];
    record[RecordPart::GATED] = record[RecordPart::YHAT] = record[RecordPart::RAW];
    record[RecordPart::BUCKET] = record[RecordPart::UNIT] = 0.0;
    if (!known) return;
    if (robust) gate_predict(level, S, record, late, scratch);
    record[RecordPart::YHAT] = record[RecordPart::GATED];
    if (!plan.offered) return;
    std::vector<double> members = gather_given(candidates, record + plan.spoke_at(), record[RecordPart::GATED]), weights(plan.combined());
    plan.given_mixer.weigh(S + plan.given_members, S[plan.given_numbers + GivenNumber::UNIT], members.data(), weights.data());
    record[RecordPart::YHAT] = plan.given_mixer.combine(members.data(), weights.data());
}

// Let the gate and the mixer of given answers judge what was served.
void Estimator::finish_settling(const KernelTable &level, double *S, const double *record, const double *candidates, double y,
                                double late, double *scratch) const {
    if (robust) gate_learn(level, S, record, y, late, scratch);
    if (!plan.offered) return;
    const std::vector<double> members = gather_given(candidates, record + plan.spoke_at(), record[RecordPart::GATED]);
    double *sums = S + plan.given_members;
    plan.given_mixer.learn(S + plan.given_numbers, nullptr, sums, sums, members.data(), record[RecordPart::YHAT], y, late);
}

} // namespace undrift
