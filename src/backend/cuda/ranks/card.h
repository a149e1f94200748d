/* What ranks tell each other of their GPUs, and how these are to be joined. */
#ifndef LN_BACKEND_CUDA_RANKS_CARD_H
#define LN_BACKEND_CUDA_RANKS_CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/cuda/runtime/peer.h"

enum { LN_CARD_HOST_BYTES = 64 };

typedef struct ln_rank_card {
    char host[LN_CARD_HOST_BYTES]; /* the same text for processes of one running kernel */
    char bus[LN_CUDA_BUS_BYTES];
    bool has_handle, has_nccl, wants_nccl;
    ln_cuda_ipc_handle handle; /* of the rank's arena, with has_handle */
} ln_rank_card;

typedef enum ln_card_choice { LN_CARDS_BY_IPC, LN_CARDS_BY_NCCL, LN_CARDS_APART } ln_card_choice;

/* How the GPUs of cards[n] are joined: by IPC where all are of one host, unless one wants NCCL or
 * it was tried and failed; else by NCCL. *why is a reason for LN_CARDS_APART, and against IPC. All
 * ranks choose alike. */
ln_card_choice ln_cards_choose(const ln_rank_card *cards, size_t n, bool ipc_failed,
                               const char **why);

/* The device of a rank of this host, of `count`, and how many of its ranks share it. */
int ln_card_device(size_t local_rank, int count);
size_t ln_card_sharers(size_t n_local, size_t local_rank, int count);

#endif
