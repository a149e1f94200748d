#include "engine/draft/speculate.h"

#include "engine/draft/forced.h"
#include "engine/draft/length.h"
#include "engine/draft/predicted.h"
#include "engine/draft/prompt_lookup.h"
#include "engine/draft/steps.h"
#include "engine/request/request.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Forced tokens are drafted in the place of what a drafter guessed. */
static bool draft_forced(ln_masker *masker, ln_sequence *sequence, size_t most) {
    size_t n = ln_draft_forced(masker, sequence, smaller(ln_speculate_room(sequence), most));
    sequence->is_forced = n > 0;
    if (n > 0)
        sequence->n_draft = n;
    return n > 0;
}

/* What a request predicts is drafted in the place of what a drafter guessed, too. */
static bool draft_predicted(ln_sequence *sequence, size_t most) {
    const ln_sequence_group *group = sequence->group;
    const linnet_request *request = group->request;
    sequence->is_predicted = false;
    if (request->prediction.n_tokens == 0 || sequence->n_tokens < group->n_prompt)
        return false;
    size_t n = ln_draft_predicted(
        &request->prediction, request->outputs[sequence->index].tokens + group->n_prompt,
        sequence->n_tokens - group->n_prompt, ln_speculate_length(sequence, most));
    sequence->is_predicted = n > 0;
    sequence->drafted = -1;
    if (n > 0)
        sequence->n_draft = n;
    return n > 0;
}

/* Drafts of a sequence; whether the draft model is to make them. */
static bool begin_draft(const ln_draft_model *draft, ln_sequence *sequence,
                        const ln_scheduler *scheduler, size_t most) {
    sequence->n_draft = ln_speculate_length(sequence, most);
    if (sequence->n_draft == 0)
        return false;
    size_t end = sequence->n_tokens + sequence->n_draft;
    if (draft->plan->model == NULL)
        sequence->n_draft =
            ln_prompt_lookup(sequence->group->request->outputs[sequence->index].tokens,
                             sequence->n_tokens, sequence->n_draft);
    else if (ln_kv_cache_extend(scheduler->kv, sequence->kv_row, sequence->n_cached, end))
        return true;
    else
        sequence->n_draft = 0;
    return false;
}

void ln_speculate(ln_draft_model *draft, ln_draft_head *head, ln_masker *masker,
                  const ln_scheduler *scheduler) {
    size_t most = ln_engine_plan_draft_length(head->plan, scheduler->queues.n_seqs);
    size_t most_forced = head->plan->draft.n_forced, n_decoding = 0;
    bool has_head = ln_engine_plan_has_head(head->plan);
    if (has_head)
        ln_draft_head_propose(head, scheduler, most);
    if (most == 0 && most_forced == 0)
        return;
    for (size_t g = 0; g < scheduler->queues.n_running; g++) {
        const ln_sequence_group *group = scheduler->queues.running[g];
        for (size_t i = 0; i < group->n_sequences; i++) {
            ln_sequence *sequence = &group->sequences[i];
            if (!draft_forced(masker, sequence, most_forced) &&
                !draft_predicted(sequence, most > most_forced ? most : most_forced) && !has_head &&
                begin_draft(draft, sequence, scheduler, most))
                draft->decoding[n_decoding++] = sequence;
        }
    }
    if (n_decoding > 0)
        ln_draft_model_propose(draft, n_decoding);
}
