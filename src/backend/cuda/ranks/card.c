#include "backend/cuda/ranks/card.h"

#include <string.h>

#include "backend/cuda/ranks/arena.h"

/* Why these cannot be joined by IPC, or NULL. */
static const char *refuses_ipc(const ln_rank_card *cards, size_t n, bool has_failed) {
    bool all_here = true, all_have = true, any_wants = false;
    for (size_t i = 0; i < n; i++) {
        all_here = all_here && strcmp(cards[i].host, cards[0].host) == 0;
        all_have = all_have && cards[i].has_handle;
        any_wants = any_wants || cards[i].wants_nccl;
    }
    return any_wants          ? "NCCL was asked for"
           : !all_here        ? "they are in several hosts"
           : n > LN_IPC_RANKS ? "so many cannot share memory"
           : !all_have        ? "the memory of one cannot be shared"
           : has_failed       ? "they do not reach each other's memory"
                              : NULL;
}

static const char *refuses_nccl(const ln_rank_card *cards, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!cards[i].has_nccl)
            return "libnccl.so.2 is not installed everywhere";
        for (size_t k = 0; k < i; k++)
            if (strcmp(cards[i].host, cards[k].host) == 0 &&
                strcmp(cards[i].bus, cards[k].bus) == 0)
                return "NCCL does not join ranks that share a GPU";
    }
    return NULL;
}

ln_card_choice ln_cards_choose(const ln_rank_card *cards, size_t n, bool ipc_failed,
                               const char **why) {
    const char *against_ipc = refuses_ipc(cards, n, ipc_failed);
    const char *against_nccl = against_ipc != NULL ? refuses_nccl(cards, n) : NULL;
    *why = against_nccl != NULL ? against_nccl : against_ipc;
    return against_ipc == NULL    ? LN_CARDS_BY_IPC
           : against_nccl == NULL ? LN_CARDS_BY_NCCL
                                  : LN_CARDS_APART;
}

int ln_card_device(size_t local_rank, int count) {
    return count > 0 ? (int)(local_rank % (size_t)count) : 0;
}

size_t ln_card_sharers(size_t n_local, size_t local_rank, int count) {
    size_t n = 0;
    for (size_t rank = 0; rank < n_local; rank++)
        n += ln_card_device(rank, count) == ln_card_device(local_rank, count);
    return n > 0 ? n : 1;
}
