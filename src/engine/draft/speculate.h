/* Speculative decoding: a sequence's next tokens are drafted, and one step checks them together
 * (Leviathan et al., "Fast inference from transformers via speculative decoding", 2023).
 *
 * Each drafted token's position is sampled as if there were no draft, with the random numbers of
 * the position; tokens are accepted while both agree, and the first that differs is the sampled
 * one. So tokens, and what they depend on, are those without speculation. Keys and values of
 * rejected tokens lie behind the sequence's end and are written over.
 *
 * Drafts stand behind the sequence's tokens: n_draft of them. */
#ifndef LN_ENGINE_DRAFT_SPECULATE_H
#define LN_ENGINE_DRAFT_SPECULATE_H

#include "engine/draft/model.h"
#include "engine/scheduler.h"

/* Drafts at most `most` tokens of each running sequence that decodes, by the draft model, or by
 * prompt lookup where there is none. */
void ln_speculate(ln_draft_model *draft, const ln_scheduler *scheduler, size_t most);

/* How many tokens to draft, at most `most`: room for all of them and the one after, and more the
 * more were accepted last time. 0: the sequence does not decode. */
size_t ln_speculate_length(const ln_sequence *sequence, size_t most);

/* Of n_draft > 0 drafted tokens n_accepted were accepted. */
void ln_speculate_learn(ln_sequence *sequence, size_t n_draft, size_t n_accepted);

#endif
