/* The queue of pending merges, smallest (rank, position) first. Short words use a heap. In long
 * ones the entries of a rank wait in a bucket, which is sorted once when its turn comes: time is
 * linear in the entries and memory is walked in order. */
#ifndef LN_TEXT_MERGE_QUEUE_H
#define LN_TEXT_MERGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_heap {
    uint64_t *data; /* [capacity], a min-heap of four children */
    size_t count, capacity;
} ln_heap;

typedef struct ln_merge_bucket {
    uint32_t rank, head, tail, last_position, count;
    bool sorted;
} ln_merge_bucket;

typedef struct ln_merge_queue {
    ln_heap heap;       /* rank << 32 | position */
    ln_heap open_ranks; /* rank << 32 | bucket, of the buckets that wait */
    bool bucketed;
    bool opened;           /* a bucket is being emptied */
    uint32_t open_rank;    /* its rank: lower and equal ones go to the heap */
    uint32_t *run, *spare; /* [run_capacity] positions of the open bucket */
    size_t run_at, run_end, run_capacity;
    ln_merge_bucket *buckets; /* [bucket_capacity] */
    size_t n_buckets, bucket_capacity;
    uint32_t *bucket_of_rank; /* [n_ranks], bucket + 1; 0: none */
    uint32_t n_ranks;
    struct ln_merge_entry {
        uint32_t position, next;
    } * entries; /* [entry_capacity], linked in buckets or in the free list */
    size_t n_entries, entry_capacity;
    uint32_t free_entry; /* UINT32_MAX: none */
    bool failed;         /* memory ran out */
} ln_merge_queue;

void ln_merge_queue_free(ln_merge_queue *queue);

/* Empties the queue for a word of n_symbols under n_ranks ranks. */
void ln_merge_queue_begin(ln_merge_queue *queue, size_t n_symbols, uint32_t n_ranks);
void ln_merge_queue_push(ln_merge_queue *queue, uint32_t rank, uint32_t position);
bool ln_merge_queue_pop(ln_merge_queue *queue, uint32_t *rank, uint32_t *position);

#endif
