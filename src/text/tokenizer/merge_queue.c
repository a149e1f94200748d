#include "text/tokenizer/merge_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum { BUCKETED_FROM_SYMBOLS = 512, SHORT_RUN = 48 };
#define NO_BLOCK UINT32_MAX

static bool heap_push(ln_heap *heap, uint64_t key) {
    if (!ln_grow((void **)&heap->data, &heap->capacity, heap->count + 1, sizeof *heap->data))
        return false;
    size_t at = heap->count++;
    while (at > 0) {
        size_t parent = (at - 1) / 4;
        if (heap->data[parent] <= key)
            break;
        heap->data[at] = heap->data[parent];
        at = parent;
    }
    heap->data[at] = key;
    return true;
}

static uint64_t heap_pop(ln_heap *heap) {
    uint64_t top = heap->data[0];
    uint64_t key = heap->data[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = at * 4 + 1;
        if (child >= heap->count)
            break;
        size_t end = child + 4 < heap->count ? child + 4 : heap->count, least = child;
        for (size_t i = child + 1; i < end; i++)
            if (heap->data[i] < heap->data[least])
                least = i;
        if (key <= heap->data[least])
            break;
        heap->data[at] = heap->data[least];
        at = least;
    }
    if (heap->count > 0)
        heap->data[at] = key;
    return top;
}

void ln_merge_queue_free(ln_merge_queue *queue) {
    free(queue->heap.data);
    free(queue->waiting.data);
    free(queue->run);
    free(queue->spare);
    free(queue->buckets);
    free(queue->bucket_of_rank);
    free(queue->blocks);
    *queue = (ln_merge_queue){0};
}

void ln_merge_queue_begin(ln_merge_queue *queue, size_t n_symbols, uint32_t n_ranks) {
    queue->heap.count = queue->waiting.count = 0;
    queue->opened = false;
    queue->open_block = NO_BLOCK;
    queue->run_at = queue->run_end = 0;
    queue->n_blocks = 0;
    queue->free_block = NO_BLOCK;
    for (size_t i = 0; i < queue->n_buckets; i++)
        queue->bucket_of_rank[queue->buckets[i].rank] = 0;
    queue->n_buckets = 0;
    queue->bucketed = n_symbols >= BUCKETED_FROM_SYMBOLS;
    if (queue->bucketed && queue->bucket_of_rank == NULL) {
        queue->bucket_of_rank = calloc((size_t)n_ranks + 1, sizeof *queue->bucket_of_rank);
        queue->bucketed = queue->bucket_of_rank != NULL; /* slower, but it works */
    }
    if (queue->bucketed) /* one copy less of each block; without it they grow one by one */
        (void)ln_grow((void **)&queue->blocks, &queue->block_capacity,
                      n_symbols / LN_MERGE_BLOCK_POSITIONS + 1, sizeof *queue->blocks);
}

static ln_merge_bucket *bucket_for(ln_merge_queue *queue, uint32_t rank) {
    uint32_t index = queue->bucket_of_rank[rank];
    if (index > 0)
        return &queue->buckets[index - 1];
    if (!ln_grow((void **)&queue->buckets, &queue->bucket_capacity, queue->n_buckets + 1,
                 sizeof *queue->buckets) ||
        !heap_push(&queue->waiting, (uint64_t)rank << 32 | queue->n_buckets))
        return NULL;
    ln_merge_bucket *bucket = &queue->buckets[queue->n_buckets++];
    *bucket = (ln_merge_bucket){.rank = rank, .first = NO_BLOCK, .last = NO_BLOCK, .sorted = true};
    queue->bucket_of_rank[rank] = (uint32_t)queue->n_buckets;
    return bucket;
}

/* An empty block at the end of the bucket. */
static bool add_block(ln_merge_queue *queue, ln_merge_bucket *bucket) {
    uint32_t block = queue->free_block;
    if (block != NO_BLOCK) {
        queue->free_block = queue->blocks[block].next;
    } else {
        if (queue->n_blocks >= NO_BLOCK || !ln_grow((void **)&queue->blocks, &queue->block_capacity,
                                                    queue->n_blocks + 1, sizeof *queue->blocks))
            return false;
        block = (uint32_t)queue->n_blocks++;
    }
    queue->blocks[block].next = NO_BLOCK;
    queue->blocks[block].count = 0;
    if (bucket->last == NO_BLOCK)
        bucket->first = block;
    else
        queue->blocks[bucket->last].next = block;
    bucket->last = block;
    return true;
}

/* Gives a block back; returns the one after it. */
static uint32_t free_block(ln_merge_queue *queue, uint32_t block) {
    uint32_t next = queue->blocks[block].next;
    queue->blocks[block].next = queue->free_block;
    queue->free_block = block;
    return next;
}

static bool bucket_push(ln_merge_queue *queue, uint32_t rank, uint32_t position) {
    ln_merge_bucket *bucket = bucket_for(queue, rank);
    if (bucket == NULL)
        return false;
    bool full =
        bucket->last == NO_BLOCK || queue->blocks[bucket->last].count == LN_MERGE_BLOCK_POSITIONS;
    if (full && !add_block(queue, bucket))
        return false;
    ln_merge_block *block = &queue->blocks[bucket->last];
    block->positions[block->count++] = position;
    if (bucket->count > 0 && position < bucket->last_position)
        bucket->sorted = false;
    bucket->last_position = position;
    bucket->count++;
    return true;
}

void ln_merge_queue_push(ln_merge_queue *queue, uint32_t rank, uint32_t position) {
    bool waits = queue->bucketed && !(queue->opened && rank <= queue->open_rank);
    bool ok = waits ? bucket_push(queue, rank, position)
                    : heap_push(&queue->heap, (uint64_t)rank << 32 | position);
    if (!ok)
        queue->failed = true;
}

/* Sorts data[n]; long runs by radix, byte by byte. The result is in *data. */
static void sort_run(uint32_t **data, uint32_t **spare, size_t n) {
    if (n <= SHORT_RUN) {
        for (size_t i = 1; i < n; i++) {
            uint32_t value = (*data)[i];
            size_t at = i;
            for (; at > 0 && (*data)[at - 1] > value; at--)
                (*data)[at] = (*data)[at - 1];
            (*data)[at] = value;
        }
        return;
    }
    for (unsigned shift = 0; shift < 32; shift += 8) {
        size_t counts[256] = {0}, sum = 0;
        for (size_t i = 0; i < n; i++)
            counts[(*data)[i] >> shift & 255]++;
        if (counts[(*data)[0] >> shift & 255] == n)
            continue;
        for (size_t i = 0; i < 256; i++) {
            size_t count = counts[i];
            counts[i] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            (*spare)[counts[(*data)[i] >> shift & 255]++] = (*data)[i];
        uint32_t *swap = *data;
        *data = *spare;
        *spare = swap;
    }
}

/* Turns to the waiting bucket of the lowest rank. */
static bool open_bucket(ln_merge_queue *queue) {
    const ln_merge_bucket *bucket = &queue->buckets[heap_pop(&queue->waiting) & UINT32_MAX];
    queue->open_rank = bucket->rank;
    queue->opened = true;
    queue->open_at = 0;
    if (bucket->sorted) {
        queue->open_block = bucket->first;
        return true;
    }
    size_t capacity = queue->run_capacity, n = 0;
    if (!ln_grow((void **)&queue->spare, &capacity, bucket->count, sizeof *queue->spare) ||
        !ln_grow((void **)&queue->run, &queue->run_capacity, bucket->count, sizeof *queue->run))
        return false;
    for (uint32_t at = bucket->first; at != NO_BLOCK; at = free_block(queue, at)) {
        const ln_merge_block *block = &queue->blocks[at];
        memcpy(queue->run + n, block->positions, block->count * sizeof *queue->run);
        n += block->count;
    }
    sort_run(&queue->run, &queue->spare, n);
    queue->run_at = 0;
    queue->run_end = n;
    return true;
}

/* The next position of the open bucket; false when it is empty. */
static bool peek_open(const ln_merge_queue *queue, uint32_t *position) {
    if (queue->open_block != NO_BLOCK)
        *position = queue->blocks[queue->open_block].positions[queue->open_at];
    else if (queue->run_at < queue->run_end)
        *position = queue->run[queue->run_at];
    else
        return false;
    return true;
}

static void advance_open(ln_merge_queue *queue) {
    if (queue->open_block == NO_BLOCK) {
        queue->run_at++;
    } else if (++queue->open_at == queue->blocks[queue->open_block].count) {
        queue->open_block = free_block(queue, queue->open_block);
        queue->open_at = 0;
    }
}

bool ln_merge_queue_pop(ln_merge_queue *queue, uint32_t *rank, uint32_t *position) {
    bool has_open = peek_open(queue, position);
    if (!has_open && queue->heap.count == 0) {
        if (queue->waiting.count == 0)
            return false;
        if (!open_bucket(queue)) {
            queue->failed = true;
            return false;
        }
        has_open = peek_open(queue, position);
    }
    uint64_t key = has_open ? (uint64_t)queue->open_rank << 32 | *position : UINT64_MAX;
    if (queue->heap.count > 0 && queue->heap.data[0] < key)
        key = heap_pop(&queue->heap);
    else
        advance_open(queue);
    *rank = (uint32_t)(key >> 32);
    *position = (uint32_t)key;
    return true;
}
