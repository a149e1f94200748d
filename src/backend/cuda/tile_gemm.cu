/* y = x W^T with its epilogue, W in tiles of BF16, for many rows of x, on WGMMA: the tiles are the
 * A operand, from registers, and x, in panels of 128 rows, the B operand. The order of every sum is
 * that of tile_linear.
 *
 * Grid: a block per core, which takes one tile of results after another, COLUMNS of them (half as
 * many with a gate, when half of the warps have the gate's) of 128 rows. Block: GROUPS groups of
 * four warps that multiply, and one whose first thread brings what they read by tensor copies, in
 * stages of one tile of columns, also while the results of the tile before are written. Shared
 * memory: the stages, and for each warp sixteen rows of its results on their way out. */
#include "backend/cuda/tile_args.cuh"
#include "backend/cuda/wgmma.cuh"

enum { GROUPS = 3, GROUP_THREADS = 4 * LN_WARP, WARPS = 4 * GROUPS, WORKERS = WARPS * LN_WARP };
enum { GEMM_THREADS = WORKERS + GROUP_THREADS, REGISTERS = 160, FEW_REGISTERS = 32 };
enum { PANEL = LN_TILE_PANEL(LN_TILE_BF16), COLUMNS = 64 * GROUPS, TILE_BYTES = 2048 };
enum { X_BYTES = PANEL * 128, W_BYTES = WARPS * TILE_BYTES, MAX_SHARED = 226 * 1024 };
enum { OUT_ROWS = 16, OUT_STRIDE = 20, OUT_FLOATS = OUT_ROWS * OUT_STRIDE }; /* of a warp */
enum { OUT_BYTES = WARPS * OUT_FLOATS * 4 };

/* A stage: x, with PRECISE what rounding left of it, and the tiles of each warp. */
template <bool PRECISE> struct stage_shape {
    static constexpr unsigned TILES_AT = X_BYTES * (PRECISE ? 2 : 1), BYTES = TILES_AT + W_BYTES;
    static constexpr unsigned N_STAGES = (MAX_SHARED - OUT_BYTES) / BYTES;
    static constexpr unsigned SHARED = N_STAGES * BYTES + OUT_BYTES;
};

/* What is multiplied, as tensors of rows of 128 bytes. */
typedef struct gemm_args {
    ln_tile_args p;
    CUtensorMap x, rest, gate, weights[LN_TILE_MAX_PARTS];
} gemm_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

enum { MAX_STAGES = 8 };

typedef struct pipe {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
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
template <bool GATE>
static __device__ __forceinline__ bool find_job(const ln_tile_args &p, unsigned number, job &out) {
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

/* Brings stage after stage for one job after another; by one thread. */
template <bool GATE, bool PRECISE>
static __device__ void bring(const gemm_args &g, char *stages, pipe &pipe) {
    typedef stage_shape<PRECISE> shape;
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    job job;
    for (unsigned number = blockIdx.x; find_job<GATE>(g.p, number, job); number += gridDim.x) {
        int row = (int)(job.block * TILES), x_at = (int)(job.panel * g.p.n_tiles * PANEL);
        for (unsigned tile = 0; tile < g.p.n_tiles; tile++, x_at += PANEL) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * shape::BYTES, *w = x + shape::TILES_AT;
            int tile_at = (int)(tile * (TILE_BYTES / 128));
            ln_barrier_wait(&pipe.empty[at.stage], at.parity);
            ln_barrier_expect(full, shape::BYTES);
            if (GATE)
                ln_copy_box(w, &g.gate, 0, tile_at, row, full);
            ln_copy_box(w + W_BYTES - TILES * TILE_BYTES, &g.weights[job.part], 0, tile_at, row,
                        full);
            ln_copy_box(x, &g.x, 0, x_at, full);
            if (PRECISE)
                ln_copy_box(x + X_BYTES, &g.rest, 0, x_at, full);
            advance<shape::N_STAGES>(at);
        }
    }
}

static __device__ __forceinline__ void release(uint64_t *empty, unsigned lane) {
    if (lane == 0)
        ln_barrier_arrive(empty);
}

/* A warp's weights of a step of 16 columns. */
static __device__ __forceinline__ uint4 load_step(const char *w, int step) {
    return *(const uint4 *)(w + step * 512);
}

/* Sums of a tile of results: warp `warp` has columns 16 * warp + lane / 4 (+ 8), and of x rows
 * 8 j + 2 (lane % 4) (+ 1). A tile of columns is two groups of products; while one is under way the
 * weights of the next come to registers. */
template <bool PRECISE>
static __device__ __forceinline__ void multiply(const ln_tile_args &p, bool precise,
                                                const char *stages, pipe &pipe, place &at,
                                                float total[64]) {
    typedef stage_shape<PRECISE> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    const char *weights = stages + shape::TILES_AT + warp * TILE_BYTES + lane * 16;
    float sum[64];
    uint4 a[4];
#pragma unroll
    for (int i = 0; i < 64; i++)
        total[i] = -0.0f; /* -0 + x is x */
    ln_barrier_wait(&pipe.full[at.stage], at.parity);
    a[0] = load_step(weights + at.stage * shape::BYTES, 0);
    a[1] = load_step(weights + at.stage * shape::BYTES, 1);
    for (unsigned begin = 0; begin < p.n_tiles; begin += per_slice) {
        unsigned end = min(begin + per_slice, p.n_tiles), last = 0;
#pragma unroll
        for (int i = 0; i < 64; i++)
            sum[i] = 0.0f;
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            const char *x = stages + at.stage * shape::BYTES;
            const char *w = weights + at.stage * shape::BYTES;
            ln_wgmma_fence();
            ln_wgmma_bf16(sum, a[0], ln_wgmma_rows(x));
            ln_wgmma_bf16(sum, a[1], ln_wgmma_rows(x + 32));
            ln_wgmma_commit();
            ln_wgmma_wait<1>(); /* the last tile's second half */
            ln_wgmma_keep(a[2]);
            ln_wgmma_keep(a[3]);
            if (tile > begin)
                release(&pipe.empty[last], lane);
            a[2] = load_step(w, 2);
            a[3] = load_step(w, 3);
            ln_wgmma_fence();
            ln_wgmma_bf16(sum, a[2], ln_wgmma_rows(x + 64));
            ln_wgmma_bf16(sum, a[3], ln_wgmma_rows(x + 96));
            if constexpr (PRECISE) {
                if (precise) {
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        ln_wgmma_bf16(sum, a[i], ln_wgmma_rows(x + X_BYTES + i * 32));
                }
                ln_wgmma_commit();
                ln_wgmma_wait<0>();
            } else {
                ln_wgmma_commit();
                ln_wgmma_wait<1>();
            }
            ln_wgmma_keep(a[0]);
            ln_wgmma_keep(a[1]);
            last = at.stage;
            advance<shape::N_STAGES>(at);
            if (tile + 1 < p.n_tiles) {
                ln_barrier_wait(&pipe.full[at.stage], at.parity);
                a[0] = load_step(weights + at.stage * shape::BYTES, 0);
                a[1] = load_step(weights + at.stage * shape::BYTES, 1);
            }
        }
        ln_wgmma_wait<0>();
        ln_wgmma_keep(sum);
        ln_wgmma_keep(a[2]);
        ln_wgmma_keep(a[3]);
        release(&pipe.empty[last], lane);
#pragma unroll
        for (int i = 0; i < 64; i++)
            total[i] += sum[i];
    }
    /* Slices without columns add a zero, which turns -0 into 0. */
    if ((p.n_tiles + per_slice - 1) / per_slice < LN_TILE_SLICES)
#pragma unroll
        for (int i = 0; i < 64; i++)
            total[i] += 0.0f;
}

/* threadIdx.x, in a way that keeps what is made of it from taking registers before. */
static __device__ __forceinline__ unsigned this_thread(void) {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* A warp's sums of sixteen rows to shared memory. */
static __device__ __forceinline__ void put_rows(const float *sums, float *out, unsigned lane) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        unsigned row = i / 4 * 8 + lane % 4 * 2 + i % 2;
        out[row * OUT_STRIDE + lane / 4 + i % 4 / 2 * 8] = sums[i];
    }
}

static __device__ __forceinline__ void put_pass(int pass, const float total[64], float *out,
                                                unsigned lane) {
    switch (pass) {
    case 0: put_rows(total, out, lane); return;
    case 1: put_rows(total + 8, out, lane); return;
    case 2: put_rows(total + 16, out, lane); return;
    case 3: put_rows(total + 24, out, lane); return;
    case 4: put_rows(total + 32, out, lane); return;
    case 5: put_rows(total + 40, out, lane); return;
    case 6: put_rows(total + 48, out, lane); return;
    default: put_rows(total + 56, out, lane); return;
    }
}

/* The warps of a pair, one of which has the gate's sums. */
static __device__ __forceinline__ void meet_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* Results go through shared memory, so that rows are written in order: any epilogue. */
template <bool GATE>
static __device__ __forceinline__ void finish(const ln_tile_args &p, const job &job,
                                              const float total[64], float *outs) {
    constexpr unsigned PAIRS = WARPS / 2, ROWS = GATE ? PAIRS : WARPS;
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    const ln_epilogue &e = p.parts[job.part].epilogue;
    float *own = outs + warp * OUT_FLOATS;
    const float *gates = outs + warp % PAIRS * OUT_FLOATS, *ups = gates + PAIRS * OUT_FLOATS;
    bool is_aligned = ln_epilogue_is_aligned(e);
    size_t column = ((size_t)job.block * ROWS + warp % ROWS) * LN_TILE_ROWS + lane % 4 * 4;
#pragma unroll 1
    for (int pass = 0; pass < PANEL / OUT_ROWS; pass++) {
        put_pass(pass, total, own, lane);
        if (GATE)
            meet_pair(warp % PAIRS);
        else
            __syncwarp();
        size_t first = (size_t)job.panel * PANEL + (unsigned)pass * OUT_ROWS;
#pragma unroll
        for (unsigned i = 0; i < (GATE ? 1 : 2); i++) {
            unsigned row = (GATE ? warp / PAIRS : i) * 8 + lane / 4;
            unsigned at = row * OUT_STRIDE + lane % 4 * 4;
            const float *u = (GATE ? ups : own) + at, *g = (GATE ? gates : own) + at;
            if (first + row >= p.n_rows || column >= e.n_out)
                continue;
            if (is_aligned) {
                ln_finish_four(e, first + row, column, *(const float4 *)u, *(const float4 *)g);
                continue;
            }
#pragma unroll 1
            for (unsigned j = 0; j < 4 && column + j < e.n_out; j++)
                ln_finish(e, first + row, column + j, u[j], g[j]);
        }
        if (GATE)
            meet_pair(warp % PAIRS);
        else
            __syncwarp();
    }
}

/* Whether finish_plainly, or finish_gated, will do. */
static __device__ __forceinline__ bool is_plain(const ln_epilogue &e) {
    bool is_bare = e.bias == NULL && e.gate_bias == NULL && e.residual == NULL;
    bool suits = e.has_gate ? e.activation == LN_ACT_SILU && is_bare : e.activation == LN_ACT_NONE;
    return suits && e.softcap <= 0.0f && ln_epilogue_is_aligned(e);
}

/* What ln_epilogue_value is then. */
static __device__ __forceinline__ float plain_value(const ln_epilogue &e, float u, float bias,
                                                    float residual) {
    float y = e.scale * (e.bias != NULL ? u + bias : u);
    return e.residual != NULL ? residual + y : y;
}

/* Writes scale * sums of 16 * PASSES rows, with bias and residual, HELD rows of which are loaded at
 * once. */
template <int PASSES>
static __device__ __forceinline__ void write_rows(const ln_epilogue &e, const float *sums,
                                                  size_t first, size_t n_rows, size_t column,
                                                  float *own) {
    enum { HELD = 8 };
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
    for (unsigned i = 0; i < 2 * PASSES; i++) {
        if (i % HELD == 0)
#pragma unroll
            for (unsigned j = 0; j < HELD; j++)
                residual[j] = i + j < n_residual
                                  ? __ldcg((const float4 *)(from + (i + j) * 8 * e.n_out))
                                  : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i % 2 == 0) {
            __syncwarp();
            put_rows(sums + i * 4, own, lane);
            __syncwarp();
        }
        float4 u = *(const float4 *)(own + (i % 2 * 8 + lane / 4) * OUT_STRIDE + lane % 4 * 4), y;
        float4 r = residual[i % HELD];
        y.x = plain_value(e, u.x, bias.x, r.x);
        y.y = plain_value(e, u.y, bias.y, r.y);
        y.z = plain_value(e, u.z, bias.z, r.z);
        y.w = plain_value(e, u.w, bias.w, r.w);
        if (i < n)
            __stwb((float4 *)(to + i * 8 * e.out_stride), y);
    }
    __syncwarp();
}

static __device__ __forceinline__ void finish_plainly(const ln_tile_args &p, const job &job,
                                                      const float total[64], float *outs) {
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    size_t column = ((size_t)job.block * WARPS + warp) * LN_TILE_ROWS + lane % 4 * 4;
    write_rows<PANEL / OUT_ROWS>(p.parts[job.part].epilogue, total, (size_t)job.panel * PANEL,
                                 p.n_rows, column, outs + warp * OUT_FLOATS);
}

/* The warps of a pair give each other half of their sums: the gate's warp has the upper rows. */
static __device__ __forceinline__ void finish_gated(const ln_tile_args &p, const job &job,
                                                    const float total[64], float *outs) {
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
        for (int i = 0; i < AT_ONCE; i++)
            own[i * LN_WARP + lane] = is_gate ? total[OWN + begin + i] : total[begin + i];
        meet_pair(pair);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float mine = is_gate ? total[begin + i] : total[OWN + begin + i];
            float others = other[i * LN_WARP + lane];
            y[begin + i] =
                ln_gated(LN_ACT_SILU, true, is_gate ? mine : others, is_gate ? others : mine);
        }
        meet_pair(pair);
    }
    size_t column = ((size_t)job.block * PAIRS + pair) * LN_TILE_ROWS + lane % 4 * 4;
    size_t first = (size_t)job.panel * PANEL + (is_gate ? 0 : PANEL / 2);
    write_rows<PANEL / OUT_ROWS / 2>(e, y, first, p.n_rows, column, own);
}

/* What results will be added to comes to the L2 cache; a warp has 64 bytes of each row. */
static __device__ __forceinline__ void expect_residual(const ln_tile_args &p, const job &job) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const ln_epilogue &e = p.parts[job.part].epilogue;
    size_t column = ((size_t)job.block * WARPS + warp) * LN_TILE_ROWS;
    if (e.residual == NULL || column >= e.n_out)
        return;
    for (size_t row = (size_t)job.panel * PANEL + lane, i = 0; i < PANEL / LN_WARP; i++)
        if (row + i * LN_WARP < p.n_rows)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(e.residual +
                                                          (row + i * LN_WARP) * e.n_out + column));
}

#endif

template <bool GATE, bool PRECISE>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm(const __grid_constant__ gemm_args g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<PRECISE> shape;
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    ln_let_next_start();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < shape::N_STAGES; i++) {
            ln_barrier_init(&pipe.full[i], 1);
            ln_barrier_init(&pipe.empty[i], WARPS);
        }
        ln_barriers_ready();
    }
    __syncthreads();
    ln_wait_for_last();
    if (threadIdx.x >= WORKERS) {
        ln_leave_registers<FEW_REGISTERS>();
        if (threadIdx.x == WORKERS)
            bring<GATE, PRECISE>(g, stages, pipe);
        return;
    }
    ln_take_registers<REGISTERS>();
    const ln_tile_args &p = g.p;
    float *outs = (float *)(stages + shape::N_STAGES * shape::BYTES);
    place at = {0, 0};
    job job;
    for (unsigned number = blockIdx.x; find_job<GATE>(p, number, job); number += gridDim.x) {
        float total[64];
        if (!GATE)
            expect_residual(p, job);
        multiply<PRECISE>(p, p.parts[job.part].precise, stages, pipe, at, total);
        asm volatile("" : "+r"(number)); /* the job is found again, and takes no registers before */
        find_job<GATE>(p, number, job);
        if (!is_plain(p.parts[job.part].epilogue))
            finish<GATE>(p, job, total, outs);
        else if (GATE)
            finish_gated(p, job, total, outs);
        else
            finish_plainly(p, job, total, outs);
    }
#endif
}

/* A row of tiles after another, in boxes of `rows` of them and a tile of columns. */
static int map_tiles(const ln_tile_args &args, const uint8_t *matrix, size_t n_out, unsigned rows,
                     CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = (void *)matrix;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 3;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)args.n_tiles * (TILE_BYTES / 128);
    tensor.dims[2] = ln_ceil_div(n_out, LN_TILE_ROWS);
    tensor.strides[1] = (size_t)args.n_tiles * TILE_BYTES;
    tensor.box[1] = TILE_BYTES / 128;
    tensor.box[2] = rows;
    return ln_tensor_map(&tensor, map);
}

static int map_x(const ln_tile_args &args, const void *x, CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = (void *)x;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 2;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)ln_ceil_div(args.n_rows, PANEL) * PANEL * args.n_tiles;
    tensor.box[1] = PANEL;
    return ln_tensor_map(&tensor, map);
}

template <bool GATE, bool PRECISE> static int make_maps(gemm_args &g) {
    unsigned rows = WARPS / (GATE ? 2 : 1);
    const ln_tile_part *parts = g.p.parts;
    int code = map_x(g.p, g.p.x.bf16, &g.x);
    if (code == 0 && PRECISE)
        code = map_x(g.p, g.p.x.rest, &g.rest);
    for (unsigned i = 0; i < g.p.n_parts && code == 0; i++)
        code = map_tiles(g.p, parts[i].weight, parts[i].epilogue.n_out, rows, &g.weights[i]);
    if (code == 0 && GATE)
        code = map_tiles(g.p, parts[0].gate, parts[0].epilogue.n_out, rows, &g.gate);
    return code;
}

template <bool GATE, bool PRECISE>
static int launch(const ln_tile_args &args, cudaStream_t stream) {
    typedef stage_shape<PRECISE> shape;
    gemm_args g = {args, {}, {}, {}, {}};
    int device, n_cores = 0, code = make_maps<GATE, PRECISE>(g);
    if (code == 0)
        code = cudaGetDevice(&device);
    if (code == 0)
        code = cudaDeviceGetAttribute(&n_cores, cudaDevAttrMultiProcessorCount, device);
    if (code == 0)
        code = cudaFuncSetAttribute(gemm<GATE, PRECISE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, shape::SHARED);
    if (code != 0)
        return code;
    unsigned jobs =
        ln_tile_blocks(args, COLUMNS / (GATE ? 2 : 1)) * ln_ceil_div(args.n_rows, PANEL);
    dim3 grid(min(jobs, (unsigned)n_cores));
    return ln_launch(gemm<GATE, PRECISE>, grid, GEMM_THREADS, shape::SHARED, stream, g);
}

#ifndef LAB
int ln_tile_gemm(int kind, const ln_tile_args &args, cudaStream_t stream) {
    if (kind != LN_TILE_BF16)
        return ln_tile_gemm_int(kind, args, stream);
    bool has_gate = args.parts[0].gate != NULL;
    if (ln_tile_is_precise(args))
        return has_gate ? launch<true, true>(args, stream) : launch<false, true>(args, stream);
    return has_gate ? launch<true, false>(args, stream) : launch<false, false>(args, stream);
}
#endif
