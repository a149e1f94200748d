/* Decode steps as CUDA graphs: what the launchers queue for a step that comes again is replayed as
 * one launch. */
#ifndef LN_BACKEND_CUDA_RUNTIME_GRAPH_H
#define LN_BACKEND_CUDA_RUNTIME_GRAPH_H

#include <stdbool.h>

#include "backend/cuda/ops.h"

/* How many are kept, and of how many operations in all: a step that runs in parts has a graph for
 * each, and what a graph takes of the device goes with its operations. */
enum { LN_CUDA_MAX_GRAPHS = 512, LN_CUDA_MAX_GRAPH_OPS = 32 << 10 };

/* A step that was run, with all that its kernels' arguments were made of: the key. */
typedef struct ln_cuda_graph_entry {
    ln_cuda_graph graph; /* NULL: not captured yet */
    ln_cuda_step step;
    ln_op *ops; /* [n_ops], a copy; NULL: the entry is free */
    size_t n_ops;
    size_t last_used;
} ln_cuda_graph_entry;

/* Zero it before use. */
typedef struct ln_cuda_graphs {
    ln_cuda_graph_entry entries[LN_CUDA_MAX_GRAPHS];
    size_t n_launches;
} ln_cuda_graphs;

/* Queues all operations of a step on the stream. */
typedef int (*ln_cuda_launch_all)(void *context, const ln_op *ops, size_t n_ops,
                                  const ln_cuda_step *step);

/* Whether a step is worth a graph: a decode whose operations repeat, without copies. */
bool ln_cuda_graphs_suit(const ln_op *ops, size_t n_ops);

/* Replays the step, after a capture when it comes for the second time; a new one is queued as it
 * is. 0, or the runtime's error code. */
int ln_cuda_graphs_run(ln_cuda_graphs *graphs, const ln_op *ops, size_t n_ops,
                       const ln_cuda_step *step, ln_cuda_launch_all launch_all, void *context,
                       ln_cuda_stream stream);
void ln_cuda_graphs_free(ln_cuda_graphs *graphs);

#endif
