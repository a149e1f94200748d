#include "backend/cpu/pages.h"

#include <stdint.h>
#include <sys/mman.h>

enum { LONG_TOKENS = 256 };

void ln_cpu_advise_huge_pages(void *memory, size_t bytes, size_t page) {
    size_t before = (uintptr_t)memory % page, all = before + bytes;
    if (bytes > 0)
        (void)madvise((char *)memory - before, (all + page - 1) / page * page, MADV_HUGEPAGE);
}

/* Blocks [first, last] of keys or values. Where there are small pages already, as those of the
 * prompts before, huge ones take their place. */
static void advise(const ln_kv_layer *kv, void *cache, size_t dim, size_t first, size_t last) {
    size_t block_bytes = kv->n_heads * ln_kv_head_bytes(kv->dtype, kv->block_tokens, dim);
    char *memory = (char *)cache + first * block_bytes;
    size_t before = (uintptr_t)memory % LN_HUGE_PAGE_BYTES;
    size_t bytes = before + (last + 1 - first) * block_bytes;
    ln_cpu_advise_huge_pages(memory - before, bytes, LN_HUGE_PAGE_BYTES);
#ifdef MADV_COLLAPSE
    bytes = (bytes + LN_HUGE_PAGE_BYTES - 1) / LN_HUGE_PAGE_BYTES * LN_HUGE_PAGE_BYTES;
    (void)madvise(memory - before, bytes, MADV_COLLAPSE);
#endif
}

void ln_cpu_advise_huge_cache(const ln_op *ops, size_t n_ops) {
    for (size_t i = 0; i < n_ops; i++) {
        const ln_batch *batch = ops[i].batch;
        if (ops[i].kind != LN_OP_QKV || ops[i].qkv.k == NULL || batch->n_tokens < LONG_TOKENS)
            continue;
        const ln_kv_layer *kv = ops[i].qkv.kv;
        const int32_t *slots = batch->groups[kv->group].slots;
        int32_t first = slots[0], last = slots[0];
        for (size_t token = 1; token < batch->n_tokens; token++) {
            first = slots[token] < first ? slots[token] : first;
            last = slots[token] > last ? slots[token] : last;
        }
        if (first < 0)
            continue;
        size_t block_tokens = kv->block_tokens;
        size_t n_written = batch->n_tokens / block_tokens + batch->n_seqs;
        if ((size_t)(last - first) / block_tokens > 2 * n_written)
            continue; /* scattered: most of what lies between is not this step's */
        advise(kv, kv->k, kv->k_dim, (size_t)first / block_tokens, (size_t)last / block_tokens);
        advise(kv, kv->v, kv->v_stride, (size_t)first / block_tokens, (size_t)last / block_tokens);
    }
}
