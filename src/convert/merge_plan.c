#include "convert/merge_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "format/quants.h"
#include "model/adapter/find.h"
#include "model/source.h"

/* ---- reading an adapter's tensors ---------------------------------------------------------- */

static ln_status no_memory(const ln_merge_plan *plan, const ln_adapter_file *file) {
    return ln_fail(plan->err, LINNET_ERR_NOMEM, "%s: out of memory", file->path);
}

/* All values of a matrix as float32; *out is malloc'd. */
static ln_status read_matrix(const ln_merge_plan *plan, const ln_adapter_file *file,
                             const ln_tensor *tensor, float **out) {
    size_t n = (size_t)tensor->n_elems, bytes, n_cols = (size_t)tensor->dims[tensor->n_dims - 1];
    if (!ln_dtype_row_bytes(tensor->dtype, n_cols, &bytes))
        return ln_fail(plan->err, LINNET_ERR_FORMAT, "%s: tensor %s: its rows are no whole blocks",
                       file->path, tensor->name);
    *out = ln_mul(n, sizeof **out, &bytes) ? malloc(bytes) : NULL;
    if (*out == NULL)
        return no_memory(plan, file);
    ln_dequantize_row(tensor->dtype, tensor->data, *out, n);
    for (size_t i = 0; i < n; i++) {
        if (isfinite((*out)[i]))
            continue;
        free(*out);
        *out = NULL;
        return ln_fail(plan->err, LINNET_ERR_FORMAT, "%s: tensor %s is not finite", file->path,
                       tensor->name);
    }
    return LINNET_OK;
}

/* values[cols][rows] of values[rows][cols]; NULL: memory is out. Frees the old ones. */
static float *transpose(float *values, size_t rows, size_t cols) {
    float *out = malloc(rows * cols * sizeof *out + 1);
    for (size_t i = 0; out != NULL && i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[j * rows + i] = values[i * cols + j];
    free(values);
    return out;
}

/* ---- where rows lie ------------------------------------------------------------------------ */

/* How a stored tensor keeps what a part changes. */
typedef struct place {
    const ln_tensor *tensor;
    bool across;    /* its rows are the columns of the linear */
    bool is_packed; /* it is one of many in the tensor, number `index` */
    size_t index, expert;
    size_t head_dim, rope_dims; /* heads whose halves lie as pairs in one of the two; 0: in none */
    bool to_halves;             /* the adapter has halves */
} place;

static size_t n_cols_of(const ln_tensor *tensor) {
    return (size_t)tensor->dims[tensor->n_dims - 1];
}

static size_t n_rows_of(const ln_tensor *tensor) {
    size_t n_cols = n_cols_of(tensor);
    return n_cols > 0 ? (size_t)(tensor->n_elems / n_cols) : 0;
}

/* The adapter's row for a row of the linear in the checkpoint's order. */
static size_t adapter_row(const place *at, size_t row) {
    size_t half = at->rope_dims / 2, in_head = at->head_dim > 0 ? row % at->head_dim : 0;
    if (at->head_dim > 0 && in_head < at->rope_dims)
        row += (at->to_halves ? in_head % 2 * half + in_head / 2
                              : in_head % half * 2 + in_head / half) -
               in_head;
    return row;
}

/* Puts n rows of n_cols values into the checkpoint's order. NULL: memory is out. Frees the old. */
static float *order_rows(const place *at, float *values, size_t n, size_t n_cols) {
    if (at->head_dim == 0)
        return values;
    float *out = malloc(n * n_cols * sizeof *out + 1);
    for (size_t i = 0; out != NULL && i < n; i++)
        memcpy(out + i * n_cols, values + adapter_row(at, i) * n_cols, n_cols * sizeof *out);
    free(values);
    return out;
}

/* ---- changes ------------------------------------------------------------------------------- */

static ln_merge_change *grow(ln_merge_plan *plan) {
    if (plan->n_changes == plan->capacity) {
        size_t capacity = 2 * plan->capacity + 64;
        ln_merge_change *grown = realloc(plan->changes, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        plan->changes = grown;
        plan->capacity = capacity;
    }
    ln_merge_change *change = &plan->changes[plan->n_changes++];
    *change = (ln_merge_change){0};
    return change;
}

static ln_status wrong_shape(const ln_merge_plan *plan, const ln_adapter_file *file,
                             const ln_adapter_part *part, const ln_tensor *tensor, size_t n_out,
                             size_t n_in) {
    return ln_fail(plan->err, LINNET_ERR_FORMAT,
                   "%s: module %s is of %zu x %zu, and tensor %s of %s has another shape",
                   file->path, part->module, n_out, n_in, tensor->name,
                   ln_checkpoint_path(plan->checkpoint));
}

/* The rows of the tensor that a linear [n_out][n_in] has; 0 for one of the sizes: any. */
static ln_status begin_change(ln_merge_plan *plan, const ln_adapter_file *file,
                              const ln_adapter_part *part, const place *at, size_t n_out,
                              size_t n_in, ln_merge_change **out) {
    size_t rows = at->across ? n_in : n_out, cols = at->across ? n_out : n_in;
    size_t has_rows = n_rows_of(at->tensor), has_cols = n_cols_of(at->tensor);
    size_t first = at->is_packed ? at->index * rows : 0;
    bool knows_rows = rows > 0;
    rows = rows > 0 ? rows : has_rows;
    cols = cols > 0 ? cols : has_cols;
    bool fits = cols == has_cols &&
                (at->is_packed ? knows_rows && has_rows % rows == 0 && first + rows <= has_rows
                               : rows == has_rows);
    bool turns = at->head_dim == 0 || (n_out % at->head_dim == 0 && at->rope_dims <= at->head_dim);
    if (!fits || !turns)
        return wrong_shape(plan, file, part, at->tensor, n_out, n_in);
    *out = grow(plan);
    if (*out == NULL)
        return no_memory(plan, file);
    (*out)->tensor = at->tensor;
    (*out)->first_row = first;
    (*out)->n_rows = rows;
    (*out)->n_cols = cols;
    return LINNET_OK;
}

/* B A, times both scales. */
static ln_status add_product(ln_merge_plan *plan, const ln_adapter_file *file,
                             const ln_adapter_part *part, const place *at, float scale) {
    size_t rank = part->rank, n_out = (size_t)part->b->dims[0];
    size_t n_in = (size_t)part->a->dims[part->a_by_rank ? 1 : 0];
    ln_merge_change *change;
    float *a = NULL, *b = NULL;
    LN_TRY(begin_change(plan, file, part, at, n_out, n_in, &change));
    LN_TRY(read_matrix(plan, file, part->b, &b));
    b = order_rows(at, b, n_out, rank);
    if (b != NULL && at->across)
        b = transpose(b, n_out, rank);
    change->rank = rank;
    *(at->across ? &change->right : &change->left) = b;
    LN_TRY(read_matrix(plan, file, part->a, &a));
    if (part->a_by_rank == at->across)
        a = part->a_by_rank ? transpose(a, rank, n_in) : transpose(a, n_in, rank);
    *(at->across ? &change->left : &change->right) = a;
    if (a == NULL || b == NULL)
        return no_memory(plan, file);
    float factor = (float)(part->scale * (double)scale);
    for (size_t i = 0; i < change->n_rows * rank; i++)
        change->left[i] *= factor;
    if (part->magnitude == NULL)
        return LINNET_OK;
    LN_TRY(read_matrix(plan, file, part->magnitude, &change->lengths));
    change->lengths = order_rows(at, change->lengths, n_out, 1);
    return change->lengths != NULL ? LINNET_OK : no_memory(plan, file);
}

/* An IA3's vector, of what a module reads or gives. */
static ln_status add_factors(ln_merge_plan *plan, const ln_adapter_file *file,
                             const ln_adapter_part *part, const place *at) {
    size_t n = (size_t)part->vector->n_elems;
    size_t n_out = part->is_input ? 0 : n, n_in = part->is_input ? n : 0;
    ln_merge_change *change;
    float *values = NULL;
    LN_TRY(begin_change(plan, file, part, at, n_out, n_in, &change));
    LN_TRY(read_matrix(plan, file, part->vector, &values));
    if (!part->is_input)
        values = order_rows(at, values, n, 1);
    *(part->is_input == at->across ? &change->of_rows : &change->of_cols) = values;
    return values != NULL ? LINNET_OK : no_memory(plan, file);
}

/* ---- finding tensors ----------------------------------------------------------------------- */

typedef struct finder {
    ln_merge_plan *plan;
    ln_adapter_file *file;
    float scale;
} finder;

static ln_status refuse(const finder *f, const ln_adapter_part *part, const char *why) {
    return ln_fail(f->plan->err, LINNET_ERR_UNSUPPORTED, "%s: module %s: %s", f->file->path,
                   part->module, why);
}

/* Whether the layer's own attention turns these rows. */
static void find_turns(const finder *f, ln_tensor_id id, place *at) {
    const ln_spec *spec = f->plan->spec;
    ln_rope_style style =
        f->file->format == LN_FORMAT_HF ? spec->family->hf_rope : spec->family->gguf_rope;
    size_t rope_dims;
    if ((id.role != LN_ROLE_Q && id.role != LN_ROLE_K) || id.encoder)
        return;
    const ln_attention_spec *attention = &spec->layers[id.layer].attention;
    const ln_rope_spec *rope = ln_spec_rope_of(spec, attention, &rope_dims);
    if (rope == NULL || rope->style == style)
        return;
    at->head_dim = attention->k_dim;
    at->rope_dims = rope_dims;
    at->to_halves = style == LN_ROPE_HALF;
}

/* Whether GGUF may keep a matrix in another order or size than folders do. */
static bool is_scaled(const ln_family *family, ln_role role) {
    bool is_recurrent = role >= LN_ROLE_MIXER_IN && role <= LN_ROLE_MIXER_Q_NORM;
    return is_recurrent || family->gguf_folds_scales ||
           (family->scale_tied_logits && role == LN_ROLE_OUTPUT);
}

/* Whether a binding names a tensor for each expert. */
static bool is_by_expert(const ln_binding *binding, ln_checkpoint_format format) {
    bool is_bare;
    return strstr(ln_binding_pattern(binding, format, &is_bare), "%e") != NULL;
}

/* Where the checkpoint keeps what the adapter's binding names. */
static ln_status find_place(const finder *f, const ln_adapter_part *part, ln_tensor_id id,
                            const ln_binding *named, place *at) {
    const ln_merge_plan *plan = f->plan;
    ln_checkpoint_format format = ln_checkpoint_get_format(plan->checkpoint);
    bool is_hf = format == LN_FORMAT_HF, is_same = format == f->file->format;
    const ln_binding *binding;
    *at = (place){.tensor = ln_family_find(plan->spec->family, plan->checkpoint, id, &binding)};
    bool is_end = id.role == LN_ROLE_EMBEDDING || id.role == LN_ROLE_OUTPUT;
    if (is_end && plan->spec->tied && !id.is_bias)
        return refuse(f, part,
                      "the model's output is its embedding, which cannot be changed alone");
    if (at->tensor == NULL)
        return LINNET_OK;
    ln_part theirs = f->file->format == LN_FORMAT_HF ? named->hf_part : named->gguf_part;
    ln_part ours = is_hf ? binding->hf_part : binding->gguf_part;
    find_turns(f, id, at);
    if (ours == LN_PART_QKV_BY_SHARD)
        return refuse(f, part, "the order of its rows is told by the checkpoint's scales alone");
    if (theirs != ours || (at->head_dim > 0 && ours != LN_PART_ALL) ||
        (!is_same && is_scaled(plan->spec->family, id.role)))
        return refuse(f, part,
                      "the model keeps its rows in another way; merge into the folder that the "
                      "adapter was made for, then convert it");
    at->is_packed = is_by_expert(named, f->file->format) && !is_by_expert(binding, format);
    at->index = id.expert;
    at->across = part->is_embedding || (is_hf && binding->hf_transposed);
    if (is_hf && binding->hf_either && part->a != NULL)
        at->across = n_cols_of(at->tensor) != part->a->dims[1];
    return LINNET_OK;
}

/* The bias beside a matrix whose rows are multiplied. */
static ln_status change_bias(const finder *f, const ln_adapter_part *part, ln_tensor_id id,
                             const ln_binding *named) {
    place at;
    id.is_bias = true;
    LN_TRY(find_place(f, part, id, named, &at));
    if (at.tensor == NULL)
        return LINNET_OK;
    at.across = true;
    return add_factors(f->plan, f->file, part, &at);
}

static ln_status change_tensor(const finder *f, ln_adapter_part *part, const place *at) {
    part->is_taken = true;
    if (part->magnitude != NULL && at->across)
        return refuse(f, part, "the model's rows lie across, which is not merged with a DoRA");
    return part->vector != NULL ? add_factors(f->plan, f->file, part, at)
                                : add_product(f->plan, f->file, part, at, f->scale);
}

static ln_status visit(const finder *f, ln_tensor_id id) {
    const ln_binding *named;
    place at;
    ln_adapter_part *part = ln_adapter_find_part(f->file, f->plan->spec->family, id, &named);
    if (part == NULL || part->is_taken || part->n_experts > 0)
        return LINNET_OK;
    if (f->plan->spec->turns_latents && f->file->format == LN_FORMAT_HF &&
        (id.role == LN_ROLE_Q_B || id.role == LN_ROLE_KV_A))
        return refuse(f, part, "the GGUF file has its rows in another order");
    LN_TRY(find_place(f, part, id, named, &at));
    if (at.tensor == NULL)
        return LINNET_OK; /* refused by name, unless another role has it */
    if (part->vector != NULL && !part->is_input)
        LN_TRY(change_bias(f, part, id, named));
    return change_tensor(f, part, &at);
}

/* B A of one expert out of a stack. */
static ln_status add_expert(const finder *f, const ln_adapter_expert *expert, const place *at) {
    ln_merge_plan *plan = f->plan;
    const ln_adapter_part *part = expert->part;
    size_t rank = part->rank, n_all = part->n_experts, n_in = expert->n_in;
    float factor = (float)(part->scale * (double)f->scale), *a, *b;
    ln_merge_change *change;
    LN_TRY(begin_change(plan, f->file, part, at, expert->n_out, n_in, &change));
    change->rank = rank;
    change->left = malloc(expert->n_out * rank * sizeof(float) + 1);
    change->right = malloc(rank * n_in * sizeof(float) + 1);
    if (change->left == NULL || change->right == NULL)
        return no_memory(plan, f->file);
    LN_TRY(read_matrix(plan, f->file, part->b, &b));
    size_t which = at->expert;
    for (size_t row = 0; row < expert->n_out; row++) {
        const float *from = b + (expert->row_begin + row * expert->row_step) * rank * n_all;
        for (size_t k = 0; k < rank; k++)
            change->left[row * rank + k] = factor * from[k * n_all + which];
    }
    free(b);
    LN_TRY(read_matrix(plan, f->file, part->a, &a));
    memcpy(change->right, a + which * rank * n_in, rank * n_in * sizeof *a);
    free(a);
    return LINNET_OK;
}

/* One expert's matrix, where the adapter changes a stack of them. */
static ln_status visit_stack(const finder *f, ln_tensor_id id) {
    const ln_merge_plan *plan = f->plan;
    bool is_hf = ln_checkpoint_get_format(plan->checkpoint) == LN_FORMAT_HF;
    const ln_binding *binding;
    ln_adapter_expert expert;
    if (!ln_adapter_find_experts(f->file, plan->spec, id, &expert))
        return LINNET_OK;
    place at = {.tensor = ln_family_find(plan->spec->family, plan->checkpoint, id, &binding),
                .expert = id.expert};
    if (at.tensor == NULL)
        return LINNET_OK;
    ln_part part = is_hf ? binding->hf_part : binding->gguf_part;
    bool is_across = is_hf && (binding->hf_transposed || binding->hf_either);
    if (is_across || (part != LN_PART_ALL && part != LN_PART_GATE_UP))
        return refuse(f, expert.part,
                      "the model's experts lie across or row by row, which is not merged");
    at.is_packed = !is_by_expert(binding, is_hf ? LN_FORMAT_HF : LN_FORMAT_GGUF);
    at.index = part == LN_PART_ALL ? id.expert : 2 * id.expert + (id.role == LN_ROLE_EXPERT_UP);
    expert.part->is_taken = true;
    return add_expert(f, &expert, &at);
}

/* All roles of all layers, of the encoder or the decoder. */
static ln_status visit_layers(const finder *f, const ln_layer_spec *layers, size_t n_layers,
                              bool is_encoder) {
    for (size_t layer = 0; layer < n_layers; layer++) {
        for (size_t role = 0; role < LN_ROLE_COUNT; role++) {
            ln_tensor_id id = {.role = (ln_role)role, .encoder = is_encoder, .layer = layer};
            size_t n_experts = ln_role_is_of_expert(id.role) ? layers[layer].ffn.moe.n_experts : 1;
            for (id.expert = 0; id.expert == 0 || id.expert < n_experts; id.expert++)
                LN_TRY(visit(f, id));
            for (id.expert = 0;
                 !is_encoder && ln_role_is_of_expert(id.role) && id.expert < n_experts; id.expert++)
                LN_TRY(visit_stack(f, id));
        }
    }
    return LINNET_OK;
}

/* Parts that no role has: of a tensor that bears their name. */
static ln_status visit_rest(const finder *f) {
    bool is_same = ln_checkpoint_get_format(f->plan->checkpoint) == f->file->format;
    for (size_t i = 0; i < f->file->n_parts; i++) {
        ln_adapter_part *part = &f->file->parts[i];
        char name[LN_MAX_NAME_BYTES + 16];
        if (part->is_taken)
            continue;
        int n = snprintf(name, sizeof name, "%s.weight", part->module);
        const ln_tensor *tensor = is_same && n > 0 && (size_t)n < sizeof name &&
                                          part->vector == NULL &&
                                          part->n_experts == 0 /* one matrix is no stack */
                                      ? ln_checkpoint_find(f->plan->checkpoint, name)
                                      : NULL;
        if (tensor == NULL)
            return refuse(f, part, "the model has no such matrix");
        const place at = {.tensor = tensor, .across = part->is_embedding};
        LN_TRY(change_tensor(f, part, &at));
    }
    return LINNET_OK;
}

ln_status ln_merge_plan_add(ln_merge_plan *plan, ln_adapter_file *file, float scale) {
    const finder f = {plan, file, scale};
    const ln_spec *spec = plan->spec;
    LN_TRY(visit_layers(&f, spec->layers, spec->n_layers, false));
    LN_TRY(visit_layers(&f, spec->encoder_layers, spec->n_encoder_layers, true));
    LN_TRY(visit_rest(&f));
    return ln_file_map_check(&file->map, file->path, plan->err);
}

void ln_merge_plan_free(ln_merge_plan *plan) {
    for (size_t i = 0; i < plan->n_changes; i++) {
        free(plan->changes[i].left);
        free(plan->changes[i].right);
        free(plan->changes[i].lengths);
        free(plan->changes[i].of_rows);
        free(plan->changes[i].of_cols);
    }
    free(plan->changes);
    plan->changes = NULL;
    plan->n_changes = 0;
}
