// The compiled kernels of another processor as a process: calls come in on the standard input, what they did to their
// arrays goes out. Python's side is remote_kernels.py; the order of numbers and arrays is written there.
#include "../../../src/undrift/kernels/native/dispatch.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace undrift;

static int64_t integer() {
    int64_t out;
    if (fread(&out, 8, 1, stdin) != 1) exit(0); // the caller has gone
    return out;
}

struct Call {
    std::vector<int64_t> numbers;
    std::vector<size_t> bytes;
    std::vector<std::vector<double>> arrays; // of any type: room for their bytes

    Call() : numbers((size_t)integer()) {
        for (int64_t &one : numbers) one = integer();
        bytes.resize((size_t)integer());
        for (size_t &one : bytes) one = (size_t)integer();
        for (size_t size : bytes) {
            arrays.emplace_back(size / 8 + 1);
            if (size && fread(arrays.back().data(), size, 1, stdin) != 1) exit(1);
        }
    }
    void answer(int64_t status) const {
        fwrite(&status, 8, 1, stdout);
        for (size_t i = 0; i < arrays.size(); ++i) fwrite(arrays[i].data(), 1, bytes[i], stdout);
        fflush(stdout);
    }
    double *get(size_t i) { return bytes[i] ? arrays[i].data() : nullptr; }
    int64_t *integers(size_t i) { return (int64_t *)arrays[i].data(); }
};

static int64_t play(Call &call) { // vaw_play, vaw_predict, aioli_play, aioli_predict
    const auto &n = call.numbers;
    const KernelTable &level = table();
    LearnerCall run{};
    run.state = call.get(0);
    run.beta = call.get(1);
    run.inverse_curvature = call.get(2);
    run.Z = call.get(3);
    run.y = call.get(4);
    run.m_or_yhat = call.get(5);
    run.h_or_stability = call.get(6);
    run.lanes = (size_t)n[2];
    run.learners = (size_t)n[3];
    run.dim = (size_t)n[4];
    run.first = n[5];
    run.rounds = (size_t)n[6];
    const int64_t bad = level.invalid_input(run.Z, run.rounds * run.dim, run.y, run.y ? run.rounds : 0, n[1] == 2);
    const LearnerKernel works[] = {level.vaw_play, level.vaw_predict, level.aioli_play, level.aioli_predict};
    if (!bad && run.rounds && run.learners) share_units(level, works[n[1]], run, (size_t)n[7]);
    return bad;
}

// A mixer: the arrays from `at` on are log_weights, log_prior, (share, scale), state, losses, clipped_losses.
static MixerCall mixer_call(Call &call, size_t at, size_t members, int64_t rule) {
    MixerCall mix{};
    mix.members = members;
    mix.log_weights = call.get(at);
    mix.log_prior = call.get(at + 1);
    mix.share = call.get(at + 2)[0];
    mix.log_one_minus_share = std::log1p(-mix.share);
    mix.scale = call.get(at + 2)[1];
    mix.state = call.get(at + 3);
    mix.rule = (int)rule;
    mix.log_members = std::fmax(1.0, std::log((double)members));
    mix.losses = call.get(at + 4);
    mix.clipped_losses = call.get(at + 5);
    return mix;
}

static int64_t mix(Call &call) {
    const auto &n = call.numbers;
    MixerCall mix = mixer_call(call, 0, (size_t)n[2], n[4]);
    mix.rounds = (size_t)n[3];
    mix.E = call.get(6);
    mix.y = call.get(7);
    mix.yhat = call.get(8);
    mix.weights = call.get(9);
    (n[1] ? table().mix_logistic : table().mix_squared)(mix, scratch_of(table().mixer_scratch(mix)));
    return 0;
}

static int64_t whole_round(Call &call) {
    const auto &n = call.numbers;
    const KernelTable &level = table();
    EnsembleCall r{};
    r.binary = n[2] != 0;
    r.run.lanes = (size_t)n[3];
    r.run.learners = (size_t)n[4];
    r.run.dim = (size_t)n[5];
    r.run.first = n[6];
    r.run.rounds = (size_t)n[7];
    r.members = (size_t)n[8];
    r.run.state = call.get(0);
    r.run.beta = call.get(1);
    r.run.inverse_curvature = call.get(2);
    r.leader = call.integers(3);
    r.hint = call.integers(4);
    r.last_label = call.get(5);
    r.stability = call.get(6);
    if (n[10]) r.mix = mixer_call(call, 7, r.members, n[9]);
    r.run.Z = call.get(13);
    r.run.y = call.get(14);
    r.yhat = call.get(15);
    r.mix.weights = call.get(16);
    r.in_order = members_in_order(r);
    if (n[1] == 3) return (int64_t)level.slot_size(r);
    if (n[1] == 4) return (int64_t)level.slot_lanes;
    const bool labels = n[1] != 1;
    const int64_t bad =
        level.invalid_input(r.run.Z, r.run.rounds * r.run.dim, r.run.y, labels ? r.run.rounds : 0, labels && r.binary);
    if (bad || !r.run.rounds) return bad;
    if (n[1] == 2) {
        const KeyedCall keys{call.get(17), call.integers(18), call.integers(19), r.run.rounds, r.run.Z, r.run.y, r.yhat};
        level.keyed_play(r, keys, scratch_of(level.keyed_scratch(r)));
    } else {
        (labels ? level.ensemble_play : level.ensemble_predict)(r, scratch_of(level.ensemble_scratch(r)));
    }
    return 0;
}

static int64_t adam(Call &call) {
    const auto &n = call.numbers;
    const AdamTable &loops = *table().adam;
    const AdamPiece piece{call.get(1), call.get(2), call.get(3), call.get(4), call.get(5), (size_t)n[4],
                          (const AdamRow *)call.get(0)};
    if (n[1])
        loops.apply((int)n[2], piece, call.get(6));
    else
        loops.measure((int)n[2], piece, n[3] != 0, call.get(6));
    return 0;
}

int main() {
    for (;;) {
        Call call;
        switch (call.numbers[0]) {
        case 0: call.answer(choose(std::string((const char *)call.arrays[0].data(), call.bytes[0]))); break;
        case 1: call.answer(play(call)); break;
        case 2: call.answer(mix(call)); break;
        case 3: call.answer(whole_round(call)); break;
        case 4:
            table().log_odds(call.get(0), call.get(1), call.get(2), call.bytes[0] / 8);
            call.answer(0);
            break;
        default: call.answer(adam(call));
        }
    }
}
