/* What BERT and its kin share: learned positions, a norm behind the embedding and behind every
 * block, tokens that all see each other. */
#ifndef LN_MODEL_FAMILIES_ENCODERS_BERT_H
#define LN_MODEL_FAMILIES_ENCODERS_BERT_H

#include "model/families/bindings.h"

#define LN_BERT_EMBEDDINGS(model)                                                                  \
    {.role = LN_ROLE_EMBEDDING, .hf = model ".embeddings.word_embeddings"},                        \
        {.role = LN_ROLE_LEARNED_POSITIONS, .hf = model ".embeddings.position_embeddings"},        \
        {.role = LN_ROLE_TOKEN_TYPES, .hf = model ".embeddings.token_type_embeddings"}, {          \
        .role = LN_ROLE_EMBEDDING_NORM, .hf = model ".embeddings.LayerNorm"                        \
    }
#define LN_BERT_LAYERS(model)                                                                      \
    LN_ATTENTION(model ".encoder.layer.%d.attention.", "self.query", "self.key", "self.value",     \
                 "output.dense"),                                                                  \
        {.role = LN_ROLE_ATTENTION_NORM,                                                           \
         .hf = model ".encoder.layer.%d.attention.output.LayerNorm",                               \
         .gguf = "blk.%d.attn_output_norm"},                                                       \
        LN_BERT_FFN(model)
#define LN_BERT_FFN(model)                                                                         \
    LN_PLAIN_FFN(model ".encoder.layer.%d.", "intermediate.dense", "output.dense"), {              \
        .role = LN_ROLE_FFN_NORM, .hf = model ".encoder.layer.%d.output.LayerNorm",                \
        .gguf = "blk.%d.layer_output_norm"                                                         \
    }
/* What gives a pair of texts its score, or a text its classes. */
#define LN_ROBERTA_CLASSES                                                                         \
    {.role = LN_ROLE_CLASS_DENSE, .hf = "classifier.dense"}, {                                     \
        .role = LN_ROLE_CLASS_OUT, .hf = "classifier.out_proj"                                     \
    }
/* What predicts masked tokens, and a matrix behind the first token that embeddings do not use. */
#define LN_ROBERTA_IGNORED(model)                                                                  \
    model ".pooler.dense.weight|" model ".pooler.dense.bias|pooler.dense.weight|"                  \
          "pooler.dense.bias|lm_head.bias|lm_head.dense.weight|lm_head.dense.bias|"                \
          "lm_head.layer_norm.weight|lm_head.layer_norm.bias|lm_head.decoder.weight|"              \
          "lm_head.decoder.bias"
#define LN_BERT_SHAPE(usual)                                                                       \
    .refused = "is_decoder|add_cross_attention", .norm = LN_NORM_LAYER,                            \
    .placement = LN_PLACE_AFTER, .activation = usual, .bidirectional = true,                       \
    .class_pooling = LINNET_POOLING_CLS

#endif
