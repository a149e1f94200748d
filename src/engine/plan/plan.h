/* The plan of an engine: every size that it will have, chosen from its options, the model's headers
 * and the free memory, before any of it is reserved. `linnet plan` shows it, and the engine
 * reserves just that.
 *
 * make.h makes a plan: sizes.h adds up the arenas, of which kv.h, cpu_layers.h and draft.h size
 * theirs; offload.h divides the layers between GPU and CPU, expert_offload.h leaves experts
 * to the CPU. */
#ifndef LN_ENGINE_PLAN_PLAN_H
#define LN_ENGINE_PLAN_PLAN_H

#include "backend/backend.h"
#include "engine/scheduler.h"
#include "kv/cache.h"
#include "model/activations.h"
#include "model/adapter/load.h"
#include "model/model.h"
#include "model/weights.h"

/* Arenas, and their names in linnet_memory_plan. */
#define LN_ARENAS(X)                                                                               \
    X(LN_ARENA_WEIGHTS, "weights")         /* prepared ones, slots for adapters; no mapped ones */ \
    X(LN_ARENA_TABLES, "tables")           /* of the weights */                                    \
    X(LN_ARENA_KV, "kv")                   /* blocks */                                            \
    X(LN_ARENA_SWAP, "swap")               /* blocks of preempted requests */                      \
    X(LN_ARENA_BLOCKS, "blocks")           /* block pools and block tables */                      \
    X(LN_ARENA_ACTIVATIONS, "activations") /* and logits */                                        \
    X(LN_ARENA_SCRATCH, "scratch")         /* of the backend's kernels */                          \
    X(LN_ARENA_BATCH, "batch")             /* arrays of a step */                                  \
    X(LN_ARENA_SAMPLER, "sampler")         /* candidates */                                        \
    X(LN_ARENA_GRAMMAR, "grammar")         /* the vocabulary's trie, masks of tokens */            \
    X(LN_ARENA_HEADS, "heads")             /* of embeddings and classes, and a vector */           \
    X(LN_ARENA_DRAFT, "draft")             /* all of the draft model; of a head what is its own */ \
    X(LN_ARENA_CPU_LAYERS, "cpu layers")   /* all of layers or experts that a GPU leaves it */     \
    X(LN_ARENA_ENGINE, "engine")           /* the engine itself, queues, operations */             \
    X(LN_ARENA_TOKENIZER, "tokenizer")     /* of the open model, as are headers */                 \
    X(LN_ARENA_HEADERS, "headers")

typedef enum ln_arena_id {
#define LN_ARENA_ENUM(id, name) id,
    LN_ARENAS(LN_ARENA_ENUM)
#undef LN_ARENA_ENUM
        LN_ARENA_COUNT
} ln_arena_id;

/* Who drafts. */
typedef enum ln_drafter {
    LN_DRAFTER_NONE = 0,
    LN_DRAFTER_NGRAM,
    LN_DRAFTER_MODEL,
    LN_DRAFTER_MTP,
    LN_DRAFTER_EAGLE,
    LN_DRAFTER_DFLASH
} ln_drafter;

enum { LN_DRAFT_SEQS = 32, LN_DRAFT_LENGTH = 3 }; /* what cost.h looks at */

/* What a draft model takes, or a head; all but `kind` and `n_forced` is 0 without either. A head
 * has no model, and its cache is among the model's, as are activations of the model's own head. */
typedef struct ln_draft_plan {
    ln_drafter kind;
    bool by_cost;                        /* n_tokens says in which steps how much is drafted */
    uint8_t n_tokens[LN_DRAFT_SEQS + 1]; /* of each sequence in steps of so many */
    size_t n_forced;     /* of a sequence in a step at most: tokens that its grammar forces */
    linnet_model *model; /* whoever made the plan closes it, and the head of another folder */
    linnet_model *head; /* an EAGLE-3 head or a drafter of blocks, whose layers are plan->spec.head;
                           or an assistant */
    size_t groups[LN_KV_MAX_GROUPS]; /* whose block tables serve each of its KV groups */
    size_t weight_bytes, kv_bytes, activation_bytes, host_bytes;
    size_t prepared_bytes; /* of weight_bytes: in the backend's memory */
} ln_draft_plan;

/* What the first layers take where they run on the CPU and a GPU has the others (offload). */
typedef struct ln_cpu_layers_plan {
    size_t n_layers;     /* 0: there are none, and the rest is 0, too */
    ln_backend *backend; /* whoever made the plan destroys it */
    size_t weight_bytes, table_bytes, mapped_bytes;
    size_t kv_bytes, activation_bytes, scratch_bytes;
} ln_cpu_layers_plan;

/* What experts take that run on the CPU where a GPU has all else of their layers. */
typedef struct ln_cpu_experts_plan {
    size_t n_layers;     /* the first ones; 0: there are none, and the rest is 0, too */
    ln_backend *backend; /* whoever made the plan destroys it */
    size_t weight_bytes, table_bytes, mapped_bytes;
    size_t row_bytes, scratch_bytes;
    bool shares_backend;    /* the engine's own, which nobody destroys for it */
    size_t cache_bytes;     /* asked for, where they are read from files; SIZE_MAX: what is free */
    size_t slots;           /* of each layer; 0: all experts are in memory */
    ln_expert_sizes stored; /* with slots */
} ln_cpu_experts_plan;

/* Tokens of each sequence that a server's KV cache has room for, or there are fewer sequences. */
enum { LN_SERVED_SEQ_TOKENS = 1024 };

typedef struct ln_engine_plan {
    ln_spec spec; /* the model's, with the head that drafts; or the part of it that a rank has,
                     whose layers whoever made the plan frees (shard.h) */
    size_t ctx_tokens, n_threads;
    bool pins_threads;
    ln_load_progress progress;
    bool quantizes; /* plain matrices become `quantize` while they load */
    ln_dtype quantize;
    size_t n_seqs;       /* in a step, of a server; 0: as options->max_seqs says */
    bool shares_windows; /* kv_tokens was chosen: windows have LN_SERVED_SEQ_TOKENS at least */
    size_t step_tokens;  /* where options->max_batch_tokens is 0; 0: as few as suffice */
    ln_step_budget budget;
    ln_scheduler_options scheduler;
    size_t kv_tokens, swap_bytes; /* as asked for */
    bool shares_prefixes;
    size_t draft_tokens; /* of a sequence in a step */
    ln_draft_plan draft;
    ln_cpu_layers_plan cpu_layers;
    ln_cpu_experts_plan cpu_experts;
    size_t n_adapters, adapter_rank; /* that can be loaded, and their greatest rank; 0, 0: none */
    bool adapts_experts;
    size_t adapter_bytes; /* of one */
    ln_kv_shape kv_shape;
    ln_kv_dtype kv_dtype;
    ln_step_limits limits; /* for the backend's scratch */
    size_t bytes[LN_ARENA_COUNT];
    size_t engine_bytes; /* of struct linnet_engine, with which the engine's arena begins */
    size_t mapped_bytes;
    size_t token_text_bytes; /* of the vocabulary, for the grammar arena */
    bool on_device;          /* the backend's arenas are not in this machine's memory */
    size_t n_layers;         /* of the decoder, wherever they run */
    size_t n_ranks;          /* of all; 1: there is one */
    size_t rank_token_bytes; /* that a rank sends for a token, on average */
} ln_engine_plan;

/* Destroys the backends and closes the draft model. */
void ln_engine_plan_free(ln_engine_plan *plan, ln_backend *backend);

/* What the backend reserves, of the draft model only weights and KV cache. */
size_t ln_engine_plan_device_bytes(const ln_engine_plan *plan, const size_t *bytes);

/* How the planned engine loads its weights; borrows from the plan. */
static inline ln_weights_options ln_engine_plan_weights_options(const ln_engine_plan *plan) {
    const ln_slice *layers = &plan->spec.ranks.layers;
    return (ln_weights_options){.ctx_tokens = plan->ctx_tokens,
                                .first_layer = plan->cpu_layers.n_layers + layers->begin,
                                .end_layer = layers->begin + layers->n,
                                .quantize = plan->quantizes ? &plan->quantize : NULL,
                                .n_adapters = plan->n_adapters,
                                .adapter_rank = plan->adapter_rank,
                                .adapts_experts = plan->adapts_experts,
                                .progress = plan->progress};
}

/* Whether a head drafts: one of the checkpoint, or one of its own folder. */
static inline bool ln_engine_plan_has_head(const ln_engine_plan *plan) {
    return plan->spec.head != NULL || plan->draft.head != NULL;
}

/* The shape of the model's activations. */
static inline ln_activations_shape ln_engine_plan_activations(const ln_engine_plan *plan) {
    return (ln_activations_shape){plan->budget.max_tokens, plan->budget.max_logits,
                                  ln_adapter_low_rank(&plan->spec, plan->adapter_rank),
                                  plan->adapts_experts};
}

/* The longest text that an encoder reads, in tokens: one step, no longer than a context. */
size_t ln_engine_plan_max_encoder(const ln_engine_plan *plan);

/* Bytes that the open model holds: its tokenizer, its headers. */
size_t ln_engine_plan_tokenizer_bytes(const linnet_model *model);
size_t ln_engine_plan_header_bytes(const linnet_model *model);

/* How many tokens of a sequence are drafted in a step of so many, at most. */
size_t ln_engine_plan_draft_length(const ln_engine_plan *plan, size_t n_seqs);

/* The public form: the plan's numbers with these bytes[LN_ARENA_COUNT]. */
linnet_memory_plan ln_engine_plan_report(const ln_engine_plan *plan, const size_t *bytes);

#endif
