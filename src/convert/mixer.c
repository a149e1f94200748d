/* Tensors of recurrent layers. Where the target's heads of values are tiled, the file has those of
 * all first heads of keys' groups before those of all second ones, and so on. */
#include <stdlib.h>

#include "convert/parts.h"
#include "model/mixer/shape.h"

/* A recurrent layer on its way into the file. */
typedef struct mixer {
    ln_convert_plan *plan;
    const ln_mixer_spec *spec;
    ln_tensor_id id;
    size_t dim;
} mixer;

static bool is_tiled(const mixer *m) {
    return m->plan->target->gguf_tiled_heads && m->spec->n_heads > m->spec->n_k_heads;
}

/* The folder's head that is number `head` of the file. */
static size_t stored_head(const mixer *m, size_t head) {
    size_t n = m->spec->n_k_heads;
    return is_tiled(m) ? head % n * (m->spec->n_heads / n) + head / n : head;
}

static bool names(const mixer *m, ln_role role) {
    ln_tensor_id id = ln_id_as(m->id, role);
    return ln_family_binding(m->plan->spec->family, LN_FORMAT_HF, id, 0) != NULL;
}

/* The part of the target's tensor that a role is. */
static ln_part target_part(const mixer *m, ln_role role) {
    const ln_binding *binding =
        ln_family_binding(m->plan->target, LN_FORMAT_GGUF, ln_id_as(m->id, role), 0);
    return binding != NULL ? binding->gguf_part : LN_PART_ALL;
}

static ln_status rows(const mixer *m, ln_role role, size_t n_rows, size_t begin, size_t n,
                      float scale, float bias_scale) {
    ln_source_shape shape = {1, n_rows, m->dim};
    ln_convert_slice slice = {begin, n};
    ln_convert_part part = {.scale = scale};
    return ln_convert_rows_of(m->plan, ln_id_as(m->id, role), &shape, slice, part, bias_scale);
}

/* All rows from `begin` on, which are those of heads of values, in the file's order of heads. */
static ln_status heads(const mixer *m, ln_role role, size_t n_rows, size_t begin) {
    size_t per_head = (n_rows - begin) / m->spec->n_heads;
    if (!is_tiled(m))
        return rows(m, role, n_rows, begin, n_rows - begin, 1, 1);
    for (size_t i = 0; i < m->spec->n_heads; i++)
        LN_TRY(rows(m, role, n_rows, begin + stored_head(m, i) * per_head, per_head, 1, 1));
    return LINNET_OK;
}

/* ---- vectors and taps, which folders store in several shapes ----------------------------------
 */

/* The values of a role as rows x cols, whatever its shape; no source: it is missing. */
static ln_status find_values(const mixer *m, ln_tensor_id id, size_t n_rows, size_t n_cols,
                             ln_weight_request *request) {
    const ln_convert_plan *plan = m->plan;
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(plan->spec->family, plan->checkpoint, id, &binding);
    *request = (ln_weight_request){0};
    if (tensor == NULL && id.is_bias)
        return LINNET_OK;
    size_t begin;
    if (tensor == NULL ||
        !ln_source_values(plan->spec, binding->hf_part, id, n_rows * n_cols, tensor, &begin))
        return ln_source_vector(plan->checkpoint, plan->spec, id, n_rows * n_cols, request,
                                plan->err);
    ln_weight_source source = {
        .tensor = tensor, .n_rows = n_rows, .row_begin = begin / n_cols, .run_rows = n_rows};
    *request = (ln_weight_request){.n_sources = 1, .sources = {source}, .n_cols = n_cols};
    return LINNET_OK;
}

/* Rows [begin, n_rows) of them in the file's order of heads; those before stay. */
static ln_status add_values(const mixer *m, ln_tensor_id id, size_t n_rows, size_t n_cols,
                            size_t begin, ln_convert_part part) {
    ln_weight_request request;
    size_t n_heads = m->spec->n_heads;
    bool is_vector = n_cols == 1;
    LN_TRY(find_values(m, id, n_rows, n_cols, &request));
    if (!is_tiled(m) || request.n_sources == 0)
        return ln_convert_request(m->plan, id, 1, &request, part, is_vector);
    size_t per_head = (n_rows - begin) / n_heads;
    part.n_units = begin;
    if (begin > 0)
        LN_TRY(ln_convert_request(m->plan, id, 1, &request, part, is_vector));
    part.n_units = per_head;
    for (size_t i = 0; i < n_heads; i++) {
        part.first = begin + stored_head(m, i) * per_head;
        LN_TRY(ln_convert_request(m->plan, id, 1, &request, part, is_vector));
    }
    return LINNET_OK;
}

/* A number for each head; SSD's files have columns of them, and so has KDA where decays are bounded
 * and of no few dimensions, whose rates stay positive; other ones of unbounded decays have four
 * dimensions. */
static ln_status by_head(const mixer *m, ln_role role, bool is_rate) {
    bool is_bounded = m->spec->bound > 0, is_column = is_bounded && m->spec->low_rank == 0;
    ln_convert_part part = {.scale = is_rate && is_column ? -1.0f : 1.0f, .is_rate = is_rate};
    uint64_t n = m->spec->n_heads, column[] = {n, 1}, deep[] = {1, 1, n, 1};
    LN_TRY(add_values(m, ln_id_as(m->id, role), (size_t)n, 1, 0, part));
    if (is_bounded && !is_column) /* a vector */
        return LINNET_OK;
    if (m->spec->kind == LN_MIXER_SSD || is_column)
        ln_convert_reshape(m->plan, 2, column);
    else if (m->spec->kind == LN_MIXER_KDA)
        ln_convert_reshape(m->plan, 4, deep);
    return LINNET_OK;
}

static ln_status taps_of(const mixer *m, ln_role role, size_t n_channels, size_t begin) {
    size_t n_taps = m->spec->n_taps;
    ln_tensor_id id = ln_id_as(m->id, role);
    uint64_t deep[] = {1, n_channels, 1, n_taps}, flat[] = {n_channels, n_taps};
    LN_TRY(add_values(m, id, n_channels, n_taps, begin, ln_convert_as_is));
    if (m->spec->kind == LN_MIXER_KDA)
        ln_convert_reshape(m->plan, 4, deep);
    else
        ln_convert_reshape(m->plan, 2, flat);
    id.is_bias = true;
    return add_values(m, id, n_channels, 1, begin, ln_convert_as_is);
}

static ln_status taps(const mixer *m) {
    size_t k = m->spec->n_k_heads * m->spec->k_dim, v = m->spec->n_heads * m->spec->v_dim;
    size_t begin = m->spec->kind == LN_MIXER_DELTA ? 2 * k : 0;
    if (m->spec->n_taps == 0)
        return LINNET_OK;
    if (names(m, LN_ROLE_MIXER_CONV))
        return taps_of(m, LN_ROLE_MIXER_CONV, ln_mixer_conv_dim(m->spec, m->dim), begin);
    LN_TRY(taps_of(m, LN_ROLE_MIXER_CONV_Q, k, 0));
    LN_TRY(taps_of(m, LN_ROLE_MIXER_CONV_K, k, 0));
    return taps_of(m, LN_ROLE_MIXER_CONV_V, v, 0);
}

/* Heads share the weights of their norm, parts of Mamba's row have their own. */
static ln_status norm(const mixer *m) {
    size_t inner = m->spec->n_heads * m->spec->v_dim, n_groups = m->spec->n_k_heads;
    bool is_ssd = m->spec->kind == LN_MIXER_SSD;
    ln_tensor_id id = ln_id_as(m->id, LN_ROLE_MIXER_NORM);
    uint64_t by_group[] = {n_groups, inner / n_groups};
    if (!m->spec->has_norm)
        return LINNET_OK;
    LN_TRY(ln_convert_vector(m->plan, id, is_ssd ? inner : m->spec->v_dim, 0));
    if (is_ssd)
        ln_convert_reshape(m->plan, 2, by_group);
    return LINNET_OK;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Beta and decay: in two matrices, or for each head of keys those of its heads. */
static ln_status controls(const mixer *m) {
    size_t n_heads = m->spec->n_heads, n_k_heads = m->spec->n_k_heads, n = n_heads / n_k_heads;
    if (target_part(m, LN_ROLE_MIXER_B) != LN_PART_MIXER_BA_BY_HEAD) {
        LN_TRY(heads(m, LN_ROLE_MIXER_A, n_heads, 0));
        return heads(m, LN_ROLE_MIXER_B, n_heads, 0);
    }
    for (size_t i = 0; i < n_k_heads; i++) {
        LN_TRY(rows(m, LN_ROLE_MIXER_B, n_heads, i * n, n, 1, 1));
        LN_TRY(rows(m, LN_ROLE_MIXER_A, n_heads, i * n, n, 1, 1));
    }
    return LINNET_OK;
}

/* The columns of the output's matrix are heads. */
static ln_status out(const mixer *m, size_t n_cols) {
    size_t v_dim = m->spec->v_dim;
    ln_source_shape shape = {1, m->dim, n_cols};
    ln_convert_slice all = {0};
    ln_convert_part part = {.scale = m->spec->out_scale};
    int32_t *columns = is_tiled(m) ? malloc((n_cols + 1) * sizeof *columns) : NULL;
    if (is_tiled(m) && columns == NULL)
        return ln_convert_no_memory(m->plan);
    for (size_t i = 0; i < n_cols && columns != NULL; i++)
        columns[i] = (int32_t)(stored_head(m, i / v_dim) * v_dim + i % v_dim);
    part.new_columns = columns;
    return ln_convert_rows_of(m->plan, ln_id_as(m->id, LN_ROLE_MIXER_OUT), &shape, all, part,
                              m->spec->out_scale);
}

static ln_status delta(const mixer *m) {
    size_t k = m->spec->n_k_heads * m->spec->k_dim, v = m->spec->n_heads * m->spec->v_dim;
    if (names(m, LN_ROLE_MIXER_IN)) {
        LN_TRY(rows(m, LN_ROLE_MIXER_IN, 2 * k + v, 0, 2 * k, 1, 1));
        LN_TRY(heads(m, LN_ROLE_MIXER_IN, 2 * k + v, 2 * k));
    } else {
        LN_TRY(rows(m, LN_ROLE_MIXER_Q, k, 0, k, 1, 1));
        LN_TRY(rows(m, LN_ROLE_MIXER_K, k, 0, k, 1, 1));
        LN_TRY(heads(m, LN_ROLE_MIXER_V, v, 0));
    }
    LN_TRY(heads(m, LN_ROLE_MIXER_GATE, v, 0));
    return controls(m);
}

static ln_status kda(const mixer *m) {
    ln_convert_plan *plan = m->plan;
    size_t inner = m->spec->n_heads * m->spec->v_dim, rank = m->spec->low_rank;
    static const ln_role ins[] = {LN_ROLE_MIXER_Q, LN_ROLE_MIXER_K, LN_ROLE_MIXER_V};
    for (size_t i = 0; i < sizeof ins / sizeof *ins; i++)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(m->id, ins[i]), inner, m->dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_B), m->spec->n_heads, m->dim));
    if (rank == 0) {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_A), inner, m->dim));
        return ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_GATE), inner, m->dim);
    }
    LN_TRY(ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_A_LOW), rank, m->dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_A), inner, rank));
    if (m->spec->gate_rank == 0)
        return ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_GATE), inner, m->dim);
    LN_TRY(ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_GATE_LOW), rank, m->dim));
    return ln_convert_matrix(plan, ln_id_as(m->id, LN_ROLE_MIXER_GATE), inner, rank);
}

/* Gate, x, B, C and decay in one matrix, each with what a folder multiplies it with. */
static ln_status ssd(const mixer *m) {
    const ln_mixer_spec *spec = m->spec;
    size_t v = spec->n_heads * spec->v_dim, k = spec->n_k_heads * spec->k_dim;
    size_t begins[] = {0, v, v + k}, counts[] = {v, k, k};
    float in = spec->in_scale;
    LN_TRY(rows(m, LN_ROLE_MIXER_GATE, v, 0, v, in * spec->gate_scale, spec->gate_scale));
    for (size_t i = 0; i < 3; i++)
        LN_TRY(rows(m, LN_ROLE_MIXER_IN, v + 2 * k, begins[i], counts[i], in * spec->conv_scales[i],
                    spec->conv_scales[i]));
    return rows(m, LN_ROLE_MIXER_A, spec->n_heads, 0, spec->n_heads, in * spec->decay_scale,
                spec->decay_scale);
}

/* What the convolution reads and the gate, and what makes steps, keys and queries, are a matrix
 * each. */
static ln_status selective(const mixer *m) {
    static const ln_role norms[] = {LN_ROLE_MIXER_A_NORM, LN_ROLE_MIXER_K_NORM,
                                    LN_ROLE_MIXER_Q_NORM};
    static const ln_role controls[] = {LN_ROLE_MIXER_A_LOW, LN_ROLE_MIXER_K, LN_ROLE_MIXER_Q};
    ln_convert_part rates = {.scale = 1, .is_rate = true};
    const ln_mixer_spec *spec = m->spec;
    size_t v = spec->v_dim, n_rows[] = {spec->low_rank, spec->k_dim, spec->k_dim};
    LN_TRY(rows(m, LN_ROLE_MIXER_IN, v, 0, v, 1, 1));
    LN_TRY(rows(m, LN_ROLE_MIXER_GATE, v, 0, v, 1, 1));
    LN_TRY(taps(m));
    for (size_t i = 0; i < 3; i++)
        LN_TRY(ln_convert_matrix(m->plan, ln_id_as(m->id, controls[i]), n_rows[i], v));
    for (size_t i = 0; i < 3; i++)
        LN_TRY(ln_convert_norm(m->plan, ln_id_as(m->id, norms[i]), n_rows[i]));
    LN_TRY(ln_convert_matrix(m->plan, ln_id_as(m->id, LN_ROLE_MIXER_A), v, spec->low_rank));
    LN_TRY(add_values(m, ln_id_as(m->id, LN_ROLE_MIXER_RATE), v, spec->k_dim, 0, rates));
    LN_TRY(add_values(m, ln_id_as(m->id, LN_ROLE_MIXER_SKIP), v, 1, 0, ln_convert_as_is));
    return out(m, v);
}

static ln_status gated_conv(const mixer *m) {
    static const ln_role ins[] = {LN_ROLE_MIXER_IN_GATE, LN_ROLE_MIXER_GATE, LN_ROLE_MIXER_IN};
    for (size_t i = 0; i < sizeof ins / sizeof *ins; i++)
        LN_TRY(rows(m, ins[i], m->dim, 0, m->dim, 1, 1));
    LN_TRY(taps(m));
    return out(m, m->dim);
}

/* Queries, keys and values of all heads lie in the file as in the folder. */
static ln_status lightning(const mixer *m) {
    size_t inner = m->spec->n_heads * m->spec->v_dim;
    ln_source_shape shape = {1, m->spec->n_heads * m->spec->k_dim, m->dim};
    ln_tensor_id id = ln_id_as(m->id, LN_ROLE_MIXER_Q);
    const ln_convert_plan *plan = m->plan;
    ln_weight_request request;
    LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
    ln_weight_source *source = &request.sources[0];
    source->row_begin = 0;
    source->n_rows = source->run_rows = 3 * inner;
    LN_TRY(ln_convert_request(m->plan, id, 1, &request, ln_convert_as_is, false));
    LN_TRY(ln_convert_matrix(m->plan, ln_id_as(m->id, LN_ROLE_MIXER_GATE), inner, m->dim));
    LN_TRY(ln_convert_norm(m->plan, ln_id_as(m->id, LN_ROLE_MIXER_NORM), inner));
    return out(m, inner);
}

ln_status ln_convert_mixer(ln_convert_plan *plan, ln_tensor_id id, const ln_mixer_spec *spec) {
    mixer m = {plan, spec, id, plan->spec->dim};
    size_t n_decays = spec->n_heads * (spec->kind == LN_MIXER_KDA ? spec->k_dim : 1);
    if (spec->kind == LN_MIXER_CONV)
        return gated_conv(&m);
    if (spec->kind == LN_MIXER_SELECTIVE)
        return selective(&m);
    if (spec->kind == LN_MIXER_LIGHTNING)
        return lightning(&m);
    LN_TRY(spec->kind == LN_MIXER_DELTA ? delta(&m)
           : spec->kind == LN_MIXER_KDA ? kda(&m)
                                        : ssd(&m));
    LN_TRY(taps(&m));
    LN_TRY(by_head(&m, LN_ROLE_MIXER_RATE, true));
    LN_TRY(add_values(&m, ln_id_as(id, LN_ROLE_MIXER_A_BIAS), n_decays, 1, 0, ln_convert_as_is));
    if (spec->kind == LN_MIXER_SSD)
        LN_TRY(by_head(&m, LN_ROLE_MIXER_SKIP, false));
    LN_TRY(norm(&m));
    return out(&m, spec->n_heads * spec->v_dim);
}
