#include "engine/plan/cost.h"

#include <math.h>

#include "model/mixer/shape.h"

/* Rows whose products take as long as reading the matrix: about 5 with bf16 weights that no cache
 * holds, on one core with AVX-512 (`linnet bench --threads 1 --seqs N` of 1 and of 16). */
static const double FREE_ROWS = 5.0;
static const double ACCEPTANCE = 0.75;

static double greater(double a, double b) {
    return a > b ? a : b;
}

/* A matrix that meets all rows. */
static double dense(double n_elements, double n_rows) {
    return n_elements * greater(1.0, n_rows / FREE_ROWS);
}

static double attention_elements(const ln_attention_spec *a, double dim) {
    double heads = (double)a->n_heads, kv_heads = (double)a->n_kv_heads;
    const ln_latent_spec *l = &a->latent;
    if (l->n_latent == 0)
        return dim * ((heads + kv_heads) * (double)(a->k_dim + a->v_dim) +
                      (a->gate == LN_GATE_BY_ELEMENT ? heads * (double)a->v_dim : 0));
    double q_rows = heads * (double)(l->n_plain + l->n_rope), q_latent = (double)l->q_latent;
    double q = q_latent > 0 ? q_latent * (dim + q_rows) : dim * q_rows;
    return q + dim * (double)(l->n_latent + l->n_rope) +
           heads * (double)l->n_latent * (double)(l->n_plain + l->v_dim) +
           dim * heads * (double)l->v_dim;
}

static double mixer_elements(const ln_mixer_spec *m, size_t dim) {
    if (m->kind == LN_MIXER_NONE)
        return 0;
    double out = (double)(m->n_heads * m->v_dim);
    return (double)dim * ((double)ln_mixer_conv_dim(m, dim) + 2 * out);
}

/* Experts that n_rows rows meet, each n_used of n_experts, as if they chose at random. */
static double expert_cost(const ln_moe_spec *moe, double matrices, double dim, double n_rows) {
    double n = (double)moe->n_experts, used = (double)moe->n_used;
    double met = n * (1.0 - pow(1.0 - used / n, n_rows));
    double width = moe->n_latent > 0 ? (double)moe->n_latent : dim;
    double elements = matrices * width * (double)moe->n_hidden;
    return elements * greater(met, used * n_rows / FREE_ROWS);
}

static double layer_cost(const ln_layer_spec *layer, size_t dim, double n_rows) {
    const ln_ffn_spec *ffn = &layer->ffn;
    double matrices = ffn->gated ? 3 : 2, width = (double)dim;
    double elements = attention_elements(&layer->attention, width) +
                      mixer_elements(&layer->mixer, dim) +
                      matrices * width * (double)ffn->moe.shared_hidden;
    if (ffn->moe.n_experts == 0 || ffn->moe.beside)
        elements += matrices * width * (double)ffn->n_hidden;
    double cost = dense(elements, n_rows);
    cost += dense(2 * width * (double)ffn->moe.n_latent, n_rows);
    if (ffn->moe.n_experts > 0)
        cost += expert_cost(&ffn->moe, matrices, width, n_rows);
    return cost;
}

static double output_cost(const ln_spec *spec, double n_rows) {
    return dense((double)spec->n_vocab * (double)spec->dim, n_rows);
}

static double step_cost(const ln_spec *spec, double n_rows) {
    double cost = output_cost(spec, n_rows);
    for (size_t i = 0; i < spec->n_layers; i++)
        cost += layer_cost(&spec->layers[i], spec->dim, n_rows);
    return cost;
}

static double head_cost(const ln_spec *spec, double n_rows) {
    double dim = (double)spec->dim;
    return layer_cost(spec->mtp, spec->dim, n_rows) + dense(2 * dim * dim, n_rows) +
           output_cost(spec, n_rows);
}

/* Time of a token when n_draft of each sequence are drafted. */
static double time_of_token(const ln_spec *spec, size_t n_seqs, size_t n_draft) {
    double n = (double)n_seqs, tokens = 1, chance = 1;
    for (size_t i = 0; i < n_draft; i++) {
        chance *= ACCEPTANCE;
        tokens += chance;
    }
    double cost = step_cost(spec, n * (double)(1 + n_draft));
    if (n_draft > 0) /* the first reads what was accepted, too */
        cost += head_cost(spec, n * tokens) + (double)(n_draft - 1) * head_cost(spec, n);
    return cost / (n * tokens);
}

size_t ln_draft_cost_choose(const ln_spec *spec, uint8_t n_tokens[LN_DRAFT_SEQS + 1]) {
    size_t most = 0;
    n_tokens[0] = 0;
    for (size_t n_seqs = 1; n_seqs <= LN_DRAFT_SEQS; n_seqs++) {
        size_t best = 0;
        for (size_t n = 1; n <= LN_DRAFT_LENGTH; n++)
            if (time_of_token(spec, n_seqs, n) < time_of_token(spec, n_seqs, best))
                best = n;
        n_tokens[n_seqs] = (uint8_t)best;
        most = best > most ? best : most;
    }
    return most;
}
