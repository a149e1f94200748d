/* y = x W^T with its epilogue, W in tiles of INT8 or INT4, for many rows of x, on WGMMA: the tiles
 * are the A operand, from registers, and x, in panels, the B operand. The order of every sum is
 * that of tile_linear.
 *
 * Grid: (panels of x, blocks of 128 columns of the results, or of 64 with a gate). Block: two
 * groups of four warps, each with 64 rows of W (with a gate, one has the gate's and the other the
 * weight's), and a warp that brings what they read: stages of one tile of columns, of W and x, by
 * bulk copies. Shared memory: the stages, and then the results on their way out. */
#include "backend/cuda/tile_args.cuh"
#include "backend/cuda/tile_lane.cuh"
#include "backend/cuda/wgmma.cuh"

enum { WORKERS = 256, GEMM_THREADS = WORKERS + LN_WARP, GEMM_ROWS = 128, MAX_STAGES = 8 };
enum { OUT_STRIDE = GEMM_ROWS + 4 }; /* floats from a row of results to the next */

enum { PANEL = LN_TILE_PANEL(LN_TILE_INT8), N_SUMS = PANEL / 2 }; /* sums of a thread */

/* What a stage holds, in bytes: x in panels, its scales, then eight tiles. */
template <int KIND> struct stage_shape {
    static constexpr unsigned X_BYTES = PANEL * 256, SCALE_BYTES = PANEL * 8 * 4;
    static constexpr unsigned TILE_BYTES = ln_tile_bytes(KIND), N_TILES = GEMM_ROWS / LN_TILE_ROWS;
    static constexpr unsigned TILES_AT = X_BYTES + SCALE_BYTES;
    static constexpr unsigned BYTES = TILES_AT + N_TILES * TILE_BYTES;
    static constexpr unsigned BLOCKS_AT_ONCE = 2; /* that share a core */
    static constexpr unsigned N_STAGES = 224 * 1024 / BLOCKS_AT_ONCE / BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

typedef struct pipe {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
} pipe;

/* The row of tiles that warp `warp` of the workers multiplies. */
template <bool GATE>
static __device__ __forceinline__ const uint8_t *tiles_of(const ln_tile_args &p,
                                                          const ln_tile_part &part, unsigned block,
                                                          unsigned warp, size_t tile_bytes) {
    unsigned last = ((unsigned)part.epilogue.n_out - 1) / LN_TILE_ROWS;
    unsigned row = GATE ? block * 4 + warp % 4 : block * 8 + warp;
    const uint8_t *matrix = GATE && warp < 4 ? part.gate : part.weight;
    return matrix + (size_t)min(row, last) * p.n_tiles * tile_bytes;
}

/* Brings stage after stage; by one warp. */
template <int KIND, bool GATE>
static __device__ void bring(const ln_tile_args &p, const ln_tile_part &part, unsigned block,
                             char *stages, pipe &pipe) {
    typedef stage_shape<KIND> shape;
    unsigned lane = threadIdx.x % LN_WARP;
    const char *from = NULL;
    unsigned bytes = 0, at = 0, step = 0; /* this lane's copies */
    size_t panel_at = (size_t)blockIdx.x * p.n_tiles;
    if (lane < shape::N_TILES) {
        from = (const char *)tiles_of<GATE>(p, part, block, lane, shape::TILE_BYTES);
        bytes = step = shape::TILE_BYTES;
        at = shape::TILES_AT + lane * shape::TILE_BYTES;
    } else if (lane == shape::N_TILES) {
        from = (const char *)p.x.int8;
        bytes = step = shape::X_BYTES;
        from += panel_at * step;
    } else if (lane == shape::N_TILES + 1) {
        from = (const char *)p.x.scales;
        bytes = step = shape::SCALE_BYTES;
        from += panel_at * step;
        at = shape::X_BYTES;
    }
    for (unsigned tile = 0; tile < p.n_tiles; tile++) {
        unsigned stage = tile % shape::N_STAGES, round = tile / shape::N_STAGES;
        if (round > 0)
            ln_barrier_wait(&pipe.empty[stage], (round - 1) % 2);
        if (lane == 0)
            ln_barrier_expect(&pipe.full[stage], shape::BYTES);
        __syncwarp();
        if (bytes > 0)
            ln_bulk_copy(stages + stage * shape::BYTES + at, from + (size_t)tile * step, bytes,
                         &pipe.full[stage]);
    }
}

/* A worker has rows 16 * warp + lane / 4 (+ 8) of 128, and of x rows 8 j + 2 (lane % 4) (+ 1). */

/* The A operand of a block of a tile of int8 or int4 numbers. */
template <int KIND>
static __device__ __forceinline__ uint4 load_block(const char *tile, unsigned lane, int block) {
    if constexpr (KIND == LN_TILE_INT8)
        return *(const uint4 *)(tile + (block * 32 + lane) * 16);
    else
        return ln_unpack_int4(*(const uint4 *)(tile + (block / 2 * 32 + lane) * 16), block);
}

/* START + the products of a block. */
static __device__ __forceinline__ void multiply_block(uint4 a, const char *x, int block,
                                                      int (&c)[32]) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        c[i] = LN_INT_START_BITS;
    ln_wgmma_fence();
    ln_wgmma_int8(c, a, ln_wgmma_rows(x + block / 4 * (64 * 128) + block % 4 * 32));
    ln_wgmma_commit();
    ln_wgmma_wait<0>();
    ln_wgmma_keep(a);
    ln_wgmma_keep(c);
}

static __device__ __forceinline__ void add_block(const int c[32], float w0, float w1,
                                                 const float *x_scales, float sum[32]) {
    float start0 = -LN_INT_START * w0, start1 = -LN_INT_START * w1;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        float *s = sum + 4 * j;
        s[0] = ln_add_scaled(__int_as_float(c[4 * j]), w0, start0, x.x, s[0]);
        s[1] = ln_add_scaled(__int_as_float(c[4 * j + 1]), w0, start0, x.y, s[1]);
        s[2] = ln_add_scaled(__int_as_float(c[4 * j + 2]), w1, start1, x.x, s[2]);
        s[3] = ln_add_scaled(__int_as_float(c[4 * j + 3]), w1, start1, x.y, s[3]);
    }
}

/* The workers' loop: while one group scales a block another multiplies one. */
template <int KIND>
static __device__ void work(const ln_tile_args &p, char *stages, pipe &pipe, float total[N_SUMS]) {
    typedef stage_shape<KIND> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES, in_slice = 0;
    float sum[32];
#pragma unroll
    for (int i = 0; i < 32; i++)
        sum[i] = 0.0f, total[i] = -0.0f; /* -0 + x is x */
    for (unsigned tile = 0; tile < p.n_tiles; tile++) {
        unsigned stage = tile % shape::N_STAGES;
        const char *x = stages + stage * shape::BYTES;
        const char *w = x + shape::TILES_AT + warp * shape::TILE_BYTES;
        const float *x_scales = (const float *)(x + shape::X_BYTES) + lane % 4 * 2;
        int c[32];
        ln_barrier_wait(&pipe.full[stage], tile / shape::N_STAGES % 2);
        uint4 w_scales[2];
#pragma unroll
        for (int i = 0; i < 2; i++)
            w_scales[i] = *(const uint4 *)(w + ln_tile_scale_at(KIND, lane / 4 + 8 * i, 0));
#pragma unroll
        for (int block = 0; block < 8; block++) {
            multiply_block(load_block<KIND>(w, lane, block), x, block, c);
            add_block(c, ln_tile_scale((const uint32_t *)&w_scales[0], block),
                      ln_tile_scale((const uint32_t *)&w_scales[1], block), x_scales + block * 64,
                      sum);
        }
        __syncwarp();
        if (lane == 0)
            ln_barrier_arrive(&pipe.empty[stage]);
        if (++in_slice == per_slice || tile + 1 == p.n_tiles) {
            in_slice = 0;
#pragma unroll
            for (int i = 0; i < 32; i++) {
                total[i] += sum[i];
                sum[i] = 0.0f;
            }
        }
    }
}

/* Slices without columns add a zero, which turns -0 into 0. */
static __device__ __forceinline__ void add_empty_slices(const ln_tile_args &p,
                                                        float total[N_SUMS]) {
    unsigned per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    if ((p.n_tiles + per_slice - 1) / per_slice < LN_TILE_SLICES)
#pragma unroll
        for (int i = 0; i < N_SUMS; i++)
            total[i] += 0.0f;
}

/* Sums go through shared memory, so that rows are written in order. */
template <bool GATE>
static __device__ void finish(const ln_tile_args &p, const ln_tile_part &part, unsigned block,
                              const float total[N_SUMS], float *out) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    asm volatile("bar.sync 1, 256;" ::: "memory"); /* all stages are read */
#pragma unroll
    for (int i = 0; i < N_SUMS; i++) {
        unsigned row = i / 4 * 8 + lane % 4 * 2 + i % 2;
        out[row * OUT_STRIDE + warp * 16 + lane / 4 + i % 4 / 2 * 8] = total[i];
    }
    asm volatile("bar.sync 1, 256;" ::: "memory");
    constexpr unsigned COLUMNS = GATE ? GEMM_ROWS / 2 : GEMM_ROWS;
    size_t first = (size_t)blockIdx.x * PANEL;
    bool is_aligned = ln_epilogue_is_aligned(part.epilogue);
    for (unsigned i = threadIdx.x; i < PANEL * COLUMNS / 4; i += WORKERS) {
        unsigned row = i / (COLUMNS / 4), column = i % (COLUMNS / 4) * 4;
        const float *sums = out + row * OUT_STRIDE + column, *ups = GATE ? sums + COLUMNS : sums;
        size_t at = (size_t)block * COLUMNS + column;
        if (first + row >= p.n_rows || at >= part.epilogue.n_out)
            continue;
        if (is_aligned) {
            ln_finish_four(part.epilogue, first + row, at, *(const float4 *)ups,
                           *(const float4 *)sums);
            continue;
        }
#pragma unroll 1
        for (unsigned j = 0; j < 4 && at + j < part.epilogue.n_out; j++)
            ln_finish(part.epilogue, first + row, at + j, ups[j], sums[j]);
    }
}

#endif

template <int KIND, bool GATE>
static __global__ void __launch_bounds__(GEMM_THREADS, (stage_shape<KIND>::BLOCKS_AT_ONCE))
    gemm(const __grid_constant__ ln_tile_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<KIND> shape;
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    unsigned block = blockIdx.y;
    const ln_tile_part &part = ln_tile_find_part(p, GATE ? GEMM_ROWS / 2 : GEMM_ROWS, &block);
    ln_let_next_start();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < shape::N_STAGES; i++) {
            ln_barrier_init(&pipe.full[i], 1);
            ln_barrier_init(&pipe.empty[i], WORKERS / LN_WARP);
        }
        ln_barriers_ready();
    }
    __syncthreads();
    ln_wait_for_last();
    if (threadIdx.x >= WORKERS) {
        bring<KIND, GATE>(p, part, block, stages, pipe);
        return;
    }
    float total[N_SUMS];
    work<KIND>(p, stages, pipe, total);
    add_empty_slices(p, total);
    finish<GATE>(p, part, block, total, (float *)stages);
#endif
}

template <int KIND, bool GATE> static int launch(const ln_tile_args &args, cudaStream_t stream) {
    typedef stage_shape<KIND> shape;
    int shared = (int)(shape::N_STAGES * shape::BYTES);
    cudaError_t code =
        cudaFuncSetAttribute(gemm<KIND, GATE>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (code != cudaSuccess)
        return code;
    dim3 grid(ln_ceil_div(args.n_rows, PANEL),
              ln_tile_blocks(args, GATE ? GEMM_ROWS / 2 : GEMM_ROWS));
    return ln_launch(gemm<KIND, GATE>, grid, GEMM_THREADS, (size_t)shared, stream, args);
}

template <int KIND> static int launch_gate(const ln_tile_args &args, cudaStream_t stream) {
    return args.parts[0].gate != NULL ? launch<KIND, true>(args, stream)
                                      : launch<KIND, false>(args, stream);
}

int ln_tile_gemm_int(int kind, const ln_tile_args &args, cudaStream_t stream) {
    return kind == LN_TILE_INT8 ? launch_gate<LN_TILE_INT8>(args, stream)
                                : launch_gate<LN_TILE_INT4>(args, stream);
}
