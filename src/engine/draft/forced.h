/* Drafts of a grammar (jump-forward decoding): where its mask leaves one token, that one comes. */
#ifndef LN_ENGINE_DRAFT_FORCED_H
#define LN_ENGINE_DRAFT_FORCED_H

#include "engine/sequence.h"
#include "grammar/masker.h"

/* Writes the tokens that the sequence's grammar leaves no choice about behind its tokens, at most
 * n_most; returns their number, 0 without a grammar. Text that is forced but that several tokens
 * begin is no draft: which of them comes is the model's to say. The sequence's own state stays
 * where it is. */
size_t ln_draft_forced(ln_masker *masker, const ln_sequence *sequence, size_t n_most);

#endif
