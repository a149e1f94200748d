#include "backend/cuda/ranks/arena.h"

_Static_assert(sizeof(ln_ipc_head) <= LN_IPC_HEAD_BYTES, "flags lie ahead of the data");

enum {
    BLOCK_FLOATS = 4096, /* that are worth a block */
    ONCE_BYTES = 1 << 19 /* up to which a rank reads all that the others have */
};

unsigned ln_ipc_count_groups(const ln_mesh *mesh) {
    if (ln_mesh_in_stage(mesh) == 1)
        return 0;
    return mesh->n_tensor > 1 && mesh->n_expert > 1 ? 2 : 1;
}

size_t ln_ipc_arena_bytes(const ln_mesh *mesh) {
    if (ln_mesh_count(mesh) <= 1)
        return 0;
    return ln_ipc_slot_at(ln_ipc_count_groups(mesh), mesh->n_stages > 1 ? LN_IPC_CHANNELS : 0, 0);
}

static unsigned count_blocks(size_t n) {
    size_t n_blocks = (n + BLOCK_FLOATS - 1) / BLOCK_FLOATS;
    if (n_blocks > LN_IPC_BLOCKS)
        return LN_IPC_BLOCKS;
    return n_blocks > 0 ? (unsigned)n_blocks : 1;
}

static ln_ipc_part cut(size_t n, size_t begin, size_t most, size_t unit) {
    size_t left = n - begin, here = left < most ? left : most;
    return (ln_ipc_part){.begin = begin, .n = here, .n_blocks = count_blocks(here * unit)};
}

/* How the n floats of a part are summed. */
static void choose_way(size_t n_ranks, size_t n, ln_ipc_part *part) {
    part->pushes = n * sizeof(float) <= LN_IPC_PUSH_BYTES;
    part->in_two = !part->pushes && n_ranks > 2 && n * sizeof(float) * (n_ranks - 1) > ONCE_BYTES;
}

ln_ipc_part ln_ipc_sum_part(size_t n_ranks, size_t n, size_t begin) {
    ln_ipc_part part = cut(n, begin, LN_IPC_PART_BYTES / sizeof(float), 1);
    choose_way(n_ranks, part.n, &part);
    return part;
}

ln_ipc_part ln_ipc_norm_part(size_t n_ranks, size_t n_rows, size_t dim, size_t begin) {
    ln_ipc_part part = cut(n_rows, begin, LN_IPC_PART_BYTES / sizeof(float) / dim, BLOCK_FLOATS);
    choose_way(n_ranks, part.n * dim, &part);
    return part;
}

ln_ipc_part ln_ipc_gather_part(size_t n_rows, size_t width, size_t begin) {
    size_t most = width > 0 ? LN_IPC_PART_BYTES / sizeof(float) / width : n_rows;
    return cut(n_rows, begin, most, width);
}

ln_ipc_part ln_ipc_pass_part(size_t n, size_t begin) {
    return cut(n, begin, LN_IPC_SLOT_BYTES / sizeof(float), 1);
}

unsigned ln_ipc_find_channel(size_t rank, size_t other, bool sends) {
    size_t from = sends ? rank : other, to = sends ? other : rank;
    return to > from ? LN_IPC_TO_NEXT : LN_IPC_TO_FIRST;
}
