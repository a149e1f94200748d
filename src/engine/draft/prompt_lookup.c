#include "engine/draft/prompt_lookup.h"

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

size_t ln_prompt_lookup(int32_t *tokens, size_t n_tokens, size_t n_most) {
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
