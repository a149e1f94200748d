/* Hash routing: experts by a table that has the experts of each token, in place of a router's
 * choice (Roller et al., 2021; DeepSeek V4's first layers). */
#ifndef LN_MODEL_FFN_HASH_ROUTING_H
#define LN_MODEL_FFN_HASH_ROUTING_H

#include "model/config.h"
#include "model/load_tensor.h"

/* Whether the layer's experts are those of a table. Errors: FORMAT. */
ln_status ln_spec_read_hash_routing(const ln_config *config, size_t layer, bool *hash_routed,
                                    ln_error *err);
/* Element `i` of a tensor of type I64 or I32. */
int64_t ln_whole_number(const ln_tensor *tensor, size_t i);
ln_status ln_load_hash_experts(ln_loader *l, size_t i, const ln_moe_spec *moe, const int32_t **out);

#endif
