/* y = x W^T with its epilogue, W in tiles of BF16, for up to 64 rows of x on Hopper: the tiles are
 * WGMMA's A operand, from registers, and x, in a panel of 64 rows, its B operand. The order of
 * every sum is that of tile_linear.
 *
 * Grid: clusters of eight blocks, one for each slice of the columns, as many as there is room for.
 * A cluster has a share of the results by units of 64 columns and takes two at a time, or one with
 * its gate. Its blocks send the sums of eight rows of x each to one of them, which merges the
 * slices in order and writes the results, while the next weights are multiplied. Block: two groups
 * of four warps that multiply a unit each, and a warp that brings weights and x.
 *
 * Shared memory: what other blocks send [8 slices][8 warps][32 lanes] 16 bytes; tiles of x: all of
 * the slice where there is room, or as many as stages; stages of weights, [8 warps] a tile each.
 * Weights are read once, x as often as it does not stay, from the L2 cache. */
#include "backend/cuda/cluster.cuh"
#include "backend/cuda/ring.cuh"
#include "backend/cuda/tile_args.cuh"

enum { BLOCKS = LN_TILE_SLICES, WARPS = 8, WORKERS = WARPS * LN_WARP };
enum { FEW_THREADS = WORKERS + LN_WARP, MAX_STAGES = 12, MIN_STAGES = 4 };
enum { TILE_BYTES = 2048, W_BYTES = WARPS * TILE_BYTES, SENT_BYTES = BLOCKS * WORKERS * 16 };
enum { MAX_SHARED = 226 * 1024, PANEL_TILE_BYTES = 64 * 128 };
enum {
    UNIT_ROWS = 4,
    UNIT_COLUMNS = UNIT_ROWS * LN_TILE_ROWS,
    UNIT_BYTES = UNIT_ROWS * TILE_BYTES
};

typedef struct few_args {
    ln_tile_args p;
    unsigned n_units;
    unsigned n_stages, n_x; /* tiles of x that there is room for */
    bool x_stays;
    CUtensorMap gate, weights[LN_TILE_MAX_PARTS]; /* in boxes of a unit's rows of tiles */
} few_args;

/* Bytes of a tile of ROWS rows of x, with PRECISE what rounding left behind it. */
template <int ROWS, bool PRECISE> static __host__ __device__ constexpr unsigned x_bytes(void) {
    return ROWS * 128 * (PRECISE ? 2 : 1);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

typedef struct few_barriers {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
    uint64_t sent[WARPS]; /* the slices' sums have come */
    uint64_t free[WARPS]; /* other blocks have room for sums */
} few_barriers;

/* 64 columns of a part. */
typedef struct few_unit {
    unsigned part, block;
} few_unit;

static __device__ __forceinline__ few_unit find_unit(const ln_tile_args &p, unsigned number) {
    few_unit unit = {0, number};
    for (; unit.part + 1 < p.n_parts; unit.part++) {
        unsigned n =
            ((unsigned)p.parts[unit.part].epilogue.n_out + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
        if (unit.block < n)
            break;
        unit.block -= n;
    }
    return unit;
}

/* The units of this cluster. */
static __device__ __forceinline__ void find_units(const few_args &a, unsigned *begin,
                                                  unsigned *end) {
    unsigned n_clusters = gridDim.x / BLOCKS, cluster = blockIdx.x / BLOCKS;
    *begin = a.n_units * cluster / n_clusters;
    *end = a.n_units * (cluster + 1) / n_clusters;
}

/* The tiles of this block's slice. */
static __device__ __forceinline__ void find_slice(const ln_tile_args &p, unsigned *begin,
                                                  unsigned *end) {
    unsigned per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    *begin = min(ln_cluster_rank() * per_slice, p.n_tiles);
    *end = min(*begin + per_slice, p.n_tiles);
}

/* Queues tile number i of x of those that this block meets. */
template <int ROWS, bool PRECISE>
static __device__ __forceinline__ void bring_x(const few_args &a, unsigned i, unsigned begin,
                                               unsigned n_own, char *x, few_barriers &bars) {
    enum { BYTES = ROWS * 128 };
    if (a.x_stays && i >= n_own)
        return;
    uint64_t *full = &bars.full[i % a.n_stages];
    char *to = x + i % a.n_x * x_bytes<ROWS, PRECISE>();
    size_t at = (size_t)(begin + i % n_own) * PANEL_TILE_BYTES;
    ln_bulk_copy(to, (const char *)a.p.x.bf16 + at, BYTES, full);
    if (PRECISE)
        ln_bulk_copy(to + BYTES, (const char *)a.p.x.rest + at, BYTES, full);
}

/* Queues a tile of the weights of the units from `unit` on, n of them, or of one with its gate. */
template <bool GATE>
static __device__ __forceinline__ void bring_weights(const few_args &a, unsigned unit, unsigned n,
                                                     unsigned tile, char *to, uint64_t *full) {
    for (unsigned i = 0; i < n; i++) {
        few_unit u = find_unit(a.p, unit + i);
        int row = (int)(u.block * UNIT_ROWS), at = (int)(tile * (TILE_BYTES / 128));
        ln_copy_box(to + i * UNIT_BYTES, &a.weights[u.part], 0, at, row, full);
        if (GATE)
            ln_copy_box(to + UNIT_BYTES, &a.gate, 0, at, row, full);
    }
}

/* Brings stage after stage for all units; by one thread. The first weights are under way before
 * the kernel that makes x has ended. */
template <int ROWS, bool GATE, bool PRECISE>
static __device__ void bring(const few_args &a, char *x, char *weights, few_barriers &bars) {
    constexpr unsigned AT_ONCE = GATE ? 1 : 2;
    unsigned begin, end, first, last, i = 0;
    bool has_waited = false;
    find_slice(a.p, &begin, &end);
    find_units(a, &first, &last);
    unsigned n_own = end - begin;
    for (unsigned unit = first; unit < last; unit += AT_ONCE) {
        unsigned n = min(AT_ONCE, last - unit);
        for (unsigned tile = begin; tile < end; tile++, i++) {
            unsigned stage = i % a.n_stages;
            uint64_t *full = &bars.full[stage];
            ln_barrier_wait(&bars.empty[stage], (i / a.n_stages + 1) % 2);
            ln_barrier_expect(full, n * UNIT_BYTES * (GATE ? 2 : 1) +
                                        (a.x_stays && i >= n_own ? 0 : x_bytes<ROWS, PRECISE>()));
            bring_weights<GATE>(a, unit, n, tile, weights + stage * W_BYTES, full);
            if (has_waited) {
                bring_x<ROWS, PRECISE>(a, i, begin, n_own, x, bars);
            } else if (i + 1 == a.n_stages) {
                ln_wait_for_last();
                has_waited = true;
                for (unsigned k = 0; k <= i; k++)
                    bring_x<ROWS, PRECISE>(a, k, begin, n_own, x, bars);
            }
        }
    }
    if (has_waited)
        return;
    ln_wait_for_last();
    for (unsigned k = 0; k < i; k++)
        bring_x<ROWS, PRECISE>(a, k, begin, n_own, x, bars);
}

/* Adds tiles [begin, end) of the slice: warp `warp` has columns 16 * warp + lane / 4 (+ 8) of both
 * units, and of x rows 8 j + 2 (lane % 4) (+ 1). *i counts tiles. */
template <int ROWS, bool PRECISE>
static __device__ __forceinline__ void
multiply(const few_args &a, unsigned begin, unsigned end, bool precise, const char *x_tiles,
         const char *weights, few_barriers &bars, unsigned *i, float (&sum)[ROWS / 2]) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
#pragma unroll 1
    for (unsigned tile = begin; tile < end; tile++, ++*i) {
        unsigned stage = *i % a.n_stages;
        const char *x = x_tiles + (a.x_stays ? tile : stage) * x_bytes<ROWS, PRECISE>();
        const char *w = weights + stage * W_BYTES + warp * TILE_BYTES + lane * 16;
        uint4 steps[4];
        ln_barrier_wait(&bars.full[stage], *i / a.n_stages % 2);
#pragma unroll
        for (int k = 0; k < 4; k++)
            steps[k] = *(const uint4 *)(w + k * 512);
        ln_wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++)
            ln_wgmma_few(sum, steps[k], ln_wgmma_rows(x + k * 32));
        if (PRECISE && precise) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                ln_wgmma_few(sum, steps[k], ln_wgmma_rows(x + ROWS * 128 + k * 32));
        }
        ln_wgmma_commit();
        ln_wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < 4; k++)
            ln_wgmma_keep(steps[k]);
        ln_wgmma_keep(sum);
        if (lane == 0)
            ln_barrier_arrive(&bars.empty[stage]);
    }
}

/* Sends the sums of rows 8 j and on to block j of the cluster. */
template <int ROWS>
static __device__ __forceinline__ void send(const float (&sum)[ROWS / 2], unsigned n_receivers,
                                            const float4 *sent, few_barriers &bars) {
    unsigned warp = threadIdx.x / LN_WARP;
#pragma unroll
    for (unsigned j = 0; j < ROWS / 8; j++)
        if (j < n_receivers)
            ln_cluster_send(ln_cluster_address(&sent[ln_cluster_rank() * WORKERS + threadIdx.x], j),
                            &sum[4 * j], ln_cluster_address(&bars.sent[warp], j));
}

/* What the warps number `warp` of all blocks sent, merged. */
static __device__ __forceinline__ float4 merge(const float4 *sent, unsigned warp) {
    const float4 *from = sent + warp * LN_WARP + threadIdx.x % LN_WARP;
    float4 total = from[0];
#pragma unroll
    for (int s = 1; s < LN_TILE_SLICES; s++) {
        float4 sum = from[s * WORKERS];
        total.x += sum.x, total.y += sum.y, total.z += sum.z, total.w += sum.w;
    }
    return total;
}

/* Tells all blocks that there is room again where their warps number `warp` send. */
static __device__ __forceinline__ void make_room(few_barriers &bars, unsigned warp) {
    unsigned lane = threadIdx.x % LN_WARP;
    if (lane < BLOCKS)
        ln_cluster_barrier_arrive(ln_cluster_address(&bars.free[warp], lane));
}

static __device__ __forceinline__ void expect_sums(few_barriers &bars, unsigned warp) {
    if (threadIdx.x % LN_WARP == 0)
        ln_barrier_expect(&bars.sent[warp], BLOCKS * LN_WARP * 16);
}

/* Writes the results of eight rows from this block's first on. */
template <bool GATE>
static __device__ __forceinline__ void finish(const ln_tile_args &p, const few_unit &unit,
                                              unsigned parity, const float4 *sent,
                                              few_barriers &bars) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    float bias[4] = {}, gate_bias[4] = {}, residual[4] = {};
    size_t rows[4], columns[4];
    bool is_there[4];
    expect_sums(bars, warp);
    if (GATE)
        expect_sums(bars, warp + UNIT_ROWS);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        rows[i] = ln_cluster_rank() * 8 + lane % 4 * 2 + i % 2;
        columns[i] = (size_t)unit.block * UNIT_COLUMNS + warp % UNIT_ROWS * LN_TILE_ROWS +
                     lane / 4 + i / 2 * 8;
        is_there[i] = rows[i] < p.n_rows && columns[i] < e.n_out;
        if (!is_there[i])
            continue;
        if (e.bias != NULL)
            bias[i] = e.bias[columns[i]];
        if (GATE && e.gate_bias != NULL)
            gate_bias[i] = e.gate_bias[columns[i]];
        if (e.residual != NULL)
            residual[i] = e.residual[rows[i] * e.n_out + columns[i]];
    }
    ln_cluster_barrier_wait(&bars.sent[warp], parity);
    if (GATE)
        ln_cluster_barrier_wait(&bars.sent[warp + UNIT_ROWS], parity);
    float4 up = merge(sent, warp), gate = {};
    if (GATE)
        gate = merge(sent, warp + UNIT_ROWS);
    __syncwarp();
    make_room(bars, warp);
    if (GATE)
        make_room(bars, warp + UNIT_ROWS);
    const float u[4] = {up.x, up.y, up.z, up.w}, g[4] = {gate.x, gate.y, gate.z, gate.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (is_there[i])
            e.out[rows[i] * e.out_stride + columns[i]] =
                ln_epilogue_value(e, u[i], g[i], bias[i], gate_bias[i], residual[i]);
}

/* Before all else. */
static __device__ __forceinline__ void init_barriers(const few_args &a, unsigned n_receivers,
                                                     few_barriers &bars) {
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < a.n_stages; i++) {
            ln_barrier_init(&bars.full[i], 1);
            ln_barrier_init(&bars.empty[i], WARPS);
        }
        for (unsigned i = 0; i < WARPS; i++) {
            ln_barrier_init(&bars.sent[i], 1);
            ln_barrier_init(&bars.free[i], n_receivers);
        }
        ln_barriers_ready();
    }
    __syncthreads();
    ln_cluster_arrive();
}

/* What the warps do that multiply: while the sums of units are on their way, the next weights are
 * multiplied. */
template <int ROWS, bool GATE, bool PRECISE>
static __device__ __forceinline__ void work(const few_args &a, const char *x, const char *weights,
                                            const float4 *sent, unsigned n_receivers,
                                            few_barriers &bars) {
    constexpr unsigned AT_ONCE = GATE ? 1 : 2;
    unsigned warp = threadIdx.x / LN_WARP, group = warp / UNIT_ROWS;
    unsigned begin, end, first, last, i = 0, n_sent = 0;
    bool finishes = ln_cluster_rank() < n_receivers && !(GATE && group > 0);
    find_slice(a.p, &begin, &end);
    find_units(a, &first, &last);
    unsigned n_own = end - begin;
    few_unit before = {};
    for (unsigned unit = first; unit < last; unit += AT_ONCE) {
        bool is_there = GATE || unit + group < last;
        few_unit now = find_unit(a.p, GATE || !is_there ? unit : unit + group);
        bool precise = PRECISE && a.p.parts[now.part].precise;
        float sum[ROWS / 2];
#pragma unroll
        for (int k = 0; k < ROWS / 2; k++)
            sum[k] = 0.0f;
        multiply<ROWS, PRECISE>(a, 0, n_own / 2, precise, x, weights, bars, &i, sum);
        if (n_sent > 0 && finishes)
            finish<GATE>(a.p, before, (n_sent - 1) % 2, sent, bars);
        __syncwarp();
        multiply<ROWS, PRECISE>(a, n_own / 2, n_own, precise, x, weights, bars, &i, sum);
        if (!is_there)
            return; /* and has finished what it sent */
        if (n_sent > 0)
            ln_cluster_barrier_wait(&bars.free[warp], (n_sent - 1) % 2);
        send<ROWS>(sum, n_receivers, sent, bars);
        before = now, n_sent++;
    }
    if (n_sent > 0 && finishes)
        finish<GATE>(a.p, before, (n_sent - 1) % 2, sent, bars);
}

#endif

template <int ROWS, bool GATE, bool PRECISE>
static __global__ void __launch_bounds__(FEW_THREADS, 1)
    multiply_few(const __grid_constant__ few_args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ few_barriers bars;
    char *x = memory + SENT_BYTES, *weights = x + a.n_x * x_bytes<ROWS, PRECISE>();
    unsigned n_receivers = ((unsigned)a.p.n_rows + 7) / 8;
    ln_let_next_start();
    init_barriers(a, n_receivers, bars);
    if (threadIdx.x == WORKERS)
        bring<ROWS, GATE, PRECISE>(a, x, weights, bars);
    else if (threadIdx.x < WORKERS)
        ln_wait_for_last();
    __syncwarp();
    ln_cluster_wait();
    if (threadIdx.x < WORKERS)
        work<ROWS, GATE, PRECISE>(a, x, weights, (const float4 *)memory, n_receivers, bars);
    __syncwarp();
    ln_cluster_arrive(); /* nobody writes to a block that has ended */
    ln_cluster_wait();
#endif
}

/* ---- launching ------------------------------------------------------------------------------- */

/* A row of tiles after another, in boxes of a unit's rows and a tile of columns. */
static int map_units(const ln_tile_args &args, const uint8_t *matrix, size_t n_out,
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
    tensor.box[2] = UNIT_ROWS;
    return ln_tensor_map(&tensor, map);
}

static int map_weights(const ln_tile_args &args, few_args *a) {
    int code = 0;
    for (unsigned i = 0; i < args.n_parts && code == 0; i++)
        code = map_units(args, args.parts[i].weight, args.parts[i].epilogue.n_out, &a->weights[i]);
    if (code == 0 && args.parts[0].gate != NULL)
        code = map_units(args, args.parts[0].gate, args.parts[0].epilogue.n_out, &a->gate);
    return code;
}

template <int ROWS, bool GATE, bool PRECISE>
static int launch(const ln_tile_args &args, cudaStream_t stream) {
    constexpr unsigned X_BYTES = x_bytes<ROWS, PRECISE>(), ROOM = MAX_SHARED - SENT_BYTES;
    void (*kernel)(few_args) = multiply_few<ROWS, GATE, PRECISE>;
    few_args a = {};
    a.p = args;
    a.n_units = ln_tile_blocks(args, UNIT_COLUMNS);
    unsigned per_slice = (args.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    a.x_stays = per_slice * X_BYTES + MIN_STAGES * W_BYTES <= ROOM;
    a.n_stages = a.x_stays ? (ROOM - per_slice * X_BYTES) / W_BYTES : ROOM / (X_BYTES + W_BYTES);
    a.n_stages = a.n_stages < MAX_STAGES ? a.n_stages : (unsigned)MAX_STAGES;
    a.n_x = a.x_stays ? per_slice : a.n_stages;
    unsigned shared = SENT_BYTES + a.n_x * X_BYTES + a.n_stages * W_BYTES;
    cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)MAX_SHARED);
    if (code != cudaSuccess)
        return code;
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = BLOCKS;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(FEW_THREADS);
    config.gridDim = dim3(BLOCKS);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 1;
    int n_clusters = 0;
    code = cudaOccupancyMaxActiveClusters(&n_clusters, kernel, &config);
    if (code == cudaSuccess)
        code = (cudaError_t)map_weights(args, &a);
    if (code != cudaSuccess)
        return code;
    unsigned n = n_clusters > 1 ? (unsigned)n_clusters : 1;
    config.gridDim = dim3((n < a.n_units ? n : a.n_units) * BLOCKS);
    config.numAttrs = 2;
    void *values[] = {(void *)&a};
    return cudaLaunchKernelExC(&config, (const void *)kernel, values);
}

template <int ROWS> static int launch_rows(const ln_tile_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if (ln_tile_is_precise(args))
        return has_gate ? launch<ROWS, true, true>(args, stream)
                        : launch<ROWS, false, true>(args, stream);
    return has_gate ? launch<ROWS, true, false>(args, stream)
                    : launch<ROWS, false, false>(args, stream);
}

int ln_tile_cluster(const ln_tile_args &args, cudaStream_t stream) {
    if (args.n_rows <= 16)
        return launch_rows<16>(args, stream);
    return args.n_rows <= 32 ? launch_rows<32>(args, stream) : launch_rows<64>(args, stream);
}
