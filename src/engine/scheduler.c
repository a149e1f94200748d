#include "engine/scheduler.h"

typedef struct scheduler_layout {
    size_t running, chunks;
} scheduler_layout;

static scheduler_layout lay_out(const ln_step_budget *budget, ln_layout *layout) {
    scheduler_layout s;
    s.running = ln_layout_add(layout, budget->max_seqs, sizeof(ln_sequence *));
    s.chunks = ln_layout_add(layout, budget->max_seqs, sizeof(ln_chunk));
    return s;
}

void ln_scheduler_plan(const ln_step_budget *budget, ln_layout *layout) {
    lay_out(budget, layout);
}

void ln_scheduler_init(ln_scheduler *scheduler, const ln_step_budget *budget, ln_kv_cache *kv,
                       void *memory) {
    ln_layout layout = {0};
    scheduler_layout s = lay_out(budget, &layout);
    *scheduler = (ln_scheduler){
        .budget = *budget,
        .kv = kv,
        .running = (ln_sequence **)(void *)((char *)memory + s.running),
        .chunks = (ln_chunk *)(void *)((char *)memory + s.chunks),
    };
}

bool ln_scheduler_is_idle(const ln_scheduler *scheduler) {
    return scheduler->n_running == 0 && scheduler->waiting.first == NULL;
}

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t tokens_missing(const ln_sequence *sequence) {
    return sequence->n_tokens - sequence->n_cached;
}

/* Adds as much of a sequence as the budget holds; false when that is nothing. */
static bool add_chunk(ln_scheduler *s, ln_sequence *sequence) {
    if (sequence->needs_encoder)
        return false;
    size_t missing = tokens_missing(sequence);
    size_t n_tokens = min_size(missing, s->budget.max_tokens - s->n_tokens);
    size_t rows_left = s->budget.max_logits - s->n_logits;
    size_t n_logits = 0;
    if (sequence->wants_all_logits)
        n_logits = n_tokens = min_size(n_tokens, rows_left);
    else if (n_tokens == missing && rows_left > 0)
        n_logits = 1;
    else if (n_tokens == missing) /* the last token waits for a row */
        n_tokens--;
    if (n_tokens == 0)
        return false;
    ln_kv_cache_extend(s->kv, sequence->kv_row, sequence->n_cached + n_tokens);
    s->chunks[s->n_chunks++] = (ln_chunk){sequence, n_tokens, n_logits};
    s->n_tokens += n_tokens;
    s->n_logits += n_logits;
    return true;
}

/* Moves the first waiting sequence to the running ones; false when there is none, or no room. */
static bool admit_next(ln_scheduler *s) {
    ln_sequence *sequence = s->waiting.first;
    if (sequence == NULL || s->n_running == s->budget.max_seqs)
        return false;
    ln_kv_need need = {sequence->max_tokens, sequence->n_encoder};
    ln_kv_answer answer = ln_kv_cache_can_allocate(s->kv, need);
    LN_BUG_ON(answer == LN_KV_NEVER);
    if (answer != LN_KV_OK)
        return false;
    ln_sequence_queue_pop(&s->waiting);
    s->n_waiting--;
    sequence->kv_row = ln_kv_cache_admit(s->kv, need);
    s->running[s->n_running++] = sequence;
    return true;
}

/* Encoders that have not run yet, as many whole prompts as the budget holds. */
static void add_encoders(ln_scheduler *s) {
    for (size_t i = 0; i < s->n_running; i++) {
        ln_sequence *sequence = s->running[i];
        if (!sequence->needs_encoder || s->n_tokens + sequence->n_encoder > s->budget.max_tokens)
            continue;
        s->chunks[s->n_chunks++] = (ln_chunk){sequence, sequence->n_encoder, 0};
        s->n_tokens += sequence->n_encoder;
    }
    s->is_encoding = s->n_chunks > 0;
}

static void add_decoders(ln_scheduler *s) {
    for (size_t i = 0; i < s->n_running; i++)
        if (tokens_missing(s->running[i]) == 1)
            add_chunk(s, s->running[i]);
    for (size_t i = 0; i < s->n_running; i++)
        if (tokens_missing(s->running[i]) > 1)
            add_chunk(s, s->running[i]);
    while (s->n_tokens < s->budget.max_tokens && admit_next(s))
        if (!add_chunk(s, s->running[s->n_running - 1]))
            break;
}

size_t ln_scheduler_schedule(ln_scheduler *s) {
    s->n_chunks = s->n_tokens = s->n_logits = 0;
    add_encoders(s);
    if (!s->is_encoding)
        add_decoders(s);
    if (s->n_chunks == 0) /* what was admitted just now begins with its encoder */
        add_encoders(s);
    return s->n_chunks;
}

void ln_scheduler_commit(ln_scheduler *s) {
    for (size_t i = 0; i < s->n_chunks; i++) {
        ln_sequence *sequence = s->chunks[i].sequence;
        if (s->is_encoding) {
            sequence->needs_encoder = false;
            ln_kv_cache_drop_encoder(s->kv, sequence->kv_row);
            continue;
        }
        sequence->n_cached += s->chunks[i].n_tokens;
        ln_kv_cache_trim(s->kv, sequence->kv_row, sequence->n_cached);
    }
}

void ln_scheduler_end(ln_scheduler *s, ln_sequence *sequence) {
    size_t at = 0;
    while (at < s->n_running && s->running[at] != sequence)
        at++;
    LN_BUG_ON(at == s->n_running);
    for (s->n_running--; at < s->n_running; at++)
        s->running[at] = s->running[at + 1];
    ln_kv_cache_release(s->kv, sequence->kv_row);
}
