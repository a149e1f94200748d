/* A token that may be sampled. */
#ifndef LN_SAMPLING_CANDIDATE_H
#define LN_SAMPLING_CANDIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_candidate {
    double weight; /* e^((logit - best) / temperature) */
    float logit;   /* after penalties */
    int32_t id;
} ln_candidate;

#endif
