/* Prompt lookup, an n-gram drafter (Saxena, "Prompt lookup decoding", 2023): drafts what followed
 * the last tokens when they came before. */
#ifndef LN_ENGINE_DRAFT_PROMPT_LOOKUP_H
#define LN_ENGINE_DRAFT_PROMPT_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

/* Of all places in tokens[n_tokens] the one counts where most tokens agree with the last ones, the
 * latest of equals. Writes at most n_most tokens behind the n_tokens; returns their number. */
size_t ln_prompt_lookup(int32_t *tokens, size_t n_tokens, size_t n_most);

#endif
