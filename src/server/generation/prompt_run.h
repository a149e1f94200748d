/* One request of the engine: outputs of one prompt, all of them unless they are more than a step
 * holds. It is the `user` of its linnet_request. */
#ifndef LN_SERVER_GENERATION_PROMPT_RUN_H
#define LN_SERVER_GENERATION_PROMPT_RUN_H

#include <linnet.h>
#include <stddef.h>

typedef struct ln_prompt_run {
    linnet_request *request;          /* owned; NULL: over */
    struct ln_generation *generation; /* NULL: the task is not back yet */
    struct ln_choice *choices;        /* [n] of the generation's */
    size_t prompt, first, n;          /* the prompt's outputs [first, first + n) */
    size_t n_open, n_cached_tokens;
} ln_prompt_run;

#endif
