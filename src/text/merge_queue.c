#include "text/merge_queue.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETED_FROM_SYMBOLS = 512, SHORT_RUN = 48 };
#define NO_ENTRY UINT32_MAX

/* Doubles an array so that it holds `count` items; false when memory is out. */
static bool grow(void **data, size_t *capacity, size_t count, size_t item_bytes) {
    if (count <= *capacity)
        return true;
    size_t wanted = *capacity < 64 ? 64 : *capacity * 2;
    if (wanted < count)
        wanted = count;
    if (wanted > SIZE_MAX / 2 / item_bytes)
        return false;
    void *larger = realloc(*data, wanted * item_bytes);
    if (larger == NULL)
        return false;
    *data = larger;
    *capacity = wanted;
    return true;
}

static bool heap_push(ln_heap *heap, uint64_t key) {
    if (!grow((void **)&heap->data, &heap->capacity, heap->count + 1, sizeof *heap->data))
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
    free(queue->open_ranks.data);
    free(queue->run);
    free(queue->spare);
    free(queue->buckets);
    free(queue->bucket_of_rank);
    free(queue->entries);
    *queue = (ln_merge_queue){0};
}

void ln_merge_queue_begin(ln_merge_queue *queue, size_t n_symbols, uint32_t n_ranks) {
    queue->heap.count = queue->open_ranks.count = 0;
    queue->opened = false;
    queue->run_at = queue->run_end = 0;
    queue->n_entries = 0;
    queue->free_entry = NO_ENTRY;
    for (size_t i = 0; i < queue->n_buckets; i++)
        queue->bucket_of_rank[queue->buckets[i].rank] = 0;
    queue->n_buckets = 0;
    queue->bucketed = n_symbols >= BUCKETED_FROM_SYMBOLS;
    if (queue->bucketed && queue->bucket_of_rank == NULL) {
        queue->bucket_of_rank = calloc((size_t)n_ranks + 1, sizeof *queue->bucket_of_rank);
        queue->n_ranks = n_ranks;
        queue->bucketed = queue->bucket_of_rank != NULL; /* slower, but it works */
    }
}

static ln_merge_bucket *bucket_for(ln_merge_queue *queue, uint32_t rank) {
    uint32_t index = queue->bucket_of_rank[rank];
    if (index > 0)
        return &queue->buckets[index - 1];
    if (!grow((void **)&queue->buckets, &queue->bucket_capacity, queue->n_buckets + 1,
              sizeof *queue->buckets) ||
        !heap_push(&queue->open_ranks, (uint64_t)rank << 32 | queue->n_buckets))
        return NULL;
    ln_merge_bucket *bucket = &queue->buckets[queue->n_buckets++];
    *bucket = (ln_merge_bucket){.rank = rank, .head = NO_ENTRY, .tail = NO_ENTRY, .sorted = true};
    queue->bucket_of_rank[rank] = (uint32_t)queue->n_buckets;
    return bucket;
}

static bool bucket_push(ln_merge_queue *queue, uint32_t rank, uint32_t position) {
    ln_merge_bucket *bucket = bucket_for(queue, rank);
    if (bucket == NULL)
        return false;
    uint32_t entry = queue->free_entry;
    if (entry != NO_ENTRY) {
        queue->free_entry = queue->entries[entry].next;
    } else {
        if (queue->n_entries >= NO_ENTRY || !grow((void **)&queue->entries, &queue->entry_capacity,
                                                  queue->n_entries + 1, sizeof *queue->entries))
            return false;
        entry = (uint32_t)queue->n_entries++;
    }
    queue->entries[entry].position = position;
    queue->entries[entry].next = NO_ENTRY;
    if (bucket->tail == NO_ENTRY)
        bucket->head = entry;
    else
        queue->entries[bucket->tail].next = entry;
    if (bucket->count > 0 && position < bucket->last_position)
        bucket->sorted = false;
    bucket->tail = entry;
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

/* Moves the entries of the lowest waiting bucket to the run. */
static bool open_bucket(ln_merge_queue *queue) {
    uint64_t top = heap_pop(&queue->open_ranks);
    ln_merge_bucket *bucket = &queue->buckets[top & UINT32_MAX];
    size_t capacity = queue->run_capacity;
    if (!grow((void **)&queue->spare, &capacity, bucket->count, sizeof *queue->spare) ||
        !grow((void **)&queue->run, &queue->run_capacity, bucket->count, sizeof *queue->run))
        return false;
    size_t n = 0;
    for (uint32_t at = bucket->head; at != NO_ENTRY; at = queue->entries[at].next)
        queue->run[n++] = queue->entries[at].position;
    queue->entries[bucket->tail].next = queue->free_entry;
    queue->free_entry = bucket->head;
    if (!bucket->sorted)
        sort_run(&queue->run, &queue->spare, n);
    queue->run_at = 0;
    queue->run_end = n;
    queue->open_rank = bucket->rank;
    queue->opened = true;
    return true;
}

bool ln_merge_queue_pop(ln_merge_queue *queue, uint32_t *rank, uint32_t *position) {
    if (queue->run_at == queue->run_end && queue->heap.count == 0 && queue->open_ranks.count > 0 &&
        !open_bucket(queue)) {
        queue->failed = true;
        return false;
    }
    uint64_t key = UINT64_MAX;
    if (queue->run_at < queue->run_end)
        key = (uint64_t)queue->open_rank << 32 | queue->run[queue->run_at];
    if (queue->heap.count > 0 && queue->heap.data[0] < key)
        key = heap_pop(&queue->heap);
    else if (key != UINT64_MAX)
        queue->run_at++;
    else
        return false;
    *rank = (uint32_t)(key >> 32);
    *position = (uint32_t)key;
    return true;
}
