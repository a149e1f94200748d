/* The stages of a head as float32, and a vector through them. They are no part of a step: one
 * vector for each text is little work. */
#ifndef LN_MODEL_EMBEDDING_HEAD_H
#define LN_MODEL_EMBEDDING_HEAD_H

#include "base/layout.h"
#include "model/embedding/embedding.h"

typedef struct ln_head {
    const ln_head_stages *stages;
    struct {
        const float *weight, *bias, *norm, *norm_bias; /* NULL: none */
    } at[LN_MAX_STAGES];
} ln_head;

/* Adds the stages to a layout; with `memory`, where it begins, they are copied there. */
void ln_head_place(const ln_head_stages *stages, ln_layout *layout, char *memory, ln_head *head);

/* The widest vector between stages, `dim` before them. */
size_t ln_head_max_width(const ln_head_stages *stages, size_t dim);

/* x [dim] becomes what the stages make of it, [ln_head_width]; scratch and x have room for the
 * widest. Sums are in double, in order. */
void ln_head_run(const ln_head *head, float *x, float *scratch);

/* x [n] is divided by its length, unless that is 0. */
void ln_head_normalize(float *x, size_t n);

#endif
