/* Adapters in the fused linear + norm kernel: of each of a linear's weights both halves, A x
 * (shrink) and B of that (expand), between the other K splits.
 *
 * An adapter tile is sixteen ranks of a run of rows with one adapter. Warps of their own compute A
 * x of tiles, in parts of 1024 columns, while consumers multiply weights; the block that ends a
 * tile's last part adds them up. All is done in the order of ops/lora_shrink_mma.cu, so rows get
 * the same bits either way. What comes out is a K step of activations, with zeros where a row is of
 * another run, by which all blocks multiply B as a unit's last K split, in the order of
 * gemm/sm90_small_m.cuh. Nobody waits for it before the end of a unit of columns.
 *
 * Deadlock: these warps want nothing but the linear's x. It is complete once all blocks are done
 * with the linear in front, and some have waited for all of that one's A x: so nobody reads its
 * partial sums or its x any more.
 *
 * A row that has Inf, of K that is no multiple of 1024, may get NaN where the other kernels have
 * Inf; and where A x of one half of a gated linear is Inf, the other half may have NaN or not.
 */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_ADAPTERS_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_ADAPTERS_CUH

#include "backend/cuda/fused/linear_norm_args.cuh"
#include "backend/cuda/ptx/evict_first.cuh"
#include "backend/cuda/ptx/mma_16.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The list of a part, or NULL, once the table is filled. */
static __device__ __forceinline__ const adapter_list *list_of(adapter_table *table, unsigned number,
                                                              unsigned part) {
    ln_mbarrier_wait(&table->is_filled, 0);
    const adapter_list *list = &table->lists[number][part];
    return list->n > 0 ? list : NULL;
}

/* The adapters of a range's part, whose K split follows where the range ends a unit, or NULL. */
static __device__ __forceinline__ const adapter_list *
list_behind(adapter_table *table, unsigned number, unsigned part, const split_range &range) {
    return range.end == LN_K_SPLITS ? list_of(table, number, part) : NULL;
}

static __device__ __forceinline__ void sync_shrink(void) {
    asm volatile("bar.sync 1, %0;" ::"n"((int)SHRINK_THREADS) : "memory");
}

/* ---- table ----------------------------------------------------------------------------------- */

/* Of a lane's run of a weight: its tiles, and how many are before. */
typedef struct run_tiles {
    const ln_adapter_target *target;
    unsigned n, before;
} run_tiles;

static __device__ __forceinline__ run_tiles count_tiles(const fused_adapters &f,
                                                        const adapted_weight &weight, unsigned run,
                                                        unsigned *n_all) {
    unsigned lane = threadIdx.x % LN_WARP;
    run_tiles tiles = {};
    if (run < (unsigned)*f.n_runs) {
        tiles.target = &weight.targets[f.rows.runs[run].slot];
        tiles.n = ((unsigned)tiles.target->rank + LN_ADAPTER_TILE - 1) / LN_ADAPTER_TILE;
    }
    unsigned end = tiles.n;
    for (unsigned step = 1; step < LN_WARP; step *= 2) {
        unsigned other = __shfl_up_sync(0xffffffffu, end, step);
        end += lane >= step ? other : 0;
    }
    tiles.before = *n_all + end - tiles.n;
    *n_all += __shfl_sync(0xffffffffu, end, LN_WARP - 1);
    return tiles;
}

/* Where a weight's tiles begin; by the first thread, what the table says of lists, too. */
static __device__ __forceinline__ unsigned place_weight(const fused_adapters &f,
                                                        adapter_table *table, unsigned weight) {
    unsigned at = 0, own = 0;
    for (unsigned i = 0; i < f.n_weights; i++) {
        const adapted_weight &w = f.weights[i];
        bool is_first = i == 0 || f.weights[i - 1].linear != w.linear;
        bool continues = !is_first && f.weights[i - 1].part == w.part;
        at = continues ? at : (at + 3) / 4 * 4;
        own = i == weight ? at : own;
        if (threadIdx.x == FIRST_SHRINK_THREAD && weight == 0) {
            adapter_list &list = table->lists[w.linear][w.part];
            list.first = continues ? list.first : at;
            list.n += table->n_of[i];
            list.n_up += w.is_gate ? 0 : table->n_of[i];
            table->first[w.linear] = is_first ? at : table->first[w.linear];
            table->n[w.linear] = (at + table->n_of[i] + 3) / 4 * 4 - table->first[w.linear];
        }
        at += table->n_of[i];
    }
    return own;
}

static __device__ __forceinline__ void write_tiles(const adapted_weight &weight, unsigned run,
                                                   const run_tiles &tiles, adapter_tile *to) {
    constexpr uint32_t B_BYTES = LN_ADAPTER_B_ROWS * LN_ADAPTER_TILE * sizeof(uint16_t);
    if (tiles.n == 0)
        return;
    const char *a = (const char *)tiles.target->a_tiles;
    const char *b = (const char *)tiles.target->b_tiles;
    for (unsigned i = 0; i < tiles.n; i++)
        to[tiles.before + i] = {a + i * weight.a_stride, b + i * B_BYTES, tiles.n * B_BYTES, run};
}

/* Fills the table, before the kernel in front has ended. */
static __device__ __forceinline__ void fill_table(const fused_adapters &f, adapter_table *table) {
    unsigned warp = (threadIdx.x - FIRST_SHRINK_THREAD) / LN_WARP, lane = threadIdx.x % LN_WARP;
    for (unsigned i = threadIdx.x - FIRST_SHRINK_THREAD; i < sizeof table->tiles / 4;
         i += SHRINK_THREADS)
        ((unsigned *)table->tiles)[i] = 0;
    for (unsigned i = threadIdx.x - FIRST_SHRINK_THREAD; i < sizeof table->lists / 4;
         i += SHRINK_THREADS)
        ((unsigned *)table->lists)[i] = 0;
    if (threadIdx.x - FIRST_SHRINK_THREAD < MAX_LINEARS)
        table->n[threadIdx.x - FIRST_SHRINK_THREAD] = 0;
    for (unsigned weight = warp; weight < f.n_weights; weight += SHRINK_WARPS) {
        unsigned n_all = 0;
        for (unsigned i = 0; i < 2; i++)
            count_tiles(f, f.weights[weight], lane + i * LN_WARP, &n_all);
        if (lane == 0)
            table->n_of[weight] = n_all;
    }
    sync_shrink();
    for (unsigned weight = warp; weight < f.n_weights; weight += SHRINK_WARPS) {
        adapter_tile *to = table->tiles + place_weight(f, table, weight);
        for (unsigned i = 0, n_all = 0; i < 2; i++) {
            unsigned run = lane + i * LN_WARP;
            write_tiles(f.weights[weight], run, count_tiles(f, f.weights[weight], run, &n_all), to);
        }
    }
    sync_shrink();
    ln_mbarrier_arrive(&table->is_filled);
}

/* ---- A x ------------------------------------------------------------------------------------- */

/* Part `part` of a linear's tile. */
typedef struct adapter_item {
    unsigned tile, part, n_parts;
} adapter_item;

/* Item number k of this block in a linear. */
static __device__ __forceinline__ bool find_adapter_item(const fused_linear &l,
                                                         const adapter_table *table,
                                                         unsigned number, unsigned k,
                                                         adapter_item &item) {
    constexpr unsigned PART_TILES = PART_CHUNKS * CHUNK_STEPS / 4;
    unsigned n = table->n[number];
    unsigned index = gridDim.x - 1 - blockIdx.x + k * gridDim.x;
    item.n_parts = (l.gemm.p.n_tiles + PART_TILES - 1) / PART_TILES;
    if (index >= n * item.n_parts)
        return false;
    item.tile = table->first[number] + index % n;
    item.part = index / n;
    return true;
}

/* The chunk c of a warp in a part, of two activation tiles; a linear has so many whole ones. */
static __device__ __forceinline__ unsigned chunk_of(unsigned part, unsigned c) {
    unsigned warp = (threadIdx.x - FIRST_SHRINK_THREAD) / LN_WARP;
    return part * PART_CHUNKS + c * SHRINK_WARPS + warp;
}

/* A warp's fragments of A, zeros behind the last column. */
static __device__ __forceinline__ void load_a(const fused_linear &l, const adapter_tile &tile,
                                              unsigned part, uint4 (&a)[CHUNKS][CHUNK_STEPS]) {
#pragma unroll
    for (unsigned c = 0; c < CHUNKS; c++) {
        unsigned chunk = chunk_of(part, c);
        const uint4 *from = (const uint4 *)tile.a + chunk * (CHUNK_STEPS * LN_WARP);
        from += threadIdx.x % LN_WARP;
#pragma unroll
        for (unsigned k = 0; k < CHUNK_STEPS; k++)
            a[c][k] = 2 * chunk < l.gemm.p.n_tiles ? ln_load_evict_first(from + k * LN_WARP)
                                                   : make_uint4(0, 0, 0, 0);
    }
}

/* A warp's sums of eight rows of the run, from `first` on, to shared memory. Of rows behind the
 * last they are those of any row, and nobody reads them. */
static __device__ __forceinline__ void multiply_a(const fused_linear &l, adapter_table *table,
                                                  unsigned part, unsigned first, unsigned n,
                                                  const uint4 (&a)[CHUNKS][CHUNK_STEPS]) {
    unsigned warp = (threadIdx.x - FIRST_SHRINK_THREAD) / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned row = table->rows[min(first + lane / 4, n - 1)];
    const char *x = (const char *)l.gemm.p.x.bf16 + row * 128 + lane % 4 * 4;
    float *to = &table->sums[warp][lane % 4 * 2][lane / 4];
#pragma unroll
    for (unsigned c = 0; c < CHUNKS; c++) {
        unsigned tile = min(2 * chunk_of(part, c), l.gemm.p.n_tiles - 2);
        const char *from = x + (size_t)tile * (ACT_TILE_ROWS * 128);
        uint32_t words[CHUNK_STEPS][2];
#pragma unroll
        for (unsigned k = 0; k < CHUNK_STEPS; k++)
#pragma unroll
            for (unsigned half = 0; half < 2; half++)
                words[k][half] = __ldcg((const uint32_t *)(from + k / 4 * (ACT_TILE_ROWS * 128) +
                                                           ((k % 4 * 2 + half) ^ row % 8) * 16));
        float sum[4] = {};
#pragma unroll
        for (unsigned k = 0; k < CHUNK_STEPS; k++)
            ln_mma_bf16(sum, a[c][k], words[k][0], words[k][1]);
        to[0] = sum[0], to[LN_ADAPTER_TILE + 1] = sum[1];
        to[8] = sum[2], to[LN_ADAPTER_TILE + 1 + 8] = sum[3];
        to += sizeof table->sums[0] / sizeof(float) * SHRINK_WARPS;
    }
}

/* Writes the tile's K step of activations: of its run's rows the sums over all parts. */
static __device__ __forceinline__ void write_low(const fused_args &c, const adapter_item &item,
                                                 const float *from, unsigned n,
                                                 const adapter_table *table) {
    constexpr unsigned FLOATS = LN_SHRINK_FLOATS;
    unsigned thread = threadIdx.x - FIRST_SHRINK_THREAD;
    char *to = c.adapters.scratch->lists.low[0][item.tile / 4];
    uint64_t rows = 0;
    for (unsigned i = 0; i < n; i++)
        rows |= (uint64_t)1 << table->rows[i];
    unsigned row = thread / 2, half = thread % 2;
    if (!(rows >> row & 1))
        *(uint4 *)(to + row * 128 + ((item.tile % 4 * 2 + half) ^ row % 8) * 16) =
            make_uint4(0, 0, 0, 0);
    if (thread >= n * 4)
        return;
    unsigned quad = thread % 4;
    from += thread * 4;
    float4 sum = __ldcg((const float4 *)from);
#pragma unroll 8
    for (unsigned part = 1; part < item.n_parts; part++) {
        float4 y = __ldcg((const float4 *)(from + (size_t)part * FLOATS));
        sum.x += y.x, sum.y += y.y, sum.z += y.z, sum.w += y.w;
    }
    row = table->rows[thread / 4];
    *(uint2 *)(to + row * 128 + ((item.tile % 4 * 2 + quad / 2) ^ row % 8) * 16 + quad % 2 * 8) =
        make_uint2(ln_pack_bf16(sum.x, sum.y), ln_pack_bf16(sum.z, sum.w));
}

/* The K step of a tile is there. */
static __device__ __forceinline__ void arrive_low(const fused_args &c, unsigned number) {
    asm volatile("fence.proxy.async;" ::: "memory");
    sync_shrink();
    if (threadIdx.x == FIRST_SHRINK_THREAD)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&c.memory->counts.low[number])
                     : "memory");
}

/* Counts a part whose sums are published; how many there were before. */
static __device__ __forceinline__ unsigned count_part(unsigned *counter) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(counter)
                 : "memory");
    return before;
}

/* An item of A, whose fragments are there. */
static __device__ __forceinline__ void shrink_item(const fused_args &c, const fused_linear &l,
                                                   unsigned number, adapter_table *table,
                                                   const adapter_item &item, unsigned n,
                                                   const uint4 (&a)[CHUNKS][CHUNK_STEPS]) {
    unsigned thread = threadIdx.x - FIRST_SHRINK_THREAD;
    unsigned row = thread / LN_ADAPTER_TILE, rank = thread % LN_ADAPTER_TILE;
    float(*partials)[LN_SHRINK_FLOATS] =
        c.adapters.scratch->partials + (size_t)(item.tile - table->first[number]) * item.n_parts;
    for (unsigned first = 0; first < n; first += PASS_ROWS) {
        multiply_a(l, table, item.part, first, n, a);
        sync_shrink();
        float total = table->sums[0][row][rank];
#pragma unroll
        for (unsigned i = 1; i < PART_CHUNKS; i++)
            total += table->sums[i][row][rank];
        __stcg(&partials[item.part][first * LN_ADAPTER_TILE + thread], total);
        sync_shrink(); /* before the next rows' sums */
    }
    if (thread == 0) {
        unsigned *counter = &c.adapters.scratch->counters[item.tile];
        table->is_last = count_part(counter) == item.n_parts - 1;
        if (table->is_last)
            *counter = 0;
    }
    sync_shrink();
    if (!table->is_last)
        return;
    write_low(c, item, partials[0], n, table);
    arrive_low(c, number);
}

static __device__ __forceinline__ void wait_for_x(const fused_args &c, unsigned number);

/* Computes A x of this block's items of a linear. */
static __device__ __forceinline__ void shrink(const fused_args &c, unsigned number,
                                              adapter_table *table) {
    const fused_linear &l = c.linears[number];
    unsigned thread = threadIdx.x - FIRST_SHRINK_THREAD;
    bool has_x = false;
    adapter_item item;
    for (unsigned k = 0; find_adapter_item(l, table, number, k, item); k++) {
        const adapter_tile &tile = table->tiles[item.tile];
        if (tile.a == NULL) {
            if (item.part > 0)
                continue;
            ln_pdl_wait();
            write_low(c, item, NULL, 0, table);
            arrive_low(c, number);
            continue;
        }
        ln_adapter_run run = c.adapters.rows.runs[tile.run];
        unsigned n = (unsigned)(run.end - run.begin);
        uint4 a[CHUNKS][CHUNK_STEPS];
        load_a(l, tile, item.part, a);
        if (thread < n)
            table->rows[thread] = (unsigned)c.adapters.rows.order[run.begin + (int)thread];
        if (!has_x) {
            ln_pdl_wait(); /* or the counters are an earlier kernel's */
            if (thread == 0)
                wait_for_x(c, number);
        }
        has_x = true;
        sync_shrink();
        shrink_item(c, l, number, table, item, n, a);
        sync_shrink();
    }
}

/* What the warps of adapters do in all. */
static __device__ __forceinline__ void shrink_all(const fused_args &c, adapter_table *table) {
    fill_table(c.adapters, table);
#pragma unroll 1
    for (unsigned i = 0; i < c.n_linears; i++)
        shrink(c, i, table);
}

#endif

#endif
