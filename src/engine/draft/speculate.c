#include "engine/draft/speculate.h"

#include "engine/draft/prompt_lookup.h"
#include "engine/draft/steps.h"
#include "engine/request/request.h"

size_t ln_speculate_length(const ln_sequence *sequence, size_t most) {
    const ln_sequence_group *group = sequence->group;
    bool decodes = sequence->has_row && !sequence->is_over && !group->needs_encoder &&
                   (group->is_forked || group->n_live == 1) && !group->wants_all_logits &&
                   !group->in_lockstep && sequence->n_cached + 1 == sequence->n_tokens;
    if (!decodes || sequence->n_tokens + 1 >= sequence->max_tokens)
        return 0;
    size_t room = sequence->max_tokens - sequence->n_tokens - 1;
    size_t length = sequence->draft_length > 0 ? sequence->draft_length : most;
    length = length < most ? length : most;
    return length < room ? length : room;
}

void ln_speculate_learn(ln_sequence *sequence, size_t n_draft, size_t n_accepted) {
    sequence->draft_length = n_accepted == n_draft ? 2 * n_draft : n_accepted + 1;
}

void ln_speculate(ln_draft_model *draft, const ln_scheduler *scheduler, size_t most) {
    size_t n_decoding = 0;
    for (size_t g = 0; g < scheduler->queues.n_running && most > 0; g++) {
        const ln_sequence_group *group = scheduler->queues.running[g];
        for (size_t i = 0; i < group->n_sequences; i++) {
            ln_sequence *sequence = &group->sequences[i];
            sequence->n_draft = ln_speculate_length(sequence, most);
            if (sequence->n_draft == 0)
                continue;
            size_t end = sequence->n_tokens + sequence->n_draft;
            if (draft->plan->model == NULL)
                sequence->n_draft = ln_prompt_lookup(group->request->outputs[i].tokens,
                                                     sequence->n_tokens, sequence->n_draft);
            else if (ln_kv_cache_extend(scheduler->kv, sequence->kv_row, sequence->n_cached, end))
                draft->decoding[n_decoding++] = sequence;
            else
                sequence->n_draft = 0;
        }
    }
    if (n_decoding > 0)
        ln_draft_model_propose(draft, n_decoding);
}
