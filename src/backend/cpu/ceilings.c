#include "backend/cpu/ceilings.h"

#include "base/clock.h"

enum { SHARE_BYTES = LN_CPU_MEASURE_BYTES, SPIN_TURNS = 1 << 20, RUNS = 5 };

typedef struct measurement {
    uint8_t *memory; /* [threads][SHARE_BYTES] */
    size_t (*spin)(size_t turns);
    size_t products; /* of a turn, as worker 0 heard */
    uint64_t sink[1024];
} measurement;

static void fill_share(void *context, size_t worker) {
    measurement *m = context;
    for (size_t i = 0; i < SHARE_BYTES; i += 64)
        m->memory[worker * SHARE_BYTES + i] = 1;
}

static void read_share(void *context, size_t worker) {
    measurement *m = context;
    const uint64_t *words = (const uint64_t *)(const void *)(m->memory + worker * SHARE_BYTES);
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < SHARE_BYTES / sizeof *words; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += words[i + j];
    for (size_t j = 0; j < 8; j++)
        m->sink[worker] += sums[j];
}

static void spin_share(void *context, size_t worker) {
    measurement *m = context;
    size_t products = m->spin(SPIN_TURNS);
    if (worker == 0)
        m->products = products;
}

static double best_seconds(ln_pool *pool, ln_pool_fn fn, measurement *m) {
    uint64_t best = UINT64_MAX;
    for (size_t run = 0; run < RUNS; run++) {
        uint64_t begin = ln_clock_ns();
        ln_pool_run(pool, fn, m);
        uint64_t took = ln_clock_ns() - begin;
        best = took < best ? took : best;
    }
    return (double)best * 1e-9;
}

static double measure_spin(ln_pool *pool, size_t (*spin)(size_t turns)) {
    if (spin == NULL)
        return 0;
    measurement m = {.spin = spin};
    double seconds = best_seconds(pool, spin_share, &m);
    return (double)m.products * SPIN_TURNS * (double)ln_pool_size(pool) / seconds;
}

void ln_cpu_measure(ln_pool *pool, const ln_cpu_kernels *kernels, void *memory,
                    ln_ceilings *ceilings) {
    measurement m = {.memory = memory};
    ln_pool_run(pool, fill_share, &m);
    ceilings->read_bytes =
        (double)ln_pool_size(pool) * SHARE_BYTES / best_seconds(pool, read_share, &m);
    ceilings->int8_products = measure_spin(pool, kernels->spin_int8);
    ceilings->float_products = measure_spin(pool, kernels->spin_float);
}
