// Gradient boosting of regression trees over binned columns. tests/twins/trees.py is the twin, and explains the arithmetic.
// Gradients are whole numbers while a tree grows: sums do not depend on the order of rows or on threads, and the
// histogram of a leaf's larger child is exactly the leaf's less that of the smaller one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "definitions.h"

namespace undrift {

// Bins of a column in histograms of trees; the last one holds missing values.
constexpr int64_t TREE_BINS = 64;

constexpr size_t VALUE_BINS = TREE_BINS - 1, MISSING_BIN = TREE_BINS - 1;

struct TreeOptions {
    bool logistic;            // labels are 0 and 1, scores log-odds
    size_t leaves;            // most leaves of a tree
    size_t columns;           // columns that a tree may use
    double learning_rate;     // leaves are multiplied by it
    double leaf_weight;       // least weight of a leaf, in rows
    uint64_t seed, first;     // of the columns' choice, and the number of the first new tree
};

// Rows (n, d), which must outlive the builder, and where trees are found or go: (trees, 2 leaves - 1, TreeNode::SIZE).
struct TreeData {
    const double *X, *y, *weight; // no weight: all 1
    size_t rows, dim;
    const double *old; // trees to continue from, and their number
    size_t old_trees;
    double base;
    double *trees; // room for new trees, and their number
    size_t new_trees;
};

struct Cell { // of a histogram: sums over the rows of a bin
    int64_t g, h;
};

struct Split {
    double gain = 0.0;
    size_t place = 0, bin = 0; // place: of the column among those of the tree
    bool missing_left = false;
    Cell left{0, 0};
};

struct Leaf {
    size_t node, begin, end; // its node of the tree, and its rows within `order`
    Cell sum;
    std::vector<Cell> histogram; // empty if it will not be split
    Split best;
};

// The rows whose values decide the edges of bins.
std::vector<size_t> sample_rows(const double *weight, size_t rows, double total);
std::vector<double> bin_edges(const double *X, size_t dim, size_t column, const std::vector<size_t> &sample);
// Add to the scores of rows what each of the trees says, tree after tree.
void add_trees(const double *trees, size_t count, size_t nodes, const double *X, size_t rows, size_t dim, double *score);

// Fill X with rows (rows, dim) as forests see them, in context; with `commit` rows and labels move the context (state). The
// first `kept` features have distances from their running means over `spans`.
void tree_rows(double *state, const double *spans, size_t span_count, size_t kept, const double *Z, const double *y, size_t rows,
               size_t dim, bool commit, double *X);
// The label of a row that was put into context before becomes known; `newest` unless one of a later row was known already.
void settle_tree_label(double *state, double y, bool newest);

class TreeBuilder {
  public:
    TreeBuilder(const TreeData &data, const TreeOptions &options);
    // Do pieces of work until their cost (about the cells of histograms touched) uses up the budget, at least one. True
    // when all trees are grown.
    bool step(int64_t budget, size_t threads);
    double base() const { return base_score; }

  private:
    enum class Stage { EDGES, BINS, SCORES, GRADIENTS, ROOT, SPLITS, DONE };

    size_t nodes() const { return 2 * options.leaves - 1; }
    double *tree() { return data.trees + grown * nodes() * TreeNode::SIZE; }
    int64_t advance(size_t threads);
    int64_t fit_edges();
    int64_t fill_bins();
    int64_t start_scores();
    int64_t start_tree();
    int64_t fill_root(size_t threads);
    int64_t split_leaf(size_t threads);
    void end_tree();
    void choose_columns();
    void set_gradients();
    void fill_histograms(Leaf &from, Leaf *sibling, size_t first, size_t last, size_t threads);
    void find_split(Leaf &leaf, size_t place, Split &best) const;
    bool may_split(const Leaf &leaf) const;

    TreeData data;
    TreeOptions options;
    Stage stage = Stage::EDGES;
    size_t done = 0, grown = 0; // columns or rows finished in this stage; trees grown
    std::vector<size_t> sample;
    double base_score, total_weight = 0.0, g_unit = 0.0, h_unit = 0.0, ridge = 0.0;
    int64_t least = 0; // weight of a leaf, in units
    std::vector<std::vector<double>> edges;
    std::vector<uint8_t> bins; // (rows, dim)
    std::vector<double> score, g, h;
    std::vector<Cell> gradient; // by row, in units
    std::vector<uint32_t> order, spare;
    std::vector<size_t> chosen;
    std::vector<Leaf> leaves;
};

} // namespace undrift
