/* Metadata of models with recurrent layers. */
#include <math.h>

#include "convert/metadata.h"

typedef struct putter {
    const ln_convert_plan *plan;
    ln_gguf_writer *writer;
} putter;

static void put_number(const putter *p, const char *name, size_t value) {
    ln_convert_put_number(p->plan, p->writer, name, value);
}

static const ln_mixer_spec *first_mixer(const ln_spec *spec) {
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].mixer.kind != LN_MIXER_NONE)
            return &spec->layers[i].mixer;
    return &spec->layers[0].mixer;
}

bool ln_convert_lists_kv_heads(const ln_convert_plan *plan) {
    const ln_family *target = plan->target;
    return target->mixer != LN_MIXER_NONE && target->mixer != LN_MIXER_DELTA &&
           target->mixer != LN_MIXER_LIGHTNING && !target->mixers_beside &&
           target->mixer_word != NULL;
}

/* Layers without attention have no KV heads, those without a feed-forward no width. */
static void put_lists(putter *p) {
    const ln_spec *spec = p->plan->spec;
    uint32_t kv_heads[LN_MAX_LAYERS], hidden[LN_MAX_LAYERS];
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_layer_spec *layer = &spec->layers[i];
        bool is_mixture = layer->ffn.moe.n_experts > 0;
        kv_heads[i] = (uint32_t)layer->attention.n_kv_heads;
        hidden[i] = (uint32_t)(is_mixture ? layer->ffn.moe.n_hidden : layer->ffn.n_hidden);
    }
    if (ln_convert_lists_kv_heads(p->plan))
        ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "attention.head_count_kv").text,
                          LN_GGUF_I32, kv_heads, spec->n_layers);
    if (p->plan->target->one_block && p->plan->target->mixer_word != NULL)
        ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "feed_forward_length").text,
                          LN_GGUF_I32, hidden, spec->n_layers);
}

/* Every Nth layer has attention, where that says it all; else what readers ignore. */
static size_t interval_of(const ln_spec *spec) {
    for (size_t interval = 2; interval <= spec->n_layers; interval++) {
        bool fits = true;
        for (size_t i = 0; i < spec->n_layers; i++)
            fits =
                fits && (spec->layers[i].mixer.kind == LN_MIXER_NONE) == ((i + 1) % interval == 0);
        if (fits)
            return interval;
    }
    return 4;
}

/* Which layers are recurrent, of which a head that drafts is none. */
static void put_recurrent(putter *p) {
    const ln_spec *spec = p->plan->spec;
    bool recurrent[LN_MAX_LAYERS + 1];
    for (size_t i = 0; i < spec->n_layers; i++)
        recurrent[i] = spec->layers[i].mixer.kind != LN_MIXER_NONE;
    recurrent[spec->n_layers] = false;
    ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "attention.recurrent_layers").text,
                      LN_GGUF_BOOL, recurrent, spec->n_layers + ln_convert_has_head(p->plan));
    put_number(p, "full_attention_interval", interval_of(spec));
}

/* Whether attention rotates. */
static void put_rotation(putter *p) {
    const ln_spec *spec = p->plan->spec;
    ln_gguf_put_bool(p->writer, ln_convert_key_of(p->plan, "rope.scaling.finetuned").text,
                     spec->n_ropes > 0);
    if (spec->n_ropes == 0)
        put_number(p, "rope.dimension_count", ln_convert_attention(spec)->k_dim);
    if (p->plan->target->one_block) /* its readers ask for this one */
        ln_gguf_put_f32(p->writer, ln_convert_key_of(p->plan, "attention.layer_norm_epsilon").text,
                        spec->norm_eps);
}

/* What Mamba 2's files need not say: most models have none of these. */
static void put_rare(putter *p, const ln_mixer_spec *mixer) {
    float limits[] = {mixer->dt_min, mixer->dt_max};
    if (mixer->dt_min > 0 || isfinite(mixer->dt_max))
        ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "ssm.time_step_limit").text,
                          LN_GGUF_F32, limits, 2);
    if (mixer->has_norm && !mixer->gate_first)
        ln_gguf_put_bool(p->writer, ln_convert_key_of(p->plan, "ssm.norm_before_gate").text, true);
}

/* Norms without weights, which Mamba's files have a flag for; their epsilon where it is another. */
static void put_selective(putter *p, const ln_mixer_spec *mixer) {
    const ln_family *target = p->plan->target;
    ln_tensor_id id = {.role = LN_ROLE_MIXER_A_NORM};
    put_number(p, "ssm.time_step_rank", mixer->low_rank);
    if (ln_family_binding(target, LN_FORMAT_GGUF, id, 0) != NULL)
        return;
    ln_gguf_put_bool(p->writer, ln_convert_key_of(p->plan, "ssm.dt_b_c_rms").text,
                     mixer->control_eps > 0);
    if (mixer->control_eps > 0 && mixer->control_eps != p->plan->spec->norm_eps)
        ln_gguf_put_f32(p->writer, ln_convert_key_of(p->plan, "ssm.dt_b_c_rms_eps").text,
                        mixer->control_eps);
}

void ln_convert_put_mixers(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    putter p = {plan, writer};
    const ln_mixer_spec *mixer = first_mixer(plan->spec);
    if (plan->target->mixer == LN_MIXER_NONE)
        return;
    if (mixer->kind == LN_MIXER_LIGHTNING) {
        ln_gguf_put_f32(writer, ln_convert_key_of(p.plan, "residual_scale").text,
                        plan->spec->layers[0].ffn_keep);
        put_recurrent(&p);
        return;
    }
    put_lists(&p);
    if (mixer->kind == LN_MIXER_SSD && ln_convert_lists_kv_heads(plan))
        put_rotation(&p);
    if (mixer->kind == LN_MIXER_CONV) {
        put_number(&p, "shortconv.l_cache", mixer->n_taps);
        return;
    }
    put_number(&p, "ssm.conv_kernel", mixer->n_taps);
    if (mixer->kind == LN_MIXER_KDA) {
        put_number(&p, "kda.head_dim", mixer->k_dim);
        if (mixer->bound > 0) {
            if (mixer->low_rank == 0)
                ln_gguf_put_bool(writer, ln_convert_key_of(p.plan, "kda.safe_gate").text, true);
            ln_gguf_put_f32(writer, ln_convert_key_of(p.plan, "kda.gate_lower_bound").text,
                            -mixer->bound);
        }
        return;
    }
    put_number(&p, "ssm.inner_size", mixer->n_heads * mixer->v_dim);
    put_number(&p, "ssm.state_size", mixer->k_dim);
    if (mixer->kind == LN_MIXER_SELECTIVE) {
        put_selective(&p, mixer);
        return;
    }
    put_number(&p, "ssm.time_step_rank", mixer->n_heads);
    put_number(&p, "ssm.group_count", mixer->n_k_heads);
    if (mixer->kind == LN_MIXER_DELTA)
        put_recurrent(&p);
    else
        put_rare(&p, mixer);
}
