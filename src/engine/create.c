#include "engine/create.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "engine/plan/make.h"
#include "engine/plan/options.h"
#include "engine/plan/sizes.h"
#include "model/load.h"

static ln_status reserve(ln_reservation *reservation, size_t bytes, const char *what,
                         ln_error *err) {
    LN_TRY(ln_reserve(bytes, what, &reservation->memory, err));
    reservation->bytes = bytes;
    return LINNET_OK;
}

static ln_status reserve_on_backend(ln_backend *backend, ln_reservation *reservation, size_t bytes,
                                    const char *what, ln_error *err) {
    LN_TRY(backend->vtable->reserve(backend, bytes, what, &reservation->memory, err));
    reservation->bytes = bytes;
    return LINNET_OK;
}

static ln_status reserve_swap(linnet_engine *engine, ln_error *err) {
    const ln_backend_vtable *vtable = engine->backend->vtable;
    size_t bytes = engine->plan.bytes[LN_ARENA_SWAP];
    if (vtable->reserve_host == NULL)
        return reserve(&engine->swap, bytes, "swap space", err);
    LN_TRY(vtable->reserve_host(engine->backend, bytes, "swap space", &engine->swap.memory, err));
    engine->swap.bytes = bytes;
    return LINNET_OK;
}

static void release_swap(linnet_engine *engine) {
    const ln_backend_vtable *vtable = engine->backend->vtable;
    if (vtable->reserve_host == NULL)
        ln_unreserve(engine->swap.memory, engine->swap.bytes);
    else
        vtable->release_host(engine->backend, engine->swap.memory, engine->swap.bytes);
}

/* Reserves what steps work on. */
static ln_status reserve_all(linnet_engine *engine, ln_error *err) {
    const ln_engine_plan *plan = &engine->plan;
    ln_backend *backend = engine->backend;
    const size_t *bytes = plan->bytes;
    LN_TRY(reserve_on_backend(backend, &engine->kv, bytes[LN_ARENA_KV], "KV cache", err));
    LN_TRY(reserve_on_backend(backend, &engine->adapter_memory,
                              plan->n_adapters * plan->adapter_bytes, "adapters", err));
    LN_TRY(reserve_on_backend(backend, &engine->activation_memory, bytes[LN_ARENA_ACTIVATIONS],
                              "activations", err));
    engine->scratch_bytes = backend->vtable->plan_scratch(backend, &plan->limits);
    LN_TRY(reserve_swap(engine, err));
    LN_TRY(reserve(&engine->blocks, bytes[LN_ARENA_BLOCKS], "block tables", err));
    LN_TRY(reserve(&engine->batch, bytes[LN_ARENA_BATCH], "batch", err));
    LN_TRY(reserve(&engine->sampling, bytes[LN_ARENA_SAMPLER], "sampler", err));
    LN_TRY(reserve(&engine->heads, bytes[LN_ARENA_HEADS], "heads", err));
    return reserve(&engine->masks, bytes[LN_ARENA_GRAMMAR], "grammar", err);
}

/* What reading weights costs in tokens that are computed, with what it costs to pass rows on: a
 * thread of a CPU, and a GPU, which starts many kernels, too. Threads compute in less time, but
 * they share the memory's rate. */
enum { CPU_WEIGHT_TOKENS = 8, CPU_TILE_TOKENS = 4, GPU_WEIGHT_TOKENS = 128, GPU_TILE_TOKENS = 64 };

enum { PART_SEQS = 8 }; /* with fewer, a step takes no less time */

static ln_micro_batch_cost find_part_cost(const linnet_engine *engine) {
    const ln_engine_plan *plan = &engine->plan;
    if (engine->backend->vtable->on_device)
        return (ln_micro_batch_cost){GPU_WEIGHT_TOKENS, GPU_TILE_TOKENS};
    return (ln_micro_batch_cost){plan->n_threads * CPU_WEIGHT_TOKENS, CPU_TILE_TOKENS};
}

/* What divides steps for stages, behind the layout. */
static void init_stages(linnet_engine *engine, ln_layout *layout) {
    const ln_engine_plan *plan = &engine->plan;
    ln_executor *executor = &engine->executor;
    char *memory = engine->batch.memory;
    ln_micro_batches_init(&executor->parts, &plan->budget, &plan->kv_shape, layout, memory);
    ln_micro_batches_init(&executor->results, &plan->budget, &plan->kv_shape, layout, memory);
    ln_step_init(&executor->before, &plan->budget, &plan->kv_shape,
                 memory + ln_layout_add(layout, 0, 1));
    executor->part_cost = find_part_cost(engine);
    executor->part_seqs = PART_SEQS;
}

/* Whether no stage but the first reads ids of tokens, which others are not sent while steps run
 * ahead. */
static bool can_follow_tokens(const linnet_engine *engine) {
    const ln_spec *spec = &engine->plan.spec;
    return !ln_spec_leads(spec) ||
           !ln_spec_reads_tokens(&engine->model->spec,
                                 spec->ranks.layers.begin + spec->ranks.layers.n);
}

/* Binds what records and runs steps. */
static void init_executor(linnet_engine *engine, const ln_engine_layout *at) {
    const ln_engine_plan *plan = &engine->plan;
    const ln_spec *spec = &plan->spec;
    const ln_kv_range all = {0, ln_kv_layer_count(spec)};
    ln_layout kv = {0}, swap = {0};
    char *base = (char *)engine;
    ln_executor *executor = &engine->executor;
    *executor = (ln_executor){
        .checkpoint = engine->model->checkpoint,
        .spec = spec,
        .backend = engine->backend,
        .weights = &engine->weights,
        .cpu_layers = &engine->cpu_layers,
        .cpu_experts = &engine->cpu_experts,
        .scheduler = &engine->scheduler,
        .pooler = &engine->pooler,
        .rows = &engine->rows,
        .kv = {.layers = (ln_kv_layer *)(void *)(base + at->kv_layers),
               .swap = (ln_kv_layer *)(void *)(base + at->swap_layers)},
        .layers = {ln_kv_layer_index(spec, plan->cpu_layers.n_layers), all.end},
        .ops = (ln_op *)(void *)(base + at->ops),
        .can_start_ahead = plan->cpu_layers.n_layers == 0 && plan->cpu_experts.n_layers == 0 &&
                           plan->draft_tokens == 0 && can_follow_tokens(engine),
    };
    ln_engine_plan_lay_out_kv(spec, plan, executor->layers, plan->kv_shape.n_blocks, &kv,
                              executor->kv.layers, engine->kv.memory);
    ln_engine_plan_lay_out_kv(spec, plan, all, plan->kv_shape.n_swap_blocks, &swap,
                              executor->kv.swap, engine->swap.memory);
    const ln_activations_shape activations = ln_engine_plan_activations(plan);
    ln_activations_bind(spec, &activations, engine->activation_memory.memory,
                        &executor->activations);
    executor->adapters = &engine->adapters;
    executor->activations.tensor_ranks = &engine->tensor_ranks;
    executor->activations.stage_ranks = &engine->stage_ranks;
    executor->activations.all_ranks = &engine->ranks;
    ln_step_init(&executor->step, &plan->budget, &plan->kv_shape, engine->batch.memory);
    if (plan->n_ranks > 1) {
        ln_layout step = {0};
        ln_step_plan(&plan->budget, &plan->kv_shape, &step);
        ln_rank_link_init(&executor->link, &engine->ranks, &plan->budget, &plan->kv_shape,
                          (char *)engine->batch.memory + ln_layout_add(&step, 0, 1));
        ln_rank_link_plan(&plan->budget, &plan->kv_shape, &step);
        if (spec->ranks.mesh.n_stages > 1)
            init_stages(engine, &step);
    }
}

/* Makes the parts, in the memory that was reserved. */
static ln_status init_parts(linnet_engine *engine, ln_error *err) {
    const ln_engine_plan *plan = &engine->plan;
    const ln_spec *spec = &plan->spec;
    ln_layout own = {0};
    ln_engine_layout at = ln_engine_plan_lay_out(spec, plan, &own);
    ln_row_sampler_shape rows = ln_engine_plan_rows(spec, plan);
    char *base = (char *)engine;
    init_executor(engine, &at);
    LN_TRY(ln_adapters_init(&engine->adapters, plan, &engine->weights, engine->model->checkpoint,
                            engine->backend, engine->adapter_memory.memory, err));
    ln_kv_cache_init(&engine->cache, &plan->kv_shape, engine->blocks.memory);
    ln_scheduler_init(&engine->scheduler, &plan->budget, &plan->scheduler, &engine->cache,
                      base + at.scheduler);
    engine->completion = (ln_completion){.scheduler = &engine->scheduler,
                                         .rows = &engine->rows,
                                         .pooler = &engine->pooler,
                                         .notifier = &engine->notifier,
                                         .stats = &engine->stats,
                                         .adapters = &engine->adapters,
                                         .n_vocab = spec->n_vocab,
                                         .logits = (float *)(void *)(base + at.logits)};
    LN_TRY(ln_row_sampler_init(&engine->rows, &rows, engine->backend, &engine->constraints.masker,
                               engine->sampling.memory, err));
    LN_TRY(ln_constraints_init(&engine->constraints, engine->model, plan->token_text_bytes,
                               engine->masks.memory, err));
    LN_TRY(ln_pooler_init(&engine->pooler, engine->model, engine->heads.memory, err));
    LN_TRY(ln_cpu_layers_init(&engine->cpu_layers, engine->model, plan, engine->executor.kv.layers,
                              err));
    LN_TRY(ln_cpu_experts_init(&engine->cpu_experts, engine->model, plan, &engine->weights, err));
    LN_TRY(ln_draft_head_init(&engine->head, engine->model, plan, &engine->executor,
                              ln_row_sampler_own(&engine->rows), err));
    return ln_draft_model_init(&engine->draft, plan, engine->backend, &engine->cache,
                               ln_row_sampler_own(&engine->rows), err);
}

/* How long the copy of a block takes, out and in, in each group: the fastest of several. */
static ln_status measure_copies(linnet_engine *engine, ln_error *err) {
    enum { N_TIMES = 4 };
    const ln_kv_shape *shape = &engine->plan.kv_shape;
    for (size_t g = 0; g < shape->n_groups; g++) {
        if (shape->n_swap_blocks[g] == 0)
            continue;
        const ln_block_copy copies[] = {{.group = (int32_t)g, .direction = LN_COPY_OUT},
                                        {.group = (int32_t)g, .direction = LN_COPY_IN}};
        ln_op op = ln_kv_copy_op(&engine->executor.kv, engine->executor.layers, copies, 2);
        double best_ns = 0;
        for (int i = 0; i < N_TIMES; i++) {
            uint64_t begin_ns = ln_clock_ns();
            LN_TRY(engine->backend->vtable->run(engine->backend, &op, 1, err));
            double ns = (double)(ln_clock_ns() - begin_ns) / 2;
            best_ns = i == 0 || ns < best_ns ? ns : best_ns;
        }
        engine->scheduler.preemption.costs.ns_per_block[g] = best_ns;
    }
    return LINNET_OK;
}

static ln_status start_threads(linnet_engine *engine, ln_error *err) {
    LN_TRY(ln_notifier_start(&engine->notifier, err));
    int code = pthread_mutex_init(&engine->mutex, NULL);
    if (code == 0) {
        code = pthread_cond_init(&engine->work_came, NULL);
        engine->has_mutex = code == 0;
        if (code != 0)
            pthread_mutex_destroy(&engine->mutex);
    }
    if (code == 0) {
        code =
            pthread_create(&engine->thread, NULL,
                           engine->ranks.rank > 0 ? ln_engine_follow_main : ln_engine_main, engine);
        engine->has_thread = code == 0;
    }
    if (code == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_NOMEM, "cannot start the engine thread: %s", strerror(code));
}

/* Loads the weights, reserves the rest and makes the parts. */
static ln_status fill(linnet_engine *engine, ln_error *err) {
    ln_backend *backend = engine->backend;
    const ln_engine_plan *plan = &engine->plan;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.experts_apart = plan->cpu_experts.n_layers;
    options.progress.after_bytes = plan->cpu_layers.weight_bytes + plan->cpu_layers.mapped_bytes +
                                   plan->cpu_experts.weight_bytes + plan->cpu_experts.mapped_bytes;
    LN_TRY(backend->vtable->reserve_scratch(backend, &plan->limits, err)); /* loading uses it */
    LN_TRY(ln_weights_load(engine->model->checkpoint, &plan->spec, &options, backend,
                           &engine->weights, err));
    LN_TRY(reserve_all(engine, err));
    LN_TRY(init_parts(engine, err));
    return measure_copies(engine, err);
}

/* The plan of this rank: rank 0 chooses the context for all. */
static ln_status plan_rank(const linnet_model *model, const linnet_engine_options *options,
                           ln_collectives *ranks, ln_backend **backend, ln_engine_plan *plan,
                           ln_error *err) {
    linnet_engine_options own = *options;
    const ln_rank_place place = {ranks->n_local, ranks->local_rank};
    uint64_t ctx_tokens = 0;
    ln_status status = LINNET_OK;
    own.rank = ranks->rank;
    if (own.n_threads == 0)
        own.n_threads = ln_engine_plan_rank_threads(ranks->n_local);
    if (ranks->rank == 0) {
        status =
            ln_engine_plan_make(model, &own, &place, sizeof(linnet_engine), backend, plan, err);
        ctx_tokens = status == LINNET_OK ? plan->ctx_tokens : 0;
    }
    LN_TRY(ln_broadcast(ranks, &ctx_tokens, sizeof ctx_tokens, true,
                        status == LINNET_OK ? err : NULL));
    if (ranks->rank == 0)
        return status;
    if (ctx_tokens > 0)
        own.ctx_tokens = (size_t)ctx_tokens;
    LN_TRY(ln_engine_plan_make(model, &own, &place, sizeof(linnet_engine), backend, plan, err));
    if (ctx_tokens > 0)
        return LINNET_OK;
    ln_engine_plan_free(plan, *backend); /* else it would have failed here for the same reason */
    return ln_fail(err, LINNET_ERR_STATE, "rank 0 could not start");
}

/* Finds the other ranks, where there are to be any, and makes the plan. */
static ln_status plan_engine(const linnet_model *model, const linnet_engine_options *options,
                             ln_collectives *ranks, ln_backend **backend, ln_engine_plan *plan,
                             ln_error *err) {
    *ranks = ln_collectives_single();
    const ln_mesh mesh = ln_engine_plan_mesh(options);
    const size_t n_ranks = ln_mesh_count(&mesh);
    if (n_ranks <= 1)
        return ln_engine_plan_make(model, options, NULL, sizeof(linnet_engine), backend, plan, err);
    LN_TRY(ln_engine_plan_check_options(model, options, err));
    LN_TRY(ln_collectives_open_mpi(n_ranks, ranks, err));
    if (mesh.n_stages > 1) /* a stage waits for all that others compute; beats tell who is lost */
        ranks->timeout_ns = 0;
    ln_status status = plan_rank(model, options, ranks, backend, plan, err);
    if (status != LINNET_OK)
        ln_collectives_close(ranks);
    return status;
}

static void group_ranks(linnet_engine *engine, const ln_mesh *mesh) {
    ln_collectives *all = &engine->ranks;
    size_t rank = mesh->rank, n_tensor = mesh->n_tensor, in_stage = ln_mesh_in_stage(mesh);
    engine->tensor_ranks = ln_collectives_group(all, rank - ln_mesh_tensor_rank(mesh), n_tensor);
    engine->stage_ranks = ln_collectives_group(all, rank - ln_mesh_rank_in_stage(mesh), in_stage);
}

/* All compute alike, and those on GPUs connect these. */
static ln_status join_ranks(linnet_engine *engine, linnet_collectives collectives, ln_error *err) {
    const ln_backend_vtable *vtable = engine->backend->vtable;
    const ln_rank_groups groups = {&engine->ranks, &engine->stage_ranks, &engine->tensor_ranks,
                                   collectives == LINNET_COLLECTIVES_NCCL};
    size_t other;
    LN_TRY(ln_ranks_find_other(&engine->ranks, vtable->on_device, &other, err));
    if (other < engine->ranks.n_ranks)
        return ln_fail(
            err, LINNET_ERR_UNSUPPORTED,
            "rank %zu computes on %s, and rank %zu does not: --backend says where all do",
            engine->ranks.rank, vtable->on_device ? "a GPU" : "the CPU", other);
    if (vtable->join_ranks != NULL)
        return vtable->join_ranks(engine->backend, &groups, err);
    if (groups.wants_nccl)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "NCCL joins GPUs, and ranks compute on the CPU");
    return LINNET_OK;
}

ln_status ln_engine_create(const linnet_model *model, const linnet_engine_options *options,
                           linnet_engine **out, ln_error *err) {
    ln_engine_plan plan;
    ln_collectives ranks;
    ln_backend *backend;
    void *memory;
    *out = NULL;
    LN_TRY(plan_engine(model, options, &ranks, &backend, &plan, err));
    ln_status status = ln_reserve(plan.bytes[LN_ARENA_ENGINE], "engine", &memory, err);
    if (status != LINNET_OK) {
        ln_engine_plan_free(&plan, backend);
        ln_collectives_close(&ranks);
        return status;
    }
    linnet_engine *engine = memory;
    engine->model = model;
    engine->plan = plan;
    engine->backend = backend;
    engine->ranks = ranks;
    if (plan.n_ranks > 1)
        group_ranks(engine, &plan.spec.ranks.mesh);
    engine->deadline_ns = UINT64_MAX;
    uint64_t *secret = engine->plan.kv_shape.secret; /* when it fails, clocks and addresses do */
    if (getrandom(secret, sizeof plan.kv_shape.secret, 0) != (ssize_t)sizeof plan.kv_shape.secret)
        secret[0] ^= ln_clock_ns() ^ (uintptr_t)engine;
    status = ln_ranks_agree(&engine->ranks, fill(engine, err), err);
    if (status == LINNET_OK && plan.n_ranks > 1)
        status = ln_ranks_agree(&engine->ranks, join_ranks(engine, options->collectives, err), err);
    if (status == LINNET_OK)
        status = start_threads(engine, err);
    if (status == LINNET_OK && engine->ranks.rank == 0)
        ln_collectives_watch(&engine->ranks, ln_engine_note_lost_rank, engine);
    if (status == LINNET_OK)
        *out = engine;
    else
        ln_engine_destroy(engine);
    return status;
}

void ln_engine_destroy(linnet_engine *engine) {
    if (engine == NULL)
        return;
    ln_collectives_watch(&engine->ranks, NULL, NULL);
    if (engine->has_thread) {
        pthread_mutex_lock(&engine->mutex);
        engine->stopping = true;
        pthread_cond_signal(&engine->work_came);
        pthread_mutex_unlock(&engine->mutex);
        pthread_join(engine->thread, NULL);
    }
    ln_notifier_stop(&engine->notifier);
    if (engine->plan.n_ranks > 1 && engine->backend->vtable->leave_ranks != NULL)
        engine->backend->vtable->leave_ranks(engine->backend);
    /* while the memory is there: a message may still come that a failed step has not waited for */
    ln_collectives_close(&engine->ranks);
    if (engine->has_mutex) {
        pthread_cond_destroy(&engine->work_came);
        pthread_mutex_destroy(&engine->mutex);
    }
    ln_backend *backend = engine->backend;
    ln_constraints_free(&engine->constraints);
    ln_unreserve(engine->masks.memory, engine->masks.bytes);
    ln_unreserve(engine->heads.memory, engine->heads.bytes);
    ln_draft_head_free(&engine->head);
    ln_draft_model_free(&engine->draft);
    ln_cpu_layers_free(&engine->cpu_layers);
    ln_cpu_experts_free(&engine->cpu_experts);
    ln_row_sampler_free(&engine->rows);
    ln_unreserve(engine->sampling.memory, engine->sampling.bytes);
    ln_unreserve(engine->batch.memory, engine->batch.bytes);
    ln_unreserve(engine->blocks.memory, engine->blocks.bytes);
    release_swap(engine);
    backend->vtable->release(backend, engine->activation_memory.memory,
                             engine->activation_memory.bytes);
    backend->vtable->release(backend, engine->kv.memory, engine->kv.bytes);
    ln_adapters_free(&engine->adapters);
    backend->vtable->release(backend, engine->adapter_memory.memory, engine->adapter_memory.bytes);
    ln_weights_free(&engine->weights, backend);
    ln_engine_plan_free(&engine->plan, backend);
    ln_unreserve(engine, engine->plan.bytes[LN_ARENA_ENGINE]);
}

linnet_memory_plan ln_engine_memory(const linnet_engine *engine) {
    const size_t reserved[LN_ARENA_COUNT] = {
        [LN_ARENA_WEIGHTS] = engine->weights.memory_bytes + engine->adapter_memory.bytes,
        [LN_ARENA_TABLES] = engine->weights.table_bytes,
        [LN_ARENA_KV] = engine->kv.bytes,
        [LN_ARENA_SWAP] = engine->swap.bytes,
        [LN_ARENA_BLOCKS] = engine->blocks.bytes,
        [LN_ARENA_ACTIVATIONS] = engine->activation_memory.bytes,
        [LN_ARENA_SCRATCH] = engine->scratch_bytes,
        [LN_ARENA_BATCH] = engine->batch.bytes,
        [LN_ARENA_SAMPLER] = engine->sampling.bytes,
        [LN_ARENA_GRAMMAR] = engine->masks.bytes,
        [LN_ARENA_HEADS] = engine->heads.bytes,
        [LN_ARENA_DRAFT] =
            ln_draft_model_bytes(&engine->draft) + ln_draft_head_bytes(&engine->head),
        [LN_ARENA_CPU_LAYERS] =
            ln_cpu_layers_bytes(&engine->cpu_layers) + ln_cpu_experts_bytes(&engine->cpu_experts),
        [LN_ARENA_ENGINE] = engine->plan.bytes[LN_ARENA_ENGINE],
        [LN_ARENA_TOKENIZER] = ln_engine_plan_tokenizer_bytes(engine->model),
        [LN_ARENA_HEADERS] = ln_engine_plan_header_bytes(engine->model),
    };
    return ln_engine_plan_report(&engine->plan, reserved);
}
