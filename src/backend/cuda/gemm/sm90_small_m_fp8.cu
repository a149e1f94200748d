/* y = x W^T with its epilogue, W in tiles of F8_ROW, for up to eight rows of x on Hopper: the tiles
 * are WGMMA's A operand, from registers, x its B operand. The order of every sum is that of
 * tile_gemm: Hopper's products of E4M3 keep fewer bits of a sum than float32 has, so nothing but
 * the same instruction gives the same bits.
 *
 * Grid: rows of tiles. Block: eight warps, each a slice of the columns, merged in order. Four warps
 * multiply together, which WGMMA means for 64 rows of one matrix that meet the same x: so B is x of
 * all four slices, 32 columns of sums, of which each warp keeps the eight of its own. The first
 * weights are under way before the kernel that makes x has ended.
 *
 * Shared memory: x as activations/convert.cuh has it, [16 columns][rows][16 bytes] with what fills up the
 * slices; what WGMMA reads behind a row as further rows is of no consequence, and has room at the
 * end. */
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

enum { FEW_THREADS = LN_K_SPLITS * LN_WARP, FEW_ROWS = 8, STEPS = 4 };
enum { GROUP = 4, OPERAND_BYTES = 32 * 32 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A lane's share of a tile. */
typedef struct lane_tile {
    uint4 steps[STEPS];
} lane_tile;

static __device__ __forceinline__ uint32_t load_word(const uint8_t *at) {
    uint32_t v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(v) : "l"(at));
    return v;
}

static __device__ __forceinline__ void load_tile(const uint8_t *tiles, unsigned tile,
                                                 lane_tile &out) {
    const uint8_t *from =
        tiles + (size_t)tile * ln_weight_tile_bytes(LN_LAYOUT_F8_ROW) + threadIdx.x % LN_WARP * 4;
#pragma unroll
    for (int i = 0; i < STEPS; i++, from += 256)
        out.steps[i] = make_uint4(load_word(from), load_word(from + 1024), load_word(from + 128),
                                  load_word(from + 1152));
}

/* Brings x to shared memory, when it is there. */
static __device__ __forceinline__ void bring_x(const ln_gemm_args &p, char *x) {
    unsigned bytes = p.n_tiles * 128 * (unsigned)p.n_rows;
    ln_pdl_wait();
    for (unsigned at = threadIdx.x * 16; at < bytes; at += FEW_THREADS * 16)
        *(uint4 *)(x + at) = *(const uint4 *)(p.x.int8 + at);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

/* Adds a tile of each warp's slice, number `tile` of it. */
static __device__ __forceinline__ void add_tile(const lane_tile &w, const char *x, unsigned tile,
                                                unsigned n_rows, unsigned slice_bytes,
                                                float (&sum)[16]) {
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        ln_wgmma_n32_fp8(
            sum, w.steps[i],
            ln_wgmma_desc_no_swizzle(x + (tile * 8 + i * 2) * n_rows * 16, n_rows * 16, slice_bytes));
}

/* The sums of the warp's own slice. */
static __device__ __forceinline__ void keep_own(const float (&sum)[16], float own[4]) {
    unsigned slice = threadIdx.x / LN_WARP % GROUP;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float low = slice == 0 ? sum[i] : sum[4 + i], high = slice == 2 ? sum[8 + i] : sum[12 + i];
        own[i] = slice < 2 ? low : high;
    }
}

/* This warp's slice of a row of tiles, and of the gate's, AHEAD tiles being under way. Warps whose
 * slices are shorter multiply on, for nothing. */
template <int AHEAD, bool GATE>
static __device__ __forceinline__ void multiply(const ln_gemm_args &p, const ln_gemm_part &part,
                                                unsigned tile_row, char *x, float up_own[4],
                                                float gate_own[4]) {
    unsigned slice = threadIdx.x / LN_WARP, n_rows = (unsigned)p.n_rows;
    unsigned per_slice = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    unsigned begin = min(slice * per_slice, p.n_tiles), end = min(begin + per_slice, p.n_tiles);
    unsigned slice_bytes = per_slice * 128 * n_rows;
    size_t row_at = tile_row * ln_weight_tile_row_bytes(LN_LAYOUT_F8_ROW, p.n_tiles);
    const uint8_t *up_tiles = part.weight + row_at, *gate_tiles = GATE ? part.gate + row_at : NULL;
    lane_tile up[AHEAD] = {}, gate[GATE ? AHEAD : 1] = {};
    float up_sum[16] = {}, gate_sum[16] = {};
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (begin + i < end) {
            load_tile(up_tiles, begin + i, up[i]);
            if constexpr (GATE)
                load_tile(gate_tiles, begin + i, gate[i]);
        }
    bring_x(p, x);
    x += slice / GROUP * GROUP * slice_bytes;
    for (unsigned base = 0; base < per_slice; base += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            unsigned tile = base + i;
            if (tile >= per_slice)
                break;
            ln_wgmma_fence();
            add_tile(up[i], x, tile, n_rows, slice_bytes, up_sum);
            if constexpr (GATE)
                add_tile(gate[i], x, tile, n_rows, slice_bytes, gate_sum);
            ln_wgmma_commit();
            ln_wgmma_wait<0>();
            ln_wgmma_keep(up_sum);
            if constexpr (GATE)
                ln_wgmma_keep(gate_sum);
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                ln_wgmma_keep(up[i].steps[k]);
                if constexpr (GATE)
                    ln_wgmma_keep(gate[i].steps[k]);
            }
            if (begin + tile + 1 == end) {
                keep_own(up_sum, up_own);
                if constexpr (GATE)
                    keep_own(gate_sum, gate_own);
            }
            if (begin + tile + AHEAD < end) {
                load_tile(up_tiles, begin + tile + AHEAD, up[i]);
                if constexpr (GATE)
                    load_tile(gate_tiles, begin + tile + AHEAD, gate[i]);
            }
        }
    }
}

typedef struct slices {
    float sums[LN_K_SPLITS][LN_WEIGHT_TILE_ROWS][FEW_ROWS + 1];
} slices;

/* Puts a slice's sums where the others meet them. */
static __device__ __forceinline__ void leave(slices &shared, const float own[4]) {
    unsigned lane = threadIdx.x % LN_WARP, slice = threadIdx.x / LN_WARP;
#pragma unroll
    for (int i = 0; i < 4; i++)
        shared.sums[slice][lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = own[i];
}

/* What the sum of a row and a column of a row of tiles stands for. */
static __device__ __forceinline__ float merge(const ln_gemm_args &p, const slices &shared,
                                              const uint8_t *tiles, unsigned tile_row, unsigned row,
                                              unsigned column) {
    float total = shared.sums[0][column][row];
#pragma unroll
    for (int s = 1; s < LN_K_SPLITS; s++)
        total += shared.sums[s][column][row];
    tiles += tile_row * ln_weight_tile_row_bytes(LN_LAYOUT_F8_ROW, p.n_tiles);
    return total * (ln_weight_tile_row_scales(LN_LAYOUT_F8_ROW, tiles, p.n_tiles)[column] * p.x.scales[row]);
}

#endif

template <int AHEAD, bool GATE>
static __global__ void __launch_bounds__(FEW_THREADS, 2)
    few_f8(const __grid_constant__ ln_gemm_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char x[];
    __shared__ slices ups, gates;
    ln_pdl_launch_dependents();
    unsigned tile_row = blockIdx.x;
    const ln_gemm_part &part = ln_gemm_find_part(p, LN_WEIGHT_TILE_ROWS, &tile_row);
    float up[4] = {}, gate[4] = {};
    multiply<AHEAD, GATE>(p, part, tile_row, x, up, gate);
    leave(ups, up);
    if (GATE)
        leave(gates, gate);
    __syncthreads();
    unsigned row = threadIdx.x / LN_WEIGHT_TILE_ROWS, column = threadIdx.x % LN_WEIGHT_TILE_ROWS;
    size_t out_column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + column;
    if (row >= p.n_rows || out_column >= part.epilogue.n_out)
        return;
    float u = merge(p, ups, part.weight, tile_row, row, column);
    float g = GATE ? merge(p, gates, part.gate, tile_row, row, column) : 0.0f;
    ln_finish(part.epilogue, row, out_column, u, g);
#endif
}

template <int AHEAD, bool GATE>
static int launch(const ln_gemm_args &args, unsigned shared_bytes, cudaStream_t stream) {
    /* whatever the step is, as graphs of others, and other engines, keep their launches */
    int code = cudaFuncSetAttribute(few_f8<AHEAD, GATE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)(LN_SMALL_M_FP8_BYTES + OPERAND_BYTES));
    if (code != 0)
        return code;
    return ln_pdl_launch(few_f8<AHEAD, GATE>, dim3(ln_gemm_output_tiles(args, LN_WEIGHT_TILE_ROWS)), FEW_THREADS,
                     shared_bytes, stream, args);
}

int ln_gemm_sm90_small_m_fp8(const ln_gemm_args &args, cudaStream_t stream) {
    unsigned per_slice = (args.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    unsigned bytes = LN_K_SPLITS * per_slice * 128 * (unsigned)args.n_rows + OPERAND_BYTES;
    return args.parts[0].gate != NULL ? launch<2, true>(args, bytes, stream)
                                      : launch<4, false>(args, bytes, stream);
}
