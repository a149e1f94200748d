/* The kernels of ipc.h but for those of ipc_norm.cu. Messages begin when all before them has
 * ended, and so do collectives of many rows, whose GEMMs gain nothing by PDL. */
#include "backend/cuda/ranks/ipc.h"

#include "backend/cuda/ranks/ipc_device.cuh"

template <typename T> struct sum_args {
    ln_ipc_group g;
    size_t n; /* elements */
    const T *x, *residual;
    T *out;
};

template <typename T>
static __device__ __forceinline__ T add_residual(const sum_args<T> &p, size_t i, T sum) {
    return p.residual != NULL ? ln_ipc_add(p.residual[i], sum) : sum;
}

/* Every rank reads all that the others have. Bytes moved: n_ranks + 1 (2 with residual) times the
 * data read, twice written. */
template <typename T>
static __global__ void __launch_bounds__(LN_IPC_THREADS)
    sum_at_once(const __grid_constant__ sum_args<T> p) {
    unsigned number = ln_ipc_begin_number(p.g);
    size_t begin, end;
    ln_ipc_find_elements(p.n, &begin, &end);
    ln_ipc_copy(p.x, ln_ipc_data<T>(p.g, p.g.rank, number), begin, end);
    if (ln_ipc_meet(p.g, 0, number))
        ln_ipc_move<T, LN_IPC_SUMS>(
            begin, end, [&](size_t i) { return add_residual(p, i, ln_ipc_sum<T>(p.g, number, i)); },
            [&](size_t i, T sum) { p.out[i] = sum; });
    ln_ipc_end_number(p.g, number);
}

/* Every rank writes what it has to the others. Bytes moved: twice the data to each. */
static __global__ void __launch_bounds__(LN_IPC_THREADS)
    sum_pushed(const __grid_constant__ sum_args<float4> p) {
    unsigned number = ln_ipc_begin_number(p.g);
    size_t begin, end;
    ln_ipc_find_elements(p.n, &begin, &end);
    for (size_t i = begin + threadIdx.x; i < end; i += LN_IPC_THREADS)
        ln_ipc_push(p.g, number, i, p.x[i]);
    for (size_t i = begin + threadIdx.x; i < end; i += LN_IPC_THREADS)
        p.out[i] = add_residual(p, i, ln_ipc_pushed_sum(p.g, number, i, p.x[i]));
    __syncthreads();
    ln_ipc_end_number(p.g, number);
}

/* Every rank sums a part, and reads the sums of the others. */
template <typename T>
static __global__ void __launch_bounds__(LN_IPC_THREADS)
    sum_in_two(const __grid_constant__ sum_args<T> p) {
    unsigned number = ln_ipc_begin_number(p.g), n_ranks = p.g.n_ranks;
    size_t begin, end, first = ln_ipc_share(p.n, p.g.rank, n_ranks);
    T *own = ln_ipc_data<T>(p.g, p.g.rank, number), *sums = ln_ipc_sums<T>(p.g, p.g.rank, number);
    for (unsigned rank = 0; rank < n_ranks; rank++) {
        ln_ipc_find_share(p.n, p.g, rank, &begin, &end);
        ln_ipc_copy(p.x, own, begin, end);
    }
    bool has_met = ln_ipc_meet(p.g, 0, number);
    ln_ipc_find_share(p.n, p.g, p.g.rank, &begin, &end);
    if (has_met)
        ln_ipc_move<T, LN_IPC_SUMS>(
            begin, end, [&](size_t i) { return ln_ipc_sum<T>(p.g, number, i); },
            [&](size_t i, T sum) { sums[i - first] = sum; });
    has_met = has_met && ln_ipc_meet(p.g, 1, number);
    for (unsigned turn = 0; turn < n_ranks && has_met; turn++) {
        unsigned rank = (p.g.rank + turn) % n_ranks; /* no two begin at the same one */
        const T *theirs = ln_ipc_sums<T>(p.g, rank, number);
        first = ln_ipc_share(p.n, rank, n_ranks);
        ln_ipc_find_share(p.n, p.g, rank, &begin, &end);
        ln_ipc_move<T, LN_IPC_COPIES>(
            begin, end, [&](size_t i) { return add_residual(p, i, theirs[i - first]); },
            [&](size_t i, T sum) { p.out[i] = sum; });
    }
    ln_ipc_end_number(p.g, number);
}

static int launch_sum(const ln_ipc_part *part, const sum_args<float4> &args, cudaStream_t stream) {
    return ln_ipc_launch(part->pushes   ? sum_pushed
                         : part->in_two ? sum_in_two<float4>
                                        : sum_at_once<float4>,
                         part, LN_IPC_THREADS, stream, args);
}

static int launch_sum(const ln_ipc_part *part, const sum_args<float> &args, cudaStream_t stream) {
    return ln_ipc_launch(part->in_two ? sum_in_two<float> : sum_at_once<float>, part,
                         LN_IPC_THREADS, stream, args);
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
    return launch_sum(part, args, stream);
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
static __global__ void __launch_bounds__(LN_IPC_THREADS)
    gather_columns(const __grid_constant__ gather_args p) {
    unsigned number = ln_ipc_begin_number(p.g), n_ranks = p.g.n_ranks, own = p.g.rank;
    size_t begin, end;
    size_t own_width =
        ln_ipc_share(p.n_cols, own + 1, n_ranks) - ln_ipc_share(p.n_cols, own, n_ranks);
    ln_ipc_find_elements(p.n_rows * own_width, &begin, &end);
    ln_ipc_copy(p.x, ln_ipc_data<float>(p.g, own, number), begin, end);
    bool has_met = ln_ipc_meet(p.g, 0, number);
    for (unsigned rank = 0; rank < n_ranks && has_met && own == 0; rank++) {
        const float *theirs = ln_ipc_data<float>(p.g, rank, number);
        size_t first = ln_ipc_share(p.n_cols, rank, n_ranks);
        /* Divisions of 32 bits, which hold LN_IPC_PART_BYTES. */
        unsigned width = (unsigned)(ln_ipc_share(p.n_cols, rank + 1, n_ranks) - first);
        ln_ipc_find_elements((size_t)p.n_rows * width, &begin, &end);
        ln_ipc_move<float, LN_IPC_COPIES>(
            begin, end, [=](size_t i) { return theirs[i]; },
            [&](size_t i, float x) {
                p.out[(unsigned)i / width * p.n_cols + first + (unsigned)i % width] = x;
            });
    }
    ln_ipc_end_number(p.g, number);
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
    return ln_ipc_launch(gather_columns, part, LN_IPC_THREADS, stream, args);
}

struct share_args {
    ln_ipc_group g;
    size_t n;
    float *x;
};

/* Bytes moved: x, once to the first rank's arena and once from there to each other one. */
static __global__ void __launch_bounds__(LN_IPC_THREADS)
    share_floats(const __grid_constant__ share_args p) {
    unsigned number = ln_ipc_begin_number(p.g);
    float *first = ln_ipc_data<float>(p.g, 0, number);
    size_t begin, end;
    ln_ipc_find_elements(p.n, &begin, &end);
    if (p.g.rank == 0)
        ln_ipc_copy<float>(p.x, first, begin, end);
    if (ln_ipc_meet(p.g, 0, number) && p.g.rank > 0)
        ln_ipc_copy<float>(first, p.x, begin, end);
    ln_ipc_end_number(p.g, number);
}

int ln_ipc_share_floats(const ln_ipc_group *group, const ln_ipc_part *part, float *x,
                        ln_cuda_stream stream) {
    share_args args = {*group, part->n, x + part->begin};
    return ln_ipc_launch(share_floats, part, LN_IPC_THREADS, stream, args);
}

/* ---- messages -------------------------------------------------------------------------------- */

struct pass_args {
    ln_ipc_channel c;
    size_t n;
    const float *from;
    float *to;
};

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

/* All threads of a block. */
static __device__ bool wait_all(const unsigned *flag, unsigned number, const ln_ipc_channel &c) {
    bool has_come = threadIdx.x > 0 || ln_ipc_wait(flag, number, c.other_rank, c.patience);
    return __syncthreads_and(has_come) != 0;
}

static __device__ void copy_floats(const pass_args &p, const float *from, float *to) {
    size_t begin, end;
    ln_ipc_find_elements(p.n, &begin, &end);
    ln_ipc_copy(from, to, begin, end);
}

static __global__ void send_floats(const __grid_constant__ pass_args p) {
    const ln_ipc_channel &c = p.c;
    ln_ipc_channel_head *head = &ln_ipc_head_of(c.own)->channels[c.index];
    unsigned number = *(volatile unsigned *)&head->out + 1;
    float *slot = (float *)(c.own + ln_ipc_slot_at(c.n_groups, c.index, number));
    if (wait_all(&head->taken, number - LN_IPC_SLOTS, c))
        copy_floats(p, p.from, slot);
    if (is_last(&head->out_ended) && threadIdx.x == 0) {
        head->out = number;
        ln_ipc_set_flag(&ln_ipc_head_of(c.other)->channels[c.index].sent, number);
    }
}

static __global__ void receive_floats(const __grid_constant__ pass_args p) {
    const ln_ipc_channel &c = p.c;
    ln_ipc_channel_head *head = &ln_ipc_head_of(c.own)->channels[c.index];
    unsigned number = *(volatile unsigned *)&head->in + 1;
    const float *slot = (const float *)(c.other + ln_ipc_slot_at(c.n_groups, c.index, number));
    if (wait_all(&head->sent, number, c))
        copy_floats(p, slot, p.to);
    if (is_last(&head->in_ended) && threadIdx.x == 0) {
        head->in = number;
        ln_ipc_set_flag(&ln_ipc_head_of(c.other)->channels[c.index].taken, number);
    }
}

int ln_ipc_send(const ln_ipc_channel *channel, const ln_ipc_part *part, const float *x,
                ln_cuda_stream stream) {
    pass_args args = {*channel, part->n, x + part->begin, NULL};
    send_floats<<<part->n_blocks, LN_IPC_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

int ln_ipc_receive(const ln_ipc_channel *channel, const ln_ipc_part *part, float *x,
                   ln_cuda_stream stream) {
    pass_args args = {*channel, part->n, NULL, x + part->begin};
    receive_floats<<<part->n_blocks, LN_IPC_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

/* ---- sums of what has arrived ---------------------------------------------------------------- */

struct arrived_args {
    const float *own, *parts, *residual;
    size_t n_ranks, rank, n;
    float *out;
};

static __global__ void sum_arrived(const __grid_constant__ arrived_args p) {
    size_t stride = (size_t)gridDim.x * LN_IPC_THREADS;
    for (size_t i = (size_t)blockIdx.x * LN_IPC_THREADS + threadIdx.x; i < p.n; i += stride) {
        float total = p.rank == 0 ? p.own[i] : p.parts[i];
        for (size_t rank = 1; rank < p.n_ranks; rank++)
            total += rank == p.rank ? p.own[i] : p.parts[rank * p.n + i];
        p.out[i] = p.residual != NULL ? p.residual[i] + total : total;
    }
}

int ln_rank_sum(const float *own, const float *parts, size_t n_ranks, size_t rank, size_t n,
                const float *residual, float *out, ln_cuda_stream stream) {
    enum { MAX_BLOCKS = 256 };
    size_t n_blocks = (n + LN_IPC_THREADS - 1) / LN_IPC_THREADS;
    arrived_args args = {own, parts, residual, n_ranks, rank, n, out};
    if (n == 0)
        return 0;
    n_blocks = n_blocks < MAX_BLOCKS ? n_blocks : (size_t)MAX_BLOCKS;
    sum_arrived<<<(unsigned)n_blocks, LN_IPC_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
