/* The engine thread: take what was submitted, draft, schedule, execute, complete, notify, again. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/pool.h"

/* ---- early ends ------------------------------------------------------------------------- */

/* Why a group ends without a step, or NONE. */
static linnet_finish finish_of(const ln_sequence_group *group, bool stopping, uint64_t now_ns) {
    linnet_request *request = group->request;
    if (stopping || ln_request_is_cancelled(request))
        return LINNET_FINISH_CANCELLED;
    bool is_late = request->deadline_ns > 0 && request->deadline_ns <= now_ns;
    return is_late ? LINNET_FINISH_TIMEOUT : LINNET_FINISH_NONE;
}

/* The first deadline of what is left, or UINT64_MAX. */
static uint64_t earlier(uint64_t deadline_ns, const ln_sequence_group *group) {
    uint64_t own_ns = group->request->deadline_ns;
    return own_ns > 0 && own_ns < deadline_ns ? own_ns : deadline_ns;
}

static void end_if_early(linnet_engine *engine, ln_sequence_group *group, bool stopping,
                         uint64_t now_ns) {
    linnet_finish finish = finish_of(group, stopping, now_ns);
    if (finish != LINNET_FINISH_NONE)
        ln_completion_end_group(&engine->completion, group, finish, NULL);
    else
        engine->deadline_ns = earlier(engine->deadline_ns, group);
}

/* Ends the groups that were cancelled or are late, or all of them. */
static void end_early(linnet_engine *engine, bool stopping, uint64_t now_ns) {
    ln_scheduler *scheduler = &engine->scheduler;
    ln_group_queue *queues[] = {&scheduler->queues.swapped, &scheduler->queues.waiting};
    engine->deadline_ns = UINT64_MAX;
    for (size_t i = scheduler->queues.n_running; i-- > 0;)
        end_if_early(engine, scheduler->queues.running[i], stopping, now_ns);
    for (size_t i = 0; i < 2; i++)
        for (ln_sequence_group *group = queues[i]->first, *next; group != NULL; group = next) {
            next = group->next;
            end_if_early(engine, group, stopping, now_ns);
        }
}

/* ---- a step ----------------------------------------------------------------------------- */

static void fail(linnet_engine *engine, const ln_error *err) {
    ln_scheduler *scheduler = &engine->scheduler;
    const ln_backend *backend = engine->backend;
    if (backend->vtable->is_lost != NULL && backend->vtable->is_lost(backend))
        ln_stat_set(&engine->stats.is_lost, 1);
    if (engine->ranks.failure.status != LINNET_OK)
        ln_stat_set(&engine->stats.is_lost, 1);
    ln_stat_add(&engine->stats.n_failed_steps, 1);
    if (engine->is_ahead)
        ln_execute_drop(&engine->executor);
    engine->is_ahead = false;
    ln_scheduler_fail(scheduler);
    while (scheduler->queues.n_running > 0)
        ln_completion_end_group(&engine->completion,
                                scheduler->queues.running[scheduler->queues.n_running - 1],
                                LINNET_FINISH_ERROR, err);
}

/* What a token of a prompt costs: of steps that hardly do anything else, the later the more. */
static void learn_cost(linnet_engine *engine, uint64_t step_ns) {
    const ln_scheduler *scheduler = &engine->scheduler;
    double *cost = &engine->scheduler.preemption.costs.ns_per_token;
    double measured = (double)step_ns / (double)scheduler->n_tokens;
    if (scheduler->n_tokens >= 4 * scheduler->n_chunks)
        *cost += (measured - *cost) * (*cost > 0 ? 0.25 : 1);
}

/* Starts the scheduler's step; false when that has failed. */
static bool begin_step(linnet_engine *engine) {
    ln_error err = {0};
    engine->step_begin_ns = ln_clock_ns();
    if (ln_execute_start(&engine->executor, &err) == LINNET_OK)
        return true;
    fail(engine, &err);
    return false;
}

/* Waits for the step that was started first, and completes it, while the one behind
 * it runs if it is known. */
static void end_step(linnet_engine *engine) {
    ln_error err = {0};
    bool is_ahead = engine->is_ahead = ln_execute_start_next(&engine->executor);
    if (ln_execute_finish(&engine->executor, &err) != LINNET_OK) {
        fail(engine, &err);
        return;
    }
    uint64_t begin_ns = engine->step_begin_ns;
    engine->completion.step_end_ns = engine->step_begin_ns = ln_clock_ns();
    learn_cost(engine, engine->completion.step_end_ns - begin_ns);
    ln_stat_add(&engine->stats.n_steps, 1);
    ln_stat_set(&engine->stats.n_failed_steps, 0);
    ln_stat_set(&engine->stats.n_expert_hits, engine->cpu_experts.cache.n_hits);
    ln_stat_set(&engine->stats.n_expert_reads, engine->cpu_experts.cache.n_reads);
    ln_stat_set(&engine->stats.n_expert_bytes, engine->cpu_experts.cache.n_read_bytes);
    ln_stat_add(&engine->stats.n_computed_tokens, engine->scheduler.n_tokens);
    ln_scheduler_commit(&engine->scheduler);
    ln_stats_observe(&engine->stats, &engine->scheduler);
    ln_completion_run(&engine->completion);
    engine->head.has_step = !engine->scheduler.is_encoding;
    if (is_ahead)
        ln_scheduler_follow(&engine->scheduler);
}

/* Nobody waits for the step ahead any more: it ends before the engine sleeps. */
static void drop_if_idle(linnet_engine *engine) {
    if (!engine->is_ahead || !ln_scheduler_is_idle(&engine->scheduler))
        return;
    ln_execute_drop(&engine->executor);
    engine->is_ahead = false;
}

/* ---- the thread ------------------------------------------------------------------------- */

/* Sleeps until there is work, and takes what was submitted; false when the engine stops. The look
 * at cancel_came is first: a request cancelled before it is among those taken. */
static bool wait_for_work(linnet_engine *engine) {
    bool cancelled = atomic_exchange(&engine->cancel_came, false);
    pthread_mutex_lock(&engine->mutex);
    while (!engine->stopping && !engine->has_lost_rank && engine->submitted.first == NULL &&
           ln_scheduler_is_idle(&engine->scheduler))
        pthread_cond_wait(&engine->work_came, &engine->mutex);
    for (ln_sequence_group *group; (group = ln_group_queue_pop(&engine->submitted)) != NULL;) {
        engine->deadline_ns = earlier(engine->deadline_ns, group);
        ln_scheduler_add(&engine->scheduler, group);
    }
    ln_stats_observe(&engine->stats, &engine->scheduler);
    bool stopping = engine->stopping, has_lost_rank = engine->has_lost_rank;
    engine->has_lost_rank = false;
    pthread_mutex_unlock(&engine->mutex);
    if (has_lost_rank && ln_collectives_check(&engine->ranks, NULL) != LINNET_OK)
        ln_stat_set(&engine->stats.is_lost, 1);
    uint64_t now_ns = engine->deadline_ns < UINT64_MAX ? ln_clock_ns() : 0;
    if (cancelled || stopping || now_ns >= engine->deadline_ns)
        end_early(engine, stopping, now_ns);
    ln_notifier_hand_over(&engine->notifier);
    return !stopping;
}

void *ln_engine_main(void *argument) {
    linnet_engine *engine = argument;
    if (engine->plan.pins_threads)
        ln_pool_pin_caller();
    while (wait_for_work(engine)) {
        bool is_under_way = engine->is_ahead;
        if (!is_under_way)
            ln_speculate(&engine->draft, &engine->head, &engine->constraints.masker,
                         &engine->scheduler);
        if (!is_under_way && ln_scheduler_schedule(&engine->scheduler) > 0)
            is_under_way = begin_step(engine);
        if (is_under_way)
            end_step(engine);
        ln_notifier_hand_over(&engine->notifier);
        drop_if_idle(engine);
    }
    drop_if_idle(engine);
    ln_rank_link_stop(&engine->executor.link);
    return NULL;
}

/* ---- other ranks ------------------------------------------------------------------------ */

void *ln_engine_follow_main(void *argument) {
    linnet_engine *engine = argument;
    ln_error err = {0};
    if (engine->plan.pins_threads)
        ln_pool_pin_caller();
    while (ln_execute_follow(&engine->executor, &err))
        continue;
    pthread_mutex_lock(&engine->mutex);
    engine->follow_error = err;
    engine->has_followed = true;
    pthread_cond_broadcast(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
    return NULL;
}

ln_status ln_engine_follow(linnet_engine *engine, ln_error *err) {
    pthread_mutex_lock(&engine->mutex);
    while (!engine->has_followed)
        pthread_cond_wait(&engine->work_came, &engine->mutex);
    ln_status status = engine->follow_error.status;
    if (status != LINNET_OK && err != NULL)
        *err = engine->follow_error;
    pthread_mutex_unlock(&engine->mutex);
    return status;
}

void ln_engine_note_lost_rank(void *argument) {
    linnet_engine *engine = argument;
    pthread_mutex_lock(&engine->mutex);
    engine->has_lost_rank = true;
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
}

/* Hands a group to the engine thread. */
static void enqueue(linnet_engine *engine, ln_sequence_group *group) {
    pthread_mutex_lock(&engine->mutex);
    ln_group_queue_insert(&engine->submitted, group, engine->submitted.last);
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
}

ln_status ln_engine_submit(linnet_engine *engine, const linnet_request_options *options,
                           linnet_request **request, ln_error *err) {
    if (engine->ranks.rank > 0)
        return ln_fail(err, LINNET_ERR_STATE, "rank 0 takes requests, and this is rank %zu",
                       engine->ranks.rank);
    const ln_request_factory factory = {.model = engine->model,
                                        .plan = &engine->plan,
                                        .kv = &engine->cache,
                                        .constraints = &engine->constraints,
                                        .adapters = &engine->adapters,
                                        .cancel_came = &engine->cancel_came};
    LN_TRY(ln_request_create(&factory, options, request, err));
    enqueue(engine, &(*request)->group);
    return LINNET_OK;
}

linnet_engine_stats ln_engine_stats(linnet_engine *engine) {
    linnet_engine_stats stats = ln_stats_read(&engine->stats);
    pthread_mutex_lock(&engine->mutex);
    stats.n_waiting += engine->submitted.n_groups;
    pthread_mutex_unlock(&engine->mutex);
    return stats;
}

void ln_engine_observe_prefixes(linnet_engine *engine, const ln_prefix_observer *observer) {
    ln_kv_cache_observe(&engine->cache, ln_kv_cache_main_group(&engine->cache), observer);
}
