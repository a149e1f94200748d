/* What several residual streams have beside layers. Internal to this folder. */
#ifndef LN_CONVERT_HYPER_H
#define LN_CONVERT_HYPER_H

#include "convert/parts.h"

/* Of a layer, and in front of the output; nothing where there is one stream. */
ln_status ln_convert_layer_hyper(ln_convert_plan *plan, ln_tensor_id id);
ln_status ln_convert_output_hyper(ln_convert_plan *plan);
void ln_convert_put_hyper(const ln_convert_plan *plan, ln_gguf_writer *writer);

#endif
