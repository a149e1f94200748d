/* What an instance of the sm_90 GEMM is: its output tile, its warps and its pipeline stages. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_CONFIG_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_CONFIG_CUH

#include "backend/cuda/activations/row_groups.cuh"
#include "backend/cuda/gemm/pipeline.cuh"
#include "backend/cuda/ptx/bulk_store.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/weights/traits.cuh"

enum { WARPGROUP = 4 * LN_WARP, MAX_STAGES = 8 };
enum {
    MAX_SHARED = 226 * 1024
}; /* bytes of stages and results: what sm_90 has, less static ones */
enum { OUT_ROWS = 16, OUT_STRIDE = 20, OUT_FLOATS = OUT_ROWS * OUT_STRIDE }; /* of a warp */

/* An output tile has TILE_ROWS rows (M) by N_COLUMNS columns (N) of each matrix. With a gate half
 * of the consumer warps accumulate the gate's columns, the other half the other matrix's. One or
 * two consumer warpgroups have 240 registers a thread, three 160. PRECISE: any of the linears adds
 * the residual of bf16 rounding. SPLIT: CTAs share an output tile along K (sm90_split_k.cuh).
 * TMA_STORE: results have a plain epilogue, and leave by TMA, in boxes of sixteen rows and columns,
 * or as an image. There is no residual, or TMA_ADD: they are added to the residual where it lies.
 * CTAS: of a cluster, which have the same rows and columns beside each other; each fetches a part
 * of the activations for all. N_SPILLED: a thread's sums of K splits that are in shared memory
 * (sm90_mainloop_16.cuh). */
template <int WEIGHTS, int TILE_ROWS, int CONSUMER_WARPGROUPS, bool HAS_GATE, bool HAS_PRECISE,
          bool IS_SPLIT, bool HAS_TMA_STORE = false, bool HAS_TMA_ADD = false,
          bool IS_CLUSTERED = false>
struct sm90_config {
    static constexpr int LAYOUT = WEIGHTS, ROWS = TILE_ROWS, WARPGROUPS = CONSUMER_WARPGROUPS;
    static constexpr bool GATE = HAS_GATE, PRECISE = HAS_PRECISE, SPLIT = IS_SPLIT;
    static constexpr bool TMA_STORE = HAS_TMA_STORE, TMA_ADD = HAS_TMA_ADD;
    static constexpr unsigned CTAS = IS_CLUSTERED ? 2 : 1;
    static constexpr int N_ACC = ROWS / 2; /* accumulators of a thread */
    static constexpr int N_SPILLED =
        ROWS == 256 && !SPLIT && WEIGHTS != LN_LAYOUT_INT8_ROW ? 64 : 0;
    static constexpr unsigned WARPS = 4 * WARPGROUPS, CONSUMERS = WARPS * LN_WARP;
    static constexpr unsigned THREADS = CONSUMERS + WARPGROUP;
    static constexpr int CONSUMER_REGISTERS = WARPGROUPS <= 2 ? 240 : 160;
    static constexpr int PRODUCER_REGISTERS = WARPGROUPS <= 2 ? 24 : 32;
    static constexpr unsigned TILES =
        WARPS / (GATE ? 2 : 1); /* weight tiles of a matrix, along N */
    static constexpr unsigned N_COLUMNS = TILES * LN_WEIGHT_TILE_ROWS;
    /* a gate's results are rows of 128 bytes in shared memory: of bf16, as they are copied to the
     * activations of the linears behind it, or plain for the conversion to E4M3 */
    static constexpr bool HAS_IMAGE =
        HAS_GATE && (WEIGHTS == LN_LAYOUT_F8_ROW
                         ? TMA_STORE
                         : WEIGHTS == LN_LAYOUT_BF16 && !HAS_PRECISE && WARPGROUPS == 2);
    static constexpr unsigned BOX_BYTES = OUT_ROWS * LN_WEIGHT_TILE_ROWS * 4, N_BOXES = 2;
    /* shared memory of a warp for spilled sums, then results on their way */
    static constexpr unsigned WARP_FLOATS = N_SPILLED > 0             ? N_SPILLED *LN_WARP
                                            : TMA_STORE && !HAS_IMAGE ? N_BOXES * BOX_BYTES / 4
                                                                      : (unsigned)OUT_FLOATS;
    static constexpr unsigned ALL_BYTES = WARPS * WARP_FLOATS * 4;
    /* a warpgroup's image: in place of its spilled sums, or behind what the warps have */
    static constexpr unsigned IMAGE_AT = N_SPILLED > 0 ? 0 : ALL_BYTES;
    static constexpr unsigned IMAGE_STRIDE =
        N_SPILLED > 0 ? ALL_BYTES / WARPGROUPS : TILE_ROWS / 2 * 128;
    static constexpr unsigned OUT_BYTES =
        ALL_BYTES + (HAS_IMAGE && N_SPILLED == 0 ? TILE_ROWS * 128 : 0);
    /* the same warps on other rows, without a gate */
    template <int OTHER_ROWS>
    using with_rows = sm90_config<WEIGHTS, OTHER_ROWS, WARPGROUPS, false, PRECISE, false>;
};

/* A stage: activations of one weight tile's K, what goes with them (PRECISE: the residual of bf16
 * rounding; INT8 and INT4: block scales), then the weight tiles of each warp. */
template <typename CONFIG> struct sm90_stage {
    static constexpr bool HAS_BLOCKS =
        ln_traits_of(CONFIG::LAYOUT).acts == LN_ACT_TYPE_INT8_BLOCK;          /* of 32 columns */
    static constexpr unsigned ACT_ROWS = CONFIG::ROWS * (HAS_BLOCKS ? 2 : 1); /* of 128 bytes */
    static constexpr unsigned AUX_ROWS = CONFIG::PRECISE ? CONFIG::ROWS
                                         : HAS_BLOCKS    ? CONFIG::ROWS * 8 * 4 / 128
                                                         : 0;
    static constexpr unsigned ACT_BYTES = ACT_ROWS * 128, TILES_AT = ACT_BYTES + AUX_ROWS * 128;
    static constexpr unsigned TILE_BYTES = ln_weight_tile_bytes(CONFIG::LAYOUT);
    static constexpr unsigned W_BYTES = CONFIG::WARPS * TILE_BYTES, USED = TILES_AT + W_BYTES;
    static constexpr unsigned BYTES = (USED + 1023) / 1024 * 1024; /* as swizzling wants it */
    static constexpr unsigned MOST = (MAX_SHARED - CONFIG::OUT_BYTES) / BYTES;
    static constexpr unsigned N_STAGES = MOST < MAX_STAGES ? MOST : (unsigned)MAX_STAGES;
    static constexpr unsigned SHARED_BYTES = N_STAGES * BYTES + CONFIG::OUT_BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Tile m of the rows (of slot m, by groups), tile n of the columns of a part. */
typedef struct output_tile {
    unsigned m, part, n;
    ln_group_slot slot; /* by groups: its rows */
} output_tile;

struct sm90_pipeline : ln_pipeline<MAX_STAGES> {
    uint64_t led; /* a phase for each output tile: the first warpgroup has begun it */
};

/* barrier.cluster, by all threads that have not ended. */
static __device__ __forceinline__ void sync_cluster(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* By all threads, before all else. */
template <typename CONFIG>
static __device__ __forceinline__ void init_pipeline(sm90_pipeline &pipeline) {
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < sm90_stage<CONFIG>::N_STAGES; i++)
            ln_pipeline_init_stage(pipeline, i, CONFIG::WARPS * CONFIG::CTAS);
        ln_mbarrier_init(&pipeline.led, WARPGROUP / LN_WARP);
        ln_fence_mbarrier_init();
    }
    if (CONFIG::CTAS > 1)
        sync_cluster();
    else
        __syncthreads();
}

/* A consumer warp is done with a stage, to which all CTAs of a cluster copy. */
template <typename CONFIG>
static __device__ __forceinline__ void release_stage(sm90_pipeline &pipeline, unsigned i,
                                                     unsigned lane) {
    if (CONFIG::CTAS == 1)
        ln_pipeline_release(&pipeline.empty[i], lane);
    else if (lane < CONFIG::CTAS)
        ln_mbarrier_arrive_at(&pipeline.empty[i], lane);
}

/* A CTA's place in its cluster. */
template <typename CONFIG> static __device__ __forceinline__ unsigned cluster_rank(void) {
    return blockIdx.x % CONFIG::CTAS;
}

/* Clusters of the grid: output tiles are dealt to them, CTAS at a time. */
template <typename CONFIG> static __device__ __forceinline__ unsigned count_clusters(void) {
    return gridDim.x / CONFIG::CTAS;
}

/* bar.sync of a consumer warpgroup. */
static __device__ __forceinline__ void sync_warpgroup(unsigned warpgroup) {
    asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 8) : "memory");
}

/* Before a tile's first box: those of the tile before have been read. */
static __device__ __forceinline__ void wait_for_boxes(unsigned lane) {
    if (lane == 0)
        ln_bulk_store_wait_read<0>();
    __syncwarp();
}

template <typename CONFIG> static __device__ __forceinline__ void advance(ln_pipeline_stage &at) {
    ln_pipeline_advance(at, sm90_stage<CONFIG>::N_STAGES);
}

#endif

#endif
