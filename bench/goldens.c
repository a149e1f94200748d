/* The relative error of every golden (tests/golden/README.md) with `exact` and with `fast`, one
 * column per instruction set, as a table in Markdown.
 *
 *     gcc -std=c17 -D_GNU_SOURCE -O2 -Isrc -Iinclude bench/goldens.c build/liblinnet.a -o goldens \
 *         -ljansson -lpcre2-8 -lutf8proc -lxxhash -lm -lpthread
 *     ./goldens tests/golden/models exact|fast scalar avx2 ... */
#include <dirent.h>
#include <jansson.h>
#include <linnet.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sums {
    FILE *expected; /* rows of golden.bin, read in order */
    double difference, norm;
} sums;

static void add_row(void *user, size_t position, const float *row, size_t n_vocab) {
    sums *s = user;
    (void)position;
    for (size_t i = 0; i < n_vocab; i++) {
        float want = NAN;
        if (fread(&want, sizeof want, 1, s->expected) != 1)
            want = NAN;
        s->difference += ((double)row[i] - want) * ((double)row[i] - want);
        s->norm += (double)want * want;
    }
}

static json_t *load(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return json_load_file(path, 0, NULL);
}

static int32_t *take_ids(const json_t *list, size_t *count) {
    *count = json_array_size(list);
    int32_t *ids = calloc(*count + 1, sizeof *ids);
    for (size_t i = 0; ids != NULL && i < *count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static bool score(linnet_engine *engine, const json_t *golden, size_t index, int32_t start,
                  sums *s) {
    linnet_error err = {0};
    linnet_event event = {0};
    linnet_request *request = NULL;
    linnet_request_options options;
    linnet_request_options_init(&options);
    bool has_encoder = json_is_true(json_object_get(golden, "encoder_decoder"));
    json_t *prompt = json_array_get(json_object_get(golden, "prompts"), index);
    json_t *greedy = json_array_get(json_object_get(golden, "greedy"), index);
    int32_t *source = take_ids(prompt, &options.n_encoder_ids);
    int32_t *scored = take_ids(has_encoder ? greedy : prompt, &options.n_prompt_ids);
    if (has_encoder) {
        memmove(scored + 1, scored, (options.n_prompt_ids - 1) * sizeof *scored);
        scored[0] = start;
        options.encoder_ids = source;
    } else {
        options.n_encoder_ids = 0;
    }
    options.kind = LINNET_REQUEST_SCORE;
    options.prompt_ids = scored;
    options.on_logits = add_row;
    options.user = s;
    bool ok = linnet_request_submit(engine, &options, &request, &err) == LINNET_OK;
    while (ok && event.finish == LINNET_FINISH_NONE)
        ok = linnet_request_next(request, -1, &event, &err) == LINNET_OK;
    linnet_request_close(request);
    free(source);
    free(scored);
    return ok && event.finish != LINNET_FINISH_ERROR;
}

/* NaN: it cannot be had. */
static double error_of(const char *folder, const char *isa, bool exact) {
    linnet_error err = {0};
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_engine_options options;
    char path[4096];
    sums s = {0};
    json_t *golden = load(folder, "golden.json"), *config = load(folder, "config.json");
    int32_t start = (int32_t)json_integer_value(json_object_get(config, "decoder_start_token_id"));
    snprintf(path, sizeof path, "%s/golden.bin", folder);
    s.expected = fopen(path, "rb");
    linnet_engine_options_init(&options);
    options.precision = exact ? LINNET_PRECISION_EXACT : LINNET_PRECISION_FAST;
    options.n_threads = 2;
    options.cpu = isa;
    bool ok = golden != NULL && s.expected != NULL &&
              linnet_model_open(folder, &model, &err) == LINNET_OK &&
              linnet_engine_create(model, &options, &engine, &err) == LINNET_OK;
    for (size_t i = 0; ok && i < json_array_size(json_object_get(golden, "prompts")); i++)
        ok = score(engine, golden, i, start, &s);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    if (s.expected != NULL)
        fclose(s.expected);
    json_decref(golden);
    json_decref(config);
    return ok ? sqrt(s.difference / s.norm) : NAN;
}

int main(int argc, char **argv) {
    struct dirent **entries;
    int n = argc > 3 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    if (n < 0) {
        fprintf(stderr, "usage: goldens FOLDER exact|fast SET...\n");
        return 2;
    }
    printf("| golden |");
    for (int i = 3; i < argc; i++)
        printf(" %s: %s |", argv[2], argv[i]);
    printf("\n|---|");
    for (int i = 3; i < argc; i++)
        printf("---|");
    printf("\n");
    for (int entry = 0; entry < n; entry++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", argv[1], entries[entry]->d_name);
        if (entries[entry]->d_name[0] != '.') {
            printf("| %s |", entries[entry]->d_name);
            for (int i = 3; i < argc; i++)
                printf(" %.2e |", error_of(folder, argv[i], strcmp(argv[2], "exact") == 0));
            printf("\n");
        }
        free(entries[entry]);
    }
    free(entries);
    return 0;
}
