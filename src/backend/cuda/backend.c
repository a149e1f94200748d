#include "backend/cuda/backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/activations/convert.h"
#include "backend/cuda/fused/workspace.h"
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/plan/plan.h"
#include "backend/cuda/ranks/link.h"
#include "backend/cuda/runtime/batch_upload.h"
#include "backend/cuda/runtime/graph.h"
#include "backend/cuda/runtime/split_k.h"
#include "backend/cuda/weights/prepare.h"
#include "backend/cuda/weights/types.h"
#include "base/clock.h"

/* Blocks of a fused kernel wait for one another, so all of them must be resident: two such kernels
 * on different streams could each hold a part of the SMs for ever. So one backend of the process
 * has fused kernels; others run their operations one by one, with the same bits. */
static atomic_flag fused_kernels_are_taken = ATOMIC_FLAG_INIT;

/* A run that was started. */
typedef struct started_run {
    void *host; /* what was copied */
    ln_cuda_event done;
} started_run;

typedef struct cuda_backend {
    ln_backend base;
    ln_cuda_device_info device;
    int index;        /* of the device */
    size_t n_sharers; /* ranks that share it */
    char arch[16];
    ln_cuda_link link; /* to other ranks */
    ln_cuda_stream stream;
    ln_cuda_stream side_stream; /* of `send` */
    ln_cuda_upload upload;
    ln_cuda_use use;
    ln_cublaslt *blas; /* or NULL */
    void *scratch;     /* [scratch_bytes] device memory, between two kernels */
    size_t scratch_bytes;
    unsigned *fused_workspace; /* ln_fused_workspace_bytes of device memory */
    float *raw;                /* [raw_floats] device memory; ln_cuda_step.raw */
    void *adapter_scratch;     /* of ln_cuda_step */
    size_t raw_floats;
    bool has_fused_kernels;
    int upload_code; /* the first failure of an upload, for the next call that can say so */
    ln_cuda_batch_upload batch_upload;
    ln_cuda_graphs graphs;
    ln_converted_act x; /* memory for converted activations, unless exact */
    ln_cuda_plan plan;  /* of the step that was planned last */
    void *readback;     /* [readback_bytes] page-locked: what the host reads */
    size_t readback_bytes;
    ln_cuda_event ran;     /* of a run of several ranks */
    ln_cuda_event *events; /* [n_events], for profiles */
    size_t n_events;
    char *small_results; /* [LN_MAX_STARTED][LN_STARTED_BYTES] page-locked, of started runs */
    started_run started[LN_MAX_STARTED];
    size_t n_started, n_finished, n_results; /* so far; results: of runs that copy some */
    bool is_lost;                            /* every call of the runtime fails */
} cuda_backend;

static ln_status fail_with(const cuda_backend *self, int code, const char *what, ln_error *err) {
    return ln_fail(err, LINNET_ERR_COMPUTE, "%s on %s failed: %s", what, self->device.name,
                   ln_cuda_error_text(code));
}

/* Also checks whether the failure left the device unusable. */
static ln_status fail_to_run(cuda_backend *self, int code, const char *what, ln_error *err) {
    self->is_lost |= ln_cuda_device_check() != 0;
    return fail_with(self, code, what, err);
}

static bool is_lost(const ln_backend *backend) {
    return ((const cuda_backend *)backend)->is_lost;
}

/* Every thread works with device 0 until it says something else. */
static cuda_backend *enter(const ln_backend *backend) {
    cuda_backend *self = (cuda_backend *)(uintptr_t)backend;
    (void)ln_cuda_device_use(self->index); /* what follows fails if this does */
    return self;
}

static void free_scratch(cuda_backend *self) {
    ln_cuda_free_host(self->batch_upload.host);
    ln_cuda_free(self->batch_upload.device);
    ln_cuda_free_host(self->readback);
    ln_cuda_free_host(self->small_results);
    ln_cuda_free(self->scratch);
    ln_cuda_free(self->x.memory);
    ln_cuda_free(self->x.workspace);
    ln_cuda_free(self->fused_workspace);
    ln_cuda_free(self->raw);
    ln_cuda_free(self->adapter_scratch);
    if (self->has_fused_kernels)
        atomic_flag_clear(&fused_kernels_are_taken);
    self->has_fused_kernels = false;
    ln_cuda_link_free(&self->link);
    self->batch_upload = (ln_cuda_batch_upload){0};
    self->x = (ln_converted_act){0};
    self->scratch = NULL;
    self->fused_workspace = NULL;
    self->raw = NULL;
    self->adapter_scratch = NULL;
    self->scratch_bytes = self->raw_floats = 0;
    self->readback = NULL;
    self->small_results = NULL;
}

static void destroy(ln_backend *backend) {
    cuda_backend *self = enter(backend);
    ln_cuda_link_stop(&self->link);
    if (self->stream != NULL) {
        (void)ln_cuda_stream_synchronize(self->stream);
        ln_cuda_stream_destroy(self->stream);
    }
    ln_cuda_stream_destroy(self->side_stream);
    ln_cuda_graphs_free(&self->graphs);
    for (size_t i = 0; i < self->n_events; i++)
        ln_cuda_event_destroy(self->events[i]);
    for (size_t i = 0; i < LN_MAX_STARTED; i++)
        ln_cuda_event_destroy(self->started[i].done);
    ln_cuda_event_destroy(self->ran);
    free(self->events);
    ln_cuda_plan_free(&self->plan);
    ln_cuda_upload_free(&self->upload);
    ln_pool_destroy(self->upload.pool);
    free_scratch(self);
    ln_cublaslt_destroy(self->blas);
    free(self);
}

/* ---- memory ------------------------------------------------------------------------------- */

static size_t available_bytes(const ln_backend *backend) {
    const cuda_backend *self = enter(backend);
    size_t bytes, share = self->device.total_bytes / self->n_sharers;
    if (ln_cuda_device_free_bytes(&bytes) != 0)
        return SIZE_MAX;
    return bytes < share ? bytes : share;
}

/* Names the bytes that are free if memory ran out. */
static ln_status fail_to_reserve(const cuda_backend *self, int code, size_t bytes, const char *what,
                                 ln_error *err) {
    size_t free_bytes;
    if (!ln_cuda_is_out_of_memory(code) || ln_cuda_device_free_bytes(&free_bytes) != 0)
        return fail_with(self, code, what, err);
    return ln_fail(err, LINNET_ERR_NOMEM, "%s needs %zu MiB on %s, where %zu of %zu MiB are free",
                   what, bytes >> 20, self->device.name, free_bytes >> 20,
                   self->device.total_bytes >> 20);
}

static ln_status reserve(ln_backend *backend, size_t bytes, const char *what, void **memory,
                         ln_error *err) {
    const cuda_backend *self = enter(backend);
    *memory = NULL;
    if (bytes == 0)
        return LINNET_OK;
    int code = ln_cuda_malloc(bytes, memory);
    return code == 0 ? LINNET_OK : fail_to_reserve(self, code, bytes, what, err);
}

static void release(ln_backend *backend, void *memory, size_t bytes) {
    (void)bytes;
    (void)ln_cuda_stream_synchronize(enter(backend)->stream);
    ln_cuda_free(memory);
}

/* Page-locked: the device reads and writes it by itself. */
static ln_status reserve_host(ln_backend *backend, size_t bytes, const char *what, void **memory,
                              ln_error *err) {
    const cuda_backend *self = enter(backend);
    *memory = NULL;
    if (bytes == 0)
        return LINNET_OK;
    int code = ln_cuda_malloc_host(bytes, memory);
    if (code == 0) {
        memset(*memory, 0, bytes);
        return LINNET_OK;
    }
    if (!ln_cuda_is_out_of_memory(code))
        return fail_with(self, code, what, err);
    return ln_fail(err, LINNET_ERR_NOMEM, "%s: %zu MiB of host memory cannot be locked", what,
                   bytes >> 20);
}

static void release_host(ln_backend *backend, void *memory, size_t bytes) {
    (void)bytes;
    (void)ln_cuda_stream_synchronize(enter(backend)->stream);
    ln_cuda_free_host(memory);
}

/* Sends through the readback buffer, or while weights load through the upload's buffers. */
static int send_bytes(cuda_backend *self, void *memory, const void *host, size_t bytes) {
    if (self->upload.pool != NULL || bytes > self->readback_bytes)
        return ln_cuda_upload_rows(&self->upload, memory, bytes, host, bytes, 1, self->stream);
    int code = ln_cuda_stream_synchronize(self->stream);
    if (code != 0)
        return code;
    memcpy(self->readback, host, bytes);
    return ln_cuda_copy_to_device(memory, self->readback, bytes, self->stream);
}

static void upload(ln_backend *backend, void *memory, const void *host, size_t bytes) {
    cuda_backend *self = enter(backend);
    int code = send_bytes(self, memory, host, bytes);
    if (self->upload_code == 0)
        self->upload_code = code;
}

/* Waits for what was started, and queues nothing behind it: the thread that runs steps may just be
 * capturing. Threads share the side stream, and wait for more than their own copies. */
static ln_status send(ln_backend *backend, const ln_transfer *transfers, size_t n, ln_error *err) {
    const cuda_backend *self = enter(backend);
    int code = 0;
    for (size_t i = 0; i < LN_MAX_STARTED && code == 0; i++)
        code = ln_cuda_event_synchronize(self->started[i].done);
    for (size_t i = 0; i < n && code == 0; i++)
        code = ln_cuda_copy_any(transfers[i].memory, transfers[i].host, transfers[i].bytes,
                                self->side_stream);
    if (code == 0)
        code = ln_cuda_stream_synchronize(self->side_stream);
    return code == 0 ? LINNET_OK : fail_with(self, code, "sending data", err);
}

static ln_status read_back(ln_backend *backend, void *memory, size_t bytes, void **host,
                           ln_error *err) {
    cuda_backend *self = enter(backend);
    LN_BUG_ON(bytes > self->readback_bytes);
    *host = self->readback;
    if (bytes == 0)
        return LINNET_OK;
    int code = ln_cuda_copy_to_host(self->readback, memory, bytes, self->stream);
    if (code == 0)
        code = ln_cuda_stream_synchronize(self->stream);
    return code == 0 ? LINNET_OK : fail_to_run(self, code, "reading results", err);
}

/* ---- weights ------------------------------------------------------------------------------ */

static bool supports_weight(const ln_backend *backend, ln_dtype dtype) {
    (void)backend;
    return ln_cuda_can_dequantize(dtype);
}

static ln_status plan_weight(const ln_backend *backend, const ln_weight_request *request,
                             size_t *bytes, ln_error *err) {
    return ln_cuda_plan_weight(request, &((const cuda_backend *)backend)->use, bytes, err);
}

static ln_status prepare_weight(ln_backend *backend, const ln_weight_request *request, void *memory,
                                ln_weight *weight, ln_error *err) {
    cuda_backend *self = enter(backend);
    LN_TRY(ln_cuda_prepare_weight(request, &self->use, &self->upload, self->stream, memory, weight,
                                  err));
    if (ln_cuda_has_plain_rows(request, &self->use))
        ln_cublaslt_add(self->blas, weight);
    return LINNET_OK;
}

/* ---- steps -------------------------------------------------------------------------------- */

/* Columns of all rows that a token has, at most. */
static size_t widest(const ln_step_limits *limits) {
    return limits->max_width > limits->max_grouped_width ? limits->max_width
                                                         : limits->max_grouped_width;
}

static size_t x_bytes(const cuda_backend *self, const ln_step_limits *limits) {
    if (self->use.exact)
        return 0;
    return ln_act_bytes(limits->max_tokens, widest(limits)) +
           ln_act_groups_bytes(limits->max_experts, limits->max_expert_width);
}

static size_t workspace_bytes(const cuda_backend *self) {
    return self->use.exact ? 0 : ln_split_k_bytes(self->device.n_sms);
}

static size_t kernel_scratch(const cuda_backend *self, const ln_step_limits *limits) {
    size_t of_index = ln_cuda_index_bytes(limits->max_tokens, limits->max_indexed);
    if (self->use.exact)
        return of_index;
    size_t of_attention = ln_cuda_attention_bytes(limits->max_seqs, limits->max_heads,
                                                  limits->max_ctx, limits->max_head_dim);
    return of_attention > of_index ? of_attention : of_index;
}

static size_t blas_bytes(const cuda_backend *self, const ln_step_limits *limits) {
    return self->blas == NULL ? 0 : ln_cublaslt_bytes(limits->max_tokens, limits->max_width);
}

/* What a linear of all tokens gives before its adapters, or one of all experts that they choose. */
static size_t raw_floats(const ln_step_limits *limits) {
    return limits->n_adapters > 0 ? limits->max_tokens * widest(limits) : 0;
}

static size_t adapter_scratch_bytes(const cuda_backend *self, const ln_step_limits *limits) {
    return limits->n_adapters > 0 && self->base.has_adapter_tiles ? ln_cuda_adapter_scratch_bytes()
                                                                  : 0;
}

static size_t plan_scratch(const ln_backend *backend, const ln_step_limits *limits) {
    const cuda_backend *self = (const cuda_backend *)backend;
    return ln_cuda_batch_upload_bytes(limits) + kernel_scratch(self, limits) +
           x_bytes(self, limits) + workspace_bytes(self) + blas_bytes(self, limits) +
           raw_floats(limits) * sizeof(float) + adapter_scratch_bytes(self, limits) +
           ln_fused_workspace_bytes(self->device.n_sms) + ln_ipc_arena_bytes(&limits->mesh);
}

/* Ends the loading of weights, ahead of the first step, and frees the upload's buffers. */
static ln_status end_upload(cuda_backend *self, ln_error *err) {
    int code = ln_cuda_stream_synchronize(self->stream);
    if (code == 0)
        code = self->upload_code;
    if (code != 0)
        return fail_with(self, code, "loading weights", err);
    ln_cuda_upload_free(&self->upload);
    ln_pool_destroy(self->upload.pool);
    self->upload.pool = NULL;
    return LINNET_OK;
}

/* Device memory for a part of the scratch; NULL for 0 bytes. */
static ln_status reserve_part(const cuda_backend *self, size_t bytes, const char *what,
                              void **memory, ln_error *err) {
    *memory = NULL;
    int code = bytes > 0 ? ln_cuda_malloc(bytes, memory) : 0;
    return code == 0 ? LINNET_OK : fail_to_reserve(self, code, bytes, what, err);
}

static ln_status reserve_parts(cuda_backend *self, const ln_step_limits *limits, ln_error *err) {
    void *memory;
    LN_TRY(reserve_part(self, ln_cuda_batch_upload_bytes(limits), "the batch", &memory, err));
    self->batch_upload.device = memory;
    self->scratch_bytes = kernel_scratch(self, limits);
    LN_TRY(reserve_part(self, self->scratch_bytes, "scratch of attention", &self->scratch, err));
    self->x.bytes = x_bytes(self, limits);
    LN_TRY(reserve_part(self, self->x.bytes, "rows of linears", &self->x.memory, err));
    self->x.n_sms = self->device.n_sms;
    LN_TRY(reserve_part(self, workspace_bytes(self), "split-K sums", &memory, err));
    self->x.workspace = memory;
    self->raw_floats = raw_floats(limits);
    LN_TRY(reserve_part(self, self->raw_floats * sizeof(float), "linears with adapters", &memory,
                        err));
    self->raw = memory;
    LN_TRY(reserve_part(self, adapter_scratch_bytes(self, limits), "adapters",
                        &self->adapter_scratch, err));
    LN_TRY(reserve_part(self, ln_fused_workspace_bytes(self->device.n_sms),
                        "workspace of fused kernels", &memory, err));
    self->fused_workspace = memory;
    int code = ln_cuda_link_reserve(&self->link, &limits->mesh, self->index);
    if (code != 0)
        return fail_to_reserve(self, code, ln_ipc_arena_bytes(&limits->mesh), "ranks", err);
    self->x.blas = self->blas;
    code = self->blas == NULL
               ? 0
               : ln_cublaslt_reserve(self->blas, limits->max_tokens, limits->max_width);
    return code == 0
               ? LINNET_OK
               : fail_to_reserve(self, code, blas_bytes(self, limits), "sums of cuBLASLt", err);
}

static ln_status reserve_scratch(ln_backend *backend, const ln_step_limits *limits, ln_error *err) {
    cuda_backend *self = enter(backend);
    enum { MAX_OPS = 4096 }; /* of a step; the first larger one allocates */
    void *host = NULL, *small_results = NULL;
    free_scratch(self);
    if (!ln_cuda_plan_reserve(&self->plan, MAX_OPS))
        return ln_fail_memory(err, "plans of steps");
    LN_TRY(reserve_parts(self, limits, err));
    self->has_fused_kernels =
        !self->use.exact && !atomic_flag_test_and_set(&fused_kernels_are_taken);
    size_t bytes = ln_cuda_batch_upload_bytes(limits);
    int code = ln_cuda_malloc_host(LN_MAX_STARTED * bytes, &host);
    self->batch_upload.host = host;
    self->batch_upload.bytes = bytes;
    self->batch_upload.n_adapters = limits->n_adapters;
    if (code == 0)
        code = ln_cuda_malloc_host(LN_MAX_STARTED * LN_STARTED_BYTES, &small_results);
    self->small_results = small_results;
    if (code == 0 && limits->max_read_bytes > 0)
        code = ln_cuda_malloc_host(limits->max_read_bytes, &self->readback);
    self->readback_bytes = limits->max_read_bytes;
    if (code != 0)
        return ln_fail(err, LINNET_ERR_NOMEM, "cannot lock %zu MiB of host memory: %s",
                       (bytes + limits->max_read_bytes) >> 20, ln_cuda_error_text(code));
    return LINNET_OK;
}

static const ln_kv_layer *cache_of(const ln_op *op) {
    switch (op->kind) {
    case LN_OP_QKV: return op->qkv.kv;
    case LN_OP_LATENT: return op->latent.kv;
    case LN_OP_COMPRESS: return op->compress.rows;
    case LN_OP_INDEX: return op->index.kv;
    case LN_OP_ATTENTION: return op->attention.kv;
    default: return NULL;
    }
}

/* What it reads or writes beside it, perhaps in another group. */
static const ln_kv_layer *entries_of(const ln_op *op) {
    switch (op->kind) {
    case LN_OP_COMPRESS: return op->compress.entries;
    case LN_OP_ATTENTION: return op->attention.entries;
    default: return NULL;
    }
}

static const ln_state_cache *states_of(const ln_op *op) {
    switch (op->kind) {
    case LN_OP_CONV: return op->conv.cache;
    case LN_OP_SCAN: return op->scan.cache;
    default: return NULL;
    }
}

static void use_table(ln_cuda_table_use *uses, const ln_kv_layer *kv) {
    if (kv != NULL)
        uses[kv->group].block_tokens = kv->entry_tokens > 0 ? kv->table_tokens : kv->block_tokens;
}

/* Sends the batch that all operations share; operations without a batch read nothing of it. */
static int send_batch(cuda_backend *self, const ln_op *ops, size_t n_ops, ln_cuda_step *step) {
    ln_cuda_table_use uses[LN_MAX_KV_GROUPS] = {{0}};
    *step = (ln_cuda_step){0};
    const ln_batch *batch = ops[n_ops - 1].batch; /* copies come first, and have none */
    if (batch == NULL)
        return 0;
    for (size_t i = 0; i < n_ops; i++) {
        use_table(uses, cache_of(&ops[i]));
        use_table(uses, entries_of(&ops[i]));
        const ln_state_cache *cache = states_of(&ops[i]);
        if (cache != NULL) {
            uses[cache->states->group].has_states = true;
            uses[cache->tails->group].has_tail = true;
        }
    }
    return ln_cuda_batch_send(&self->batch_upload, batch, uses, step, self->stream);
}

/* Makes sure of n events; false when memory ran out. */
static bool have_events(cuda_backend *self, size_t n) {
    if (n <= self->n_events)
        return true;
    ln_cuda_event *events = realloc(self->events, n * sizeof(ln_cuda_event));
    if (events == NULL)
        return false;
    self->events = events;
    while (self->n_events < n && ln_cuda_event_create(&events[self->n_events]) == 0)
        self->n_events++;
    return self->n_events >= n;
}

static void add_profile(cuda_backend *self, const ln_op *ops, size_t n_ops) {
    ln_profile *profile = self->base.profile;
    uint64_t begin = ln_clock_ns();
    for (size_t i = 0; i < n_ops; i++) {
        double ns;
        if (ln_cuda_event_elapsed_ns(self->events[i], self->events[i + 1], &ns) != 0)
            return;
        profile->ns[ops[i].kind] += (uint64_t)ns;
        profile->n_ops[ops[i].kind]++;
    }
    profile->reading_ns += ln_clock_ns() - begin;
}

static bool make_plan(cuda_backend *self, const ln_op *ops, size_t n_ops,
                      const ln_cuda_step *step) {
    const ln_cuda_target target = {
        .has_sm90a = ln_cuda_has_sm90a_code(), .act = self->x, .blas_takes = ln_cublaslt_takes};
    return ln_cuda_plan_make(&self->plan, ops, n_ops, step, &target);
}

static void explain(cuda_backend *self, const ln_op *ops, size_t n_ops, const ln_cuda_step *step) {
    const ln_explainer *explainer = self->base.explainer;
    LN_BUG_ON(!make_plan(self, ops, n_ops, step));
    for (size_t i = 0; i < self->plan.n_launches; i++) {
        const ln_cuda_launch *launch = &self->plan.launches[i];
        ln_kernel_use use = {launch->first, launch->n_ops, ln_cuda_launch_name(launch, ops),
                             launch->apart};
        explainer->tell(explainer->context, ops, n_ops, &use);
    }
}

/* ln_cuda_launch_all */
static int launch_all(void *context, const ln_op *ops, size_t n_ops, const ln_cuda_step *step) {
    cuda_backend *self = context;
    int code = 0;
    LN_BUG_ON(!make_plan(self, ops, n_ops, step));
    for (size_t i = 0; i < self->plan.n_launches && code == 0; i++)
        code = ln_cuda_launch_one(&self->plan, &self->plan.launches[i], ops, step, self->stream);
    return code;
}

/* With an event between operations, and so without fused kernels; operations that one kernel runs
 * count as the first of them. */
static int launch_timed(cuda_backend *self, const ln_op *ops, size_t n_ops,
                        const ln_cuda_step *step) {
    int code = ln_cuda_event_record(self->events[0], self->stream);
    LN_BUG_ON(!make_plan(self, ops, n_ops, step));
    for (size_t i = 0; i < self->plan.n_launches && code == 0; i++) {
        const ln_cuda_launch *launch = &self->plan.launches[i];
        code = ln_cuda_launch_one(&self->plan, launch, ops, step, self->stream);
        for (size_t k = 1; k <= launch->n_ops && code == 0; k++)
            code = ln_cuda_event_record(self->events[launch->first + k], self->stream);
    }
    return code;
}

/* Waits for what was queued before the event; with ranks for no lost one. */
static int wait_for(cuda_backend *self, ln_cuda_event done) {
    int code = ln_cuda_event_record(done, self->stream);
    return code == 0 ? ln_cuda_link_wait(&self->link, done) : code;
}

/* Queues ops[n_ops], at least one; a profile waits for them. */
static ln_status queue(cuda_backend *self, const ln_op *ops, size_t n_ops, ln_error *err) {
    ln_cuda_step step;
    if (self->upload.pool != NULL)
        LN_TRY(end_upload(self, err));
    for (size_t i = 0; i < n_ops; i++)
        if (!ln_cuda_has_kernel(ops[i].kind))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the CUDA backend has no operation %d",
                           (int)ops[i].kind);
    if (self->upload_code != 0)
        return fail_with(self, self->upload_code, "an upload", err);
    if (!ln_cuda_plan_reserve(&self->plan, n_ops))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory planning a step");
    bool profiles = self->base.profile != NULL && have_events(self, n_ops + 1);
    int code = 0;
    if (self->blas != NULL)
        code = ln_cublaslt_tune(self->blas, &self->x, self->stream);
    if (code == 0)
        code = send_batch(self, ops, n_ops, &step);
    step.exact = self->use.exact;
    step.scratch = self->scratch;
    step.scratch_bytes = self->scratch_bytes;
    step.fused_workspace = self->has_fused_kernels && !profiles ? self->fused_workspace : NULL;
    step.one_by_one = profiles;
    step.raw = self->raw;
    step.raw_floats = self->raw_floats;
    step.adapter_scratch = self->adapter_scratch;
    if (code == 0 && self->base.explainer != NULL)
        explain(self, ops, n_ops, &step);
    if (code == 0 && profiles)
        code = launch_timed(self, ops, n_ops, &step);
    else if (code == 0 && ln_cuda_graphs_suit(ops, n_ops) && ln_cuda_link_suits(&self->link))
        code = ln_cuda_graphs_run(&self->graphs, ops, n_ops, &step, launch_all, self, self->stream);
    else if (code == 0)
        code = launch_all(self, ops, n_ops, &step);
    if (code == 0 && profiles)
        code = wait_for(self, self->ran);
    if (code != 0)
        return fail_to_run(self, code, "a step", err);
    if (profiles)
        add_profile(self, ops, n_ops);
    return LINNET_OK;
}

static ln_status run(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    cuda_backend *self = enter(backend);
    if (n_ops == 0)
        return LINNET_OK;
    LN_TRY(queue(self, ops, n_ops, err));
    int code = self->link.vtable == NULL ? ln_cuda_stream_synchronize(self->stream)
                                         : wait_for(self, self->ran);
    return code == 0 ? LINNET_OK : fail_to_run(self, code, "a step", err);
}

static ln_status start(ln_backend *backend, const ln_op *ops, size_t n_ops, void *memory,
                       size_t bytes, ln_error *err) {
    cuda_backend *self = enter(backend);
    size_t turn = self->n_started % LN_MAX_STARTED,
           n_under_way = self->n_started - self->n_finished;
    started_run *run = &self->started[turn];
    bool is_small = bytes <= LN_STARTED_BYTES;
    int code = 0;
    LN_BUG_ON(n_under_way == LN_MAX_STARTED);
    LN_BUG_ON(!is_small && (n_under_way > 0 || bytes > self->readback_bytes));
    run->host = is_small ? self->small_results + self->n_results % LN_MAX_STARTED * LN_STARTED_BYTES
                         : self->readback;
    LN_TRY(queue(self, ops, n_ops, err));
    if (bytes > 0)
        code = ln_cuda_copy_to_host(run->host, memory, bytes, self->stream);
    if (code == 0)
        code = ln_cuda_event_record(run->done, self->stream);
    if (code != 0)
        return fail_to_run(self, code, "a step", err);
    self->n_started++;
    self->n_results += bytes > 0;
    return LINNET_OK;
}

static ln_status finish(ln_backend *backend, void **host, ln_error *err) {
    cuda_backend *self = enter(backend);
    LN_BUG_ON(self->n_finished == self->n_started);
    const started_run *run = &self->started[self->n_finished++ % LN_MAX_STARTED];
    *host = run->host;
    int code = ln_cuda_link_wait(&self->link, run->done);
    return code == 0 ? LINNET_OK : fail_to_run(self, code, "a step", err);
}

static ln_status join_ranks(ln_backend *backend, const ln_rank_groups *ranks, ln_error *err) {
    return ln_cuda_link_join(&enter(backend)->link, ranks, err);
}

static void leave_ranks(ln_backend *backend) {
    cuda_backend *self = enter(backend);
    ln_cuda_link_stop(&self->link);
    if (self->stream != NULL)
        (void)ln_cuda_stream_synchronize(self->stream);
    ln_cuda_link_leave(&self->link);
}

/* ---- creation ----------------------------------------------------------------------------- */

static const ln_backend_vtable vtable = {
    .name = "cuda",
    .on_device = true,
    .destroy = destroy,
    .available_bytes = available_bytes,
    .supports_weight = supports_weight,
    .plan_weight = plan_weight,
    .prepare_weight = prepare_weight,
    .plan_scratch = plan_scratch,
    .reserve_scratch = reserve_scratch,
    .reserve = reserve,
    .release = release,
    .reserve_host = reserve_host,
    .release_host = release_host,
    .upload = upload,
    .send = send,
    .run = run,
    .read_back = read_back,
    .start = start,
    .finish = finish,
    .join_ranks = join_ranks,
    .leave_ranks = leave_ranks,
    .is_lost = is_lost,
};

/* Ranks of a machine take its devices in turn. */
static ln_status open_device(const ln_backend_options *options, cuda_backend *self, ln_error *err) {
    enum { MIN_MAJOR = 8 };
    ln_cuda_device_info *device = &self->device;
    int count;
    int code = ln_cuda_device_count(&count);
    if (code != 0 || count == 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "no NVIDIA GPU can be used: %s",
                       code != 0 ? ln_cuda_error_text(code) : "the driver lists none");
    self->index = ln_card_device(options->local_rank, count);
    self->n_sharers = ln_card_sharers(options->n_local, options->local_rank, count);
    code = ln_cuda_device_open(self->index, device);
    if (code != 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the GPU cannot be used: %s",
                       ln_cuda_error_text(code));
    if (device->major < MIN_MAJOR)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s has compute capability %d.%d; %d.0 or later is needed", device->name,
                       device->major, device->minor, MIN_MAJOR);
    return LINNET_OK;
}

bool ln_cuda_is_usable(const ln_backend_options *options) {
    cuda_backend probe = {0};
    return open_device(options, &probe, NULL) == LINNET_OK;
}

static ln_status open_blas(cuda_backend *self, ln_error *err) {
    const char *problem;
    self->blas = ln_cublaslt_create(&problem);
    self->use.plain_rows = self->blas != NULL;
    if (self->blas != NULL)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "batch_invariant is off, for which cuBLASLt cannot be used: %s", problem);
}

ln_status ln_cuda_create(const ln_backend_options *options, ln_backend **backend, ln_error *err) {
    enum { MAX_THREADS = 16 }; /* more do not load faster */
    size_t n_threads = options->n_threads < MAX_THREADS ? options->n_threads : MAX_THREADS;
    cuda_backend *self = calloc(1, sizeof *self);
    if (self == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory creating the CUDA backend");
    if (open_device(options, self, err) != LINNET_OK) {
        free(self);
        return LINNET_ERR_UNSUPPORTED;
    }
    self->base.vtable = &vtable;
    snprintf(self->arch, sizeof self->arch, "sm_%d%d", self->device.major, self->device.minor);
    self->base.arch = self->arch;
    self->use.exact = options->exact;
    self->use.many_seqs = options->max_seqs > LN_SMALL_BATCH_SEQS;
    self->base.has_adapter_tiles = !options->exact;
    ln_status status = ln_pool_create(n_threads, &self->upload.pool, err);
    int code = status == LINNET_OK ? ln_cuda_stream_create(&self->stream) : 0;
    if (code != 0)
        self->stream = NULL;
    else if (status == LINNET_OK)
        code = ln_cuda_stream_create(&self->side_stream);
    if (code == 0 && status == LINNET_OK)
        code = ln_cuda_event_create(&self->ran);
    for (size_t i = 0; i < LN_MAX_STARTED && code == 0 && status == LINNET_OK; i++)
        code = ln_cuda_event_create(&self->started[i].done);
    if (code != 0)
        status = fail_with(self, code, "creating a stream", err);
    if (status == LINNET_OK && options->lets_rows_vary && !options->exact)
        status = open_blas(self, err);
    if (status != LINNET_OK) {
        destroy(&self->base);
        return status;
    }
    *backend = &self->base;
    return LINNET_OK;
}
