#include "backend/cuda/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/activations/form.h"
#include "backend/cuda/attention/select.h"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/plan/planner.h"
#include "backend/cuda/ranks/link.h"

/* ---- memory ---------------------------------------------------------------------------------- */

bool ln_cuda_plan_reserve(ln_cuda_plan *plan, size_t max_ops) {
    if (max_ops <= plan->max_ops)
        return true;
    size_t n_values = ln_values_most(max_ops);
    char *memory = malloc(max_ops * (sizeof *plan->launches + sizeof *plan->tasks) +
                          n_values * (sizeof *plan->uses + sizeof *plan->places));
    if (memory == NULL)
        return false;
    ln_cuda_plan_free(plan);
    plan->memory = memory;
    plan->max_ops = max_ops;
    plan->launches = (void *)memory;
    memory += max_ops * sizeof *plan->launches;
    plan->uses = (void *)memory;
    memory += n_values * sizeof *plan->uses;
    plan->tasks = (void *)memory;
    memory += max_ops * sizeof *plan->tasks;
    plan->places = (void *)memory;
    return true;
}

void ln_cuda_plan_free(ln_cuda_plan *plan) {
    free(plan->memory);
    *plan = (ln_cuda_plan){0};
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Whether cuBLASLt writes a gate's result as rows of bf16, too. */
static bool blas_converts(const ln_planner *p, size_t at, ln_cuda_launch *launch) {
    const ln_op *op = &p->ops[at];
    const ln_op_linear *linear = &op->linear;
    size_t n_out = linear->weight->n_rows;
    ln_converted_act to = launch->x;
    to.of = linear->out;
    to.value = op->out[LN_OUT];
    to.n_rows = linear->n_rows;
    to.n_cols = n_out;
    to.stride = linear->out_stride > 0 ? linear->out_stride : n_out;
    to.is_int8 = to.is_f8 = to.by_row = to.precise = to.in_tiles = false;
    launch->to = to;
    return linear->gate != NULL && ln_act_cols(&to) == n_out;
}

/* Whether a gate's result can be written as the n_next linears behind it want it, or, of F8_ROW,
 * as rows of bf16 that are converted then. */
static bool gate_converts(const ln_planner *p, size_t at, size_t n_next, ln_cuda_launch *launch) {
    const ln_op_linear *linear = &p->ops[at].linear;
    const ln_converted_act *x = &launch->x;
    ln_converted_act *to = &launch->to;
    size_t n_out = linear->weight->n_rows, n_rows = linear->n_rows;
    bool is_dense = linear->out_stride == 0 || linear->out_stride == n_out;
    int kind = (int)linear->weight->layout;
    if (linear->gate == NULL || n_next == 0 ||
        (kind != LN_LAYOUT_BF16 && kind != LN_LAYOUT_F8_ROW) || !x->in_tiles ||
        n_rows <= LN_SMALL_M_ROWS || !ln_plan_is_plain(linear) || !is_dense ||
        !ln_plan_convert_to(p, at, n_rows, n_out, at + 1, n_next, launch))
        return false;
    size_t bytes = n_rows * sizeof(uint16_t), half = ln_act_half(x);
    if (!to->in_tiles || ln_act_cols(x) * bytes > half || n_out * bytes > half)
        return false;
    if (kind == LN_LAYOUT_F8_ROW) { /* what the gate read is of no use any more */
        to->is_behind = x->is_behind;
        return launch->leaves_out && to->is_f8 && ln_act_takes_bf16(to);
    }
    to->is_behind = !x->is_behind;
    return !to->is_int8 && !to->by_row && !to->precise && !x->precise;
}

static void plan_gemm(ln_planner *p, size_t at, size_t n, ln_cuda_launch *launch) {
    launch->kind = LN_CUDA_GEMM;
    launch->n_ops = (uint32_t)n;
    launch->by_blas = ln_plan_by_blas(p, at, n);
    launch->x = p->x;
    launch->converts_x = ln_act_require(&p->ops[at], ln_plan_any_precise(&p->ops[at], n),
                                        launch->by_blas, p->target->has_sm90a, &launch->x);
    launch->leaves_out = false;
    launch->expands = ln_plan_any_lora(&p->ops[at], n);
    launch->converts_to = launch->expands ? false
                          : launch->by_blas
                              ? blas_converts(p, at, launch)
                              : gate_converts(p, at, ln_plan_linears(p, at + n, false), launch);
    launch->leaves_out = launch->leaves_out && launch->converts_to;
    p->x = launch->converts_to ? launch->to : launch->x;
}

/* The first half of adapters with the n linears behind it, which do the other half. */
static void plan_lora_gemm(ln_planner *p, size_t at, size_t n, ln_cuda_launch *launch) {
    plan_gemm(p, at + 1, n, launch);
    launch->kind = LN_CUDA_LORA_GEMM;
    launch->n_ops = (uint32_t)(n + 1);
    launch->expands = false;
}

/* The operation behind `at` that is no first half of adapters. */
static size_t behind(const ln_planner *p, size_t at) {
    return at + 1 + (at + 1 < p->n_ops && p->ops[at + 1].kind == LN_OP_LORA_SHRINK);
}

/* A norm, whose result n linears from `at_linears` on read. */
static void plan_norm(ln_planner *p, size_t at, size_t at_linears, size_t n,
                      ln_cuda_launch *launch) {
    const ln_op_norm *norm = &p->ops[at].norm;
    launch->converts_to =
        ln_plan_convert_to(p, at, norm->n_rows, norm->norm->dim, at_linears, n, launch) &&
        ln_plan_norm_converts(norm);
    launch->leaves_out = launch->leaves_out && launch->converts_to;
    launch->kind = launch->converts_to ? LN_CUDA_NORM : LN_CUDA_OP;
    p->x = launch->converts_to ? launch->to : ln_act_none(&p->x);
}

/* Whether the attention of prompts can write tiles of bf16, as launch->to wants them. */
static bool prefill_converts(const ln_planner *p, const ln_op_attention *attention,
                             const ln_cuda_launch *launch) {
    const ln_converted_act *to = &launch->to;
    return !to->is_int8 && !to->by_row && !to->precise && to->in_tiles && launch->leaves_out &&
           ln_plan_takes_prefill(attention, p->step, p->target->has_sm90a);
}

/* Attention `at`, whose result n linears behind it read, with or without the QKV in front. */
static void plan_attention(ln_planner *p, size_t at, bool has_qkv, size_t n,
                           ln_cuda_launch *launch) {
    const ln_op_attention *attention = &p->ops[at].attention;
    bool has_sm90a = p->target->has_sm90a;
    bool wants = n > 0 && ln_plan_convert_to(p, at, p->step->batch.n_tokens,
                                             attention->n_heads * attention->kv->v_dim,
                                             behind(p, at), n, launch);
    launch->leaves_out = wants && prefill_converts(p, attention, launch);
    launch->converts_to =
        launch->leaves_out ||
        (wants && !launch->to.by_row && ln_plan_attention_converts(attention, p->step, has_sm90a));
    launch->kind = launch->converts_to || has_qkv ? LN_CUDA_ATTENTION : LN_CUDA_OP;
    launch->n_ops = 1 + has_qkv;
    p->x = launch->converts_to ? launch->to : ln_act_none(&p->x);
}

/* Whether experts' gated results can be written as rows of bf16, which the experts' linear behind
 * reads. */
static bool experts_convert(const ln_planner *p, size_t at, ln_cuda_launch *launch) {
    const ln_op *op = &p->ops[at], *next = op + 1;
    const ln_op_linear *linear = &op->linear;
    const ln_converted_act *x = &launch->x;
    size_t n_out = linear->weight->n_rows, n_rows = linear->n_rows;
    bool is_dense = linear->out_stride == 0 || linear->out_stride == n_out;
    if (linear->gate == NULL || launch->expands || x->by_group || at + 1 >= p->n_ops ||
        !ln_plan_takes_grouped(next) || linear->weight->layout != LN_LAYOUT_BF16 ||
        next->linear.weight->layout != LN_LAYOUT_BF16 ||
        n_rows >= LN_ACT_TILES_MIN_ROWS * next->linear.groups.n_groups || !is_dense ||
        !ln_plan_is_plain(linear) || !ln_plan_convert_to(p, at, n_rows, n_out, at + 1, 1, launch))
        return false;
    size_t half = ln_act_half(x);
    launch->to.is_behind = !x->is_behind;
    return !launch->to.in_tiles &&
           x->n_rows * ln_act_cols(x) * sizeof(uint16_t) * (x->precise ? 2 : 1) <= half &&
           n_rows * n_out * sizeof(uint16_t) * (launch->to.precise ? 2 : 1) <= half;
}

static void plan_grouped(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    launch->kind = LN_CUDA_GROUPED_GEMM;
    launch->x = p->x;
    launch->expands = ln_plan_any_lora(&p->ops[at], 1);
    launch->converts_x = ln_act_require_groups(&p->ops[at], p->target->has_sm90a, &launch->x);
    launch->converts_to = experts_convert(p, at, launch);
    launch->leaves_out = launch->leaves_out && launch->converts_to;
    p->x = launch->converts_to ? launch->to : launch->x;
}

/* A mixture of experts, as models record it behind a norm. */
enum { ROUTER = 1, ROUTE, GROUP, EXPERTS };

/* Whether a norm's result goes to a router and the experts that it chooses, to those in the form
 * that few rows take, unless one kernel runs all of these. */
static bool feeds_experts(ln_planner *p, size_t at) {
    const ln_op *ops = &p->ops[at];
    ln_cuda_launch fused;
    if (p->n_ops - at <= EXPERTS || ops->kind != LN_OP_NORM || ops[ROUTER].kind != LN_OP_LINEAR ||
        ops[ROUTE].kind != LN_OP_ROUTE || ops[GROUP].kind != LN_OP_GROUP ||
        !ln_plan_takes_grouped(&ops[EXPERTS]) || ln_plan_mixture(p, at + ROUTE, &fused) > 0)
        return false;
    const ln_op_linear *experts = &ops[EXPERTS].linear;
    return experts->rows_per_x > 1 &&
           experts->n_rows < LN_ACT_TILES_MIN_ROWS * experts->groups.n_groups;
}

bool ln_plan_is_untiled(const ln_op *op) {
    const ln_op_linear *p = &op->linear;
    return op->kind == LN_OP_LINEAR && p->weight->layout == LN_LAYOUT_NONE && p->gate == NULL &&
           p->groups.n_groups == 0 && p->n_rows > 0 && p->n_rows <= LN_PAIR_ROWS &&
           (p->weight->dtype == LN_DTYPE_F32 || p->weight->dtype == LN_DTYPE_F16 ||
            p->weight->dtype == LN_DTYPE_BF16) &&
           !ln_plan_any_lora(op, 1);
}

/* A linear of a few columns and another of the same x, as the shared expert's gate and the router
 * are. */
static bool is_pair(const ln_planner *p, size_t at) {
    const ln_op *op = &p->ops[at], *next = op + 1;
    return at + 1 < p->n_ops && ln_plan_is_untiled(op) && ln_plan_is_untiled(next) &&
           op->linear.weight->dtype == next->linear.weight->dtype &&
           op->linear.n_rows == next->linear.n_rows && op->linear.x == next->linear.x &&
           op->linear.weight->n_rows <= LN_PAIR_NARROW &&
           next->linear.weight->n_rows > LN_PAIR_NARROW;
}

/* The choice of one token's experts, and their order. */
static bool is_choice(const ln_planner *p, size_t at) {
    const ln_op *op = &p->ops[at], *next = op + 1;
    return op->kind == LN_OP_ROUTE && at + 1 < p->n_ops && next->kind == LN_OP_GROUP &&
           p->step->batch.n_tokens == 1 && next->group.experts == op->route.experts &&
           next->group.n_rows == op->route.n_used &&
           next->group.n_rows <= LN_GROUP_SMALL_BATCH_ROWS;
}

/* Two operations in one launch, which keep converted rows. */
static void plan_two(ln_cuda_launch_kind kind, ln_cuda_launch *launch) {
    launch->kind = kind;
    launch->n_ops = 2;
    launch->expands = false;
}

/* The choice of one token's experts, which converts what these read, where nothing has yet. */
static void plan_choice(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    const ln_op *experts = &p->ops[at + 2];
    plan_two(LN_CUDA_ROUTE_GROUP, launch);
    if (at + 2 >= p->n_ops || !ln_plan_takes_grouped(experts) || experts->in[LN_IN_X] == 0 ||
        p->plan->uses[experts->in[LN_IN_X]].producer >= at)
        return;
    launch->x = p->x;
    launch->converts_x = ln_act_require_groups(experts, p->target->has_sm90a, &launch->x) &&
                         !launch->x.by_group && !launch->x.by_row && !launch->x.is_f8;
    if (launch->converts_x)
        p->x = launch->x;
}

/* Whether fused decode begins with a norm, in steps that run fused kernels. */
static bool begins_decode(const ln_planner *p, size_t at) {
    const ln_op *next = &p->ops[at + 1];
    return p->target->has_sm90a && ln_plan_linears(p, at + 1, true) > 0 &&
           next->linear.n_rows <= LN_DECODE_MAX_ROWS;
}

/* Whether the norm behind an all-reduce is made by the same kernel; NULL, or why not. All ranks of
 * a group must answer alike, as the kernels' blocks wait for one another: so not by what a step
 * does on one rank alone, as to run no fused kernels while it is profiled. */
static const char *refuses_reduce_norm(const ln_planner *p, size_t at) {
    enum { NARROW = 512 }; /* shorter rows are in no registers: ranks/ipc_norm.cu */
    const ln_op *op = &p->ops[at], *next = op + 1;
    const ln_op_all_reduce *sum = &op->all_reduce;
    const ln_op_norm *norm = &next->norm;
    if (at + 1 >= p->n_ops || next->kind != LN_OP_NORM || op->out[LN_OUT] == 0 ||
        next->in[LN_IN_X] != op->out[LN_OUT])
        return "no norm follows the sum";
    if (!ln_cuda_link_fuses_norms(sum->ranks))
        return "these ranks sum in kernels of their own";
    if (norm->rows != NULL || norm->n_rows != sum->n_rows || norm->norm->dim != sum->dim ||
        norm->norm->kind == LN_NORM_NONE || norm->out_stride != 0 || norm->n_rows == 0)
        return "the norm takes other rows";
    if (norm->n_rows > LN_SMALL_M_ROWS)
        return "more than 64 rows are summed apart";
    if (sum->dim >= NARROW && !(ln_plan_norm_converts(norm) && ln_plan_is_aligned(sum->x) &&
                                ln_plan_is_aligned(sum->residual) && ln_plan_is_aligned(sum->out)))
        return "a block does not hold such a row";
    return begins_decode(p, at + 1) ? "fused decode makes the norm" : NULL;
}

static void plan_apart(ln_planner *p, size_t at, ln_cuda_launch *launch);

static void plan_reduce_norm(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    ln_value sum = p->ops[at].out[LN_OUT];
    p->plan->places[sum].is_left_out = ln_value_stays_within(&p->plan->uses[sum], 1);
    plan_apart(p, at + 1, launch);
    launch->kind = LN_CUDA_NORM;
    launch->n_ops = 2;
}

/* Converted rows stay for the linears behind, as long as nothing but what chooses experts or
 * begins adapters runs. */
static void plan_op(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    ln_op_kind kind = p->ops[at].kind;
    launch->expands = ln_plan_any_lora(&p->ops[at], 1);
    if (kind != LN_OP_ROUTE && kind != LN_OP_GROUP && kind != LN_OP_LINEAR &&
        kind != LN_OP_LORA_SHRINK)
        p->x = ln_act_none(&p->x);
}

/* Plans the launch that begins with operation `at`, when no fused kernel takes it. */
static void plan_apart(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    const ln_op *op = &p->ops[at], *next = op + 1;
    size_t n_linears = ln_plan_linears(p, at, false);
    size_t n_next = ln_plan_linears(p, behind(p, at), false);
    const char *why_lora = launch->apart;
    size_t n_lora = ln_plan_lora_linears(p, at, &why_lora);
    if (n_lora == 0)
        launch->apart = why_lora;
    if (op->kind == LN_OP_ALL_REDUCE)
        launch->apart = refuses_reduce_norm(p, at);
    if (op->kind == LN_OP_ALL_REDUCE && launch->apart == NULL) {
        plan_reduce_norm(p, at, launch);
    } else if (n_lora > 0) {
        plan_lora_gemm(p, at, n_lora, launch);
    } else if (n_linears > 0) {
        plan_gemm(p, at, n_linears, launch);
    } else if (op->kind == LN_OP_NORM && n_next > 0) {
        plan_norm(p, at, behind(p, at), n_next, launch);
    } else if (feeds_experts(p, at)) {
        plan_norm(p, at, at + EXPERTS, 1, launch);
    } else if (op->kind == LN_OP_ATTENTION) {
        plan_attention(p, at, false, n_next, launch);
    } else if (op->kind == LN_OP_QKV && at + 1 < p->n_ops && next->kind == LN_OP_ATTENTION) {
        const char *why = ln_plan_refuses_qkv(op, next, p->step, p->target->has_sm90a);
        launch->apart = why != NULL ? why : launch->apart;
        if (why != NULL && ln_value_stays_within(&p->plan->uses[op->out[LN_OUT_Q]], 1))
            why = ln_plan_refuses_prefill_qkv(op, next, p->step, p->target->has_sm90a);
        if (why == NULL)
            plan_attention(p, at + 1, true, ln_plan_linears(p, behind(p, at + 1), false), launch);
        else
            plan_op(p, at, launch);
    } else if (ln_plan_takes_grouped(op)) {
        plan_grouped(p, at, launch);
    } else if (is_pair(p, at)) {
        plan_two(LN_CUDA_LINEAR_PAIR, launch);
    } else if (is_choice(p, at)) {
        plan_choice(p, at, launch);
    } else {
        plan_op(p, at, launch);
    }
}

static const char *why_alone(const ln_op *op) {
    switch (op->kind) {
    case LN_OP_LINEAR:
        return op->linear.weight->layout == LN_LAYOUT_NONE
                   ? "weights of this type have no tiles for tensor cores"
                   : "matrices by group have no fused kernel";
    case LN_OP_NORM: return "what reads the norm is no linear of weight tiles";
    default: return "no kernel fuses this operation";
    }
}

/* Plans one launch; how many operations it serves. */
static size_t plan_next(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    *launch = (ln_cuda_launch){.kind = LN_CUDA_OP, .first = (uint32_t)at, .n_ops = 1};
    size_t n = ln_plan_decode(p, at, launch);
    const char *why = launch->apart;
    bool is_small = p->ops[at].kind != LN_OP_LINEAR || p->ops[at].linear.n_rows <= 4 ||
                    p->step->fused_workspace == NULL;
    if (n == 0) {
        n = ln_plan_linear_norm(p, at, launch);
        if (n == 0 && why != NULL) /* adapters' first halves begin no fused decode */
            launch->apart = is_small || launch->apart == NULL ? why : launch->apart;
    }
    if (n == 0)
        n = ln_plan_mixture(p, at, launch);
    if (n > 0) {
        launch->n_ops = (uint32_t)n;
        p->x = ln_act_none(&p->x);
        return n;
    }
    launch->converts_x = false;
    plan_apart(p, at, launch);
    if (launch->apart == NULL && launch->n_ops == 1)
        launch->apart = why_alone(&p->ops[at]);
    return launch->n_ops;
}

bool ln_cuda_plan_make(ln_cuda_plan *plan, const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                       const ln_cuda_target *target) {
    plan->n_values = ln_values_count(ops, n_ops);
    plan->n_launches = plan->n_tasks = 0;
    if (n_ops > plan->max_ops || plan->n_values > ln_values_most(plan->max_ops))
        return false;
    ln_values_find_uses(ops, n_ops, plan->uses, plan->n_values);
    memset(plan->places, 0, plan->n_values * sizeof *plan->places);
    ln_planner p = {ops, n_ops, step, target, plan, ln_act_none(&target->act)};
    for (size_t at = 0; at < n_ops;)
        at += plan_next(&p, at, &plan->launches[plan->n_launches++]);
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *op_kernel_name(const ln_op *op) {
    return op->kind == LN_OP_LINEAR ? "linear without tensor cores" : ln_op_name(op->kind);
}

static bool chooses_experts(const ln_cuda_launch *launch, const ln_op *ops) {
    bool any = false;
    for (uint32_t i = 0; i < launch->n_ops; i++)
        any |= ops[launch->first + i].kind == LN_OP_ROUTE;
    return any;
}

const char *ln_cuda_launch_name(const ln_cuda_launch *launch, const ln_op *ops) {
    switch (launch->kind) {
    case LN_CUDA_FUSED_DECODE:
        return chooses_experts(launch, ops) ? "fused decode with experts" : "fused decode";
    case LN_CUDA_LINEAR_NORM: return "fused linear + norm";
    case LN_CUDA_GEMM:
        return launch->expands       ? "GEMM, adapters"
               : launch->by_blas     ? "cuBLASLt GEMM"
               : launch->converts_to ? "GEMM, converts its result"
               : launch->converts_x  ? "convert x, GEMM"
                                     : "GEMM";
    case LN_CUDA_LORA_GEMM:
        return launch->converts_x ? "convert x, adapters' A, GEMM with adapters"
                                  : "adapters' A, GEMM with adapters";
    case LN_CUDA_GROUPED_GEMM:
        return launch->expands       ? "grouped GEMM, adapters"
               : launch->converts_to ? "grouped GEMM, converts its result"
               : launch->converts_x  ? "convert x, grouped GEMM"
                                     : "grouped GEMM";
    case LN_CUDA_NORM:
        return launch->n_ops == 1    ? "norm, converts its result"
               : launch->converts_to ? "all-reduce with norm, converts its result"
                                     : "all-reduce with norm";
    case LN_CUDA_ATTENTION:
        return launch->n_ops == 1    ? "attention, converts its result"
               : launch->converts_to ? "attention with qkv, converts its result"
                                     : "attention with qkv";
    case LN_CUDA_MIXTURE: return "fused mixture";
    case LN_CUDA_LINEAR_PAIR: return "two linears without tensor cores";
    case LN_CUDA_ROUTE_GROUP:
        return launch->converts_x ? "route and group, convert x" : "route and group";
    default:
        return launch->expands ? "linear without tensor cores, adapters"
                               : op_kernel_name(&ops[launch->first]);
    }
}
