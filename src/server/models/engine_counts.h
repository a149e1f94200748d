/* What engines count, as far as the server asks. */
#ifndef LN_SERVER_MODELS_ENGINE_COUNTS_H
#define LN_SERVER_MODELS_ENGINE_COUNTS_H

#include <linnet.h>

/* Whether the engine that these are of has requests, be they cancelled and not dropped yet. */
bool ln_engine_counts_work(const linnet_engine_stats *stats);
/* Adds the engine's; of `is_lost` and `n_failed_steps` the greatest stays. */
void ln_engine_counts_add(linnet_engine_stats *sum, linnet_engine *engine);

#endif
