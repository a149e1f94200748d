/* What DeepSeek V4 has beside others. Internal to this folder. */
#ifndef LN_CONVERT_COMPRESSED_H
#define LN_CONVERT_COMPRESSED_H

#include "convert/parts.h"

/* Attention to a window and to entries of compressors. */
ln_status ln_convert_compressed(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a);
/* The table of experts that tokens meet. */
ln_status ln_convert_hash_experts(ln_convert_plan *plan, ln_tensor_id id, const ln_moe_spec *moe);
/* What the file's readers do not know of such a model, or NULL. */
const char *ln_convert_uncompressed(const ln_spec *spec);
/* Its keys; nothing of other models. */
void ln_convert_put_compressed(const ln_convert_plan *plan, ln_gguf_writer *writer);

#endif
