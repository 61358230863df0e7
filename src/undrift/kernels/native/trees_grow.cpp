// Growing the trees: gradients, histograms, the best split of a leaf, leaf after leaf.
#include "trees.h"

#include <algorithm>
#include <cmath>

#include "dispatch.h"

namespace undrift {
namespace {

// Gradients and curvatures become whole numbers of at most this many bits, so that their sums are exact in any
// order.
constexpr int64_t GRADIENT_BITS = 50;
// With many rows gradients have fewer bits, so that the sum of all of them stays below this many.
constexpr int64_t SUM_BITS = 62;
// Whole weights up to this one are added label by label.
constexpr double MOST_COPIES = 1024.0;
// Weights of all rows together that gradients are counted for; larger ones are divided by a power of two.
constexpr double MOST_WEIGHT = 1073741824.0;
// A split whose gain is below this share of its children's scores is rounding.
constexpr double LEAST_GAIN = 1e-10;
// The largest curvature of the logistic loss: a row of this curvature weighs as much as a whole row in a leaf.
constexpr double LOGISTIC_CURVATURE = 0.25;
// Leaves are drawn towards 0 as if by this many rows.
constexpr double TREE_RIDGE = 1.0;

constexpr size_t SCORE_BLOCK = 64;          // rows scored at a time by trees that are continued
constexpr size_t ROOT_CELLS = 300000;       // counted at a time in the root
constexpr size_t WORTH_A_THREAD = 400000;   // cells; with fewer a thread costs more than it saves

uint64_t mix_bits(uint64_t x) { // splitmix64
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// w times a whole number: exactly, if w is whole too.
int64_t weigh(int64_t units, double w) {
    return w == std::floor(w) ? units * (int64_t)w : (int64_t)std::nearbyint((double)units * w);
}

// The exponent e for which the largest number times 2^e is below 2^bits.
int scale_exponent(double largest, int bits) {
    int exponent;
    std::frexp(largest, &exponent);
    return std::min(bits - exponent, 1000);
}

} // namespace

TreeBuilder::TreeBuilder(const TreeData &d, const TreeOptions &o) : data(d), options(o), base_score(d.base) {
    edges.reserve(d.dim);
    double sum = 0.0, &total = total_weight; // of labels, and of weights
    for (size_t i = 0; i < d.rows; ++i) {
        const double w = d.weight ? d.weight[i] : 1.0;
        if (w == std::floor(w) && w <= MOST_COPIES) // added as often as copies of the row would be, which rounds alike
            for (double k = 0.0; k < w; k += 1.0) sum += d.y[i];
        else
            sum += w * d.y[i];
        total += w;
    }
    if (d.old_trees) return;
    base_score = o.logistic ? std::log((sum + 1.0) / (total - sum + 1.0)) : sum / total;
}

bool TreeBuilder::step(int64_t budget, size_t threads) {
    while (budget > 0 && stage != Stage::DONE) budget -= advance(threads);
    return stage == Stage::DONE;
}

int64_t TreeBuilder::advance(size_t threads) {
    switch (stage) {
    case Stage::EDGES: return fit_edges();
    case Stage::BINS: return fill_bins();
    case Stage::SCORES: return start_scores();
    case Stage::GRADIENTS: return start_tree();
    case Stage::ROOT: return fill_root(threads);
    case Stage::SPLITS: return split_leaf(threads);
    default: return 0;
    }
}

int64_t TreeBuilder::start_scores() {
    if (score.empty()) score.resize(data.rows, base_score);
    const size_t begin = done;
    done = data.old_trees ? std::min(data.rows, begin + SCORE_BLOCK) : data.rows;
    if (data.old_trees)
        add_trees(data.old, data.old_trees, nodes(), data.X + begin * data.dim, done - begin, data.dim, score.data() + begin);
    const int64_t cost = (int64_t)((done - begin) * (1 + 16 * data.old_trees));
    if (done == data.rows) stage = data.new_trees ? Stage::GRADIENTS : Stage::DONE;
    return cost;
}

void TreeBuilder::choose_columns() {
    std::vector<size_t> all(data.dim);
    for (size_t j = 0; j < data.dim; ++j) all[j] = j;
    const uint64_t key = mix_bits(mix_bits(options.seed) + options.first + grown);
    for (size_t j = 0; j < options.columns; ++j) std::swap(all[j], all[j + mix_bits(key + j) % (data.dim - j)]);
    chosen.assign(all.begin(), all.begin() + (ptrdiff_t)options.columns);
    std::sort(chosen.begin(), chosen.end());
}

void TreeBuilder::set_gradients() {
    const size_t n = data.rows;
    if (g.empty()) g.resize(n), h.resize(n), gradient.resize(n), order.resize(n), spare.resize(n);
    double g_most = 0.0, h_most = 0.0;
    for (size_t i = 0; i < n; ++i) {
        if (options.logistic) {
            const double p = 1.0 / (1.0 + std::exp(-score[i]));
            g[i] = p - data.y[i];
            h[i] = p * (1.0 - p);
        } else {
            g[i] = score[i] - data.y[i];
            h[i] = 1.0;
        }
        g_most = std::max(g_most, std::fabs(g[i]));
        h_most = std::max(h_most, h[i]);
    }
    // A row of weight w has w times the whole numbers of one: exactly those of w copies. Weights whose sum is too large for
    // that are counted in a larger unit.
    int excess = 0, rows_bits = 0;
    while (std::ldexp(total_weight, -excess) > MOST_WEIGHT) ++excess;
    while (std::ldexp(1.0, rows_bits + excess) < total_weight) ++rows_bits;
    const int bits = (int)std::min(GRADIENT_BITS, SUM_BITS - rows_bits);
    const int g_exponent = scale_exponent(g_most, bits), h_exponent = scale_exponent(h_most, bits);
    const double g_scale = std::ldexp(1.0, g_exponent), h_scale = std::ldexp(1.0, h_exponent);
    g_unit = std::ldexp(1.0, -g_exponent), h_unit = std::ldexp(1.0, -h_exponent);
    const double curvature = options.logistic ? LOGISTIC_CURVATURE : 1.0;
    ridge = std::ldexp(TREE_RIDGE * curvature * h_scale, -excess);
    least = (int64_t)std::ceil(std::min(std::ldexp(options.leaf_weight * curvature * h_scale, -excess), 4e18));
    // Adding 3 * 2^51 puts the nearest whole number into the last bits of the sum, ties to the even one.
    const double magic = 6755399441055744.0;
    for (size_t i = 0; i < n; ++i) {
        gradient[i] = {(int64_t)((g[i] * g_scale + magic) - magic), (int64_t)((h[i] * h_scale + magic) - magic)};
        if (const double w = data.weight ? std::ldexp(data.weight[i], -excess) : 1.0; w != 1.0)
            gradient[i] = {weigh(gradient[i].g, w), weigh(gradient[i].h, w)};
        order[i] = (uint32_t)i;
    }
}

int64_t TreeBuilder::start_tree() {
    choose_columns();
    set_gradients();
    leaves.clear();
    leaves.reserve(options.leaves);
    leaves.push_back({0, 0, data.rows, {0, 0}, {}, {}});
    Leaf &root = leaves[0];
    for (const Cell &one : gradient) root.sum.g += one.g, root.sum.h += one.h;
    stage = options.leaves > 1 && may_split(root) ? Stage::ROOT : Stage::SPLITS;
    done = 0;
    return 8 * (int64_t)data.rows;
}

// The root's histogram is the largest one: where there are many rows, some columns at a time.
int64_t TreeBuilder::fill_root(size_t threads) {
    const size_t first = done;
    done = std::min(options.columns, first + std::max<size_t>(1, ROOT_CELLS * threads / data.rows));
    fill_histograms(leaves[0], nullptr, first, done, threads);
    if (done == options.columns) stage = Stage::SPLITS;
    return (int64_t)((data.rows + TREE_BINS) * (done - first));
}

bool TreeBuilder::may_split(const Leaf &leaf) const { return leaf.sum.h >= least && leaf.sum.h - least >= least; }

// Fill the histogram of `from` by its rows, in the columns [begin, end) of the tree, and find its best split; with a sibling
// whose histogram is that of both, take it off there and find the sibling's best split too; one that will not be split is
// taken off row by row and has no histogram. Threads share the columns.
void TreeBuilder::fill_histograms(Leaf &from, Leaf *sibling, size_t begin, size_t end, size_t threads) {
    const size_t k = end - begin, rows = from.end - from.begin;
    const bool find_own = may_split(from), find_others = sibling && may_split(*sibling);
    if (!begin) from.best = {};
    if (!begin && find_own) from.histogram.assign(options.columns * TREE_BINS, Cell{0, 0});
    const size_t parts = std::max<size_t>(1, std::min({threads, k, 1 + rows * k / WORTH_A_THREAD}));
    std::vector<Split> own(options.columns), others(options.columns);
    run_parts(parts, 1, [&](size_t part, double *) {
        const size_t first = begin + k * part / parts, last = begin + k * (part + 1) / parts;
        Cell *cells = find_own ? from.histogram.data() : sibling->histogram.data();
        const size_t *columns = chosen.data();
        const int64_t sign = find_own ? 1 : -1;
        for (size_t i = from.begin; i < from.end; ++i) {
            const size_t row = order[i];
            const uint8_t *bin = bins.data() + row * data.dim;
            const Cell one{sign * gradient[row].g, sign * gradient[row].h};
            for (size_t c = first; c < last; ++c) {
                Cell &cell = cells[c * TREE_BINS + bin[columns[c]]];
                cell.g += one.g, cell.h += one.h;
            }
        }
        if (sibling && find_own)
            for (size_t b = first * TREE_BINS; b < last * TREE_BINS; ++b)
                sibling->histogram[b].g -= cells[b].g, sibling->histogram[b].h -= cells[b].h;
        for (size_t c = first; c < last; ++c) {
            if (find_own) find_split(from, c, own[c]);
            if (find_others) find_split(*sibling, c, others[c]);
        }
    });
    for (const Split &one : own) // of equally good splits the first column's
        if (one.gain > from.best.gain) from.best = one;
    if (!sibling) return;
    sibling->best = {};
    for (const Split &one : others)
        if (one.gain > sibling->best.gain) sibling->best = one;
}

// The best split of a leaf by one column. Rows without a number go right, or left; of equally good splits the first.
void TreeBuilder::find_split(Leaf &leaf, size_t place, Split &best) const {
    const Cell *cells = leaf.histogram.data() + place * TREE_BINS, missing = cells[MISSING_BIN], sum = leaf.sum;
    const bool none_missing = !missing.h && !missing.g;
    const double G = (double)sum.g, whole = G * G / ((double)sum.h + ridge);
    const size_t last = edges[chosen[place]].size(); // the bin above all edges
    Cell sums[VALUE_BINS], below{0, 0}; // over the bins up to each one
    size_t begin = 0, end = 0;          // bins outside of these leave too little on one side; curvatures are never negative
    int64_t used = 0;                   // not 0 from the first bin with rows on: missing numbers alone do not go left
    for (size_t b = 0; b <= last; ++b) {
        below.g += cells[b].g, below.h += cells[b].h;
        sums[b] = below;
        used |= cells[b].g | cells[b].h;
        begin += (below.h + missing.h < least) | !used;
        end += sum.h - below.h >= least;
    }
    for (size_t b = begin; b < end; ++b) {
        below = sums[b];
        for (int side = 0; side < (none_missing || b == last ? 1 : 2); ++side) {
            const Cell left = side ? Cell{below.g + missing.g, below.h + missing.h} : below;
            const int64_t right_h = sum.h - left.h;
            if (left.h < least || right_h < least) continue;
            const double gl = (double)left.g, gr = (double)(sum.g - left.g);
            const double hl = (double)left.h + ridge, hr = (double)right_h + ridge;
            const double parts = (gl * gl * hr + gr * gr * hl) / (hl * hr), gain = parts - whole;
            if (!(gain > LEAST_GAIN * parts) || !(gain > best.gain)) continue;
            best = {gain, place, b, none_missing ? left.h >= right_h : side == 1, left};
        }
    }
}

// Split the leaf with the largest gain, the first of equals; or end the tree.
int64_t TreeBuilder::split_leaf(size_t threads) {
    size_t at = 0;
    for (size_t i = 1; i < leaves.size(); ++i)
        if (leaves[i].best.gain > leaves[at].best.gain) at = i;
    if (leaves.size() >= options.leaves || !(leaves[at].best.gain > 0.0)) {
        end_tree();
        return (int64_t)data.rows;
    }
    Leaf &left = leaves[at];
    const Split split = left.best;
    const size_t column = chosen[split.place], node = left.node, child = 2 * leaves.size() - 1, begin = left.begin, end = left.end;
    double *numbers = tree() + node * TreeNode::SIZE;
    numbers[TreeNode::COLUMN] = (double)column;
    numbers[TreeNode::VALUE] = split.bin < edges[column].size() ? edges[column][split.bin] : INPUT_LIMIT;
    numbers[TreeNode::LEFT] = (double)child;
    numbers[TreeNode::MISSING_LEFT] = split.missing_left ? 1.0 : 0.0;
    bool goes_left[TREE_BINS];
    for (size_t b = 0; b < VALUE_BINS; ++b) goes_left[b] = b <= split.bin;
    goes_left[MISSING_BIN] = split.missing_left;
    size_t middle = begin, others = 0; // the order of rows is kept on both sides
    for (size_t i = begin; i < end; ++i) {
        const uint32_t row = order[i];
        const bool goes = goes_left[bins[row * data.dim + column]];
        order[middle] = row, spare[others] = row;
        middle += goes, others += !goes;
    }
    std::copy(spare.begin(), spare.begin() + (ptrdiff_t)others, order.begin() + (ptrdiff_t)middle);
    leaves.push_back({child + 1, middle, end, {left.sum.g - split.left.g, left.sum.h - split.left.h}, {}, {}});
    Leaf &right = leaves.back();
    left.node = child, left.end = middle, left.sum = split.left, left.best = {};
    int64_t cost = 2 * (int64_t)(end - begin);
    if (leaves.size() < options.leaves && (may_split(left) || may_split(right))) {
        const bool left_smaller = left.end - left.begin <= right.end - right.begin;
        Leaf &smaller = left_smaller ? left : right, &larger = left_smaller ? right : left;
        if (left_smaller) right.histogram.swap(left.histogram);
        fill_histograms(smaller, &larger, 0, options.columns, threads);
        cost += (int64_t)((smaller.end - smaller.begin + 3 * TREE_BINS) * options.columns);
    }
    return cost;
}

void TreeBuilder::end_tree() {
    for (const Leaf &leaf : leaves) {
        double *numbers = tree() + leaf.node * TreeNode::SIZE;
        const double value = -options.learning_rate * (((double)leaf.sum.g * g_unit) / (((double)leaf.sum.h + ridge) * h_unit));
        numbers[TreeNode::COLUMN] = (double)LEAF;
        numbers[TreeNode::VALUE] = value;
        numbers[TreeNode::LEFT] = numbers[TreeNode::MISSING_LEFT] = 0.0;
        for (size_t i = leaf.begin; i < leaf.end; ++i) score[order[i]] += value;
    }
    for (size_t i = 2 * leaves.size() - 1; i < nodes(); ++i) { // nodes that were not needed
        double *numbers = tree() + i * TreeNode::SIZE;
        numbers[TreeNode::COLUMN] = (double)LEAF;
        numbers[TreeNode::VALUE] = numbers[TreeNode::LEFT] = numbers[TreeNode::MISSING_LEFT] = 0.0;
    }
    stage = ++grown < data.new_trees ? Stage::GRADIENTS : Stage::DONE;
}

} // namespace undrift
