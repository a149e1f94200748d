/* Two prompts in a paged cache, and steps that read pieces of them. */
#ifndef LN_TESTS_OPS_PROMPTS_H
#define LN_TESTS_OPS_PROMPTS_H

#include "ops/ops.h"

enum { N_SEQS = 2, BLOCK = 16, MAX_PROMPT_TOKENS = 600, MAX_PROMPT_BLOCKS = N_SEQS * 40 };

/* Tokens of the first prompt, which is the longer one, and of both; blocks of a table. */
typedef struct prompts {
    size_t n_first, n_tokens, n_blocks, n_groups;
    int32_t tables[2][MAX_PROMPT_BLOCKS]; /* of n_groups groups: [N_SEQS][n_blocks] */
} prompts;

typedef struct step {
    ln_batch batch;
    int32_t positions[MAX_PROMPT_TOKENS], slots[MAX_PROMPT_TOKENS];
    int32_t starts[N_SEQS + 1], lengths[N_SEQS], tables[2][MAX_PROMPT_BLOCKS];
    size_t rows[MAX_PROMPT_TOKENS]; /* of each token in the data: both prompts, one after another */
} step;

/* Fills a group's tables with blocks in an order that depends on both numbers. */
void fill_tables(prompts *p, size_t group, size_t factor, size_t offset);
/* Tokens begin .. end - 1 of each prompt that has them. */
void make_step(step *s, const prompts *p, size_t begin, size_t end);
float *put_rows(side *s, const step *st, const float *x, size_t width);

#endif
