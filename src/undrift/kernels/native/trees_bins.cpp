// From numbers to bins: edges by quantiles of a sample, and the bin of every cell.
#include "trees.h"

#include <algorithm>
#include <cmath>

namespace undrift {
namespace {

// The edges of bins are quantiles of at most this many rows, evenly spaced.
constexpr int64_t BIN_SAMPLE = 4096;

constexpr size_t BLOCK = 512; // rows binned at a time

// The bin of x: how many edges are below it. Six halvings, without branches on the data.
uint8_t bin_of(const std::vector<double> &edges, double x) {
    if (x != x) return (uint8_t)MISSING_BIN;
    const double *at = edges.data();
    size_t size = edges.size();
    while (size > 0) {
        const size_t half = (size + 1) / 2;
        at += at[half - 1] < x ? half : 0;
        size -= half;
    }
    return (uint8_t)(at - edges.data());
}

} // namespace

// A row of weight w is met in the sample as often as w rows would be: rows are evenly spaced in the sum of their weights.
std::vector<size_t> sample_rows(const double *weight, size_t rows, double total) {
    const double count = std::max(1.0, std::ceil(std::min(total, (double)BIN_SAMPLE)));
    std::vector<size_t> sample;
    double below = 0.0; // weight of the rows before this one
    for (size_t i = 0, row = 0; i < (size_t)count; ++i) {
        const double at = (double)i * total / count;
        while (row + 1 < rows && below + (weight ? weight[row] : 1.0) <= at) below += weight ? weight[row] : 1.0, ++row;
        sample.push_back(row);
    }
    return sample;
}

std::vector<double> bin_edges(const double *X, size_t dim, size_t column, const std::vector<size_t> &sample) {
    std::vector<double> x;
    x.reserve(sample.size());
    for (const size_t row : sample) {
        const double value = X[row * dim + column];
        if (value == value) x.push_back(value);
    }
    std::sort(x.begin(), x.end());
    size_t distinct = x.empty() ? 0 : 1;
    for (size_t i = 1; i < x.size(); ++i) distinct += x[i] != x[i - 1];
    std::vector<double> edges;
    size_t open = 0, left = x.size(), bins = VALUE_BINS; // numbers in the open bin, in it and later ones, bins not closed
    for (size_t i = 1; i < x.size(); ++i) {
        ++open;
        if (x[i] == x[i - 1]) continue;
        if (distinct > VALUE_BINS && (bins == 1 || open * bins < left)) continue;
        const double middle = x[i - 1] + 0.5 * (x[i] - x[i - 1]);
        edges.push_back(middle < x[i] ? middle : x[i - 1]);
        left -= open;
        open = 0;
        --bins;
    }
    return edges;
}

int64_t TreeBuilder::fit_edges() {
    if (sample.empty()) sample = sample_rows(data.weight, data.rows, total_weight);
    edges.push_back(bin_edges(data.X, data.dim, done, sample));
    if (++done == data.dim) stage = Stage::BINS, done = 0;
    return 64 * (int64_t)sample.size();
}

int64_t TreeBuilder::fill_bins() {
    if (bins.empty()) bins.resize(data.rows * data.dim);
    const size_t end = std::min(data.rows, done + BLOCK), begin = done;
    for (size_t i = begin; i < end; ++i)
        for (size_t j = 0; j < data.dim; ++j) bins[i * data.dim + j] = bin_of(edges[j], data.X[i * data.dim + j]);
    done = end;
    if (done == data.rows) stage = Stage::SCORES, done = 0;
    return (int64_t)(16 * (end - begin) * data.dim);
}

} // namespace undrift
