/* Speculative decoding: guesses of a sequence's next tokens, which one step checks together
 * (Leviathan et al., "Fast inference from transformers via speculative decoding", 2023).
 *
 * A guess is checked by sampling each of its positions as if there were none, with the random
 * numbers of the position; tokens are kept while both agree, and the first that differs is the
 * sampled one. So tokens, and what they depend on, are those without speculation. Keys and values
 * of refused guesses lie behind the sequence's end and are written over.
 *
 * Guesses stand behind the sequence's tokens: n_draft of them. */
#ifndef LN_ENGINE_SPECULATE_H
#define LN_ENGINE_SPECULATE_H

#include "engine/sequence.h"

/* Prompt lookup (Saxena, "Prompt lookup decoding", 2023): where the last tokens of tokens[n_tokens]
 * came before, what followed them. Of all places the one with the longest agreement counts, the
 * latest of equals. Writes at most n_most tokens behind the n_tokens; returns their number. */
size_t ln_speculate_lookup(int32_t *tokens, size_t n_tokens, size_t n_most);

/* How many tokens to guess, at most `most`: room for all of them and the one after, and more the
 * better the last guesses were. 0: the sequence does not decode. */
size_t ln_speculate_length(const ln_sequence *sequence, size_t most);

/* Of n_draft > 0 guesses n_accepted were right. */
void ln_speculate_learn(ln_sequence *sequence, size_t n_draft, size_t n_accepted);

#endif
