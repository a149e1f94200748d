/* Sequences: streams of tokens with their KV. Those of one request form a group; they begin with
 * the same prompt, which the first of them reads for all. Memory, tokens included, belongs to the
 * request; once submitted, only the engine thread touches it. */
#ifndef LN_ENGINE_SEQUENCE_H
#define LN_ENGINE_SEQUENCE_H

#include "grammar/grammar.h"
#include "kv/prefix_index.h"

typedef struct ln_sequence_group ln_sequence_group;

typedef struct ln_sequence {
    ln_sequence_group *group;
    const int32_t *tokens; /* [n_tokens] of [max_tokens]: prompt, then output */
    size_t n_tokens;
    size_t max_tokens; /* the length that it may reach */
    size_t n_cached;   /* tokens whose K and V are in the cache */
    size_t kv_row;     /* in the cache, with has_row */
    bool has_row;
    bool is_over;
    uint32_t index;                 /* in its group */
    double mirostat_excess;         /* the sampler's state */
    ln_grammar_state grammar_state; /* with a grammar; a plain value, which a fork copies */
    size_t n_draft;                 /* drafted tokens behind the others, for the coming step */
    bool is_forced;                 /* they are what the grammar leaves, and no guess */
    bool is_predicted;              /* they are of the request's prediction */
    int32_t drafted;                /* the token that is verified now; -1: none is */
    size_t n_predicted, n_predicted_came; /* drafted so in all, and those that came */
    size_t n_draft_cached;                /* tokens that a draft model has read */
    size_t draft_length;                  /* how many to draft next; 0: nothing is known yet */
} ln_sequence;

typedef enum ln_group_state {
    LN_GROUP_NEW = 0,
    LN_GROUP_WAITING,
    LN_GROUP_RUNNING,
    LN_GROUP_SWAPPED
} ln_group_state;

struct ln_sequence_group {
    ln_sequence_group *previous, *next; /* in a queue */
    linnet_request *request;            /* whose it is */
    ln_sequence *sequences;             /* [n_sequences] */
    size_t n_sequences, n_live;         /* those that are not over */
    size_t n_prompt;
    const int32_t *encoder_tokens; /* [n_encoder], with an encoder */
    size_t n_encoder;
    bool needs_encoder;     /* its encoder has not run yet */
    bool wants_all_logits;  /* of every token; else of the last one */
    linnet_pooling pooling; /* of hidden states, of a request that embeds; DEFAULT: it does not */
    bool is_whole;          /* all of its prompt is one step */
    size_t n_first;         /* tokens of the first of two texts; 0: there is one */
    bool in_lockstep;       /* beams: the last tokens of all go through one step */
    bool is_forked;   /* every sequence has its row; before, the first live one reads the prompt */
    int32_t priority; /* lower goes first, where the scheduler looks at it */
    uint64_t root;    /* of its prefixes: ln_kv_cache_root */
    ln_prefix_origin origin; /* of the root */
    size_t adapter;          /* its slot, plus 1; 0: none */

    /* the scheduler's */
    ln_group_state state;
    uint64_t arrival;
    bool is_overdue; /* goes before all that are not */
    bool is_long;    /* its prompt counts as a long one */
    bool was_admitted;
    size_t n_prefix_hit; /* tokens of the prompt that the prefix cache had when it was admitted */
};

/* Groups in an order; a group is in one queue at most. */
typedef struct ln_group_queue {
    ln_sequence_group *first, *last; /* NULL, NULL: empty */
    size_t n_groups;
} ln_group_queue;

/* Puts the group behind `place`; NULL: in front of all. */
static inline void ln_group_queue_insert(ln_group_queue *queue, ln_sequence_group *group,
                                         ln_sequence_group *place) {
    group->previous = place;
    group->next = place != NULL ? place->next : queue->first;
    *(place != NULL ? &place->next : &queue->first) = group;
    *(group->next != NULL ? &group->next->previous : &queue->last) = group;
    queue->n_groups++;
}

static inline void ln_group_queue_remove(ln_group_queue *queue, ln_sequence_group *group) {
    *(group->previous != NULL ? &group->previous->next : &queue->first) = group->next;
    *(group->next != NULL ? &group->next->previous : &queue->last) = group->previous;
    group->previous = group->next = NULL;
    queue->n_groups--;
}

/* The first in order, taken out; NULL: there is none. */
static inline ln_sequence_group *ln_group_queue_pop(ln_group_queue *queue) {
    ln_sequence_group *group = queue->first;
    if (group != NULL)
        ln_group_queue_remove(queue, group);
    return group;
}

#endif
