/* What the kernels for many rows share: blocks that stay and take one tile of results after
 * another, the ring of stages that their copies fill, and how results are written, through shared
 * memory, so that rows are written in order.
 *
 * GROUPS groups of four warps multiply; one more brings what they read. A tile of results has
 * COLUMNS of them (half as many with a gate, when half of the warps have the gate's) of PANEL rows:
 * warp `warp` of those that multiply has columns 16 * warp + lane / 4 (+ 8), and of x rows
 * 8 j + 2 (lane % 4) (+ 1), as [j][columns][rows]. */
#ifndef LN_BACKEND_CUDA_GEMM_SCHEDULER_CUH
#define LN_BACKEND_CUDA_GEMM_SCHEDULER_CUH

#include "backend/cuda/runtime/sm_count.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

#ifndef LN_JOB_GROUPS /* two, with more registers each, or three */
#define LN_JOB_GROUPS 3
#endif
enum { GROUPS = LN_JOB_GROUPS, GROUP_THREADS = 4 * LN_WARP };
enum { WARPS = 4 * GROUPS, WORKERS = WARPS * LN_WARP, GEMM_THREADS = WORKERS + GROUP_THREADS };
enum { REGISTERS = GROUPS == 2 ? 240 : 160, FEW_REGISTERS = GROUPS == 2 ? 24 : 32 };
enum { COLUMNS = 64 * GROUPS, MAX_SHARED = 226 * 1024 };
enum { OUT_ROWS = 16, OUT_STRIDE = 20, OUT_FLOATS = OUT_ROWS * OUT_STRIDE }; /* of a warp */
enum { OUT_BYTES = WARPS * OUT_FLOATS * 4 };

/* A row of tiles after another, in boxes of `rows` of them and a tile of columns. */
static int map_tiles(int kind, const ln_gemm_args &args, const uint8_t *matrix, size_t n_out,
                     unsigned rows, CUtensorMap *map) {
    unsigned tile_bytes = (unsigned)ln_weight_tile_bytes(kind);
    ln_tensor tensor = {};
    tensor.data = (void *)matrix;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 3;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)args.n_tiles * (tile_bytes / 128);
    tensor.dims[2] = ln_ceil_div(n_out, LN_WEIGHT_TILE_ROWS);
    tensor.strides[1] = ln_weight_tile_row_bytes(kind, args.n_tiles);
    tensor.box[1] = tile_bytes / 128;
    tensor.box[2] = rows;
    return ln_tensor_map(&tensor, map);
}

/* Rows of 128 bytes that follow each other, of which each tile of columns has `box`. */
static int map_rows(const void *data, size_t n_rows, unsigned box, CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = (void *)data;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 2;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = n_rows;
    tensor.box[1] = box;
    return ln_tensor_map(&tensor, map);
}

/* Of all matrices. */
static inline int map_weights(int kind, const ln_gemm_args &args, CUtensorMap *weights,
                              CUtensorMap *gate) {
    const ln_gemm_part *parts = args.parts;
    unsigned rows = WARPS / (parts[0].gate != NULL ? 2 : 1);
    int code = 0;
    for (unsigned i = 0; i < args.n_parts && code == 0; i++)
        code = map_tiles(kind, args, parts[i].weight, parts[i].epilogue.n_out, rows, &weights[i]);
    if (code == 0 && parts[0].gate != NULL)
        code = map_tiles(kind, args, parts[0].gate, parts[0].epilogue.n_out, rows, gate);
    return code;
}

static inline unsigned count_jobs(const ln_gemm_args &p, unsigned panel) {
    return ln_gemm_output_tiles(p, COLUMNS / (p.parts[0].gate != NULL ? 2 : 1)) *
           ln_ceil_div(p.n_rows, panel);
}

/* Queues a kernel, a block per core or per job, or so many blocks per job. */
template <typename T>
static int launch_jobs(void (*kernel)(T), const T &g, unsigned panel, unsigned shared_bytes,
                       cudaStream_t stream, unsigned n_shares = 1) {
    unsigned n_cores;
    int code = ln_count_sms(&n_cores);
    if (code == 0)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)shared_bytes);
    if (code != 0)
        return code;
    dim3 grid(min(count_jobs(g.p, panel) * n_shares, n_cores));
    return ln_pdl_launch(kernel, grid, GEMM_THREADS, shared_bytes, stream, g);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

enum { MAX_STAGES = 8 };

typedef struct pipe {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
    uint64_t led; /* a phase for each job: the first group of warps has begun it */
} pipe;

typedef struct place { /* in the ring of stages */
    unsigned stage, parity;
} place;

template <unsigned N> static __device__ __forceinline__ void advance(place &at) {
    if (++at.stage == N)
        at.stage = 0, at.parity ^= 1;
}

/* Which results a block makes: a panel of x, a part of the linears and a block of its columns. */
typedef struct job {
    unsigned panel, part, block;
} job;

/* Neighbours have different rows and the same columns, so that weights are read once. */
template <int PANEL, bool GATE>
static __device__ __forceinline__ bool find_job(const ln_gemm_args &p, unsigned number, job &out) {
    constexpr unsigned OWN = COLUMNS / (GATE ? 2 : 1);
    unsigned n_panels = ((unsigned)p.n_rows + PANEL - 1) / PANEL;
    out.panel = number % n_panels;
    out.block = number / n_panels;
    for (out.part = 0; out.part < p.n_parts; out.part++) {
        unsigned n = ((unsigned)p.parts[out.part].epilogue.n_out + OWN - 1) / OWN;
        if (out.block < n)
            return true;
        out.block -= n;
    }
    return false;
}

/* The scales of the rows that a warp has the tiles of, in a block of the columns of n_out. */
template <int KIND, bool GATE>
static __device__ __forceinline__ const float *find_row_scales(const uint8_t *weight,
                                                               const uint8_t *gate, size_t n_out,
                                                               unsigned n_tiles, unsigned block) {
    constexpr unsigned ROWS = WARPS / (GATE ? 2 : 1);
    unsigned warp = threadIdx.x / LN_WARP, tile_row = block * ROWS + warp % ROWS;
    unsigned last = ((unsigned)n_out - 1) / LN_WEIGHT_TILE_ROWS;
    const uint8_t *tiles = GATE && warp < ROWS ? gate : weight;
    return ln_weight_tile_row_scales(KIND, tiles + min(tile_row, last) * ln_weight_tile_row_bytes(KIND, n_tiles),
                              n_tiles);
}

template <int KIND, bool GATE>
static __device__ __forceinline__ const float *find_row_scales(const ln_gemm_args &p,
                                                               const job &job) {
    const ln_gemm_part &part = p.parts[job.part];
    return find_row_scales<KIND, GATE>(part.weight, part.gate, part.epilogue.n_out, p.n_tiles,
                                       job.block);
}

static __device__ __forceinline__ void release(uint64_t *empty, unsigned lane) {
    if (lane == 0)
        ln_mbarrier_arrive(empty);
}

/* Before all else: the barriers of a ring of n stages. */
static __device__ __forceinline__ void init_pipe(pipe &pipe, unsigned n) {
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < n; i++) {
            ln_mbarrier_init(&pipe.full[i], 1);
            ln_mbarrier_init(&pipe.empty[i], WARPS);
        }
        ln_mbarrier_init(&pipe.led, GROUP_THREADS / LN_WARP);
        ln_fence_mbarrier_init();
    }
    __syncthreads();
}

/* Slices without columns add a zero, which turns -0 into 0. */
template <int N>
static __device__ __forceinline__ void add_empty_slices(unsigned n_tiles, float (&total)[N]) {
    unsigned per_slice = (n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    if ((n_tiles + per_slice - 1) / per_slice < LN_K_SPLITS)
#pragma unroll
        for (int i = 0; i < N; i++)
            total[i] += 0.0f;
}

/* threadIdx.x, in a way that keeps what is made of it from taking registers before. */
static __device__ __forceinline__ unsigned this_thread(void) {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* A warp's sums of eight or sixteen rows to shared memory. */
template <int N = 8>
static __device__ __forceinline__ void put_rows(const float *sums, float *out, unsigned lane) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        unsigned row = i / 4 * 8 + lane % 4 * 2 + i % 2;
        out[row * OUT_STRIDE + lane / 4 + i % 4 / 2 * 8] = sums[i];
    }
}

template <int N, int PASS = 0>
static __device__ __forceinline__ void put_pass(int pass, const float (&total)[N], float *out,
                                                unsigned lane) {
    if (pass == PASS)
        put_rows(total + 8 * PASS, out, lane);
    else if constexpr (8 * (PASS + 1) < N)
        put_pass<N, PASS + 1>(pass, total, out, lane);
}

/* The warps of a pair, one of which has the gate's sums. */
static __device__ __forceinline__ void meet_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* The rows of a tile of results: row i is order[first + i], or first + i * step. */
typedef struct job_rows {
    const int32_t *order; /* or NULL */
    size_t first, step, n;
} job_rows;

static __device__ __forceinline__ size_t find_row(const job_rows &rows, unsigned i) {
    return rows.order != NULL ? (size_t)rows.order[rows.first + i] : rows.first + i * rows.step;
}

/* Results go through shared memory, so that rows are written in order: any epilogue. */
template <int PANEL, bool GATE>
static __device__ __forceinline__ void finish_any(const ln_epilogue &e, unsigned block,
                                                  const job_rows &rows,
                                                  const float (&total)[PANEL / 2], float *outs) {
    constexpr unsigned PAIRS = WARPS / 2, ROWS = GATE ? PAIRS : WARPS;
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    float *own = outs + warp * OUT_FLOATS;
    const float *gates = outs + warp % PAIRS * OUT_FLOATS, *ups = gates + PAIRS * OUT_FLOATS;
    bool is_aligned = ln_epilogue_is_aligned(e);
    size_t column = ((size_t)block * ROWS + warp % ROWS) * LN_WEIGHT_TILE_ROWS + lane % 4 * 4;
#pragma unroll 1
    for (int pass = 0; pass < PANEL / OUT_ROWS; pass++) {
        put_pass(pass, total, own, lane);
        if (GATE)
            meet_pair(warp % PAIRS);
        else
            __syncwarp();
#pragma unroll
        for (unsigned i = 0; i < (GATE ? 1 : 2); i++) {
            unsigned in_pass = (GATE ? warp / PAIRS : i) * 8 + lane / 4;
            unsigned at = in_pass * OUT_STRIDE + lane % 4 * 4;
            const float *u = (GATE ? ups : own) + at, *g = (GATE ? gates : own) + at;
            unsigned number = (unsigned)pass * OUT_ROWS + in_pass;
            if (number >= rows.n || column >= e.n_out)
                continue;
            size_t row = find_row(rows, number);
            if (is_aligned) {
                ln_finish_four(e, row, column, *(const float4 *)u, *(const float4 *)g);
                continue;
            }
#pragma unroll 1
            for (unsigned j = 0; j < 4 && column + j < e.n_out; j++)
                ln_finish(e, row, column + j, u[j], g[j]);
        }
        if (GATE)
            meet_pair(warp % PAIRS);
        else
            __syncwarp();
    }
}

/* What ln_act_store does, by a warp of which four lanes have sixteen columns of a row. */
static __device__ __forceinline__ void put_converted(const ln_act_view &to, size_t row,
                                                     size_t col, const float4 &y, bool is_there) {
    uint32_t low = ln_pack_bf16(y.x, y.y), high = ln_pack_bf16(y.z, y.w);
    bool is_upper = threadIdx.x % 4 >= 2; /* which takes the upper words of both */
    uint32_t other = __shfl_xor_sync(0xffffffffu, is_upper ? low : high, 2);
    unsigned step = (unsigned)col % 64 / 32 * 2 + (unsigned)col % 8 / 4;
    unsigned lane = (unsigned)col % 32 / 16 * 2;
    char *at = (char *)to.bf16 + ln_act_tile_byte(to, row, to.cols / 64, col / 64,
                                               2 * step + is_upper, lane);
    if (is_there)
        *(uint2 *)at = is_upper ? make_uint2(other, high) : make_uint2(low, other);
}

/* Four columns of a row, in rows of bf16. */
static __device__ __forceinline__ void put_plain(const ln_act_view &to, size_t row, size_t col,
                                                 const float4 &y) {
    *(uint2 *)(to.bf16 + row * to.cols + col) =
        make_uint2(ln_pack_bf16(y.x, y.y), ln_pack_bf16(y.z, y.w));
}

/* What ln_epilogue_value is then, but for rounding. */
static __device__ __forceinline__ float plain_value(const ln_epilogue &e, float u, float bias,
                                                    float residual) {
    float y = e.scale * (e.bias != NULL ? u + bias : u);
    return e.residual != NULL ? residual + y : y;
}

/* Writes scale * sums of 8 * EIGHTS rows, with bias and residual, HELD rows of which are loaded at
 * once. */
template <int EIGHTS, bool GATE>
static __device__ __forceinline__ void write_rows(const ln_gemm_args &p, const ln_epilogue &e,
                                                  const float *sums, size_t first, size_t column,
                                                  float *own) {
    enum { HELD = EIGHTS > 26 ? 8 : (EIGHTS + 1) / 2 };
    size_t n_rows = p.n_rows;
    unsigned lane = this_thread() % LN_WARP;
    first += lane / 4;
    unsigned n = column < e.n_out && first < n_rows ? (unsigned)(n_rows - first + 7) / 8 : 0;
    unsigned n_residual = e.residual != NULL ? n : 0;
    const float *from = e.residual + first * e.n_out + column;
    float *to = e.out + first * e.out_stride + column;
    float4 bias = {}, residual[HELD];
    if (e.bias != NULL && n > 0)
        bias = *(const float4 *)(e.bias + column);
#pragma unroll
    for (unsigned i = 0; i < EIGHTS; i++) {
        if (i % HELD == 0)
#pragma unroll
            for (unsigned j = 0; j < HELD; j++)
                residual[j] = i + j < EIGHTS && i + j < n_residual
                                  ? __ldcg((const float4 *)(from + (i + j) * 8 * e.n_out))
                                  : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i % 2 == 0) {
            __syncwarp();
            if (i + 1 < EIGHTS)
                put_rows(sums + i * 4, own, lane);
            else
                put_rows<4>(sums + i * 4, own, lane);
            __syncwarp();
        }
        float4 u = *(const float4 *)(own + (i % 2 * 8 + lane / 4) * OUT_STRIDE + lane % 4 * 4), y;
        float4 r = residual[i % HELD];
        y.x = plain_value(e, u.x, bias.x, r.x);
        y.y = plain_value(e, u.y, bias.y, r.y);
        y.z = plain_value(e, u.z, bias.z, r.z);
        y.w = plain_value(e, u.w, bias.w, r.w);
        if (GATE && e.rounds)
            y.x = ln_round_to_bf16(y.x), y.y = ln_round_to_bf16(y.y),
            y.z = ln_round_to_bf16(y.z), y.w = ln_round_to_bf16(y.w);
        if (i < n && !(GATE && p.leaves_out))
            __stwb((float4 *)(to + i * 8 * e.out_stride), y);
        if (GATE && p.converts && p.to.panel > 0)
            put_converted(p.to, first + i * 8, column, y, i < n);
        else if (GATE && p.converts && i < n)
            put_plain(p.to, first + i * 8, column, y);
    }
    __syncwarp();
}

template <int PANEL>
static __device__ __forceinline__ void finish_plainly(const ln_gemm_args &p, const job &job,
                                                      const float (&total)[PANEL / 2],
                                                      float *outs) {
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    size_t column = ((size_t)job.block * WARPS + warp) * LN_WEIGHT_TILE_ROWS + lane % 4 * 4;
    write_rows<PANEL / 8, false>(p, p.parts[job.part].epilogue, total, (size_t)job.panel * PANEL,
                                 column, outs + warp * OUT_FLOATS);
}

/* The warps of a pair give each other half of their sums: the gate's warp has the upper rows. */
template <int PANEL>
static __device__ __forceinline__ void finish_gated(const ln_gemm_args &p, const job &job,
                                                    const float (&total)[PANEL / 2], float *outs) {
    enum { PAIRS = WARPS / 2, OWN = PANEL / 4, AT_ONCE = 8 };
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP,
             pair = warp % PAIRS;
    const ln_epilogue &e = p.parts[job.part].epilogue;
    bool is_gate = warp < PAIRS;
    float *own = outs + warp * OUT_FLOATS;
    const float *other = outs + (is_gate ? warp + PAIRS : pair) * OUT_FLOATS;
    float y[OWN];
#pragma unroll
    for (int begin = 0; begin < OWN; begin += AT_ONCE) {
#pragma unroll
        for (int i = 0; i < AT_ONCE && begin + i < OWN; i++)
            own[i * LN_WARP + lane] = is_gate ? total[OWN + begin + i] : total[begin + i];
        meet_pair(pair);
#pragma unroll
        for (int i = 0; i < AT_ONCE && begin + i < OWN; i++) {
            float mine = is_gate ? total[begin + i] : total[OWN + begin + i];
            float others = other[i * LN_WARP + lane];
            y[begin + i] =
                ln_gated(LN_ACT_SILU, true, is_gate ? mine : others, is_gate ? others : mine);
        }
        meet_pair(pair);
    }
    size_t column = ((size_t)job.block * PAIRS + pair) * LN_WEIGHT_TILE_ROWS + lane % 4 * 4;
    size_t first = (size_t)job.panel * PANEL + (is_gate ? 0 : PANEL / 2);
    write_rows<PANEL / 16, true>(p, e, y, first, column, own);
}

/* What results will be added to comes to the L2 cache; a warp has 64 bytes of each row. */
template <int PANEL>
static __device__ __forceinline__ void expect_residual(const ln_gemm_args &p, const job &job) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const ln_epilogue &e = p.parts[job.part].epilogue;
    size_t column = ((size_t)job.block * WARPS + warp) * LN_WEIGHT_TILE_ROWS;
    if (e.residual == NULL || column >= e.n_out)
        return;
    for (size_t row = (size_t)job.panel * PANEL + lane, i = 0; i * LN_WARP < PANEL; i++)
        if (row + i * LN_WARP < p.n_rows)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(e.residual +
                                                          (row + i * LN_WARP) * e.n_out + column));
}

/* Writes the results of job `number`, which is found again, and takes no registers before. */
template <int PANEL, bool GATE>
static __device__ __forceinline__ void finish(const ln_gemm_args &p, unsigned &number,
                                              const float (&total)[PANEL / 2], float *outs) {
    job job;
    asm volatile("" : "+r"(number));
    find_job<PANEL, GATE>(p, number, job);
    size_t first = (size_t)job.panel * PANEL;
    job_rows rows = {NULL, first, 1, p.n_rows - first};
    if (!ln_epilogue_is_plain(p.parts[job.part].epilogue))
        finish_any<PANEL, GATE>(p.parts[job.part].epilogue, job.block, rows, total, outs);
    else if (GATE)
        finish_gated<PANEL>(p, job, total, outs);
    else
        finish_plainly<PANEL>(p, job, total, outs);
}

#endif

#endif
