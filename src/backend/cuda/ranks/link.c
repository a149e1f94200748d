#include "backend/cuda/ranks/link.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cuda/ranks/launch.h"
#include "backend/cuda/ranks/nccl.h"
#include "base/clock.h"
#include "dist/collectives.h"

/* ---- memory ---------------------------------------------------------------------------------- */

int ln_cuda_link_reserve(ln_cuda_link *link, const ln_mesh *mesh, int device) {
    enum { OUT_OF_MEMORY = 2 }; /* cudaErrorMemoryAllocation */
    void *trouble = NULL;
    size_t bytes = ln_ipc_arena_bytes(mesh);
    *link = (ln_cuda_link){.mesh = *mesh, .device = device};
    if (bytes == 0)
        return 0;
    link->cards = calloc(ln_mesh_count(mesh), sizeof *link->cards);
    if (link->cards == NULL)
        return OUT_OF_MEMORY;
    int code = ln_cuda_malloc(bytes, &link->arena);
    if (code == 0)
        code = ln_cuda_malloc_host(sizeof(int), &trouble);
    link->patience.trouble = trouble;
    if (code == 0)
        *link->patience.trouble = LN_IPC_NO_TROUBLE;
    return code;
}

static void unmap_all(ln_cuda_link *link) {
    for (size_t rank = 0; rank < LN_IPC_RANKS; rank++) {
        if (link->arenas[rank] != NULL && link->arenas[rank] != link->arena)
            ln_cuda_ipc_close(link->arenas[rank]);
        link->arenas[rank] = NULL;
    }
}

void ln_cuda_link_free(ln_cuda_link *link) {
    unmap_all(link);
    ln_nccl_free(link->nccl);
    free(link->cards);
    ln_cuda_free_host((void *)(uintptr_t)link->patience.trouble);
    ln_cuda_free(link->arena);
    *link = (ln_cuda_link){0};
}

/* ---- joining --------------------------------------------------------------------------------- */

/* A text that processes of one running kernel have in common. */
static void name_host(char host[LN_CARD_HOST_BYTES]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(host, 0, LN_CARD_HOST_BYTES);
    if (file == NULL)
        return;
    if (fgets(host, LN_CARD_HOST_BYTES, file) == NULL)
        host[0] = '\0';
    (void)fclose(file);
}

static void fill_card(ln_cuda_link *link, bool wants_nccl, ln_rank_card *card) {
    memset(card, 0, sizeof *card);
    name_host(card->host);
    (void)ln_cuda_device_bus(link->device, card->bus);
    card->has_handle = card->host[0] != '\0' && ln_cuda_ipc_export(link->arena, &card->handle) == 0;
    link->nccl = ln_nccl_load(&link->nccl_problem);
    card->has_nccl = link->nccl != NULL;
    card->wants_nccl = wants_nccl;
}

/* Maps the arenas of all; they tell each other whether that is done. */
static ln_status map_all(ln_cuda_link *link, const ln_rank_card *cards, bool *has_failed,
                         ln_error *err) {
    ln_collectives *all = link->all;
    bool own_failed = false, failures[LN_IPC_RANKS];
    for (size_t rank = 0; rank < all->n_ranks && !own_failed; rank++) {
        void *memory = link->arena;
        if (rank != all->rank)
            own_failed = ln_cuda_ipc_open(&cards[rank].handle, &memory) != 0;
        link->arenas[rank] = memory;
    }
    LN_TRY(ln_all_gather(all, &own_failed, sizeof own_failed, failures, err));
    *has_failed = false;
    for (size_t rank = 0; rank < all->n_ranks; rank++)
        *has_failed = *has_failed || failures[rank];
    return LINNET_OK;
}

static ln_status join_nccl(ln_cuda_link *link, ln_error *err) {
    ln_collectives *all = link->all;
    ln_nccl_id id = {{0}};
    int code = all->rank == 0 ? ln_nccl_make_id(link->nccl, &id) : 0;
    LN_TRY(ln_broadcast(all, &code, sizeof code, false, err)); /* nobody joins without an id */
    LN_TRY(ln_broadcast(all, &id, sizeof id, false, err));
    if (code == 0)
        code = ln_nccl_join(link->nccl, id, all->rank, all->n_ranks);
    if (code != 0)
        return ln_fail(err, LINNET_ERR_COMPUTE, "NCCL cannot join the ranks: %s",
                       ln_nccl_error_text(link->nccl, code));
    link->vtable = &ln_cuda_nccl_link;
    return LINNET_OK;
}

static ln_status join_by(ln_cuda_link *link, ln_error *err) {
    const char *why;
    const ln_rank_card *cards = link->cards;
    size_t n = link->all->n_ranks;
    bool has_failed = false;
    ln_card_choice choice = ln_cards_choose(cards, n, false, &why);
    if (choice == LN_CARDS_BY_IPC) {
        LN_TRY(map_all(link, cards, &has_failed, err));
        choice = ln_cards_choose(cards, n, has_failed, &why);
    }
    if (choice == LN_CARDS_BY_IPC)
        link->vtable = &ln_cuda_ipc_link;
    else
        unmap_all(link);
    if (choice == LN_CARDS_BY_NCCL)
        return join_nccl(link, err);
    ln_nccl_free(link->nccl);
    link->nccl = NULL;
    if (choice == LN_CARDS_BY_IPC)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the GPUs of %zu ranks cannot be joined: %s%s%s", n,
                   why, link->nccl_problem != NULL ? "; here " : "",
                   link->nccl_problem != NULL ? link->nccl_problem : "");
}

ln_status ln_cuda_link_join(ln_cuda_link *link, const ln_rank_groups *ranks, ln_error *err) {
    ln_rank_card own;
    link->all = ranks->all;
    link->patience.timeout_ns = ranks->all->timeout_ns;
    ranks->all->device = ranks->stage->device = ranks->tensor->device = link;
    fill_card(link, ranks->wants_nccl, &own);
    LN_TRY(ln_all_gather(ranks->all, &own, sizeof own, link->cards, err));
    return join_by(link, err);
}

void ln_cuda_link_stop(ln_cuda_link *link) {
    if (link->patience.trouble != NULL)
        *link->patience.trouble = LN_IPC_GIVEN_UP;
    if (link->nccl != NULL && link->all != NULL && link->all->failure.status != LINNET_OK)
        ln_nccl_abort(link->nccl);
}

/* CUDA wants memory unmapped everywhere before its owner frees it. */
void ln_cuda_link_leave(ln_cuda_link *link) {
    static const uint64_t patience_ns = UINT64_C(10000000000); /* a rank may yet end a step */
    unmap_all(link);
    if (link->all == NULL)
        return;
    link->all->timeout_ns = patience_ns;
    if (ln_barrier(link->all, NULL) != LINNET_OK && link->nccl != NULL)
        ln_nccl_abort(link->nccl);
    link->all = NULL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Looks whether the ranks are well, and lets kernels give up if not. */
static void look(ln_cuda_link *link) {
    if (*link->patience.trouble > 0)
        ln_collectives_lose(link->all, (size_t)*link->patience.trouble - 1);
    if (ln_collectives_check(link->all, NULL) == LINNET_OK)
        return;
    if (*link->patience.trouble == LN_IPC_NO_TROUBLE)
        *link->patience.trouble = LN_IPC_GIVEN_UP;
    if (link->nccl != NULL)
        ln_nccl_abort(link->nccl);
}

int ln_cuda_link_wait(ln_cuda_link *link, ln_cuda_event event) {
    enum { SPIN_NS = 20000000 /* a step's time */, NAP_NS = 50000, N_POLLS = 64 };
    if (link->vtable == NULL)
        return ln_cuda_event_synchronize(event);
    uint64_t begin_ns = ln_clock_ns();
    bool is_done = false;
    int code = 0;
    while (!is_done && code == 0) {
        for (int i = 0; i < N_POLLS && !is_done && code == 0; i++)
            code = ln_cuda_event_query(event, &is_done);
        if (is_done)
            break;
        look(link);
        if (ln_clock_ns() - begin_ns < SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    if (code == 0)
        look(link);
    return code;
}

/* ---- operations ------------------------------------------------------------------------------ */

static const ln_cuda_link *link_of(const ln_collectives *ranks) {
    LN_BUG_ON(ranks->device == NULL);
    return ranks->device;
}

int ln_cuda_all_reduce(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_all_reduce *p = &op->all_reduce;
    (void)step;
    if (p->ranks->n_ranks == 1)
        return ln_rank_sum(p->x, NULL, 1, 0, p->n_rows * p->dim, p->residual, p->out, stream);
    const ln_cuda_link *link = link_of(p->ranks);
    return link->vtable->all_reduce(link, p, stream);
}

int ln_cuda_link_reduce_norm(const ln_ipc_norm *op, ln_cuda_stream stream) {
    const ln_cuda_link *link = link_of(op->sum->ranks);
    return link->vtable->reduce_norm(link, op, stream);
}

int ln_cuda_rank_gather(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_cuda_link *link = link_of(op->rank_gather.ranks);
    (void)step;
    return link->vtable->gather(link, &op->rank_gather, stream);
}

int ln_cuda_rank_pass(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_cuda_link *link = link_of(op->rank_pass.ranks);
    (void)step;
    return link->vtable->pass(link, &op->rank_pass, stream);
}
