// The two phases of an Adam step over many tensors, read by address: pieces are shared out among threads, sums are kept
// per piece and added in order, so that the result does not depend on the number of threads.
#include "adam.h"
#include "array.h"
#include "dispatch.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <vector>

#if defined(__linux__)
#include <dlfcn.h>
#endif

namespace nb = nanobind;
using namespace undrift;

namespace {

using Addresses = Array<const uint64_t, 1>;

constexpr size_t LOOKED_AT = 65536;       // numbers in one piece of the first phase, read at four places far apart
constexpr size_t STEPPED = 16384;         // and of the second: a few streams of it fit the second-level cache
constexpr size_t WORTH_A_THREAD = 200000; // numbers; below this a thread costs more than it saves

struct Job {
    std::vector<AdamPiece> pieces;
    std::vector<size_t> owner; // tensor of each piece
    std::vector<double> sums;  // `columns` per piece
    size_t total = 0, columns = 0;
};

void check(bool fits) {
    if (!fits) throw nb::value_error("adam kernels: arrays do not fit together");
}

const uint64_t *address(const Addresses &a, size_t n) {
    check(a.shape(0) == n);
    return a.data();
}

Job cut(size_t piece_size, size_t columns, int kind, const Addresses &p, const Addresses &g, const Addresses &m, const uint64_t *v,
        const uint64_t *average, const Indices &size, const Inputs &rows, const Indices &which, const Matrix &out) {
    const size_t n = p.shape(0);
    check(kind >= 0 && kind <= 2 && rows.shape(1) * sizeof(double) == sizeof(AdamRow));
    check(size.shape(0) == n && which.shape(0) == n && out.shape(0) == n && out.shape(1) == columns);
    const uint64_t *pp = address(p, n), *gg = address(g, n), *mm = address(m, n);
    const size_t wide = kind == ADAM_DOUBLE ? 8 : 4, narrow = kind == ADAM_BFLOAT ? 2 : wide;
    const AdamRow *first = reinterpret_cast<const AdamRow *>(rows.data());
    Job job;
    job.columns = columns;
    for (size_t i = 0; i < n; ++i) {
        check(size.data()[i] >= 0 && which.data()[i] >= 0 && (size_t)which.data()[i] < rows.shape(0));
        const size_t count = (size_t)size.data()[i];
        job.total += count;
        for (size_t at = 0; at < count; at += piece_size) {
            AdamPiece piece;
            piece.p = reinterpret_cast<void *>(pp[i] + at * narrow);
            piece.g = reinterpret_cast<const void *>(gg[i] + at * narrow);
            piece.m = reinterpret_cast<void *>(mm[i] + at * wide);
            piece.v = v && v[i] ? reinterpret_cast<void *>(v[i] + at * wide) : nullptr;
            piece.average = average && average[i] ? reinterpret_cast<void *>(average[i] + at * wide) : nullptr;
            piece.count = count - at < piece_size ? count - at : piece_size;
            piece.row = first + which.data()[i];
            job.pieces.push_back(piece);
            job.owner.push_back(i);
        }
    }
    job.sums.resize(columns * job.pieces.size());
    return job;
}

// The threads of an OpenMP runtime that the process has loaded (torch's), by the entry its compilers call. Threads of our
// own would compete with those, which wait in a loop for more work after every operation of torch.
using Team = void (*)(void (*)(void *), void *, unsigned threads, unsigned flags);
Team team() {
#if defined(__linux__)
    return reinterpret_cast<Team>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#else
    return nullptr;
#endif
}

template <class Take> void take_all(void *take) { (*static_cast<Take *>(take))(); }

template <class Act> void spread(const Job &job, size_t threads, const Act &act) {
    const size_t pieces = job.pieces.size();
    std::atomic<size_t> next{0};
    auto take = [&] {
        for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) act(i);
    };
    if (threads < 2 || job.total < WORTH_A_THREAD) return take();
    if (const Team run = team()) return run(&take_all<decltype(take)>, &take, (unsigned)threads, 0);
    if (threads > 1 + job.total / WORTH_A_THREAD) threads = 1 + job.total / WORTH_A_THREAD;
    run_parts(threads, 0, [&](size_t, double *) { take(); });
}

void add_up(const Job &job, double *out, size_t n) {
    for (size_t i = 0; i < job.columns * n; ++i) out[i] = 0.0;
    for (size_t k = 0; k < job.pieces.size(); ++k)
        for (size_t c = 0; c < job.columns; ++c)
            out[job.columns * job.owner[k] + c] += job.sums[job.columns * k + c];
}

void adam_measure(int kind, Addresses p, Addresses g, Addresses m, Indices size, Inputs rows, Indices which,
                  bool with_m, size_t threads, Matrix out) {
    Job job = cut(LOOKED_AT, 2, kind, p, g, m, nullptr, nullptr, size, rows, which, out);
    const AdamTable &loop = *table().adam;
    nb::gil_scoped_release unlocked;
    const size_t pieces = job.pieces.size();
    // Backwards: what was read last is still in the cache when the second phase starts at the front.
    spread(job, threads, [&](size_t i) {
        const size_t k = pieces - 1 - i;
        loop.measure(kind, job.pieces[k], with_m, &job.sums[2 * k]);
    });
    add_up(job, out.data(), out.shape(0));
}

void adam_apply(int kind, Addresses p, Addresses g, Addresses m, Addresses v, Addresses average, Indices size,
                Inputs rows, Indices which, size_t threads, Matrix out) {
    Job job = cut(STEPPED, 3, kind, p, g, m, address(v, p.shape(0)), address(average, p.shape(0)), size, rows, which, out);
    const AdamTable &loop = *table().adam;
    nb::gil_scoped_release unlocked;
    spread(job, threads, [&](size_t i) { loop.apply(kind, job.pieces[i], &job.sums[3 * i]); });
    add_up(job, out.data(), out.shape(0));
}

} // namespace

void bind_adam(nb::module_ &m) {
    m.def("adam_measure", &adam_measure, nb::arg("kind"), nb::arg("p").noconvert(), nb::arg("g").noconvert(),
          nb::arg("m").noconvert(), nb::arg("size").noconvert(), nb::arg("rows").noconvert(),
          nb::arg("which").noconvert(), nb::arg("with_m"), nb::arg("threads"), nb::arg("out").noconvert());
    m.def("adam_apply", &adam_apply, nb::arg("kind"), nb::arg("p").noconvert(), nb::arg("g").noconvert(),
          nb::arg("m").noconvert(), nb::arg("v").noconvert(), nb::arg("average").noconvert(),
          nb::arg("size").noconvert(), nb::arg("rows").noconvert(), nb::arg("which").noconvert(), nb::arg("threads"),
          nb::arg("out").noconvert());
}
