/* Which tensors a converted file has, and where their rows come from. Internal to this folder. */
#ifndef LN_CONVERT_PLAN_H
#define LN_CONVERT_PLAN_H

#include "format/gguf_write.h"
#include "format/quantize/mix.h"
#include "format/quantize/write.h"
#include "model/family.h"
#include "model/source.h"
#include "model/unused_tensors.h"

/* Some rows of a new tensor: a role's matrix, one row for each row; or a vector, one element for
 * each. */
typedef struct ln_convert_part {
    size_t tensor;                 /* index */
    size_t begin, n_units, n_cols; /* units from begin on: rows, or elements (n_cols 1) */
    ln_weight_source source;
    const float *values;        /* [n_units], owned, instead of a source */
    const int32_t *columns;     /* [n_cols], owned: the order of the source's columns, or NULL */
    const int32_t *new_columns; /* [n_cols], owned: those that become the new ones, or NULL */
    size_t first;               /* unit of the source that the first one is */
    bool is_rate;               /* the logarithms of what decays, which becomes negative */
    size_t
        head_dim; /* rows of a head, of which rope_dims from rope_begin on change order; 0: none do
                   */
    size_t rope_begin, rope_dims;
    bool from_pairs; /* the folder has pairs side by side, and the file halves; else the reverse */
    float scale, offset; /* new value = old * scale + offset */
} ln_convert_part;

typedef struct ln_convert_tensor {
    char name[LN_TENSOR_NAME_BYTES];
    bool is_vector; /* units are elements */
    int n_dims;
    uint64_t dims[LN_MAX_DIMS];
    ln_packed_kind packed; /* how the folder quantises it */
    bool whole;            /* stays F32 whatever its name, unless it is quantised */
    size_t n_units;
    size_t first_part, n_parts;
    int32_t *numbers; /* whole numbers, owned, instead of parts */
    const struct ln_convert_plan *plan;
} ln_convert_tensor;

typedef struct ln_convert_plan {
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    const ln_family *target; /* whose GGUF names are used */
    char architecture[32];
    linnet_pooling pooling;     /* of a model that embeds; DEFAULT: it does not, or nobody says */
    ln_convert_tensor *tensors; /* [n_tensors], owned */
    ln_convert_part *parts;     /* [n_parts], owned; sorted by tensor and unit */
    size_t n_tensors, n_parts, tensor_capacity, part_capacity;
    size_t last;              /* the tensor that was appended to last */
    ln_unused_tensors unused; /* of the folder */
    ln_error *err;
} ln_convert_plan;

/* Where the layers with experts are: after some dense ones every Nth, or not so. */
typedef struct ln_convert_mixtures {
    size_t n_mixtures, n_dense_first, step;
    bool is_regular;
} ln_convert_mixtures;
ln_convert_mixtures ln_convert_mixtures_of(const ln_spec *spec);

/* The first layer that has attention, or the first of all; likewise of a feed-forward. */
const ln_attention_spec *ln_convert_attention(const ln_spec *spec);
const ln_ffn_spec *ln_convert_ffn(const ln_spec *spec);

/* The attention scale that a reader of the file derives without being told. */
double ln_convert_default_scale(const ln_convert_plan *plan);
/* Whether the file has weights of q/k norms that are the scale of scores, where folders have norms
 * without weights. */
bool ln_convert_weighs_qk(const ln_convert_plan *plan);
/* The magnitude of YaRN over what its factor alone gives. */
double ln_convert_yarn_extra(const ln_rope_spec *rope);
/* Whether the file gets the folder's head that drafts. */
bool ln_convert_has_head(const ln_convert_plan *plan);
/* Whether its readers want what makes keys and values of a latent in one matrix. */
bool ln_convert_joins_kv_b(const ln_convert_plan *plan);

/* check.c: finds target and architecture; refuses what GGUF cannot say. */
ln_status ln_convert_check(ln_convert_plan *plan);

/* embedder.c: pooling, of models that embed; refuses heads, which GGUF has no form for, and what
 * has neither an output nor sees both ways. */
ln_status ln_convert_check_embedder(ln_convert_plan *plan);
/* Its keys. */
void ln_convert_put_embedder(const ln_convert_plan *plan, ln_gguf_writer *writer);

/* keys.c: the metadata of the architecture. */
ln_status ln_convert_put_keys(const ln_convert_plan *plan, ln_gguf_writer *writer);

/* mixer_keys.c: of recurrent layers; whether a list has the KV heads of each layer */
void ln_convert_put_mixers(const ln_convert_plan *plan, ln_gguf_writer *writer);
bool ln_convert_lists_kv_heads(const ln_convert_plan *plan);

/* by_layer.c: of layers that differ; whether the target has lists of these. */
bool ln_convert_has_lists(const ln_convert_plan *plan);
/* Limits of what gates and up-projections give, where layers have them. */
void ln_convert_put_limits(const ln_convert_plan *plan, ln_gguf_writer *writer);
/* What readers do not know of latents by what a layer sees, or NULL. */
const char *ln_convert_unknown_latents(const ln_spec *spec);
void ln_convert_put_by_layer(const ln_convert_plan *plan, ln_gguf_writer *writer);

/* tensors.c */
ln_status ln_convert_plan_tensors(ln_convert_plan *plan);
void ln_convert_plan_free(ln_convert_plan *plan);
/* For ln_write_job: the tensor's source is an ln_convert_tensor. */
ln_status ln_convert_rows(const ln_write_tensor *tensor, size_t row, size_t n_rows, float *out,
                          ln_error *err);

/* tokenizer.c: tokenizer.ggml.* and the chat template; the ids that end a text alone where
 * the vocabulary stays out. */
ln_status ln_convert_put_tokenizer(const ln_convert_plan *plan, bool with_vocab,
                                   ln_gguf_writer *writer);

#endif
