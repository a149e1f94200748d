/* What the parts of the planner share. Those that look whether operations fuse return NULL, or why
 * they do not: a few words that `linnet bench --explain` shows. */
#ifndef LN_BACKEND_CUDA_PLAN_PLANNER_H
#define LN_BACKEND_CUDA_PLAN_PLANNER_H

#include "backend/cuda/plan/launches.h"

typedef struct ln_planner {
    const ln_op *ops;
    size_t n_ops;
    const ln_cuda_step *step;
    const ln_cuda_target *target;
    ln_cuda_plan *plan;
    ln_converted_act x; /* as the launches so far leave it; value 0: none */
} ln_planner;

/* How many operations from `at` on are linears of weight tiles that go together: those that read
 * the same x, without gate and residual; may_mix: of different kinds that become f16, too. 0: the
 * first is for other kernels. */
size_t ln_plan_linears(const ln_planner *p, size_t at, bool may_mix);
bool ln_plan_any_precise(const ln_op *ops, size_t n_ops);
/* Whether rows of any of n linears have adapters. */
bool ln_plan_any_lora(const ln_op *ops, size_t n_ops);
/* How many linears behind an LN_OP_LORA_SHRINK take their adapters as one more K split; 0: they do
 * not, and *why says so, if `at` is such an operation. */
size_t ln_plan_lora_linears(const ln_planner *p, size_t at, const char **why);
/* Whether cuBLASLt serves n linears. */
bool ln_plan_by_blas(const ln_planner *p, size_t at, size_t n);
/* Whether kernels load it by 16 bytes. */
bool ln_plan_is_aligned(const void *at);
/* Whether a norm can convert its result: a block holds a row. */
bool ln_plan_norm_converts(const ln_op_norm *op);
/* Whether the result of a linear is aligned, and nothing but a bias, the scale and a residual
 * become of it, or of a gate's the scale. */
bool ln_plan_is_plain(const ln_op_linear *p);
bool ln_plan_takes_grouped(const ln_op *op);
/* Whether a linear's kernel is that of few rows without tensor cores, and can share a launch. */
bool ln_plan_is_untiled(const ln_op *op);

/* What n linears from `at` on want of the result of operation `producer`, n_rows rows of dim, of
 * which they make x: to launch->to, with leaves_out. false: it cannot give it. */
bool ln_plan_convert_to(const ln_planner *p, size_t producer, size_t n_rows, size_t dim, size_t at,
                        size_t n, ln_cuda_launch *launch);

/* Plan launches that begin with operation `at`. The longest fused one, if there is any: its
 * operations; else 0, and launch->apart says why. */
size_t ln_plan_decode(ln_planner *p, size_t at, ln_cuda_launch *launch);
size_t ln_plan_linear_norm(ln_planner *p, size_t at, ln_cuda_launch *launch);

/* Why operations from a route on are not all that one token's experts do in one kernel, or NULL. */
const char *ln_plan_refuses_mixture(const ln_planner *p, size_t at);
/* Bytes of shared memory beside the stages that such operations take, as ln_mixture_memory of
 * fused/mixture_experts.cuh has them; has_router: with those of the router in front. */
size_t ln_plan_mixture_work_bytes(const ln_op *ops, bool has_router);

/* Plans all that one token's experts do from the choice on, if one kernel takes it: its operations;
 * else 0, and behind a route launch->apart says why. */
size_t ln_plan_mixture(ln_planner *p, size_t at, ln_cuda_launch *launch);

#endif
