/* A backend executes recorded operations on one kind of device, and owns the memory that they
 * work on. Created by name (registry.h); used by one thread at a time (the engine's). */
#ifndef LN_BACKEND_BACKEND_H
#define LN_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/op.h"
#include "backend/weight_source.h"
#include "base/error.h"
#include "base/pool.h"
#include "dist/mesh.h"

enum { LN_GROUPED_COLUMNS = 256 };

/* Sizes that a step never exceeds. */
typedef struct ln_step_limits {
    size_t max_tokens, max_seqs;
    size_t max_ctx;        /* tokens of one sequence */
    size_t max_blocks;     /* entries of a sequence's block table */
    size_t max_read_bytes; /* that read_back brings to the host */
    size_t max_width;      /* columns of any weight */
    /* columns, each row's filled up to whole LN_GROUPED_COLUMNS, of all rows of a token that a
     * linear with a matrix for each group of rows has */
    size_t max_grouped_width;
    size_t max_expert_width; /* columns of an expert's matrix, filled up so */
    size_t max_head_dim;
    size_t max_heads;
    size_t max_indexed; /* positions that an indexer scores; 0: there is none */
    size_t max_experts;
    size_t max_state_dim; /* rows or columns of a recurrent head's state */
    size_t n_adapters;    /* that rows may have; 0: none */
    ln_mesh mesh;         /* of no ranks: there is one */
} ln_step_limits;

typedef struct ln_backend_options {
    const char *isa; /* "auto", "scalar", ... */
    size_t n_threads;
    size_t max_seqs; /* in a step, as far as is known; kernels may be chosen by it */
    bool exact;
    bool pin;         /* threads keep to a processor each; the caller's thread is its own matter */
    bool adapts;      /* a run that is too small to be shared out uses one of the threads */
    bool lazy;        /* weights may stay in their file until a run needs them */
    bool other_tiles; /* for tests: CPU kernels as another vendor's processors want them */
    bool lets_rows_vary; /* the bits of a row may depend on the other rows, where that is faster */
    size_t n_local, local_rank; /* ranks on this machine, which share its devices; 0: one */
} ln_backend_options;

typedef struct ln_backend ln_backend;

/* What the machine can do, measured with all threads of a backend. */
typedef struct ln_ceilings {
    double read_bytes;                    /* from memory, per second */
    double int8_products, float_products; /* products and sums on registers, per second */
} ln_ceilings;

enum { LN_MAX_STARTED = 4, LN_STARTED_BYTES = 1 << 16 };

/* A copy from the host. */
typedef struct ln_transfer {
    void *memory;
    const void *host;
    size_t bytes;
} ln_transfer;

/* The ranks of an engine, and the groups of them that operations name (dist/mesh.h). */
typedef struct ln_rank_groups {
    ln_collectives *all, *stage, *tensor;
    bool wants_nccl; /* devices are joined by NCCL, even where they reach each other's memory */
} ln_rank_groups;

/* The operations of a backend. */
typedef struct ln_backend_vtable {
    const char *name;
    bool on_device; /* what it reserves is memory of a device, which the host cannot read */
    void (*destroy)(ln_backend *backend);

    /* Bytes that reserve can still give, without swapping and within the limits of cgroups;
     * SIZE_MAX when the system does not say. */
    size_t (*available_bytes)(const ln_backend *backend);

    /* Whether weights of this type can be multiplied and embedded. */
    bool (*supports_weight)(const ln_backend *backend, ln_dtype dtype);

    /* Bytes that the prepared copy takes in the weights arena; 0: it is used where it is mapped.
     * From shapes and types alone. */
    ln_status (*plan_weight)(const ln_backend *backend, const ln_weight_request *request,
                             size_t *bytes, ln_error *err);
    /* Prepares it into `memory` (as planned; NULL for 0 bytes). The bias stays NULL. What comes
     * from a file may be put off until finish_weights. */
    ln_status (*prepare_weight)(ln_backend *backend, const ln_weight_request *request, void *memory,
                                ln_weight *weight, ln_error *err);
    /* Prepares what was put off; before any run, and before such memory is released. NULL: nothing
     * is put off. */
    ln_status (*finish_weights)(ln_backend *backend, ln_error *err);

    /* Working memory of its own for steps within `limits`, in bytes; reserve_scratch takes it. */
    size_t (*plan_scratch)(const ln_backend *backend, const ln_step_limits *limits);
    ln_status (*reserve_scratch)(ln_backend *backend, const ln_step_limits *limits, ln_error *err);

    /* Memory that operations can use: weights, activations, KV blocks. Zeroed. */
    ln_status (*reserve)(ln_backend *backend, size_t bytes, const char *what, void **memory,
                         ln_error *err);
    void (*release)(ln_backend *backend, void *memory, size_t bytes);
    /* Memory of the host, zeroed, which copies to and from reserved memory are fast with: for the
     * swap space. Both NULL: any memory is. */
    ln_status (*reserve_host)(ln_backend *backend, size_t bytes, const char *what, void **memory,
                              ln_error *err);
    void (*release_host)(ln_backend *backend, void *memory, size_t bytes);
    /* Copies host bytes into reserved memory. */
    void (*upload)(ln_backend *backend, void *memory, const void *host, size_t bytes);
    /* The same from any thread, also while runs are under way: n copies, to memory that runs which
     * were started before may still use, and later ones do not. They are done on return. NULL:
     * memory of the backend is the host's. */
    ln_status (*send)(ln_backend *backend, const ln_transfer *transfers, size_t n, ln_error *err);

    /* Measures the machine for a fraction of a second. NULL: not offered. */
    ln_status (*measure)(ln_backend *backend, ln_ceilings *ceilings, ln_error *err);

    /* What all ranks call together, behind reserve_scratch and ahead of the first run: connects the
     * devices of `ranks` for the operations of rank_ops.h. One that fails lets the others fail.
     * NULL: those operations call the collectives themselves. */
    ln_status (*join_ranks)(ln_backend *backend, const ln_rank_groups *ranks, ln_error *err);
    /* What all ranks call together ahead of destroy, while messages still pass: what runs ends, and
     * no device uses another's memory any more. NULL with join_ranks. */
    void (*leave_ranks)(ln_backend *backend);

    /* Executes ops[n_ops] in order and returns when all are done. All that have a batch have the
     * same one, as the last has. Allocates nothing. */
    ln_status (*run)(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err);

    /* What runs wrote to reserved memory, for the host to read and change until the next run: the
     * memory itself, or a copy. At most the limits' max_read_bytes. */
    ln_status (*read_back)(ln_backend *backend, void *memory, size_t bytes, void **host,
                           ln_error *err);

    /* run and read_back in two halves, for steps that follow one another. start queues ops[n_ops]
     * behind what was started before, and the copy of `bytes` of what they write to `memory`: at
     * most LN_MAX_STARTED runs may be under way, each but a lone one with at most
     * LN_STARTED_BYTES. What was recorded may change once it returns. finish waits for the first
     * one under way; *host is valid until the next but two starts that copy. What a failed start
     * queued is of no use, and is not to be finished. Both NULL: not offered, nor is LN_OP_SAMPLE.
     */
    ln_status (*start)(ln_backend *backend, const ln_op *ops, size_t n_ops, void *memory,
                       size_t bytes, ln_error *err);
    ln_status (*finish)(ln_backend *backend, void **host, ln_error *err);

    /* Calls fn(context, worker) on every thread that computes and returns when all have: for work
     * of the host between runs. NULL: there is none but the caller. */
    void (*share)(ln_backend *backend, ln_pool_fn fn, void *context);
    /* Whether a run failed in a way that makes all others fail, too. NULL: that cannot be. */
    bool (*is_lost)(const ln_backend *backend);
} ln_backend_vtable;

/* Where the time of runs went, by kind of operation, from one thread's sight: with the wait for the
 * other threads at an operation's end. */
typedef struct ln_profile {
    uint64_t ns[LN_OP_COUNT];
    uint64_t n_ops[LN_OP_COUNT];
    uint64_t reading_ns; /* that runs took to find this out behind their operations */
    uint64_t int8_products, float_products; /* of linears, by the unit that they need */
    uint64_t weight_bytes;                  /* that linears read, once each */
} ln_profile;

/* A kernel that serves operations first .. first + n_ops - 1 of a run. */
typedef struct ln_kernel_use {
    size_t first, n_ops;
    const char *kernel;
    const char *apart; /* why it does not serve more of them, in a few words, or NULL */
} ln_kernel_use;

/* Who is told of every run which kernels serve it, in order, before they run. */
typedef struct ln_explainer {
    void (*tell)(void *context, const ln_op *ops, size_t n_ops, const ln_kernel_use *use);
    void *context;
    bool is_done; /* the caller's own */
} ln_explainer;

struct ln_backend {
    const ln_backend_vtable *vtable;
    const char *arch;    /* whose kernels it runs: an instruction set, or sm_90; the backend's */
    ln_profile *profile; /* the caller's, added to by every run; NULL: nobody asks */
    ln_explainer *explainer; /* likewise */
    bool has_adapter_tiles;  /* it reads adapters' matrices of linears in that form alone */
};

#endif
