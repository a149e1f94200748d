/* What tells tokens their positions: tables of rotation, ALiBi's slopes, learned positions and
 * biases, as src/model/load.c walks over them. */
#ifndef LN_MODEL_ATTENTION_POSITIONS_LOAD_H
#define LN_MODEL_ATTENTION_POSITIONS_LOAD_H

#include "model/load_tensor.h"

ln_status ln_load_ropes(ln_loader *l);
ln_status ln_load_index_columns(ln_loader *l);
ln_status ln_load_alibi(ln_loader *l);
ln_status ln_load_learned_positions(ln_loader *l, ln_weight *weight);
ln_status ln_load_relative_bias(ln_loader *l, const float **out);

#endif
