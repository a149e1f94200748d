/* The kernels of ipc.h. They are launched without PDL: each begins when all before it has ended. */
#include "backend/cuda/ranks/ipc.h"

#include <cuda_runtime.h>

enum {
    THREADS = 512,
    COPIES = 4,       /* elements that a thread has under way */
    SUMS = 2,         /* the same, of all ranks */
    LOOK_EVERY = 1024 /* polls between two looks at trouble and clock */
};

/* ---- flags ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ unsigned load_flag(const unsigned *flag) {
    unsigned now;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(flag) : "memory");
    return now;
}

static __device__ __forceinline__ void set_flag(unsigned *flag, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

static __device__ __forceinline__ uint64_t clock_ns() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Until the flag has come to the number; false: in vain. */
static __device__ bool wait_for(const unsigned *flag, unsigned number, unsigned other,
                                const ln_ipc_patience &patience) {
    uint64_t begin = 0;
    for (unsigned n_polls = 1; !ln_ipc_has_come(load_flag(flag), number); n_polls++) {
        if (n_polls % LOOK_EVERY != 0)
            continue;
        if (*patience.trouble != LN_IPC_NO_TROUBLE)
            return false;
        uint64_t now = clock_ns();
        begin = begin == 0 ? now : begin;
        if (patience.timeout_ns > 0 && now - begin > patience.timeout_ns) {
            *patience.trouble = (int)other + 1;
            __threadfence_system();
            return false;
        }
    }
    return true;
}

static __device__ ln_ipc_head *head_of(char *arena) {
    return (ln_ipc_head *)arena;
}

/* Counts a block that has ended; true for the last one of the grid, which sees what all wrote. */
static __device__ bool is_last(unsigned *n_ended) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        last = atomicAdd(n_ended, 1u) == gridDim.x - 1;
        if (last) {
            *n_ended = 0;
            __threadfence_system();
        }
    }
    __syncthreads();
    return last;
}

/* Elements [begin, end) of n that this block has. */
static __device__ void find_elements(size_t n, size_t *begin, size_t *end) {
    *begin = ln_ipc_share(n, blockIdx.x, gridDim.x);
    *end = ln_ipc_share(n, blockIdx.x + 1, gridDim.x);
}

/* A block's store(i, load(i)) for i in [begin, end), of which a thread has N under way: a load from
 * another GPU takes microseconds, and none may pass a store that might be to the same place. */
template <typename T, int N, typename Load, typename Store>
static __device__ __forceinline__ void move(size_t begin, size_t end, Load load, Store store) {
    size_t i = begin + threadIdx.x;
    for (; i + (N - 1) * THREADS < end; i += N * THREADS) {
        T values[N];
#pragma unroll
        for (int u = 0; u < N; u++)
            values[u] = load(i + u * THREADS);
#pragma unroll
        for (int u = 0; u < N; u++)
            store(i + u * THREADS, values[u]);
    }
    for (; i < end; i += THREADS)
        store(i, load(i));
}

template <typename T>
static __device__ __forceinline__ void copy(const T *from, T *to, size_t begin, size_t end) {
    move<T, COPIES>(
        begin, end, [=](size_t i) { return from[i]; }, [=](size_t i, T value) { to[i] = value; });
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* All threads of a block: its numbers come to all ranks, and theirs to it. */
static __device__ bool meet(const ln_ipc_group &g, int which, unsigned number) {
    bool has_met = true;
    unsigned other = threadIdx.x;
    __syncthreads();
    if (other < g.n_ranks) {
        set_flag(&head_of(g.arenas[other])->groups[g.index].came[which][blockIdx.x][g.rank],
                 number);
        has_met =
            wait_for(&head_of(g.arenas[g.rank])->groups[g.index].came[which][blockIdx.x][other],
                     number, g.first + other, g.patience);
    }
    return __syncthreads_and(has_met) != 0;
}

static __device__ unsigned begin_number(const ln_ipc_group &g) {
    return *(volatile unsigned *)&head_of(g.arenas[g.rank])->groups[g.index].number + 1;
}

static __device__ void end_number(const ln_ipc_group &g, unsigned number) {
    ln_ipc_group_head *head = &head_of(g.arenas[g.rank])->groups[g.index];
    if (is_last(&head->n_ended) && threadIdx.x == 0)
        head->number = number;
}

template <typename T>
static __device__ T *data_of(const ln_ipc_group &g, unsigned rank, unsigned number) {
    return (T *)(g.arenas[rank] + ln_ipc_data_at(g.index, number));
}

template <typename T>
static __device__ T *sums_of(const ln_ipc_group &g, unsigned rank, unsigned number) {
    return (T *)(g.arenas[rank] + ln_ipc_sums_at(g.index, number));
}

static __device__ __forceinline__ float add(float a, float b) {
    return a + b;
}

static __device__ __forceinline__ float4 add(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* The sum of element i in the order of ranks. */
template <typename T>
static __device__ __forceinline__ T sum_of(const ln_ipc_group &g, unsigned number, size_t i) {
    T parts[LN_IPC_RANKS];
#pragma unroll
    for (unsigned rank = 0; rank < LN_IPC_RANKS; rank++)
        if (rank < g.n_ranks)
            parts[rank] = data_of<T>(g, rank, number)[i];
    T total = parts[0];
#pragma unroll
    for (unsigned rank = 1; rank < LN_IPC_RANKS; rank++)
        if (rank < g.n_ranks)
            total = add(total, parts[rank]);
    return total;
}

template <typename T> struct sum_args {
    ln_ipc_group g;
    size_t n; /* elements */
    const T *x, *residual;
    T *out;
};

template <typename T>
static __device__ __forceinline__ T add_residual(const sum_args<T> &p, size_t i, T sum) {
    return p.residual != NULL ? add(p.residual[i], sum) : sum;
}

/* Every rank reads all that the others have. Bytes moved: n_ranks + 1 (2 with residual) times the
 * data read, twice written. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    sum_at_once(const __grid_constant__ sum_args<T> p) {
    unsigned number = begin_number(p.g);
    size_t begin, end;
    find_elements(p.n, &begin, &end);
    copy(p.x, data_of<T>(p.g, p.g.rank, number), begin, end);
    if (meet(p.g, 0, number))
        move<T, SUMS>(
            begin, end, [&](size_t i) { return add_residual(p, i, sum_of<T>(p.g, number, i)); },
            [&](size_t i, T sum) { p.out[i] = sum; });
    end_number(p.g, number);
}

/* Elements of rank `rank`'s part that this block sees to. */
static __device__ void find_share(size_t n, const ln_ipc_group &g, unsigned rank, size_t *begin,
                                  size_t *end) {
    size_t first = ln_ipc_share(n, rank, g.n_ranks);
    size_t n_part = ln_ipc_share(n, rank + 1, g.n_ranks) - first;
    *begin = first + ln_ipc_share(n_part, blockIdx.x, gridDim.x);
    *end = first + ln_ipc_share(n_part, blockIdx.x + 1, gridDim.x);
}

/* Every rank sums a part, and reads the sums of the others. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    sum_in_two(const __grid_constant__ sum_args<T> p) {
    unsigned number = begin_number(p.g), n_ranks = p.g.n_ranks;
    size_t begin, end, first = ln_ipc_share(p.n, p.g.rank, n_ranks);
    T *own = data_of<T>(p.g, p.g.rank, number), *sums = sums_of<T>(p.g, p.g.rank, number);
    for (unsigned rank = 0; rank < n_ranks; rank++) {
        find_share(p.n, p.g, rank, &begin, &end);
        copy(p.x, own, begin, end);
    }
    bool has_met = meet(p.g, 0, number);
    find_share(p.n, p.g, p.g.rank, &begin, &end);
    if (has_met)
        move<T, SUMS>(
            begin, end, [&](size_t i) { return sum_of<T>(p.g, number, i); },
            [&](size_t i, T sum) { sums[i - first] = sum; });
    has_met = has_met && meet(p.g, 1, number);
    for (unsigned turn = 0; turn < n_ranks && has_met; turn++) {
        unsigned rank = (p.g.rank + turn) % n_ranks; /* no two begin at the same one */
        const T *theirs = sums_of<T>(p.g, rank, number);
        first = ln_ipc_share(p.n, rank, n_ranks);
        find_share(p.n, p.g, rank, &begin, &end);
        move<T, COPIES>(
            begin, end, [&](size_t i) { return add_residual(p, i, theirs[i - first]); },
            [&](size_t i, T sum) { p.out[i] = sum; });
    }
    end_number(p.g, number);
}

static bool is_aligned(const void *pointer) {
    return (uintptr_t)pointer % sizeof(float4) == 0;
}

template <typename T>
static int reduce(const ln_ipc_group *group, const ln_ipc_part *part, const float *x,
                  const float *residual, float *out, cudaStream_t stream) {
    sum_args<T> args;
    args.g = *group;
    args.n = part->n * sizeof(float) / sizeof(T);
    args.x = (const T *)x;
    args.residual = (const T *)residual;
    args.out = (T *)out;
    if (part->in_two)
        sum_in_two<T><<<part->n_blocks, THREADS, 0, stream>>>(args);
    else
        sum_at_once<T><<<part->n_blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

int ln_ipc_all_reduce(const ln_ipc_group *group, const ln_ipc_part *part, const float *x,
                      const float *residual, float *out, ln_cuda_stream stream) {
    x += part->begin;
    out += part->begin;
    residual = residual != NULL ? residual + part->begin : NULL;
    bool by_four = part->n % 4 == 0 && is_aligned(x) && is_aligned(residual) && is_aligned(out);
    return by_four ? reduce<float4>(group, part, x, residual, out, stream)
                   : reduce<float>(group, part, x, residual, out, stream);
}

struct gather_args {
    ln_ipc_group g;
    size_t n_rows, n_cols;
    const float *x;
    float *out;
};

/* Bytes moved: what each rank has, once to its arena and once from there. */
static __global__ void __launch_bounds__(THREADS)
    gather_columns(const __grid_constant__ gather_args p) {
    unsigned number = begin_number(p.g), n_ranks = p.g.n_ranks, own = p.g.rank;
    size_t begin, end;
    size_t own_width =
        ln_ipc_share(p.n_cols, own + 1, n_ranks) - ln_ipc_share(p.n_cols, own, n_ranks);
    find_elements(p.n_rows * own_width, &begin, &end);
    copy(p.x, data_of<float>(p.g, own, number), begin, end);
    bool has_met = meet(p.g, 0, number);
    for (unsigned rank = 0; rank < n_ranks && has_met && own == 0; rank++) {
        const float *theirs = data_of<float>(p.g, rank, number);
        size_t first = ln_ipc_share(p.n_cols, rank, n_ranks);
        /* Divisions of 32 bits, which hold LN_IPC_PART_BYTES. */
        unsigned width = (unsigned)(ln_ipc_share(p.n_cols, rank + 1, n_ranks) - first);
        find_elements((size_t)p.n_rows * width, &begin, &end);
        move<float, COPIES>(
            begin, end, [=](size_t i) { return theirs[i]; },
            [&](size_t i, float x) {
                p.out[(unsigned)i / width * p.n_cols + first + (unsigned)i % width] = x;
            });
    }
    end_number(p.g, number);
}

int ln_ipc_gather_columns(const ln_ipc_group *group, const ln_ipc_part *part, size_t n_cols,
                          const float *x, float *out, ln_cuda_stream stream) {
    size_t width = ln_ipc_share(n_cols, group->rank + 1, group->n_ranks) -
                   ln_ipc_share(n_cols, group->rank, group->n_ranks);
    gather_args args;
    args.g = *group;
    args.n_rows = part->n;
    args.n_cols = n_cols;
    args.x = x + part->begin * width;
    args.out = out != NULL ? out + part->begin * n_cols : NULL;
    gather_columns<<<part->n_blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

struct share_args {
    ln_ipc_group g;
    size_t n;
    float *x;
};

/* Bytes moved: x, once to the first rank's arena and once from there to each other one. */
static __global__ void __launch_bounds__(THREADS)
    share_floats(const __grid_constant__ share_args p) {
    unsigned number = begin_number(p.g);
    float *first = data_of<float>(p.g, 0, number);
    size_t begin, end;
    find_elements(p.n, &begin, &end);
    if (p.g.rank == 0)
        copy<float>(p.x, first, begin, end);
    if (meet(p.g, 0, number) && p.g.rank > 0)
        copy<float>(first, p.x, begin, end);
    end_number(p.g, number);
}

int ln_ipc_share_floats(const ln_ipc_group *group, const ln_ipc_part *part, float *x,
                        ln_cuda_stream stream) {
    share_args args = {*group, part->n, x + part->begin};
    share_floats<<<part->n_blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

/* ---- messages -------------------------------------------------------------------------------- */

struct pass_args {
    ln_ipc_channel c;
    size_t n;
    const float *from;
    float *to;
};

/* All threads of a block. */
static __device__ bool wait_all(const unsigned *flag, unsigned number, const ln_ipc_channel &c) {
    bool has_come = threadIdx.x > 0 || wait_for(flag, number, c.other_rank, c.patience);
    return __syncthreads_and(has_come) != 0;
}

static __device__ void copy_floats(const pass_args &p, const float *from, float *to) {
    size_t begin, end;
    find_elements(p.n, &begin, &end);
    copy(from, to, begin, end);
}

static __global__ void send_floats(const __grid_constant__ pass_args p) {
    const ln_ipc_channel &c = p.c;
    ln_ipc_channel_head *head = &head_of(c.own)->channels[c.index];
    unsigned number = *(volatile unsigned *)&head->out + 1;
    float *slot = (float *)(c.own + ln_ipc_slot_at(c.n_groups, c.index, number));
    if (wait_all(&head->taken, number - LN_IPC_SLOTS, c))
        copy_floats(p, p.from, slot);
    if (is_last(&head->out_ended) && threadIdx.x == 0) {
        head->out = number;
        set_flag(&head_of(c.other)->channels[c.index].sent, number);
    }
}

static __global__ void receive_floats(const __grid_constant__ pass_args p) {
    const ln_ipc_channel &c = p.c;
    ln_ipc_channel_head *head = &head_of(c.own)->channels[c.index];
    unsigned number = *(volatile unsigned *)&head->in + 1;
    const float *slot = (const float *)(c.other + ln_ipc_slot_at(c.n_groups, c.index, number));
    if (wait_all(&head->sent, number, c))
        copy_floats(p, slot, p.to);
    if (is_last(&head->in_ended) && threadIdx.x == 0) {
        head->in = number;
        set_flag(&head_of(c.other)->channels[c.index].taken, number);
    }
}

int ln_ipc_send(const ln_ipc_channel *channel, const ln_ipc_part *part, const float *x,
                ln_cuda_stream stream) {
    pass_args args = {*channel, part->n, x + part->begin, NULL};
    send_floats<<<part->n_blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

int ln_ipc_receive(const ln_ipc_channel *channel, const ln_ipc_part *part, float *x,
                   ln_cuda_stream stream) {
    pass_args args = {*channel, part->n, NULL, x + part->begin};
    receive_floats<<<part->n_blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

/* ---- sums of what has arrived ---------------------------------------------------------------- */

struct arrived_args {
    const float *own, *parts, *residual;
    size_t n_ranks, rank, n;
    float *out;
};

static __global__ void sum_arrived(const __grid_constant__ arrived_args p) {
    size_t stride = (size_t)gridDim.x * THREADS;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < p.n; i += stride) {
        float total = p.rank == 0 ? p.own[i] : p.parts[i];
        for (size_t rank = 1; rank < p.n_ranks; rank++)
            total += rank == p.rank ? p.own[i] : p.parts[rank * p.n + i];
        p.out[i] = p.residual != NULL ? p.residual[i] + total : total;
    }
}

int ln_rank_sum(const float *own, const float *parts, size_t n_ranks, size_t rank, size_t n,
                const float *residual, float *out, ln_cuda_stream stream) {
    enum { MAX_BLOCKS = 256 };
    size_t n_blocks = (n + THREADS - 1) / THREADS;
    arrived_args args = {own, parts, residual, n_ranks, rank, n, out};
    if (n == 0)
        return 0;
    n_blocks = n_blocks < MAX_BLOCKS ? n_blocks : (size_t)MAX_BLOCKS;
    sum_arrived<<<(unsigned)n_blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
