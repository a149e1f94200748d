/* How many tokens of a sequence are drafted. */
#ifndef LN_ENGINE_DRAFT_LENGTH_H
#define LN_ENGINE_DRAFT_LENGTH_H

#include "engine/sequence.h"

/* How many tokens may be drafted: room for all of them and the one after. 0: the sequence does not
 * decode. */
size_t ln_speculate_room(const ln_sequence *sequence);

/* How many tokens to draft, at most `most`: room for all of them and the one after, and more the
 * more were accepted last time. 0: the sequence does not decode. */
size_t ln_speculate_length(const ln_sequence *sequence, size_t most);

/* Of n_draft > 0 drafted tokens n_accepted were accepted. */
void ln_speculate_learn(ln_sequence *sequence, size_t n_draft, size_t n_accepted);

#endif
