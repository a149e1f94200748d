/* What changes logits before candidates are chosen: a request's rules for certain tokens, and
 * penalties for tokens that came before. Working memory: counts [n_vocab], all 0 between calls;
 * lengths [ctx_tokens]. */
#ifndef LN_SAMPLING_PENALTIES_H
#define LN_SAMPLING_PENALTIES_H

#include "sampling/context.h"

/* Adds the biases, then forbids (minus infinity) the last token of each bad word whose other tokens
 * have just come, and the stop ids while the sequence is shorter than min_tokens. */
void ln_rules_apply(const ln_sample_context *context, float *logits);

/* Repeat divides positive and multiplies negative logits of tokens among the last repeat_last_n
 * (Keskar et al., "CTRL", 2019); frequency is subtracted once per occurrence, presence once per
 * token that occurs. */
void ln_penalties_apply(const linnet_sampling *sampling, const ln_sample_context *context,
                        uint32_t *counts, float *logits);

/* DRY ("don't repeat yourself", p-e-w, 2024): a token that would prolong a repetition, of n tokens
 * so far, loses multiplier * base^(n - allowed_length), where n reaches the allowed length. A
 * repetition does not reach over a breaker. */
void ln_dry_apply(const linnet_sampling *sampling, const ln_sample_context *context,
                  uint32_t *counts, uint32_t *lengths, float *logits);

#endif
