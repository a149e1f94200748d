/* Decode as one kernel: norms, linears of tiles and attention for up to four rows of x.
 *
 * Grid: a block of 16 warps on every multiprocessor. A task is the linears that multiply the same
 * x, after their norm if there is one, or the end of q, k and v with the attention behind. Each
 * block makes x for itself; the weights of all linears of the fused_plan run through rings in shared
 * memory from the start on, whatever task it is, so that memory is read while blocks wait, and
 * before the kernel in front has ended.
 *
 * Blocks pass results to each other one by one, without barriers between tasks. Whoever reads in a
 * task what was there before the kernel has results to leave in that task, for which all others
 * wait sooner or later. So a result goes to its place in memory only where no later task leaves
 * one there, and nothing is written that others still read.
 *
 * Shared memory: rings [16 warps][n_stages][a tile, or several narrow ones]; what a task works on:
 * a slice's K and V, or the places of sums [2 teams][2], or [4][up, gate], [8 slices][16][n_rows |
 * 1] and x as activations/convert.cuh has it; what is known of the next slice; barriers [16][n_stages]. */
#include "backend/cuda/fused/decode.h"

#include "backend/cuda/fused/decode_attention.cuh"
#include "backend/cuda/fused/decode_linear.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

enum {
    MAX_ROWS = 4,
    DECLARED_BYTES = 36 * 128, /* in the kernel, at most */
    SHARED_BYTES = 227 * 1024 - DECLARED_BYTES,
    MIN_STAGES = 2,
    PLAN_BYTES = (sizeof(ln_decode_split_plan<LN_DECODE_MAX_HEAD_DIM>) + 127) / 128 * 128,
    COUNTER_BYTES = 128, /* in front of what is handoff */
    MAX_HANDOFF_FLOATS = (LN_DECODE_FEW_BYTES - COUNTER_BYTES) / sizeof(float)
};

/* Word `threadIdx.x` of a task, `linear` and `attention` being the numbers of the next of each. */
static __device__ __forceinline__ uint32_t task_word(const ln_decode_args &p, unsigned task,
                                                      unsigned linear, unsigned attention) {
    size_t bytes = sizeof(ln_decode_linear);
    const void *from = &p.linears[linear];
    if (task < p.n_tasks && p.is_attention[task])
        from = &p.attentions[attention], bytes = sizeof(ln_decode_attention);
    bool is_there = task < p.n_tasks && threadIdx.x < bytes / sizeof(uint32_t);
    return is_there ? ((const uint32_t *)from)[threadIdx.x] : 0;
}

static_assert(sizeof(ln_decode_task) <= LN_DECODE_THREADS * sizeof(uint32_t), "a word a thread");
static_assert(LN_MAX_WARPS * sizeof(float) + LN_DECODE_MAX_LINEARS * sizeof(ln_decode_weight_tiles) +
                      2 * sizeof(ln_decode_task) + LN_DECODE_REDUCTIONS * sizeof(ln_decode_reduction) <=
                  DECLARED_BYTES,
              "shared memory that the kernel declares");

static __device__ __forceinline__ void store_task(ln_decode_task *to, uint32_t word) {
    if (threadIdx.x < sizeof *to / sizeof word)
        ((uint32_t *)to)[threadIdx.x] = word;
}

/* What of a task, and of the attention behind it, can begin before it has what others leave.
 * `attention`: the number of the next one. */
template <int D>
static __device__ __forceinline__ void prefetch_task(const ln_decode_args &p, unsigned number,
                                                    unsigned attention, const ln_decode_task &task,
                                                    uint8_t *memory) {
    if constexpr (D > 0) {
        ln_decode_split_plan<D> &plan = *(ln_decode_split_plan<D> *)(memory + p.plan_offset);
        if (p.is_attention[number])
            ln_decode_prefetch_split<D>(p, task.attention, plan, memory + p.work_offset);
        else if (number + 1 < p.n_tasks && p.is_attention[number + 1])
            ln_decode_plan_split<D>(p, p.attentions[attention], plan);
    }
    if (!p.is_attention[number] && threadIdx.x / LN_WARP == LN_DECODE_WARPS - 1)
        ln_decode_prefetch_norm(task.linear);
}

/* ONE: of one row of x. */
template <int KIND, int D, bool ONE>
static __global__ void __launch_bounds__(LN_DECODE_THREADS, 1)
    fused_decode(const __grid_constant__ ln_decode_args p) {
    extern __shared__ __align__(128) uint8_t memory[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ ln_decode_weight_tiles weights[LN_DECODE_MAX_LINEARS];
    __shared__ ln_decode_task tasks[2];
    __shared__ ln_decode_reduction reductions[LN_DECODE_REDUCTIONS];
    ln_decode_pipeline ring;
    ln_decode_reduction_counts met = {};
    unsigned linear = 0, attention = 0;
    ln_pdl_launch_dependents();
    for (unsigned i = threadIdx.x; i < p.n_linears * sizeof *weights / 4; i += LN_DECODE_THREADS)
        ((uint32_t *)weights)[i] = ((const uint32_t *)p.weights)[i];
    store_task(&tasks[0], task_word(p, 0, 0, 0));
    if (threadIdx.x == 0)
        ln_decode_init_reductions(p.n_rows, reductions);
    __syncthreads();
    ln_decode_init_pipeline<KIND>(p, weights, memory, &ring);
    ln_pdl_wait();
    unsigned turn = ln_grid_barrier_phase(p.barrier_count); /* thread 0's is kept */
    ln_handoff_clear(p.handoff, p.n_handoff_floats);
    __syncthreads();
    if (threadIdx.x == 0)
        ln_grid_barrier_arrive(p.barrier_count); /* whom the first task waits for */
    prefetch_task<D>(p, 0, 0, tasks[0], memory);
    for (unsigned task = 0; task < p.n_tasks; task++) {
        const ln_decode_task &now = tasks[task % 2];
        bool attends = p.is_attention[task];
        linear += !attends, attention += attends;
        uint32_t word = task_word(p, task + 1, linear, attention); /* arrives in the meantime */
        if (!attends)
            ln_decode_run_linear<KIND, ONE>(p, weights, now.linear, memory + p.work_offset, shared,
                                         reductions, &ring, &met, task == 0, &turn);
        else if constexpr (D > 0)
            ln_decode_run_attention<D>(p, now.attention, *(ln_decode_split_plan<D> *)(memory + p.plan_offset),
                               memory + p.work_offset, &turn);
        if (task + 1 == p.n_tasks)
            break;
        store_task(&tasks[(task + 1) % 2], word);
        __syncthreads();
        prefetch_task<D>(p, task + 1, attention, tasks[(task + 1) % 2], memory);
    }
}

/* ---- what makes a fused_plan ---------------------------------------------------------------------- */

/* Rows that a task leaves: the arguments that say where, and where for other blocks. */
typedef struct fused_result {
    const float *at;
    size_t n_cols, stride;
    float **plain, **handoff;
} fused_result;

/* A fused_plan that is being put together. */
typedef struct fused_plan {
    ln_decode_args args;
    int kind; /* of tiles */
    size_t head_dim;
    size_t work_bytes;
    size_t n_results;
    fused_result results[LN_DECODE_MAX_LINEARS * (LN_GEMM_MAX_PARTS + 1) + LN_DECODE_MAX_ATTENTIONS];
} fused_plan;

static size_t align_up(size_t bytes) {
    return (bytes + 127) / 128 * 128;
}

/* Slots of a ring beside so much work memory, with their barriers. */
static size_t stages_beside(const fused_plan *c, size_t work_bytes) {
    size_t rest = align_up(work_bytes) + PLAN_BYTES, most = LN_DECODE_MAX_STAGES;
    size_t per_stage = LN_DECODE_WARPS * (ln_decode_stage_bytes(c->kind) + sizeof(uint64_t));
    size_t n = rest < SHARED_BYTES ? (SHARED_BYTES - rest) / per_stage : 0;
    return n < most ? n : most;
}

/* Makes sure of work memory for another task. */
static bool make_room(fused_plan *c, size_t bytes) {
    if (c->args.n_tasks == LN_DECODE_MAX_TASKS || stages_beside(c, bytes) < MIN_STAGES)
        return false;
    c->work_bytes = bytes > c->work_bytes ? bytes : c->work_bytes;
    return true;
}

/* Columns of x in shared memory, where rows begin in different banks, and its bytes. */
static size_t x_bytes(int kind, size_t n_rows, ln_decode_linear *l) {
    size_t cols = l->k_tiles * ln_weight_tile_cols(kind) + (ln_weight_tile_has_16_bit_act(kind) ? 32 : 128);
    l->x_cols = (unsigned)cols;
    if (kind == LN_LAYOUT_BF16)
        return n_rows * cols * sizeof(__nv_bfloat16) * (l->precise ? 2 : 1);
    if (ln_weight_tile_dequantizes_to_f16(kind))
        return n_rows * (cols * sizeof(__half) + sizeof(float));
    return n_rows * (cols + cols / LN_SCALE_BLOCK * sizeof(float));
}

/* Whether rows of two kinds lie apart. */
static bool are_apart(const fused_plan *c, const fused_result *r, const float *at, size_t n_cols,
                      size_t stride) {
    size_t last = c->args.n_rows - 1;
    uintptr_t r_end = (uintptr_t)(r->at + last * r->stride + r->n_cols);
    return r_end <= (uintptr_t)at || (uintptr_t)(at + last * stride + n_cols) <= (uintptr_t)r->at;
}

/* Has a task find rows where blocks of an earlier one pass them, if these leave them. */
static bool find_rows(fused_plan *c, const float **at, size_t n_cols, size_t stride, bool *is_handed_off) {
    ln_decode_args *args = &c->args;
    *is_handed_off = false;
    for (size_t i = c->n_results; i-- > 0;) {
        const fused_result *r = &c->results[i];
        if (are_apart(c, r, *at, n_cols, stride))
            continue;
        size_t first = (size_t)(*at - r->at), n = (args->n_rows * r->stride + 3) / 4 * 4;
        if (*at < r->at || first + n_cols > r->n_cols || (uintptr_t)r->at % 16 != 0 ||
            (args->n_rows > 1 && stride != r->stride))
            return false;
        if (*r->handoff == NULL && args->n_handoff_floats + n > MAX_HANDOFF_FLOATS)
            return false;
        if (*r->handoff == NULL) {
            *r->handoff = args->handoff + args->n_handoff_floats;
            args->n_handoff_floats += (unsigned)n;
        }
        *at = *r->handoff + first;
        *is_handed_off = true;
        return true;
    }
    return true;
}

/* Whether rows can be left: others of this place are the same, or none. */
static bool can_leave(const fused_plan *c, const float *at, size_t n_cols, size_t stride) {
    for (size_t i = 0; i < c->n_results; i++) {
        const fused_result *r = &c->results[i];
        bool is_same = r->at == at && r->n_cols == n_cols && r->stride == stride;
        if (!is_same && !are_apart(c, r, at, n_cols, stride))
            return false;
    }
    return true;
}

/* Notes rows that a task leaves, which earlier ones need not leave there any more. */
static void leave_rows(fused_plan *c, size_t n_cols, size_t stride, float **plain, float **handoff) {
    for (size_t i = 0; i < c->n_results; i++)
        if (c->results[i].at == *plain)
            *c->results[i].plain = NULL;
    c->results[c->n_results++] = fused_result{*plain, n_cols, stride, plain, handoff};
}

/* Whether the norm's result can be made by the blocks that multiply it. */
static bool take_norm(const ln_op_norm *p, const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                      ln_decode_linear *l) {
    const ln_op_linear *linear = &ops->linear;
    size_t dim = p->norm->dim;
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].linear.out == p->x || ops[i].linear.out == p->out ||
            ops[i].linear.residual == p->out)
            return false;
    if (linear->x != p->out || p->out == p->x || p->residual != NULL ||
        p->n_rows != linear->n_rows || l->n_cols != dim || l->stride != dim ||
        ln_weight_tile_padded_cols((int)linear->weight->layout, dim) != dim || !ln_norm_converts(p))
        return false;
    l->x = p->x;
    l->normalizes = true;
    l->norm = *p->norm;
    l->rows = p->rows != NULL ? step->batch.logit_rows : NULL;
    l->normed = p->out;
    return true;
}

/* Has linears find what they read, and notes what they leave. */
static bool pass_linears(fused_plan *c, ln_decode_linear *l) {
    if (l->normalizes && !can_leave(c, l->normed, l->n_cols, l->n_cols))
        return false;
    for (unsigned i = 0; i < l->n_parts; i++) {
        const ln_epilogue &e = l->parts[i].epilogue;
        if (!can_leave(c, e.out, e.n_out, e.out_stride))
            return false;
    }
    ln_epilogue *e = &l->parts[0].epilogue;
    if (!find_rows(c, &l->x, l->n_cols, l->stride, &l->x_is_handed_off) ||
        (e->residual != NULL &&
         !find_rows(c, &e->residual, e->n_out, e->n_out, &l->residual_is_handed_off)))
        return false;
    if (l->normalizes)
        leave_rows(c, l->n_cols, l->n_cols, &l->normed, &l->normed_handoff);
    for (unsigned i = 0; i < l->n_parts; i++) {
        e = &l->parts[i].epilogue;
        leave_rows(c, e->n_out, e->out_stride, &e->out, &l->handoff[i]);
    }
    return true;
}

static bool takes_kind(int kind) {
    return kind == LN_LAYOUT_BF16 || kind == LN_LAYOUT_INT8 || kind == LN_LAYOUT_INT4 ||
           ln_weight_tile_dequantizes_to_f16(kind);
}

/* Adds linears, behind a norm unless that is NULL. */
static bool add_linears(fused_plan *c, const ln_op_norm *norm, const ln_op *ops, size_t n_ops,
                        const ln_cuda_step *step) {
    const ln_op_linear *p = &ops->linear;
    int kind = ln_decode_kind((int)p->weight->layout);
    ln_decode_args *args = &c->args;
    if (!takes_kind(kind) || args->n_linears == LN_DECODE_MAX_LINEARS || p->rows_per_x > 1 ||
        p->n_rows > MAX_ROWS || (args->n_tasks > 0 && p->n_rows != args->n_rows) ||
        (args->n_linears > 0 && kind != c->kind))
        return false;
    ln_decode_linear *l = &args->linears[args->n_linears];
    *l = {};
    l->n_parts = (unsigned)n_ops;
    l->n_cols = (unsigned)p->weight->n_cols;
    l->stride = p->x_stride > 0 ? (unsigned)p->x_stride : l->n_cols;
    l->k_tiles = (unsigned)(ln_weight_tile_padded_cols(kind, p->weight->n_cols) / ln_weight_tile_cols(kind));
    l->has_gate = p->gate != NULL;
    l->x = p->x;
    for (size_t i = 0; i < n_ops; i++) {
        l->parts[i] = ln_gemm_make_part(&ops[i].linear);
        l->precise |= l->parts[i].precise;
        l->n_output_tiles += ln_ceil_div(l->parts[i].epilogue.n_out, LN_WEIGHT_TILE_ROWS);
    }
    if (norm != NULL && !take_norm(norm, ops, n_ops, step, l))
        return false;
    if (l->n_cols % 4 != 0 || l->stride % 4 != 0 || (uintptr_t)l->x % 16 != 0)
        return false;
    c->kind = kind;
    args->n_rows = (unsigned)p->n_rows;
    size_t sums_bytes = ln_decode_reduction_floats(args->n_rows, l->has_gate) * sizeof(float);
    if (!make_room(c, sums_bytes + x_bytes(kind, p->n_rows, l)))
        return false;
    if (!pass_linears(c, l))
        return false;
    ln_decode_weight_tiles *w = &args->weights[args->n_linears];
    *w = {};
    w->gate = l->parts[0].gate;
    w->k_tiles = l->k_tiles;
    for (size_t i = 0, end = 0; i < LN_GEMM_MAX_PARTS; i++) {
        end += i < n_ops ? ln_ceil_div(l->parts[i].epilogue.n_out, LN_WEIGHT_TILE_ROWS) : 0;
        w->parts[i] = i < n_ops ? l->parts[i].weight : NULL;
        w->tile_ends[i] = (unsigned)end;
        w->kinds[i] = l->parts[i].kind;
    }
    args->is_attention[args->n_tasks++] = 0;
    args->n_linears++;
    return true;
}

static size_t attention_bytes(size_t head_dim, unsigned heads_per_kv) {
    return head_dim == 64 ? ln_decode_attention_bytes<64>(heads_per_kv)
                          : ln_decode_attention_bytes<128>(heads_per_kv);
}

/* Has attention find q, k and v, and notes what it leaves. */
static bool pass_attention(fused_plan *c, ln_decode_attention *a) {
    size_t d = a->qkv.kv.k_dim, q_cols = a->qkv.n_heads * d, kv_cols = a->qkv.kv.n_heads * d;
    const float *q = a->qkv.q, *k = a->qkv.k;
    bool has_q, has_k, has_v;
    if (!can_leave(c, a->mma.a.out, q_cols, q_cols) || !find_rows(c, &q, q_cols, q_cols, &has_q) ||
        !find_rows(c, &k, kv_cols, kv_cols, &has_k) ||
        !find_rows(c, &a->qkv.v, kv_cols, kv_cols, &has_v) || !has_q || !has_k || !has_v)
        return false;
    a->qkv.q = (float *)q;
    a->qkv.k = (float *)k;
    leave_rows(c, q_cols, q_cols, &a->mma.a.out, &a->handoff);
    return true;
}

/* Adds the end of q, k and v and the attention behind it. */
static bool add_attention(fused_plan *c, const ln_op_qkv *qkv, const ln_op_attention *p,
                          const ln_cuda_step *step) {
    ln_decode_args *args = &c->args;
    const ln_kv_layer *kv = p->kv;
    size_t d = kv->k_dim;
    if (args->n_attentions == LN_DECODE_MAX_ATTENTIONS || args->n_tasks == 0 ||
        step->batch.n_tokens != args->n_rows || step->least_tokens != 1 || step->most_tokens != 1 ||
        step->shares_new || qkv->kv != kv || qkv->q != p->q || p->sees_all ||
        qkv->n_heads != p->n_heads || qkv->qk_norm == LN_QK_NORM_FULL)
        return false;
    if ((d != 64 && d != 128) || kv->dtype != LN_KV_F16 ||
        (args->n_attentions > 0 && d != c->head_dim) || !ln_takes_mma_attention(p, step))
        return false;
    ln_decode_attention *a = &args->attentions[args->n_attentions];
    ln_attention_args plain = ln_make_attention_args(p, step);
    a->qkv = ln_make_qkv_args(qkv, step);
    a->mma = ln_make_mma_attention_args(&plain, step);
    if (!a->mma.uses_split_kv || a->mma.heads_per_kv > LN_DECODE_MAX_HEADS ||
        !make_room(c, attention_bytes(d, a->mma.heads_per_kv)))
        return false;
    a->handoff = NULL;
    if (!pass_attention(c, a))
        return false;
    c->head_dim = d;
    args->is_attention[args->n_tasks++] = 1;
    args->n_attentions++;
    return true;
}

/* Puts the longest fused_plan together; the number of its operations. */
static size_t build(fused_plan *c, const ln_op *ops, size_t n_ops, const ln_cuda_step *step) {
    c->args.n_rows = c->args.n_linears = c->args.n_attentions = c->args.n_tasks = 0;
    c->work_bytes = c->head_dim = c->n_results = 0;
    c->args.n_handoff_floats = 0;
    c->args.barrier_count = step->fused_workspace;
    c->args.handoff = (float *)((char *)step->fused_workspace + COUNTER_BYTES);
    if (step->fused_workspace == NULL || !ln_has_sm90a_code())
        return 0;
    for (size_t i = 0, n;;) {
        const ln_op *op = &ops[i];
        size_t left = n_ops - i;
        bool added = false;
        if (left > 1 && op->kind == LN_OP_NORM) {
            n = ln_gemm_count_fusable(op + 1, left - 1, true);
            added = n > 0 && add_linears(c, &op->norm, op + 1, n++, step);
        } else if (left > 1 && op->kind == LN_OP_QKV && op[1].kind == LN_OP_ATTENTION) {
            added = add_attention(c, &op->qkv, &op[1].attention, step);
            n = 2;
        } else if (left > 0) {
            n = ln_gemm_count_fusable(op, left, true);
            added = n > 0 && add_linears(c, NULL, op, n, step);
        }
        if (!added)
            return i;
        i += n;
    }
}

size_t ln_cuda_fused_decode_ops(const ln_op *ops, size_t n_ops, const ln_cuda_step *step) {
    if (ops->kind != LN_OP_NORM && ops->kind != LN_OP_LINEAR)
        return 0;
    fused_plan c;
    return build(&c, ops, n_ops, step);
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND, int D, bool ONE> static int launch(fused_plan *c, cudaStream_t stream) {
    unsigned n_sms;
    ln_decode_args *args = &c->args;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(fused_decode<KIND, D, ONE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (code != 0)
        return code;
    args->n_stages = (unsigned)stages_beside(c, c->work_bytes);
    args->work_offset = (unsigned)(args->n_stages * LN_DECODE_WARPS * ln_decode_stage_bytes(KIND));
    args->plan_offset = args->work_offset + (unsigned)align_up(c->work_bytes);
    args->barriers_offset = args->plan_offset + (unsigned)PLAN_BYTES;
    /* all of it, so that blocks do not share a multiprocessor */
    return ln_pdl_launch(fused_decode<KIND, D, ONE>, dim3(n_sms), LN_DECODE_THREADS,
                     SHARED_BYTES, stream, *args);
}

template <int KIND, int D> static int launch_rows(fused_plan *c, cudaStream_t stream) {
    return c->args.n_rows == 1 ? launch<KIND, D, true>(c, stream)
                               : launch<KIND, D, false>(c, stream);
}

template <int KIND> static int launch_kind(fused_plan *c, cudaStream_t stream) {
    if (c->args.n_attentions == 0)
        return launch_rows<KIND, 0>(c, stream);
    return c->head_dim == 64 ? launch_rows<KIND, 64>(c, stream)
                             : launch_rows<KIND, 128>(c, stream);
}

int ln_cuda_fused_decode(const ln_op *ops, size_t n_ops, const ln_cuda_step *step, ln_cuda_stream stream) {
    fused_plan c;
    build(&c, ops, n_ops, step);
    switch (c.kind) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(&c, stream);
    case LN_LAYOUT_INT8: return launch_kind<LN_LAYOUT_INT8>(&c, stream);
    case LN_LAYOUT_INT4: return launch_kind<LN_LAYOUT_INT4>(&c, stream);
    default: return launch_kind<LN_LAYOUT_Q4>(&c, stream);
    }
}
