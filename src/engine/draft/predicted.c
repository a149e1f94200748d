#include "engine/draft/predicted.h"

#include <stdbool.h>
#include <string.h>

enum {
    LEAST_MATCH = 2,  /* tokens that must agree, but for the place that is as far as the output */
    ENOUGH_MATCH = 16 /* no longer agreement is looked for */
};

/* How many tokens before `end` agree with the output's last ones. */
static size_t count_matches(const int32_t *tokens, size_t end, const int32_t *output,
                            size_t n_output) {
    size_t n = 0;
    while (n < ENOUGH_MATCH && n < end && n < n_output &&
           tokens[end - 1 - n] == output[n_output - 1 - n])
        n++;
    return n;
}

static size_t distance(size_t a, size_t b) {
    return a > b ? a - b : b - a;
}

size_t ln_draft_predicted(const ln_prediction *prediction, int32_t *output, size_t n_output,
                          size_t n_most) {
    size_t best = 0, best_match = 0;
    for (size_t end = 1; end < prediction->n_tokens && n_output > 0; end++) {
        if (prediction->tokens[end - 1] != output[n_output - 1])
            continue;
        size_t n = count_matches(prediction->tokens, end, output, n_output);
        bool is_enough = n >= LEAST_MATCH || end == n_output;
        if (is_enough && (n > best_match || (n == best_match &&
                                             distance(end, n_output) < distance(best, n_output)))) {
            best_match = n;
            best = end;
        }
    }
    size_t n_left = best > 0 ? prediction->n_tokens - best : 0;
    size_t n = n_left < n_most ? n_left : n_most;
    memcpy(output + n_output, prediction->tokens + best, n * sizeof *output);
    return n;
}
