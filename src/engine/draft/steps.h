/* The draft model's steps: first the tokens that it has not read, then one token more of each
 * sequence after another, all sequences together. */
#ifndef LN_ENGINE_DRAFT_STEPS_H
#define LN_ENGINE_DRAFT_STEPS_H

#include "engine/draft/model.h"

/* Drafts up to n_draft tokens of each of the n sequences in draft->decoding, which have the blocks
 * for it, and sets their n_draft to what came of it. */
void ln_draft_model_propose(ln_draft_model *draft, size_t n);

#endif
