// Algorithm 2 (exponentiated O2NC with clipped or clip-free Adam) on a built-in objective. reference_o2nc.py is the
// definition, names and order of operations included; this is the same text, compiled.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "array.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

struct Words {
    uint32_t a, b;
};

Words threefry(uint64_t seed, uint64_t t, uint32_t stream) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
    const uint32_t keys[3] = {low, high, low ^ high ^ 0x1BD11BDAu};
    uint32_t a = static_cast<uint32_t>(t) + keys[0];
    uint32_t b = static_cast<uint32_t>(t >> 32) + (stream << 24) + keys[1];
    for (uint32_t group = 0; group < 5; ++group) {
        for (int turn : turns[group % 2]) {
            a += b;
            b = ((b << turn) | (b >> (32 - turn))) ^ a;
        }
        a += keys[(group + 1) % 3];
        b += keys[(group + 2) % 3] + group + 1;
    }
    return {a, b};
}

double exponential(uint32_t word) {
    if (word >> 31) return -std::log1p(-(static_cast<double>(word ^ 0xFFFFFFFFu) + 0.5) / 4294967296.0);
    return -std::log((static_cast<double>(word) + 0.5) / 4294967296.0);
}

double sign(double u) { return static_cast<double>((u > 0.0) - (u < 0.0)); }

double squares(const double *x, size_t n) {
    double total = 0.0;
    for (size_t j = 0; j < n; ++j) total += x[j] * x[j];
    return total;
}

void basins(const double *x, size_t d, double *out) {
    const double p = 1.0 / std::sqrt(static_cast<double>(d));
    double near = 0.0, far = 0.0;
    for (size_t j = 0; j < d; ++j) {
        near += (x[j] - p) * (x[j] - p);
        far += (x[j] + p) * (x[j] + p);
    }
    near = std::sqrt(near);
    far = std::sqrt(far);
    if (std::min(near, 0.2 + far) >= 2.0) {
        std::fill(out, out + d, 0.0);
    } else if (near <= 0.2 + far) {
        for (size_t j = 0; j < d; ++j) out[j] = (x[j] - p) / (near + (near == 0.0));
    } else {
        for (size_t j = 0; j < d; ++j) out[j] = (x[j] + p) / (far + (far == 0.0));
    }
}

void gradient(int kind, const double *x, size_t d, double *out) {
    if (kind == 3) return basins(x, d, out);
    const double root = std::sqrt(static_cast<double>(d));
    for (size_t j = 0; j < d; ++j) {
        const double u = x[j];
        double slope;
        if (kind == 0) {
            slope = sign(u) / ((1.0 + std::fabs(u)) * (1.0 + std::fabs(u)));
        } else if (kind == 1) {
            const double wave = u - 2.0 * std::nearbyint(0.5 * u);
            slope = 0.5 * sign(wave) + (std::fabs(u) < 4.0 ? 0.5 * sign(u) : 0.0);
        } else {
            const double ripple = std::sin(2.0 * u);
            slope = sign(u) * std::exp(-std::fabs(u)) + 0.5 * sign(ripple) * std::cos(2.0 * u);
        }
        out[j] = slope / root;
    }
}

void o2nc_gradient(int kind, Input x, Vector out) { gradient(kind, x.data(), x.shape(0), out.data()); }

int o2nc_play(int kind, Input numbers, uint64_t seed, int64_t steps, Vector x_, Vector average_, Vector m_,
              Vector truth_, Vector delta_, Vector sample_, Vector v_, Indices offsets_, Vector scalars_,
              Integers counts_) {
    const double noise = numbers.data()[0], gamma = numbers.data()[1], gap1 = numbers.data()[2],
                 gap2 = numbers.data()[3], nu = numbers.data()[4], mu = numbers.data()[5],
                 clip_norm = numbers.data()[6], c = numbers.data()[7];
    const size_t d = x_.shape(0), blocks = v_.shape(0);
    double *x = x_.data(), *average = average_.data(), *m = m_.data(), *truth = truth_.data(), *delta = delta_.data(),
           *sample = sample_.data(), *v = v_.data(), *scalars = scalars_.data();
    const int64_t *offsets = offsets_.data();
    int64_t *counts = counts_.data();
    std::vector<double> work(d);
    double *g = work.data();
    const bool clips = clip_norm < std::numeric_limits<double>::infinity();

    nb::gil_scoped_release unlocked;
    for (int64_t n = 0; n < steps; ++n) {
        const uint64_t t = static_cast<uint64_t>(++counts[0]);
        const double s = exponential(threefry(seed, t, 0).a);
        for (size_t j = 0; j < d; ++j) x[j] += s * delta[j];
        gradient(kind, x, d, g);
        const double old_warmth = scalars[0], warmth = old_warmth + gap1 * (1.0 - old_warmth);
        const double weight = gap1 / warmth;
        double distance = 0.0;
        for (size_t j = 0; j < d; ++j) distance += (x[j] - average[j]) * (x[j] - average[j]);
        const double spread = (1.0 - weight) * (scalars[1] + weight * distance);
        for (size_t j = 0; j < d; ++j) {
            average[j] += weight * (x[j] - average[j]);
            truth[j] += gap1 * (g[j] - truth[j]);
        }
        const Words kick = threefry(seed, t, 2);
        g[(static_cast<uint64_t>(kick.a) * d) >> 32] += kick.b >> 31 ? -noise : noise;
        const Words draw = threefry(seed, t, 1);
        if ((static_cast<uint64_t>(draw.a) << 32 | draw.b) <= std::numeric_limits<uint64_t>::max() / t) {
            std::copy(average, average + d, sample);
            counts[1] = counts[0];
        }

        const double square = squares(g, d), old_length = scalars[13];
        const double old_root = std::sqrt(v[0]);
        const double old_damping = nu + gamma * mu * old_warmth + old_root, old_A = nu + old_root;
        for (size_t j = 0; j < d; ++j) m[j] += gap1 * (g[j] - m[j]);
        const double length = std::sqrt(squares(m, d));
        double damping = 0.0;
        for (size_t k = 0; k < blocks; ++k) {
            const size_t first = static_cast<size_t>(offsets[k]), size = static_cast<size_t>(offsets[k + 1]) - first;
            v[k] += gap2 * (squares(g + first, size) - v[k]);
            damping = nu + gamma * mu * warmth + std::sqrt(v[k]);
            double rate = gamma / (damping + (damping == 0.0));
            const double raw = rate * std::sqrt(squares(m + first, size));
            counts[2] += raw > clip_norm;
            if (clips) rate = rate * (clip_norm / (clip_norm + (raw > clip_norm) * (raw - clip_norm)));
            for (size_t j = first; j < first + size; ++j) delta[j] = -rate * m[j];
        }

        scalars[0] = warmth;
        scalars[1] = spread;
        scalars[13] = length;
        const double point = length / warmth + c * spread;
        scalars[2] += point;
        scalars[3] += noise * std::sqrt(gap1 * (2.0 - warmth) / ((2.0 - gap1) * warmth));
        scalars[4] += std::sqrt(squares(truth, d)) / warmth + c * spread;
        scalars[5] = std::max(scalars[5], std::sqrt(square));
        if (blocks == 1) {
            const double A = nu + std::sqrt(v[0]), moved = squares(delta, d);
            scalars[7] += t > 1 ? old_A : 0.0;
            scalars[8] += square / old_damping;
            scalars[9] += square / damping;
            double change = gamma * old_length * std::fabs(1.0 / old_damping - (1.0 - gap1) / damping);
            if (clips) change = std::min(2.0 * clip_norm, change);
            const double lagged = 0.5 * gamma * gap1 / (1.0 - gap1) * square / old_damping;
            scalars[10] += std::min(lagged, change * std::sqrt(square));
            scalars[11] += (old_A - A - gap1 * old_A) * moved;
            scalars[6] = A;
            scalars[12] = moved;
        }
        if (!std::isfinite(point)) return 1;
    }
    return 0;
}

}  // namespace

void bind_o2nc(nb::module_ &m) {
    m.def("o2nc_gradient", &o2nc_gradient, nb::arg("kind"), nb::arg("x").noconvert(), nb::arg("out").noconvert());
    m.def("o2nc_play", &o2nc_play, nb::arg("kind"), nb::arg("numbers").noconvert(), nb::arg("seed"), nb::arg("steps"),
          nb::arg("x").noconvert(), nb::arg("average").noconvert(), nb::arg("m").noconvert(),
          nb::arg("truth").noconvert(), nb::arg("delta").noconvert(), nb::arg("sample").noconvert(),
          nb::arg("v").noconvert(), nb::arg("offsets").noconvert(), nb::arg("scalars").noconvert(),
          nb::arg("counts").noconvert());
}
