/* How an output tile of the sm_90 GEMM is written. Warp `warp` of the consumers has, as
 * accumulators [j][columns][rows], the columns 16 * warp + lane / 4 (+ 8) and the rows 8 j + 2
 * (lane % 4) (+ 1). */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_EPILOGUE_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_EPILOGUE_CUH

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/sm90_config.cuh"
#include "backend/cuda/ptx/bulk_store.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* threadIdx.x, read again, so that what is made of it takes no registers before. */
static __device__ __forceinline__ unsigned this_thread(void) {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* A warp's accumulators of eight or sixteen rows to shared memory. */
template <int N = 8>
static __device__ __forceinline__ void stage_rows(const float *sums, float *out, unsigned lane) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        unsigned row = i / 4 * 8 + lane % 4 * 2 + i % 2;
        out[row * OUT_STRIDE + lane / 4 + i % 4 / 2 * 8] = sums[i];
    }
}

template <int N, int PASS = 0>
static __device__ __forceinline__ void stage_pass(int pass, const float (&total)[N], float *out,
                                                  unsigned lane) {
    if (pass == PASS)
        stage_rows(total + 8 * PASS, out, lane);
    else if constexpr (8 * (PASS + 1) < N)
        stage_pass<N, PASS + 1>(pass, total, out, lane);
}

/* The warps of a pair, one of which has the gate's accumulators. */
static __device__ __forceinline__ void sync_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* The rows of an output tile: row i is order[first + i], or first + i * step. */
typedef struct tile_rows {
    const int32_t *order; /* or NULL */
    size_t first, step, n;
} tile_rows;

static __device__ __forceinline__ size_t find_row(const tile_rows &rows, unsigned i) {
    return rows.order != NULL ? (size_t)rows.order[rows.first + i] : rows.first + i * rows.step;
}

/* Any epilogue. Results go through shared memory, so that rows are written in order. */
template <typename CONFIG>
static __device__ __forceinline__ void store_any(const ln_epilogue &e, unsigned n,
                                                 const tile_rows &rows,
                                                 const float (&total)[CONFIG::N_ACC], float *outs) {
    constexpr unsigned PAIRS = CONFIG::WARPS / 2, TILES = CONFIG::TILES;
    constexpr bool GATE = CONFIG::GATE;
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    float *own = outs + warp * CONFIG::WARP_FLOATS;
    const float *gates = outs + warp % PAIRS * CONFIG::WARP_FLOATS,
                *ups = gates + PAIRS * CONFIG::WARP_FLOATS;
    bool is_aligned = ln_epilogue_is_aligned(e);
    size_t column = ((size_t)n * TILES + warp % TILES) * LN_WEIGHT_TILE_ROWS + lane % 4 * 4;
#pragma unroll 1
    for (int pass = 0; pass < CONFIG::ROWS / OUT_ROWS; pass++) {
        stage_pass(pass, total, own, lane);
        if (GATE)
            sync_pair(warp % PAIRS);
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
            sync_pair(warp % PAIRS);
        else
            __syncwarp();
    }
}

/* ln_act_store by a warp of which four lanes have sixteen columns of a row. */
static __device__ __forceinline__ void store_converted(const ln_act_view &to, size_t row,
                                                       size_t col, const float4 &y, bool is_there) {
    uint32_t low = ln_pack_bf16(y.x, y.y), high = ln_pack_bf16(y.z, y.w);
    bool is_upper = threadIdx.x % 4 >= 2; /* which takes the upper words of both */
    uint32_t other = __shfl_xor_sync(0xffffffffu, is_upper ? low : high, 2);
    unsigned step = (unsigned)col % 64 / 32 * 2 + (unsigned)col % 8 / 4;
    unsigned lane = (unsigned)col % 32 / 16 * 2;
    char *at = (char *)to.bf16 +
               ln_act_tile_byte(to, row, to.cols / 64, col / 64, 2 * step + is_upper, lane);
    if (is_there)
        *(uint2 *)at = is_upper ? make_uint2(other, high) : make_uint2(low, other);
}

/* Four columns of a row, as plain rows of bf16. */
static __device__ __forceinline__ void store_bf16_row(const ln_act_view &to, size_t row, size_t col,
                                                      const float4 &y) {
    *(uint2 *)(to.bf16 + row * to.cols + col) =
        make_uint2(ln_pack_bf16(y.x, y.y), ln_pack_bf16(y.z, y.w));
}

/* Writes scale * accumulators of 8 * N8_TILES rows, with bias and residual, of which HELD rows are
 * loaded at once. */
template <int N8_TILES, bool GATE>
static __device__ __forceinline__ void write_rows(const ln_gemm_args &p, const ln_epilogue &e,
                                                  const float *acc, size_t first, size_t column,
                                                  float *own) {
    enum { HELD = N8_TILES > 26 ? 8 : (N8_TILES + 1) / 2 };
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
    for (unsigned i = 0; i < N8_TILES; i++) {
        if (i % HELD == 0)
#pragma unroll
            for (unsigned j = 0; j < HELD; j++)
                residual[j] = i + j < N8_TILES && i + j < n_residual
                                  ? __ldcg((const float4 *)(from + (i + j) * 8 * e.n_out))
                                  : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i % 2 == 0) {
            __syncwarp();
            if (i + 1 < N8_TILES)
                stage_rows(acc + i * 4, own, lane);
            else
                stage_rows<4>(acc + i * 4, own, lane);
            __syncwarp();
        }
        float4 u = *(const float4 *)(own + (i % 2 * 8 + lane / 4) * OUT_STRIDE + lane % 4 * 4), y;
        float4 r = residual[i % HELD];
        y.x = ln_epilogue_plain(e, u.x, bias.x, r.x);
        y.y = ln_epilogue_plain(e, u.y, bias.y, r.y);
        y.z = ln_epilogue_plain(e, u.z, bias.z, r.z);
        y.w = ln_epilogue_plain(e, u.w, bias.w, r.w);
        if (GATE && e.rounds)
            y.x = ln_round_to_bf16(y.x), y.y = ln_round_to_bf16(y.y), y.z = ln_round_to_bf16(y.z),
            y.w = ln_round_to_bf16(y.w);
        if (i < n && !(GATE && p.leaves_out))
            __stwb((float4 *)(to + i * 8 * e.out_stride), y);
        if (GATE && p.converts && p.to.rows_per_tile > 0)
            store_converted(p.to, first + i * 8, column, y, i < n);
        else if (GATE && p.converts && i < n)
            store_bf16_row(p.to, first + i * 8, column, y);
    }
    __syncwarp();
}

/* An epilogue of ln_epilogue_is_plain. */
template <typename CONFIG>
static __device__ __forceinline__ void store_plain(const ln_gemm_args &p, const output_tile &tile,
                                                   const float (&total)[CONFIG::N_ACC],
                                                   float *outs) {
    constexpr unsigned WARPS = CONFIG::WARPS, ROWS = CONFIG::ROWS;
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    size_t column = ((size_t)tile.n * WARPS + warp) * LN_WEIGHT_TILE_ROWS + lane % 4 * 4;
    write_rows<ROWS / 8, false>(p, p.parts[tile.part].epilogue, total, (size_t)tile.m * ROWS,
                                column, outs + warp * CONFIG::WARP_FLOATS);
}

/* Writes sixteen rows of scaled accumulators to a box, in the order of SWIZZLE_64B. The upper lanes
 * take rows in the other order, so that a warp's words lie in different banks. The least magnitude
 * of what this lane has written. */
static __device__ __forceinline__ float write_box(const float *sums, float scale,
                                                  const float bias[2], bool has_bias, char *box,
                                                  unsigned lane) {
    float least = INFINITY;
    bool is_upper = lane >= LN_WARP / 2;
    unsigned column = lane / 4, pair = lane % 4; /* of rows */
    unsigned odd = is_upper ? 64 : 0;
    char *at = box + pair * 128 + column % 4 * 4;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        int h = i % 4 / 2;
        float even_row = sums[i], odd_row = sums[i + 1];
        if (has_bias)
            even_row += bias[h], odd_row += bias[h];
        even_row *= scale, odd_row *= scale;
        least = fminf(least, fminf(fabsf(even_row), fabsf(odd_row)));
        char *to = at + i / 4 * 512 + ((column / 4 + 2 * h) ^ pair) * 16;
        *(float *)(to + odd) = is_upper ? odd_row : even_row;
        *(float *)(to + (64 - odd)) = is_upper ? even_row : odd_row;
    }
    return least;
}

/* TMA may add subnormal numbers as zeros. It is asked for results of this magnitude and above, with
 * which no sum depends on that: a subnormal residual is less than half of their last place, and a
 * sum that is not zero is normal. */
static constexpr float LEAST_ADDED = 0x1p-100f;

/* Adds a box to the residual by loads and stores. */
static __device__ __noinline__ void add_box(const ln_epilogue &e, size_t n_rows, size_t first,
                                            size_t first_column, const char *box) {
    unsigned lane = this_thread() % LN_WARP, column = lane % 16;
#pragma unroll 1
    for (unsigned row = lane / 16; row < OUT_ROWS; row += 2) {
        float y =
            *(const float *)(box + row * 64 + (column / 4 ^ row / 2 % 4) * 16 + column % 4 * 4);
        float *to = e.out + (first + row) * e.out_stride + first_column + column;
        if (first + row < n_rows && first_column + column < e.n_out)
            __stcg(to, __ldcg(to) + y);
    }
}

/* Writes rows first .. of a warp's columns, box after box, by TMA. */
template <typename CONFIG, int ROWS, int N>
static __device__ __forceinline__ void
write_boxes(const ln_epilogue &e, size_t n_rows, const CUtensorMap *out, unsigned column,
            unsigned first, const float (&total)[N], bool has_bias, const float bias[2],
            char *boxes) {
    constexpr unsigned N_BOXES = CONFIG::N_BOXES, BYTES = CONFIG::BOX_BYTES;
    unsigned lane = this_thread() % LN_WARP;
#pragma unroll
    for (int i = 0; i < ROWS / OUT_ROWS; i++) {
        char *box = boxes + i % N_BOXES * BYTES;
        if (i >= (int)N_BOXES && lane == 0)
            ln_bulk_store_wait_read<N_BOXES - 1>();
        __syncwarp();
        float least = write_box(total + 8 * i, e.scale, bias, has_bias, box, lane);
        unsigned row = first + i * OUT_ROWS;
        if (CONFIG::TMA_ADD && __any_sync(0xffffffffu, least < LEAST_ADDED)) {
            __syncwarp();
            add_box(e, n_rows, row, column, box);
            if (lane == 0)
                ln_bulk_store_wait_read<0>();
            continue;
        }
        ln_fence_proxy_async();
        __syncwarp();
        if (lane == 0 && CONFIG::TMA_ADD)
            ln_tma_add(out, (int)column, (int)row, box);
        else if (lane == 0)
            ln_tma_store(out, (int)column, (int)row, box);
    }
}

/* A plain epilogue, without a residual or in place of it. */
template <typename CONFIG>
static __device__ __forceinline__ void
store_by_tma(const ln_epilogue &e, size_t n_rows, const CUtensorMap *out, const output_tile &tile,
             const float (&total)[CONFIG::N_ACC], float *outs) {
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    unsigned column = (tile.n * CONFIG::WARPS + warp) * LN_WEIGHT_TILE_ROWS;
    bool has_bias = e.bias != NULL;
    float bias[2] = {};
#pragma unroll
    for (unsigned h = 0; h < 2; h++)
        if (has_bias && column + 8 * h + lane / 4 < e.n_out)
            bias[h] = e.bias[column + 8 * h + lane / 4];
    wait_for_boxes(lane);
    write_boxes<CONFIG, CONFIG::ROWS>(e, n_rows, out, column, tile.m * CONFIG::ROWS, total,
                                      has_bias, bias, (char *)(outs + warp * CONFIG::WARP_FLOATS));
}

/* Whether the result of an output tile is whole rows of 128 bytes of the activations of the linears
 * behind it, which follow one another. */
template <typename CONFIG>
static __device__ __forceinline__ bool is_image(const ln_gemm_args &p, const ln_epilogue &e) {
    return CONFIG::HAS_IMAGE && p.converts && p.leaves_out && p.to.rows_per_tile >= p.n_rows &&
           e.n_out % 64 == 0;
}

/* Copies the image of a tile's half, which its warpgroup has written, to the activations. */
template <typename CONFIG>
static __device__ __forceinline__ void copy_image(const ln_gemm_args &p, const output_tile &tile,
                                                  size_t first, const char *image) {
    if (first >= p.n_rows)
        return;
    size_t n = min((size_t)CONFIG::ROWS / 2, p.n_rows - first);
    char *to = (char *)p.to.bf16 + (tile.n * p.to.rows_per_tile + first) * 128;
    ln_bulk_store(to, image, (unsigned)n * 128);
}

/* Writes a gate's result of ROWS / 2 rows and a pair's sixteen columns, in accumulators' order, to
 * the image of its warpgroup: rows of 128 bytes in the order of SWIZZLE_128B, of 64 columns as they
 * follow one another (TMA_STORE), or as activations have them. Lanes t and t + 4 exchange, so that
 * each has two columns of a row. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void write_image(const float (&y)[N], float scale, unsigned pair,
                                                   char *image) {
    unsigned lane = this_thread() % LN_WARP, column = lane / 4;
    bool is_odd = column % 2;
    unsigned row = lane % 4 * 2 + is_odd;
    unsigned chunk = CONFIG::TMA_STORE ? pair * 2 : pair / 2 * 4 + column / 2;
    unsigned in_chunk = CONFIG::TMA_STORE ? column / 2 * 4 : pair % 2 * 8;
    char *at = image + row * 128 + (chunk ^ row) * 16 + in_chunk;
    char *next = image + row * 128 + (chunk + 1 ^ row) * 16 + in_chunk;
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        uint32_t words[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float upper = scale * y[4 * j + 2 * h], lower = scale * y[4 * j + 2 * h + 1];
            float other = __shfl_xor_sync(0xffffffffu, is_odd ? upper : lower, 4);
            words[h] = is_odd ? ln_pack_bf16(other, lower) : ln_pack_bf16(upper, other);
        }
        if (CONFIG::TMA_STORE)
            *(uint32_t *)(at + j * 1024) = words[0], *(uint32_t *)(next + j * 1024) = words[1];
        else
            *(uint2 *)(at + j * 1024) = make_uint2(words[0], words[1]);
    }
}

/* The warps of a pair exchange half of their accumulators: y is the gate's result of half of the
 * rows, of the first half in the gate's warp. */
template <typename CONFIG>
static __device__ __forceinline__ void exchange_gated(const float (&total)[CONFIG::N_ACC],
                                                      float *outs, float (&y)[CONFIG::ROWS / 4]) {
    enum { PAIRS = CONFIG::WARPS / 2, OWN = CONFIG::ROWS / 4, AT_ONCE = 8 };
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP,
             pair = warp % PAIRS;
    bool is_gate = warp < PAIRS;
    float *own = outs + warp * CONFIG::WARP_FLOATS;
    const float *other = outs + (is_gate ? warp + PAIRS : pair) * CONFIG::WARP_FLOATS;
#pragma unroll
    for (int begin = 0; begin < OWN; begin += AT_ONCE) {
#pragma unroll
        for (int i = 0; i < AT_ONCE && begin + i < OWN; i++)
            own[i * LN_WARP + lane] = is_gate ? total[OWN + begin + i] : total[begin + i];
        sync_pair(pair);
#pragma unroll
        for (int i = 0; i < AT_ONCE && begin + i < OWN; i++) {
            float mine = is_gate ? total[begin + i] : total[OWN + begin + i];
            float others = other[i * LN_WARP + lane];
            y[begin + i] =
                ln_gated(LN_ACT_SILU, true, is_gate ? mine : others, is_gate ? others : mine);
        }
        sync_pair(pair);
    }
}

/* Writes a gate's result of a warpgroup's rows as an image, which leaves by one bulk copy. */
template <typename CONFIG>
static __device__ __forceinline__ void
store_image(const ln_gemm_args &p, const CUtensorMap *out, const output_tile &tile, size_t first,
            const float (&y)[CONFIG::ROWS / 4], float *outs) {
    unsigned thread = this_thread(), warpgroup = thread / WARPGROUP;
    bool is_first = thread % WARPGROUP == 0;
    char *image = (char *)outs + CONFIG::IMAGE_AT + warpgroup * CONFIG::IMAGE_STRIDE;
    if (is_first)
        ln_bulk_store_wait_read<0>(); /* of the tile before */
    sync_warpgroup(warpgroup);
    write_image<CONFIG>(y, p.parts[tile.part].epilogue.scale,
                        thread / LN_WARP % (CONFIG::WARPS / 2), image);
    ln_fence_proxy_async();
    sync_warpgroup(warpgroup);
    if (!is_first)
        return;
    if constexpr (CONFIG::TMA_STORE)
        ln_tma_store(out, (int)(tile.n * 64), (int)first, image);
    else
        copy_image<CONFIG>(p, tile, first, image);
}

template <typename CONFIG>
static __device__ __forceinline__ void store_gated(const ln_gemm_args &p, const output_tile &tile,
                                                   const float (&total)[CONFIG::N_ACC],
                                                   float *outs) {
    enum { ROWS = CONFIG::ROWS, PAIRS = CONFIG::WARPS / 2 };
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP,
             pair = warp % PAIRS;
    const ln_epilogue &e = p.parts[tile.part].epilogue;
    float y[ROWS / 4];
    exchange_gated<CONFIG>(total, outs, y);
    size_t first = (size_t)tile.m * ROWS + (warp < PAIRS ? 0 : ROWS / 2);
    if constexpr (CONFIG::HAS_IMAGE)
        if (is_image<CONFIG>(p, e)) {
            store_image<CONFIG>(p, NULL, tile, first, y, outs);
            return;
        }
    size_t column = ((size_t)tile.n * PAIRS + pair) * LN_WEIGHT_TILE_ROWS + lane % 4 * 4;
    write_rows<ROWS / 16, true>(p, e, y, first, column, outs + warp * CONFIG::WARP_FLOATS);
}

/* A gate whose result leaves by TMA: in boxes, or rows of bf16 as an image. */
template <typename CONFIG>
static __device__ __forceinline__ void
store_gated_by_tma(const ln_gemm_args &p, const CUtensorMap *out, const output_tile &tile,
                   const float (&total)[CONFIG::N_ACC], float *outs) {
    enum { ROWS = CONFIG::ROWS, PAIRS = CONFIG::WARPS / 2 };
    unsigned thread = this_thread(), warp = thread / LN_WARP, lane = thread % LN_WARP;
    float y[ROWS / 4];
    unsigned first = tile.m * ROWS + (warp < PAIRS ? 0 : ROWS / 2);
    if constexpr (CONFIG::HAS_IMAGE) {
        exchange_gated<CONFIG>(total, outs, y);
        store_image<CONFIG>(p, out, tile, first, y, outs);
    } else {
        wait_for_boxes(lane);
        exchange_gated<CONFIG>(total, outs, y);
        const float no_bias[2] = {};
        unsigned column = (tile.n * PAIRS + warp % PAIRS) * LN_WEIGHT_TILE_ROWS;
        write_boxes<CONFIG, ROWS / 2>(p.parts[0].epilogue, p.n_rows, out, column, first, y, false,
                                      no_bias, (char *)(outs + warp * CONFIG::WARP_FLOATS));
    }
}

/* Prefetches the residual of an output tile to L2; a warp has 64 bytes of each row. */
template <typename CONFIG>
static __device__ __forceinline__ void prefetch_residual(const ln_gemm_args &p,
                                                         const output_tile &tile) {
    constexpr unsigned ROWS = CONFIG::ROWS, WARPS = CONFIG::WARPS;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const ln_epilogue &e = p.parts[tile.part].epilogue;
    size_t column = ((size_t)tile.n * WARPS + warp) * LN_WEIGHT_TILE_ROWS;
    if (e.residual == NULL || column >= e.n_out)
        return;
    for (size_t row = (size_t)tile.m * ROWS + lane, i = 0; i * LN_WARP < ROWS; i++)
        if (row + i * LN_WARP < p.n_rows)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(e.residual +
                                                          (row + i * LN_WARP) * e.n_out + column));
}

#endif

#endif
