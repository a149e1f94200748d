#include "engine/speculate.h"

enum {
    LEAST_MATCH = 2,     /* tokens that must agree */
    ENOUGH_MATCH = 8,    /* no longer agreement is looked for */
    LOOKUP_TOKENS = 8192 /* how far back */
};

/* How many tokens before `end` agree with the last ones, up to ENOUGH_MATCH. */
static size_t count_matches(const int32_t *tokens, size_t n_tokens, size_t end) {
    size_t n = 0;
    while (n < ENOUGH_MATCH && n < end && tokens[end - 1 - n] == tokens[n_tokens - 1 - n])
        n++;
    return n;
}

size_t ln_speculate_lookup(int32_t *tokens, size_t n_tokens, size_t n_most) {
    size_t best_match = LEAST_MATCH - 1, best = 0;
    size_t first = n_tokens > LOOKUP_TOKENS ? n_tokens - LOOKUP_TOKENS : 0;
    if (n_tokens < 2)
        return 0;
    for (size_t end = n_tokens - 1; end > first && best_match < ENOUGH_MATCH; end--) {
        if (tokens[end - 1] != tokens[n_tokens - 1])
            continue;
        size_t n = count_matches(tokens, n_tokens, end);
        if (n > best_match) {
            best_match = n;
            best = end;
        }
    }
    if (best == 0)
        return 0;
    for (size_t i = 0; i < n_most; i++) /* a loop reads on in what it has just written */
        tokens[n_tokens + i] = tokens[best + i];
    return n_most;
}

size_t ln_speculate_length(const ln_sequence *sequence, size_t most) {
    const ln_sequence_group *group = sequence->group;
    bool decodes = sequence->has_row && !sequence->is_over && !group->needs_encoder &&
                   (group->is_forked || group->n_live == 1) && !group->wants_all_logits &&
                   !group->moves_together && sequence->n_cached + 1 == sequence->n_tokens;
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
