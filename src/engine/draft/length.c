#include "engine/draft/length.h"

#include "engine/request/request.h"

size_t ln_speculate_room(const ln_sequence *sequence) {
    const ln_sequence_group *group = sequence->group;
    bool decodes = sequence->has_row && !sequence->is_over && !group->needs_encoder &&
                   (group->is_forked || group->n_live == 1) && !group->wants_all_logits &&
                   !group->in_lockstep && sequence->n_cached + 1 == sequence->n_tokens;
    if (!decodes || sequence->n_tokens + 1 >= sequence->max_tokens)
        return 0;
    return sequence->max_tokens - sequence->n_tokens - 1;
}

size_t ln_speculate_length(const ln_sequence *sequence, size_t most) {
    size_t room = ln_speculate_room(sequence);
    size_t length = sequence->draft_length > 0 ? sequence->draft_length : most;
    length = length < most ? length : most;
    return length < room ? length : room;
}

void ln_speculate_learn(ln_sequence *sequence, size_t n_draft, size_t n_accepted) {
    sequence->draft_length = n_accepted == n_draft ? 2 * n_draft : n_accepted + 1;
}
