/* The memory by which GPUs of one host exchange what ranks have: an arena of each rank, which all
 * others map (CUDA IPC). A rank writes its own data to its own arena and reads the others'; it
 * writes to others nothing but flags, which are numbers that only grow, and what few floats it has
 * for a sum, each two with the collective's number between them: these are there when it is.
 *
 *   collectives: every one has the next number of its group. Its data lie in one of two halves, by
 *     whether the number is even. A block of threads says that it has come by writing the number
 *     to all ranks; those who wait for it see the data behind it. Who has begun number n + 1 has
 *     ended n on all of its GPU, so that n + 2 may write where n was read.
 *   messages: of a channel each has the next number, and a slot by that. The sender tells the
 *     receiver what was sent; the receiver tells the sender what was taken. */
#ifndef LN_BACKEND_CUDA_RANKS_ARENA_H
#define LN_BACKEND_CUDA_RANKS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "dist/mesh.h"

enum {
    LN_IPC_RANKS = 16,  /* that can exchange so */
    LN_IPC_BLOCKS = 64, /* of threads that run a collective */
    LN_IPC_GROUPS = 2,  /* a stage's ranks; those of them that divide attention */
    LN_IPC_CHANNELS = 2,
    LN_IPC_SLOTS = 4,
    LN_IPC_HEAD_BYTES = 1 << 15,
    LN_IPC_PART_BYTES = 8 << 20, /* of a collective at once */
    LN_IPC_SLOT_BYTES = 2 << 20, /* of a message at once */
    LN_IPC_PUSH_BYTES = 64 << 10 /* of a collective whose data others write */
};

/* A channel goes to the next stage, or from the rank that makes logits to rank 0. */
enum { LN_IPC_TO_NEXT, LN_IPC_TO_FIRST };

typedef struct ln_ipc_group_head {
    unsigned came[2][LN_IPC_BLOCKS][LN_IPC_RANKS]; /* written by others: to both meetings */
    unsigned number, n_ended; /* own: the last collective; blocks of the next that have ended */
} ln_ipc_group_head;

typedef struct ln_ipc_channel_head {
    unsigned sent;                /* written by the sender */
    unsigned taken;               /* written by the receiver */
    unsigned out, in;             /* own: the last message of each way */
    unsigned out_ended, in_ended; /* blocks of the next */
} ln_ipc_channel_head;

/* At the begin of an arena. */
typedef struct ln_ipc_head {
    ln_ipc_group_head groups[LN_IPC_GROUPS];
    ln_ipc_channel_head channels[LN_IPC_CHANNELS];
} ln_ipc_head;

#ifdef __cplusplus
#define LN_IPC_INLINE static inline __host__ __device__
#else
#define LN_IPC_INLINE static inline
#endif

/* Of a group: data and sums by halves, and what each rank has pushed. */
#define LN_IPC_GROUP_BYTES                                                                         \
    (3u * (size_t)LN_IPC_PART_BYTES + 2u * LN_IPC_RANKS * 2u * (size_t)LN_IPC_PUSH_BYTES)

/* Where a collective's data begin, and where sums of its parts do (half as much). */
LN_IPC_INLINE size_t ln_ipc_data_at(unsigned group, unsigned number) {
    return LN_IPC_HEAD_BYTES + group * LN_IPC_GROUP_BYTES + number % 2u * LN_IPC_PART_BYTES;
}

LN_IPC_INLINE size_t ln_ipc_sums_at(unsigned group, unsigned number) {
    return LN_IPC_HEAD_BYTES + group * LN_IPC_GROUP_BYTES + 2u * (size_t)LN_IPC_PART_BYTES +
           number % 2u * (size_t)LN_IPC_PART_BYTES / 2u;
}

/* Where what rank `rank` of the group pushes begins, twice as many bytes as its floats. */
LN_IPC_INLINE size_t ln_ipc_pushed_at(unsigned group, unsigned number, unsigned rank) {
    return LN_IPC_HEAD_BYTES + group * LN_IPC_GROUP_BYTES + 3u * (size_t)LN_IPC_PART_BYTES +
           (number % 2u * LN_IPC_RANKS + rank) * 2u * (size_t)LN_IPC_PUSH_BYTES;
}

LN_IPC_INLINE size_t ln_ipc_slot_at(unsigned n_groups, unsigned channel, unsigned number) {
    return LN_IPC_HEAD_BYTES + n_groups * LN_IPC_GROUP_BYTES +
           (channel * LN_IPC_SLOTS + number % LN_IPC_SLOTS) * (size_t)LN_IPC_SLOT_BYTES;
}

/* Numbers wrap around. */
LN_IPC_INLINE bool ln_ipc_has_come(unsigned flag, unsigned number) {
    return (int)(flag - number) >= 0;
}

/* Elements [begin, end) that block `block` of n_blocks has of n. */
LN_IPC_INLINE size_t ln_ipc_share(size_t n, size_t part, size_t n_parts) {
    return n * part / n_parts;
}

/* Part of a collective that one launch does. */
typedef struct ln_ipc_part {
    size_t begin, n; /* floats, or rows */
    unsigned n_blocks;
    bool in_two; /* each rank sums a part, and all read the sums; else each sums all */
    bool pushes; /* each rank writes what it has to all others, which wait for nothing else */
} ln_ipc_part;

#ifdef __cplusplus
extern "C" {
#endif

unsigned ln_ipc_count_groups(const ln_mesh *mesh);
size_t ln_ipc_arena_bytes(const ln_mesh *mesh);

/* The part of n floats to sum that begins at `begin`; the same of n_rows rows of dim, of which a
 * block has whole ones, which fit LN_IPC_PART_BYTES; of n_rows rows to gather of which a rank has
 * up to `width` floats; of a message of n floats. n 0: a row is too wide. */
ln_ipc_part ln_ipc_sum_part(size_t n_ranks, size_t n, size_t begin);
ln_ipc_part ln_ipc_norm_part(size_t n_ranks, size_t n_rows, size_t dim, size_t begin);
ln_ipc_part ln_ipc_gather_part(size_t n_rows, size_t width, size_t begin);
ln_ipc_part ln_ipc_pass_part(size_t n, size_t begin);

/* By which channel a rank sends to another one, or receives from it. */
unsigned ln_ipc_find_channel(size_t rank, size_t other, bool sends);

#ifdef __cplusplus
}
#endif

#endif
