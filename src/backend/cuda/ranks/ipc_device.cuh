/* What kernels of arena.h consist of: flags by which blocks of different GPUs wait for each other,
 * copies, and sums in the order of ranks. */
#ifndef LN_BACKEND_CUDA_RANKS_IPC_DEVICE_CUH
#define LN_BACKEND_CUDA_RANKS_IPC_DEVICE_CUH

#include "backend/cuda/ranks/ipc_group.h"
#include "backend/cuda/runtime/pdl.cuh"

enum {
    LN_IPC_THREADS = 512,
    LN_IPC_COPIES = 4,       /* elements that a thread has under way */
    LN_IPC_SUMS = 2,         /* the same, of all ranks */
    LN_IPC_LOOK_EVERY = 1024 /* polls between two looks at trouble and clock */
};

/* ---- flags ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ unsigned ln_ipc_load_flag(const unsigned *flag) {
    unsigned now;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(flag) : "memory");
    return now;
}

static __device__ __forceinline__ void ln_ipc_set_flag(unsigned *flag, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

static __device__ __forceinline__ uint64_t ln_ipc_clock_ns() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Whether to go on after n_polls for rank `other`; *begin is the time of the first look, 0 ahead of
 * it. */
static __device__ __forceinline__ bool ln_ipc_is_patient(unsigned n_polls, uint64_t *begin,
                                                         unsigned other,
                                                         const ln_ipc_patience &patience) {
    if (n_polls % LN_IPC_LOOK_EVERY != 0)
        return true;
    if (*patience.trouble != LN_IPC_NO_TROUBLE)
        return false;
    uint64_t now = ln_ipc_clock_ns();
    *begin = *begin == 0 ? now : *begin;
    if (patience.timeout_ns == 0 || now - *begin <= patience.timeout_ns)
        return true;
    *patience.trouble = (int)other + 1;
    __threadfence_system();
    return false;
}

/* Until the flag has come to the number; false: in vain. */
static __device__ bool ln_ipc_wait(const unsigned *flag, unsigned number, unsigned other,
                                   const ln_ipc_patience &patience) {
    uint64_t begin = 0;
    for (unsigned n_polls = 1; !ln_ipc_has_come(ln_ipc_load_flag(flag), number); n_polls++)
        if (!ln_ipc_is_patient(n_polls, &begin, other, patience))
            return false;
    return true;
}

static __device__ ln_ipc_head *ln_ipc_head_of(char *arena) {
    return (ln_ipc_head *)arena;
}

/* Elements [begin, end) of n that this block has. */
static __device__ void ln_ipc_find_elements(size_t n, size_t *begin, size_t *end) {
    *begin = ln_ipc_share(n, blockIdx.x, gridDim.x);
    *end = ln_ipc_share(n, blockIdx.x + 1, gridDim.x);
}

/* A block's store(i, load(i)) for i in [begin, end), of which a thread has N under way: a load from
 * another GPU takes microseconds, and none may pass a store that might be to the same place. */
template <typename T, int N, typename Load, typename Store>
static __device__ __forceinline__ void ln_ipc_move(size_t begin, size_t end, Load load,
                                                   Store store) {
    size_t i = begin + threadIdx.x;
    for (; i + (N - 1) * LN_IPC_THREADS < end; i += N * LN_IPC_THREADS) {
        T values[N];
#pragma unroll
        for (int u = 0; u < N; u++)
            values[u] = load(i + u * LN_IPC_THREADS);
#pragma unroll
        for (int u = 0; u < N; u++)
            store(i + u * LN_IPC_THREADS, values[u]);
    }
    for (; i < end; i += LN_IPC_THREADS)
        store(i, load(i));
}

template <typename T>
static __device__ __forceinline__ void ln_ipc_copy(const T *from, T *to, size_t begin, size_t end) {
    ln_ipc_move<T, LN_IPC_COPIES>(
        begin, end, [=](size_t i) { return from[i]; }, [=](size_t i, T value) { to[i] = value; });
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* All threads of a block: its numbers come to all ranks, and theirs to it. */
static __device__ bool ln_ipc_meet(const ln_ipc_group &g, int which, unsigned number) {
    bool has_met = true;
    unsigned other = threadIdx.x;
    __syncthreads();
    if (other < g.n_ranks) {
        ln_ipc_set_flag(
            &ln_ipc_head_of(g.arenas[other])->groups[g.index].came[which][blockIdx.x][g.rank],
            number);
        has_met = ln_ipc_wait(
            &ln_ipc_head_of(g.arenas[g.rank])->groups[g.index].came[which][blockIdx.x][other],
            number, g.first + other, g.patience);
    }
    return __syncthreads_and(has_met) != 0;
}

/* Waits for the kernels before (PDL), of which the last collective has left its number. */
static __device__ unsigned ln_ipc_begin_number(const ln_ipc_group &g) {
    if (g.overlaps)
        ln_pdl_launch_dependents();
    ln_pdl_wait();
    return *(volatile unsigned *)&ln_ipc_head_of(g.arenas[g.rank])->groups[g.index].number + 1;
}

/* Behind a barrier of the block, whose threads have all read the last number by then. */
static __device__ void ln_ipc_end_number(const ln_ipc_group &g, unsigned number) {
    ln_ipc_group_head *head = &ln_ipc_head_of(g.arenas[g.rank])->groups[g.index];
    unsigned last = gridDim.x - 1;
    if (threadIdx.x == 0 && atomicInc(&head->n_ended, last) == last) /* wraps around to 0 */
        head->number = number;
}

template <typename T>
static __device__ T *ln_ipc_data(const ln_ipc_group &g, unsigned rank, unsigned number) {
    return (T *)(g.arenas[rank] + ln_ipc_data_at(g.index, number));
}

template <typename T>
static __device__ T *ln_ipc_sums(const ln_ipc_group &g, unsigned rank, unsigned number) {
    return (T *)(g.arenas[rank] + ln_ipc_sums_at(g.index, number));
}

static __device__ __forceinline__ float ln_ipc_add(float a, float b) {
    return a + b;
}

static __device__ __forceinline__ float4 ln_ipc_add(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* The sum of element i in the order of ranks, which are MOST at most. */
template <typename T, int MOST = LN_IPC_RANKS>
static __device__ __forceinline__ T ln_ipc_sum(const ln_ipc_group &g, unsigned number, size_t i) {
    T parts[MOST];
#pragma unroll
    for (unsigned rank = 0; rank < MOST; rank++)
        if (rank < g.n_ranks)
            parts[rank] = ln_ipc_data<T>(g, rank, number)[i];
    T total = parts[0];
#pragma unroll
    for (unsigned rank = 1; rank < MOST; rank++)
        if (rank < g.n_ranks)
            total = ln_ipc_add(total, parts[rank]);
    return total;
}

/* ---- pushed data ----------------------------------------------------------------------------- */

/* Two floats with the number behind each: 16 bytes, of which each half arrives as a whole. */
static __device__ __forceinline__ void ln_ipc_push_two(uint4 *to, float a, float b,
                                                       unsigned number) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "r"(__float_as_uint(a)), "r"(number), "r"(__float_as_uint(b)), "r"(number)
                 : "memory");
}

static __device__ __forceinline__ float2 ln_ipc_pull_two(const ln_ipc_group &g, const uint4 *from,
                                                         unsigned number, unsigned other) {
    uint4 now;
    uint64_t begin = 0;
    for (unsigned n_polls = 1;; n_polls++) {
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(now.x), "=r"(now.y), "=r"(now.z), "=r"(now.w)
                     : "l"(from)
                     : "memory");
        if ((now.y == number && now.w == number) ||
            !ln_ipc_is_patient(n_polls, &begin, g.first + other, g.patience))
            return make_float2(__uint_as_float(now.x), __uint_as_float(now.z));
    }
}

static __device__ uint4 *ln_ipc_pushed(const ln_ipc_group &g, unsigned to, unsigned from,
                                       unsigned number, size_t i) {
    return (uint4 *)(g.arenas[to] + ln_ipc_pushed_at(g.index, number, from)) + 2 * i;
}

/* Float4 number i goes to all other ranks. */
static __device__ __forceinline__ void ln_ipc_push(const ln_ipc_group &g, unsigned number, size_t i,
                                                   const float4 &x) {
    for (unsigned turn = 1; turn < g.n_ranks; turn++) {
        uint4 *to = ln_ipc_pushed(g, (g.rank + turn) % g.n_ranks, g.rank, number, i);
        ln_ipc_push_two(to, x.x, x.y, number);
        ln_ipc_push_two(to + 1, x.z, x.w, number);
    }
}

/* The sum of all ranks' float4 number i in their order, this one's being x. */
static __device__ __forceinline__ float4 ln_ipc_pushed_sum(const ln_ipc_group &g, unsigned number,
                                                           size_t i, const float4 &x) {
    float4 total = x;
    for (unsigned rank = 0; rank < g.n_ranks; rank++) {
        float4 part = x;
        if (rank != g.rank) {
            const uint4 *from = ln_ipc_pushed(g, g.rank, rank, number, i);
            float2 a = ln_ipc_pull_two(g, from, number, rank);
            float2 b = ln_ipc_pull_two(g, from + 1, number, rank);
            part = make_float4(a.x, a.y, b.x, b.y);
        }
        total = rank == 0 ? part : ln_ipc_add(total, part);
    }
    return total;
}

/* Elements of rank `rank`'s part that this block sees to. */
static __device__ void ln_ipc_find_share(size_t n, const ln_ipc_group &g, unsigned rank,
                                         size_t *begin, size_t *end) {
    size_t first = ln_ipc_share(n, rank, g.n_ranks);
    size_t n_part = ln_ipc_share(n, rank + 1, g.n_ranks) - first;
    *begin = first + ln_ipc_share(n_part, blockIdx.x, gridDim.x);
    *end = first + ln_ipc_share(n_part, blockIdx.x + 1, gridDim.x);
}

/* Queues a collective of the group as part->n_blocks blocks. */
template <typename T>
static int ln_ipc_launch(void (*kernel)(T), const ln_ipc_part *part, unsigned threads,
                         cudaStream_t stream, const T &args) {
    if (args.g.overlaps)
        return ln_pdl_launch(kernel, dim3(part->n_blocks), threads, 0, stream, args);
    kernel<<<part->n_blocks, threads, 0, stream>>>(args);
    return cudaGetLastError();
}

#endif
