#include "model/adapter/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/adapter_tiles.h"
#include "format/quants.h"
#include "model/adapter/dora.h"
#include "model/adapter/experts.h"
#include "model/adapter/find.h"
#include "model/adapter/matrix.h"
#include "model/adapter/walk.h"
#include "model/shard.h"

/* Floats of A and B, as float32 or in tiles of bf16. */
static size_t floats_of_a(ln_role role, size_t n_rows, size_t n_cols, size_t rank, bool in_tiles) {
    if (role == LN_ROLE_EMBEDDING)
        return n_rows * rank;
    return in_tiles ? ln_adapter_a_elems(rank, n_cols) / 2 : n_cols * ln_adapter_whole_rows(rank);
}

static size_t floats_of_b(ln_role role, size_t n_rows, size_t n_cols, size_t rank, bool in_tiles) {
    if (role == LN_ROLE_EMBEDDING)
        return ln_adapter_whole_rows(n_cols) * rank;
    return in_tiles ? ln_adapter_b_elems(rank, n_rows) / 2 : ln_adapter_whole_rows(n_rows) * rank;
}

void ln_adapter_lay_out(ln_layout *layout, const ln_backend *backend, ln_role role, size_t n_rows,
                        size_t n_cols, size_t rank) {
    bool in_tiles = backend->has_adapter_tiles;
    ln_layout_add(layout, floats_of_a(role, n_rows, n_cols, rank, in_tiles), sizeof(float));
    ln_layout_add(layout, floats_of_b(role, n_rows, n_cols, rank, in_tiles), sizeof(float));
    for (int i = 0; i < 2 && role != LN_ROLE_EMBEDDING; i++) /* vectors of an IA3 */
        ln_layout_add(layout, ln_adapter_whole_rows(n_rows), sizeof(float));
}

/* Whether q, k and v of a recurrent layer are one matrix here. */
static bool joins_qkv(const ln_mixer_spec *mixer) {
    return mixer->kind == LN_MIXER_DELTA || mixer->kind == LN_MIXER_KDA ||
           mixer->kind == LN_MIXER_LIGHTNING;
}

size_t ln_adapter_low_rank(const ln_spec *spec, size_t rank) {
    for (size_t i = 0; i < spec->n_layers; i++)
        if (joins_qkv(&spec->layers[i].mixer))
            return LN_ADAPTER_JOINED * rank;
    return rank;
}

/* ---- one linear ---------------------------------------------------------------------------- */

static ln_status load_linear(ln_adapter_loading *l, const ln_adapter_part *part,
                             const ln_adapter_row_map *map, const ln_weight *weight,
                             ln_adapter_target *target, ln_error *err) {
    ln_adapter_matrices m;
    LN_TRY(ln_adapter_take_matrices(l, part, part->rank, weight->n_cols, weight->n_rows, &m, err));
    LN_TRY(ln_adapter_load_product(l, part, map, weight->n_rows, &m, err));
    *target = ln_adapter_target_of(&m);
    return LINNET_OK;
}

/* Row `row` of an embedding's A for the tokens that are here, in every rank-th element of out. */
static ln_status read_tokens(const ln_adapter_loading *l, const ln_adapter_part *part, size_t row,
                             ln_slice tokens, float *out, ln_error *err) {
    size_t item = ln_dtype_block_bytes(part->a->dtype);
    for (size_t i = 0; i < tokens.n; i++) {
        size_t at = row * tokens.of + tokens.begin + i;
        ln_dequantize_row(part->a->dtype, part->a->data + at * item, &out[i * part->rank], 1);
        if (!isfinite(out[i * part->rank]))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is not finite", l->file->path,
                           part->a->name);
    }
    return LINNET_OK;
}

/* An embedding: a row of A for each token. */
static ln_status load_embedding(ln_adapter_loading *l, const ln_adapter_part *part,
                                const ln_weight *weight, ln_adapter_target *target, ln_error *err) {
    ln_slice tokens = l->spec->ranks.whole != NULL ? l->spec->ranks.vocab : (ln_slice){0};
    size_t n_vocab = weight->n_rows, rank = part->rank, dim = weight->n_cols;
    ln_adapter_row_map map = {.source = {.n_rows = dim, .run_rows = dim}, .stored_rows = dim};
    ln_adapter_matrices m = {.rank = rank};
    float *a;
    if (tokens.n == 0)
        tokens = (ln_slice){0, n_vocab, n_vocab};
    LN_TRY(ln_adapter_take(l, part, n_vocab * rank, &a, err));
    LN_TRY(ln_adapter_take(l, part, ln_adapter_whole_rows(dim) * rank, &m.b, err));
    LN_TRY(ln_adapter_check_shape(l, part->a, part->a_by_rank ? rank : tokens.of,
                                  part->a_by_rank ? tokens.of : rank, err));
    if (!part->a_by_rank)
        for (size_t id = 0; id < n_vocab; id++)
            LN_TRY(ln_adapter_read_row(l, part->a, tokens.begin + id, a + id * rank, err));
    if (part->a_by_rank && ln_dtype_block_elems(part->a->dtype) != 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s: type %s cannot be transposed",
                       l->file->path, part->a->name, ln_dtype_name(part->a->dtype));
    for (size_t k = 0; part->a_by_rank && k < rank; k++)
        LN_TRY(read_tokens(l, part, k, tokens, a + k, err));
    LN_TRY(ln_adapter_load_b(l, part, &map, dim, &m, err));
    *target = (ln_adapter_target){.rank = rank, .a = a, .b = m.b};
    return LINNET_OK;
}

/* A head's keys of latent attention, whose matrix is stored transposed: so are both parts. */
static ln_status load_latent_keys(ln_adapter_loading *l, const ln_adapter_part *part,
                                  const ln_adapter_row_map *map, const ln_weight *weight,
                                  ln_adapter_target *target, ln_error *err) {
    size_t rank = part->rank, n_plain = weight->n_cols, n_latent = weight->n_rows;
    float row[LN_MAX_ADAPTER_RANK], scale = (float)(part->scale * (double)l->scale);
    ln_adapter_matrices m;
    LN_TRY(ln_adapter_check_shape(l, part->a, rank, n_latent, err));
    LN_TRY(ln_adapter_check_shape(l, part->b, map->stored_rows, rank, err));
    LN_TRY(ln_adapter_take_matrices(l, part, rank, n_plain, n_latent, &m, err));
    for (size_t i = 0; i < n_plain; i++) {
        LN_TRY(ln_adapter_read_row(l, part->b, map->source.col_begin + i, row, err));
        for (size_t k = 0; k < rank; k++)
            ln_adapter_put_a(&m, k, i, row[k]);
    }
    float *whole = calloc(n_latent, sizeof *whole);
    if (whole == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    ln_status status = LINNET_OK;
    for (size_t k = 0; k < rank && status == LINNET_OK; k++) {
        status = ln_adapter_read_row(l, part->a, k, whole, err);
        for (size_t i = 0; i < n_latent; i++)
            ln_adapter_put_b(&m, i, k, scale * whole[i]);
    }
    free(whole);
    LN_TRY(status);
    *target = ln_adapter_target_of(&m);
    return LINNET_OK;
}

/* ---- an IA3 -------------------------------------------------------------------------------- */

/* n values of a vector, of rows as the map says. */
static ln_status load_vector(ln_adapter_loading *l, const ln_adapter_part *part,
                             const ln_adapter_row_map *map, size_t n, const float **out,
                             ln_error *err) {
    const ln_tensor *tensor = part->vector;
    size_t stored = map->stored_rows, item = ln_dtype_block_bytes(tensor->dtype);
    float *values;
    LN_TRY(ln_adapter_check_shape(l, tensor, part->is_input ? 1 : stored,
                                  part->is_input ? stored : 1, err));
    if (ln_dtype_block_elems(tensor->dtype) != 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s: type %s is not supported",
                       l->file->path, tensor->name, ln_dtype_name(tensor->dtype));
    LN_TRY(ln_adapter_take(l, part, ln_adapter_whole_rows(n), &values, err));
    for (size_t i = 0; i < n; i++) {
        ln_dequantize_row(tensor->dtype, tensor->data + ln_adapter_stored_row(map, i) * item,
                          &values[i], 1);
        if (!isfinite(values[i]))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is not finite", l->file->path,
                           tensor->name);
    }
    *out = values;
    return LINNET_OK;
}

/* What multiplies the input of a feed-forward's last linear multiplies what the first one gives. */
static ln_status load_input_vector(ln_adapter_loading *l, const ln_adapter_part *part,
                                   ln_tensor_id id, ln_error *err) {
    const ln_spec *spec = l->spec;
    const ln_ffn_spec *ffn = &ln_layer_of(spec, id)->ffn;
    const ln_layer_weights *layer =
        id.encoder ? &l->weights->encoder.layers[id.layer] : &l->weights->layers[id.layer];
    bool is_plain = !ffn->is_sparse && !ffn->xielu && ffn->limit == 0.0f;
    if (id.role != LN_ROLE_DOWN || !is_plain || layer->up.adapters == NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: feedforward_modules: the input of module %s cannot be multiplied",
                       l->file->path, part->module);
    ln_adapter_target *target = &layer->up.adapters[l->place->slot];
    ln_slice rows = ln_shard_cut(spec, id).cols; /* of the input: those of the first linear */
    size_t n = layer->up.n_rows, n_whole = rows.n > 0 ? rows.of : n;
    ln_adapter_row_map map = {.source = {.n_rows = n_whole, .run_rows = n_whole},
                              .stored_rows = n_whole,
                              .begin = rows.begin};
    return load_vector(l, part, &map, n, &target->multiply_after, err);
}

/* ---- finding parts ------------------------------------------------------------------------- */

/* The rows of a fused module, and of heads whose halves lie as pairs in one of file and model. */
static ln_adapter_row_map map_rows(const ln_adapter_loading *l, const ln_binding *binding,
                                   ln_tensor_id id, size_t n_rows) {
    bool is_hf = l->file->format == LN_FORMAT_HF;
    const ln_family *family = l->spec->family;
    const ln_spec *whole = ln_shard_whole(l->spec);
    ln_rope_style style = is_hf ? family->hf_rope : family->gguf_rope;
    ln_cut cut = ln_shard_cut(l->spec, id);
    n_rows = cut.rows.n > 0 ? cut.rows.of : n_rows;
    ln_adapter_row_map map = {.source = {.n_rows = n_rows, .run_rows = n_rows},
                              .stored_rows = n_rows,
                              .begin = cut.rows.begin,
                              .cols = cut.cols};
    id.expert += cut.packed.begin; /* a head */
    if (id.role == LN_ROLE_OUTPUT || id.role == LN_ROLE_LOOKUP_PROJECTION)
        return map;
    map.source = ln_source_part(whole, is_hf ? binding->hf_part : binding->gguf_part, id, n_rows,
                                &map.stored_rows);
    if ((id.role != LN_ROLE_Q && id.role != LN_ROLE_K) || id.encoder)
        return map;
    const ln_attention_spec *attention = &l->spec->layers[id.layer].attention;
    const ln_rope_spec *rope = ln_spec_rope_of(l->spec, attention, &map.rope_dims);
    if (rope != NULL && rope->style != style) {
        map.head_dim = attention->k_dim;
        map.to_halves = style == LN_ROPE_HALF;
    }
    return map;
}

/* What no part can have; otherwise it is taken. */
static ln_status take_part(ln_adapter_loading *l, ln_adapter_part *part, ln_role role,
                           ln_error *err) {
    bool is_folded =
        l->spec->has_folded_weights || (l->spec->has_folded_output && role == LN_ROLE_OUTPUT);
    if (is_folded && l->file->format == LN_FORMAT_HF)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: module %s: the model's GGUF file has a scale in this weight; load the "
                       "adapter into the folder that it was made for",
                       l->file->path, part->module);
    if (l->spec->turns_latents && l->file->format == LN_FORMAT_HF &&
        (role == LN_ROLE_Q_B || role == LN_ROLE_KV_A))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: module %s: the model's GGUF file has its rows in another order; load "
                       "the adapter into the folder that it was made for",
                       l->file->path, part->module);
    l->n_linears += !part->is_taken;
    part->is_taken = true;
    return LINNET_OK;
}

/* What a recurrent layer's convolution reads, one matrix of q, k and v: A of all of them, and B by
 * parts, with zeros between. */
static ln_status load_joined(ln_adapter_loading *l, ln_tensor_id id, const ln_weight *weight,
                             ln_adapter_target *target, ln_error *err) {
    static const ln_role roles[] = {LN_ROLE_MIXER_Q, LN_ROLE_MIXER_K, LN_ROLE_MIXER_V};
    const ln_mixer_spec *mixer = &l->spec->layers[id.layer].mixer;
    size_t n_k = mixer->n_k_heads * mixer->k_dim, rank = 0;
    size_t n_rows[LN_ADAPTER_JOINED] = {n_k, n_k, mixer->n_heads * mixer->v_dim};
    ln_adapter_part *parts[LN_ADAPTER_JOINED], *any = NULL;
    const ln_binding *bindings[LN_ADAPTER_JOINED];
    ln_adapter_matrices m;
    for (size_t i = 0; i < LN_ADAPTER_JOINED; i++) {
        id.role = roles[i];
        parts[i] = ln_adapter_find_part(l->file, l->spec->family, id, &bindings[i]);
        if (parts[i] == NULL || parts[i]->vector != NULL || parts[i]->is_embedding) {
            parts[i] = NULL; /* nobody takes it: refused by name */
            continue;
        }
        LN_TRY(take_part(l, parts[i], id.role, err));
        if (parts[i]->magnitude != NULL)
            LN_TRY(ln_adapter_check_dora(l, (ln_tensor_id){.role = LN_ROLE_MIXER_IN}, weight, err));
        rank += parts[i]->rank;
        any = parts[i];
    }
    if (any == NULL)
        return LINNET_OK;
    LN_TRY(ln_adapter_take_matrices(l, any, rank, weight->n_cols, weight->n_rows, &m, err));
    for (size_t i = 0; i < LN_ADAPTER_JOINED; m.first_row += n_rows[i++]) {
        if (parts[i] == NULL)
            continue;
        id.role = roles[i];
        ln_adapter_row_map map = map_rows(l, bindings[i], id, n_rows[i]);
        LN_TRY(ln_adapter_load_product(l, parts[i], &map, n_rows[i], &m, err));
        m.first_k += parts[i]->rank;
    }
    *target = ln_adapter_target_of(&m);
    return LINNET_OK;
}

/* Whether a part is of one expert's matrix. */
static bool is_of_one(const ln_adapter_loading *l, const ln_binding *binding,
                      const ln_adapter_part *part) {
    return l->file->format == LN_FORMAT_HF && strstr(binding->hf, "%e") != NULL &&
           part->vector == NULL;
}

static ln_status load_one(void *context, ln_tensor_id id, const ln_weight *weight, ln_error *err) {
    ln_adapter_loading *l = context;
    const ln_binding *binding;
    ln_adapter_part *part = ln_adapter_find_part(l->file, l->spec->family, id, &binding);
    ln_adapter_target *target = &weight->adapters[l->place->slot];
    bool is_latent = id.role == LN_ROLE_K_B || id.role == LN_ROLE_V_B;
    if (part == NULL && id.role == LN_ROLE_MIXER_IN && joins_qkv(&l->spec->layers[id.layer].mixer))
        return load_joined(l, id, weight, target, err);
    if (ln_role_is_of_expert(id.role) && (part == NULL || part->n_experts > 0))
        return ln_adapter_load_expert(l, id, weight, target, err);
    if (part == NULL || part->n_experts > 0)
        return LINNET_OK;
    if (ln_role_is_of_expert(id.role) && !is_of_one(l, binding, part))
        return LINNET_OK; /* refused by name */
    bool is_by_head = binding->hf_part == LN_PART_KV_BY_HEAD && l->file->format == LN_FORMAT_HF;
    if (is_latent && (!is_by_head || part->vector != NULL))
        return LINNET_OK; /* nobody takes it: refused by name */
    if (binding->hf_part == LN_PART_QKV_BY_SHARD && l->file->format == LN_FORMAT_HF)
        return LINNET_OK; /* the order of its rows is the checkpoint's: refused by name */
    if (part->is_embedding != (id.role == LN_ROLE_EMBEDDING))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: module %s is %s embedding", l->file->path,
                       part->module, part->is_embedding ? "no" : "an");
    LN_TRY(take_part(l, part, id.role, err));
    if (part->magnitude != NULL)
        LN_TRY(ln_adapter_check_dora(l, id, weight, err));
    if (part->vector != NULL && part->is_input)
        return load_input_vector(l, part, id, err);
    ln_adapter_row_map map = map_rows(l, binding, id, weight->n_rows);
    if (part->vector != NULL)
        return load_vector(l, part, &map, weight->n_rows, &target->multiply, err);
    if (id.role == LN_ROLE_EMBEDDING)
        return load_embedding(l, part, weight, target, err);
    if (id.role == LN_ROLE_K_B)
        return load_latent_keys(l, part, &map, weight, target, err);
    LN_TRY(load_linear(l, part, &map, weight, target, err));
    return part->magnitude != NULL ? ln_adapter_load_dora(l, part, &map, id, weight, target, err)
                                   : LINNET_OK;
}

static ln_status clear_one(void *context, ln_tensor_id id, const ln_weight *weight, ln_error *err) {
    (void)id;
    (void)err;
    weight->adapters[*(const size_t *)context] = (ln_adapter_target){0};
    return LINNET_OK;
}

void ln_adapter_clear(const ln_spec *spec, const ln_weights *weights, size_t slot) {
    ln_adapter_walk(spec, weights, clear_one, &slot, NULL);
}

/* ---- to a device --------------------------------------------------------------------------- */

/* What goes to a device: the slot's memory, then what kernels read of each weight's adapter. */
typedef struct sending {
    const ln_adapter_loading *l;
    ln_transfer *transfers; /* NULL: they are counted */
    size_t n;
} sending;

/* Where what lies at `at` of the host's memory goes. */
static const void *moved(const ln_adapter_loading *l, const void *at) {
    if (at == NULL)
        return NULL;
    return (char *)l->place->memory + ((const char *)at - l->memory);
}

static ln_status add_target(void *context, ln_tensor_id id, const ln_weight *weight,
                            ln_error *err) {
    sending *to = context;
    size_t slot = to->l->place->slot;
    ln_adapter_target *target = &weight->adapters[slot];
    size_t n = to->n++;
    (void)id;
    (void)err;
    if (to->transfers == NULL)
        return LINNET_OK;
    target->a = moved(to->l, target->a);
    target->b = moved(to->l, target->b);
    target->a_tiles = moved(to->l, target->a_tiles);
    target->b_tiles = moved(to->l, target->b_tiles);
    target->multiply = moved(to->l, target->multiply);
    target->multiply_after = moved(to->l, target->multiply_after);
    target->add = moved(to->l, target->add);
    to->transfers[n] = (ln_transfer){&weight->device_adapters[slot], target, sizeof *target};
    return LINNET_OK;
}

static ln_status send(const ln_adapter_loading *l, ln_error *err) {
    ln_backend *backend = l->place->backend;
    sending to = {.l = l, .n = 1};
    ln_adapter_walk(l->spec, l->weights, add_target, &to, NULL);
    to.transfers = calloc(to.n, sizeof *to.transfers);
    if (to.transfers == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    to.transfers[0] = (ln_transfer){l->place->memory, l->memory, l->layout.bytes};
    to.n = 1;
    ln_adapter_walk(l->spec, l->weights, add_target, &to, NULL);
    ln_status status = backend->vtable->send(backend, to.transfers, to.n, err);
    free(to.transfers);
    return status;
}

/* Marks parts of layers that another stage of ranks has. */
static void mark_elsewhere(const ln_adapter_loading *l) {
    const ln_slice *own = &l->spec->ranks.layers;
    const ln_binding *binding;
    for (size_t layer = 0; own->n > 0 && layer < l->spec->n_layers; layer++) {
        bool is_here = layer >= own->begin && layer < own->begin + own->n;
        for (size_t role = 0; !is_here && role < LN_ROLE_COUNT; role++) {
            ln_tensor_id id = {.role = (ln_role)role, .layer = layer};
            ln_adapter_part *part = ln_adapter_find_part(l->file, l->spec->family, id, &binding);
            if (part != NULL)
                part->is_taken = true;
        }
    }
}

/* Whether each part was taken by a weight; on ranks the first one sees to it. */
static ln_status check_taken(const ln_adapter_loading *l, ln_error *err) {
    const ln_adapter_file *file = l->file;
    mark_elsewhere(l);
    if (l->spec->ranks.whole != NULL && l->spec->ranks.mesh.rank > 0)
        return LINNET_OK;
    for (size_t i = 0; i < file->n_parts; i++) {
        const ln_adapter_part *part = &file->parts[i];
        if (part->is_taken)
            continue;
        if (part->n_experts > 0 || strstr(part->module, ".experts.") != NULL)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: module %s: adapters change experts only with adapt_experts; "
                           "`linnet merge' does, too",
                           file->path, part->module);
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: module %s: the model has no such linear that an adapter can change",
                       file->path, part->module);
    }
    return LINNET_OK;
}

ln_status ln_adapter_load(ln_adapter_file *file, const ln_spec *spec, const ln_weights *weights,
                          const ln_adapter_place *place, float scale, size_t *n_linears,
                          ln_error *err) {
    ln_adapter_loading l = {
        .file = file, .spec = spec, .weights = weights, .place = place, .scale = scale};
    if (spec->loop_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: the model has layers that run several times; adapters of these are not "
                       "supported",
                       file->path);
    if (file->rank > place->rank)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "%s: the adapter has rank %zu; max_adapter_rank is %zu", file->path,
                       file->rank, place->rank);
    ln_adapter_clear(spec, weights, place->slot);
    bool is_sent = place->backend->vtable->on_device;
    l.memory = is_sent ? malloc(place->bytes + 1) : place->memory;
    if (l.memory == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", file->path);
    ln_status status = ln_adapter_walk(spec, weights, load_one, &l, err);
    if (status == LINNET_OK)
        status = ln_adapter_mark_experts(&l, err);
    if (status == LINNET_OK)
        status = check_taken(&l, err);
    if (status == LINNET_OK)
        status = ln_file_map_check(&file->map, file->path, err);
    if (status == LINNET_OK && is_sent)
        status = send(&l, err);
    if (is_sent)
        free(l.memory);
    if (status != LINNET_OK)
        ln_adapter_clear(spec, weights, place->slot);
    *n_linears = l.n_linears;
    return status;
}
