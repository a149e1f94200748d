/* What the tests of operations share: random inputs on two backends, the one under test and the
 * scalar oracle, and the comparison of what they give. */
#ifndef LN_TESTS_OPS_H
#define LN_TESTS_OPS_H

#include "backend/backend.h"
#include "test.h"

enum {
    MAX_PLACED = 2048,
    MAX_ADAPTERS = 5 /* that rows of steps which are replayed may have (ln_step_limits) */
};

/* A backend and the memory that the current case has on it. */
typedef struct side {
    ln_backend *backend;
    bool is_oracle;
    void *memory[MAX_PLACED];
    size_t bytes[MAX_PLACED];
    size_t n_placed;
} side;

extern side subject, oracle;
extern uint64_t ops_seed;            /* of what is random */
extern bool ops_rows_vary;           /* bits of a row need not be the same in another batch */
extern bool ops_is_brief;            /* few steps of each case: main.c */
extern size_t ops_part, ops_n_parts; /* of every so many cases this one runs */
extern double ops_tolerance;         /* assert_near's least: what `fast` may be off */

/* What is drawn and compared from now on belongs to this test. */
void ops_begin_test(const char *name);

/* Whether the next case belongs to the part that runs. */
bool ops_takes_case(void);

/* A size that kernels of GPUs need before they take another path; a quarter of it on a CPU, whose
 * kernels take all of theirs with less. */
size_t ops_gpu_size(size_t n);

/* A number in [-1, 1), and n of them (malloc). */
float noise(void);
float *noise_rows(size_t n);
size_t draw(size_t n); /* below n */
/* n whole numbers from -most to most: scores of these have no rounding, and many are equal. */
float *small_integers(size_t n, size_t most);

/* n floats or ids on a side; NULL x: zeros. */
float *put(side *s, const float *x, size_t n);
int32_t *put_ids(side *s, const int32_t *ids, size_t n);
void *put_bytes(side *s, const void *x, size_t bytes);
/* Cache memory as other sequences may leave it: bytes that are no number in any of its types. What
 * a token does not see must not matter. */
void *put_used(side *s, size_t bytes);
/* Rows of x, [][width], of these numbers. */
float *put_rows_of(side *s, const float *x, const size_t *rows, size_t n, size_t width);
void free_placed(side *s);
void free_placed_from(side *s, size_t n); /* all behind the first n */

/* Numbers the values of these operations and runs them. What other operations of the list read may
 * not be written then; what none of them reads is. */
void run_ops(side *s, ln_op *ops, size_t n_ops);
/* What lies at n floats (or ids) of a side; malloc. */
float *get(side *s, float *x, size_t n);

#define LINEAR_ERROR 3e-6 /* what a linear may be off */

/* Relative to the norm of `want`; fails above `most` or for NaN. */
void assert_near(const char *what, const float *got, const float *want, size_t n, double most);

/* A matrix in a file's format, of random blocks. */
typedef struct matrix {
    ln_tensor tensor, scales;
    size_t n_rows, n_cols;
    bool has_row_scales; /* `scales` [n_rows] belongs to it */
} matrix;

matrix make_matrix(ln_dtype dtype, size_t n_rows, size_t n_cols);
/* Of I8 or F8_E4M3 with one scale per row, which is to meet such activations. */
matrix make_byte_matrix(ln_dtype dtype, size_t n_rows, size_t n_cols);
/* Of byte_dtype like that unless it is F32, or else of dtype. */
matrix make_case_matrix(ln_dtype dtype, ln_dtype byte_dtype, size_t n_rows, size_t n_cols);
/* A number of columns, at least so many, that the type's blocks divide. */
size_t columns_of(ln_dtype dtype, size_t least);
void free_matrix(matrix *m);
ln_weight put_weight(side *s, const matrix *m, const float *bias);
/* The same for a matrix that chooses experts, which keeps its type. */
ln_weight put_router(side *s, const matrix *m, const float *bias);
/* n of one shape, one after another as a model's experts lie; *weights are put. */
void put_weights(side *s, const matrix *m, const float *const *bias, size_t n, ln_weight *weights);

extern const struct CMUnitTest linear_tests[], grouped_tests[], row_tests[], attention_tests[],
    index_tests[], entry_tests[], recurrent_tests[], chain_tests[], adapter_tests[], key_tests[];
extern const size_t n_linear_tests, n_grouped_tests, n_row_tests, n_attention_tests, n_index_tests,
    n_entry_tests, n_recurrent_tests, n_chain_tests, n_adapter_tests, n_key_tests;

#endif
