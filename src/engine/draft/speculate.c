#include "engine/draft/speculate.h"

#include "engine/draft/length.h"
#include "engine/draft/prompt_lookup.h"
#include "engine/draft/steps.h"
#include "engine/request/request.h"

void ln_speculate(ln_draft_model *draft, ln_draft_head *head, const ln_scheduler *scheduler) {
    size_t most = ln_engine_plan_draft_length(head->plan, scheduler->queues.n_seqs);
    size_t n_decoding = 0;
    if (head->plan->spec.head != NULL) {
        ln_draft_head_propose(head, scheduler, most);
        return;
    }
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
