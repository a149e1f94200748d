#include "cli/bench/bench_report.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "cli/plot.h"

/* What a kind of operation took of the wall time, which the profile's own work does not belong to.
 */
static double percent_of(const ln_bench_phase *phase, size_t kind) {
    const ln_profile *p = &phase->profile;
    return (double)p->ns[kind] * 1e-7 / (phase->seconds - (double)p->reading_ns * 1e-9);
}

/* {"linear": percent, ..., "sum": percent} */
static json_t *profile_json(const ln_bench_phase *phase) {
    json_t *object = json_object();
    double sum = 0;
    for (size_t i = 0; i < LN_OP_COUNT; i++) {
        double percent = percent_of(phase, i);
        sum += percent;
        if (phase->profile.n_ops[i] > 0)
            json_object_set_new(object, ln_op_name((ln_op_kind)i), json_real(percent));
    }
    json_object_set_new(object, "sum", json_real(sum));
    return object;
}

static void print_profile(const char *what, const ln_bench_phase *phase) {
    double sum = 0;
    printf("%s, percent of the time:", what);
    for (size_t i = 0; i < LN_OP_COUNT; i++) {
        double percent = percent_of(phase, i);
        sum += percent;
        if (phase->profile.n_ops[i] > 0)
            printf(" %s %.1f", ln_op_name((ln_op_kind)i), percent);
    }
    printf(", sum %.1f\n", sum);
}

static void print_shares(const ln_bench_phase *phase) {
    if (phase->of_units > 0)
        printf("; of the vector units' peak %.0f%%, of the memory's %.0f%%%s",
               phase->of_units * 100, phase->of_memory * 100,
               phase->of_memory > 1 ? " (the processor's caches hold weights)" : "");
    printf("\n");
}

int ln_bench_print_text(const ln_bench_report *report) {
    const ln_bench_measurement *m = report->measured;
    printf("prefill %zu: %.2f tokens/s", report->n_prefill, m->prefill.tokens_per_s);
    print_shares(&m->prefill);
    printf("decode %zu x %zu: %.2f tokens/s", report->n_seqs, report->n_decode,
           m->decode.tokens_per_s);
    print_shares(&m->decode);
    printf("context %zu, %s of weights, %s", report->n_context,
           ln_cli_size_text(report->weight_bytes).text,
           ln_cli_count_text(report->n_threads, "thread").text);
    if (m->ceilings.read_bytes > 0)
        printf("; measured now: reading %.1f GB/s, int8 %.0f GOP/s, bf16 or f32 %.0f GFLOP/s",
               m->ceilings.read_bytes * 1e-9, m->ceilings.int8_products * 2e-9,
               m->ceilings.float_products * 2e-9);
    printf("\n");
    if (report->sampling.temperature > 0)
        printf("sampling --temp %g --seed %llu\n", (double)report->sampling.temperature,
               (unsigned long long)report->sampling.seed);
    if (report->profile) {
        print_profile("prefill", &m->prefill);
        print_profile("decode", &m->decode);
    }
    return 0;
}

int ln_bench_print_json(const ln_bench_report *report) {
    const ln_bench_measurement *m = report->measured;
    json_t *object =
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "threads", (json_int_t)report->n_threads,
                  "weight_bytes", (json_int_t)report->weight_bytes, "prefill_tokens",
                  (json_int_t)report->n_prefill, "decode_tokens", (json_int_t)report->n_decode,
                  "context_tokens", (json_int_t)report->n_context, "seqs",
                  (json_int_t)report->n_seqs, "prefill_tokens_per_s", m->prefill.tokens_per_s,
                  "decode_tokens_per_s", m->decode.tokens_per_s);
    if (m->ceilings.read_bytes > 0 && object) {
        json_t *ceilings = json_pack(
            "{s:f,s:f,s:f}", "read_gb_per_s", m->ceilings.read_bytes * 1e-9, "int8_gop_per_s",
            m->ceilings.int8_products * 2e-9, "float_gop_per_s", m->ceilings.float_products * 2e-9);
        json_object_set_new(object, "measured", ceilings);
        json_object_set_new(object, "prefill_percent_of_units",
                            json_real(m->prefill.of_units * 100));
        json_object_set_new(object, "decode_percent_of_memory",
                            json_real(m->decode.of_memory * 100));
    }
    if (report->sampling.temperature > 0 && object)
        json_object_set_new(object, "seed", json_integer((json_int_t)report->sampling.seed));
    if (report->profile && object) {
        json_object_set_new(object, "prefill_profile", profile_json(&m->prefill));
        json_object_set_new(object, "decode_profile", profile_json(&m->decode));
    }
    return ln_cli_print_json(stdout, object, false);
}

/* ---- the picture ------------------------------------------------------------------------- */

/* What the greater of the two shares allows, at most; 0: unknown, or the processor's caches hold
 * weights. */
static double limit_of(const ln_bench_phase *phase) {
    double share = phase->of_units > phase->of_memory ? phase->of_units : phase->of_memory;
    return share > 0 && share <= 1 ? phase->tokens_per_s / share : 0;
}

int ln_bench_plot(const ln_bench_report *report, const char *path) {
    const ln_bench_measurement *m = report->measured;
    char names[2][96], title[256], note[160];
    snprintf(names[0], sizeof names[0], "prefill of %zu tokens", report->n_prefill);
    snprintf(names[1], sizeof names[1], "decode, %s",
             ln_cli_count_text(report->n_seqs, "sequence").text);
    const char *slash = strrchr(report->model, '/');
    snprintf(title, sizeof title, "%.200s: tokens per second",
             slash != NULL && slash[1] != '\0' ? slash + 1 : report->model);
    snprintf(note, sizeof note, "%s of weights, %s; outlined: what this machine allows at most",
             ln_cli_size_text(report->weight_bytes).text,
             ln_cli_count_text(report->n_threads, "thread").text);
    const ln_plot_bar bars[] = {{names[0], m->prefill.tokens_per_s, limit_of(&m->prefill)},
                                {names[1], m->decode.tokens_per_s, limit_of(&m->decode)}};
    linnet_error err = {0};
    if (ln_plot_bars(path, title, note, bars, 2, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    return 0;
}
