/* The queue of pending merges, smallest (rank, position) first. Short words use a heap. In long
 * ones the entries of a rank wait in a bucket, which is sorted once when its turn comes: time is
 * linear in the entries and memory is walked in order. */
#ifndef LN_TEXT_TOKENIZER_MERGE_QUEUE_H
#define LN_TEXT_TOKENIZER_MERGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_heap {
    uint64_t *data; /* [capacity], a min-heap of four children */
    size_t count, capacity;
} ln_heap;

enum { LN_MERGE_BLOCK_POSITIONS = 62 };

/* Positions of one bucket; blocks are linked by index, UINT32_MAX ends a list. */
typedef struct ln_merge_block {
    uint32_t next, count;
    uint32_t positions[LN_MERGE_BLOCK_POSITIONS];
} ln_merge_block;

typedef struct ln_merge_bucket {
    uint32_t rank, first, last; /* blocks */
    uint32_t last_position;
    size_t count;
    bool sorted; /* positions came in order */
} ln_merge_bucket;

typedef struct ln_merge_queue {
    ln_heap heap;        /* rank << 32 | position */
    ln_heap waiting;     /* rank << 32 | bucket */
    bool bucketed;       /* else everything is in the heap */
    bool opened;         /* a bucket is being emptied */
    uint32_t open_rank;  /* its rank: lower and equal ones go to the heap */
    uint32_t open_block; /* a sorted bucket is read where it lies, from `open_at` on */
    uint32_t open_at;
    uint32_t *run, *spare; /* [run_capacity] another one is sorted here first */
    size_t run_at, run_end, run_capacity;
    ln_merge_bucket *buckets; /* [bucket_capacity] */
    size_t n_buckets, bucket_capacity;
    uint32_t *bucket_of_rank; /* [n_ranks], bucket + 1; 0: none */
    ln_merge_block *blocks;   /* [block_capacity] */
    size_t n_blocks, block_capacity;
    uint32_t free_block;
    bool failed; /* memory ran out */
} ln_merge_queue;

void ln_merge_queue_free(ln_merge_queue *queue);

/* Empties the queue for a word of n_symbols under n_ranks ranks. */
void ln_merge_queue_begin(ln_merge_queue *queue, size_t n_symbols, uint32_t n_ranks);
void ln_merge_queue_push(ln_merge_queue *queue, uint32_t rank, uint32_t position);
bool ln_merge_queue_pop(ln_merge_queue *queue, uint32_t *rank, uint32_t *position);

#endif
