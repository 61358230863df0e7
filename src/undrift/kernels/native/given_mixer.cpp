#include "given_mixer.h"

#include <limits>
#include <utility>
#include <vector>

#include "estimator_rows.h"

namespace undrift {

// Members of the mixer of given predictions count as at most this many mean |residuals| from their weighted median.
constexpr double GIVEN_REACH = 8.0;
// The largest |regret| of a round in units of the mean |residual|, so that its square is a number.
constexpr double LARGEST_REGRET = 1e+100;

void GivenMixer::gather(const double *answers, double own_answer, double *members) const {
    const double none = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> some;
    double mean = 0.0;
    if (own) *members++ = own_answer;
    for (size_t k = 0; k < offered; ++k) {
        members[k] = answers[k];
        if (answers[k] != answers[k]) continue;
        some.push_back(answers[k]);
        mean += (answers[k] - mean) / static_cast<double>(some.size());
    }
    members[offered] = some.empty() ? none : mean;
    members[offered + 1] = some.empty() ? none : median_of(some.data(), some.size());
}

// Weights are positive regret over its squares; before any member has one, the mean of the offered answers counts, by half if there
// is an own prediction.
bool GivenMixer::weigh(const double *sums, double unit, double *members, double *weights) const {
    const size_t count = size(), mean = count - 2;
    const bool some = members[mean] == members[mean];
    double total = 0.0;
    for (size_t k = 0; k < count; ++k) {
        const double *sum = sums + k * GivenMember::SIZE;
        const bool counts = members[k] == members[k] && sum[GivenMember::REGRET] > 0.0;
        total += weights[k] = counts ? sum[GivenMember::REGRET] / sum[GivenMember::SQUARES] : 0.0;
    }
    if (!some && !own) return false;
    if (!(total > 0.0)) {
        if (own) weights[0] = some ? 0.5 : 1.0;
        weights[mean] = own ? 1.0 - weights[0] : 1.0;
        total = 1.0;
    }
    for (size_t k = 0; k < count; ++k) weights[k] /= total;
    if (!(unit > 0.0) || loss == GivenLoss::LOGISTIC) return true; // log-odds are bounded
    const double reach = GIVEN_REACH * unit, middle = center(members, weights);
    for (size_t k = 0; k < count; ++k)
        if (members[k] == members[k]) members[k] = clip(members[k], middle - reach, middle + reach);
    return true;
}

double GivenMixer::center(const double *members, const double *weights) const {
    const size_t count = size(), mean = count - 2;
    std::vector<std::pair<double, double>> there; // members and their weights
    for (size_t k = 0; k < count; ++k)
        if (k != mean && members[k] == members[k]) there.emplace_back(members[k], weights[k]);
    const size_t offered_there = there.size() - own - (members[mean] == members[mean]);
    for (size_t k = 0; k < offered_there; ++k) there[own + k].second += weights[mean] / static_cast<double>(offered_there);
    std::sort(there.begin(), there.end());
    double sum = 0.0;
    for (const auto &[member, weight] : there)
        if ((sum += weight) >= 0.5) return member;
    return there.back().first;
}

double GivenMixer::combine(const double *members, const double *weights) const {
    double sum = 0.0, low = std::numeric_limits<double>::infinity(), high = -low;
    for (size_t k = 0; k < size(); ++k) {
        if (members[k] != members[k]) continue;
        sum += weights[k] * members[k];
        low = std::min(low, members[k]);
        high = std::max(high, members[k]);
    }
    return clip(sum, low, high); // inside, whatever the rounding
}

// The regret of a round against a member is the slope of the loss at the prediction, times how far the prediction is above the
// member as it is clipped.
void GivenMixer::learn(double *n, double *activity, double *own_sums, const double *sums, const double *members, double yhat, double y,
                       double late) const {
    const size_t count = size();
    const double active = activity ? activity[GivenNumber::UNIT] : 1.0, unit = n[GivenNumber::UNIT] * active;
    std::vector<double> clipped(members, members + count), weights(count);
    weigh(sums, unit, clipped.data(), weights.data());
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const double answer : clipped)
        if (answer == answer) low = std::min(low, answer), high = std::max(high, answer);
    const bool squared = loss == GivenLoss::SQUARED, logistic = loss == GivenLoss::LOGISTIC;
    const double s = squared ? clip(y, low - unit, high + unit) : y;
    const double slope = squared ? yhat - s : logistic ? sigmoid(yhat) - (y > 0.0) : yhat == y ? 0.0 : (y < yhat) - level;
    const auto lose = [&](double p) {
        if (logistic) return price(y * p);
        return squared ? 0.5 * (p - y) * (p - y) : std::max(level * (y - p), (1.0 - level) * (p - y));
    };
    if (!logistic) {
        follow_residual(n[GivenNumber::UNIT], n[GivenNumber::ROUNDS], std::fabs(yhat - y));
        if (activity && n[GivenNumber::UNIT] > 0.0)
            follow_residual(activity[GivenNumber::UNIT], activity[GivenNumber::ROUNDS], std::fabs(yhat - y) / n[GivenNumber::UNIT]);
    }
    const double now = n[GivenNumber::UNIT] * (activity ? activity[GivenNumber::UNIT] : 1.0);
    const auto regret_of = [&](double away) {
        if (!scaled) return slope * away;
        if (!(now > 0.0)) return 0.0; // every prediction was exact so far
        return clip((squared ? slope / now : slope) * (away / now), -LARGEST_REGRET, LARGEST_REGRET);
    };
    n[GivenNumber::LOSS] += lose(yhat);
    for (size_t k = 0; k < count; ++k) {
        double *own = own_sums + k * GivenMember::SIZE;
        const bool there = members[k] == members[k]; // a missing one counts as the prediction
        const double answer = there ? clipped[k] : yhat, member = there ? members[k] : yhat, given = lose(member);
        const double regret = regret_of(yhat - answer);
        if (own[GivenMember::SQUARES] + regret * regret > LEAST_DISCOUNT) {
            own[GivenMember::REGRET] += regret;
            own[GivenMember::SQUARES] += regret * regret;
        } else { // the square of labels as small as 1e-80 is lost in float64, and no weight can be made of it
            own[GivenMember::FORGOTTEN] += std::max(regret, 0.0);
        }
        own[GivenMember::CUT] += lose(answer) - given + (s - y) * (yhat - answer);
        own[GivenMember::LOSS] += given;
        own[GivenMember::SLOPES] += (squared ? yhat - y : slope) * (yhat - member);
        n[GivenNumber::LARGEST] = std::max(n[GivenNumber::LARGEST], std::fabs(regret));
    }
    if (logistic) return; // slopes are bounded: there are no shocks
    const double base = scaled ? 1.0 : now, most = FARTHEST_MEMBER * std::max(late, 1.0) * base * (squared ? base : 1.0);
    if (!(n[GivenNumber::LARGEST] > most)) return;
    const double kept = most / n[GivenNumber::LARGEST]; // what a shock says is forgotten as the rounds after it contradict it
    for (size_t k = 0; k < count; ++k) {
        double *own = own_sums + k * GivenMember::SIZE;
        own[GivenMember::FORGOTTEN] += (1.0 - kept) * std::max(own[GivenMember::REGRET], 0.0);
        own[GivenMember::REGRET] *= kept;
        own[GivenMember::SQUARES] *= kept * kept;
        if (own[GivenMember::SQUARES] > LEAST_DISCOUNT) continue;
        own[GivenMember::FORGOTTEN] += std::max(own[GivenMember::REGRET], 0.0); // nothing is left of it in float64
        own[GivenMember::REGRET] = own[GivenMember::SQUARES] = 0.0;
    }
    n[GivenNumber::LARGEST] = most;
}

} // namespace undrift
