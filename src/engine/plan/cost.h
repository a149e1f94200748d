/* What drafting costs and gives: a model of steps on a CPU, in the time that reading one element of
 * a weight takes.
 *
 * A step of n rows reads each matrix once, of experts those that n rows are likely to choose, and
 * multiplies n rows with it; the slower of both counts. A drafted token costs a row more in the
 * step, and a step of the head: its layer, its input, and the output. A token is taken to be
 * accepted with probability 0.75, given those before it: heads are published with 0.85 to 0.9 for
 * the first (DeepSeek-V3 report, section 5.4.3) and less for those behind it. */
#ifndef LN_ENGINE_PLAN_COST_H
#define LN_ENGINE_PLAN_COST_H

#include "engine/plan/plan.h"

/* The drafted tokens of each sequence that give most tokens per time, in steps of so many
 * sequences: n_tokens[1 .. LN_DRAFT_SEQS], each at most LN_DRAFT_LENGTH; 0 where drafting does not
 * pay. Returns the most of them. */
size_t ln_draft_cost_choose(const ln_spec *spec, uint8_t n_tokens[LN_DRAFT_SEQS + 1]);

#endif
