/* A family: which keys and tensor names of a checkpoint mean what. Data only; one file each in
 * families/, listed in families/table.c. */
#ifndef LN_MODEL_FAMILY_H
#define LN_MODEL_FAMILY_H

#include "model/config.h"
#include "model/spec.h"

/* What a weight is for. Every role may have a bias beside it. */
typedef enum ln_role {
    LN_ROLE_EMBEDDING,
    LN_ROLE_EMBEDDING_IN, /* [dim][embedded_dim], behind an embedding of other width, */
    LN_ROLE_OUTPUT_IN,    /* and [embedded_dim][dim] in front of the output */
    LN_ROLE_LEARNED_POSITIONS,
    LN_ROLE_EMBEDDING_NORM,
    LN_ROLE_TOKEN_TYPES, /* [n_types][dim] */
    LN_ROLE_CLASS_DENSE, /* what classifies a pooled vector: a matrix with an activation, */
    LN_ROLE_CLASS_NORM,  /* a norm, */
    LN_ROLE_CLASS_OUT,   /* and a row for each label */
    LN_ROLE_OUTPUT_NORM,
    LN_ROLE_OUTPUT_DENSE, /* [dim][dim] between the last norm and the output, with an activation */
    LN_ROLE_OUTPUT_DENSE_NORM,
    LN_ROLE_OUTPUT,
    LN_ROLE_LOOKUP_EMBEDDING, /* [n_vocab][n_layers * dim], an embedding for each layer */
    LN_ROLE_LOOKUP_PROJECTION,
    LN_ROLE_LOOKUP_NORM,
    LN_ROLE_ALTUP_BEGIN, /* one per stream, or packed */
    LN_ROLE_ALTUP_END,
    LN_ROLE_CYCLE_BEGIN,       /* [dim] what the low stack of a model of cycles begins with */
    LN_ROLE_OUTPUT_SCALES,     /* [n_vocab] of logits */
    LN_ROLE_OUTPUT_QUERY,      /* [dim] of block attention residuals, */
    LN_ROLE_OUTPUT_QUERY_NORM, /* and weights of a norm that it is multiplied with */
    LN_ROLE_MESSAGE_QUERIES, /* layers that run again: [2 * layers][dim] of messages for queries and
                                feed-forwards, */
    LN_ROLE_KV_MESSAGE_QUERIES, /* and for keys and values */
    LN_ROLE_ATTENTION_NORM,     /* the first role of a layer */
    LN_ROLE_ATTENTION_POST_NORM,
    LN_ROLE_Q,
    LN_ROLE_K,
    LN_ROLE_V,
    LN_ROLE_Q_NORM,
    LN_ROLE_K_NORM,
    LN_ROLE_O,
    LN_ROLE_ATTENTION_GATE,
    LN_ROLE_ATTENTION_GATE_BIAS,   /* [n_heads] */
    LN_ROLE_ATTENTION_GATE_SCALES, /* [n_heads * v_dim] of the output's gate */
    LN_ROLE_ATTENTION_OUT_NORM,
    LN_ROLE_FFN_OUT_NORM,
    LN_ROLE_FFN_NORM,
    LN_ROLE_FFN_POST_NORM,
    LN_ROLE_GATE,
    LN_ROLE_UP,
    LN_ROLE_DOWN,
    LN_ROLE_GATE_SCALES, /* [n_hidden] of what gate and up give */
    LN_ROLE_UP_SCALES,
    LN_ROLE_CROSS_NORM,
    LN_ROLE_CROSS_Q,
    LN_ROLE_CROSS_K,
    LN_ROLE_CROSS_V,
    LN_ROLE_CROSS_O,
    LN_ROLE_RELATIVE_BIAS, /* layer 0's, for all */
    LN_ROLE_OUTPUT_BIAS,   /* where it does not stand beside the output */
    LN_ROLE_SINKS,
    LN_ROLE_RELATIVE_QUERIES,    /* relative logits: [n_heads * relative_dim][dim], */
    LN_ROLE_RELATIVE_EMBEDDINGS, /* and [relative_dim][n_distances] */
    LN_ROLE_Q_SCALES,            /* of queries, or before limits of lengths: [n_heads][k_dim], */
    LN_ROLE_RELATIVE_SCALES,     /* and [n_heads][relative_dim] of relative queries */
    LN_ROLE_TOKEN_SINKS,         /* [n_heads][dim] */
    LN_ROLE_ATTENTION_QUERIES,   /* block attention residuals: [dim], or [3][dim] for q, k and v, */
    LN_ROLE_FFN_QUERY,           /* [dim], */
    LN_ROLE_ATTENTION_QUERY_NORM, /* weights of norms that these are multiplied with, */
    LN_ROLE_FFN_QUERY_NORM,
    LN_ROLE_KEY_INPUT_NORM, /* and norms of what keys and values read */
    LN_ROLE_VALUE_INPUT_NORM,
    LN_ROLE_Q_MESSAGE_DOWN,   /* a gate of messages: [rank][2 dim], */
    LN_ROLE_Q_MESSAGE_FORGET, /* [dim][rank] of what is forgotten, */
    LN_ROLE_Q_MESSAGE_GAIN,   /* and of messages; */
    LN_ROLE_K_MESSAGE_DOWN,   /* in this order the same of keys, values and feed-forwards */
    LN_ROLE_K_MESSAGE_FORGET,
    LN_ROLE_K_MESSAGE_GAIN,
    LN_ROLE_V_MESSAGE_DOWN,
    LN_ROLE_V_MESSAGE_FORGET,
    LN_ROLE_V_MESSAGE_GAIN,
    LN_ROLE_FFN_MESSAGE_DOWN,
    LN_ROLE_FFN_MESSAGE_FORGET,
    LN_ROLE_FFN_MESSAGE_GAIN,
    LN_ROLE_ATTENTION_ROUTER, /* mixture of attention: queries and outputs have experts */
    LN_ROLE_EXPERT_Q,
    LN_ROLE_EXPERT_O,
    LN_ROLE_V_DELAYED,     /* convolved attention: values of the token before, */
    LN_ROLE_HEAD_CONV,     /* the convolution of each head, [channel][head dim][tap], */
    LN_ROLE_K_SCALE,       /* and [n_kv_heads] of keys */
    LN_ROLE_KEY_BIAS,      /* biases of scores: [n_kv_heads][n_kv_heads * v_dim], */
    LN_ROLE_KEY_BIAS_RATE, /* and [n_kv_heads] */
    LN_ROLE_LAMBDA_Q1,     /* differential attention: vectors of a head's width */
    LN_ROLE_LAMBDA_K1,
    LN_ROLE_LAMBDA_Q2,
    LN_ROLE_LAMBDA_K2,
    LN_ROLE_ROUTER,
    LN_ROLE_ROUTER_IN,    /* a router that is a feed-forward: [router_hidden][dim], */
    LN_ROLE_ROUTER_CARRY, /* [router_hidden] of what that of the layer before gave, */
    LN_ROLE_ROUTER_FIRST, /* and squares behind LN_ROLE_ROUTER_NORM */
    LN_ROLE_ROUTER_SECOND,
    LN_ROLE_ROUTER_BIAS, /* counts for the choice of experts alone */
    LN_ROLE_EXPERT_GATE, /* one per expert, or packed [expert][rows][columns] */
    LN_ROLE_EXPERT_UP,
    LN_ROLE_EXPERT_DOWN,
    LN_ROLE_RETRIEVED_DOWN,   /* rows that are chosen by product keys: [n_experts][dim] */
    LN_ROLE_RETRIEVED_UP,     /* [dim][n_experts] */
    LN_ROLE_EXPERTS_BIAS,     /* [dim] of what experts give together */
    LN_ROLE_EXPERT_LATENT_IN, /* around experts that work in fewer dimensions */
    LN_ROLE_EXPERT_LATENT_OUT,
    LN_ROLE_EXPERT_LATENT_NORM, /* of what these give together */
    LN_ROLE_SHARED_GATE,
    LN_ROLE_SHARED_UP,
    LN_ROLE_SHARED_DOWN,
    LN_ROLE_SHARED_ROUTER,
    LN_ROLE_Q_A, /* latent attention */
    LN_ROLE_Q_A_NORM,
    LN_ROLE_Q_B,
    LN_ROLE_KV_A,
    LN_ROLE_KV_A_NORM,
    LN_ROLE_K_ROPE, /* where it has a norm of its own: the rows of KV_A that rotate */
    LN_ROLE_K_ROPE_NORM,
    LN_ROLE_K_B, /* one per head, or packed [head][rows][columns] */
    LN_ROLE_V_B,
    LN_ROLE_O_GROUPS, /* compressed attention: one below the other, a matrix for each group of heads
                       */
    LN_ROLE_COMPRESS_VALUE, /* a compressor: what its rows hold, in this order, */
    LN_ROLE_COMPRESS_GATE,
    LN_ROLE_COMPRESS_BIAS, /* what is added to gates, */
    LN_ROLE_COMPRESS_NORM, /* and the norm of entries; */
    LN_ROLE_INDEX_VALUE,   /* the same of an indexer's */
    LN_ROLE_INDEX_GATE,
    LN_ROLE_INDEX_BIAS,
    LN_ROLE_INDEX_NORM,
    LN_ROLE_HASH_EXPERTS, /* [n_vocab][n_used] whole numbers */
    LN_ROLE_INDEX_Q,      /* the indexer of sparse attention */
    LN_ROLE_INDEX_K,
    LN_ROLE_INDEX_K_NORM,
    LN_ROLE_INDEX_WEIGHTS,
    LN_ROLE_INDEX_Q_NORM,    /* of what its queries are made of, where that is not their latent */
    LN_ROLE_INDEX_LOG_SCALE, /* [n_heads] of queries by the logarithm of their position, */
    LN_ROLE_INDEX_LOG_BIAS,
    LN_ROLE_Q_LOG_SCALE, /* and the same of attention's */
    LN_ROLE_Q_LOG_BIAS,
    LN_ROLE_ROPE_ALPHA,      /* [n_rope / 2] logarithms of what frequencies are multiplied with */
    LN_ROLE_DENSE_POST_NORM, /* of a dense feed-forward beside experts */
    LN_ROLE_EXPERTS_NORM,
    LN_ROLE_EXPERTS_POST_NORM,
    LN_ROLE_ROUTER_NORM,
    LN_ROLE_EXPERT_SCALE,
    LN_ROLE_LAYER_SCALE,
    LN_ROLE_LOOKUP_GATE,
    LN_ROLE_LOOKUP_OUT,
    LN_ROLE_LOOKUP_POST_NORM,
    LN_ROLE_MIXER_IN, /* recurrent layers: all that the convolution reads, or in parts */
    LN_ROLE_MIXER_Q,
    LN_ROLE_MIXER_K,
    LN_ROLE_MIXER_V,
    LN_ROLE_MIXER_IN_GATE,
    LN_ROLE_MIXER_GATE,
    LN_ROLE_MIXER_GATE_LOW,
    LN_ROLE_MIXER_A,
    LN_ROLE_MIXER_A_LOW,
    LN_ROLE_MIXER_B,
    LN_ROLE_MIXER_CONV, /* likewise */
    LN_ROLE_MIXER_CONV_Q,
    LN_ROLE_MIXER_CONV_K,
    LN_ROLE_MIXER_CONV_V,
    LN_ROLE_ATTENTION_CONV, /* short convolutions of what attention gives, */
    LN_ROLE_FFN_CONV,       /* and the feed-forward, */
    LN_ROLE_K_TAPS,         /* short convolutions whose taps hidden states add to: [n_kv_heads] */
    LN_ROLE_V_TAPS,         /* [n_taps][dim], the token's own tap first, */
    LN_ROLE_K_STATIC_TAPS,  /* and [n_taps][channels] of all tokens, likewise */
    LN_ROLE_V_STATIC_TAPS,
    LN_ROLE_FFN_SCALE,  /* which is multiplied with a number first, [1] */
    LN_ROLE_MIXER_RATE, /* folders: its logarithm; GGUF: its negative */
    LN_ROLE_MIXER_A_BIAS,
    LN_ROLE_MIXER_SKIP,
    LN_ROLE_MIXER_NORM,
    LN_ROLE_MIXER_OUT,
    LN_ROLE_MIXER_A_NORM, /* Mamba 1: of what makes steps, keys and queries */
    LN_ROLE_MIXER_K_NORM,
    LN_ROLE_MIXER_Q_NORM,
    LN_ROLE_BLOCK_NORM,  /* a block that layers share: [2 dim], */
    LN_ROLE_BLOCK_OUT,   /* and what is behind it in a layer, [dim][dim]; what the layer adds to */
    LN_ROLE_BLOCK_Q_LOW, /* its matrices, [rank][in] and [out][rank] */
    LN_ROLE_BLOCK_Q_HIGH,
    LN_ROLE_BLOCK_K_LOW,
    LN_ROLE_BLOCK_K_HIGH,
    LN_ROLE_BLOCK_V_LOW,
    LN_ROLE_BLOCK_V_HIGH,
    LN_ROLE_BLOCK_FFN_LOW,
    LN_ROLE_BLOCK_GATE_HIGH,
    LN_ROLE_BLOCK_UP_HIGH,
    LN_ROLE_ALTUP_ROUTER,
    LN_ROLE_ALTUP_NORM,
    LN_ROLE_ALTUP_PREDICT,
    LN_ROLE_ALTUP_CORRECT,
    LN_ROLE_ALTUP_SCALE,
    LN_ROLE_LAUREL_LEFT,
    LN_ROLE_LAUREL_RIGHT,
    LN_ROLE_LAUREL_NORM,
    LN_ROLE_ATTENTION_NORM_LOW, /* what gates a norm: [rank][dim], [dim][rank] */
    LN_ROLE_ATTENTION_NORM_GATE,
    LN_ROLE_FFN_NORM_LOW,
    LN_ROLE_FFN_NORM_GATE,
    LN_ROLE_ATTENTION_BLEND, /* [dim] of weights of the residual stream and of a block's output */
    LN_ROLE_FFN_BLEND,
    LN_ROLE_EMBEDDING_SHIFT, /* a scaled residual stream, [dim] each: (embedding + shift) scale, */
    LN_ROLE_EMBEDDING_SCALE,
    LN_ROLE_ATTENTION_RESIDUAL_SHIFT, /* then of it, and of a block's output; */
    LN_ROLE_ATTENTION_RESIDUAL_SCALE,
    LN_ROLE_ATTENTION_OUTPUT_SHIFT,
    LN_ROLE_ATTENTION_OUTPUT_SCALE,
    LN_ROLE_FFN_RESIDUAL_SHIFT, /* in this order */
    LN_ROLE_FFN_RESIDUAL_SCALE,
    LN_ROLE_FFN_OUTPUT_SHIFT,
    LN_ROLE_FFN_OUTPUT_SCALE,
    LN_ROLE_EXPERT_IN_NORM,  /* of what latent experts read, */
    LN_ROLE_EXPERT_OUT_NORM, /* and of what each gives */
    LN_ROLE_ATTENTION_HYPER, /* hyper-connections: what makes weights of all streams, */
    LN_ROLE_ATTENTION_HYPER_BASE,
    LN_ROLE_ATTENTION_HYPER_SCALE, /* in this order */
    LN_ROLE_FFN_HYPER,
    LN_ROLE_FFN_HYPER_BASE,
    LN_ROLE_FFN_HYPER_SCALE,
    LN_ROLE_OUTPUT_HYPER,
    LN_ROLE_OUTPUT_HYPER_BASE,
    LN_ROLE_OUTPUT_HYPER_SCALE,
    LN_ROLE_ATTENTION_HYPER_NORM, /* where streams are gated: norms of each, */
    LN_ROLE_ATTENTION_HYPER_LOW,  /* and what makes gates of these, in this order */
    LN_ROLE_ATTENTION_HYPER_GATE,
    LN_ROLE_FFN_HYPER_NORM,
    LN_ROLE_FFN_HYPER_LOW,
    LN_ROLE_FFN_HYPER_GATE,
    LN_ROLE_OUTPUT_HYPER_NORM,
    LN_ROLE_OUTPUT_HYPER_LOW,
    LN_ROLE_OUTPUT_HYPER_GATE,
    LN_ROLE_NGRAM_EMBEDDING, /* hashed n-grams: parts of a table; whole numbers of its hashes, */
    LN_ROLE_NGRAM_FACTORS,
    LN_ROLE_NGRAM_SIZES,
    LN_ROLE_NGRAM_BEGINS,
    LN_ROLE_NGRAM_KEY, /* and what becomes of its rows */
    LN_ROLE_NGRAM_VALUE,
    LN_ROLE_NGRAM_KEY_NORM,
    LN_ROLE_NGRAM_STREAM_NORM,
    LN_ROLE_NGRAM_CONV_NORM,
    LN_ROLE_NGRAM_CONV,
    LN_ROLE_HEAD_INPUT, /* a head that drafts: [dim][2 dim], of an embedding and a hidden state */
    LN_ROLE_HEAD_STATE, /* of an assistant: [model's dim][dim], what its next draft reads */
    LN_ROLE_HEAD_TOKEN_NORM,
    LN_ROLE_HEAD_HIDDEN_NORM,
    LN_ROLE_HEAD_NORM,
    LN_ROLE_HEAD_OUTPUT, /* where it is not the model's */
    LN_ROLE_HEAD_EMBEDDING,
    LN_ROLE_COUNT
} ln_role;

/* Which rows of the named tensor a role takes. */
typedef enum ln_part {
    LN_PART_ALL = 0,
    LN_PART_QKV,                /* all of q, then all of k, then all of v */
    LN_PART_GATED_QKV,          /* the same, q as LN_PART_Q_GATE_BY_HEAD */
    LN_PART_QKV_BY_SHARD,       /* the same, or where FP8's scales tell it for each of eight or four
                                   shards of the heads */
    LN_PART_QVK_BY_FOURTH,      /* for each fourth of the heads: all of q, then v, then k */
    LN_PART_QKV_BY_GROUP,       /* for each KV head: its q heads, then k, then v */
    LN_PART_GATE_UP,            /* all of gate, then all of up; or of k, then v */
    LN_PART_UP_GATE,            /* all of up, then all of gate */
    LN_PART_GATE_UP_BY_ROW,     /* a row of gate, a row of up, ... */
    LN_PART_Q_GATE_BY_HEAD,     /* for each head: its query rows, then those of the output's gate */
    LN_PART_MIXER_QKV,          /* recurrent: all of q, then all of k, then all of v */
    LN_PART_MIXER_QKV_BY_HEAD,  /* for each key head: q, k, then v of its heads */
    LN_PART_MIXER_QKVZ_BY_HEAD, /* the same, and their gate behind it */
    LN_PART_MIXER_BA_BY_HEAD,   /* for each key head: beta, then decay of its heads */
    LN_PART_MIXER_SSD,          /* the gate, what the convolution reads, the decay */
    LN_PART_MIXER_QKVZBA,       /* all of q, of k, of v, of the gate, of beta, of the decay */
    LN_PART_MIXER_THIRDS,       /* the input's gate, the output's, what the convolution reads */
    LN_PART_MIXER_HALVES,       /* Mamba 1: what the convolution reads, the gate */
    LN_PART_MIXER_PAIRS,        /* the same: a row of either, and again */
    LN_PART_MIXER_CONTROLS,     /* Mamba 1: what makes steps, keys, queries */
    LN_PART_BEFORE_EMBEDDED,    /* rows before those of tokens that are embedded alone */
    LN_PART_BEFORE_PADDING,     /* rows before those of no tokens */
    LN_PART_VALUE_PAIRS, /* for each KV head: a value of the first half of them, and one of the
                            second */
    LN_PART_GQKV, /* all of the output's gate, then all of q, of k and of v, as many rows each */
    LN_PART_LATENT_Q_GATE, /* for each head: its query rows, then those of the output's gate */
    LN_PART_INDEX_QK,      /* of an indexer: all of q, then k */
    LN_PART_KV_ROPE,       /* what rotates, behind the latent */
    LN_PART_KV_BY_HEAD /* for each head: its key rows (stored transposed), then its value rows */
} ln_part;

/* Names are without ".weight"; %d is the layer (%h half of it and %p the rest, where two are one of
 * the checkpoint's; %n the next one), %e the expert (a name without it is a packed tensor of all
 * experts). hf NULL: folders have no such tensor. gguf NULL: the role's usual name
 * (families/gguf_names.inc); "": GGUF has no such tensor. Several bindings may name one role: the
 * first whose tensor is there counts.
 */
typedef struct ln_binding {
    ln_role role;
    const char *hf, *gguf;
    ln_part hf_part, gguf_part;
    bool optional;      /* norms and vectors: absent is fine */
    bool sequential;    /* of layers that are not parallel, which need it */
    bool hf_bare;       /* the name is complete; a bias adds "_bias", or has it for "_weight" */
    bool gguf_bare;     /* the name is complete */
    bool hf_transposed; /* stored [in][out] */
    bool hf_either;     /* stored [out][in] or, where that does not fit, [in][out] */
    bool encoder;       /* of the encoder's layers, not the decoder's */
    bool bare;          /* a norm without weights, which has no names */
} ln_binding;

/* Which layers see only a window when config.json does not list layer_types. */
typedef enum ln_window_rule {
    LN_WINDOW_NEVER = 0,
    LN_WINDOW_ALL,       /* every layer, when a window is given */
    LN_WINDOW_ABOVE,     /* layers from max_window_layers on, when use_sliding_window is set */
    LN_WINDOW_FROM,      /* layers from max_window_layers on, when a window is given */
    LN_WINDOW_USED,      /* every layer, when use_sliding_window is set */
    LN_WINDOW_PERIOD,    /* all but every window_period-th layer */
    LN_WINDOW_BETWEEN,   /* the same, but not the first */
    LN_WINDOW_BEHIND,    /* all but the first and every window_period-th from there on */
    LN_WINDOW_UNROTATED, /* layers without positions, when use_sliding_window is set */
    LN_WINDOW_ROTATED,   /* layers with positions, when a window is given */
    LN_WINDOW_INSIDE,    /* all but the first two, every window_period-th from the second on, and
                            the last */
    LN_WINDOW_AFTER_TWO, /* all but the first two and every window_period-th from the second on,
                            unless use_sliding_window is false */
    LN_WINDOW_BUT_LAST,  /* all but every window_period-th and the last */
    LN_WINDOW_FROM_LAST  /* all but the last and every window_period-th before it */
} ln_window_rule;

/* Which layers rotate q and k. */
typedef enum ln_rope_rule {
    LN_ROPE_ALL_LAYERS = 0,
    LN_ROPE_WINDOWED_LAYERS,   /* layers that see all have no positions */
    LN_ROPE_WINDOWED_OR_ALL,   /* the same, but all rotate in a model without windows */
    LN_ROPE_LISTED_LAYERS,     /* by no_rope_layers; else all but every 4th */
    LN_ROPE_LISTED_BASES,      /* those whose base in layer_rope_theta is not 0 */
    LN_ROPE_LISTED,            /* those whose entry in layer_rope_theta is not 0, by one base; else
                                  all but the last and every fourth before it */
    LN_ROPE_LISTED_KINDS,      /* those whose kind has parameters in rope_parameters */
    LN_ROPE_KINDS_OR_WINDOWED, /* the same; without rope_parameters windowed layers */
    LN_ROPE_WINDOWED_OR_DENSE  /* windowed layers, and dense ones before mixtures */
} ln_rope_rule;

/* Which layers have queries that grow with their position. */
typedef enum ln_query_scale_rule {
    LN_QUERY_SCALE_NONE = 0,
    LN_QUERY_SCALE_ALL,
    LN_QUERY_SCALE_UNROTATED,
    LN_QUERY_SCALE_TABLE, /* those without positions, by a power (Beam) */
    LN_QUERY_SCALE_LOG,   /* each head by scale log(1 + position) + bias */
    LN_QUERY_SCALE_FLOOR  /* those that see all, by 1 + log_scaling_alpha log(max(1, (1 + position)
                             / log_scaling_n_floor)), where there is such a floor; relative
                             logits with them (Inkling) */
} ln_query_scale_rule;

struct ln_family {
    const char *name;
    const char *hf_types;      /* model_type values, separated by '|'; NULL: its name */
    const char *gguf;          /* general.architecture values likewise, or NULL */
    const char *gguf_mixture;  /* the name in `gguf` of models with experts, or NULL: the first */
    const char *gguf_even;     /* as what models without recurrent layers are written: an
                                  architecture, and one with experts, or NULL */
    const char *gguf_unnormed; /* as what models without q/k norms are written, or NULL */
    const char *gguf_as; /* the architecture that it is written as where `gguf` is NULL, or NULL */
    const char *hf_prefix; /* a prefix that tensor names of bare models lack, or NULL */
    const char *ignored;   /* names of tensors that do not count, separated by '|', or NULL */
    const char *defaults;  /* of keys that config.json may lack, as ln_config has them, or NULL */
    const char *gguf_defaults; /* the same of keys that GGUF may lack, by their names there */
    const char *refused;     /* flags of config.json that must not be true ('!': false), or NULL */
    ln_norm_kind norm;       /* GGUF has one added to weights of LN_NORM_RMS_PLUS_ONE */
    bool rms_where_said;     /* RMS norms where the checkpoint has an epsilon of those */
    bool norms_add_one;      /* folders: to their weights, where the kind does not say it */
    double post_offsets[2];  /* with it: what is added to those behind attention, and behind
                                feed-forwards; 0: one */
    bool output_norm_is_rms; /* whatever the others are */
    double gguf_post_eps; /* GGUF: of norms behind blocks, which it does not say; 0: as of others */
    ln_placement placement;
    const char *parallel_key;    /* a flag that says whether the residual is parallel, or NULL */
    const char *hf_parallel_key; /* the same, which GGUF has not */
    const char *norm_before_key; /* a flag: false where norms are behind the residual; or NULL */
    const char *norm_post_key;   /* a flag: true where those before blocks are behind them instead;
                                    or NULL */
    ln_qk_norm qk_norm;
    const char *qk_norm_key; /* a flag that says whether they are there; NULL: they are */
    bool qk_layer_norm;      /* they are LayerNorms with an epsilon of 1e-5 whatever others are */
    size_t gguf_qk_norm_layers; /* GGUF's readers want them with so many layers, never with fewer */
    ln_activation activation;   /* when the checkpoint does not say; LN_ACT_NONE: SiLU */
    bool gelu_is_tanh;          /* config.json means the approximation by "gelu" */
    bool fixed_activation;      /* whatever the checkpoint says */
    const char *activation_key; /* config.json's only key of it; NULL: the usual ones */
    bool caps_scores;           /* attn_logit_softcapping counts */
    bool plain_ffn;             /* no gate */
    ln_positions positions;
    double rope_fraction;    /* of a head that rotates when the checkpoint does not say; 0: all */
    const char *rope_key;    /* positions are RoPE all the same where this key is there, or NULL */
    const char *alibi_key;   /* a flag that says that positions are ALiBi, or NULL */
    bool scales_alibi;       /* its biases as the products of queries and keys */
    size_t learned_offset;   /* first row of the learned positions that counts */
    bool computed_positions; /* folders have no table of them: sines and cosines */
    bool even_sinusoids;     /* frequencies of these are 10000^(-2 i / dim), and no row is blank */
    bool double_sinusoids;   /* with even_sinusoids: in double precision */
    bool learned_after_pad;  /* folders: it is the one behind that of the padding token */
    bool also_relative;      /* with learned positions: relative ones, too */
    bool bidirectional;      /* all tokens see each other, and none is generated */
    const char *direction_key;    /* a flag that says so, or NULL */
    linnet_pooling pooling;       /* of a model that embeds; when the checkpoint does not say */
    linnet_pooling class_pooling; /* of one that classifies */
    ln_head_activation class_activation; /* behind LN_ROLE_CLASS_DENSE */
    ln_rope_style hf_rope, gguf_rope;
    ln_rope_rule rope_rule;
    bool local_rope;    /* windowed layers rotate by a table of their own */
    double local_theta; /* its base when the checkpoint does not say; 0: the other table's */
    ln_window_rule window;
    ln_window_rule gguf_window; /* where it is another in GGUF */
    size_t window_period;
    size_t gguf_window_tokens; /* GGUF: readers have windows of so many, whatever it says; 0: not */
    bool gguf_window_list;     /* GGUF lists which layers these are */
    size_t gguf_scale_layers;  /* GGUF: with so many layers scores are scaled by heads of dim /
                                  n_heads */
    bool gguf_whole_rope;      /* GGUF: heads rotate whole, whatever it says */
    double gguf_theta;         /* GGUF: readers have this base of rotations; 0: as it says */
    bool gguf_plain_heads;   /* GGUF: readers have as many heads of keys as of queries, which share
                                the model's width */
    bool gguf_half_sections; /* GGUF: files that divide pairs by axis rotate halves */
    bool turns_back;         /* rotations are by negative angles */
    bool scale_embedding;    /* by sqrt(dim) */
    bool bf16_embedding_scale; /* which is rounded to a bf16 */
    bool divide_logits;        /* the logit scale divides */
    bool halves_hidden;        /* a feed-forward has half of the width that is said */
    bool scale_by_depth;    /* embedding, blocks and logits are scaled by MiniCPM's three factors */
    ln_router router;       /* mixture of experts */
    bool router_mlp;        /* it is a feed-forward of router_hidden_size, and one class more than
                               there are experts stands for none */
    bool routes_first;      /* it reads the residual stream as the layer begins */
    bool zero_other_groups; /* experts of groups that are not used compete with 0, not -inf */
    bool group_by_two;      /* a group of experts counts by its best two, as with sigmoid always */
    bool normalize_experts; /* when the checkpoint does not say */
    bool keeps_expert_weights; /* folders: they are not normalised, whatever config.json says */
    bool shared_gate;
    bool sinks;
    bool window_sinks;       /* only windowed layers have sinks */
    size_t window_kv_factor; /* windowed layers have so many times the KV heads; 0: as many */
    bool chunked;            /* windows are chunks: a query sees its own alone */
    const char *chunk_key;   /* of config.json, of the tokens of a chunk or window */
    const char *before_key;  /* likewise, of those that a windowed layer sees before its own */
    bool halves_window;      /* it has twice as many as a windowed layer sees */
    bool norm_after_rope;
    bool bare_qk_norm;            /* q/k norms have no weights, and are of layers that rotate */
    bool bare_everywhere;         /* of all layers */
    bool bare_after_rope;         /* they are behind rotations, which shows where these scale */
    size_t gguf_unnormed_experts; /* GGUF: with so many experts there are none of these */
    ln_output_gate output_gate;
    bool gate_bias_by_head; /* of it, beside no matrix: LN_ROLE_ATTENTION_GATE_BIAS */
    bool blends; /* the residual stream and what a block gives are weighted by element; norms behind
                    feed-forwards and experts scale before they normalise (Muse Spark) */
    bool unit_sphere; /* nGPT: norms have no weights and make vectors of length one; the residual
                         stream goes some of the way, by element, to what a block gives */
    bool scales_residual;  /* what stays is scaled by element; both are, and shifted, where there
                              are roles for it */
    bool key_bias;         /* values make biases of scores; contexts are of keep_window_size */
    bool averages_blocks;  /* what a layer adds counts as one of all before it: block k gives
                              x sqrt((k - 1) / k) + y / sqrt(k) */
    bool softplus_gate;    /* of it, instead of a sigmoid */
    bool gating;           /* config.json's "gating" says whether it is by head or by element */
    bool sub_norms;        /* norms before the last matrices of attention and feed-forward */
    bool rope_by_fraction; /* rotary_dim does not count */
    bool sparse_blocks;    /* some layers see the best of all blocks alone: as long as a context
                              has no more than these, they see all, and longer ones are refused */
    bool trained_ctx;      /* folders: contexts behind seq_length are computed in other ways, unless
                              use_logn_attn and use_dynamic_ntk are false; they are refused */
    const char *output_gate_key; /* a flag that says whether it is there; NULL: it is */
    ln_query_scale_rule query_scale;
    bool xielu; /* the activation when the checkpoint does not say */
    bool scale_expert_inputs;
    const char *unpadded_key; /* of config.json: how many of the vocabulary are tokens; or NULL */
    const char *added_key; /* of config.json: how many rows behind the vocabulary an embedding may
                              have for what is no text; or NULL */
    const char *experts_flag; /* of config.json, without which there are none, or NULL */
    bool retrieves; /* such experts are pairs of rows beside a dense feed-forward, which the router
                       chooses by product keys (Doge) */
    const char *expert_hidden_key; /* of config.json, of what an expert has, or NULL */
    const char *dense_hidden_key;  /* the same of a model without experts */
    const char *first_hidden_key;  /* the same of dense layers among mixtures, or NULL */
    double shared_share;       /* what a shared expert and the others count where there are both,
                                  unless config.json says that they are summed; 0: one */
    bool gguf_shared_dense;    /* GGUF: a shared expert is as wide as a dense layer, where its
                                  tensors are there */
    size_t n_shared_experts;   /* when the checkpoint does not say */
    bool experts_of_pictures;  /* folders may have as many experts again, and a row of the router's
                                  bias, which text does not meet */
    bool gguf_dense_first;     /* GGUF has keys for dense layers before mixtures */
    bool gguf_softmax_alone;   /* GGUF: readers choose from all experts by softmax, in every layer,
                                  and heads rotate whole */
    bool gguf_bias_is_sigmoid; /* GGUF: where no key names the router's function, biases do */
    bool gguf_dense_by_router; /* GGUF: layers without a router are dense, whatever keys say */
    bool dense_by_router;      /* folders: likewise, where no list says it */
    bool gguf_dense_between;   /* GGUF has a key for the distance of mixtures */
    bool has_encoder;
    bool drafts;        /* a head of its own folder, for other models */
    bool drafts_blocks; /* which drafts blocks of tokens (DFlash) */
    bool assists;       /* whose layers attend to keys and values of the model, and have none */
    bool indexer;       /* attention is sparse */
    ln_rope_style index_rope, gguf_index_rope;
    bool index_runs;       /* it chooses runs of index_kpool tokens (GLM 5 Next) */
    bool index_means;      /* the same of attention that is not latent, by means of keys (Qwen 4) */
    bool index_turns_last; /* the indexer's heads rotate their last dimensions, not the first, and
                              its norm has the model's epsilon */
    bool hyper;            /* several residual streams (hyper-connections) */
    bool mixes_streams;    /* which mix by a doubly stochastic matrix */
    bool averages_streams; /* and whose mean the last norm reads */
    bool gated_streams;    /* several streams, whose norms are gated and summed (Qwen 4) */
    bool ngrams;           /* ple_layer_ids may name layers with embeddings of n-grams */
    bool compressed_attention; /* layers see a window, and entries that compressors make by
                                  layer_types or compress_ratios (DeepSeek V4) */
    bool hash_routing;         /* the first layers choose experts by a table: by mlp_layer_types, or
                                  num_hash_layers of them */
    bool limits_before;    /* swiglu_limit is one of experts, of gates before their activation */
    bool limits_shared;    /* and of shared experts, and dense layers */
    bool limit_lists;      /* lists limit what gate and up give, layer by layer */
    bool by_layer;         /* layers differ in heads and sizes, by lists or by what they see */
    bool lists_alone;      /* by lists alone */
    bool lists_widths;     /* which have feed-forwards, too, and no windows */
    bool sized_by_tensors; /* layers have the blocks, KV heads and widths that their tensors have */
    bool window_heads;     /* windowed layers have heads of their own number and width (swa_) */
    bool relative_logits;  /* scores have relative logits */
    bool divides_by_dim;   /* scores are divided by a head's dimension, not its root */
    bool weighs_shared;    /* the router gives weights of shared experts, too */
    bool limits_lengths;   /* of heads and relative queries; and tokens have sinks of their own */
    bool even_convs;       /* short convolutions are divided by the root of how many terms they
                              have; those of layers that see all have taps that tokens add to */
    bool block_residual;   /* blocks of layers attend to the streams of those before */
    bool raw_residual;     /* which are summed as they are; queries are those of layers, the first
                              one's, which nothing reads, too, and norms of streams have the model's
                              epsilon */
    bool caps_swiglu;      /* by mlp_gate_softcap and mlp_up_softcap */
    bool situ;             /* the same of all that is gated, where the activation is "situ" */
    bool gguf_lists;       /* GGUF: likewise */
    bool gguf_whole_yarn;  /* GGUF: YaRN's bounds are not rounded, unless a key says so */
    bool gguf_half_rope;   /* GGUF counts rotary dimensions of layers that see all twice */
    bool v_norm;           /* values are normalised by head, without weights */
    bool layer_scales;     /* what a layer gives is multiplied by a number */
    bool cycles;           /* two stacks of layers, which run in cycles (HRM) */
    bool repeats; /* all layers run num_loops or total_ut_steps times (looped transformers) */
    bool loops;   /* n_recurrent_layers in the middle run n_recurrent_loops times (Dory) */
    bool passes;  /* where there is a loop_layer_index_start, layers from it on run loop_num_passes
                     times, and get messages of the run before (Inkling 2 Mini) */
    bool attention_experts; /* a mixture of attention: queries and outputs have experts, as many as
                               the feed-forward; each has as many heads as there are of keys */
    bool output_eps;        /* with norm_eps: the output's norm has config.json's all the same */
    bool differential;      /* heads of the second half are subtracted from those of the first */
    bool lookup;            /* layers may have embeddings of their own */
    bool altup;             /* there are several streams, and a path of low rank beside attention */
    bool moe_beside;        /* experts, where there are any, stand beside a dense feed-forward */
    bool shortcut;          /* two layers are one of the checkpoint's: experts read what the first
                               one's dense feed-forward reads, and are added behind the second */
    bool latent_pairs;      /* q and the output's gate are made of the latent behind its norm and
                               before */
    bool gated_norms;       /* norms of attention and of mixtures are gated by a path of low rank */
    bool plain_latents; /* layers that do not rotate have no key for it, and heads that are as wide
                           all the same; kv_source_layers may not name other layers */
    bool latents_by_kind; /* windowed layers have latents and heads of their own, by keys of theirs;
                             others have an indexer, where use_dsa is not false; the key that
                             rotates has a norm */
    bool scales_latents; /* latents are multiplied with the root of the model's width over theirs */
    bool gguf_turning;   /* GGUF tells pairs that do not turn by factors of frequencies */
    bool ends_in_full;   /* the last layer sees all, whatever layer_types says */
    size_t n_only_embedded; /* tokens behind the vocabulary, which are read but never written */
    const char *idle_layers_key; /* of config.json: a list of layers that read pictures, and do
                                    nothing with text; every fifth from the fourth on, to the 39th,
                                    where there is none. NULL: all read text */
    bool window_unlisted;        /* a window is that of all attention, whatever layer_types says */
    ln_mixer mixer;              /* of its recurrent layers */
    bool shared_blocks;          /* all layers are recurrent, and in front of those that are called
                                    hybrid stands a transformer block, whose weights some share; it
                                    rotates where use_mem_rope is set (Zamba 2) */
    bool mixer_keys_by_head;  /* Mamba 1: steps, keys and queries are made by n_mamba_heads heads,
                                 each of its own columns (Zamba) */
    bool mixers_beside;       /* every layer has one beside attention */
    const char *mixer_word;   /* for them in a list of layers; NULL: all layers are recurrent */
    bool least_time_step;     /* folders limit steps by time_step_min alone, not time_step_limit */
    bool mixers_normed_first; /* layers that are recurrent have norms before the blocks, others
                                 behind them */
    bool mixer_from_heads;    /* folders may lack sizes of recurrent layers: there are as many heads
                                 as in attention, of 3/4 of the model's dimensions, and values have
                                 twice as many */
    bool mixers_end_before;   /* the last layer is attention if no other is */
    bool one_block;           /* a layer is a mixer, or attention, or a feed-forward */
    bool mixer_norm_groups;   /* a norm for each head of keys */
    bool flat_rates;         /* KDA: rates of decays are a vector, in GGUF of one dimension; folders
                                may have more numbers behind those of heads */
    bool gguf_tiled_heads;   /* head h has the keys of head h % n_k_heads */
    bool gguf_sigmoid_gates; /* GGUF: gates of what recurrent layers give are sigmoids */
    bool gguf_fixed_scales;  /* GGUF: readers have the factors of scale_by_depth as published */
    bool gguf_folds_scales;  /* GGUF: weights contain what results are multiplied with */
    bool gguf_rope_flag;     /* GGUF: rope.scaling.finetuned says whether layers rotate */
    bool still_latents;      /* what rotates in latent attention elsewhere does not turn */
    double norm_eps;         /* folders: of norms, whatever config.json says; 0: as it says */
    double latent_eps;       /* folders: of the norms of latents; 0: as of all others */
    double mixer_eps;        /* of the norm behind a recurrent layer; 0: as of all others */
    bool unit_scale;         /* attention scores are q.k as they are */
    bool tied_by_default;    /* the output is the embedding unless the checkpoint says no */
    bool scale_tied_logits;  /* by 1 / sqrt(dim), unless config.json says that it is not tied */
    const char *suppressed_prefix; /* of suppressed tokens' names in vocabulary_map: images, that
                                      a text has none of; GGUF: tokens 4 to 8195 */
    size_t unit_output_vocab; /* with so many tokens the output's rows count as of length one */
    bool gguf_clips;          /* GGUF has keys for limits of q, k and v, and for ALiBi's */
    bool gguf_value_scale;    /* GGUF has a key for what values are multiplied with */
    size_t gguf_alibi_layers; /* GGUF: with so many layers ALiBi, else RoPE */
    const char *head_stem;  /* folders: where the layer of the head is, or NULL: behind the last */
    bool head_hidden_first; /* the head's input is the hidden state, then the embedding */
    const ln_binding *bindings; /* [n_bindings] */
    size_t n_bindings;
};

/* GGUF: whether the tensors tell if a feed-forward has a gate, and with it the activation: T5's. */
static inline bool ln_family_gate_shows(const ln_family *family) {
    return family->has_encoder || family->positions == LN_POSITIONS_RELATIVE;
}

/* What a feed-forward has when the checkpoint does not say: SiLU where the family says nothing. */
static inline ln_activation ln_family_activation(const ln_family *family) {
    bool is_silu = family->activation == LN_ACT_NONE && !family->xielu;
    return is_silu ? LN_ACT_SILU : family->activation;
}

/* All families, NULL-terminated. */
extern const ln_family *const ln_families[];

enum { LN_TENSOR_NAME_BYTES = 160 };

/* Which tensor of a role: layer and expert (or head) where there are many. */
typedef struct ln_tensor_id {
    ln_role role;
    bool encoder;
    size_t layer, expert;
    bool is_bias;
    const char *stem; /* NULL, or what folders have in place of model.layers.N */
} ln_tensor_id;

/* The usual name of a role's tensor in GGUF, or NULL; *is_bare: it is complete. */
const char *ln_gguf_name(ln_role role, bool *is_bare);

/* The name that a binding has in a format, or NULL; *is_bare: it is complete. */
const char *ln_binding_pattern(const ln_binding *binding, ln_checkpoint_format format,
                               bool *is_bare);

/* Binding number `index` of a role that has a name in this format, or NULL past the last. */
const ln_binding *ln_family_binding(const ln_family *family, ln_checkpoint_format format,
                                    ln_tensor_id id, size_t index);

/* The full name of a binding's tensor. */
void ln_binding_name(const ln_binding *binding, ln_checkpoint_format format, ln_tensor_id id,
                     char name[LN_TENSOR_NAME_BYTES]);

/* Where folders may keep a tensor of this name: as it is, without the family's prefix, or inside a
 * model that wraps this one. Place number `index`; false past the last. */
bool ln_family_place(const ln_family *family, const char *name, size_t index,
                     char placed[LN_TENSOR_NAME_BYTES]);

/* The tensor of a role in any of its places, or NULL; *binding says how to read it. */
const ln_tensor *ln_family_find(const ln_family *family, const ln_checkpoint *checkpoint,
                                ln_tensor_id id, const ln_binding **binding);

/* The family of a model_type or general.architecture, or NULL. */
const ln_family *ln_family_of(ln_checkpoint_format format, const char *type, size_t n_bytes);

/* What the transformers library takes where config.json of this model_type lacks a key:
 * "key=value|...", or NULL. */
const char *ln_family_class_defaults(const char *type);

/* The names of a few that `type` resembles most, nearest first, separated by commas. */
enum { LN_NEAREST_BYTES = 256 };
void ln_family_nearest(ln_checkpoint_format format, const char *type, size_t n_bytes,
                       char names[LN_NEAREST_BYTES]);

/* With norms_add_one: what is added to the weights of a norm. */
float ln_family_norm_offset(const ln_family *family, ln_role role);

/* Whether the role is a norm without weights. */
bool ln_family_is_bare(const ln_family *family, ln_role role);

/* Whether one of the role's tensors is there, plainly or in a quantised form. */
bool ln_family_has(const ln_family *family, const ln_checkpoint *checkpoint, ln_tensor_id id);

/* Whether a role is stored as one tensor for each head or expert. */
bool ln_family_is_numbered(const ln_family *family, const ln_checkpoint *checkpoint,
                           ln_tensor_id id);

#endif
