/* What BERT and its kin share: learned positions, a norm behind the embedding and behind every
 * block, tokens that all see each other. */
#ifndef LN_MODEL_FAMILIES_ENCODERS_BERT_H
#define LN_MODEL_FAMILIES_ENCODERS_BERT_H

#include "model/families/bindings.h"

/* Tokens, their types, and a norm. */
#define LN_TYPED_EMBEDDINGS(base, norm)                                                            \
    {.role = LN_ROLE_EMBEDDING, .hf = base "word_embeddings"},                                     \
        {.role = LN_ROLE_TOKEN_TYPES, .hf = base "token_type_embeddings"}, {                       \
        .role = LN_ROLE_EMBEDDING_NORM, .hf = norm                                                 \
    }
/* What classifies a vector. */
#define LN_CLASSES(dense, out)                                                                     \
    {.role = LN_ROLE_CLASS_DENSE, .hf = dense}, {                                                  \
        .role = LN_ROLE_CLASS_OUT, .hf = out                                                       \
    }
#define LN_BERT_EMBEDDINGS(model)                                                                  \
    LN_TYPED_EMBEDDINGS(model ".embeddings.", model ".embeddings.LayerNorm"), {                    \
        .role = LN_ROLE_LEARNED_POSITIONS, .hf = model ".embeddings.position_embeddings"           \
    }
#define LN_BERT_ATTENTION(model)                                                                   \
    LN_ATTENTION(model ".encoder.layer.%d.attention.", "self.query", "self.key", "self.value",     \
                 "output.dense"),                                                                  \
    {                                                                                              \
        .role = LN_ROLE_ATTENTION_NORM,                                                            \
        .hf = model ".encoder.layer.%d.attention.output.LayerNorm",                                \
        .gguf = "blk.%d.attn_output_norm"                                                          \
    }
#define LN_BERT_LAYERS(model) LN_BERT_ATTENTION(model), LN_BERT_FFN(model)
#define LN_BERT_FFN(model)                                                                         \
    LN_PLAIN_FFN(model ".encoder.layer.%d.", "intermediate.dense", "output.dense"), {              \
        .role = LN_ROLE_FFN_NORM, .hf = model ".encoder.layer.%d.output.LayerNorm",                \
        .gguf = "blk.%d.layer_output_norm"                                                         \
    }
/* What gives a pair of texts its score, or a text its classes. */
#define LN_ROBERTA_CLASSES LN_CLASSES("classifier.dense", "classifier.out_proj")
/* What predicts masked tokens, and a matrix behind the first token that embeddings do not use. */
#define LN_BERT_IGNORED                                                                            \
    "cls.predictions.bias|cls.predictions.transform.dense.weight|"                                 \
    "cls.predictions.transform.dense.bias|cls.predictions.transform.LayerNorm.weight|"             \
    "cls.predictions.transform.LayerNorm.bias|cls.predictions.decoder.weight|"                     \
    "cls.predictions.decoder.bias"
#define LN_ROBERTA_IGNORED(model)                                                                  \
    model ".pooler.dense.weight|" model ".pooler.dense.bias|pooler.dense.weight|"                  \
          "pooler.dense.bias|lm_head.bias|lm_head.dense.weight|lm_head.dense.bias|"                \
          "lm_head.layer_norm.weight|lm_head.layer_norm.bias|lm_head.decoder.weight|"              \
          "lm_head.decoder.bias"
#define LN_BERT_SHAPE(usual)                                                                       \
    .refused =                                                                                     \
        "is_decoder|add_cross_attention|prenorm|causal|rotary_emb_interleaved|use_rms_norm",       \
    .norm = LN_NORM_LAYER, .placement = LN_PLACE_AFTER, .activation = usual,                       \
    .bidirectional = true, .class_pooling = LINNET_POOLING_CLS

#endif
