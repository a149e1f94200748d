/* Functions of whole rows: AltUp's streams, rows brought to the size of others, gates of which few
 * elements stay, products of two rows, and weights by product keys. A worker takes a range of rows;
 * sums are of double. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"

/* What the gate must be above: its mean and so many standard deviations. */
static float cutoff_of(const float *x, size_t n, float deviations) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (float)(mean + sqrt(squares / (double)n) * (double)deviations);
}

static void gate_sparsely(const ln_op_rowwise *p, size_t row) {
    const float *x = p->x + row * p->dim, *y = p->y + row * p->dim;
    float *out = p->out + row * p->dim, cutoff = cutoff_of(x, p->dim, p->deviations);
    for (size_t i = 0; i < p->dim; i++)
        out[i] = ln_scalar_activate(p->activation, fmaxf(x[i] - cutoff, 0.0f)) * y[i];
}

static float mean_square(const float *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return (float)(squares / (double)n);
}

static void match_size(const ln_op_rowwise *p, size_t row) {
    const float *x = p->x + row * p->dim, *y = p->y + row / p->n_streams * p->dim;
    float *out = p->out + row * p->dim;
    float size = sqrtf(mean_square(y, p->dim));
    float own = sqrtf(fmaxf(mean_square(x, p->dim), LN_ROWWISE_LEAST_SQUARE));
    for (size_t i = 0; i < p->dim; i++)
        out[i] = x[i] * size / own;
}

static void predict(const ln_op_rowwise *p, size_t row) {
    const float *x = p->x + row * p->dim,
                *coefs = p->coefs + row * (p->n_streams + 1) * (p->n_streams + 1);
    float *streams = p->streams + row * p->n_streams * p->dim, *out = p->out + row * p->dim;
    size_t n = p->n_streams + 1;
    for (size_t i = 0; i < p->dim; i++) {
        float old[LN_MAX_STREAMS + 1] = {x[i]};
        for (size_t k = 1; k < n; k++)
            old[k] = streams[(k - 1) * p->dim + i];
        for (size_t to = 0; to < n; to++) {
            float sum = 0.0f;
            for (size_t k = 0; k < n; k++)
                sum += coefs[to * n + k] * old[k];
            *(to == 0 ? &out[i] : &streams[(to - 1) * p->dim + i]) = sum + old[to];
        }
    }
}

static void correct(const ln_op_rowwise *p, size_t row) {
    const float *x = p->x + row * p->dim, *y = p->y + row * p->dim;
    const float *coefs = p->coefs + row * (p->n_streams + 1);
    float *streams = p->streams + row * p->n_streams * p->dim, *out = p->out + row * p->dim;
    for (size_t i = 0; i < p->dim; i++) {
        float change = x[i] - y[i];
        for (size_t k = 0; k < p->n_streams; k++)
            streams[k * p->dim + i] += change * (coefs[k + 1] + 1.0f);
        out[i] = y[i] + change * (coefs[0] + 1.0f);
    }
}

/* Divides n rows of n coefficients, or columns, by their sums plus eps. */
static void divide_by_sums(float *coefs, size_t n, bool columns, float eps) {
    size_t step = columns ? n : 1, next = columns ? 1 : n;
    for (size_t i = 0; i < n; i++) {
        float sum = eps;
        for (size_t j = 0; j < n; j++)
            sum += coefs[i * next + j * step];
        for (size_t j = 0; j < n; j++)
            coefs[i * next + j * step] /= sum;
    }
}

static void balance(const ln_op_rowwise *p, size_t row) {
    size_t n = p->n_streams;
    const float *x = p->x + (row + 1) * p->dim - n * n;
    float *out = p->out + row * n * n;
    for (size_t i = 0; i < n; i++) {
        float largest = -INFINITY, total = 0.0f;
        for (size_t j = 0; j < n; j++)
            largest = fmaxf(largest, x[i * n + j]);
        for (size_t j = 0; j < n; j++)
            total += out[i * n + j] = expf(x[i * n + j] - largest);
        for (size_t j = 0; j < n; j++)
            out[i * n + j] = out[i * n + j] / total + p->eps;
    }
    for (size_t round = 0; round < p->n_rounds; round++) {
        if (round > 0)
            divide_by_sums(out, n, false, p->eps);
        divide_by_sums(out, n, true, p->eps);
    }
}

static void mix(const ln_op_rowwise *p, size_t row) {
    size_t n = p->n_streams;
    const float *x = p->x + row * p->dim, *y = p->y + row * n, *coefs = p->coefs + row * n * n;
    float *streams = p->streams + row * n * p->dim;
    for (size_t i = 0; i < p->dim; i++) {
        float old[LN_MAX_MIXED];
        for (size_t from = 0; from < n; from++)
            old[from] = streams[from * p->dim + i];
        for (size_t to = 0; to < n; to++) {
            float sum = y[to] * x[i];
            for (size_t from = 0; from < n; from++)
                sum += coefs[from * n + to] * old[from];
            streams[to * p->dim + i] = sum;
        }
    }
}

static void clip_norm(const ln_op_rowwise *p, size_t row) {
    const float *x = p->x + row * p->dim;
    float *out = p->out + row * p->dim;
    double squares = (double)mean_square(x, p->dim) * (double)p->dim;
    float factor = fminf(p->limit / ((float)sqrt(squares) + p->eps), 1.0f);
    for (size_t i = 0; i < p->dim; i++)
        out[i] = x[i] * factor;
}

static void attend_to_streams(const ln_op_rowwise *p, size_t row) {
    const float *of_row = p->streams + row * p->n_streams * p->dim;
    float weights[LN_MAX_MIXED], inverse[LN_MAX_MIXED], largest = -INFINITY, total = 0.0f;
    float *out = p->out + row * p->dim;
    size_t n = p->n_used + 1;
    double divisor = p->raw_values ? 1.0 : sqrt((double)p->dim);
    for (size_t k = 0; k < n; k++) {
        const float *s = k < p->n_used ? of_row + k * p->dim : p->x + row * p->dim;
        double sum = 0;
        for (size_t i = 0; i < p->dim; i++)
            sum += (double)p->query[i] * (double)s[i];
        inverse[k] = 1.0f / sqrtf(mean_square(s, p->dim) + p->eps);
        weights[k] = (float)(sum * (double)inverse[k] / divisor);
        largest = fmaxf(largest, weights[k]);
    }
    for (size_t k = 0; k < n; k++)
        total += weights[k] = expf(weights[k] - largest);
    for (size_t i = 0; i < p->dim; i++) {
        float sum = 0.0f;
        for (size_t k = 0; k < n; k++)
            sum += weights[k] / total * (p->raw_values ? 1.0f : inverse[k]) *
                   (k < p->n_used ? of_row[k * p->dim + i] : p->x[row * p->dim + i]);
        out[i] = sum;
    }
}

static void signed_root(const ln_op_rowwise *p, size_t row) {
    const float *x = p->x + row * p->dim, *y = p->y + row * p->dim;
    double sum = 0;
    for (size_t i = 0; i < p->dim; i++)
        sum += (double)x[i] * (double)y[i];
    float dot = (float)(sum / sqrt((double)p->dim));
    float root = sqrtf(fmaxf(fabsf(dot), LN_ROWWISE_LEAST_DOT));
    p->out[row] = dot == 0.0f ? 0.0f : copysignf(root, dot);
}

/* The places of n numbers, the greatest first. Where some are NaN, places repeat, but all are less
 * than n. */
static void sort_keys(const float *x, size_t n, uint16_t *places) {
    memset(places, 0, n * sizeof *places);
    for (size_t i = 0; i < n; i++) {
        size_t rank = 0;
        for (size_t j = 0; j < n; j++)
            rank += x[j] > x[i] || (x[j] == x[i] && j < i);
        places[rank] = (uint16_t)i;
    }
}

/* The n_used best pairs of a row's keys x [2 n_keys], and their weights, whose sum it returns. Both
 * halves are sorted, so the best pair of a first key is that with the best second key it has not
 * had yet, whose place is in `next`; the best of these over all first keys is the next pair. No
 * pair is of a first key behind the n_used best. */
static double choose_pairs(const ln_op_rowwise *p, const float *x, uint32_t *pairs,
                           float *weights) {
    size_t n = p->n_keys, n_first = n < p->n_used ? n : p->n_used;
    uint16_t first[LN_MAX_PRODUCT_KEYS], second[LN_MAX_PRODUCT_KEYS];
    uint16_t next[LN_MAX_PRODUCT_KEYS] = {0};
    float largest = 0.0f;
    double total = 0;
    sort_keys(x, n, first);
    sort_keys(x + n, n, second);
    for (size_t k = 0; k < p->n_used; k++) {
        size_t best = n_first;
        float sum = 0.0f;
        for (size_t i = 0; i < n_first; i++) {
            float own = next[i] < n ? x[first[i]] + x[n + second[next[i]]] : 0.0f;
            if (next[i] < n && (best == n_first || own > sum))
                sum = own, best = i;
        }
        pairs[k] = (uint32_t)(first[best] * n + second[next[best]++]);
        largest = k == 0 ? sum : largest;
        weights[k] = expf(sum - largest);
        total += (double)weights[k];
    }
    return total;
}

static void weigh_pairs(const ln_op_rowwise *p, size_t row) {
    const float *y = p->y + row * p->dim;
    float *out = p->out + row * p->dim, weights[LN_MAX_PRODUCT_USED];
    uint32_t pairs[LN_MAX_PRODUCT_USED];
    double total = choose_pairs(p, p->x + row * 2 * p->n_keys, pairs, weights);
    for (size_t k = 0; k < p->n_used; k++) /* out may be y */
        weights[k] *= y[pairs[k]];
    memset(out, 0, p->dim * sizeof *out);
    for (size_t k = 0; k < p->n_used; k++)
        out[pairs[k]] = (float)((double)weights[k] / total);
}

void ln_scalar_rowwise(const ln_op *op, const ln_cpu_worker *worker) {
    static void (*const functions[])(const ln_op_rowwise *p, size_t row) = {
        [LN_ROWWISE_SPARSE_GATE] = gate_sparsely, [LN_ROWWISE_MATCH] = match_size,
        [LN_ROWWISE_PREDICT] = predict,           [LN_ROWWISE_CORRECT] = correct,
        [LN_ROWWISE_SINKHORN] = balance,          [LN_ROWWISE_MIX] = mix,
        [LN_ROWWISE_CLIP_NORM] = clip_norm,       [LN_ROWWISE_STREAM_ATTENTION] = attend_to_streams,
        [LN_ROWWISE_SIGNED_ROOT] = signed_root,   [LN_ROWWISE_PRODUCT_KEYS] = weigh_pairs};
    const ln_op_rowwise *p = &op->rowwise;
    size_t begin, end;
    ln_cpu_share(worker, p->n_rows, &begin, &end);
    for (size_t row = begin; row < end; row++)
        functions[p->function](p, row);
}
