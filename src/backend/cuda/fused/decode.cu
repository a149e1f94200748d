/* Fused decode kernel (megakernel) on Hopper: norms, linears, RoPE, KV write and split-KV attention
 * of up to four rows as one launch of persistent CTAs.
 *
 * The kernel runs a list of tasks: linears that share activations, with the norm in front of them;
 * or RoPE, KV write and attention. Each block makes the activations for itself. Weights of all
 * linears run through a pipeline of stages for each warp (cp.async.bulk, mbarriers), from linear to
 * linear without a break and from ahead of the PDL wait on, so memory is read while blocks wait.
 *
 * Blocks hand results to each other value by value (decode_handoff.cuh), without grid barriers
 * between tasks, so some blocks are ahead of others. Nothing that a slow block still reads may be
 * overwritten; plan/decode.c chooses tasks of which that is true, and a result is also stored to
 * its own memory only where no later task stores to it.
 *
 * Grid: one block an SM. Block 512: two groups of 8 warps, each an output tile of 16 columns with K
 * split over the 8 warps; with a gate the second group computes it. Shared memory: stages [16
 * warps][n_stages]; work memory of a task: KV tiles of a split, or split-K partial sums [2
 * groups][2], or [4][up, gate], of [8 splits][16][n_rows | 1], and the activations; the plan of the
 * next KV split; mbarriers [16][n_stages]. Bytes moved: weights, K and V once. */
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/decode_attention.cuh"
#include "backend/cuda/fused/decode_kernel.cuh"
#include "backend/cuda/fused/decode_tasks.cuh"
#include "backend/cuda/weights/dispatch.cuh"

static void make_list(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                      const ln_cuda_step *step, ln_decode_list *list) {
    const ln_cuda_task *tasks = plan->tasks + launch->first_task;
    ln_decode_args *args = &list->p;
    ln_decode_begin_args(launch, ops[tasks->first + tasks->has_norm].linear.n_rows, step, args);
    const ln_decode_handoff_memory m = {plan, launch, args->handoff};
    for (unsigned i = 0; i < args->n_tasks; i++) {
        args->is_attention[i] = tasks[i].n_linears == 0;
        if (args->is_attention[i]) {
            list->attentions[args->n_attentions++] =
                ln_decode_make_attention(m, &ops[tasks[i].first], step);
            continue;
        }
        ln_decode_linear &l = list->linears[args->n_linears];
        l = ln_decode_make_linear(m, tasks[i], ops, step);
        list->weights[args->n_linears++] = ln_decode_weights_of(l);
    }
}

template <int KIND, int D>
static int launch_rows(ln_decode_list &list, size_t work_bytes, cudaStream_t stream) {
    return list.p.n_rows == 1 ? ln_decode_launch<KIND, D, true, false>(list, work_bytes, stream)
                              : ln_decode_launch<KIND, D, false, false>(list, work_bytes, stream);
}

template <int KIND>
static int launch_kind(ln_decode_list &list, size_t work_bytes, cudaStream_t stream) {
    if (list.p.n_attentions == 0)
        return launch_rows<KIND, 0>(list, work_bytes, stream);
    return list.attentions[0].mma.a.kv.k_dim == 64
               ? launch_rows<KIND, 64>(list, work_bytes, stream)
               : launch_rows<KIND, 128>(list, work_bytes, stream);
}

int ln_cuda_fused_decode(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                         const ln_cuda_step *step, ln_cuda_stream stream) {
    if (ln_decode_has_mixtures(plan, launch, ops))
        return ln_cuda_fused_decode_mixed(plan, launch, ops, step, stream);
    ln_decode_list list;
    make_list(plan, launch, ops, step, &list);
    return ln_dispatch_layout<ln_decode_is_kind>(
        ln_decode_kind(list.linears[0].parts[0].kind), [&](auto kind) {
            return launch_kind<decltype(kind)::LAYOUT>(list, launch->work_bytes, stream);
        });
}
