/* Decode as one kernel: norms, linears of tiles and attention for up to four rows of x.
 *
 * Grid: a block of 16 warps on every multiprocessor. A stage is the linears that multiply the same
 * x, after their norm if there is one, or the end of q, k and v with the attention behind. Each
 * block makes x for itself; the weights of all linears of the chain run through rings in shared
 * memory from the start on, whatever stage it is, so that memory is read while blocks wait, and
 * before the kernel in front has ended.
 *
 * Blocks pass results to each other one by one, without barriers between stages. Whoever reads in a
 * stage what was there before the kernel has results to leave in that stage, for which all others
 * wait sooner or later. So a result goes to its place in memory only where no later stage leaves
 * one there, and nothing is written that others still read.
 *
 * Shared memory: rings [16 warps][n_slots][a tile, or several narrow ones]; what a stage works on:
 * a slice's K and V, or the places of sums [2 teams][2], or [4][up, gate], [8 slices][16][n_rows |
 * 1] and x as activations/convert.cuh has it; what is known of the next slice; barriers [16][n_slots]. */
#include "backend/cuda/fused/decode.h"

#include "backend/cuda/fused/decode_attention.cuh"
#include "backend/cuda/fused/decode_linear.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

enum {
    MAX_ROWS = 4,
    DECLARED_BYTES = 36 * 128, /* in the kernel, at most */
    SHARED_BYTES = 227 * 1024 - DECLARED_BYTES,
    MIN_SLOTS = 2,
    PLAN_BYTES = (sizeof(ln_fused_decode_slice_plan<LN_FUSED_DECODE_MAX_HEAD_DIM>) + 127) / 128 * 128,
    COUNTER_BYTES = 128, /* in front of what is passed */
    MAX_PASSED = (LN_FUSED_DECODE_FEW_BYTES - COUNTER_BYTES) / sizeof(float)
};

/* Word `threadIdx.x` of a stage, `linear` and `attention` being the numbers of the next of each. */
static __device__ __forceinline__ uint32_t stage_word(const ln_fused_decode_args &p, unsigned stage,
                                                      unsigned linear, unsigned attention) {
    size_t bytes = sizeof(ln_fused_decode_linear);
    const void *from = &p.linears[linear];
    if (stage < p.n_stages && p.is_attention[stage])
        from = &p.attentions[attention], bytes = sizeof(ln_fused_decode_attention);
    bool is_there = stage < p.n_stages && threadIdx.x < bytes / sizeof(uint32_t);
    return is_there ? ((const uint32_t *)from)[threadIdx.x] : 0;
}

static_assert(sizeof(ln_fused_decode_stage) <= LN_FUSED_DECODE_THREADS * sizeof(uint32_t), "a word a thread");
static_assert(LN_MAX_WARPS * sizeof(float) + LN_FUSED_DECODE_LINEARS * sizeof(ln_fused_decode_weights) +
                      2 * sizeof(ln_fused_decode_stage) + LN_FUSED_DECODE_MEETINGS * sizeof(ln_fused_decode_meeting) <=
                  DECLARED_BYTES,
              "shared memory that the kernel declares");

static __device__ __forceinline__ void put_stage(ln_fused_decode_stage *to, uint32_t word) {
    if (threadIdx.x < sizeof *to / sizeof word)
        ((uint32_t *)to)[threadIdx.x] = word;
}

/* What of a stage, and of the attention behind it, can begin before it has what others leave.
 * `attention`: the number of the next one. */
template <int D>
static __device__ __forceinline__ void expect_stage(const ln_fused_decode_args &p, unsigned number,
                                                    unsigned attention, const ln_fused_decode_stage &stage,
                                                    uint8_t *memory) {
    if constexpr (D > 0) {
        ln_fused_decode_slice_plan<D> &plan = *(ln_fused_decode_slice_plan<D> *)(memory + p.plan_at);
        if (p.is_attention[number])
            ln_fused_decode_expect_slice<D>(p, stage.attention, plan, memory + p.work_at);
        else if (number + 1 < p.n_stages && p.is_attention[number + 1])
            ln_fused_decode_plan_slice<D>(p, p.attentions[attention], plan);
    }
    if (!p.is_attention[number] && threadIdx.x / LN_WARP == LN_FUSED_DECODE_WARPS - 1)
        ln_fused_decode_expect_norm(stage.linear);
}

/* ONE: of one row of x. */
template <int KIND, int D, bool ONE>
static __global__ void __launch_bounds__(LN_FUSED_DECODE_THREADS, 1)
    run_chain(const __grid_constant__ ln_fused_decode_args p) {
    extern __shared__ __align__(128) uint8_t memory[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ ln_fused_decode_weights weights[LN_FUSED_DECODE_LINEARS];
    __shared__ ln_fused_decode_stage stages[2];
    __shared__ ln_fused_decode_meeting meetings[LN_FUSED_DECODE_MEETINGS];
    ln_fused_decode_ring ring;
    ln_fused_decode_met met = {};
    unsigned linear = 0, attention = 0;
    ln_pdl_launch_dependents();
    for (unsigned i = threadIdx.x; i < p.n_linears * sizeof *weights / 4; i += LN_FUSED_DECODE_THREADS)
        ((uint32_t *)weights)[i] = ((const uint32_t *)p.weights)[i];
    put_stage(&stages[0], stage_word(p, 0, 0, 0));
    if (threadIdx.x == 0)
        ln_fused_decode_init_meetings(p.n_rows, meetings);
    __syncthreads();
    ln_fused_decode_begin<KIND>(p, weights, memory, &ring);
    ln_pdl_wait();
    unsigned turn = ln_fused_decode_turn(p.arrived); /* thread 0's is kept */
    ln_forget_passed(p.passed, p.n_passed);
    __syncthreads();
    if (threadIdx.x == 0)
        ln_arrive(p.arrived); /* whom the first stage waits for */
    expect_stage<D>(p, 0, 0, stages[0], memory);
    for (unsigned stage = 0; stage < p.n_stages; stage++) {
        const ln_fused_decode_stage &now = stages[stage % 2];
        bool attends = p.is_attention[stage];
        linear += !attends, attention += attends;
        uint32_t word = stage_word(p, stage + 1, linear, attention); /* arrives in the meantime */
        if (!attends)
            ln_fused_decode_multiply<KIND, ONE>(p, weights, now.linear, memory + p.work_at, shared,
                                         meetings, &ring, &met, stage == 0, &turn);
        else if constexpr (D > 0)
            ln_fused_decode_attend<D>(p, now.attention, *(ln_fused_decode_slice_plan<D> *)(memory + p.plan_at),
                               memory + p.work_at, &turn);
        if (stage + 1 == p.n_stages)
            break;
        put_stage(&stages[(stage + 1) % 2], word);
        __syncthreads();
        expect_stage<D>(p, stage + 1, attention, stages[(stage + 1) % 2], memory);
    }
}

/* ---- what makes a chain ---------------------------------------------------------------------- */

/* Rows that a stage leaves: the arguments that say where, and where for other blocks. */
typedef struct chain_result {
    const float *at;
    size_t n_cols, stride;
    float **plain, **passed;
} chain_result;

/* A chain that is being put together. */
typedef struct chain {
    ln_fused_decode_args args;
    int kind; /* of tiles */
    size_t head_dim;
    size_t work_bytes;
    size_t n_results;
    chain_result results[LN_FUSED_DECODE_LINEARS * (LN_GEMM_MAX_PARTS + 1) + LN_FUSED_DECODE_ATTENTIONS];
} chain;

static size_t align_up(size_t bytes) {
    return (bytes + 127) / 128 * 128;
}

/* Slots of a ring beside so much work memory, with their barriers. */
static size_t slots_beside(const chain *c, size_t work_bytes) {
    size_t rest = align_up(work_bytes) + PLAN_BYTES, most = LN_FUSED_DECODE_MAX_SLOTS;
    size_t per_slot = LN_FUSED_DECODE_WARPS * (ln_fused_decode_slot_bytes(c->kind) + sizeof(uint64_t));
    size_t n = rest < SHARED_BYTES ? (SHARED_BYTES - rest) / per_slot : 0;
    return n < most ? n : most;
}

/* Makes sure of work memory for another stage. */
static bool make_room(chain *c, size_t bytes) {
    if (c->args.n_stages == LN_FUSED_DECODE_STAGES || slots_beside(c, bytes) < MIN_SLOTS)
        return false;
    c->work_bytes = bytes > c->work_bytes ? bytes : c->work_bytes;
    return true;
}

/* Columns of x in shared memory, where rows begin in different banks, and its bytes. */
static size_t x_bytes(int kind, size_t n_rows, ln_fused_decode_linear *l) {
    size_t cols = l->n_tiles * ln_weight_tile_cols(kind) + (ln_weight_tile_has_16_bit_act(kind) ? 32 : 128);
    l->x_cols = (unsigned)cols;
    if (kind == LN_LAYOUT_BF16)
        return n_rows * cols * sizeof(__nv_bfloat16) * (l->precise ? 2 : 1);
    if (ln_weight_tile_dequantizes_to_f16(kind))
        return n_rows * (cols * sizeof(__half) + sizeof(float));
    return n_rows * (cols + cols / LN_SCALE_BLOCK * sizeof(float));
}

/* Whether rows of two kinds lie apart. */
static bool are_apart(const chain *c, const chain_result *r, const float *at, size_t n_cols,
                      size_t stride) {
    size_t last = c->args.n_rows - 1;
    uintptr_t r_end = (uintptr_t)(r->at + last * r->stride + r->n_cols);
    return r_end <= (uintptr_t)at || (uintptr_t)(at + last * stride + n_cols) <= (uintptr_t)r->at;
}

/* Has a stage find rows where blocks of an earlier one pass them, if these leave them. */
static bool find_rows(chain *c, const float **at, size_t n_cols, size_t stride, bool *is_passed) {
    ln_fused_decode_args *args = &c->args;
    *is_passed = false;
    for (size_t i = c->n_results; i-- > 0;) {
        const chain_result *r = &c->results[i];
        if (are_apart(c, r, *at, n_cols, stride))
            continue;
        size_t first = (size_t)(*at - r->at), n = (args->n_rows * r->stride + 3) / 4 * 4;
        if (*at < r->at || first + n_cols > r->n_cols || (uintptr_t)r->at % 16 != 0 ||
            (args->n_rows > 1 && stride != r->stride))
            return false;
        if (*r->passed == NULL && args->n_passed + n > MAX_PASSED)
            return false;
        if (*r->passed == NULL) {
            *r->passed = args->passed + args->n_passed;
            args->n_passed += (unsigned)n;
        }
        *at = *r->passed + first;
        *is_passed = true;
        return true;
    }
    return true;
}

/* Whether rows can be left: others of this place are the same, or none. */
static bool can_leave(const chain *c, const float *at, size_t n_cols, size_t stride) {
    for (size_t i = 0; i < c->n_results; i++) {
        const chain_result *r = &c->results[i];
        bool is_same = r->at == at && r->n_cols == n_cols && r->stride == stride;
        if (!is_same && !are_apart(c, r, at, n_cols, stride))
            return false;
    }
    return true;
}

/* Notes rows that a stage leaves, which earlier ones need not leave there any more. */
static void leave_rows(chain *c, size_t n_cols, size_t stride, float **plain, float **passed) {
    for (size_t i = 0; i < c->n_results; i++)
        if (c->results[i].at == *plain)
            *c->results[i].plain = NULL;
    c->results[c->n_results++] = chain_result{*plain, n_cols, stride, plain, passed};
}

/* Whether the norm's result can be made by the blocks that multiply it. */
static bool take_norm(const ln_op_norm *p, const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                      ln_fused_decode_linear *l) {
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
static bool pass_linears(chain *c, ln_fused_decode_linear *l) {
    if (l->normalizes && !can_leave(c, l->normed, l->n_cols, l->n_cols))
        return false;
    for (unsigned i = 0; i < l->n_parts; i++) {
        const ln_epilogue &e = l->parts[i].epilogue;
        if (!can_leave(c, e.out, e.n_out, e.out_stride))
            return false;
    }
    ln_epilogue *e = &l->parts[0].epilogue;
    if (!find_rows(c, &l->x, l->n_cols, l->stride, &l->x_is_passed) ||
        (e->residual != NULL &&
         !find_rows(c, &e->residual, e->n_out, e->n_out, &l->residual_is_passed)))
        return false;
    if (l->normalizes)
        leave_rows(c, l->n_cols, l->n_cols, &l->normed, &l->passed_normed);
    for (unsigned i = 0; i < l->n_parts; i++) {
        e = &l->parts[i].epilogue;
        leave_rows(c, e->n_out, e->out_stride, &e->out, &l->passed[i]);
    }
    return true;
}

static bool takes_kind(int kind) {
    return kind == LN_LAYOUT_BF16 || kind == LN_LAYOUT_INT8 || kind == LN_LAYOUT_INT4 ||
           ln_weight_tile_dequantizes_to_f16(kind);
}

/* Adds linears, behind a norm unless that is NULL. */
static bool add_linears(chain *c, const ln_op_norm *norm, const ln_op *ops, size_t n_ops,
                        const ln_cuda_step *step) {
    const ln_op_linear *p = &ops->linear;
    int kind = ln_fused_decode_kind((int)p->weight->layout);
    ln_fused_decode_args *args = &c->args;
    if (!takes_kind(kind) || args->n_linears == LN_FUSED_DECODE_LINEARS || p->rows_per_x > 1 ||
        p->n_rows > MAX_ROWS || (args->n_stages > 0 && p->n_rows != args->n_rows) ||
        (args->n_linears > 0 && kind != c->kind))
        return false;
    ln_fused_decode_linear *l = &args->linears[args->n_linears];
    *l = {};
    l->n_parts = (unsigned)n_ops;
    l->n_cols = (unsigned)p->weight->n_cols;
    l->stride = p->x_stride > 0 ? (unsigned)p->x_stride : l->n_cols;
    l->n_tiles = (unsigned)(ln_weight_tile_padded_cols(kind, p->weight->n_cols) / ln_weight_tile_cols(kind));
    l->has_gate = p->gate != NULL;
    l->x = p->x;
    for (size_t i = 0; i < n_ops; i++) {
        l->parts[i] = ln_gemm_make_part(&ops[i].linear);
        l->precise |= l->parts[i].precise;
        l->n_tile_rows += ln_ceil_div(l->parts[i].epilogue.n_out, LN_WEIGHT_TILE_ROWS);
    }
    if (norm != NULL && !take_norm(norm, ops, n_ops, step, l))
        return false;
    if (l->n_cols % 4 != 0 || l->stride % 4 != 0 || (uintptr_t)l->x % 16 != 0)
        return false;
    c->kind = kind;
    args->n_rows = (unsigned)p->n_rows;
    size_t sums_bytes = ln_fused_decode_place_floats(args->n_rows, l->has_gate) * sizeof(float);
    if (!make_room(c, sums_bytes + x_bytes(kind, p->n_rows, l)))
        return false;
    if (!pass_linears(c, l))
        return false;
    ln_fused_decode_weights *w = &args->weights[args->n_linears];
    *w = {};
    w->gate = l->parts[0].gate;
    w->n_tiles = l->n_tiles;
    for (size_t i = 0, end = 0; i < LN_GEMM_MAX_PARTS; i++) {
        end += i < n_ops ? ln_ceil_div(l->parts[i].epilogue.n_out, LN_WEIGHT_TILE_ROWS) : 0;
        w->parts[i] = i < n_ops ? l->parts[i].weight : NULL;
        w->ends[i] = (unsigned)end;
        w->kinds[i] = l->parts[i].kind;
    }
    args->is_attention[args->n_stages++] = 0;
    args->n_linears++;
    return true;
}

static size_t attention_bytes(size_t head_dim, unsigned heads_per_kv) {
    return head_dim == 64 ? ln_fused_decode_slice_bytes<64>(heads_per_kv)
                          : ln_fused_decode_slice_bytes<128>(heads_per_kv);
}

/* Has attention find q, k and v, and notes what it leaves. */
static bool pass_attention(chain *c, ln_fused_decode_attention *a) {
    size_t d = a->qkv.kv.k_dim, q_cols = a->qkv.n_heads * d, kv_cols = a->qkv.kv.n_heads * d;
    const float *q = a->qkv.q, *k = a->qkv.k;
    bool has_q, has_k, has_v;
    if (!can_leave(c, a->fast.a.out, q_cols, q_cols) || !find_rows(c, &q, q_cols, q_cols, &has_q) ||
        !find_rows(c, &k, kv_cols, kv_cols, &has_k) ||
        !find_rows(c, &a->qkv.v, kv_cols, kv_cols, &has_v) || !has_q || !has_k || !has_v)
        return false;
    a->qkv.q = (float *)q;
    a->qkv.k = (float *)k;
    leave_rows(c, q_cols, q_cols, &a->fast.a.out, &a->passed);
    return true;
}

/* Adds the end of q, k and v and the attention behind it. */
static bool add_attention(chain *c, const ln_op_qkv *qkv, const ln_op_attention *p,
                          const ln_cuda_step *step) {
    ln_fused_decode_args *args = &c->args;
    const ln_kv_layer *kv = p->kv;
    size_t d = kv->k_dim;
    if (args->n_attentions == LN_FUSED_DECODE_ATTENTIONS || args->n_stages == 0 ||
        step->batch.n_tokens != args->n_rows || step->least_tokens != 1 || step->most_tokens != 1 ||
        step->shares_new || qkv->kv != kv || qkv->q != p->q || p->sees_all ||
        qkv->n_heads != p->n_heads || qkv->qk_norm == LN_QK_NORM_FULL)
        return false;
    if ((d != 64 && d != 128) || kv->dtype != LN_KV_F16 ||
        (args->n_attentions > 0 && d != c->head_dim) || !ln_takes_mma_attention(p, step))
        return false;
    ln_fused_decode_attention *a = &args->attentions[args->n_attentions];
    ln_attention_args plain = ln_make_attention_args(p, step);
    a->qkv = ln_make_qkv_args(qkv, step);
    a->fast = ln_make_mma_attention_args(&plain, step);
    if (!a->fast.splits || a->fast.heads_per_kv > LN_FUSED_DECODE_MAX_HEADS ||
        !make_room(c, attention_bytes(d, a->fast.heads_per_kv)))
        return false;
    a->passed = NULL;
    if (!pass_attention(c, a))
        return false;
    c->head_dim = d;
    args->is_attention[args->n_stages++] = 1;
    args->n_attentions++;
    return true;
}

/* Puts the longest chain together; the number of its operations. */
static size_t build(chain *c, const ln_op *ops, size_t n_ops, const ln_cuda_step *step) {
    c->args.n_rows = c->args.n_linears = c->args.n_attentions = c->args.n_stages = 0;
    c->work_bytes = c->head_dim = c->n_results = 0;
    c->args.n_passed = 0;
    c->args.arrived = step->arrived;
    c->args.passed = (float *)((char *)step->arrived + COUNTER_BYTES);
    if (step->arrived == NULL || !ln_has_sm90a_code())
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
    chain c;
    return build(&c, ops, n_ops, step);
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND, int D, bool ONE> static int launch(chain *c, cudaStream_t stream) {
    unsigned n_cores;
    ln_fused_decode_args *args = &c->args;
    int code = ln_count_sms(&n_cores);
    if (code == 0)
        code = cudaFuncSetAttribute(run_chain<KIND, D, ONE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (code != 0)
        return code;
    args->n_slots = (unsigned)slots_beside(c, c->work_bytes);
    args->work_at = (unsigned)(args->n_slots * LN_FUSED_DECODE_WARPS * ln_fused_decode_slot_bytes(KIND));
    args->plan_at = args->work_at + (unsigned)align_up(c->work_bytes);
    args->barriers_at = args->plan_at + (unsigned)PLAN_BYTES;
    /* all of it, so that blocks do not share a multiprocessor */
    return ln_pdl_launch(run_chain<KIND, D, ONE>, dim3(n_cores), LN_FUSED_DECODE_THREADS,
                     SHARED_BYTES, stream, *args);
}

template <int KIND, int D> static int launch_rows(chain *c, cudaStream_t stream) {
    return c->args.n_rows == 1 ? launch<KIND, D, true>(c, stream)
                               : launch<KIND, D, false>(c, stream);
}

template <int KIND> static int launch_kind(chain *c, cudaStream_t stream) {
    if (c->args.n_attentions == 0)
        return launch_rows<KIND, 0>(c, stream);
    return c->head_dim == 64 ? launch_rows<KIND, 64>(c, stream)
                             : launch_rows<KIND, 128>(c, stream);
}

int ln_cuda_fused_decode(const ln_op *ops, size_t n_ops, const ln_cuda_step *step, ln_cuda_stream stream) {
    chain c;
    build(&c, ops, n_ops, step);
    switch (c.kind) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(&c, stream);
    case LN_LAYOUT_INT8: return launch_kind<LN_LAYOUT_INT8>(&c, stream);
    case LN_LAYOUT_INT4: return launch_kind<LN_LAYOUT_INT4>(&c, stream);
    default: return launch_kind<LN_LAYOUT_Q4>(&c, stream);
    }
}
