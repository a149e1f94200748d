/* Norms, with the residual sum behind them; q/k norm, RoPE and the KV write, and the same for
 * latents. A worker takes a range of rows. Sums run in 16 lanes that are added in a fixed tree.
 * Bytes moved: each row read twice from the cache, written once. */
#ifndef LN_BACKEND_CPU_SIMD_NORM_H
#define LN_BACKEND_CPU_SIMD_NORM_H

#include <math.h>

#include "backend/cpu/simd/kv.h"

LN_INLINE vf load_part(const float *x, size_t left) {
    return left < LANES ? vf_load_n(x, left) : vf_load(x);
}

LN_INLINE void store_part(float *x, vf y, size_t left) {
    if (left < LANES)
        vf_store_n(x, y, left);
    else
        vf_store(x, y);
}

static float sum_row(const float *x, size_t n) {
    vf sum = vf_set(0.0f);
    for (size_t i = 0; i < n; i += LANES)
        sum = vf_add(sum, load_part(x + i, n - i));
    return vf_sum(sum);
}

/* sum of (x[i] - mean)^2 */
static float sum_squares(const float *x, float mean, size_t n) {
    vf sum = vf_set(0.0f), center = vf_set(mean);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf d = vf_sub(vf_load(x + i), center);
        sum = vf_fma(d, d, sum);
    }
    float total = vf_sum(sum);
    for (; i < n; i++)
        total += (x[i] - mean) * (x[i] - mean);
    return total;
}

/* out = residual + scale * norm(x), without residual norm(x); in place is fine. */
static void norm_row(const ln_norm *norm, const float *x, const float *residual, float scale,
                     float *out) {
    size_t n = norm->dim;
    float mean = norm->kind == LN_NORM_LAYER ? sum_row(x, n) / (float)n : 0.0f;
    float inverse = 1.0f;
    if (norm->kind != LN_NORM_NONE)
        inverse = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + norm->eps);
    vf offset = vf_set(norm->kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f);
    for (size_t i = 0; i < n; i += LANES) {
        vf y = vf_mul(vf_sub(load_part(x + i, n - i), vf_set(mean)), vf_set(inverse));
        if (norm->weight != NULL)
            y = vf_mul(y, vf_add(load_part(norm->weight + i, n - i), offset));
        if (norm->bias != NULL)
            y = vf_add(y, load_part(norm->bias + i, n - i));
        if (residual != NULL)
            y = vf_fma(vf_set(scale), y, load_part(residual + i, n - i));
        store_part(out + i, y, n - i);
    }
}

static void norm(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_norm *p = &op->norm;
    size_t dim = p->norm->dim, out_stride = p->out_stride > 0 ? p->out_stride : dim;
    size_t begin, end;
    ln_cpu_share(worker, p->n_rows, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        size_t row = p->rows != NULL ? (size_t)p->rows[i] : i;
        norm_row(p->norm, p->x + row * dim, p->residual != NULL ? p->residual + i * dim : NULL,
                 p->scale, p->out + p->out_begin + i * out_stride);
    }
}

static void norm_heads(ln_qk_norm kind, const ln_norm *norm, float *row, size_t n_heads,
                       size_t dim) {
    if (kind == LN_QK_NORM_FULL) {
        norm_row(norm, row, NULL, 1.0f, row);
        return;
    }
    ln_norm own = *norm;
    for (size_t head = 0; head < n_heads; head++) {
        norm_row(&own, row + head * dim, NULL, 1.0f, row + head * dim);
        if (kind != LN_QK_NORM_OWN)
            continue;
        own.weight += dim;
        if (own.bias != NULL)
            own.bias += dim;
    }
}

static void rotate_heads(const ln_rope *rope, const float *cos_sin, float *row, size_t n_heads,
                         size_t dim) {
    size_t half = rope->n_dims / 2;
    size_t step = rope->style == LN_ROPE_HALF ? 1 : 2;
    size_t pair = rope->style == LN_ROPE_HALF ? half : 1;
    for (size_t head = 0; head < n_heads; head++) {
        float *x = row + head * dim + (rope->last ? dim - rope->n_dims : 0);
        size_t i = 0;
        for (; step == 1 && i + LANES <= half; i += LANES) {
            vf a = vf_load(x + i), b = vf_load(x + i + half);
            vf c = vf_load(cos_sin + i), s = vf_load(cos_sin + half + i);
            vf_store(x + i, vf_sub(vf_mul(a, c), vf_mul(b, s)));
            vf_store(x + i + half, vf_add(vf_mul(b, c), vf_mul(a, s)));
        }
        for (; i < half; i++) {
            float a = x[i * step], b = x[i * step + pair];
            x[i * step] = a * cos_sin[i] - b * cos_sin[half + i];
            x[i * step + pair] = b * cos_sin[i] + a * cos_sin[half + i];
        }
    }
}

static void qkv(const ln_op *op, const ln_cpu_worker *worker) {
    static const ln_qkv_parts parts = {norm_heads, rotate_heads, kv_store_key, kv_store_value};
    ln_scalar_qkv_by(op, worker, &parts);
}

static void latent(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_latent *p = &op->latent;
    const ln_kv_layer *kv = p->kv;
    const ln_batch *batch = op->batch;
    const int32_t *slots = batch->groups[kv->group].slots;
    size_t n_latent = p->norm->dim, n_rope = p->rope->n_dims;
    float *row = worker->scratch, *cos_sin = row + kv->k_dim;
    size_t begin, end;
    ln_cpu_share(worker, batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        const float *x = p->latent + token * kv->k_dim;
        ln_scalar_fill_angles(p->rope, batch->positions[token], cos_sin);
        norm_row(p->norm, x, NULL, 1.0f, row);
        memcpy(row + n_latent, x + n_latent, n_rope * sizeof *row);
        rotate_heads(p->rope, cos_sin, row + n_latent, 1, n_rope);
        kv_store_key(kv, (size_t)slots[token], 0, row);
        for (size_t head = 0; head < p->n_heads; head++) {
            size_t at = token * p->n_heads + head;
            const float *q = p->q + at * (p->n_plain + n_rope) + p->n_plain;
            float *out = p->out + at * kv->k_dim + n_latent;
            memcpy(out, q, n_rope * sizeof *out);
            rotate_heads(p->rope, cos_sin, out, 1, n_rope);
        }
    }
}

#endif
