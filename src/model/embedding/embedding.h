/* How a checkpoint makes one vector of a text: pooling, the dense layers and the length that
 * sentence-transformers' files name, and the head of a classifier or reranker. */
#ifndef LN_MODEL_EMBEDDING_EMBEDDING_H
#define LN_MODEL_EMBEDDING_EMBEDDING_H

#include "base/file.h"
#include "format/checkpoint.h"
#include "model/spec.h"

enum { LN_MAX_STAGES = 4 };

/* act(norm) of W x + b: a matrix, its activation, then a LayerNorm. */
typedef struct ln_head_stage {
    size_t n_in, n_out;
    const ln_tensor *weight, *bias; /* bias NULL: none */
    const int64_t *rows; /* [2] of the weight: the first less the second (-1: less nothing); NULL:
                            all of them */
    ln_head_activation activation;
    const ln_tensor *norm, *norm_bias; /* NULL: none */
    float eps;
} ln_head_stage;

typedef struct ln_head_stages {
    linnet_pooling pooling;
    size_t n; /* 0: there is no such head */
    ln_head_stage stages[LN_MAX_STAGES];
} ln_head_stages;

/* What a model was trained to have in front of texts of one kind. */
typedef struct ln_prompt_text {
    const char *name, *text; /* in the arena */
} ln_prompt_text;

typedef struct ln_embedding {
    ln_head_stages dense;   /* pooling without stages: the vector as it is */
    ln_head_stages classes; /* n 0: no classifier */
    /* Pairs are put to a language model as a chat, and the score is the logit of the token that
     * means yes, less that of the one that means no. */
    bool asks;
    int64_t answers[2]; /* these tokens; the second -1: none */
    bool is_described;  /* the checkpoint says how it pools: its vectors are what it is for */
    bool normalizes;
    size_t max_tokens; /* texts are cut to; 0: nobody says */
    ln_prompt_text *prompts;
    size_t n_prompts;
    const char *default_prompt; /* the text of one of them, or NULL */
    ln_file_map maps[LN_MAX_STAGES];
    size_t n_maps;
    ln_tensor_list tensors; /* of these files */
} ln_embedding;

/* Reads the headers of what the checkpoint has; names live in the arena. Errors name file and key
 * or tensor. */
ln_status ln_embedding_read(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_arena *arena,
                            ln_embedding *embedding, ln_error *err);
void ln_embedding_free(ln_embedding *embedding); /* a zeroed one is fine */

/* Makes the output's rows of the embedding's `answers` the head that scores. */
ln_status ln_embedding_set_answers(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                   ln_embedding *embedding, ln_error *err);

/* The files of sentence-transformers in a folder, where there are any. */
ln_status ln_embedding_read_modules(const char *folder, const ln_spec *spec, ln_arena *arena,
                                    ln_embedding *embedding, ln_error *err);

/* Numbers of what the stages give. */
static inline size_t ln_head_width(const ln_head_stages *head, size_t dim) {
    return head->n > 0 ? head->stages[head->n - 1].n_out : dim;
}

#endif
