/* A rank's part of a model.
 *
 * Pipeline parallel: stages have layers one behind the other, as many each where layers that share
 * keys and values let them; the first has the embedding and the encoder, the last the output.
 *
 * Tensor parallel: attention is divided by KV heads, with the query heads that read them; where
 * there are fewer KV heads than ranks, several ranks have the same one. Feed-forwards and each
 * expert are divided by hidden columns, vocabularies by rows. What one rank's part gives is a
 * partial sum, which ranks add up.
 *
 * Expert parallel: ranks have whole experts, of all tokens, whose results are added up as well.
 * Some ranks then have the same heads; all else is divided among all ranks of a stage.
 *
 * What cannot be divided (too few heads, blocks of quantised
 * columns that a cut would go through, norms over all heads) every rank has whole, and computes
 * alike. */
#ifndef LN_MODEL_SHARD_H
#define LN_MODEL_SHARD_H

#include "model/source.h"

/* The spec of a rank: with its numbers of heads and columns, and ln_spec.ranks. Its layers are
 * memory of its own, which free ends. `quantize`: what matrices become while they load, or NULL.
 * Reads no tensor data. Errors: UNSUPPORTED, NOMEM. */
ln_status ln_shard_make(const ln_checkpoint *checkpoint, const ln_spec *whole, const ln_mesh *mesh,
                        const ln_dtype *quantize, ln_spec *out, ln_error *err);
/* Bytes that each rank sends for a token of a step, on average over ranks, without its logits. */
size_t ln_shard_token_bytes(const ln_spec *spec);
void ln_shard_free(ln_spec *spec); /* one that was not made is fine */

/* The spec whose shapes the checkpoint's tensors have. */
static inline const ln_spec *ln_shard_whole(const ln_spec *spec) {
    return spec->ranks.whole != NULL ? spec->ranks.whole : spec;
}

/* What a rank takes of a role's matrix or vector. */
typedef struct ln_cut {
    ln_slice rows, cols, packed; /* n 0: all */
    bool drops_bias;             /* it is another rank's to add */
} ln_cut;

ln_cut ln_shard_cut(const ln_spec *spec, ln_tensor_id id);

/* The shape of the whole matrix, of which the rank's has `shape`. */
ln_source_shape ln_cut_shape(const ln_cut *cut, const ln_source_shape *shape);
/* Leaves of a request of the whole matrix what the rank takes. */
ln_status ln_cut_request(const ln_cut *cut, ln_weight_request *request, ln_error *err);

#endif
