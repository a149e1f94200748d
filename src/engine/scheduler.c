#include "engine/scheduler.h"

#include <string.h>

enum {
    OVERDUE_TURN = 64, /* with priorities, every so many admissions go to who waits longest */
    LOOK_AHEAD = 64    /* waiting groups that are looked at behind long prompts that must wait */
};

/* ---- memory ----------------------------------------------------------------------------- */

typedef struct scheduler_layout {
    size_t running, chunks, preemption;
} scheduler_layout;

static scheduler_layout lay_out(const ln_step_budget *budget, ln_layout *layout) {
    scheduler_layout s;
    s.running = ln_layout_add(layout, budget->max_seqs, sizeof(ln_sequence_group *));
    s.chunks = ln_layout_add(layout, budget->max_seqs, sizeof(ln_chunk));
    s.preemption = ln_preemption_plan(layout, budget->max_seqs);
    return s;
}

void ln_scheduler_plan(const ln_step_budget *budget, ln_layout *layout) {
    lay_out(budget, layout);
}

void ln_scheduler_init(ln_scheduler *scheduler, const ln_step_budget *budget,
                       const ln_scheduler_options *options, ln_kv_cache *kv, void *memory) {
    ln_layout layout = {0};
    scheduler_layout s = lay_out(budget, &layout);
    char *base = memory;
    *scheduler = (ln_scheduler){
        .budget = *budget,
        .options = *options,
        .kv = kv,
        .queues = {.order = options->order,
                   .running = (ln_sequence_group **)(void *)(base + s.running),
                   .max_seqs = budget->max_seqs},
        .chunks = (ln_chunk *)(void *)(base + s.chunks),
    };
    ln_preemption_init(&scheduler->preemption, options->preemption, budget->max_seqs,
                       base + s.preemption);
}

bool ln_scheduler_is_idle(const ln_scheduler *s) {
    return s->queues.n_running == 0 && s->queues.waiting.first == NULL &&
           s->queues.swapped.first == NULL;
}

void ln_scheduler_add(ln_scheduler *s, ln_sequence_group *group) {
    group->arrival = s->n_arrivals++;
    group->state = LN_GROUP_WAITING;
    ln_queues_insert(&s->queues, &s->queues.waiting, group);
}

/* ---- what a sequence lacks -------------------------------------------------------------- */

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static ln_sequence *first_live(const ln_sequence_group *group) {
    size_t i = 0;
    while (group->sequences[i].is_over)
        i++;
    return &group->sequences[i];
}

/* Tokens that a sequence lacks and may compute now: the first of a group reads just the prompt for
 * the others. */
static size_t tokens_missing(const ln_sequence *sequence) {
    const ln_sequence_group *group = sequence->group;
    if (!sequence->has_row || group->needs_encoder)
        return 0;
    bool reads_for_others = group->n_live > 1 && !group->is_forked;
    return (reads_for_others ? group->n_prompt : sequence->n_tokens) - sequence->n_cached;
}

static bool is_prefilling(const ln_sequence_group *group) {
    for (size_t i = 0; i < group->n_sequences; i++)
        if (tokens_missing(&group->sequences[i]) > 1)
            return true;
    return false;
}

static size_t count_decodes(const ln_scheduler *s) {
    size_t n = 0;
    for (size_t g = 0; g < s->queues.n_running; g++)
        for (size_t i = 0; i < s->queues.running[g]->n_sequences; i++)
            n += tokens_missing(&s->queues.running[g]->sequences[i]) == 1;
    return n;
}

/* ---- chunks ----------------------------------------------------------------------------- */

static void preempt(ln_scheduler *s, ln_sequence_group *group) {
    ln_preempt(&s->preemption, &s->queues, s->kv, group);
}

/* Gives a sequence blocks, at the cost of groups behind `place` when there are none. */
static bool make_room(ln_scheduler *s, const ln_sequence *sequence, size_t n_tokens, size_t place) {
    while (!ln_kv_cache_extend(s->kv, sequence->kv_row, sequence->n_cached,
                               sequence->n_cached + n_tokens)) {
        if (s->queues.n_running <= place + 1)
            return false;
        preempt(s, s->queues.running[s->queues.n_running - 1]);
    }
    return true;
}

/* Chunked prefill: how much of a sequence the budget holds, beside the decodes that are still to
 * come. */
static ln_chunk plan_chunk(const ln_scheduler *s, ln_sequence *sequence) {
    const ln_sequence_group *group = sequence->group;
    size_t missing = tokens_missing(sequence);
    size_t kept = missing > 1 ? s->n_decodes_left : 0;
    size_t n_tokens = min_size(missing, s->budget.max_tokens - s->n_tokens - kept);
    size_t rows_left = s->budget.max_logits - s->n_logits - kept;
    size_t n_logits = 0;
    bool is_last = sequence->n_cached + n_tokens == sequence->n_tokens;
    if (group->pooling != LINNET_POOLING_DEFAULT) /* no logits at all */
        return (ln_chunk){.sequence = sequence, .n_tokens = n_tokens};
    if (group->wants_all_logits)
        n_logits = n_tokens = min_size(n_tokens, rows_left);
    else if (is_last && rows_left > 0)
        n_logits = 1;
    else if (is_last && n_tokens > 0) /* the last token waits for a row */
        n_tokens--;
    return (ln_chunk){.sequence = sequence, .n_tokens = n_tokens, .n_logits = n_logits};
}

/* Drafts for which the budget and the cache have room besides what is certain. */
static void add_draft(ln_scheduler *s, ln_chunk *chunk) {
    const ln_sequence *sequence = chunk->sequence;
    size_t n_tokens = s->n_tokens + chunk->n_tokens + s->n_decodes_left;
    size_t n_logits = s->n_logits + chunk->n_logits + s->n_decodes_left;
    if (chunk->n_logits == 0 || n_tokens >= s->budget.max_tokens ||
        n_logits >= s->budget.max_logits)
        return;
    size_t n_draft = min_size(sequence->n_draft, s->budget.max_tokens - n_tokens);
    n_draft = min_size(n_draft, s->budget.max_logits - n_logits);
    if (n_draft == 0 || !ln_kv_cache_extend(s->kv, sequence->kv_row, sequence->n_cached,
                                            sequence->n_cached + chunk->n_tokens + n_draft))
        return;
    chunk->n_draft = n_draft;
    chunk->n_tokens += n_draft;
    chunk->n_logits += n_draft;
}

static void add_chunk(ln_scheduler *s, const ln_chunk *chunk) {
    const ln_sequence *sequence = chunk->sequence;
    s->chunks[s->n_chunks++] = *chunk;
    s->n_tokens += chunk->n_tokens;
    s->n_logits += chunk->n_logits;
    ln_kv_cache_add_prefix(s->kv, sequence->kv_row, sequence->tokens,
                           sequence->n_cached + chunk->n_tokens - chunk->n_draft);
}

/* Sequences in lockstep wait at their last token for the others. */
static bool must_wait(const ln_sequence_group *group, const ln_chunk *chunk) {
    return group->in_lockstep && group->is_forked && chunk->n_logits > 0 && is_prefilling(group);
}

/* The next tokens of a group's prompts. */
static void add_prefill(ln_scheduler *s, size_t place) {
    ln_sequence_group *group = s->queues.running[place];
    for (size_t i = 0; i < group->n_sequences; i++) {
        ln_sequence *sequence = &group->sequences[i];
        if (tokens_missing(sequence) < 2)
            continue;
        ln_chunk chunk = plan_chunk(s, sequence);
        if (must_wait(group, &chunk)) {
            chunk.n_logits = 0;
            chunk.n_tokens--;
        }
        if (chunk.n_tokens > 0 && make_room(s, sequence, chunk.n_tokens, place))
            add_chunk(s, &chunk);
    }
}

/* Blocks for all decodes of a group, or for none: then it is preempted itself. */
static bool make_room_for_decodes(ln_scheduler *s, size_t place) {
    ln_sequence_group *group = s->queues.running[place];
    for (size_t i = 0; i < group->n_sequences; i++) {
        const ln_sequence *sequence = &group->sequences[i];
        if (tokens_missing(sequence) != 1 || make_room(s, sequence, 1, place))
            continue;
        LN_BUG_ON(place == 0);
        preempt(s, group);
        return false;
    }
    return true;
}

/* The decodes of a group; false when it was preempted. */
static bool add_decodes(ln_scheduler *s, size_t place) {
    ln_sequence_group *group = s->queues.running[place];
    bool waits = group->in_lockstep && group->is_forked && is_prefilling(group);
    if (!waits && !make_room_for_decodes(s, place))
        return false;
    for (size_t i = 0; i < group->n_sequences; i++) {
        ln_sequence *sequence = &group->sequences[i];
        if (tokens_missing(sequence) != 1)
            continue;
        s->n_decodes_left -= s->n_decodes_left > 0;
        ln_chunk chunk = plan_chunk(s, sequence);
        if (waits || chunk.n_tokens == 0)
            continue;
        add_draft(s, &chunk);
        add_chunk(s, &chunk);
    }
    return true;
}

/* What runs, in order. A group's decodes come before its prefills; preemption takes from the end,
 * where nothing has a chunk yet. */
static void add_running(ln_scheduler *s, bool decodes) {
    s->n_decodes_left = decodes ? count_decodes(s) : 0;
    for (size_t place = 0; place < s->queues.n_running; place++) {
        if (decodes && !add_decodes(s, place))
            break; /* it was the last */
        add_prefill(s, place);
    }
}

/* ---- admission -------------------------------------------------------------------------- */

static bool is_long(const ln_scheduler *s, size_t n_tokens) {
    return s->options.max_long_prefills > 0 && n_tokens > s->options.long_prefill_tokens;
}

/* Whether so many long prompts are being read that this one has to wait. */
static bool is_too_long(const ln_scheduler *s, const ln_sequence_group *group) {
    size_t n_long = 0;
    if (!is_long(s, first_live(group)->n_tokens))
        return false;
    for (size_t i = 0; i < s->queues.n_running; i++)
        n_long += s->queues.running[i]->is_long && is_prefilling(s->queues.running[i]);
    return n_long >= s->options.max_long_prefills;
}

/* With priorities, the group that has waited longest is sometimes the first. */
static void promote_oldest(ln_scheduler *s) {
    ln_sequence_group *oldest = s->queues.waiting.first;
    if (s->queues.order == LINNET_ORDER_FCFS || (s->n_admissions + 1) % OVERDUE_TURN != 0)
        return;
    for (ln_sequence_group *group = oldest; group != NULL; group = group->next)
        if (group->arrival < oldest->arrival)
            oldest = group;
    ln_group_queue_remove(&s->queues.waiting, oldest);
    oldest->is_overdue = true;
    ln_queues_insert(&s->queues, &s->queues.waiting, oldest);
}

/* Whether hidden states are wanted that a prefix hit would not compute. */
static bool needs_all_tokens(const ln_sequence_group *group) {
    return group->pooling == LINNET_POOLING_CLS || group->pooling == LINNET_POOLING_MEAN;
}

/* Runs a waiting group; false when there is no room for it. */
static bool admit(ln_scheduler *s, ln_sequence_group *group, size_t *place) {
    ln_sequence *sequence = first_live(group);
    ln_kv_arrival arrival = {.tokens = sequence->tokens,
                             .n_tokens = sequence->n_tokens,
                             .max_tokens = sequence->max_tokens,
                             .n_encoder = group->n_encoder,
                             .root = group->root,
                             .may_hit = !group->wants_all_logits && !needs_all_tokens(group),
                             .is_alone = s->queues.n_running == 0,
                             .origin = &group->origin};
    if (group->n_live > 1) { /* the others go on from here */
        arrival.n_tokens = group->n_prompt;
        arrival.n_forks = group->n_live - 1;
    }
    if (group->is_whole && group->n_prompt > s->budget.max_tokens - s->n_tokens)
        return false;
    if (s->queues.n_seqs + group->n_live > s->budget.max_seqs ||
        !ln_kv_cache_admit(s->kv, &arrival, &sequence->kv_row, &sequence->n_cached))
        return false;
    sequence->has_row = true;
    sequence->n_draft_cached = 0;
    group->is_forked = group->n_live == 1;
    group->is_long = is_long(s, sequence->n_tokens - sequence->n_cached);
    if (!group->was_admitted) {
        group->was_admitted = true;
        group->n_prefix_hit = sequence->n_cached;
        s->n_prompt_tokens += group->n_prompt;
    }
    s->n_admissions++;
    ln_group_queue_remove(&s->queues.waiting, group);
    *place = ln_queues_run(&s->queues, group);
    return true;
}

/* The first waiting group that is not too long. */
static ln_sequence_group *choose_waiting(ln_scheduler *s) {
    size_t n_looked = 0;
    if (s->queues.waiting.first != NULL)
        promote_oldest(s);
    for (ln_sequence_group *group = s->queues.waiting.first; group != NULL && n_looked < LOOK_AHEAD;
         group = group->next, n_looked++)
        if (!is_too_long(s, group))
            return group;
    return NULL;
}

static uint64_t count_preempted(const ln_scheduler *s) {
    return s->preemption.n_swapped + s->preemption.n_recomputed;
}

/* By priority, waiting groups preempt running ones of a lower priority, the last first. Overdue
 * groups neither preempt nor are preempted. */
static void preempt_for_priority(ln_scheduler *s) {
    size_t place;
    while (s->queues.order == LINNET_ORDER_PRIORITY && s->queues.n_running > 0) {
        ln_sequence_group *first = choose_waiting(s),
                          *last = s->queues.running[s->queues.n_running - 1];
        if (first == NULL || first->is_overdue || last->is_overdue ||
            first->priority >= last->priority)
            return;
        if (admit(s, first, &place))
            continue;
        preempt(s, last);
        if (s->queues.n_running == 0) /* alone it has room */
            admit(s, first, &place);
    }
}

/* A group that has just come in takes what room there is. */
static void add_new(ln_scheduler *s, size_t place) {
    ln_sequence_group *group = s->queues.running[place];
    bool moves = group->in_lockstep && group->is_forked; /* from the next step on */
    for (size_t i = 0; i < group->n_sequences && !moves; i++) {
        ln_sequence *sequence = &group->sequences[i];
        if (tokens_missing(sequence) == 0)
            continue;
        ln_chunk chunk = plan_chunk(s, sequence);
        if (chunk.n_tokens > 0 && ln_kv_cache_extend(s->kv, sequence->kv_row, sequence->n_cached,
                                                     sequence->n_cached + chunk.n_tokens))
            add_chunk(s, &chunk);
    }
}

/* Not in a step that preempts: there is no room, and nothing moves out and in at once. */
static void add_waiting(ln_scheduler *s, uint64_t n_preempted) {
    size_t place;
    if (n_preempted != count_preempted(s))
        return;
    while (s->n_tokens < s->budget.max_tokens && s->queues.swapped.first != NULL) {
        if (!ln_preempt_resume(&s->preemption, &s->queues, s->kv, s->queues.swapped.first, &place))
            return;
        add_new(s, place);
    }
    while (s->n_tokens < s->budget.max_tokens) {
        ln_sequence_group *group = choose_waiting(s);
        if (group == NULL || !admit(s, group, &place))
            return;
        add_new(s, place);
    }
}

/* ---- a step ----------------------------------------------------------------------------- */

/* Encoders that have not run yet, as many whole prompts as the budget holds. */
static void add_encoders(ln_scheduler *s) {
    for (size_t i = 0; i < s->queues.n_running; i++) {
        const ln_sequence_group *group = s->queues.running[i];
        if (!group->needs_encoder || s->n_tokens + group->n_encoder > s->budget.max_tokens)
            continue;
        s->chunks[s->n_chunks++] =
            (ln_chunk){.sequence = first_live(group), .n_tokens = group->n_encoder};
        s->n_tokens += group->n_encoder;
    }
    s->is_encoding = s->n_chunks > 0;
}

/* Sequences of one token come first, so that a backend finds them, and the others, in one range.
 * The order is otherwise as it was, and what comes in behind keeps its place: it may share blocks
 * that chunks in front of it write in this step. Beams stay where they are, as theirs lie together.
 */
static void put_decodes_first(ln_scheduler *s) {
    size_t n_decodes = 0;
    for (size_t i = 0; i < s->n_chunks; i++) {
        ln_chunk chunk = s->chunks[i];
        if (chunk.n_tokens != 1 || chunk.sequence->group->in_lockstep)
            continue;
        memmove(s->chunks + n_decodes + 1, s->chunks + n_decodes,
                (i - n_decodes) * sizeof *s->chunks);
        s->chunks[n_decodes++] = chunk;
    }
}

static void add_decoders(ln_scheduler *s) {
    uint64_t n_preempted = count_preempted(s);
    preempt_for_priority(s);
    if (s->options.policy == LINNET_POLICY_PREFILL_FIRST) {
        add_running(s, false);
        add_waiting(s, n_preempted);
        if (s->n_chunks > 0)
            return;
    }
    add_running(s, true);
    put_decodes_first(s);
    add_waiting(s, n_preempted);
}

size_t ln_scheduler_schedule(ln_scheduler *s) {
    s->n_chunks = s->n_tokens = s->n_logits = s->n_decodes_left = 0;
    add_encoders(s);
    if (!s->is_encoding)
        add_decoders(s);
    if (s->n_chunks == 0) /* what was admitted just now begins with its encoder */
        add_encoders(s);
    if (s->n_chunks == 0) /* or is in lockstep */
        add_running(s, true);
    LN_BUG_ON(s->n_chunks == 0 && !ln_scheduler_is_idle(s));
    return s->n_chunks;
}

/* The prompt has been read by the first of several: the others share it. */
static void fork_group(ln_scheduler *s, ln_sequence_group *group, const ln_sequence *first) {
    for (size_t i = 0; i < group->n_sequences; i++) {
        ln_sequence *sequence = &group->sequences[i];
        if (sequence->is_over || sequence == first)
            continue;
        sequence->kv_row = ln_kv_cache_take_row(s->kv);
        sequence->has_row = true;
        sequence->n_draft_cached = 0;
        sequence->n_cached = first->n_cached;
        ln_kv_cache_fork(s->kv, first->kv_row, sequence->kv_row);
    }
    group->is_forked = true;
}

void ln_scheduler_commit(ln_scheduler *s) {
    ln_kv_cache_end_step(s->kv);
    for (size_t i = 0; i < s->n_chunks; i++) {
        ln_chunk *chunk = &s->chunks[i];
        ln_sequence *sequence = chunk->sequence;
        if (sequence == NULL)
            continue;
        ln_sequence_group *group = sequence->group;
        if (s->is_encoding) {
            group->needs_encoder = false;
            ln_kv_cache_drop_encoder(s->kv, sequence->kv_row);
            continue;
        }
        sequence->n_cached += chunk->n_tokens - chunk->n_draft; /* drafts are to be verified */
        ln_kv_cache_trim(s->kv, sequence->kv_row, sequence->n_cached);
        if (group->is_forked || sequence->n_cached < group->n_prompt)
            continue;
        fork_group(s, group, sequence);
        chunk->begins_group = sequence->n_tokens == group->n_prompt;
    }
}

void ln_scheduler_fail(ln_scheduler *s) {
    ln_kv_cache_end_step(s->kv);
    for (size_t i = 0; i < s->n_chunks; i++) {
        const ln_sequence *sequence = s->chunks[i].sequence;
        if (sequence != NULL)
            ln_kv_cache_forget_prefix(s->kv, sequence->kv_row, sequence->n_cached);
    }
}

/* ---- a step behind a step --------------------------------------------------------------- */

/* Whether the sequence lacks one token after the step, unless that gives it an end. */
static bool goes_on(const ln_chunk *chunk) {
    const ln_sequence *sequence = chunk->sequence;
    if (sequence == NULL || sequence->group->in_lockstep || !sequence->group->is_forked)
        return false;
    return chunk->n_logits == 1 && chunk->n_draft == 0 &&
           sequence->n_cached + chunk->n_tokens == sequence->n_tokens &&
           sequence->n_tokens + 1 < sequence->max_tokens;
}

/* Sequences whose first own tokens are under way share no block that they write to, so there are no
 * copies. */
bool ln_scheduler_can_follow(ln_scheduler *s) {
    bool is_full = s->queues.n_seqs == s->budget.max_seqs && s->queues.order == LINNET_ORDER_FCFS;
    if (s->is_encoding || s->n_chunks < s->queues.n_seqs || s->queues.swapped.first != NULL ||
        (s->queues.waiting.first != NULL && !is_full))
        return false;
    for (size_t i = 0; i < s->n_chunks; i++)
        if (!goes_on(&s->chunks[i]))
            return false;
    for (size_t i = 0; i < s->n_chunks; i++) {
        const ln_sequence *sequence = s->chunks[i].sequence;
        if (!ln_kv_cache_extend(s->kv, sequence->kv_row, sequence->n_tokens,
                                sequence->n_tokens + 1))
            return false;
    }
    return true;
}

void ln_scheduler_follow(ln_scheduler *s) {
    for (size_t i = 0; i < s->n_chunks; i++) {
        ln_chunk *chunk = &s->chunks[i];
        chunk->n_tokens = chunk->n_logits = 1;
        if (chunk->sequence != NULL)
            ln_kv_cache_add_prefix(s->kv, chunk->sequence->kv_row, chunk->sequence->tokens,
                                   chunk->sequence->n_tokens);
    }
    s->n_tokens = s->n_logits = s->n_chunks;
}

/* ---- ends ------------------------------------------------------------------------------- */

static void leave(ln_scheduler *s, ln_sequence_group *group) {
    switch (group->state) {
    case LN_GROUP_WAITING: ln_group_queue_remove(&s->queues.waiting, group); break;
    case LN_GROUP_SWAPPED: ln_group_queue_remove(&s->queues.swapped, group); break;
    case LN_GROUP_RUNNING: ln_queues_unrun(&s->queues, group); break;
    case LN_GROUP_NEW:
    default: break;
    }
    group->state = LN_GROUP_NEW;
}

void ln_scheduler_end(ln_scheduler *s, ln_sequence *sequence) {
    ln_sequence_group *group = sequence->group;
    LN_BUG_ON(sequence->is_over);
    if (group->n_live == 1)
        leave(s, group);
    else if (group->state == LN_GROUP_RUNNING)
        s->queues.n_seqs--;
    if (sequence->has_row)
        ln_kv_cache_release(s->kv, sequence->kv_row);
    for (size_t i = 0; i < s->n_chunks; i++)
        if (s->chunks[i].sequence == sequence)
            s->chunks[i].sequence = NULL;
    sequence->has_row = false;
    sequence->is_over = true;
    group->n_live--;
}

void ln_scheduler_end_group(ln_scheduler *s, ln_sequence_group *group) {
    bool is_swapped = group->state == LN_GROUP_SWAPPED;
    for (size_t i = 0; i < group->n_sequences; i++) {
        ln_sequence *sequence = &group->sequences[i];
        s->preemption.n_swap_rows -= is_swapped && sequence->has_row;
        if (!sequence->is_over)
            ln_scheduler_end(s, sequence);
    }
}
