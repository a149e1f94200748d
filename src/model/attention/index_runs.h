/* Indexers of latent attention that choose runs of tokens (GLM 5 Next): a run's key is the sum of
 * its tokens' keys by a softmax of gates (ln_op_compress). What is chosen are the tokens of the
 * best runs, and those behind the last whole one. Reading, loading and recording. */
#ifndef LN_MODEL_ATTENTION_INDEX_RUNS_H
#define LN_MODEL_ATTENTION_INDEX_RUNS_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

enum { LN_MAX_INDEX_RUN = 1 << 16 };

/* The indexer's runs, whose top_k is one of tokens before, and their compressor where the indexer
 * is the layer's own, but for the groups of its caches. Errors: FORMAT. */
ln_status ln_spec_read_index_runs(const ln_config *config, ln_spec *spec,
                                  ln_attention_spec *attention, ln_error *err);

/* What the indexer has beside queries, keys and weights. */
ln_status ln_load_index_runs(ln_loader *l, size_t i, const ln_indexer_spec *indexer,
                             ln_layer_weights *w);

/* The positions that attention is to read: x, and the latent of the queries, are read. */
void ln_record_index_runs(recorder *r, const ln_attention_spec *attention,
                          const ln_layer_weights *w, const float *x);

/* ---- what all indexers of runs share ----------------------------------------------------------
 */

/* top_k of runs of run_tokens, for n_tokens in all, and the compressor where the indexer is the
 * layer's own. Errors, which name both keys: FORMAT. */
ln_status ln_spec_set_index_runs(const ln_config *config, const char *run_key,
                                 const char *n_tokens_key, size_t n_tokens, ln_spec *spec,
                                 ln_attention_spec *attention, ln_error *err);

/* A part of the rows of keys and gates, from column `begin` on: the norm of index_k. */
void ln_record_index_row(recorder *r, const ln_norm *weights, size_t begin);
/* The keys of runs that the step completes, by way of these rows in `kv`. */
void ln_record_run_keys(recorder *r, const ln_compressor_weights *compressor, const ln_rope *rope,
                        const ln_kv_layer *kv);
/* The positions that queries index_q with index_weights choose. */
void ln_record_run_choice(recorder *r, const ln_indexer_spec *spec, const ln_kv_layer *kv);

#endif
