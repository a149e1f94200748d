/* Copies of KV blocks out to the swap space and in again, in GB/s: the space as a backend reserves
 * it, and as ordinary memory.
 *
 *   bench_swap [BACKEND]
 *
 * 32 layers of 8 KV heads of 128 numbers of 16 bits, blocks of 16 tokens; 64 blocks in a step. The
 * fastest of several. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "base/layout.h"
#include "bench.h"

enum { N_LAYERS = 32, N_BLOCKS = 64, BLOCK_TOKENS = 16, N_HEADS = 8, DIM = 128, N_RUNS = 8 };

static size_t array_bytes(void) {
    return N_BLOCKS * N_HEADS * ln_kv_head_bytes(LN_KV_F16, BLOCK_TOKENS, DIM);
}

static void bind(ln_kv_layer *layers, char *memory) {
    for (size_t i = 0; i < N_LAYERS; i++)
        layers[i] = (ln_kv_layer){.dtype = LN_KV_F16,
                                  .block_tokens = BLOCK_TOKENS,
                                  .n_heads = N_HEADS,
                                  .k_dim = DIM,
                                  .v_dim = DIM,
                                  .v_stride = DIM,
                                  .k = memory + 2 * i * array_bytes(),
                                  .v = memory + (2 * i + 1) * array_bytes()};
}

/* Bytes per second of N_BLOCKS blocks in one direction. */
static double measure(ln_backend *backend, const ln_kv_layer *layers, const ln_kv_layer *swap,
                      ln_copy_direction direction) {
    ln_block_copy copies[N_BLOCKS];
    ln_error err = {0};
    double best = 0;
    for (int32_t i = 0; i < N_BLOCKS; i++)
        copies[i] = (ln_block_copy){.from = i, .to = N_BLOCKS - 1 - i, .direction = direction};
    ln_op op = {.kind = LN_OP_COPY,
                .layer = -1,
                .copy = {.layers = layers,
                         .swap = swap,
                         .n_layers = N_LAYERS,
                         .copies = copies,
                         .n_copies = N_BLOCKS}};
    for (int run = 0; run < N_RUNS; run++) {
        uint64_t begin_ns = ln_clock_ns();
        bench_check(backend->vtable->run(backend, &op, 1, &err), &err);
        double seconds = (double)(ln_clock_ns() - begin_ns) * 1e-9;
        double rate = 2.0 * N_LAYERS * (double)array_bytes() / seconds;
        best = rate > best ? rate : best;
    }
    return best;
}

static void show(ln_backend *backend, const ln_kv_layer *layers, void *memory, const char *name) {
    ln_kv_layer swap[N_LAYERS];
    bind(swap, memory);
    double out = measure(backend, layers, swap, LN_COPY_OUT);
    double in = measure(backend, layers, swap, LN_COPY_IN);
    printf("%-10s out %6.1f GB/s, in %6.1f GB/s\n", name, out * 1e-9, in * 1e-9);
}

int main(int argc, char **argv) {
    ln_backend *backend;
    ln_error err = {0};
    ln_backend_options options = {.isa = "auto", .n_threads = 8};
    size_t bytes = 2 * N_LAYERS * array_bytes();
    ln_kv_layer layers[N_LAYERS];
    void *cache, *memory;
    bench_check(ln_backend_create(argc > 1 ? argv[1] : "auto", &options, &backend, &err), &err);
    bench_check(backend->vtable->reserve_scratch(backend, &(ln_step_limits){.max_tokens = 1}, &err),
                &err);
    bench_check(backend->vtable->reserve(backend, bytes, "cache", &cache, &err), &err);
    bind(layers, cache);
    bench_check(ln_reserve(bytes, "swap space", &memory, &err), &err);
    show(backend, layers, memory, "ordinary");
    ln_unreserve(memory, bytes);
    if (backend->vtable->reserve_host != NULL) {
        bench_check(backend->vtable->reserve_host(backend, bytes, "swap space", &memory, &err),
                    &err);
        show(backend, layers, memory, "reserved");
        backend->vtable->release_host(backend, memory, bytes);
    }
    backend->vtable->release(backend, cache, bytes);
    backend->vtable->destroy(backend);
    return 0;
}
