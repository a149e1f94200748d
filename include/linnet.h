/* linnet.h: the public C API of linnet, an engine that runs language models.
 *
 * The path of a generation:
 *
 *     linnet_model_open -> linnet_engine_create -> linnet_request_submit
 *         -> linnet_request_next (repeat) -> linnet_request_close
 *         -> linnet_engine_destroy -> linnet_model_close
 *
 * Words
 *   - A step is one forward pass, over tokens of one request or of many together. It reads prompts
 *     (prefill), in chunks where they are long, or makes one token more for each sequence (decode).
 *   - A sequence is one stream of tokens; a request has several with n, best_of or beams.
 *   - The KV cache holds the keys and values of tokens that were computed, in blocks of so many
 *     tokens. The prefix cache finds blocks there for prompts that begin alike.
 *   - The spec is a model's architecture as data; logits are a row of values, one for each token
 *     that may come next.
 *
 * Conventions
 *   - Fallible functions return a linnet_status: 0 is success, negative is failure. The last
 *     parameter is a linnet_error that the caller owns (or NULL); it is filled on failure with
 *     one sentence that names the file, key, tensor, field or offset.
 *   - Objects are opaque. `open`/`create` give ownership to the caller, `close`/`destroy` end it,
 *     `get` lends a pointer that lives as long as its object.
 *   - Option structs begin with `struct_bytes`; call the matching `_init` first, which sets it
 *     and every default. Fields may be added at the end in later versions.
 *   - A model is immutable and may be shared by threads. An engine owns one thread that runs the
 *     steps; submit, next, cancel and close may be called from any other thread.
 *   - The library never exits, aborts or prints.
 */
#ifndef LINNET_H
#define LINNET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LINNET_API __attribute__((visibility("default")))
#else
#define LINNET_API
#endif

/* ---- status and error ------------------------------------------------------------------- */

#define LINNET_STATUSES(X)                                                                         \
    X(LINNET_OK, 0, "success")                                                                     \
    X(LINNET_ERR_NOMEM, -1, "out of memory")                                                       \
    X(LINNET_ERR_IO, -2, "input or output failed")                                                 \
    X(LINNET_ERR_FORMAT, -3, "malformed data")                                                     \
    X(LINNET_ERR_UNSUPPORTED, -4, "not supported")                                                 \
    X(LINNET_ERR_ARGUMENT, -5, "invalid argument")                                                 \
    X(LINNET_ERR_LIMIT, -6, "a limit is exceeded")                                                 \
    X(LINNET_ERR_TIMEOUT, -7, "timed out")                                                         \
    X(LINNET_ERR_CANCELLED, -8, "cancelled")                                                       \
    X(LINNET_ERR_STATE, -9, "not possible in this state")                                          \
    X(LINNET_ERR_COMPUTE, -10, "computation failed")

typedef enum linnet_status {
#define LINNET_STATUS_ENUM(name, value, text) name = value,
    LINNET_STATUSES(LINNET_STATUS_ENUM)
#undef LINNET_STATUS_ENUM
} linnet_status;

typedef struct linnet_error {
    linnet_status status;
    char message[1024]; /* one sentence, NUL-terminated UTF-8, no newline */
} linnet_error;

/* A short text for a status ("out of memory"); static storage. */
LINNET_API const char *linnet_status_text(linnet_status status);

/* Optional, for programs whose checkpoints may be truncated while they are mapped: handles SIGBUS
 * so that a step over such a file ends its requests with an error instead of the process. Faults
 * outside mapped checkpoints go to the handler that was there before. The handler is the whole
 * process's: call this once, early, from one thread. Errors: STATE. */
LINNET_API linnet_status linnet_install_fault_handler(linnet_error *err);

/* The version as "MAJOR.MINOR.PATCH"; static storage. */
LINNET_API const char *linnet_version(void);

/* ---- model: checkpoint, spec, tokenizer ------------------------------------------------- */

typedef struct linnet_model linnet_model;

/* How the hidden states of a text's tokens, behind the model's last norm, become one vector. */
typedef enum linnet_pooling {
    LINNET_POOLING_DEFAULT = 0, /* as the checkpoint's files say, else as its family does */
    LINNET_POOLING_CLS,         /* the first token's */
    LINNET_POOLING_MEAN,        /* the mean of all */
    LINNET_POOLING_LAST         /* the last token's */
} linnet_pooling;

/* Opens a GGUF file or a Hugging Face folder: maps its files and reads headers, metadata and
 * tokenizer; no tensor data is read but a sample of a tied output. A checkpoint without a
 * tokenizer opens (token ids still work). Errors: IO, FORMAT, UNSUPPORTED, NOMEM. */
LINNET_API linnet_status linnet_model_open(const char *path, linnet_model **model,
                                           linnet_error *err);
LINNET_API void linnet_model_close(linnet_model *model); /* after all its engines; NULL is fine */

typedef struct linnet_model_info {
    size_t struct_bytes;
    const char *architecture; /* "llama"; lives as long as the model, as do all pointers here */
    const char *name;         /* general.name, or the last part of the path */
    int32_t n_vocab;          /* rows of the logits, in tokens */
    int32_t n_layers;
    int64_t ctx_tokens; /* the context that the checkpoint was made for */
    bool has_tokenizer;
    bool has_chat_template;
    int32_t bos_id;          /* -1: none */
    const int32_t *stop_ids; /* [n_stop_ids]: the union of what all metadata names */
    size_t n_stop_ids;
    bool has_encoder;    /* requests give the source text's ids as encoder_ids */
    bool embeds_only;    /* kind EMBED alone: tokens see those behind them, or there is no output */
    int32_t n_embedding; /* elements of a vector, as the checkpoint's own heads make it */
    int32_t n_labels;    /* of what LINNET_HEAD_CLASSES gives; 0: there is no such head */
    /* what kind EMBED does by default */
    linnet_pooling pooling;
    bool normalizes;
    int64_t embed_tokens; /* texts are cut to so many tokens by whom trained the vectors; 0: none */
} linnet_model_info;

/* Fills `info` as far as its struct_bytes says (set by the caller to sizeof *info). */
LINNET_API void linnet_model_get_info(const linnet_model *model, linnet_model_info *info);

/* Replaces the checkpoint's chat template by `source` (n_bytes of Jinja, which are copied). Before
 * engines, requests or other threads use the model. On failure the model stays as it was. Errors:
 * STATE (no tokenizer), FORMAT, UNSUPPORTED, LIMIT, NOMEM. */
LINNET_API linnet_status linnet_model_set_chat_template(linnet_model *model, const char *source,
                                                        size_t n_bytes, linnet_error *err);

/* Encodes `text` (n_bytes of any bytes) to token ids. add_special: let the tokenizer add BOS and
 * the like. parse_special: recognise the text of control tokens inside `text` (trusted text
 * only). *ids is allocated with malloc and owned by the caller (linnet_free). Errors: STATE (no
 * tokenizer), LIMIT (the text is too long), NOMEM. */
LINNET_API linnet_status linnet_model_encode(const linnet_model *model, const char *text,
                                             size_t n_bytes, bool add_special, bool parse_special,
                                             int32_t **ids, size_t *n_ids, linnet_error *err);

/* Decodes ids to bytes; *text is NUL-terminated, malloc'd, owned by the caller (linnet_free).
 * keep_special: write control tokens as their text instead of dropping them. Ids that the
 * vocabulary lacks have no text. Errors: STATE (no tokenizer), NOMEM. */
LINNET_API linnet_status linnet_model_decode(const linnet_model *model, const int32_t *ids,
                                             size_t n_ids, bool keep_special, char **text,
                                             size_t *n_bytes, linnet_error *err);

/* Encodes a text for kind EMBED, or a pair of texts for a head that scores pairs (`second` NULL:
 * one), with the tokenizer's special tokens, as its post-processor joins pairs. What is over
 * max_tokens is cut from the end of the longer text (0: nothing is). *n_first_ids: ids of the first
 * text, for linnet_request_options; 0 without a second one. *ids as in linnet_model_encode.
 * Language models that rerank get a pair as a chat with roles query and document, whose document is
 * cut. Errors: as of linnet_model_encode and, where a chat is rendered, of
 * linnet_model_encode_chat. */
LINNET_API linnet_status linnet_model_encode_pair(const linnet_model *model, const char *first,
                                                  size_t first_bytes, const char *second,
                                                  size_t second_bytes, size_t max_tokens,
                                                  int32_t **ids, size_t *n_ids, size_t *n_first_ids,
                                                  linnet_error *err);

/* What the model was trained to have in front of texts for kind EMBED, by the name that the
 * checkpoint has for it, such as "query": the caller puts it before a text. NULL: the prompt that
 * the checkpoint wants where no name is given, "" if it wants none; "": none. It lives as long as
 * the model. Error: ARGUMENT, there is none of that name. */
LINNET_API linnet_status linnet_model_get_prompt(const linnet_model *model, const char *name,
                                                 const char **text, linnet_error *err);

/* Renders the chat template over `messages_json` (a JSON array of objects with
 * role and content), up to where the assistant answers, and encodes the result, so that
 * special-token text inside contents stays text. Nothing is added to what the template writes:
 * BOS is there when the template writes it. *ids as in linnet_model_encode. Errors: STATE (no
 * tokenizer, no template), UNSUPPORTED or FORMAT (the template does not compile), ARGUMENT
 * (malformed messages, or the template refuses them), LIMIT, NOMEM. */
LINNET_API linnet_status linnet_model_encode_chat(const linnet_model *model,
                                                  const char *messages_json, int32_t **ids,
                                                  size_t *n_ids, linnet_error *err);

typedef struct linnet_chat_options {
    size_t struct_bytes;
    const char *messages_json;  /* as in linnet_model_encode_chat */
    const char *tools_json;     /* a JSON array of objects for the template's `tools`; NULL: none */
    const char *variables_json; /* a JSON object of further variables of the template, which do
                                   not replace the usual ones; NULL: none */
    bool omits_answer;          /* the template does not begin the assistant's answer */
    const char *chat_template;  /* Jinja in place of the model's template; NULL: the model's */
} linnet_chat_options;

LINNET_API void linnet_chat_options_init(linnet_chat_options *options);

/* linnet_model_encode_chat with tools and variables. *text, when `text` is not NULL, receives what
 * the template rendered, NUL-terminated, malloc'd and owned by the caller (linnet_free). Errors: as
 * of linnet_model_encode_chat; ARGUMENT for malformed tools or variables, too. */
LINNET_API linnet_status linnet_model_render_chat(const linnet_model *model,
                                                  const linnet_chat_options *options, int32_t **ids,
                                                  size_t *n_ids, char **text, linnet_error *err);

LINNET_API void linnet_free(void *memory);

/* ---- engine ----------------------------------------------------------------------------- */

typedef enum linnet_precision {
    LINNET_PRECISION_FAST = 0, /* types that each kernel likes */
    LINNET_PRECISION_EXACT     /* float32 activations, products and KV cache */
} linnet_precision;

typedef enum linnet_kv_type {
    LINNET_KV_AUTO = 0, /* f16 when fast, f32 when exact */
    LINNET_KV_F32,
    LINNET_KV_F16,
    LINNET_KV_BF16,
    LINNET_KV_Q8_0, /* int8, one scale per token and head */
    LINNET_KV_FP8   /* E4M3, likewise */
} linnet_kv_type;

/* What a step does first. */
typedef enum linnet_policy {
    LINNET_POLICY_CHUNKED = 0,   /* decodes; prompts take what is left, in chunks */
    LINNET_POLICY_PREFILL_FIRST, /* prompts; meanwhile nothing is generated */
} linnet_policy;

/* Which request goes first. */
typedef enum linnet_order {
    LINNET_ORDER_FCFS = 0, /* who came first */
    /* the lowest `priority`, in the place of who runs with a higher one; every 64th turn, who has
     * waited longest */
    LINNET_ORDER_PRIORITY
} linnet_order;

/* What happens to the KV blocks of a request that is preempted because others need the room. */
typedef enum linnet_preemption {
    LINNET_PREEMPTION_AUTO = 0, /* what costs less time, by measured speeds */
    LINNET_PREEMPTION_SWAP,     /* they go to the swap space, while that has room */
    LINNET_PREEMPTION_RECOMPUTE /* they are computed again */
} linnet_preemption;

/* How the GPUs of several ranks exchange activations; sums have the same bits by either. */
typedef enum linnet_collectives {
    LINNET_COLLECTIVES_AUTO = 0, /* CUDA IPC where all are of one host and reach each other's
                                    memory, else NCCL */
    LINNET_COLLECTIVES_NCCL      /* libnccl.so.2, which must be installed on all hosts */
} linnet_collectives;

typedef struct linnet_engine_options {
    size_t struct_bytes;
    linnet_precision precision;
    linnet_kv_type kv_type;
    const char *backend;     /* "cpu", "cuda", "auto": a GPU if one is usable */
    const char *cpu;         /* instruction set: "auto", or what `linnet help engine` names */
    size_t ctx_tokens;       /* longest sequence; 0: what the checkpoint and free memory allow */
    size_t max_seqs;         /* sequences in one step; 0: 1 */
    size_t max_batch_tokens; /* tokens in one step, at least max_seqs; 0: 512 (of a model of vectors
                                on a GPU up to 32,768, as far as memory allows), or max_seqs times
                                ctx_tokens when that is less */
    size_t n_threads;        /* 0: one per processor that the process may run on; steps that are
                                 too small to be shared out then run on one of them */
    /* NULL, or what matrices of float types become while they load: a GGUF type such as "q4_0",
     * "int8" or "fp8" (one scale per row), or "int4" (scale and zero for 32 columns) */
    const char *quantize_on_load;
    /* Tokens that the KV cache holds, rounded up to whole blocks; 0: max_seqs times ctx_tokens,
     * which never preempts a request. */
    size_t kv_tokens;
    bool prefix_cache; /* keep the blocks of ended requests for those that begin alike (true) */
    size_t swap_bytes; /* memory for KV blocks of preempted requests, at most */
    linnet_preemption preemption;
    linnet_policy policy;
    linnet_order order;
    /* At most so many prompts of more than long_prefill_tokens tokens are read at once, and shorter
     * ones overtake them; 0: any number. */
    size_t max_long_prefills, long_prefill_tokens;
    bool pin_threads; /* each computing thread keeps to one of the processors that the process may
                         run on, in their order */
    /* NULL, or told by linnet_engine_create, on the thread that called it, how much of the weights
     * is ready, of which a part may still be under way; the last call says `total_bytes` */
    void (*on_load)(void *user, size_t ready_bytes, size_t total_bytes);
    void *load_user; /* handed to on_load */
    /* Speculative decoding: up to so many tokens of a sequence are drafted, and verified in one
     * step; the output is the same, bit for bit. 0: as many as `draft` takes by itself. */
    size_t draft_tokens;
    /* NULL, or the path of the draft model, which the engine opens: a smaller checkpoint with the
     * same vocabulary, or an EAGLE-3 head, an assistant (Gemma 4) or a DFlash drafter that was
     * trained for the model. */
    const char *draft_model;
    /* How many layers, the last ones, run on `backend` with the output; those before them run on
     * the CPU. -1: as many as fit the memory of a GPU; 0: the CPU runs all, as it does where
     * backend "auto" finds no GPU. A model with an encoder runs on one of them. */
    int32_t gpu_layers;
    /* Where half of the free memory holds the model: matrices become what the CPU's kernels read
     * not while loading, but in the first steps that use them. The first token comes sooner, the
     * next four steps take longer, and the bits are the same. The files must stay as they are till
     * then. */
    bool lazy_weights;
    /* The logits of a sequence have the same bits whatever runs beside it and however its prompt is
     * divided (true). false: where a GPU is faster without, they may differ. Matrices of bf16 and
     * f16 lie in its memory twice then, and cuBLASLt multiplies steps of 256 rows and more, with x
     * rounded to bf16 in all of them; it must be installed, and the first step takes longer. The
     * CPU and `exact` are not affected. */
    bool batch_invariant;
    /* Who drafts: "none"; "mtp", the head for multi-token prediction that some checkpoints have,
     * or the assistant that draft_model names; "ngram", prompt lookup (what followed when the last
     * tokens came before); "model", the draft_model; "eagle", an EAGLE-3 head, and "dflash", a
     * drafter of blocks, whose folders draft_model names. NULL or "auto": the draft_model where
     * there is one; else the head, if there is one and the CPU runs all layers, with draft_tokens 0
     * in steps of as few sequences as it pays for (linnet_memory_plan says how few); else prompt
     * lookup, if draft_tokens is not 0. Whoever drafts, and by default, tokens that a grammar
     * leaves no choice about are drafted, too, up to 32 in a step, with recurrent layers up to
     * draft_tokens; "none": not even they. */
    const char *draft;
    /* Adapters (LoRA, IA3): how many can be loaded at a time (0: none), and the greatest rank that
     * one may have, at most 256 (0: 16). Memory for all of them is reserved; all layers are on one
     * side, CPU or GPU. */
    size_t max_adapters, max_adapter_rank;
    /* Tensor parallelism: this process has a part of the model, as one of so many ranks that MPI
     * has started, all with the same model and options, on CPUs or on GPUs, with all layers
     * there. Rank 0 takes requests; the others call linnet_engine_follow. 0 or 1: there is one.
     * docs/scaling.md says what is divided. */
    size_t n_ranks;
    /* Whose memory linnet_plan_memory plans, below the number of ranks; an engine asks MPI who it
     * is. */
    size_t rank;
    /* Pipeline parallelism: the layers are divided among so many stages, of n_ranks ranks each. 0
     * or 1: there is one. */
    size_t n_stages;
    /* Expert parallelism: a stage has so many times n_ranks ranks, each with whole experts; 0 or 1:
     * experts are divided by columns, as feed-forwards are. */
    size_t n_expert_ranks;
    /* What carries activations between ranks on GPUs; all ranks have the same. */
    linnet_collectives collectives;
    /* Models larger than a GPU whose feed-forwards are mixtures of experts: the experts of so many
     * layers, the first ones, stay in the memory of the host and are computed by the CPU; all else
     * of all layers runs on the GPU. -1: of as few layers as make the rest fit the GPU's memory; 0:
     * of none, as by default. Experts' bits are then the CPU's. */
    int32_t cpu_experts;
    /* Mixtures of experts larger than the memory: the experts that the CPU computes (all of them
     * where it runs all layers, else those of cpu_experts) are read from the model's files when
     * tokens choose them, and so many bytes of memory keep those that were used last; SIZE_MAX:
     * what is free. At least one expert of each layer must fit. 0: all are in memory. */
    size_t experts_from_disk;
    /* Adapters may change experts, too. Memory for as many matrices as the model has experts is
     * reserved for each adapter. Of one rank, with all experts on one side, in memory. */
    bool adapt_experts;
    /* Sizes that are 0 are those of a server. max_seqs: 256 on a GPU, four for each thread of a CPU
     * but 16 to 64; fewer, and not below 16, where memory has no room for 1,024 tokens of each.
     * max_batch_tokens: up to 4,096 on a GPU. kv_tokens: what fits seven eighths of a GPU's memory,
     * or half of a CPU's, that weights leave, up to max_seqs contexts and at least one that was
     * asked for. ctx_tokens: the model's own, or all of kv_tokens. With ranks, layers on both
     * sides, experts on the CPU or on disk, kv_tokens, a model of vectors, or where not even one
     * context fits, max_seqs is 16, and the others are as without. */
    bool serves;
} linnet_engine_options;

LINNET_API void linnet_engine_options_init(linnet_engine_options *options);

#define LINNET_MAX_ARENAS 16

/* Memory of an engine, to the byte. `total_bytes` is the sum of the arenas; `mapped_bytes` of
 * the checkpoint's files are used where they lie; `libraries_bytes` estimates thread stacks and
 * what libraries take, outside the total. So is the memory of a request, which submit takes for
 * it: 4 bytes for each token of prompt and output, and a few KiB. `struct_bytes` is set by the
 * caller; as much is filled as it says. */
typedef struct linnet_memory_plan {
    size_t struct_bytes;
    size_t ctx_tokens, max_seqs, max_batch_tokens, n_threads; /* as chosen */
    size_t n_arenas;
    struct {
        const char *name; /* static storage */
        size_t bytes;
    } arenas[LINNET_MAX_ARENAS];
    size_t total_bytes;
    size_t mapped_bytes;
    size_t libraries_bytes;
    size_t device_bytes; /* of the total: in the GPU's memory */
    size_t gpu_layers;   /* that run there */
    /* who drafts, of linnet_engine_options.draft; tokens of a sequence in a step, at most; and in
     * steps of how many sequences, at most */
    const char *draft;
    size_t draft_tokens, draft_seqs;
    size_t n_ranks;          /* that share the model; 1: there is one */
    size_t rank_token_bytes; /* that each rank sends for a token of a step, on average */
    size_t cpu_experts;      /* layers whose experts the CPU computes beside a GPU */
    /* with experts_from_disk: experts that are read when they are chosen, how many of them fit in
     * memory, and the bytes that a token reads when it finds none of its own there */
    size_t disk_experts, cached_experts, disk_token_bytes;
    size_t kv_tokens; /* that the KV cache holds */
} linnet_memory_plan;

/* Computes every arena from headers alone; `options` NULL: the defaults. A context that was not
 * given is what the checkpoint was made for, or less: all but the weights takes at most half of
 * the memory that is free beside them. Errors: ARGUMENT, UNSUPPORTED, FORMAT (a tensor is missing),
 * LIMIT (sizes overflow), NOMEM. */
LINNET_API linnet_status linnet_plan_memory(const linnet_model *model,
                                            const linnet_engine_options *options,
                                            linnet_memory_plan *plan, linnet_error *err);

typedef struct linnet_engine linnet_engine;

/* Reserves exactly the planned arenas, prepares the weights and starts the engine thread. The
 * model must outlive the engine. Errors: NOMEM, ARGUMENT, IO, UNSUPPORTED. */
LINNET_API linnet_status linnet_engine_create(const linnet_model *model,
                                              const linnet_engine_options *options,
                                              linnet_engine **engine, linnet_error *err);
/* Cancels what is left, stops the thread, frees everything; NULL is fine. No other call with this
 * engine or its requests may run meanwhile. A request that is still open keeps its events (the last
 * is LINNET_FINISH_CANCELLED unless it had ended), and is closed as ever, before its model. */
LINNET_API void linnet_engine_destroy(linnet_engine *engine);

/* Of an engine that is not rank 0 of its ranks: serves rank 0 until that destroys its engine, or
 * until a rank is lost. *follows is false, and nothing happens, with any other engine. Errors:
 * COMPUTE. */
LINNET_API linnet_status linnet_engine_follow(linnet_engine *engine, bool *follows,
                                              linnet_error *err);

/* What was reserved, in the form of the plan. */
LINNET_API void linnet_engine_get_memory(const linnet_engine *engine, linnet_memory_plan *plan);

/* What an engine does now, and what it did since it was created. Counts of one request's tokens
 * appear after the step that they belong to. */
typedef struct linnet_engine_stats {
    size_t struct_bytes;               /* set by the caller; as much is filled as it says */
    size_t n_waiting, n_running;       /* requests */
    size_t n_swapped;                  /* requests whose KV blocks lie in the swap space */
    size_t n_kv_blocks, n_kv_used;     /* in the pools, and held by requests */
    size_t n_kv_cached;                /* held by nobody, kept for the prefix cache */
    size_t n_swap_blocks, n_swap_used; /* in the swap space */
    uint64_t n_steps;                  /* forward passes */
    uint64_t n_computed_tokens;        /* that went through them, recomputed ones too */
    uint64_t n_prompt_tokens;          /* of requests that were admitted */
    uint64_t n_output_tokens;          /* that were sampled */
    uint64_t n_prefix_query_tokens;    /* looked up in the prefix cache, */
    uint64_t n_prefix_hit_tokens;      /* and found */
    uint64_t n_swap_preemptions;       /* of requests, by way of the swap space */
    uint64_t n_recompute_preemptions;  /* of requests, by computing their blocks again */
    uint64_t n_swapped_blocks;         /* copied out or in */
    uint64_t n_requests;               /* that have ended, for whatever reason */
    uint64_t n_draft_tokens;           /* drafted by speculation and verified, */
    uint64_t n_accepted_tokens;        /* and accepted */
    uint64_t is_lost;                  /* 1: the GPU failed for good, or a rank is lost: every
                                          request ends with an error */
    uint64_t n_failed_steps; /* in a row, up to now; each ended its requests with an error */
    /* with experts_from_disk, of the experts that steps needed in a layer: those that were in
     * memory, those that were read, and their bytes */
    uint64_t n_expert_hits, n_expert_reads, n_expert_bytes;
} linnet_engine_stats;

/* Fills `stats` as far as its struct_bytes says. Any thread; never waits for a step. */
LINNET_API void linnet_engine_get_stats(linnet_engine *engine, linnet_engine_stats *stats);

/* ---- requests --------------------------------------------------------------------------- */

typedef struct linnet_request linnet_request;
typedef struct linnet_completion_queue linnet_completion_queue; /* see below */

typedef enum linnet_request_kind {
    LINNET_REQUEST_GENERATE = 0,
    LINNET_REQUEST_SCORE, /* no tokens: the logits after each token of the prompt go to on_logits */
    LINNET_REQUEST_EMBED  /* no tokens: one vector for the prompt, in the final event */
} linnet_request_kind;

/* What a pooled vector goes through, with kind EMBED. */
typedef enum linnet_head {
    LINNET_HEAD_DEFAULT = 0, /* the dense layers that sentence-transformers' files name, if any */
    LINNET_HEAD_NONE,        /* nothing */
    LINNET_HEAD_CLASSES      /* the head of a classifier or reranker: a number for each label, as it
                                is before softmax or sigmoid */
} linnet_head;

/* Whether a vector is divided by its length. */
typedef enum linnet_normalization {
    LINNET_NORMALIZATION_DEFAULT = 0, /* as the checkpoint says; never behind HEAD_CLASSES */
    LINNET_NORMALIZATION_ON,
    LINNET_NORMALIZATION_OFF
} linnet_normalization;

/* Applied in this order: the request's rules (logit_bias, bad_words, min_tokens); repeat, frequency
 * and presence penalties; DRY; temperature; top-n-sigma; top-k; typical; top-p; min-p; XTC; draw.
 * Mirostat takes the place of everything from top-n-sigma to the draw. The same seed, prompt and
 * options give the same tokens, whatever else runs. */
typedef struct linnet_sampling {
    float temperature;     /* 0: argmax, ties to the lowest id */
    int32_t top_k;         /* 0: off */
    float top_p;           /* 1: off */
    float min_p;           /* 0: off */
    float repeat_penalty;  /* 1: off; divides positive, multiplies negative logits of tokens seen */
    int32_t repeat_last_n; /* tokens of prompt and output that the penalties see; 0: none */
    float frequency_penalty; /* 0: off; subtracted for each time that a token was seen */
    float presence_penalty;  /* 0: off; subtracted from the tokens seen */
    uint64_t seed;
    float typical_p;   /* 0 or 1: off; share of the tokens that surprise as expected */
    float top_n_sigma; /* 0: off; logits within so many standard deviations of the best */
    /* XTC: with this probability (0: off) only the least likely of the tokens that have at least
     * the threshold's probability stays */
    float xtc_probability, xtc_threshold;
    /* DRY: a token that would prolong a repetition of n tokens, at least the allowed length, loses
     * multiplier * base^(n - allowed length) */
    float dry_multiplier, dry_base; /* multiplier 0: off */
    int32_t dry_allowed_length;
    int32_t dry_last_n; /* tokens that DRY sees; 0: none */
    /* mirostat 2: the surprise that it keeps to, in bits (0: off), and how fast */
    float mirostat_tau, mirostat_eta;
} linnet_sampling;

typedef struct linnet_logit_bias {
    int32_t id;
    float bias; /* from -100 to 100, or -INFINITY: never */
} linnet_logit_bias;

typedef struct linnet_token_list {
    const int32_t *ids; /* [n_ids] */
    size_t n_ids;
} linnet_token_list;

/* A token and the natural logarithm of the probability that the model gave it, before rules,
 * penalties and temperature. */
typedef struct linnet_logprob {
    int32_t id;
    float logprob;
} linnet_logprob;

/* What the text of an answer must look like. Tokens that would leave it are never sampled, and stop
 * ids only where it is complete; a complete text that nothing can follow ends with
 * LINNET_FINISH_STOP. With LINNET_FINISH_LENGTH the text is a beginning only.
 * docs/structured-output.md says what of each language is known. */
typedef enum linnet_grammar_kind {
    LINNET_GRAMMAR_NONE = 0,
    LINNET_GRAMMAR_JSON,        /* any JSON object; no text */
    LINNET_GRAMMAR_JSON_SCHEMA, /* text: a JSON schema */
    LINNET_GRAMMAR_REGEX,       /* text: a regular expression for all of the answer */
    LINNET_GRAMMAR_CHOICE,      /* text: a JSON array of strings, one of which is the answer */
    LINNET_GRAMMAR_GBNF,        /* text: rules, as llama.cpp writes them */
    /* Calls of tools. text: a JSON object with `tools` as OpenAI's API has them, `syntax`: how the
     * model writes calls, "hermes", "llama3" or another name that linnet's source lists
     * (call_syntax.c), `name`: of the one tool to call, and `parallel`: true for more than one
     * call. The markers of the calls may be special tokens, which keep_special shows. */
    LINNET_GRAMMAR_TOOLS,
    LINNET_GRAMMAR_LARK, /* text: rules in Lark's syntax, as llguidance takes them */
    /* text: a JSON object that says of which tagged parts a text consists, as xgrammar has it */
    LINNET_GRAMMAR_STRUCTURAL_TAG
} linnet_grammar_kind;

/* How grammars write JSON: any of these, or'ed; 0: white space, members in any order, and
 * properties beside those that are named, as schemas have it. */
typedef enum linnet_json_form {
    LINNET_JSON_COMPACT = 1, /* no white space between the parts of a value */
    LINNET_JSON_ORDERED = 2, /* members in the order of the schema, others after them */
    LINNET_JSON_CLOSED = 4   /* where a schema has properties without additionalProperties, there
                                are no others */
} linnet_json_form;

/* What comes before the text that a grammar is about: what a model thinks aloud, any text, between
 * <think> and </think>, which may be special tokens. */
typedef enum linnet_reasoning {
    LINNET_REASONING_NONE = 0,
    LINNET_REASONING_MAY_COME, /* the answer may begin with <think> */
    LINNET_REASONING_OPEN      /* it begins after a <think>: the prompt ended with that */
} linnet_reasoning;

#define LINNET_MAX_TOP_LOGPROBS 64

/* When a beam search is over that has as many ended hypotheses as beams. */
typedef enum linnet_early_stopping {
    LINNET_EARLY_STOPPING_OFF = 0, /* no beam has, at its present length, a better score than the
                                      worst of them */
    LINNET_EARLY_STOPPING_ON,      /* at once */
    LINNET_EARLY_STOPPING_NEVER    /* no beam can come to a better one, however long it gets */
} linnet_early_stopping;

typedef enum linnet_finish {
    LINNET_FINISH_NONE = 0,
    LINNET_FINISH_STOP,   /* a stop id, a stop string, or all that SCORE asked for */
    LINNET_FINISH_LENGTH, /* max_tokens or the context is used up */
    LINNET_FINISH_CANCELLED,
    LINNET_FINISH_ERROR,
    LINNET_FINISH_TIMEOUT /* timeout_ms are over */
} linnet_finish;

/* One thing that happened to a request. Each of its n outputs gives any number of token events and
 * then exactly one final event (finish != NONE, token -1); after the nth of these next returns
 * LINNET_ERR_STATE. Outputs mix, each in its own order. A stop id is no event. Text may come later
 * than its token: a code point waits until it is whole, and what may begin a stop string until that
 * is decided; the final event has the rest. */
typedef struct linnet_event {
    int32_t token;    /* -1: the final event */
    const char *text; /* [text_bytes] whole UTF-8 code points; valid until the next call; never
                         NULL, and empty without a tokenizer */
    size_t text_bytes;
    linnet_finish finish;
    const char *error; /* with LINNET_FINISH_ERROR: one sentence, the request's; else NULL */
    size_t n_prompt_tokens, n_output_tokens; /* so far */
    /* with `logprobs`, of the event's token; 0 and NULL without, and in the final event. Arrays
     * live as long as the request. */
    float logprob;
    const linnet_logprob *top_logprobs; /* [top_logprobs], best first, ties to the lowest id */
    /* with `prompt_logprobs`, once the prompt has been read; else NULL. Nothing comes before the
     * first token: its logprob is 0 and its top ids are -1. */
    const float *prompt_logprobs;              /* [n_prompt_tokens] */
    const linnet_logprob *prompt_top_logprobs; /* [n_prompt_tokens][top_logprobs] */
    uint32_t index;  /* which of the n outputs; text, n_output_tokens and finish are its own */
    uint32_t n_open; /* outputs whose final event is still to come: 0 in the last event */
    size_t n_cached_tokens; /* of the prompt, that the prefix cache had; 0 before the first token */
    /* in an output's final event with best_of > n or beams: the sum of its tokens' logprobs,
     * divided as length_penalty says for beams; else 0 */
    float score;
    /* When a step gave the request its first token, since submit, however late the receiver: in
     * events of tokens and the last of all. In the latter when it gave the last one, too. Else, or
     * without tokens, 0. */
    uint64_t first_token_ns, last_token_ns;
    /* in an output's final event: which of the request's stop strings ended its text; else -1 */
    int32_t stop_index;
    /* in the final event of kind EMBED, with LINNET_FINISH_STOP; else NULL. Lives as long as the
     * request. */
    const float *embedding; /* [n_embedding] */
    size_t n_embedding;
    /* in an output's final event: tokens of prediction_ids that were drafted, and came; and that
     * did not */
    size_t n_accepted_prediction, n_rejected_prediction;
} linnet_event;

typedef struct linnet_request_options {
    size_t struct_bytes;
    linnet_request_kind kind;
    const int32_t *prompt_ids; /* [n_prompt_ids], copied by submit */
    size_t n_prompt_ids;
    size_t max_tokens; /* 0: until the context is full */
    bool ignore_eos;   /* stop ids do not stop */
    bool keep_special; /* control tokens appear in the text */
    linnet_sampling sampling;
    const char *const *stop; /* [n_stop] strings in UTF-8, copied by submit; cut from the text */
    size_t n_stop;
    /* LINNET_REQUEST_SCORE: called on the engine thread with each row in order of position;
     * row[n_vocab] is valid during the call. Not called again once close has returned; it must
     * not close the request itself. */
    void (*on_logits)(void *user, size_t position, const float *row, size_t n_vocab);
    void *user; /* any kind: linnet_request_get_user gives it back */
    /* [n_encoder_ids], copied by submit: what an encoder reads, for models that have one. It is
     * encoded in one step, so it is at most max_batch_tokens long. With an encoder, prompt_ids are
     * the decoder's; a GENERATE request without any begins with the model's start token. */
    const int32_t *encoder_ids;
    size_t n_encoder_ids;
    /* Kind GENERATE only; arrays are copied by submit. */
    size_t min_tokens;       /* of output before which no stop id comes; stop strings still stop */
    const int32_t *stop_ids; /* [n_stop_ids] beside the model's; ignore_eos leaves these */
    size_t n_stop_ids;
    const linnet_logit_bias *logit_bias; /* [n_logit_bias], added */
    size_t n_logit_bias;
    const linnet_token_list *bad_words; /* [n_bad_words] sequences of ids that never come whole */
    size_t n_bad_words;
    const int32_t *dry_breakers; /* [n_dry_breakers] no repetition reaches over these ids */
    size_t n_dry_breakers;
    bool logprobs;        /* of the tokens of output, in their events */
    bool prompt_logprobs; /* of the tokens of the prompt */
    int32_t top_logprobs; /* how many of the likeliest tokens besides, with either; at most
                             LINNET_MAX_TOP_LOGPROBS and the vocabulary */
    /* Any kind: ends the request between steps with LINNET_FINISH_TIMEOUT, so long after submit; 0:
     * never. */
    uint32_t timeout_ms;
    /* Kind GENERATE only: n outputs for one prompt, which they share. Output i draws the numbers of
     * (seed, i). With best_of > n so many are made, and when all have ended the n come whose tokens
     * have the greatest sum of logprobs, best first. */
    uint32_t n;       /* 0: 1 */
    uint32_t best_of; /* 0: n */
    /* Kind GENERATE only: beam search of this width (0: none), which gives its n best hypotheses
     * when it is over, best first. A score is the sum of logprobs, as logit_bias and penalties
     * change them, / (tokens of output)^length_penalty. Where fewer texts are possible than n, the
     * last outputs are empty, of score minus infinity. */
    uint32_t beam_width;
    float length_penalty;
    int32_t priority; /* any kind, for engines that look at it: lower numbers go first */
    /* Any kind: the prefix cache is shared among requests with the same salt only; NULL: none.
     * Copied by submit, at most 256 bytes. */
    const char *cache_salt;
    /* Kind GENERATE only; compiled by submit, which refuses what cannot be: ARGUMENT, UNSUPPORTED
     * naming the feature, LIMIT. Needs a tokenizer. Applied before everything that linnet_sampling
     * names. */
    linnet_grammar_kind grammar_kind;
    const char *grammar; /* [grammar_bytes] in UTF-8, used during submit */
    size_t grammar_bytes;
    linnet_early_stopping early_stopping; /* with beam_width */
    /* Any kind: where the request says that it has events; it then has no descriptor of its own.
     * NULL: none. */
    linnet_completion_queue *completion_queue;
    linnet_reasoning reasoning; /* with a grammar, which then is about what follows it */
    /* The text of an output goes on where the prompt's ends: where a tokenizer drops the space of a
     * text's first word, the output's keeps it. With a grammar it begins anew nevertheless. (false)
     */
    bool continues_prompt;
    unsigned json_form; /* linnet_json_form, of a grammar that has JSON in it (0) */
    /* Kind EMBED only. A text of a model whose tokens see those behind them is one step, so it has
     * at most max_batch_tokens tokens. */
    linnet_pooling pooling;
    linnet_head head;
    linnet_normalization normalization;
    size_t dimensions;  /* the first so many elements of the vector, before its length; 0: all */
    size_t n_first_ids; /* of the prompt, the first of two texts; 0: there is one */
    /* Any kind: the name of a loaded adapter, copied by submit; NULL: the model as it is. The
     * prefix cache is shared among requests of the same adapter only. */
    const char *adapter;
    /* Kind GENERATE only: [n_prediction_ids], copied by submit, no more than the context: what the
     * output will be, for the most part. It is drafted from where the last tokens stand in it, up
     * to 32 tokens in a step, unless the engine's `draft` is "none"; the output is the same, bit
     * for bit. */
    const int32_t *prediction_ids;
    size_t n_prediction_ids;
    /* Kind GENERATE only: output i draws the numbers of (seed, first_output + i), so that several
     * requests give the outputs that one with a larger n would. */
    uint32_t first_output;
} linnet_request_options;

/* Kind GENERATE; temperature 0.8, top_k 40, top_p 0.95, repeat_last_n 64, length_penalty 1, the
 * rest off, seed 0. What is off has these values for when it is turned on: xtc_threshold 0.1,
 * dry_base 1.75, dry_allowed_length 2, dry_last_n 1024, mirostat_eta 0.1. */
LINNET_API void linnet_request_options_init(linnet_request_options *options);

/* Queues a request; requests start in the order of submission. Refuses at once, naming what would
 * fit, a prompt that can never fit (to generate, there must be room for one token more).
 * Errors: ARGUMENT, LIMIT, NOMEM. */
LINNET_API linnet_status linnet_request_submit(linnet_engine *engine,
                                               const linnet_request_options *options,
                                               linnet_request **request, linnet_error *err);

/* Waits at most timeout_ms (negative: for ever, 0: not at all) for the next event. One thread at a
 * time receives. Errors: TIMEOUT (no event yet), STATE (the final event was delivered before),
 * ARGUMENT (with a completion queue timeout_ms must be 0). */
LINNET_API linnet_status linnet_request_next(linnet_request *request, int timeout_ms,
                                             linnet_event *event, linnet_error *err);

/* A file descriptor (eventfd) that polls readable while events wait; the request owns it. -1 with
 * a completion queue. */
LINNET_API int linnet_request_get_fd(const linnet_request *request);
LINNET_API void *linnet_request_get_user(const linnet_request *request); /* of its options */

/* Ends a request within one step; its final event still comes. Idempotent, never blocks. */
LINNET_API void linnet_request_cancel(linnet_request *request);
/* Cancels if still running and gives the request up; NULL is fine. Waits for on_logits when that
 * is running, for nothing else. */
LINNET_API void linnet_request_close(linnet_request *request);

/* ---- adapters --------------------------------------------------------------------------- */

/* An adapter changes linears of the model for the requests that name it: a LoRA (Hu et al., 2021)
 * adds scale * B A x to W x, an IA3 (Liu et al., 2022) multiplies columns. Requests with different
 * adapters, or none, share steps, and each has the bits that it has alone. */

#define LINNET_MAX_ADAPTER_NAME 128 /* bytes, with the NUL */

typedef struct linnet_adapter {
    size_t struct_bytes; /* set by the caller; as much is filled as it says */
    char name[LINNET_MAX_ADAPTER_NAME];
    float scale;       /* as given, beside the adapter's own */
    size_t rank;       /* the greatest of its matrices; 0: it has none */
    size_t n_linears;  /* that it changes */
    size_t n_requests; /* that run with it or wait */
} linnet_adapter;

/* Reads an adapter into one of the engine's places and gives it a name, which must be free. `path`:
 * a folder as PEFT writes it (adapter_config.json, adapter_model.safetensors), or a GGUF file of
 * llama.cpp's kind. Its low-rank part is multiplied by `scale`. The files are read by the calling
 * thread, while steps run, and not used afterwards. Any thread. Errors: STATE (the name is taken,
 * no place is free), ARGUMENT, IO, FORMAT, UNSUPPORTED (what cannot be honoured, by name), LIMIT,
 * NOMEM. */
LINNET_API linnet_status linnet_engine_load_adapter(linnet_engine *engine, const char *name,
                                                    const char *path, float scale,
                                                    linnet_error *err);
/* Takes the name away at once; requests that have the adapter end with it, and its place is free
 * when the last of them has. Any thread. Errors: ARGUMENT (there is no such adapter). */
LINNET_API linnet_status linnet_engine_unload_adapter(linnet_engine *engine, const char *name,
                                                      linnet_error *err);
/* Number `index` of the loaded adapters, in the order of their places; false past the last. */
LINNET_API bool linnet_engine_get_adapter(linnet_engine *engine, size_t index,
                                          linnet_adapter *adapter);
/* The rank of an adapter's matrices, for max_adapter_rank. Errors: as of load_adapter. */
LINNET_API linnet_status linnet_adapter_read_rank(const char *path, size_t *rank,
                                                  linnet_error *err);

/* ---- completion queues ------------------------------------------------------------------ */

/* A completion queue: where many requests say that they have events, for a receiver of all of them:
 * however many got a token in a step, the receiver is woken once. Errors: NOMEM, LIMIT (no
 * descriptor is left). */
LINNET_API linnet_status linnet_completion_queue_create(linnet_completion_queue **queue,
                                                        linnet_error *err);
/* Gives it up; NULL is fine. Its requests may be closed before or after. */
LINNET_API void linnet_completion_queue_destroy(linnet_completion_queue *queue);
/* A file descriptor that polls readable from when a request has events until next gave NULL; the
 * queue owns it. */
LINNET_API int linnet_completion_queue_get_fd(const linnet_completion_queue *queue);
/* The next open request that got events since it was last given, or NULL; linnet_request_next with
 * timeout_ms 0 gives the events, none where they were taken already, until it says
 * LINNET_ERR_TIMEOUT, or LINNET_ERR_STATE behind the final event. One thread at a time calls this
 * and closes the queue's requests. */
LINNET_API linnet_request *linnet_completion_queue_next(linnet_completion_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
