#include "engine/plan/draft.h"

#include <string.h>

#include "base/checked.h"
#include "base/strbuf.h"
#include "engine/plan/kv.h"
#include "engine/step.h"
#include "model/activations.h"
#include "model/forward.h"
#include "model/heads/assistant_spec.h"
#include "model/heads/dflash_spec.h"
#include "model/heads/eagle_spec.h"
#include "model/load.h"

/* ---- the checkpoint ----------------------------------------------------------------------- */

/* Whether both turn every id into the same bytes. */
static bool says_the_same(const linnet_model *a, const linnet_model *b) {
    bool is_same = true;
    if (a->tokenizer == NULL || b->tokenizer == NULL)
        return true;
    for (size_t id = 0; id < a->spec.n_vocab && is_same; id++) {
        int32_t token = (int32_t)id;
        ln_strbuf texts[2] = {{0}, {0}};
        ln_status status[2] = {ln_tokenizer_decode(a->tokenizer, &token, 1, true, &texts[0], NULL),
                               ln_tokenizer_decode(b->tokenizer, &token, 1, true, &texts[1], NULL)};
        is_same = status[0] == status[1] && texts[0].len == texts[1].len &&
                  (texts[0].len == 0 || memcmp(texts[0].data, texts[1].data, texts[0].len) == 0);
        ln_strbuf_free(&texts[0]);
        ln_strbuf_free(&texts[1]);
    }
    return is_same;
}

/* The model's group whose block tables hold all that the draft's group sees. */
static bool map_group(const ln_spec *model, size_t window, size_t *group) {
    for (*group = 0; *group < model->n_kv_groups; (*group)++) {
        size_t kept = model->kv_groups[*group].window;
        if (model->kv_groups[*group].kind == LN_KV_OWN &&
            (kept == 0 || (window > 0 && window <= kept)))
            return true;
    }
    return false;
}

static ln_status check(const linnet_model *model, const char *path, ln_draft_plan *draft,
                       ln_error *err) {
    const ln_spec *spec = &draft->model->spec;
    if (spec->n_encoder_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s has an encoder and cannot draft", path);
    if (spec->has_mixers)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s has recurrent layers and cannot draft",
                       path);
    if (spec->n_vocab != model->spec.n_vocab || !says_the_same(model, draft->model))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s has another vocabulary than the model and cannot draft for it", path);
    for (size_t g = 0; g < spec->n_kv_groups; g++)
        if (!map_group(&model->spec, spec->kv_groups[g].window, &draft->groups[g]))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s looks further back than the model keeps blocks and cannot draft "
                           "for it",
                           path);
    return LINNET_OK;
}

/* A head of its own folder: what it reads of the model must be there, and a group that keeps all
 * tokens. */
static ln_status check_eagle(const linnet_model *model, ln_engine_plan *plan, ln_error *err) {
    linnet_model *head = plan->draft.head;
    ln_spec *spec = &head->spec;
    const char *path = ln_checkpoint_path(head->checkpoint);
    ln_attention_spec *attention = &spec->layers[0].attention;
    bool has_rows = spec->eagle.n_embedded > 0 ? spec->eagle.n_embedded >= model->spec.n_vocab
                                               : spec->dim == model->spec.dim;
    if (model->spec.n_encoder_layers > 0 || model->spec.n_streams > 0 || model->spec.hyper.n > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s cannot draft for a model of this kind",
                       path);
    if (spec->eagle.model_dim != model->spec.dim || spec->n_vocab > model->spec.n_vocab ||
        !has_rows)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is a head for a model of %zu dimensions, or for another vocabulary",
                       path, spec->eagle.model_dim);
    if (!map_group(&model->spec, 0, &attention->kv_group))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s looks further back than the model keeps blocks and cannot draft for it",
                       path);
    LN_TRY(ln_eagle_aux_layers(spec, &model->spec, &plan->spec.aux_layers, err));
    spec->head = plan->spec.head = &spec->layers[0];
    plan->spec.n_head_layers = 1;
    return LINNET_OK;
}

/* A drafter of blocks, whose layers cache in a group that keeps all tokens, windows or not: a step
 * may leave tokens of its own behind a window before their keys are made. */
static ln_status check_dflash(const linnet_model *model, ln_engine_plan *plan, ln_error *err) {
    ln_spec *spec = &plan->draft.head->spec;
    const char *path = ln_checkpoint_path(plan->draft.head->checkpoint);
    LN_TRY(ln_spec_fit_dflash(spec, &model->spec, path, err));
    LN_TRY(ln_eagle_aux_layers(spec, &model->spec, &plan->spec.aux_layers, err));
    for (size_t i = 0; i < spec->n_layers; i++)
        if (!map_group(&model->spec, 0, &spec->layers[i].attention.kv_group))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s needs a model that keeps all tokens and cannot draft for this one",
                           path);
    plan->spec.head = spec->layers;
    plan->spec.n_head_layers = spec->n_layers;
    return LINNET_OK;
}

/* An assistant, whose layers then read the model's caches. */
static ln_status check_assistant(const linnet_model *model, ln_engine_plan *plan, ln_error *err) {
    linnet_model *head = plan->draft.head;
    plan->spec.keeps_rows = true;
    return ln_spec_assist(&head->spec, &model->spec, ln_checkpoint_path(head->checkpoint), err);
}

ln_status ln_engine_plan_open_draft(const linnet_engine_options *options, ln_draft_plan *draft,
                                    ln_error *err) {
    const char *by = options->draft;
    if (options->draft_model == NULL ||
        (by != NULL && (strcmp(by, "none") == 0 || strcmp(by, "ngram") == 0)))
        return LINNET_OK;
    LN_TRY(ln_model_open(options->draft_model, &draft->model, err));
    if (draft->model->spec.family->drafts) {
        draft->head = draft->model;
        draft->model = NULL;
    }
    return LINNET_OK;
}

ln_status ln_engine_plan_check_draft(const linnet_model *model, ln_engine_plan *plan,
                                     ln_error *err) {
    if (plan->draft.kind == LN_DRAFTER_DFLASH)
        return check_dflash(model, plan, err);
    if (plan->draft.head != NULL && plan->draft.kind == LN_DRAFTER_MTP)
        return check_assistant(model, plan, err);
    if (plan->draft.head != NULL)
        return check_eagle(model, plan, err);
    if (plan->draft.model == NULL)
        return LINNET_OK;
    return check(model, ln_checkpoint_path(plan->draft.model->checkpoint), &plan->draft, err);
}

/* ---- sizes -------------------------------------------------------------------------------- */

ln_status ln_engine_plan_draft_weights(const linnet_model *model, ln_engine_plan *plan,
                                       const ln_backend *backend, ln_error *err) {
    ln_draft_plan *draft = &plan->draft;
    ln_weights_plan weights;
    bool is_own = ln_engine_plan_has_head(plan) && draft->head == NULL;
    if (!ln_engine_plan_has_head(plan) && draft->model == NULL)
        return LINNET_OK;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    const linnet_model *of = is_own ? model : draft->head != NULL ? draft->head : draft->model;
    options.first_layer = 0;
    options.head = ln_engine_plan_has_head(plan);
    LN_TRY(ln_weights_plan_bytes(of->checkpoint, is_own ? &plan->spec : &of->spec, &options,
                                 backend, &weights, err));
    draft->prepared_bytes = weights.prepared_bytes;
    draft->weight_bytes = weights.prepared_bytes + weights.table_bytes;
    plan->mapped_bytes += weights.mapped_bytes;
    return LINNET_OK;
}

void ln_engine_plan_lay_out_draft_kv(const ln_engine_plan *plan, ln_layout *layout,
                                     ln_kv_layer *layers, void *memory) {
    size_t n_blocks[LN_KV_MAX_GROUPS];
    const ln_spec *spec = &plan->draft.model->spec;
    for (size_t g = 0; g < spec->n_kv_groups; g++)
        n_blocks[g] = plan->kv_shape.n_blocks[plan->draft.groups[g]];
    const ln_kv_range all = {0, ln_kv_layer_count(spec)};
    ln_engine_plan_lay_out_kv(spec, plan, all, n_blocks, layout, layers, memory);
}

ln_kv_shape ln_engine_plan_draft_shape(const ln_engine_plan *plan) {
    return (ln_kv_shape){.n_groups = plan->draft.model->spec.n_kv_groups,
                         .ctx_tokens = plan->ctx_tokens,
                         .max_seqs = plan->budget.max_seqs,
                         .max_chunk_tokens = plan->budget.max_tokens};
}

ln_draft_layout ln_engine_plan_lay_out_draft(const ln_engine_plan *plan, ln_layout *layout) {
    const ln_spec *spec = &plan->draft.model->spec;
    ln_kv_shape shape = ln_engine_plan_draft_shape(plan);
    ln_layout step = {0};
    ln_draft_layout d;
    ln_step_plan(&plan->budget, &shape, &step);
    d.layers = ln_layout_add(layout, ln_kv_layers_bytes(spec), 1);
    d.ops = ln_layout_add(layout, ln_forward_max_ops(spec), sizeof(ln_op));
    d.decoding = ln_layout_add(layout, plan->budget.max_seqs, sizeof(ln_sequence *));
    d.asked = ln_layout_add(layout, plan->budget.max_seqs, sizeof(ln_sequence *));
    d.step = ln_layout_add(layout, step.bytes, 1);
    layout->overflow |= step.overflow;
    return d;
}

static size_t greater(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The backend's scratch serves both. */
static void raise_limits(ln_step_limits *limits, const ln_step_limits *other) {
    limits->max_width = greater(limits->max_width, other->max_width);
    limits->max_grouped_width = greater(limits->max_grouped_width, other->max_grouped_width);
    limits->max_expert_width = greater(limits->max_expert_width, other->max_expert_width);
    limits->max_head_dim = greater(limits->max_head_dim, other->max_head_dim);
    limits->max_heads = greater(limits->max_heads, other->max_heads);
    limits->max_experts = greater(limits->max_experts, other->max_experts);
    limits->max_state_dim = greater(limits->max_state_dim, other->max_state_dim);
}

ln_activations_shape ln_engine_plan_head_activations(const ln_engine_plan *plan) {
    const ln_step_budget *budget = &plan->budget;
    bool assists = plan->draft.head->spec.assisted_dim > 0; /* it reads a token of a sequence */
    bool in_blocks = plan->draft.kind == LN_DRAFTER_DFLASH;
    size_t n_drafts = in_blocks ? plan->draft_tokens : 1; /* of a sequence, at once */
    size_t max_logits = greater(budget->max_seqs, n_drafts);
    return (ln_activations_shape){
        .max_tokens = assists ? budget->max_seqs : budget->max_tokens,
        .max_logits = max_logits < budget->max_logits ? max_logits : budget->max_logits};
}

ln_head_layout ln_engine_plan_lay_out_head(const ln_engine_plan *plan, ln_layout *layout) {
    const linnet_model *own = plan->draft.head;
    ln_layout step = {0};
    ln_head_layout h;
    ln_step_plan(&plan->budget, &plan->kv_shape, &step);
    h.ops = ln_layout_add(layout, ln_forward_max_head_ops(own != NULL ? &own->spec : &plan->spec),
                          sizeof(ln_op));
    h.asked = ln_layout_add(layout, plan->budget.max_seqs, sizeof(ln_sequence *));
    h.rows = ln_layout_add(layout, plan->budget.max_tokens, sizeof(int32_t));
    h.step = ln_layout_add(layout, step.bytes, 1);
    layout->overflow |= step.overflow;
    h.ids = ln_layout_add(layout, own != NULL ? own->spec.n_vocab : 0, sizeof(int32_t));
    h.row = ln_layout_add(layout, own != NULL ? plan->spec.n_vocab : 0, sizeof(float));
    return h;
}

/* What a head of its own folder has besides: activations, and the open model. */
static ln_status size_own(ln_engine_plan *plan, size_t *total, ln_error *err) {
    ln_draft_plan *draft = &plan->draft;
    const ln_activations_shape shape = ln_engine_plan_head_activations(plan);
    LN_TRY(ln_activations_plan(&draft->head->spec, &shape, &draft->activation_bytes, err));
    ln_step_limits limits = ln_step_limits_of(&draft->head->spec, plan->budget.max_tokens,
                                              plan->budget.max_seqs, plan->ctx_tokens);
    raise_limits(&plan->limits, &limits);
    *total = ln_engine_plan_tokenizer_bytes(draft->head) + ln_engine_plan_header_bytes(draft->head);
    return ln_add(*total, draft->activation_bytes, total)
               ? LINNET_OK
               : ln_fail(err, LINNET_ERR_LIMIT, "the memory of the head overflows");
}

static ln_status size_head(ln_engine_plan *plan, ln_error *err) {
    ln_layout host = {0};
    ln_engine_plan_lay_out_head(plan, &host);
    LN_TRY(ln_layout_check(&host, "the head that drafts", err));
    plan->draft.host_bytes = host.bytes;
    size_t total = 0;
    if (plan->draft.head != NULL)
        LN_TRY(size_own(plan, &total, err));
    if (!ln_add(total, plan->draft.weight_bytes, &total) ||
        !ln_add(total, host.bytes, &plan->bytes[LN_ARENA_DRAFT]))
        return ln_fail(err, LINNET_ERR_LIMIT, "the memory of the head overflows");
    return LINNET_OK;
}

ln_status ln_engine_plan_draft(ln_engine_plan *plan, ln_error *err) {
    ln_draft_plan *draft = &plan->draft;
    const ln_step_budget *budget = &plan->budget;
    ln_layout kv = {0}, host = {0};
    plan->bytes[LN_ARENA_DRAFT] = 0;
    if (ln_engine_plan_has_head(plan))
        return size_head(plan, err);
    if (draft->model == NULL)
        return LINNET_OK;
    ln_engine_plan_lay_out_draft_kv(plan, &kv, NULL, NULL);
    ln_engine_plan_lay_out_draft(plan, &host);
    LN_TRY(ln_layout_check(&kv, "KV cache of the draft model", err));
    LN_TRY(ln_layout_check(&host, "draft model", err));
    const ln_activations_shape shape = {.max_tokens = budget->max_tokens,
                                        .max_logits = budget->max_seqs};
    LN_TRY(ln_activations_plan(&draft->model->spec, &shape, &draft->activation_bytes, err));
    draft->kv_bytes = kv.bytes;
    draft->host_bytes = host.bytes;
    ln_step_limits limits = ln_step_limits_of(&draft->model->spec, budget->max_tokens,
                                              budget->max_seqs, plan->ctx_tokens);
    raise_limits(&plan->limits, &limits);
    size_t total =
        ln_engine_plan_tokenizer_bytes(draft->model) + ln_engine_plan_header_bytes(draft->model);
    if (!ln_add(total, draft->weight_bytes, &total) || !ln_add(total, kv.bytes, &total) ||
        !ln_add(total, host.bytes, &total) || !ln_add(total, draft->activation_bytes, &total))
        return ln_fail(err, LINNET_ERR_LIMIT, "the memory of the draft model overflows");
    plan->bytes[LN_ARENA_DRAFT] = total;
    return LINNET_OK;
}
