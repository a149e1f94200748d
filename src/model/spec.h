/* The spec: an architecture as data. An array of layers (families mix kinds) and what is common.
 * Read once from a checkpoint's metadata, checked, immutable afterwards. The forward pass walks
 * it; nothing else decides what a model computes. */
#ifndef LN_MODEL_SPEC_H
#define LN_MODEL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linnet.h>

#include "backend/op.h"
#include "dist/mesh.h"

/* Of a row of scales of queries, of which the first counts: kernels read so many at once. */
enum { LN_QUERY_SCALE_WIDTH = 8 };

enum { LN_MAX_LAYERS = 1024, LN_MAX_ROPES = 4, LN_MAX_AUX_LAYERS = 8, LN_MAX_HYPER = 16 };

/* No tensor of a real model is wider; products of two such numbers fit in 64 bits. */
enum { LN_MAX_DIM = 1 << 20 };

/* Shared experts whose weights the router gives. */
enum { LN_MAX_ROUTED_SHARED = 64 };

/* Of an attention head or an indexer's: a GPU's kernels keep rows of one in shared memory. */
enum { LN_MAX_HEAD_DIM = 4096 };

/* Where norms stand around attention and feed-forward. */
typedef enum ln_placement {
    LN_PLACE_PRE,      /* x + f(norm(x)) */
    LN_PLACE_POST,     /* x + norm(f(x)) */
    LN_PLACE_SANDWICH, /* x + norm(f(norm(x))) */
    LN_PLACE_PARALLEL, /* x + attention(norm(x)) + ffn(norm'(x)) */
    LN_PLACE_AFTER,    /* norm(x + f(x)) */
    LN_PLACE_NORMED    /* keep y + f(y), y being norm(x) */
} ln_placement;

typedef enum ln_positions {
    LN_POSITIONS_ROPE = 0,
    LN_POSITIONS_LEARNED,
    LN_POSITIONS_ALIBI,
    LN_POSITIONS_RELATIVE,
    LN_POSITIONS_NONE
} ln_positions;

/* What attention gives is multiplied with the sigmoid of a linear of its input. */
typedef enum ln_output_gate { LN_GATE_NONE, LN_GATE_BY_ELEMENT, LN_GATE_BY_HEAD } ln_output_gate;

/* Latent attention: what is cached is one row for all heads. A head's query has n_plain elements
 * that meet the latent through its key matrix and n_rope that rotate. */
typedef struct ln_latent_spec {
    size_t n_latent; /* 0: ordinary attention */
    size_t n_plain, n_rope;
    size_t q_latent; /* q goes through this many dimensions; 0: straight */
    size_t v_dim;    /* of a head's result */
    bool k_norm;     /* the key that rotates is normalised */
    bool pairs;      /* q and the gate read the latent behind its norm and before */
} ln_latent_spec;

/* Sparse attention: an indexer chooses the positions that a token's latent attention reads. */
typedef struct ln_indexer_spec {
    size_t top_k;      /* 0: all are read */
    size_t run_tokens; /* it chooses top_k runs of so many tokens by their entries; 0: tokens */
    size_t n_heads, head_dim;
    bool turns_last; /* the last dimensions of its heads rotate, not the first */
    bool shared;     /* those that the indexer of an earlier layer has chosen: it has none */
    size_t kv_layer; /* the number of the cache of its keys, where they are of tokens */
} ln_indexer_spec;

/* Attention whose values are its keys as they are cached, of one head for all (DeepSeek V4): what
 * it gives is rotated back. */
typedef struct ln_compressed_spec {
    size_t q_latent;              /* q goes through this many dimensions; 0: other attention */
    size_t n_groups, group_width; /* of heads, of which each goes through so many dimensions */
} ln_compressed_spec;

/* Entries that each sum up a run of tokens (ln_op_compress), and that compressed attention reads
 * beside its window: all, or those that an indexer chooses, which has entries of its own.
 * Those beside latent attention are its indexer's keys. */
typedef struct ln_compressor_spec {
    size_t n_tokens;               /* of a run; 0: there are none */
    bool overlaps;                 /* an entry takes the run before, too; and an indexer chooses */
    size_t row_group, entry_group; /* indices into ln_spec.kv_groups */
    size_t kv_layer;               /* the number of its first cache (activations.h) */
} ln_compressor_spec;

/* Caches of a compressor: rows and entries, and those of an indexer. */
static inline size_t ln_compressor_caches(const ln_compressor_spec *compressor) {
    return compressor->n_tokens == 0 ? 0 : compressor->overlaps ? 4 : 2;
}

/* Elements of heads behind those of a key that has a bias: so many that rows stay aligned. */
enum { LN_KEY_BIAS_DIMS = 8 };

typedef struct ln_attention_spec {
    size_t n_heads, n_kv_heads;
    size_t in_dim;       /* of what q, k and v are made of; 0: the model's */
    size_t k_dim, v_dim; /* elements of a cached head; a latent's v is the beginning of its k */
    ln_latent_spec latent;
    ln_compressed_spec compressed;
    ln_compressor_spec compressor;
    ln_indexer_spec indexer;
    bool sinks;
    ln_output_gate gate;
    float scale, softcap;
    float in_scale; /* of what attention reads; with a mixer beside it */
    float v_scale;  /* what values are multiplied with */
    float clip;     /* of q, k and v before they rotate: clamp(x, -clip, clip); 0: none */
    ln_query_scale q_scale;
    bool scales_by_log;       /* q of each head by its scale and bias of what that table has */
    bool scales_by_table;     /* q by what ln_weights.query_scales has for its position: */
    ln_query_scale log_scale; /* 1 + beta log(max(1, (p + offset) / period)); beta 0: another */
    size_t relative_dim, n_distances; /* of relative logits; 0: none */
    /* Lengths of heads of q and k, and of relative queries; with them each token has sinks of its
     * own. 0: they are not limited */
    float head_limit, relative_limit;
    size_t window; /* tokens; 0: all */
    size_t chunk;  /* tokens; 0: all */
    ln_qk_norm qk_norm;
    bool norm_after_rope, bare_qk_norm; /* bare: without weights */
    int rope;                           /* index into ln_spec.ropes; -1: none */
    bool alibi, relative;
    bool sees_all;      /* in an encoder: not causal */
    bool softplus_gate; /* instead of the sigmoid */
    bool out_norm;      /* of what attention gives, over all heads, before its matrix */
    bool head_norm;     /* of what each head gives, without weights, before the output's gate */
    /* Mixture of attention: so many experts that give queries and take what attention gives, of
     * which a token uses some; each has n_kv_heads heads. 0: there is none */
    size_t n_experts, n_used;
    /* Differential attention: a KV head has the values of two, so that v_dim is 2 k_dim; heads of
     * the second half are subtracted from those of the first, and what is left is normalised */
    bool differential;
    bool has_key_bias; /* values make a bias of their key's scores, which k_dim has room for */
    bool convolved;    /* compressed convolutional attention: the layer's mixer makes q, k and v */
    bool k_is_v;       /* values are what keys are before their norm */
    bool v_norm;       /* values are normalised by head, without weights */
    size_t kv_group;   /* index into ln_spec.kv_groups */
    size_t kv_layer;   /* the layer whose cache is read: this one, or an earlier one */
    bool borrows_kv;   /* an earlier one, and no keys and values are made here */
} ln_attention_spec;

/* How many elements of a gate a head has. */
static inline size_t ln_gate_width(const ln_attention_spec *attention) {
    if (attention->gate != LN_GATE_BY_ELEMENT)
        return 1;
    return attention->latent.n_latent > 0 ? attention->latent.v_dim : attention->v_dim;
}

/* Layers that keep a state instead of all keys and values (backend/recurrent.h). */
typedef enum ln_mixer {
    LN_MIXER_NONE,
    LN_MIXER_CONV,        /* a convolution between two gates (LFM2) */
    LN_MIXER_DELTA,       /* gated delta rule */
    LN_MIXER_KDA,         /* the same with a decay for each channel (Kimi Linear) */
    LN_MIXER_SSD,         /* Mamba 2 */
    LN_MIXER_LIGHTNING,   /* linear attention with fixed decays */
    LN_MIXER_SELECTIVE,   /* Mamba 1: one head, whose v_dim is all that the layer has inside, and
                             whose keys may be those of n_k_heads parts of it */
    LN_MIXER_LRU,         /* RG-LRU (Griffin): likewise */
    LN_MIXER_SHORT_CONVS, /* no layer of its own: convolutions inside attention and behind blocks */
    LN_MIXER_CCA          /* convolutions that make attention's q, k and v (ZAYA) */
} ln_mixer;

/* Short convolutions of a layer, in the order of their channels in its state: of keys and values,
 * and of what attention and feed-forward give (Inkling). */
typedef enum ln_short_conv {
    LN_CONV_KEYS,
    LN_CONV_VALUES,
    LN_CONV_ATTENTION,
    LN_CONV_FFN,
    LN_SHORT_CONVS
} ln_short_conv;

typedef struct ln_mixer_spec {
    ln_mixer kind;
    size_t n_heads, n_k_heads, k_dim, v_dim; /* as in ln_state_shape; n_k_heads: groups of SSD */
    size_t n_taps;                           /* 0: no convolution */
    size_t channels[LN_SHORT_CONVS];         /* of short convolutions, */
    bool dynamic; /* of which those of keys and values have taps that hidden states add to */
    bool is_even; /* and which are divided by the root of how many terms they sum up */
    /* CCA: n_heads are those of q and of k, n_taps those of both convolutions in a row; of each of
     * these; and elements of v of all heads */
    size_t n_channel_taps, n_head_taps, n_values;
    size_t n_gate_blocks; /* RG-LRU: of the diagonal of the matrices that give its gates */
    size_t low_rank;      /* KDA and Mamba 1: decays go through this many dimensions */
    size_t gate_rank;     /* KDA: and so does the gate; 0: straight */
    bool is_low;          /* KDA: decays do */
    bool by_head;         /* Mamba 1: matrices of steps, keys and queries are those of n_k_heads */
    float control_eps;    /* Mamba 1: of norms of what makes steps, keys and queries; 0: none */
    size_t n_norm_groups; /* the output's norm is over so many parts of a row */
    float norm_eps;       /* of this norm */
    bool has_norm, gate_first, sigmoid_gate; /* ln_op_gated_norm */
    bool tiled, doubles_b;                   /* ln_op_scan */
    float dt_min, dt_max;
    float bound;                    /* KDA: of decays, as LN_DECAY_BOUNDED has it; 0: none */
    float in_scale;                 /* of what the layer reads */
    float gate_scale, decay_scale;  /* of what gate and decay are before their functions */
    float conv_scales[3];           /* SSD: of x, B and C before the convolution */
    float out_scale;                /* of what goes to the residual stream */
    size_t state_group, tail_group; /* indices into ln_spec.kv_groups */
} ln_mixer_spec;

typedef struct ln_moe_spec {
    size_t n_experts; /* 0: a dense layer */
    size_t n_zero;    /* more of them, which give what they read, or nothing */
    bool zero_skips;  /* nothing */
    size_t n_used, n_hidden;
    size_t n_latent; /* experts read and give so many dimensions instead of the model's; 0: those */
    ln_router router;
    /* The router is a feed-forward of so many dimensions, which reads what that of the layer before
     * has made of its input, too (ZAYA); 0: a matrix */
    size_t router_hidden;
    size_t n_groups, n_groups_used; /* 0: no groups */
    bool group_by_two, zero_other_groups, normalize;
    float scale;
    float jitter;         /* of the sparse mixer */
    float softcap;        /* of the router's logits; 0: none */
    float logit_scale;    /* of these */
    size_t shared_hidden; /* 0: no shared expert */
    size_t n_shared;      /* experts in shared_hidden whose weights the router gives; 0: one */
    bool shared_gate;
    float shared_scale;     /* of what a shared expert gives */
    float limit;            /* of what gate and up give, as ln_ffn_spec.limit; 0: none */
    float gate_cap, up_cap; /* ln_op_pointwise's capped SwiGLU; 0: another */
    bool limits_before;     /* act(min(gate, limit)) * clamp(up, -limit, limit) instead */
    bool hash_routed;       /* a token's experts are those of a table */
    bool routes_first;      /* the router reads the residual stream as the layer begins */
    bool scale_inputs;      /* an expert's weight multiplies what it reads, not what it gives */
    bool beside;            /* beside a dense feed-forward, each with norms of its own (Gemma 4) */
    bool shortcut;          /* beside one, and added behind the next layer (LongCat) */
} ln_moe_spec;

/* Whether what gates and ups of experts give is limited or capped, so that they are made apart. */
static inline bool ln_moe_limits(const ln_moe_spec *moe) {
    return moe->limit > 0.0f || moe->gate_cap > 0.0f;
}

typedef struct ln_ffn_spec {
    float slope; /* with limits: (clamp(up) + 1) g sigmoid(slope g) as gpt-oss has it; 0: not so */
    bool out_norm; /* before the last matrix */
    float limit;   /* dense or shared: min(act(gate), limit) * clamp(up, -limit, limit); 0: none */
    float gate_cap, up_cap;       /* likewise: as ln_moe_spec has them */
    float gate_scale, down_scale; /* of what these matrices give; gate: with a limit alone */
    size_t n_hidden;
    bool gated;
    bool xielu;     /* instead of the activation */
    bool is_sparse; /* what the gate gives counts from so many standard deviations on */
    float deviations;
    ln_activation activation;
    ln_moe_spec moe;
    struct { /* experts of one row in and out beside it, chosen by pairs of n_keys (Doge) */
        size_t n_experts, n_keys, n_used; /* n_experts 0: there are none */
    } retrieved;
} ln_ffn_spec;

/* Items [begin, begin + n) of `of`, which a rank has; n 0: they are not divided. */
typedef struct ln_slice {
    size_t begin, n, of;
} ln_slice;

typedef struct ln_layer_spec {
    ln_placement placement;
    ln_attention_spec attention; /* n_heads 0: none */
    ln_mixer_spec mixer;         /* beside attention, or instead of it */
    bool has_cross;              /* attention to the encoder's output follows: the same heads */
    size_t cross_kv_group;
    ln_ffn_spec ffn;     /* of no width and without experts: none */
    bool takes_shortcut; /* experts of the layer before are added behind it */
    struct {             /* attention and feed-forward are a block in front of the mixer */
        bool is_there;
        size_t source; /* the layer that has its weights: this one, or an earlier one */
        size_t number; /* of such layers before this one */
    } shared;
    struct { /* embeddings of n-grams */
        bool is_there;
        size_t number;   /* of such layers before this one */
        size_t kv_layer; /* the first of four caches: states and tails, of tokens and of values */
        size_t state_group, tail_group;
    } ngrams;
    bool scaled;                    /* what the layer gives is multiplied by a number */
    float attention_keep, ffn_keep; /* of LN_PLACE_NORMED, before attention or a mixer, and ffn */
    struct { /* what a rank has of the layer, whose numbers above are the rank's (shard.h) */
        ln_slice heads, kv_heads, hidden, expert_hidden, shared_hidden;
        ln_slice experts; /* whole ones */
    } part;
} ln_layer_spec;

typedef enum ln_rope_scaling {
    LN_ROPE_PLAIN,
    LN_ROPE_LINEAR,
    LN_ROPE_LLAMA3,
    LN_ROPE_YARN,
    LN_ROPE_LONGROPE,
    LN_ROPE_DYNAMIC,
    LN_ROPE_PROPORTIONAL /* the last pairs do not turn */
} ln_rope_scaling;

/* Rotary positions as the checkpoint describes them; the tables are made at load, because some
 * scalings look at the context chosen there. */
typedef struct ln_rope_spec {
    ln_rope_style style;
    size_t n_dims;
    double theta;
    ln_rope_scaling scaling;
    double factor;
    double original_ctx;                    /* tokens; all scalings but linear */
    double trained_ctx;                     /* tokens; longrope */
    double low_freq, high_freq;             /* llama3 */
    double beta_fast, beta_slow;            /* yarn */
    double attention_factor;                /* yarn; 0: derived from the factor */
    double short_magnitude, long_magnitude; /* longrope, by the context; 0: derived */
    size_t sections[4];            /* pairs by axis of a picture; text has one position for all */
    double extra_magnitude;        /* yarn in GGUF: multiplies the derived factor */
    double mscale, mscale_all_dim; /* yarn; 0: not given */
    bool truncate;                 /* yarn: the ramp's ends are whole numbers */
    size_t n_turning;              /* proportional: pairs that turn */
    const float *short_factors, *long_factors; /* longrope [n_dims / 2], in the arena */
} ln_rope_spec;

/* What a group's cache holds: a decoder's own tokens; the encoder's output as the decoder sees it;
 * or the encoder's tokens, for the one step in which the encoder runs. */
typedef enum ln_kv_kind {
    LN_KV_OWN = 0,
    LN_KV_CROSS,
    LN_KV_ENCODER,
    LN_KV_STATE, /* states of recurrent layers, and tails behind them */
    LN_KV_TAIL
} ln_kv_kind;

/* Layers that cache alike. */
typedef struct ln_kv_group_spec {
    ln_kv_kind kind;
    size_t window; /* tokens that stay visible; 0: all */
    size_t n_layers;
} ln_kv_group_spec;

typedef struct ln_family ln_family;

/* What a matrix of a head is followed by, which is no part of a step. */
typedef enum ln_head_activation {
    LN_HEAD_IDENTITY,
    LN_HEAD_TANH,
    LN_HEAD_GELU,
    LN_HEAD_RELU,
    LN_HEAD_SILU
} ln_head_activation;

/* Layers whose input a head reads (auxiliary hidden states); n_layers: the last output. */
typedef struct ln_aux_layers {
    size_t n;
    size_t layers[LN_MAX_AUX_LAYERS];
} ln_aux_layers;

/* A folder that is a head for another model (EAGLE-3, DFlash): its layers are layers[], and n_vocab
 * counts the tokens that it can draft; 0: as many as the model has. */
typedef struct ln_eagle_spec {
    bool is_head;
    bool norm_before_residual; /* the residual stream begins behind the norm of hidden states */
    bool norm_before_fc;       /* a norm of what is read of the model (EAGLE-3.1) */
    size_t model_dim;          /* of the model that it drafts for */
    size_t n_embedded;         /* rows of its own embedding; 0: it has none and uses the model's */
    ln_aux_layers aux_layers;  /* n 0: the usual three */
} ln_eagle_spec;

/* A folder that drafts blocks for another model (DFlash); what it reads of that model is in
 * `eagle`. Its layers attend to keys and values of hidden states, and to a block of tokens that are
 * not known yet but for the first. */
typedef struct ln_dflash_spec {
    size_t block_tokens; /* the known one and those that it drafts; 0: it is another folder */
    int32_t mask_token;  /* that stands for those that are not known */
    bool has_output;     /* of its own; else it has the model's */
    bool says_scale;     /* of embeddings; else the model's counts, of a model's embedding */
} ln_dflash_spec;

typedef struct ln_spec {
    const ln_family *family;
    size_t dim, n_vocab, n_layers;
    size_t ctx_tokens; /* what the checkpoint was made for */
    ln_norm_kind norm_kind;
    float norm_eps, latent_norm_eps;
    float output_norm_eps; /* 0: norm_eps */
    float post_norm_eps;   /* of norms behind blocks */
    float embedding_scale, residual_scale, logit_scale, logit_softcap;
    bool turns_latents; /* a GGUF file: latents rotate pairs side by side, in folders halves */
    bool has_folded_output, has_folded_weights; /* a GGUF file: the output, or all weights, contain
                                                   what their results are multiplied with */
    bool tied;                /* the output is the embedding, whatever the file holds */
    size_t n_padding;         /* rows behind the vocabulary's, which nobody reads or writes */
    struct {                  /* hyper-connections */
        size_t n;             /* residual streams; 0: there is one, x */
        float magnitude, eps; /* of the weights of what streams take; added to all weights */
        /* what stays of streams is mixed by a matrix, whose rows and columns are brought to sums of
         * one so many times; eps is added to what blocks read alone. 0: they stay as they are */
        size_t n_rounds;
        bool averages; /* the last norm reads their mean */
        /* blocks read the mean of the streams' norms, gated by element, by way of so many
         * dimensions; 0: as above */
        size_t low_rank;
    } hyper;
    struct { /* embeddings of hashed n-grams, which join the streams in front of some layers */
        size_t n_layers;                     /* so many; 0: there are none */
        size_t n_tokens, heads_per_length;   /* as ln_ngrams has them */
        size_t width;                        /* of all heads of a token */
        size_t n_taps;                       /* of a convolution behind it, n_tokens apart */
        size_t base, divisor, seed, n_parts; /* what tables are made by */
        int32_t end;
        bool listed; /* GGUF: numbers of the hashes, which are of one layer */
        uint64_t factors[LN_MAX_NGRAM], sizes[LN_MAX_NGRAM_HEADS], begins[LN_MAX_NGRAM_HEADS];
    } ngrams;
    size_t embedded_dim; /* columns of the embedding and the output; 0: dim */
    bool output_dense;   /* the output reads a norm of an activation of a matrix of the last norm */
    ln_activation output_activation;
    bool lacks_output; /* the file is of a model that embeds or classifies: nothing is generated */
    ln_positions positions;
    size_t learned_offset, n_learned; /* rows of the table of positions */
    bool computed_positions;          /* the table is not in the file */
    size_t blank_position;            /* a row of it that is zero */
    size_t n_types;                   /* rows of the table of token types; 0: there is none */
    bool bidirectional; /* all tokens see each other: a text is one step, which all layers cache in
                           one place in turn, and no token is generated */
    size_t max_ctx_tokens;  /* a limit that no option lifts; 0: none */
    size_t block_tokens;    /* of blocks of which layers would see some alone behind it, */
    size_t n_local_blocks;  /* and how many of these are the last ones */
    int32_t first_position; /* of rotations */
    size_t n_ropes;
    ln_rope_spec ropes[LN_MAX_ROPES];
    size_t n_kv_groups;
    ln_kv_group_spec kv_groups[LN_MAX_KV_GROUPS];
    ln_layer_spec *layers;         /* [n_layers] */
    size_t n_indexers;             /* layers that have one of their own */
    size_t n_entry_caches;         /* of compressors */
    size_t n_encoder_layers;       /* 0: a decoder alone */
    size_t n_encoder_vocab;        /* of an embedding of its own; 0: it has the decoder's */
    ln_layer_spec *encoder_layers; /* [n_encoder_layers] */
    size_t n_prediction_layers;    /* GGUF: layers behind the last one, which are no part of it */
    /* The layer of a head that predicts a token more (multi-token prediction), layers[n_layers];
     * NULL: there is none, or none that runs */
    ln_layer_spec *mtp;
    /* The layers of a head that drafts, which lie beside the decoder's: their caches are behind all
     * others, activations are as wide as they need; NULL: none, as in all that is read */
    const ln_layer_spec *head;
    size_t n_head_layers;
    ln_aux_layers aux_layers; /* of a model beside which a head of its own folder drafts */
    ln_eagle_spec eagle;
    ln_dflash_spec dflash;
    /* An assistant, whose layers attend to keys and values of the model that it drafts for: the
     * width of that; 0: it is none */
    size_t assisted_dim;
    bool keeps_rows; /* of a model beside which an assistant drafts: x has all rows of a step */
    size_t n_relative_buckets, relative_max_distance;
    struct { /* block attention residuals: layers of a block, and blocks; 0: there are none */
        size_t n_layers, n_blocks;
        float eps;       /* of norms of streams */
        bool raw_values; /* streams are summed as they are (ln_op_rowwise) */
    } residual;
    double blend_temperature;    /* 0: the residual stream is not weighted */
    bool scales_residual;        /* (x + a) b + (f(x) + c) d behind each block, by element */
    size_t norm_gate_rank;       /* of norms that are gated; 0: none */
    size_t n_streams;            /* beside the residual stream; 0: none (AltUp) */
    size_t laurel_rank;          /* with streams */
    bool scales_stream;          /* with streams: what goes to the layer's embedding is scaled */
    size_t lookup_dim, n_lookup; /* an embedding for each layer, and its rows; 0: there is none */
    /* Two stacks of cycle_layers layers: `cycle_stacks` - 1 runs of the low one, then one of the
     * high one, and all again. A run is counted as layers of its own. 0: none */
    size_t cycle_layers, cycle_stacks;
    /* loop_layers layers from loop_begin on run n_loops times, each on the norm of what is there
     * plus that of what the layers before them gave; or, with message_rank > 0, on what these gave,
     * with messages of the run before; or, where all layers are repeated, on the last norm of what
     * the run before gave, unless that stays as it is. A run is counted likewise. 0: none */
    size_t loop_begin, loop_layers, n_loops, message_rank;
    bool repeats, norms_repeats;
    double unit_range, unit_rate; /* nGPT: what stored scales are divided by, and rates multiplied
                                     with before; 0: the residual stream is another */
    bool has_order;               /* columns of weights may be in another order than activations */
    bool has_query_scales;        /* of some layers, by a table: */
    bool logs_positions;          /* of logarithms */
    bool has_mixers;              /* some layers are recurrent */
    bool shares_blocks;           /* some layers stand behind blocks that others have, too */
    size_t shared_rank;           /* of what layers add to these blocks' matrices; 0: nothing */
    bool adapts_heads;            /* to those of q, k and v, too */
    bool unit_output;             /* the output's rows count as of length one */
    struct {                      /* of a rank's spec (shard.h) */
        ln_mesh mesh;
        size_t rank, n; /* of those that divide the layers that it has; n 0: it has them whole */
        const struct ln_spec *whole; /* NULL: there is one rank, and this is its spec */
        ln_slice vocab, encoder_vocab, layers;
    } ranks;
    int32_t decoder_start_id; /* what a decoder begins with; -1: nothing */
} ln_spec;

/* Columns of the embedding and the output. */
static inline size_t ln_embedded_dim(const ln_spec *spec) {
    return spec->embedded_dim > 0 ? spec->embedded_dim : spec->dim;
}

/* Experts whose weights this rank has. */
static inline size_t ln_layer_n_experts(const ln_layer_spec *layer) {
    return layer->part.experts.n > 0 ? layer->part.experts.n : layer->ffn.moe.n_experts;
}

/* Whether this rank has the decoder's layer; the encoder is where layer 0 is. */
static inline bool ln_spec_has_layer(const ln_spec *spec, size_t layer) {
    const ln_slice *own = &spec->ranks.layers;
    return own->n == 0 || (layer >= own->begin && layer < own->begin + own->n);
}

/* Whether other ranks have layers before this one's, or behind them. */
static inline bool ln_spec_follows(const ln_spec *spec) {
    return spec->ranks.layers.begin > 0;
}

/* Whether a layer from `first` on reads the ids of tokens: hash routing, n-grams. */
static inline bool ln_spec_reads_tokens(const ln_spec *spec, size_t first) {
    for (size_t i = first; i < spec->n_layers; i++)
        if (spec->layers[i].ffn.moe.hash_routed || spec->layers[i].ngrams.is_there)
            return true;
    return false;
}

/* Layers of the checkpoint, of which some may run several times. */
static inline size_t ln_spec_stored_layers(const ln_spec *spec) {
    return spec->n_layers - (spec->loop_layers > 0 ? (spec->n_loops - 1) * spec->loop_layers : 0);
}

/* Blocks of attention residuals in a run of layers that run again. */
static inline size_t ln_spec_loop_blocks(const ln_spec *spec) {
    return spec->loop_layers / spec->residual.n_layers;
}

static inline bool ln_spec_leads(const ln_spec *spec) {
    return spec->ranks.layers.begin + spec->ranks.layers.n < spec->ranks.layers.of;
}

/* How files keep the rows of a layer's q and k: as its own rotation has them, or, of a layer that
 * does not rotate, as the others' has. *n_dims: the first of a head that take part. NULL: no layer
 * of the model rotates. */
static inline const ln_rope_spec *
ln_spec_rope_of(const ln_spec *spec, const ln_attention_spec *attention, size_t *n_dims) {
    if (spec->n_ropes == 0)
        return NULL;
    const ln_rope_spec *rope = &spec->ropes[attention->rope > 0 ? attention->rope : 0];
    *n_dims = rope->n_dims < attention->k_dim ? rope->n_dims : attention->k_dim;
    return rope;
}

#endif
