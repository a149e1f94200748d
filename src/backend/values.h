/* What the operations of a list hand to each other, as values instead of places in memory. A value
 * is written once, by its producer; the memory that it lies in holds other values before and after.
 * So who reads a result, and from when on nobody does, is asked here and nowhere guessed from
 * pointers.
 *
 * An id is given to each result of an operation, also to one that is written over what the
 * operation reads; a cache that is written in a list is a value, too. What operations read that
 * nothing in the list has written (x of a list that begins with a later layer) has an id without
 * a producer. */
#ifndef LN_BACKEND_VALUES_H
#define LN_BACKEND_VALUES_H

#include "backend/op.h"

/* Gives every value of the list an id, 1 and on in the order of writing. Two pointers mean the same
 * value only where they are equal: operations name an activation by its first element. A list has
 * at most LN_MAX_PLACES different ones. */
enum { LN_MAX_PLACES = 192 };
void ln_values_number(ln_op *ops, size_t n_ops);

/* The greatest id of the list, and one more; and what that is at most in lists of max_ops. */
size_t ln_values_count(const ln_op *ops, size_t n_ops);
static inline size_t ln_values_most(size_t max_ops) {
    return max_ops * LN_OP_MAX_OUT + LN_MAX_PLACES + 1; /* inputs without a producer are few */
}

/* Indices of operations; a value read by none has first_reader LN_NO_OP and last_reader 0. */
#define LN_NO_OP UINT32_MAX
typedef struct ln_value_uses {
    uint32_t producer; /* LN_NO_OP: it was there before */
    uint32_t n_reads;  /* an operation can read a value more than once */
    uint32_t first_reader, last_reader;
} ln_value_uses;

/* uses [n_values] as ln_values_count gives it. Of value 0 nothing is known. What is kept has one
 * more reader, LN_NO_OP. */
void ln_values_find_uses(const ln_op *ops, size_t n_ops, ln_value_uses *uses, size_t n_values);

/* For a list that runs in parts: marks, in ops[begin .. end), results that operations from `end` on
 * read, so that a part by itself shows that they must be written. `uses` are of the whole list. */
void ln_values_keep(ln_op *ops, size_t begin, size_t end, const ln_value_uses *uses);

/* Whether somebody reads the value, and each of those who do is among the n operations right behind
 * its producer and reads it once. Then, if these have it in another form, it need not be written.
 */
static inline bool ln_value_stays_within(const ln_value_uses *uses, size_t n) {
    return uses->producer != LN_NO_OP && uses->n_reads > 0 &&
           uses->last_reader <= uses->producer + n &&
           uses->n_reads == uses->last_reader - uses->producer;
}

#endif
