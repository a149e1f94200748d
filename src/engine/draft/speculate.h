/* Speculative decoding: a sequence's next tokens are drafted, and one step checks them together
 * (Leviathan et al., "Fast inference from transformers via speculative decoding", 2023).
 *
 * Each drafted token's position is sampled as if there were no draft, with the random numbers of
 * the position; tokens are accepted while both agree, and the first that differs is the sampled
 * one; there is no rejection sampling. So tokens, and what they depend on, are those without
 * speculation. Keys and values of rejected tokens lie behind the end and are written over.
 *
 * Drafts stand behind the sequence's tokens: n_draft of them. */
#ifndef LN_ENGINE_DRAFT_SPECULATE_H
#define LN_ENGINE_DRAFT_SPECULATE_H

#include "engine/draft/head.h"
#include "engine/draft/model.h"
#include "engine/scheduler.h"
#include "grammar/masker.h"

/* Drafts tokens of each running sequence that decodes, as many as the plan says at most: those that
 * its grammar leaves no choice about; else by the head, by the draft model, or by prompt lookup
 * where there is neither. */
void ln_speculate(ln_draft_model *draft, ln_draft_head *head, ln_masker *masker,
                  const ln_scheduler *scheduler);

#endif
