/* Y [M][N] = X [M][K] W^T with its epilogue, W of F8_ROW, M up to 8, on Hopper: WGMMA of M64N32K32,
 * weights are the A operand, from registers, activations the B operand. The order of every sum is
 * that of sm90_fp8.cu: Hopper's products of E4M3 keep fewer bits of a sum than float32 has, so
 * nothing but the same instruction gives the same bits.
 *
 * Grid: rows of weight tiles (16 columns of the result). Block: 8 warps, one for each K split,
 * whose sums are added in order (ptx/wgmma_fp8_splits.cuh). The first weights are prefetched before
 * the kernel that makes X has ended. Bytes: W once, X once for each CTA, from L2. Shared memory:
 * activations. */
#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/ptx/wgmma_fp8_splits.cuh"

enum { SMALL_M_THREADS = LN_K_SPLITS * LN_WARP, MAX_ROWS = 8 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

static __device__ __forceinline__ uint32_t load_word(const uint8_t *at) {
    uint32_t v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(v) : "l"(at));
    return v;
}

static __device__ __forceinline__ void load_tile(const uint8_t *tiles, unsigned tile,
                                                 ln_fp8_tile &out) {
    const uint8_t *from =
        tiles + (size_t)tile * ln_weight_tile_bytes(LN_LAYOUT_F8_ROW) + threadIdx.x % LN_WARP * 4;
#pragma unroll
    for (int i = 0; i < LN_FP8_STEPS; i++, from += 256)
        out.steps[i] = make_uint4(load_word(from), load_word(from + 1024), load_word(from + 128),
                                  load_word(from + 1152));
}

/* Copies activations to shared memory, once the kernel that makes them has ended. */
static __device__ __forceinline__ void load_act(const ln_gemm_args &p, char *x) {
    unsigned bytes = p.n_tiles * 128 * (unsigned)p.n_rows;
    ln_pdl_wait();
    for (unsigned at = threadIdx.x * 16; at < bytes; at += SMALL_M_THREADS * 16)
        *(uint4 *)(x + at) = *(const uint4 *)(p.x.int8 + at);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

/* Accumulates this warp's K split of a row of weight tiles, and of the gate's, AHEAD tiles being in
 * flight. Warps whose K splits are shorter multiply on: their sums were selected before. */
template <int AHEAD, bool GATE>
static __device__ __forceinline__ void multiply(const ln_gemm_args &p, const ln_gemm_part &part,
                                                unsigned tile_row, char *x, float up_own[4],
                                                float gate_own[4]) {
    unsigned split = threadIdx.x / LN_WARP, n_rows = (unsigned)p.n_rows;
    unsigned per_split = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    unsigned begin = min(split * per_split, p.n_tiles), end = min(begin + per_split, p.n_tiles);
    unsigned split_bytes = per_split * 128 * n_rows;
    size_t row_at = tile_row * ln_weight_tile_row_bytes(LN_LAYOUT_F8_ROW, p.n_tiles);
    const uint8_t *up_tiles = part.weight + row_at, *gate_tiles = GATE ? part.gate + row_at : NULL;
    ln_fp8_tile up[AHEAD] = {}, gate[GATE ? AHEAD : 1] = {};
    float up_sum[16] = {}, gate_sum[16] = {};
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (begin + i < end) {
            load_tile(up_tiles, begin + i, up[i]);
            if constexpr (GATE)
                load_tile(gate_tiles, begin + i, gate[i]);
        }
    load_act(p, x);
    x += split / LN_FP8_SPLITS * LN_FP8_SPLITS * split_bytes;
    for (unsigned base = 0; base < per_split; base += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            unsigned tile = base + i;
            if (tile >= per_split)
                break;
            ln_wgmma_fence();
            ln_fp8_add_tile(up[i], x, tile, n_rows, split_bytes, up_sum);
            if constexpr (GATE)
                ln_fp8_add_tile(gate[i], x, tile, n_rows, split_bytes, gate_sum);
            ln_wgmma_commit();
            ln_fp8_finish_tile(up[i]);
            ln_wgmma_keep(up_sum);
            if constexpr (GATE) {
                ln_fp8_finish_tile(gate[i]);
                ln_wgmma_keep(gate_sum);
            }
            if (begin + tile + 1 == end) {
                ln_fp8_select_own(up_sum, up_own);
                if constexpr (GATE)
                    ln_fp8_select_own(gate_sum, gate_own);
            }
            if (begin + tile + AHEAD < end) {
                load_tile(up_tiles, begin + tile + AHEAD, up[i]);
                if constexpr (GATE)
                    load_tile(gate_tiles, begin + tile + AHEAD, gate[i]);
            }
        }
    }
}

typedef struct split_sums {
    float sums[LN_K_SPLITS][LN_WEIGHT_TILE_ROWS][MAX_ROWS + 1];
} split_sums;

/* Stores the sums of a K split for add_splits. */
static __device__ __forceinline__ void store_split(split_sums &shared, const float own[4]) {
    unsigned lane = threadIdx.x % LN_WARP, split = threadIdx.x / LN_WARP;
#pragma unroll
    for (int i = 0; i < 4; i++)
        shared.sums[split][lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = own[i];
}

/* Split-K reduction within a CTA, in order of the K splits, and the scales: the result of a row of
 * activations and a column of weights, which is a row of a row of weight tiles. */
static __device__ __forceinline__ float add_splits(const ln_gemm_args &p, const split_sums &shared,
                                                   const uint8_t *tiles, unsigned tile_row,
                                                   unsigned row, unsigned column) {
    float total = shared.sums[0][column][row];
#pragma unroll
    for (int s = 1; s < LN_K_SPLITS; s++)
        total += shared.sums[s][column][row];
    tiles += tile_row * ln_weight_tile_row_bytes(LN_LAYOUT_F8_ROW, p.n_tiles);
    return total * (ln_weight_tile_row_scales(LN_LAYOUT_F8_ROW, tiles, p.n_tiles)[column] *
                    p.x.scales[row]);
}

#endif

template <int AHEAD, bool GATE>
static __global__ void __launch_bounds__(SMALL_M_THREADS, 2)
    small_m_fp8_gemm(const __grid_constant__ ln_gemm_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char x[];
    __shared__ split_sums ups, gates;
    ln_pdl_launch_dependents();
    unsigned tile_row = blockIdx.x;
    const ln_gemm_part &part = ln_gemm_find_part(p, LN_WEIGHT_TILE_ROWS, &tile_row);
    float up[4] = {}, gate[4] = {};
    multiply<AHEAD, GATE>(p, part, tile_row, x, up, gate);
    store_split(ups, up);
    if (GATE)
        store_split(gates, gate);
    __syncthreads();
    unsigned row = threadIdx.x / LN_WEIGHT_TILE_ROWS, column = threadIdx.x % LN_WEIGHT_TILE_ROWS;
    size_t out_column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + column;
    if (row >= p.n_rows || out_column >= part.epilogue.n_out)
        return;
    float u = add_splits(p, ups, part.weight, tile_row, row, column);
    float g = GATE ? add_splits(p, gates, part.gate, tile_row, row, column) : 0.0f;
    ln_finish(part.epilogue, row, out_column, u, g);
#endif
}

template <int AHEAD, bool GATE>
static int launch(const ln_gemm_args &args, unsigned shared_bytes, cudaStream_t stream) {
    /* the most of any step, as graphs of others, and other engines, keep their launches */
    int code = cudaFuncSetAttribute(small_m_fp8_gemm<AHEAD, GATE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)(LN_SMALL_M_FP8_BYTES + LN_FP8_BEHIND));
    if (code != 0)
        return code;
    return ln_pdl_launch(small_m_fp8_gemm<AHEAD, GATE>,
                         dim3(ln_gemm_output_tiles(args, LN_WEIGHT_TILE_ROWS)), SMALL_M_THREADS,
                         shared_bytes, stream, args);
}

int ln_gemm_sm90_small_m_fp8(const ln_gemm_args &args, cudaStream_t stream) {
    unsigned per_split = (args.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    unsigned bytes = LN_K_SPLITS * per_split * 128 * (unsigned)args.n_rows + LN_FP8_BEHIND;
    return args.parts[0].gate != NULL ? launch<2, true>(args, bytes, stream)
                                      : launch<4, false>(args, bytes, stream);
}
