// What one core of the machine can do at a kernel level, written with the kernels' own vectors; see machine.py.
#include "../src/undrift/kernels/native/vec.h"

// n times a fixed number of independent multiply-adds; returns how many. Chains and lanes start from different numbers that the compiler cannot know: it can neither merge nor drop them.
extern "C" double multiply_adds(size_t n) {
    constexpr int CHAINS = 12, TURNS = 32;
    volatile double seed = 1.0, sink;
    V a[CHAINS];
    const V b = all(seed * 0.999), c = all(seed * 0.001);
    UNROLL for (int k = 0; k < CHAINS; ++k) {
        double start[W];
        for (size_t i = 0; i < W; ++i) start[i] = seed + (double)(k * W + i);
        a[k] = load(start);
    }
    for (size_t i = 0; i < n * TURNS; ++i) {
        UNROLL for (int k = 0; k < CHAINS; ++k) a[k] = fma(a[k], b, c);
    }
    V sum = a[0];
    UNROLL for (int k = 1; k < CHAINS; ++k) sum += a[k];
    for (size_t i = 0; i < W; ++i) sink = lane(sum, i);
    (void)sink;
    return (double)n * TURNS * CHAINS * W;
}

// Read and write an array n times.
extern "C" void stream(double *data, size_t size, size_t n) {
    volatile double one = 1.0;
    for (size_t k = 0; k < n; ++k) {
        const V by = all(one);
        size_t i = 0;
        for (; i + 4 * W <= size; i += 4 * W) {
            UNROLL for (size_t u = 0; u < 4; ++u) store(data + i + u * W, load(data + i + u * W) * by);
        }
        for (; i < size; ++i) data[i] *= lane(by, 0);
    }
}
