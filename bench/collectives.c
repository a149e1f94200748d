/* What ranks do together, on a backend: whether it is right, to the bit, and how long it takes.
 *
 *   mpirun -n N bench_collectives [BACKEND [RUNS]]
 *
 * All-reduces of 8 KB to 16 MB, with a residual; the same with a norm behind, fused and not, whose
 * bits must be the same, and so what a linear makes of it; columns gathered on rank 0; what rank 0
 * has, for all; rows passed from stage to stage. Times are those of one among many queued together,
 * as a step's are; on a GPU also within a CUDA graph. The fastest of several.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/rank_ops.h"
#include "backend/registry.h"
#include "backend/values.h"
#include "base/clock.h"
#include "base/half.h"
#include "bench.h"
#include "dist/collectives.h"

enum { MAX_FLOATS = 4 << 20, N_OPS = 64, MAX_DIM = 8192, MAX_RANKS = 64, MAX_NAME = 64 };

/* Rows and columns of norms: in registers or not, pushed, at once or in two, in several parts, and
 * of no whole scale blocks. */
static const size_t shapes[][2] = {{1, 4096},   {3, 256},   {24, 256},  {9, 2048}, {64, 4096},
                                   {100, 1024}, {7, 8192},  {70, 5120}, {33, 768}, {512, 512},
                                   {300, 4096}, {65, 7168}, {5, 300},   {9, 1000}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_OUT = 64, MAX_ROWS = 1024 };

typedef struct bench {
    ln_collectives all, group;
    ln_backend *backend;
    float *x, *residual, *out, *scratch; /* the backend's */
    float *normed, *product;
    float *weight, *bias;        /* [MAX_DIM] */
    ln_weight linears[N_SHAPES]; /* [N_OUT][columns] */
    float *host;                 /* [MAX_FLOATS] */
    ln_op ops[N_OPS];
    ln_batch batch;
    int n_runs; /* of which the fastest counts */
    size_t n_wrong;
} bench;

static float *reserve(bench *b, size_t n) {
    ln_error err = {0};
    void *memory;
    bench_check(b->backend->vtable->reserve(b->backend, n * sizeof(float), "floats", &memory, &err),
                &err);
    return memory;
}

/* Numbers whose sums depend on their order. */
static float number(size_t rank, size_t i) {
    float size = (float)(1u << (rank * 7 % 24));
    return size * (0.1f + (float)(i * 31 % 97)) * (i % 2 == 0 ? 1.0f : -1.0f);
}

static void fill(bench *b, float *memory, size_t rank, size_t n) {
    for (size_t i = 0; i < n; i++)
        b->host[i] = number(rank, i);
    b->backend->vtable->upload(b->backend, memory, b->host, n * sizeof *memory);
}

/* With what is not a number: what a kernel leaves out is not taken for right. */
static void spoil(bench *b, float *memory, size_t n) {
    memset(b->host, 0xff, n * sizeof *memory);
    b->backend->vtable->upload(b->backend, memory, b->host, n * sizeof *memory);
}

static void run(bench *b, size_t n_ops) {
    ln_error err = {0};
    bench_check(b->backend->vtable->run(b->backend, b->ops, n_ops, &err), &err);
    bench_check(ln_collectives_check(&b->all, &err), &err);
}

static const float *read_back(bench *b, float *memory, size_t n) {
    ln_error err = {0};
    void *host;
    bench_check(b->backend->vtable->read_back(b->backend, memory, n * sizeof *memory, &host, &err),
                &err);
    return host;
}

static ln_op all_reduce(bench *b, size_t n, const float *residual, float *out) {
    return (ln_op){.kind = LN_OP_ALL_REDUCE,
                   .layer = -1,
                   .all_reduce = {.ranks = &b->group,
                                  .n_rows = 1,
                                  .dim = n,
                                  .x = b->x,
                                  .residual = residual,
                                  .scratch = b->scratch,
                                  .out = out}};
}

static void check_sum(bench *b, size_t n, bool has_residual) {
    fill(b, b->x, b->all.rank, n);
    fill(b, b->residual, 3, n);
    b->ops[0] = all_reduce(b, n, has_residual ? b->residual : NULL, has_residual ? b->out : b->x);
    run(b, 1);
    const float *got = read_back(b, has_residual ? b->out : b->x, n);
    size_t n_wrong = 0;
    for (size_t i = 0; i < n; i++) {
        float sum = number(0, i);
        for (size_t rank = 1; rank < b->all.n_ranks; rank++)
            sum += number(rank, i);
        if (has_residual)
            sum = number(3, i) + sum;
        n_wrong += ln_bits_from_f32(sum) != ln_bits_from_f32(got[i]);
    }
    if (n_wrong > 0)
        printf("rank %zu: %zu of %zu sums are wrong\n", b->all.rank, n_wrong, n);
    b->n_wrong += n_wrong;
}

/* What follows an all-reduce in a model: a norm of the sum, or a norm that goes to a residual. */
typedef enum norm_place { AHEAD_OF_BLOCK, BEHIND_BLOCK } norm_place;

/* An all-reduce of rows and a norm behind it, as operations `at` and the next; numbered, so that
 * they can run as one kernel. */
static void record_norm(bench *b, size_t at, const ln_norm *norm, size_t n_rows, norm_place place) {
    bool is_ahead = place == AHEAD_OF_BLOCK;
    float *sum = is_ahead ? b->out : b->x;
    b->ops[at] = all_reduce(b, norm->dim, is_ahead ? b->residual : NULL, sum);
    b->ops[at].all_reduce.n_rows = n_rows;
    b->ops[at + 1] = (ln_op){.kind = LN_OP_NORM,
                             .layer = -1,
                             .norm = {.norm = norm,
                                      .n_rows = n_rows,
                                      .x = sum,
                                      .residual = is_ahead ? NULL : b->residual,
                                      .scale = 0.5f,
                                      .out = b->normed}};
    b->ops[at].batch = b->ops[at + 1].batch = &b->batch;
}

/* The kernel that makes both an all-reduce, which is the first operation, and a norm. */
static void find_fused(void *context, const ln_op *ops, size_t n_ops, const ln_kernel_use *use) {
    const char **kernel = context;
    (void)ops, (void)n_ops;
    if (use->first == 0 && use->n_ops == 2)
        *kernel = use->kernel;
}

/* Runs ops[n_ops], an all-reduce first, of which the norm's kernel is to take over the sum or not;
 * that kernel, or NULL. */
static const char *run_sum(bench *b, size_t n_ops, size_t n, bool fuses) {
    const char *kernel = NULL;
    ln_explainer explainer = {.tell = find_fused, .context = &kernel};
    fill(b, b->x, b->all.rank, n);
    fill(b, b->residual, 3, n);
    spoil(b, b->out, n);
    spoil(b, b->normed, n);
    spoil(b, b->product, MAX_ROWS * N_OUT);
    b->batch = (ln_batch){.n_tokens = 1};
    ln_values_number(b->ops, n_ops);
    if (!fuses)
        memset(b->ops[0].out, 0, sizeof b->ops[0].out);
    b->backend->explainer = &explainer;
    run(b, n_ops);
    b->backend->explainer = NULL;
    return kernel;
}

/* Sums and norms into b->host. */
static const char *run_norm(bench *b, const ln_norm *norm, size_t n_rows, norm_place place,
                            bool fuses) {
    size_t n = n_rows * norm->dim;
    record_norm(b, 0, norm, n_rows, place);
    b->ops[0].kept = fuses; /* which is read below */
    const char *kernel = run_sum(b, 2, n, fuses);
    memcpy(b->host, read_back(b, b->ops[1].norm.out, n), n * sizeof *b->host);
    memcpy(b->host + n, read_back(b, b->ops[0].all_reduce.out, n), n * sizeof *b->host);
    return kernel;
}

/* What a linear makes of the norms into b->host; nobody else reads these, nor perhaps the sums. */
static const char *run_linear(bench *b, const ln_norm *norm, const ln_weight *weight, size_t n_rows,
                              norm_place place, bool fuses) {
    record_norm(b, 0, norm, n_rows, place);
    b->ops[2] = (ln_op){
        .kind = LN_OP_LINEAR,
        .layer = -1,
        .batch = &b->batch,
        .linear = {
            .weight = weight, .n_rows = n_rows, .x = b->normed, .scale = 1.0f, .out = b->product}};
    const char *kernel = run_sum(b, 3, n_rows * norm->dim, fuses);
    memcpy(b->host, read_back(b, b->product, n_rows * N_OUT), n_rows * N_OUT * sizeof *b->host);
    return kernel;
}

/* Ranks that sum in another kernel (NULL: apart) than this one: wrong even where they end. */
static size_t count_others(bench *b, const char *kernel) {
    ln_error err = {0};
    char own[MAX_NAME] = "", all[MAX_RANKS][MAX_NAME];
    size_t n_others = 0;
    if (b->all.n_ranks > MAX_RANKS)
        exit(1);
    if (kernel != NULL)
        (void)snprintf(own, sizeof own, "%s", kernel);
    bench_check(ln_all_gather(&b->all, own, sizeof own, all, &err), &err);
    for (size_t rank = 0; rank < b->all.n_ranks; rank++)
        n_others += memcmp(all[rank], own, sizeof own) != 0;
    if (n_others > 0)
        printf("rank %zu: %zu ranks sum in other kernels\n", b->all.rank, n_others);
    return n_others;
}

/* How many of b->host[n] differ. */
static size_t count_wrong(const bench *b, const float *want, size_t n) {
    size_t n_wrong = 0;
    for (size_t i = 0; i < n; i++)
        n_wrong += ln_bits_from_f32(want[i]) != ln_bits_from_f32(b->host[i]);
    if (n_wrong > 0)
        printf("rank %zu: %zu of %zu sums, norms or products differ when fused\n", b->all.rank,
               n_wrong, n);
    return n_wrong;
}

static void check_norm(bench *b, size_t shape, ln_norm_kind kind, norm_place place) {
    size_t n_rows = shapes[shape][0], dim = shapes[shape][1], n = 2 * n_rows * dim;
    const ln_norm norm = {.kind = kind,
                          .eps = 1e-5f,
                          .dim = dim,
                          .weight = b->weight,
                          .bias = kind == LN_NORM_LAYER ? b->bias : NULL};
    const ln_weight *weight = &b->linears[shape];
    float *apart = malloc(n * sizeof *apart);
    if (apart == NULL)
        exit(1);
    (void)run_norm(b, &norm, n_rows, place, false);
    memcpy(apart, b->host, n * sizeof *apart);
    const char *kernel = run_norm(b, &norm, n_rows, place, true);
    b->n_wrong += count_wrong(b, apart, n) + count_others(b, kernel);
    (void)run_linear(b, &norm, weight, n_rows, place, false);
    memcpy(apart, b->host, n_rows * N_OUT * sizeof *apart);
    const char *ahead = run_linear(b, &norm, weight, n_rows, place, true);
    b->n_wrong += count_wrong(b, apart, n_rows * N_OUT) + count_others(b, ahead);
    free(apart);
    if (b->all.rank == 0)
        printf("%4zu rows of %4zu, norm %d, %s: %s; ahead of a linear %s\n", n_rows, dim, (int)kind,
               place == AHEAD_OF_BLOCK ? "behind a residual" : "ahead of one",
               kernel != NULL ? kernel : "apart", ahead != NULL ? ahead : "apart");
}

static void upload(bench *b, float *to, float begin, float step) {
    for (size_t i = 0; i < MAX_DIM; i++)
        b->host[i] = begin + step * (float)(i % 13);
    b->backend->vtable->upload(b->backend, to, b->host, MAX_DIM * sizeof *b->host);
}

static void check_norms(bench *b) {
    upload(b, b->weight, 1.0f, 0.01f);
    upload(b, b->bias, -0.5f, 0.125f);
    for (size_t i = 0; i < N_SHAPES; i++) {
        check_norm(b, i, LN_NORM_RMS, AHEAD_OF_BLOCK);
        check_norm(b, i, LN_NORM_RMS_PLUS_ONE, BEHIND_BLOCK);
        check_norm(b, i, LN_NORM_LAYER, AHEAD_OF_BLOCK);
    }
}

/* Linears of bf16 for all shapes. */
static void prepare_linears(bench *b) {
    static uint16_t values[N_OUT * MAX_DIM]; /* a backend may use them where they lie */
    ln_error err = {0};
    for (size_t i = 0; i < N_OUT * MAX_DIM; i++)
        values[i] = ln_bf16_from_f32(number(0, i));
    for (size_t i = 0; i < N_SHAPES; i++) {
        size_t n_cols = shapes[i][1], bytes;
        const ln_tensor tensor = {.name = "w",
                                  .dtype = LN_DTYPE_BF16,
                                  .n_dims = 2,
                                  .dims = {N_OUT, n_cols},
                                  .n_elems = N_OUT * n_cols,
                                  .bytes = N_OUT * n_cols * sizeof *values,
                                  .data = (const uint8_t *)values};
        const ln_weight_request request = {
            .n_sources = 1,
            .sources = {{.tensor = &tensor, .n_rows = N_OUT, .run_rows = N_OUT}},
            .n_cols = n_cols};
        bench_check(b->backend->vtable->plan_weight(b->backend, &request, &bytes, &err), &err);
        void *memory = bytes > 0 ? reserve(b, bytes / sizeof(float) + 1) : NULL;
        bench_check(
            b->backend->vtable->prepare_weight(b->backend, &request, memory, &b->linears[i], &err),
            &err);
    }
}

static void check_gather(bench *b, size_t n_rows, size_t n_cols) {
    size_t begin = ln_rank_begin(n_cols, b->all.rank, b->all.n_ranks), n_wrong = 0;
    size_t width = ln_rank_begin(n_cols, b->all.rank + 1, b->all.n_ranks) - begin;
    for (size_t i = 0; i < n_rows * width; i++)
        b->host[i] = (float)(i / width * 1000 + begin + i % width);
    b->backend->vtable->upload(b->backend, b->x, b->host, n_rows * width * sizeof(float));
    b->ops[0] = (ln_op){.kind = LN_OP_RANK_GATHER,
                        .layer = -1,
                        .rank_gather = {.ranks = &b->group,
                                        .n_rows = n_rows,
                                        .n_cols = n_cols,
                                        .x = b->x,
                                        .scratch = b->scratch,
                                        .out = b->all.rank == 0 ? b->out : NULL}};
    run(b, 1);
    const float *got = read_back(b, b->out, n_rows * n_cols);
    for (size_t i = 0; i < n_rows * n_cols && b->all.rank == 0; i++)
        n_wrong += got[i] != (float)(i / n_cols * 1000 + i % n_cols);
    if (n_wrong > 0)
        printf("%zu of %zu gathered columns are wrong\n", n_wrong, n_rows * n_cols);
    b->n_wrong += n_wrong;
}

/* Around all stages: each adds what it has to what comes, and rank 0 gets what the last one has. */
static void check_pass(bench *b, size_t n) {
    size_t rank = b->all.rank, last = b->all.n_ranks - 1, n_ops = 0, n_wrong = 0;
    ln_op op = {.kind = LN_OP_RANK_PASS,
                .layer = -1,
                .rank_pass = {.ranks = &b->all, .n_rows = 1, .dim = n, .x = b->x}};
    fill(b, b->x, rank, n);
    op.rank_pass.other = rank > 0 ? rank - 1 : 1;
    op.rank_pass.sends = rank == 0;
    b->ops[n_ops++] = op;
    op.rank_pass.other = rank < last ? rank + 1 : 0;
    op.rank_pass.sends = true;
    if (rank > 0)
        b->ops[n_ops++] = op;
    op.rank_pass.other = last;
    op.rank_pass.sends = false;
    op.rank_pass.x = b->out;
    if (rank == 0)
        b->ops[n_ops++] = op;
    run(b, n_ops);
    const float *got = read_back(b, rank == 0 ? b->out : b->x, n);
    for (size_t i = 0; i < n; i++)
        n_wrong += got[i] != number(0, i);
    if (n_wrong > 0)
        printf("rank %zu: %zu of %zu passed floats are wrong\n", rank, n_wrong, n);
    b->n_wrong += n_wrong;
}

/* What the first has comes to all others, again and again. */
static void check_share(bench *b, size_t n) {
    enum { N_TIMES = 5 };
    size_t n_wrong = 0;
    fill(b, b->x, b->all.rank, n);
    for (size_t i = 0; i < N_TIMES; i++)
        b->ops[i] = (ln_op){.kind = LN_OP_RANK_PASS,
                            .layer = -1,
                            .rank_pass = {.ranks = &b->group,
                                          .other = LN_NO_RANK,
                                          .sends = b->all.rank == 0,
                                          .n_rows = n,
                                          .dim = 1,
                                          .x = b->x}};
    run(b, N_TIMES);
    const float *got = read_back(b, b->x, n);
    for (size_t i = 0; i < n; i++)
        n_wrong += got[i] != number(0, i);
    if (n_wrong > 0)
        printf("rank %zu: %zu of %zu shared floats are wrong\n", b->all.rank, n_wrong, n);
    b->n_wrong += n_wrong;
}

/* Microseconds of one of N_OPS, ahead of which all run once: a graph is captured then. */
static double time_one(bench *b) {
    double best = 1e30;
    run(b, N_OPS);
    for (int i = 0; i < b->n_runs; i++) {
        (void)ln_barrier(&b->all, NULL);
        uint64_t begin_ns = ln_clock_ns();
        run(b, N_OPS);
        double us = (double)(ln_clock_ns() - begin_ns) * 1e-3 / N_OPS;
        best = us < best ? us : best;
    }
    return best;
}

static double measure(bench *b, size_t n, bool in_graph) {
    b->batch = (ln_batch){.repeats = in_graph, .n_tokens = in_graph ? 0 : 1};
    for (size_t i = 0; i < N_OPS; i++) {
        b->ops[i] = all_reduce(b, n, b->residual, b->out);
        b->ops[i].batch = &b->batch;
    }
    return time_one(b);
}

/* The same of an all-reduce and a norm, which together are two of N_OPS. */
static double measure_norm(bench *b, size_t n_rows, size_t dim, bool fuses) {
    const ln_norm norm = {.kind = LN_NORM_RMS, .eps = 1e-5f, .dim = dim, .weight = b->weight};
    b->batch = (ln_batch){.repeats = true};
    for (size_t i = 0; i < N_OPS; i += 2)
        record_norm(b, i, &norm, n_rows, AHEAD_OF_BLOCK);
    ln_values_number(b->ops, N_OPS);
    for (size_t i = 0; i < N_OPS && !fuses; i++)
        memset(b->ops[i].out, 0, sizeof b->ops[i].out);
    return 2 * time_one(b);
}

static void join(bench *b, const ln_mesh *mesh) {
    ln_step_limits limits = {.max_tokens = MAX_ROWS,
                             .max_seqs = 1,
                             .max_ctx = 1,
                             .max_blocks = 1,
                             .max_width = MAX_DIM,
                             .max_heads = 1,
                             .max_head_dim = 1,
                             .max_read_bytes = MAX_FLOATS * sizeof(float),
                             .mesh = *mesh};
    const ln_rank_groups groups = {&b->all, &b->group, &b->group, false};
    ln_error err = {0};
    limits.mesh.rank = b->all.rank;
    bench_check(b->backend->vtable->reserve_scratch(b->backend, &limits, &err), &err);
    if (b->backend->vtable->join_ranks != NULL)
        bench_check(b->backend->vtable->join_ranks(b->backend, &groups, &err), &err);
}

static void leave(bench *b) {
    if (b->backend->vtable->leave_ranks != NULL)
        b->backend->vtable->leave_ranks(b->backend);
}

static void show_times(bench *b) {
    static const size_t kilobytes[] = {8, 32, 128, 512, 1024, 4096, 16384};
    for (size_t i = 0; i < sizeof kilobytes / sizeof *kilobytes; i++) {
        size_t n = kilobytes[i] * 1024 / sizeof(float);
        double queued = measure(b, n, false);
        double in_graph = b->backend->vtable->on_device ? measure(b, n, true) : queued;
        if (b->all.rank == 0)
            printf("all-reduce of %6zu KB: %9.1f us queued, %9.1f us in a graph\n", kilobytes[i],
                   queued, in_graph);
        fflush(stdout);
    }
}

static void show_norm_times(bench *b) {
    static const size_t timed[][2] = {{1, 4096},   {8, 4096},   {16, 2048},  {64, 2048},
                                      {64, 4096},  {64, 8192},  {128, 4096}, {256, 4096},
                                      {512, 4096}, {1024, 4096}};
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
        double apart = measure_norm(b, timed[i][0], timed[i][1], false);
        double fused = measure_norm(b, timed[i][0], timed[i][1], true);
        if (b->all.rank == 0)
            printf("all-reduce and norm of %4zu rows of %4zu: %9.1f us apart, %9.1f us fused\n",
                   timed[i][0], timed[i][1], apart, fused);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1, 3, 64, 2048, 2049, 5000, 262144, 1048577, MAX_FLOATS};
    static bench b;
    ln_error err = {0};
    b.n_runs = argc > 2 ? atoi(argv[2]) : 8;
    const char *n_ranks = getenv("OMPI_COMM_WORLD_SIZE");
    size_t n = n_ranks != NULL ? (size_t)atoi(n_ranks) : 1;
    bench_check(ln_collectives_open_mpi(n, &b.all, &err), &err);
    b.group = ln_collectives_group(&b.all, 0, n);
    ln_backend_options options = {
        .isa = "auto", .n_threads = 1, .n_local = b.all.n_local, .local_rank = b.all.local_rank};
    bench_check(ln_backend_create(argc > 1 ? argv[1] : "cpu", &options, &b.backend, &err), &err);
    b.x = reserve(&b, MAX_FLOATS);
    b.residual = reserve(&b, MAX_FLOATS);
    b.out = reserve(&b, MAX_FLOATS);
    b.scratch = reserve(&b, ln_collectives_scratch(n, MAX_FLOATS));
    b.normed = reserve(&b, MAX_FLOATS);
    b.product = reserve(&b, MAX_ROWS * N_OUT);
    b.weight = reserve(&b, MAX_DIM);
    b.bias = reserve(&b, MAX_DIM);
    b.host = malloc(MAX_FLOATS * sizeof(float));
    if (b.host == NULL)
        return 1;
    prepare_linears(&b);
    join(&b, &(ln_mesh){.n_tensor = n, .n_expert = 1, .n_stages = 1});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_sum(&b, sizes[i], true);
        check_sum(&b, sizes[i], false);
    }
    check_norms(&b);
    check_gather(&b, 1, 1000);
    check_gather(&b, 30, 100001);
    check_share(&b, 1);
    check_share(&b, 8191);
    check_share(&b, 3000001);
    show_times(&b);
    show_norm_times(&b);
    leave(&b); /* as memory that others still read goes */
    if (n > 1) {
        join(&b, &(ln_mesh){.n_tensor = 1, .n_expert = 1, .n_stages = n});
        check_pass(&b, 5000);
        check_pass(&b, MAX_FLOATS);
    }
    printf("rank %zu on %s %s: %zu wrong\n", b.all.rank, b.backend->vtable->name, b.backend->arch,
           b.n_wrong);
    leave(&b);
    ln_collectives_close(&b.all);
    b.backend->vtable->destroy(b.backend);
    free(b.host);
    return b.n_wrong > 0;
}
