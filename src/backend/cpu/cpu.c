#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/cpu/bulk.h"
#include "backend/cpu/ceilings.h"
#include "backend/cpu/lazy.h"
#include "backend/cpu/pages.h"
#include "backend/cpu/prepare.h"
#include "backend/cpu/sets.h"
#include "backend/cpu/small.h"
#include "base/clock.h"
#include "base/host/available_memory.h"
#include "base/layout.h"
#include "base/pool.h"

enum {
    QUEUE_STRIDE = 4,
    READ_BYTES = 128 << 10, /* of a file that a thread packs, at a time */
    AHEAD_BYTES = 4096      /* as a worker's `ahead` */
};

typedef struct cpu_backend {
    ln_backend base;
    const ln_cpu_kernels *kernels;
    bool exact, lazy, adapts, rounds_f32;
    size_t lazy_bytes; /* of weights that may be lazy, at most; 0: not asked yet */
    ln_lazy_list waiting;
    ln_bulk *bulk;          /* while weights are loaded; NULL: none was put off */
    bool keeps_bulk;        /* longer than that */
    ln_pool *pool, *alone;  /* all threads; the caller, for small steps */
    ln_cpu_worker *workers; /* [pool size] */
    ln_cpu_queue *queues;   /* [pool size][QUEUE_STRIDE]: cache lines of their own */
    void *scratch;
    size_t scratch_bytes;
    const ln_op *ops; /* [n_ops], while a step runs */
    size_t n_ops;
} cpu_backend;

static void destroy(ln_backend *backend) {
    cpu_backend *self = (cpu_backend *)backend;
    if (self == NULL)
        return;
    ln_pool_destroy(self->pool);
    ln_pool_destroy(self->alone);
    ln_unreserve(self->scratch, self->scratch_bytes);
    ln_lazy_free(&self->waiting);
    free(self->bulk);
    free(self->workers);
    free(self->queues);
    free(self);
}

static bool supports_weight(const ln_backend *backend, ln_dtype dtype) {
    return ((const cpu_backend *)backend)->kernels->supports_weight(dtype);
}

/* The layout of a weight's prepared copy. */
static ln_pack choose_pack(const cpu_backend *self, const ln_weight_request *request) {
    ln_dtype dtype = ln_weight_source_dtype(&request->sources[0]);
    ln_pack pack = ln_pack_of(dtype);
    bool packs = !self->exact && !request->as_f32 && request->use != LN_USE_TABLE &&
                 (self->kernels->packs >> pack & 1) != 0;
    if (dtype == LN_DTYPE_F32)
        packs &= request->rounds_f32 && self->rounds_f32;
    return packs ? pack : LN_PACK_NONE;
}

static ln_status plan_weight(const ln_backend *backend, const ln_weight_request *request,
                             size_t *bytes, ln_error *err) {
    return ln_cpu_plan_weight(request, choose_pack((const cpu_backend *)backend, request), bytes,
                              err);
}

static size_t available_bytes(const ln_backend *backend) {
    (void)backend;
    return ln_host_available_memory("");
}

/* A matrix may be packed by runs, if it is asked for: as long as the file stays in the page cache
 * meanwhile, beside what is packed, which it does where half of the free memory holds either. */
static bool can_wait(cpu_backend *self, const ln_weight_request *request, size_t bytes) {
    if (!self->lazy || !ln_lazy_can(request))
        return false;
    if (self->lazy_bytes == 0)
        self->lazy_bytes = available_bytes(&self->base) / 2;
    return self->waiting.total_bytes + bytes <= self->lazy_bytes;
}

/* No step runs, so threads read into their working memory; what stays in a core's cache is
 * enough. */
static ln_cpu_preparer make_preparer(const cpu_backend *self) {
    size_t bytes = self->scratch_bytes / ln_pool_size(self->pool); /* the shared ones too */
    return (ln_cpu_preparer){.pool = self->pool,
                             .packer = self->kernels->packer,
                             .buffers = self->scratch,
                             .buffer_bytes = bytes < READ_BYTES ? bytes : READ_BYTES,
                             .room = self->scratch,
                             .room_bytes = bytes};
}

static ln_status prepare_weight(ln_backend *backend, const ln_weight_request *request, void *memory,
                                ln_weight *weight, ln_error *err) {
    cpu_backend *self = (cpu_backend *)backend;
    ln_cpu_preparer preparer = make_preparer(self);
    ln_pack pack = choose_pack(self, request);
    size_t bytes;
    LN_TRY(ln_cpu_plan_weight(request, pack, &bytes, err));
    ln_cpu_advise_huge_pages(memory, bytes,
                             self->lazy ? (size_t)sysconf(_SC_PAGESIZE) : LN_HUGE_PAGE_BYTES);
    if (pack != LN_PACK_NONE && can_wait(self, request, bytes))
        return ln_lazy_add(&self->waiting, request, pack, memory, weight, err);
    if (!ln_bulk_can(&preparer, request, pack))
        return ln_cpu_prepare_weight(request, pack, &preparer, memory, weight, err);
    self->keeps_bulk |= request->copies; /* which come again between runs */
    if (self->bulk == NULL && (self->bulk = calloc(1, sizeof *self->bulk)) == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory loading weights");
    return ln_bulk_add(self->bulk, &preparer, request, pack, memory, weight, err);
}

static ln_status finish_weights(ln_backend *backend, ln_error *err) {
    cpu_backend *self = (cpu_backend *)backend;
    ln_cpu_preparer preparer = make_preparer(self);
    if (self->bulk == NULL)
        return LINNET_OK;
    ln_status status = ln_bulk_finish(self->bulk, &preparer, err);
    if (!self->keeps_bulk) {
        free(self->bulk);
        self->bulk = NULL;
    }
    return status;
}

/* Floats for the kernels, in whole cache lines. */
static size_t kernel_scratch(const cpu_backend *self, const ln_step_limits *limits) {
    size_t per_line = LN_LAYOUT_ALIGN / sizeof(float);
    return (self->kernels->plan_scratch(limits) + per_line - 1) / per_line * per_line;
}

/* A worker's floats: behind the kernels', room for panels of weights that are not packed yet. */
static size_t worker_scratch(const cpu_backend *self, const ln_step_limits *limits) {
    bool may_wait = !self->exact && self->kernels->packs != 0;
    size_t room = may_wait ? ln_lazy_room_bytes(limits->max_width) / sizeof(float) : 0;
    return kernel_scratch(self, limits) + room;
}

static size_t plan_shared(const cpu_backend *self, const ln_step_limits *limits) {
    return self->kernels->plan_shared != NULL ? self->kernels->plan_shared(limits) : 0;
}

static size_t plan_scratch(const ln_backend *backend, const ln_step_limits *limits) {
    const cpu_backend *self = (const cpu_backend *)backend;
    return worker_scratch(self, limits) * ln_pool_size(self->pool) * sizeof(float) +
           plan_shared(self, limits);
}

static ln_status reserve_scratch(ln_backend *backend, const ln_step_limits *limits, ln_error *err) {
    cpu_backend *self = (cpu_backend *)backend;
    size_t bytes = plan_scratch(backend, limits);
    LN_TRY(ln_reserve(bytes, "working memory of the threads", &self->scratch, err));
    self->scratch_bytes = bytes;
    size_t n_floats = worker_scratch(self, limits);
    for (size_t i = 0; i < ln_pool_size(self->pool); i++)
        self->workers[i].scratch = (float *)self->scratch + i * n_floats;
    for (size_t i = 0; i < ln_pool_size(self->pool); i++)
        self->workers[i].panels =
            (uint8_t *)(self->workers[i].scratch + kernel_scratch(self, limits));
    for (size_t i = 0; i < ln_pool_size(self->pool); i++)
        self->workers[i].shared = (float *)self->scratch + ln_pool_size(self->pool) * n_floats;
    return LINNET_OK;
}

static ln_status reserve(ln_backend *backend, size_t bytes, const char *what, void **memory,
                         ln_error *err) {
    (void)backend;
    return ln_reserve(bytes, what, memory, err);
}

static void release(ln_backend *backend, void *memory, size_t bytes) {
    (void)backend;
    ln_unreserve(memory, bytes);
}

static void upload(ln_backend *backend, void *memory, const void *host, size_t bytes) {
    (void)backend;
    memcpy(memory, host, bytes);
}

static ln_status measure(ln_backend *backend, ln_ceilings *ceilings, ln_error *err) {
    cpu_backend *self = (cpu_backend *)backend;
    size_t bytes = ln_pool_size(self->pool) * LN_CPU_MEASURE_BYTES;
    void *memory;
    LN_TRY(reserve(backend, bytes, "memory to measure reading with", &memory, err));
    ln_cpu_advise_huge_pages(memory, bytes, LN_HUGE_PAGE_BYTES);
    ln_cpu_measure(self->pool, self->kernels, memory, ceilings);
    release(backend, memory, bytes);
    return LINNET_OK;
}

/* Adds what a linear multiplies and reads. */
static void count_linear(const ln_op_linear *p, ln_profile *profile) {
    size_t n_weights = p->groups.n_groups > 0 ? p->groups.n_groups : 1;
    size_t n_matrices = p->gate != NULL ? 2 : 1, n_rows = p->weight->n_rows;
    uint64_t products = (uint64_t)n_matrices * n_rows * p->weight->n_cols * p->n_rows;
    bool is_float = ln_dtype_block_elems(p->weight->dtype) == 1;
    *(is_float ? &profile->float_products : &profile->int8_products) += products;
    for (size_t i = 0; i < n_weights && p->n_rows > 0; i++)
        if (p->groups.order == NULL || p->groups.starts[i] < p->groups.starts[i + 1])
            profile->weight_bytes += (uint64_t)n_matrices * n_rows * p->weight[i].row_bytes;
}

/* Whether a linear needs no barrier behind the linear before it: both read the same rows of x, and
 * neither reads what the other writes. */
static bool joins(const ln_op *before, const ln_op *op) {
    const ln_op_linear *a = &before->linear, *b = &op->linear;
    return before->kind == LN_OP_LINEAR && op->kind == LN_OP_LINEAR && a->x == b->x &&
           a->n_rows == b->n_rows && a->x_stride == b->x_stride && a->groups.n_groups == 0 &&
           b->groups.n_groups == 0 && a->rows_per_x <= 1 && b->rows_per_x <= 1 &&
           a->residual == NULL && b->residual == NULL && a->weight->n_cols == b->weight->n_cols;
}

#if defined(__x86_64__)
static unsigned flush_subnormals(void) {
    enum { SUBNORMALS_ARE_ZERO = 0x8040 }; /* flush-to-zero and denormals-are-zero of MXCSR */
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | SUBNORMALS_ARE_ZERO);
    return mode;
}

static void restore_subnormals(unsigned mode) {
    _mm_setcsr(mode);
}
#else
static unsigned flush_subnormals(void) {
    return 0;
}

static void restore_subnormals(unsigned mode) {
    (void)mode;
}
#endif

/* What scans decay becomes subnormal sooner or later, and an instruction that meets such a number
 * takes many times as long on Intel's processors: so they count as zero there, and nowhere else, as
 * the mode is the thread's, and one thread is the caller's. */
static void run_op(const cpu_backend *self, const ln_op *op, const ln_cpu_worker *worker) {
    bool flushes = op->kind == LN_OP_SCAN;
    unsigned mode = flushes ? flush_subnormals() : 0;
    self->kernels->kernels[op->kind](op, worker);
    if (flushes)
        restore_subnormals(mode);
}

static void walk(cpu_backend *self, ln_cpu_worker *worker) {
    ln_profile *profile = worker->index == 0 ? self->base.profile : NULL;
    uint64_t before = profile != NULL ? ln_clock_ns() : 0;
    *worker->queue = (ln_cpu_queue){0};
    worker->joins = NULL;
    for (size_t i = 0; i < self->n_ops; i++) {
        const ln_op *op = &self->ops[i];
        run_op(self, op, worker);
        worker->joins = i + 1 < self->n_ops && joins(op, op + 1) ? op : NULL;
        if (worker->joins == NULL)
            ln_cpu_barrier(worker);
        if (profile == NULL)
            continue;
        uint64_t now = ln_clock_ns();
        profile->ns[op->kind] += now - before;
        profile->n_ops[op->kind]++;
        if (op->kind == LN_OP_LINEAR)
            count_linear(&op->linear, profile);
        before = now;
    }
}

static void walk_share(void *context, size_t index) {
    cpu_backend *self = context;
    walk(self, &self->workers[index]);
}

/* Operations run one by one, but that linears of the same x share its conversion. */
static void explain(const cpu_backend *self) {
    static const char apart[] = "the CPU runs operations one by one";
    const ln_explainer *explainer = self->base.explainer;
    for (size_t i = 0, n; i < self->n_ops; i += n) {
        const ln_op *ops = &self->ops[i];
        for (n = 1; i + n < self->n_ops && joins(&ops[n - 1], &ops[n]);)
            n++;
        ln_kernel_use use = {i, n, self->kernels->isa, n > 1 ? NULL : apart};
        explainer->tell(explainer->context, self->ops, self->n_ops, &use);
    }
}

static ln_status run(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    cpu_backend *self = (cpu_backend *)backend;
    self->ops = ops;
    self->n_ops = n_ops;
    if (backend->explainer != NULL)
        explain(self);
    ln_lazy_begin(&self->waiting, ops, n_ops);
    ln_cpu_advise_huge_cache(ops, n_ops);
    if (self->adapts && ln_cpu_is_small(ops, n_ops)) {
        ln_cpu_worker alone = self->workers[0];
        alone.count = 1;
        alone.pool = self->alone;
        walk(self, &alone);
    } else {
        ln_pool_run(self->pool, walk_share, self);
    }
    return ln_lazy_end(&self->waiting, err);
}

static void share(ln_backend *backend, ln_pool_fn fn, void *context) {
    ln_pool_run(((cpu_backend *)backend)->pool, fn, context);
}

static ln_status read_back(ln_backend *backend, void *memory, size_t bytes, void **host,
                           ln_error *err) {
    (void)backend;
    (void)bytes;
    (void)err;
    *host = memory;
    return LINNET_OK;
}

#define IS(function) .function = function
static const ln_backend_vtable vtable = {IS(destroy),      IS(available_bytes), IS(supports_weight),
                                         IS(plan_weight),  IS(prepare_weight),  IS(finish_weights),
                                         IS(plan_scratch), IS(reserve_scratch), IS(reserve),
                                         IS(release),      IS(upload),          IS(measure),
                                         IS(run),          IS(read_back),       IS(share),
                                         .name = "cpu"};

ln_status ln_cpu_create_on(const ln_cpu_features *processor, const ln_backend_options *options,
                           ln_backend **backend, ln_error *err) {
    const ln_cpu_kernels *kernels;
    LN_TRY(ln_cpu_choose_set(processor, options->isa, &kernels, err));
    cpu_backend *self = calloc(1, sizeof *self);
    if (self == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory creating the CPU backend");
    self->base.vtable = &vtable;
    self->base.arch = kernels->isa;
    self->kernels = kernels;
    self->rounds_f32 = ln_cpu_rounds_f32(processor, kernels);
    self->exact = options->exact;
    self->lazy = options->lazy;
    self->adapts = options->adapts;
    self->waiting.packer = kernels->packer;
    ln_status status = ln_pool_create(options->n_threads, &self->pool, err);
    if (status == LINNET_OK)
        status = ln_pool_create(1, &self->alone, err);
    if (status == LINNET_OK && options->pin)
        ln_pool_pin(self->pool);
    if (status == LINNET_OK) {
        self->workers = calloc(options->n_threads, sizeof *self->workers);
        self->queues = calloc(options->n_threads * QUEUE_STRIDE, sizeof *self->queues);
        if (self->workers == NULL || self->queues == NULL)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory creating the CPU backend");
    }
    if (status != LINNET_OK) {
        destroy(&self->base);
        return status;
    }
    size_t ahead = processor->wants_fetches ? AHEAD_BYTES : 0;
    for (size_t i = 0; i < options->n_threads; i++)
        self->workers[i] =
            (ln_cpu_worker){.index = i,
                            .count = options->n_threads,
                            .exact = options->exact,
                            .ahead = ahead,
                            .far = processor->wants_far_fetches,
                            .direct = processor->hides_shifts != options->other_tiles,
                            .pool = self->pool,
                            .queue = &self->queues[i * QUEUE_STRIDE]};
    *backend = &self->base;
    return LINNET_OK;
}

ln_status ln_cpu_create(const ln_backend_options *options, ln_backend **backend, ln_error *err) {
    ln_cpu_features processor = ln_cpu_detect();
    return ln_cpu_create_on(&processor, options, backend, err);
}
