#include "engine/plan/drafter.h"

#include <string.h>

#include "engine/plan/cost.h"

enum { DEFAULT_DRAFT_TOKENS = 4, DEFAULT_HEAD_TOKENS = 2, MAX_FORCED_TOKENS = 32 };

/* Why the model's head cannot draft here; NULL: it can. */
static const char *head_obstacle(const linnet_model *model, const ln_engine_plan *plan) {
    if (model->spec.mtp == NULL)
        return "the checkpoint has no head for multi-token prediction that can run";
    if (plan->n_ranks > 1)
        return "ranks do not draft with heads for multi-token prediction; --draft ngram does";
    return NULL;
}

const char *ln_drafter_noun(const ln_spec *spec) {
    return spec->dflash.block_tokens > 0 ? "a DFlash drafter"
           : spec->eagle.is_head         ? "an EAGLE-3 head"
           : spec->assisted_dim > 0      ? "an assistant for multi-token prediction"
                                         : "a model of its own";
}

/* The kind of a folder that drafts. */
static ln_drafter drafter_of(const ln_spec *spec) {
    return spec->dflash.block_tokens > 0 ? LN_DRAFTER_DFLASH
           : spec->eagle.is_head         ? LN_DRAFTER_EAGLE
           : spec->assisted_dim > 0      ? LN_DRAFTER_MTP
                                         : LN_DRAFTER_MODEL;
}

/* The kind that `auto` stands for. The costs that choose a head are those of a CPU, and it needs
 * all layers on one side. */
static ln_drafter choose(const linnet_model *model, const linnet_engine_options *options,
                         const ln_engine_plan *plan) {
    const linnet_model *head = plan->draft.head;
    if (head != NULL)
        return drafter_of(&head->spec);
    if (options->draft_model != NULL)
        return LN_DRAFTER_MODEL;
    bool has_gpu = plan->on_device || options->gpu_layers > 0;
    if (head_obstacle(model, plan) == NULL && !has_gpu)
        return LN_DRAFTER_MTP;
    return options->draft_tokens > 0 ? LN_DRAFTER_NGRAM : LN_DRAFTER_NONE;
}

static ln_status name_drafter(const linnet_model *model, const linnet_engine_options *options,
                              const ln_engine_plan *plan, ln_drafter *kind, ln_error *err) {
    static const struct {
        const char *name;
        ln_drafter kind;
    } names[] = {{"none", LN_DRAFTER_NONE},   {"ngram", LN_DRAFTER_NGRAM},
                 {"model", LN_DRAFTER_MODEL}, {"mtp", LN_DRAFTER_MTP},
                 {"eagle", LN_DRAFTER_EAGLE}, {"dflash", LN_DRAFTER_DFLASH}};
    *kind = choose(model, options, plan);
    if (options->draft == NULL || strcmp(options->draft, "auto") == 0)
        return LINNET_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(options->draft, names[i].name) == 0) {
            *kind = names[i].kind;
            return LINNET_OK;
        }
    return ln_fail(err, LINNET_ERR_ARGUMENT,
                   "draft is \"%s\"; it must be auto, none, mtp, eagle, dflash, ngram or "
                   "model",
                   options->draft);
}

static ln_status check(const linnet_model *model, const linnet_engine_options *options,
                       const ln_engine_plan *plan, ln_error *err) {
    ln_drafter kind = plan->draft.kind;
    const linnet_model *head = plan->draft.head;
    bool needs_own = kind == LN_DRAFTER_MTP && options->draft_model == NULL;
    const char *obstacle = needs_own ? head_obstacle(model, plan) : NULL;
    if (obstacle != NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: draft mtp: %s",
                       ln_checkpoint_path(model->checkpoint), obstacle);
    bool needs_folder =
        kind == LN_DRAFTER_EAGLE || kind == LN_DRAFTER_DFLASH || kind == LN_DRAFTER_MODEL;
    if (needs_folder && options->draft_model == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "draft is \"%s\", but draft_model is not given",
                       options->draft);
    const linnet_model *folder = head != NULL ? head : plan->draft.model;
    bool uses_folder = folder != NULL && (needs_folder || kind == LN_DRAFTER_MTP);
    if (uses_folder && kind != drafter_of(&folder->spec))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s is %s: draft is \"%s\"",
                       options->draft_model, ln_drafter_noun(&folder->spec), options->draft);
    if (head != NULL && plan->n_ranks > 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "ranks do not draft with heads; --draft ngram does");
    if (!uses_folder && options->draft_model != NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "draft is \"%s\", but a draft_model is given, too",
                       options->draft);
    if (kind == LN_DRAFTER_NONE && options->draft_tokens > 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "draft is \"none\", but draft_tokens is %zu",
                       options->draft_tokens);
    return LINNET_OK;
}

/* A drafter of blocks drafts a block, unless fewer tokens are asked for. */
static ln_status limit_block(const linnet_engine_options *options, ln_engine_plan *plan,
                             ln_error *err) {
    if (plan->draft.kind != LN_DRAFTER_DFLASH)
        return LINNET_OK;
    size_t most = plan->draft.head->spec.dflash.block_tokens - 1;
    if (options->draft_tokens > most)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "draft_tokens is %zu, but %s drafts blocks of %zu tokens: at most %zu are "
                       "possible",
                       options->draft_tokens, options->draft_model, most + 1, most);
    if (options->draft_tokens == 0)
        plan->draft_tokens = most;
    return LINNET_OK;
}

ln_status ln_engine_plan_choose_drafter(const linnet_model *model,
                                        const linnet_engine_options *options, ln_engine_plan *plan,
                                        ln_error *err) {
    ln_draft_plan *draft = &plan->draft;
    bool is_auto = options->draft == NULL || strcmp(options->draft, "auto") == 0;
    LN_TRY(name_drafter(model, options, plan, &draft->kind, err));
    LN_TRY(check(model, options, plan, err));
    plan->draft_tokens = options->draft_tokens;
    LN_TRY(limit_block(options, plan, err));
    bool has_own = draft->kind == LN_DRAFTER_MTP && draft->head == NULL;
    draft->by_cost = has_own && is_auto && options->draft_tokens == 0;
    if (draft->by_cost) {
        plan->draft_tokens = ln_draft_cost_choose(&model->spec, draft->n_tokens);
        draft->by_cost = plan->draft_tokens > 0;
        draft->kind = draft->by_cost ? LN_DRAFTER_MTP : LN_DRAFTER_NONE;
    } else if (draft->kind != LN_DRAFTER_NONE && plan->draft_tokens == 0) {
        plan->draft_tokens = has_own ? DEFAULT_HEAD_TOKENS : DEFAULT_DRAFT_TOKENS;
    }
    draft->n_forced = draft->kind == LN_DRAFTER_NONE && !is_auto ? 0 : MAX_FORCED_TOKENS;
    if (model->spec.has_mixers && draft->n_forced > plan->draft_tokens)
        draft->n_forced = plan->draft_tokens; /* what recurrent layers can take back */
    has_own &= draft->kind == LN_DRAFTER_MTP;
    plan->spec.head = has_own ? model->spec.mtp : NULL;
    plan->spec.n_head_layers = has_own ? 1 : 0;
    return LINNET_OK;
}
