// Rows down the trees.
#include <algorithm>

#include "trees.h"

namespace undrift {
namespace {

constexpr size_t BLOCK = 64; // rows at a time, so that they and a few trees stay in cache

// Where a row goes from a node: to a child, or nowhere from a leaf. No branch depends on the data, so that the steps of
// several trees overlap.
inline size_t step_down(const double *tree, size_t at, const double *z) {
    const double *node = tree + at * TreeNode::SIZE;
    const bool leaf = node[TreeNode::COLUMN] < 0.0;
    const double x = z[leaf ? 0 : (size_t)node[TreeNode::COLUMN]];
    const bool left = (x <= node[TreeNode::VALUE]) | ((x != x) & (node[TreeNode::MISSING_LEFT] != 0.0));
    const size_t child = (size_t)node[TreeNode::LEFT] + !left;
    return leaf ? at : child;
}

// Walk `COUNT` trees at once and add their leaves to a score in their order.
template <size_t COUNT> double walk(const double *trees, size_t stride, const double *z, double score) {
    size_t at[COUNT] = {};
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t t = 0; t < COUNT; ++t) {
            const size_t next = step_down(trees + t * stride, at[t], z);
            moved |= next != at[t];
            at[t] = next;
        }
    }
    for (size_t t = 0; t < COUNT; ++t) score += trees[t * stride + at[t] * TreeNode::SIZE + TreeNode::VALUE];
    return score;
}

} // namespace

void add_trees(const double *trees, size_t count, size_t nodes, const double *X, size_t rows, size_t dim, double *score) {
    const size_t stride = nodes * TreeNode::SIZE;
    for (size_t begin = 0; begin < rows; begin += BLOCK) {
        const size_t end = std::min(rows, begin + BLOCK);
        size_t t = 0;
        for (; t + 8 <= count; t += 8)
            for (size_t i = begin; i < end; ++i) score[i] = walk<8>(trees + t * stride, stride, X + i * dim, score[i]);
        for (; t < count; ++t)
            for (size_t i = begin; i < end; ++i) score[i] = walk<1>(trees + t * stride, stride, X + i * dim, score[i]);
    }
}

} // namespace undrift
