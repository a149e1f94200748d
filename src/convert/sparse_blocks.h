/* Indexers of blocks (MiniMax M3). Internal to this folder. */
#ifndef LN_CONVERT_SPARSE_BLOCKS_H
#define LN_CONVERT_SPARSE_BLOCKS_H

#include "convert/parts.h"

/* The indexer of a layer that has one. */
ln_status ln_convert_block_indexer(ln_convert_plan *plan, ln_tensor_id id);
/* What the file's readers do not know of such a model, or NULL. */
const char *ln_convert_unknown_blocks(const ln_convert_plan *plan);
/* Its keys; nothing of other models. */
void ln_convert_put_blocks(const ln_convert_plan *plan, ln_gguf_writer *writer);

#endif
