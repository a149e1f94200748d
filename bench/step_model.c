/* How long a step takes on several GPUs, computed from rates that were measured on one, two and
 * four: the linears at the rate of reading weights or of multiplying, attention at its own, and the
 * all-reduces. Four of the measured figures give rates; the others show the model's error.
 *
 *     build/bench/step_model            all tables of docs/notes/ranks.md
 *
 * The exit status is 1 when the figures that gave the rates do not come out again. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* ---- shapes ------------------------------------------------------------------------------ */

typedef struct shape {
    const char *name;
    double dim, layers, heads, kv_heads, head_size, ffn, vocab;
    double experts, used, expert_ffn, shared_ffn, dense_layers; /* experts 0: none */
    double q_latent, latent, rope, plain, v_size;               /* latent 0: no MLA */
    double weight_bytes, kv_bytes; /* of a weight, of a cached number */
} shape;

static const shape mistral_7b = {.name = "Mistral 7B",
                                 .dim = 4096,
                                 .layers = 32,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .head_size = 128,
                                 .ffn = 14336,
                                 .vocab = 32000,
                                 .weight_bytes = 2,
                                 .kv_bytes = 2};
/* `linnet bench --shape qwen3-moe-4-layers` */
static const shape moe_4_layers = {.name = "Qwen3 MoE, 4 layers",
                                   .dim = 2048,
                                   .layers = 4,
                                   .heads = 16,
                                   .kv_heads = 4,
                                   .head_size = 128,
                                   .vocab = 32000,
                                   .experts = 128,
                                   .used = 8,
                                   .expert_ffn = 768,
                                   .weight_bytes = 2,
                                   .kv_bytes = 2};
static const shape llama_70b = {.name = "Llama-70B",
                                .dim = 8192,
                                .layers = 80,
                                .heads = 64,
                                .kv_heads = 8,
                                .head_size = 128,
                                .ffn = 28672,
                                .vocab = 128256,
                                .weight_bytes = 1,
                                .kv_bytes = 2};
static const shape qwen3_235b = {.name = "Qwen3-235B-A22B",
                                 .dim = 4096,
                                 .layers = 94,
                                 .heads = 64,
                                 .kv_heads = 4,
                                 .head_size = 128,
                                 .vocab = 151936,
                                 .experts = 128,
                                 .used = 8,
                                 .expert_ffn = 1536,
                                 .weight_bytes = 1,
                                 .kv_bytes = 2};
static const shape deepseek_v3 = {.name = "DeepSeek-V3",
                                  .dim = 7168,
                                  .layers = 61,
                                  .heads = 128,
                                  .kv_heads = 1,
                                  .ffn = 18432,
                                  .vocab = 129280,
                                  .experts = 256,
                                  .used = 8,
                                  .expert_ffn = 2048,
                                  .shared_ffn = 2048,
                                  .dense_layers = 3,
                                  .q_latent = 1536,
                                  .latent = 512,
                                  .rope = 64,
                                  .plain = 128,
                                  .v_size = 128,
                                  .weight_bytes = 1,
                                  .kv_bytes = 2};

/* ---- rates ------------------------------------------------------------------------------- */

/* Measured, docs/performance.md and docs/notes/ranks.md: H100, but where it says H200, whose memory
 * has 4.8 TB/s instead of 3.35 and whose rates of reading are scaled by that. */
static const double H200_SHARE = 3.35 / 4.8;
static const double DECODE_1 = 205, DECODE_64 = 7017, PROMPT_2048 = 36271, DECODE_1_TP2 = 253;
static const double DECODE_1_FP8 = 295.4 / 200.2, PROMPT_FP8 = 56174.0 / 36330; /* to bf16 */
static const double KV_1 = 1570e9, KV_64 = 4028e9, KV_FP8 = 3516.0 / 4028;      /* H200, bytes/s */
static const double PROMPT_ATTENTION = 567.8e12, MLA_PROMPT = 432e12, MLA_DECODE = 316e12;
static const double MLA_READ = 2371e9;
static const double MB[] = {1.0 / 128, 1.0 / 32, 1.0 / 8, 1.0 / 2, 1, 4, 16};
static const double REDUCE_2[] = {9.3, 10.8, 11.1, 11.7, 13.6, 24.4, 84.4}; /* us, in a graph */
static const double REDUCE_4[] = {9.5, 11.5, 12.3, 22.3, 25.0, 41.3, 126.1};
enum { N_REDUCES = sizeof MB / sizeof *MB };

/* Stated: NVLink 4 one way, and InfiniBand NDR with its latency for what goes to the next stage. */
static const double NVLINK = 450e9, WIRE = 50e9, WIRE_S = 5e-6;

/* What the four measured figures give. */
typedef struct rates {
    double read_1, read_64; /* bytes/s of weights with 1 and with 64 rows */
    double multiply;        /* FLOP/s */
    double layer_s;         /* of a layer whose kernels are not fused, since ranks meet in it */
    double memory;          /* of this GPU, as a share of the H100's */
} rates;

/* Between 1 and 64 rows in the logarithm, the same above. */
static double between(double at_1, double at_64, double n) {
    double part = n >= 64 ? 1 : log(n) / log(64);
    return at_1 + part * (at_64 - at_1);
}

/* Seconds of an all-reduce of so many bytes. With 8 GPUs two-shot kernels move 7/6 of what they do
 * with 4, and this is taken for all sizes; nothing was measured there. */
static double reduce_s(double bytes, double n_ranks) {
    double mb = bytes / (1 << 20), us[2];
    if (n_ranks <= 1)
        return 0;
    for (int which = 0; which < 2; which++) {
        const double *table = which == 0 ? REDUCE_2 : REDUCE_4;
        size_t i = 1;
        while (i + 1 < N_REDUCES && MB[i] < mb)
            i++;
        us[which] =
            table[i - 1] + (mb - MB[i - 1]) / (MB[i] - MB[i - 1]) * (table[i] - table[i - 1]);
        if (mb <= MB[0])
            us[which] = table[0];
        if (mb >= MB[N_REDUCES - 1])
            us[which] = table[N_REDUCES - 1] * mb / MB[N_REDUCES - 1];
    }
    double four = us[1] * (n_ranks > 4 ? 7.0 / 6 : 1);
    return 1e-6 * (n_ranks <= 2 ? us[0] : four);
}

/* ---- a step ------------------------------------------------------------------------------ */

typedef struct mesh {
    int tp, pp, ep;
} mesh;

/* Rows of a step: either sequences that decode after so many tokens, or a prompt's. */
typedef struct work {
    double rows, context; /* of decode */
    bool is_prompt;
} work;

typedef struct step {
    double linear, attention, reduce, rest; /* seconds */
} step;

static double total(const step *s) {
    return s->linear + s->attention + s->reduce + s->rest;
}

static double linear_s(const shape *m, const rates *r, double weights, double rows) {
    double read = weights * m->weight_bytes / (between(r->read_1, r->read_64, rows) * r->memory);
    return fmax(read, 2 * weights * rows / r->multiply);
}

/* Of attention's matrices in a layer: what is divided among ranks, and what each has whole. */
static double attention_weights(const shape *m, double tp) {
    if (m->latent == 0) {
        double kv_heads = fmax(m->kv_heads, tp); /* repeated when they are fewer */
        return (m->dim * m->head_size * (2 * m->heads + 2 * kv_heads)) / tp;
    }
    double whole = m->dim * (m->q_latent + m->latent + m->rope);
    double divided = m->heads * (m->q_latent * (m->plain + m->rope) +
                                 m->latent * (m->plain + m->v_size) + m->v_size * m->dim);
    return whole + divided / tp;
}

static double attention_s(const shape *m, const rates *r, const work *w, double tp) {
    double pairs = w->is_prompt ? w->rows * w->rows / 2 : w->rows * w->context;
    if (m->latent > 0) {
        double flops = 2 * (m->heads / tp) * (2 * m->latent + m->rope) * pairs;
        double bytes = pairs * (m->latent + m->rope) * m->kv_bytes;
        return w->is_prompt ? flops / MLA_PROMPT
                            : fmax(flops / MLA_DECODE, bytes / (MLA_READ * r->memory));
    }
    if (w->is_prompt)
        return 4 * (m->heads / tp) * m->head_size * pairs / PROMPT_ATTENTION;
    double heads = fmax(m->kv_heads / tp, 1);
    double rate = between(KV_1, KV_64, w->rows) * H200_SHARE * r->memory;
    return pairs * 2 * heads * m->head_size * m->kv_bytes / (rate * (m->kv_bytes < 2 ? KV_FP8 : 1));
}

/* Of rows that choose experts at random, on the rank with the most: how many experts it reads, and
 * how many rows these get. Means of several draws. */
static void draw_experts(const shape *m, double rows, int n_ranks, double *n_read, double *n_rows) {
    enum { MAX_EXPERTS = 256, DRAWS = 20 };
    *n_read = *n_rows = 0;
    int n_experts = (int)m->experts, used = (int)m->used;
    for (int draw = 0; draw < DRAWS; draw++) {
        int counts[MAX_EXPERTS] = {0}, last[MAX_EXPERTS] = {0};
        for (int row = 1; row <= (int)rows; row++) {
            uint32_t n_draws = 0;
            for (int k = 0; k < used;) {
                float at = ln_rng_uniform(1, (uint32_t)draw, (uint64_t)row, n_draws++);
                int e = (int)(at * (float)n_experts);
                if (last[e] == row)
                    continue;
                last[e] = row;
                counts[e]++;
                k++;
            }
        }
        double most_read = 0, most_rows = 0;
        for (int rank = 0; rank < n_ranks; rank++) {
            double read = 0, sum = 0;
            for (int e = rank; e < n_experts; e += n_ranks) {
                read += counts[e] > 0;
                sum += counts[e];
            }
            most_read = fmax(most_read, read);
            most_rows = fmax(most_rows, sum);
        }
        *n_read += most_read / DRAWS;
        *n_rows += most_rows / DRAWS;
    }
}

/* The routed experts of a layer, all of them on `ep` ranks, the columns of each on `tp`. */
static double routed_s(const shape *m, const rates *r, double rows, const mesh *at) {
    double n_read, n_rows, expert = 3 * m->dim * m->expert_ffn;
    int holders =
        at->ep > 1 ? at->tp * at->ep : 1; /* with --ep all ranks of a stage have whole ones */
    draw_experts(m, rows, holders, &n_read, &n_rows);
    double part = at->ep > 1 ? 1 : 1.0 / at->tp;
    double rate = between(r->read_1, r->read_64, rows) * r->memory;
    return fmax(n_read * expert * part * m->weight_bytes / rate,
                2 * n_rows * expert * part / r->multiply);
}

/* A mixture's layer. */
static double mixture_s(const shape *m, const rates *r, double rows, const mesh *at) {
    double ranks = at->tp * at->ep;
    return routed_s(m, r, rows, at) + linear_s(m, r, m->dim * m->experts, rows) +
           linear_s(m, r, 3 * m->dim * m->shared_ffn / ranks, rows);
}

/* A step through all stages, one after the other. */
static step model_step(const shape *m, const rates *r, const mesh *at, const work *w) {
    double ranks = at->tp * at->ep, n_mixtures = m->experts > 0 ? m->layers - m->dense_layers : 0;
    double sampled = w->is_prompt ? 1 : w->rows, bytes = w->rows * m->dim * sizeof(float);
    step s = {0};
    s.linear = m->layers * linear_s(m, r, attention_weights(m, at->tp), w->rows) +
               (m->layers - n_mixtures) * linear_s(m, r, 3 * m->dim * m->ffn / ranks, w->rows) +
               linear_s(m, r, m->dim * m->vocab / ranks, sampled);
    if (n_mixtures > 0)
        s.linear += n_mixtures * mixture_s(m, r, w->rows, at);
    s.attention = m->layers * attention_s(m, r, w, at->tp);
    s.reduce = m->layers * reduce_s(bytes, at->tp) + (m->layers + 1) * reduce_s(bytes, ranks) +
               sampled * m->vocab * sizeof(float) * (1 - 1 / ranks) / NVLINK +
               (at->pp - 1) * (WIRE_S + bytes / WIRE);
    s.rest = ranks > 1 ? m->layers * r->layer_s : 0;
    return s;
}

/* GB of weights on the rank that has the most. */
static double weights_gb(const shape *m, const mesh *at) {
    double ranks = at->tp * at->ep, layers = ceil(m->layers / at->pp);
    double n_mixtures = m->experts > 0 ? layers - (at->pp == 1 ? m->dense_layers : 0) : 0;
    double numbers =
        layers * attention_weights(m, at->tp) +
        (layers - n_mixtures) * 3 * m->dim * m->ffn / ranks +
        n_mixtures * 3 * m->dim * (m->experts * m->expert_ffn + m->shared_ffn) / ranks +
        2 * m->dim * m->vocab / ranks;
    return numbers * m->weight_bytes / 1e9;
}

/* ---- attention of different requests on different ranks ----------------------------------- */

/* Of n ranks that have whole experts, how many others have one that a row chooses, which are at
 * random. */
static double other_ranks(const shape *m, double n) {
    double none = 1;
    for (int i = 0; i < (int)m->used; i++)
        none *= (m->experts - m->experts / n - i) / (m->experts - i);
    return (n - 1) * (1 - none);
}

/* Bytes that go from one GPU to another for a row in a layer, over all ranks: of two all-reduces of
 * floats, each of which brings every rank parts of a sum, and then its other parts; or of rows that
 * go to the ranks of their experts, and sums that come back. */
static double reduced_bytes(const shape *m, double n) {
    return 2 * 2 * (n - 1) * m->dim * sizeof(float);
}

static double routed_bytes(const shape *m, double n) {
    return 2 * other_ranks(m, n) * m->dim * sizeof(float);
}

/* There and back. Nothing was measured: each way takes as long as the smallest all-reduce, and what
 * a rank sends at the rate at which it reads another's 16 MB in an all-reduce. */
static double exchange_s(const shape *m, double rows_per_rank, double n) {
    double rate = MB[N_REDUCES - 1] * (1 << 20) / (1e-6 * REDUCE_2[N_REDUCES - 1]);
    return 2 * 1e-6 * REDUCE_2[0] + rows_per_rank * routed_bytes(m, n) / rate;
}

/* A step of n ranks, each of which has all but the routed experts whole, and its own rows of w,
 * which are divided evenly: sequences, or whole prompts of `prompt` tokens. */
static step divided_step(const shape *m, const rates *r, int n, const work *w, double prompt) {
    const mesh experts = {1, 1, n};
    double rows = w->rows / n, n_mixtures = m->layers - m->dense_layers;
    work own = {w->is_prompt ? prompt : rows, w->context, w->is_prompt};
    step s = {0};
    s.linear = m->layers * linear_s(m, r, attention_weights(m, 1), rows) +
               m->dense_layers * linear_s(m, r, 3 * m->dim * m->ffn, rows) +
               n_mixtures * (routed_s(m, r, w->rows, &experts) +
                             linear_s(m, r, m->dim * (m->experts + 3 * m->shared_ffn), rows)) +
               linear_s(m, r, m->dim * m->vocab, w->is_prompt ? rows / prompt : rows);
    s.attention = m->layers * attention_s(m, r, &own, 1) * (w->is_prompt ? rows / prompt : 1);
    s.reduce = n_mixtures * exchange_s(m, rows, n);
    s.rest = m->layers * r->layer_s;
    return s;
}

/* ---- calibration ------------------------------------------------------------------------- */

static const mesh one = {1, 1, 1};

/* Rates from what one GPU did with bf16, and of what its layers cost more when ranks meet in them
 * from one sequence on two. */
static rates calibrate(void) {
    const shape *m = &mistral_7b;
    const work decode = {64, 1024 + 32, false}, prompt = {2048, 0, true}, single = {1, 0.5, false};
    const rates reads = {.read_1 = 1, .read_64 = 1, .multiply = 1e30, .memory = 1};
    const rates multiplies = {.read_1 = 1e30, .read_64 = 1e30, .multiply = 1, .memory = 1};
    double bytes = model_step(m, &reads, &one, &single).linear; /* at one of them per second */
    double flops = model_step(m, &multiplies, &one, &prompt).linear;
    rates r = {.memory = 1};
    r.read_1 = bytes * DECODE_1;
    r.read_64 = bytes / (64 / DECODE_64 - m->layers * attention_s(m, &r, &decode, 1));
    r.multiply = flops / (2048 / PROMPT_2048 - m->layers * attention_s(m, &r, &prompt, 1));
    const mesh two = {2, 1, 1};
    step s = model_step(m, &r, &two, &single);
    r.layer_s = (1 / DECODE_1_TP2 - (total(&s) - s.rest)) / m->layers;
    return r;
}

/* The same with FP8 weights, by what these gave on one H100. */
static rates with_fp8(rates r) {
    r.read_1 *= DECODE_1_FP8 / 2;
    r.read_64 *= DECODE_1_FP8 / 2;
    r.multiply *= PROMPT_FP8;
    return r;
}

/* ---- tables ------------------------------------------------------------------------------ */

static int put_checks(const rates *r) {
    static const struct {
        const char *what;
        const shape *shape;
        mesh mesh;
        work work;
        double measured;
        bool gives; /* a rate */
    } rows[] = {
        {"decode, 1 sequence", &mistral_7b, {1, 1, 1}, {1, 0.5, false}, 205, true},
        {"decode, 1 sequence", &mistral_7b, {2, 1, 1}, {1, 0.5, false}, 253, true},
        {"decode, 1 sequence", &mistral_7b, {4, 1, 1}, {1, 0.5, false}, 365, false},
        {"decode, 64 sequences", &mistral_7b, {1, 1, 1}, {64, 1056, false}, 7017, true},
        {"decode, 64 sequences", &mistral_7b, {2, 1, 1}, {64, 1056, false}, 8601, false},
        {"decode, 64 sequences", &mistral_7b, {4, 1, 1}, {64, 1056, false}, 10587, false},
        {"prompt of 2048", &mistral_7b, {1, 1, 1}, {2048, 0, true}, 36271, true},
        {"prompt of 2048", &mistral_7b, {2, 1, 1}, {2048, 0, true}, 50916, false},
        {"prompt of 2048", &mistral_7b, {4, 1, 1}, {2048, 0, true}, 61332, false},
        {"decode, 64 sequences", &moe_4_layers, {1, 1, 1}, {64, 96, false}, 28605, false},
    };
    int n_wrong = 0;
    printf("| shape, bf16 | case | GPUs | measured, tokens/s | model | error |\n"
           "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        step s = model_step(rows[i].shape, r, &rows[i].mesh, &rows[i].work);
        double rate = rows[i].work.rows / total(&s), error = rate / rows[i].measured - 1;
        n_wrong += rows[i].gives && fabs(error) > 0.01;
        printf("| %s | %s | %d | %.0f | %.0f | ", rows[i].shape->name, rows[i].what,
               rows[i].mesh.tp, rows[i].measured, rate);
        if (rows[i].gives)
            printf("gives a rate |\n");
        else
            printf("%+.0f%% |\n", 100 * error);
    }
    printf("\nread %.2f TB/s with one row, %.2f with 64; multiply %.0f TFLOP/s; a layer with ranks "
           "%.1f us\n\n",
           r->read_1 / 1e12, r->read_64 / 1e12, r->multiply / 1e12, r->layer_s * 1e6);
    return n_wrong;
}

static void put_steps(const shape *m, const rates *r) {
    static const mesh meshes[] = {{1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {8, 1, 1},
                                  {1, 1, 8}, {2, 1, 4}, {1, 4, 1}, {8, 2, 1}};
    static const work single = {1, 1024, false}, many = {64, 1024, false}, prompt = {2048, 0, true};
    printf(
        "| %s | GB of weights | 1 sequence, ms | 64, ms | all-reduces in it | prompt of 2048, ms "
        "|\n|---|---|---|---|---|---|\n",
        m->name);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        const mesh *at = &meshes[i];
        if (at->ep > 1 && m->experts == 0)
            continue;
        step s1 = model_step(m, r, at, &single), s64 = model_step(m, r, at, &many);
        step sp = model_step(m, r, at, &prompt);
        printf("| `--tp %d", at->tp);
        if (at->pp > 1)
            printf(" --pp %d", at->pp);
        if (at->ep > 1)
            printf(" --ep %d", at->ep);
        printf("` | %.1f | %.1f | %.1f | %.0f%% | %.0f |\n", weights_gb(m, at), 1e3 * total(&s1),
               1e3 * total(&s64), 100 * s64.reduce / total(&s64), 1e3 * total(&sp));
    }
    printf("\n");
}

static double divided_gb(const shape *m, int n) {
    double n_mixtures = m->layers - m->dense_layers;
    double numbers = m->layers * attention_weights(m, 1) + m->dense_layers * 3 * m->dim * m->ffn +
                     n_mixtures * 3 * m->dim * (m->experts * m->expert_ffn / n + m->shared_ffn) +
                     2 * m->dim * m->vocab;
    return numbers * m->weight_bytes / 1e9;
}

/* Sequences of 2048 tokens beside so many GB of weights in 90 % of an H200's 141 GB, if this part
 * of their KV cache lies there. */
static double count_beside(const shape *m, double gb, double kv_part) {
    double numbers = m->latent > 0 ? m->latent + m->rope : 2 * m->kv_heads * m->head_size;
    double bytes = m->layers * numbers * m->kv_bytes * 2048;
    return floor(fmax(0.9 * 141e9 - 1e9 * gb, 0) / (bytes * kv_part));
}

/* One line of put_divided: attention on all GPUs (tp n), repeated (tp 1), or divided by requests.
 */
static void put_way(const shape *m, const rates *r, const mesh *at, int n) {
    static const double seqs[] = {8, 64, 256, 1024};
    const work prompt = {2048, 0, true}, prompts = {2048.0 * n, 0, true};
    bool is_divided = at == NULL;
    double gb = is_divided ? divided_gb(m, n) : weights_gb(m, at);
    double kv_part = is_divided ? 1.0 / n : m->latent > 0 ? 1 : fmax(1.0 / at->tp, 1 / m->kv_heads);
    if (is_divided)
        printf("| by requests, all-to-all");
    else
        printf("| `--tp %d --ep %d`, all-reduces", at->tp, at->ep);
    printf(" | %.0f | %.1f | %.0f", 1e-3 * (is_divided ? routed_bytes(m, n) : reduced_bytes(m, n)),
           gb, count_beside(m, gb, kv_part));
    for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++) {
        const work decode = {seqs[i], 1024, false};
        step s = is_divided ? divided_step(m, r, n, &decode, 0) : model_step(m, r, at, &decode);
        printf(" | %.1f", 1e3 * total(&s));
    }
    step s = is_divided ? divided_step(m, r, n, &prompts, 2048) : model_step(m, r, at, &prompt);
    printf(" | %.0f |\n", 1e3 * total(&s) * (is_divided ? 1 : n));
}

static void put_divided(const shape *m, const rates *r) {
    enum { N = 8 };
    static const mesh meshes[] = {{N, 1, 1}, {1, 1, N}};
    printf(
        "| %s, %d GPUs: attention | KB of a token in a layer | GB of weights | sequences of 2048 "
        "that fit | 8, ms | 64, ms | 256, ms | 1024, ms | %d prompts of 2048, ms |\n"
        "|---|---|---|---|---|---|---|---|---|\n",
        m->name, N, N);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++)
        put_way(m, r, &meshes[i], N);
    put_way(m, r, NULL, N);
    printf("\n");
}

/* Tokens per second, out or in and out, of so many sequences at once that have n_in tokens and get
 * n_out: prompts in pieces of at most 2048, the contexts in the middle. */
static double model_rate(const shape *m, const rates *r, const mesh *at, double seqs, double n_in,
                         double n_out, bool counts_in) {
    double piece = fmin(n_in, 2048), pieces = n_in / piece;
    const work prompt = {piece, 0, true}, decode = {seqs, n_in + n_out / 2, false};
    step p = model_step(m, r, at, &prompt), d = model_step(m, r, at, &decode);
    p.attention *= pieces; /* each sees those before it */
    double request = pieces * total(&p) + n_out * total(&d) / seqs;
    return (n_out + (counts_in ? n_in : 0)) / request;
}

/* Sequences of so many tokens whose KV cache fits 90 % of 80 GB per GPU, beside the weights. */
static double count_fitting(const shape *m, const mesh *at, double tokens) {
    double bytes = m->layers * 2 * fmax(m->kv_heads / at->tp, 1) * m->head_size * m->kv_bytes;
    return floor((0.9 * 80e9 - 1e9 * weights_gb(m, at)) / (bytes * tokens));
}

static void put_published(const rates *fp8) {
    static const struct {
        const char *what;
        const shape *shape;
        mesh mesh;
        double seqs, n_in, n_out, kv_bytes, memory, published; /* seqs 0: all that fit */
        bool counts_in;
    } rows[] = {
        {"TensorRT-LLM 0.5, 4 H100", &llama_70b, {4, 1, 1}, 64, 128, 2048, 1, 1, 2616, false},
        {"TensorRT-LLM 0.5, 4 H100", &llama_70b, {4, 1, 1}, 64, 2048, 2048, 1, 1, 1583, false},
        {"TensorRT-LLM 0.5, 4 H100", &llama_70b, {4, 1, 1}, 64, 2048, 128, 1, 1, 843, false},
        {"TensorRT-LLM 1.0, 2 H100", &llama_70b, {2, 1, 1}, 0, 128, 2048, 1, 1, 6651, false},
        {"TensorRT-LLM 1.0, 2 H100", &llama_70b, {2, 1, 1}, 0, 2048, 2048, 1, 1, 3082, false},
        {"vLLM 0.11, 4 H100", &qwen3_235b, {4, 1, 1}, 70, 4000, 200, 2, 1, 16479, true},
        {"vLLM, 8 H200", &deepseek_v3, {8, 1, 1}, 124, 4000, 200, 2, 4.8 / 3.35, 15809, true},
    };
    printf(
        "| program | shape | at once, in + out | published, tokens/s | model | model / published "
        "|\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shape m = *rows[i].shape;
        rates r = *fp8;
        m.kv_bytes = rows[i].kv_bytes;
        r.memory = rows[i].memory;
        double tokens = rows[i].n_in + rows[i].n_out;
        double seqs = rows[i].seqs > 0 ? rows[i].seqs : count_fitting(&m, &rows[i].mesh, tokens);
        double rate =
            model_rate(&m, &r, &rows[i].mesh, seqs, rows[i].n_in, rows[i].n_out, rows[i].counts_in);
        printf("| %s | %s | %.0f, %.0f + %.0f | %.0f %s | %.0f | %.2f |\n", rows[i].what, m.name,
               seqs, rows[i].n_in, rows[i].n_out, rows[i].published,
               rows[i].counts_in ? "in and out" : "out", rate, rate / rows[i].published);
    }
    for (int i = 0; i < 2; i++) {
        const work prompt = {i == 0 ? 128 : 2048, 0, true};
        const mesh four = {4, 1, 1};
        step s = model_step(&llama_70b, fp8, &four, &prompt);
        double ms = i == 0 ? 26 : 109;
        printf(
            "| TensorRT-LLM 0.5, 4 H100 | Llama-70B | first token after %.0f | %.0f ms | %.0f ms "
            "| %.2f |\n",
            prompt.rows, ms, 1e3 * total(&s), 1e3 * total(&s) / ms);
    }
}

int main(void) {
    static const shape *const shapes[] = {&llama_70b, &qwen3_235b, &deepseek_v3};
    rates bf16 = calibrate(), fp8 = with_fp8(bf16);
    int n_wrong = put_checks(&bf16);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        put_steps(shapes[i], &fp8);
    put_published(&fp8);
    printf("\n");
    fp8.memory = 1 / H200_SHARE;
    put_divided(&qwen3_235b, &fp8);
    put_divided(&deepseek_v3, &fp8);
    if (n_wrong > 0)
        fprintf(stderr, "%d figures that gave rates do not come out\n", n_wrong);
    return n_wrong > 0;
}
