/* Times the masks of structured output on large vocabularies: compiling a grammar, the first mask,
 * and each one after it, over texts of random allowed tokens.
 *
 *     build/bench/bench_grammar 131072 VOCABULARY.gguf... [--read FILE] [--write FILE]
 *         [--times FILE] [--cases FILE]
 *
 * With --read, a file adds the texts of tokens, in hexadecimal, a line each; with --write, the
 * vocabulary's go to one. With --times, what the cases took goes to a file, as lines of "compile"
 * or "mask", the number of the case, and microseconds. With --cases, over the texts of a file, of
 * which each line is {"schema": ..., "texts": [...]}. Several vocabularies are one: the texts of
 * all, each once; what is missing to so many tokens are two of them joined. Prints microseconds. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/grow.h"
#include "base/hashmap.h"
#include "base/rng.h"
#include "bench.h"
#include "format/checkpoint.h"
#include "grammar/masker.h"

enum { MAX_VOCAB = 400000, MAX_TOKENS = 400, TEXTS = 20 };

static const struct {
    const char *name;
    linnet_grammar_kind kind;
    const char *text;
} grammars[] = {
    {"any object", LINNET_GRAMMAR_JSON, NULL},
    {"person", LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":130},\"email\":{\"type\":\"string\",\"format\":"
     "\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"address\":{"
     "\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":"
     "\"string\"}},\"required\":[\"street\",\"city\"]}},\"required\":[\"name\",\"age\",\"email\","
     "\"tags\",\"address\"]}"},
    {"lengths", LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"minLength\":3,"
     "\"maxLength\":12},\"text\":{\"type\":\"string\",\"maxLength\":200},\"state\":{\"enum\":["
     "\"open\",\"closed\",\"in "
     "progress\"]},\"when\":{\"type\":\"string\",\"format\":\"date-time\"}},"
     "\"required\":[\"id\",\"text\",\"state\",\"when\"]}"},
    {"recursive", LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},\"children\":{\"type\":"
     "\"array\",\"items\":{\"$ref\":\"#\"}}},\"required\":[\"label\",\"children\"]}"},
    {"map", LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"kind\":{\"type\":\"string\"}},"
     "\"additionalProperties\":"
     "{\"type\":[\"number\",\"string\",\"null\"]}}"},
    {"regex", LINNET_GRAMMAR_REGEX, "([A-Z][a-z]+ ){2,6}[0-9]{1,3}\\."},
};

typedef struct texts {
    ln_token_text items[MAX_VOCAB];
    size_t n;
} texts;

static ln_token_text get_text(const void *source, int32_t id) {
    const texts *all = source;
    return (size_t)id < all->n ? all->items[id] : (ln_token_text){.is_plain = true};
}

static void add(texts *all, ln_hashmap *seen, ln_token_text text) {
    if (all->n < MAX_VOCAB && ln_hashmap_add(seen, text.data, text.n_bytes, 0))
        all->items[all->n++] = text;
}

static size_t draw_below(size_t n, uint32_t at, uint32_t draw) {
    return (size_t)((double)ln_rng_uniform(0, at, draw, 0) * (double)n);
}

/* Adds pairs of short tokens until there are n. */
static void join(texts *all, ln_hashmap *seen, ln_arena *arena, size_t n) {
    size_t n_parts = all->n;
    for (uint32_t at = 0; n_parts > 0 && all->n < n && at < 10 * n; at++) {
        const ln_token_text *left = &all->items[draw_below(n_parts, at, 0)],
                            *right = &all->items[draw_below(n_parts, at, 1)];
        if (left->n_bytes > 6 || right->n_bytes > 6)
            continue;
        char *data = ln_arena_alloc(arena, left->n_bytes + right->n_bytes, 1);
        if (data == NULL)
            return;
        memcpy(data, left->data, left->n_bytes);
        memcpy(data + left->n_bytes, right->data, right->n_bytes);
        add(all, seen,
            (ln_token_text){
                .data = data, .n_bytes = left->n_bytes + right->n_bytes, .is_plain = true});
    }
}

static double now_us(void) {
    return 1e6 * bench_seconds(CLOCK_THREAD_CPUTIME_ID);
}

static int die(const linnet_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

/* The greatest of random logits: strings end now and then. */
static int32_t draw(const texts *all, const float *logits, uint64_t seed, size_t n) {
    int32_t best = -1;
    float best_score = -INFINITY;
    for (size_t id = 0; id < all->n; id++) {
        if (logits[id] == -INFINITY)
            continue;
        float score = ln_rng_uniform(seed, (uint32_t)id, n, 0);
        if (memchr(all->items[id].data, '"', all->items[id].n_bytes) != NULL ||
            memchr(all->items[id].data, '}', all->items[id].n_bytes) != NULL)
            score += ln_rng_uniform(seed, 0, n, 1) < 0.3f ? 1 : 0;
        if (score > best_score) {
            best = (int32_t)id;
            best_score = score;
        }
    }
    return best;
}

static int measure(ln_masker *masker, const texts *all, size_t which, float *logits) {
    static double times[TEXTS * MAX_TOKENS];
    ln_grammar *grammar;
    linnet_error err = {0};
    const char *text = grammars[which].text;
    double began = now_us(), first = 0, total = 0;
    const ln_grammar_source source = {
        .kind = grammars[which].kind, .text = text, .n_bytes = text != NULL ? strlen(text) : 0};
    if (ln_grammar_compile(&source, &masker->trie, &grammar, &err) != LINNET_OK)
        return die(&err);
    double compiled = now_us() - began;
    size_t n_times = 0;
    for (uint64_t seed = 0; seed < TEXTS; seed++) {
        int32_t tokens[MAX_TOKENS];
        ln_grammar_state state = {0};
        for (size_t n = 0; n < MAX_TOKENS; n++) {
            bool ended;
            memset(logits, 0, masker->trie.n_vocab * sizeof *logits);
            began = now_us();
            if (ln_masker_apply(masker, grammar, &state, tokens, n, NULL, 0, logits, &ended,
                                &err) != LINNET_OK)
                return die(&err);
            double took = now_us() - began;
            if (seed == 0 && n == 0)
                first = took;
            else
                times[n_times++] = took;
            if (ended || (tokens[n] = draw(all, logits, seed, n)) < 0)
                break;
        }
    }
    qsort(times, n_times, sizeof *times, bench_compare);
    for (size_t i = 0; i < n_times; i++)
        total += times[i];
    printf("%-12s %9.0f %8.0f %8.1f %8.1f %8.1f %8.1f %8zu\n", grammars[which].name, compiled,
           first, total / (double)n_times, times[n_times / 2], times[n_times * 99 / 100],
           times[n_times - 1], n_times);
    ln_grammar_release(grammar);
    return 0;
}

/* ---- schemas and texts of a file ---------------------------------------------------------------
 */

typedef struct times {
    const char *what;
    FILE *list; /* may be NULL */
    size_t n_case;
    double *us; /* [n], grown */
    size_t n, capacity;
} times;

static void add_time(times *t, double us) {
    if (t->list != NULL)
        fprintf(t->list, "%s %zu %.3f\n", t->what, t->n_case, us);
    if (ln_grow((void **)&t->us, &t->capacity, t->n + 1, sizeof *t->us))
        t->us[t->n++] = us;
}

static void print_times(times *t) {
    if (t->n == 0)
        return;
    qsort(t->us, t->n, sizeof *t->us, bench_compare);
    printf("%-8s p50 %9.1f  p90 %9.1f  p99 %9.1f  most %9.1f us  (%zu)\n", t->what, t->us[t->n / 2],
           t->us[t->n * 9 / 10], t->us[t->n * 99 / 100], t->us[t->n - 1], t->n);
    free(t->us);
}

/* The longest token that the text begins with; -1: none. */
static int32_t find_token(const ln_token_trie *trie, const char *text, size_t n_bytes) {
    int32_t best = -1;
    uint32_t node = 1, end = trie->n_nodes;
    for (size_t at = 0; at < n_bytes && node < end;) {
        if (trie->byte[node] != (uint8_t)text[at]) {
            node = trie->end[node];
            continue;
        }
        best = trie->token[node] >= 0 ? trie->token[node] : best;
        end = trie->end[node];
        node++;
        at++;
    }
    return best;
}

/* Masks along one text, as far as it is allowed. */
static void follow_text(ln_masker *masker, const texts *all, ln_grammar *grammar, const char *text,
                        times *masks) {
    static int32_t tokens[1 << 16];
    size_t n_bytes = strlen(text), n = 0;
    ln_grammar_state state = {0};
    for (size_t at = 0; at < n_bytes && n < sizeof tokens / sizeof *tokens;) {
        const uint64_t *mask;
        bool may_end;
        linnet_error err = {0};
        double began = now_us();
        if (ln_masker_get(masker, grammar, &state, tokens, n, &mask, &may_end, &err) != LINNET_OK)
            return;
        add_time(masks, now_us() - began);
        int32_t token = find_token(&masker->trie, text + at, n_bytes - at);
        if (token < 0 || (mask[token / 64] >> token % 64 & 1) == 0)
            return;
        tokens[n++] = token;
        at += all->items[token].n_bytes;
    }
}

static int measure_cases(ln_masker *masker, const texts *all, const char *path, FILE *list) {
    times compiles = {.what = "compile", .list = list}, masks = {.what = "mask", .list = list};
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 1;
    while (getline(&line, &capacity, file) > 0) {
        json_t *root = json_loads(line, 0, NULL), *text;
        char *schema = json_dumps(json_object_get(root, "schema"), JSON_ENCODE_ANY);
        ln_grammar *grammar = NULL;
        linnet_error err = {0};
        size_t i;
        const ln_grammar_source source = {.kind = LINNET_GRAMMAR_JSON_SCHEMA,
                                          .text = schema,
                                          .n_bytes = schema != NULL ? strlen(schema) : 0};
        double began = now_us();
        if (schema != NULL &&
            ln_grammar_compile(&source, &masker->trie, &grammar, &err) == LINNET_OK) {
            add_time(&compiles, now_us() - began);
            json_array_foreach(json_object_get(root, "texts"), i, text) {
                follow_text(masker, all, grammar, json_string_value(text), &masks);
            }
        }
        ln_grammar_release(grammar);
        free(schema);
        json_decref(root);
        masks.n_case = ++compiles.n_case;
    }
    free(line);
    fclose(file);
    print_times(&compiles);
    print_times(&masks);
    return list == NULL || fclose(list) == 0 ? 0 : 1;
}

/* The texts that write_texts wrote. */
static bool read_texts(texts *all, ln_hashmap *seen, ln_arena *arena, const char *path) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    FILE *file = fopen(path, "r");
    while (file != NULL && (n = getline(&line, &capacity, file)) > 0) {
        size_t n_bytes = 0;
        char *data = ln_arena_alloc(arena, (size_t)n, 1);
        for (unsigned byte; data != NULL && sscanf(line + 2 * n_bytes, "%2x", &byte) == 1;)
            data[n_bytes++] = (char)byte;
        if (n_bytes > 0)
            add(all, seen, (ln_token_text){.data = data, .n_bytes = n_bytes, .is_plain = true});
    }
    free(line);
    return file != NULL && fclose(file) == 0;
}

static bool write_texts(const texts *all, const char *path) {
    FILE *file = fopen(path, "w");
    for (size_t id = 0; file != NULL && id < all->n; id++) {
        for (size_t i = 0; i < all->items[id].n_bytes; i++)
            fprintf(file, "%02x", (unsigned)(unsigned char)all->items[id].data[i]);
        putc('\n', file);
    }
    return file != NULL && fclose(file) == 0;
}

/* The value of an option that ends the arguments, which is taken away; NULL: there is none. */
static const char *take_option(int *argc, char **argv, const char *name) {
    if (*argc < 3 || strcmp(argv[*argc - 2], name) != 0)
        return NULL;
    *argc -= 2;
    return argv[*argc + 1];
}

int main(int argc, char **argv) {
    const char *cases = take_option(&argc, argv, "--cases");
    const char *listed = take_option(&argc, argv, "--times");
    const char *written = take_option(&argc, argv, "--write");
    const char *read = take_option(&argc, argv, "--read");
    static texts all;
    linnet_error err = {0};
    ln_arena arena;
    ln_hashmap seen;
    ln_masker masker;
    ln_layout layout = {0};
    ln_arena_init(&arena);
    if (!ln_hashmap_init(&seen, &arena, MAX_VOCAB))
        return 1;
    size_t n_vocab = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc; i++) {
        ln_checkpoint *checkpoint;
        ln_tokenizer *tokenizer;
        if (ln_checkpoint_open(argv[i], true, &checkpoint, &err) != LINNET_OK ||
            ln_tokenizer_open(checkpoint, &tokenizer, &err) != LINNET_OK)
            return die(&err);
        for (size_t id = 0; id < ln_tokenizer_vocab_size(tokenizer); id++) {
            ln_token_text text = ln_tokenizer_text(tokenizer, (int32_t)id);
            text.is_plain = true;
            if (text.n_bytes > 0 && !text.is_special)
                add(&all, &seen, text);
        }
    }
    if (read != NULL && !read_texts(&all, &seen, &arena, read))
        return 1;
    join(&all, &seen, &arena, n_vocab < MAX_VOCAB ? n_vocab : MAX_VOCAB);
    if (written != NULL && !write_texts(&all, written))
        return 1;
    size_t n_bytes = ln_token_trie_measure(get_text, &all, all.n);
    ln_masker_plan(all.n, n_bytes, &layout);
    void *memory = calloc(1, layout.bytes);
    float *logits = malloc((all.n + 1) * sizeof *logits);
    if (memory == NULL || logits == NULL || all.n == 0)
        return 1;
    ln_masker_init(&masker, all.n, n_bytes, memory);
    double began = now_us();
    if (ln_masker_load(&masker, get_text, &all, &err) != LINNET_OK)
        return die(&err);
    ln_grammar *common;
    if (ln_grammar_share(&masker.trie, &common, &err) != LINNET_OK)
        return die(&err);
    printf("%zu tokens, trie of %u nodes in %.0f ms, arena %.1f MB\n\n", all.n, masker.trie.n_nodes,
           (now_us() - began) * 1e-3, (double)layout.bytes * 1e-6);
    if (cases != NULL)
        return measure_cases(&masker, &all, cases, listed != NULL ? fopen(listed, "w") : NULL);
    printf("%-12s %9s %8s %8s %8s %8s %8s %8s\n", "grammar", "compile", "first", "mean", "median",
           "p99", "most", "tokens");
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++)
        if (measure(&masker, &all, i, logits) != 0)
            return 1;
    free(logits);
    free(memory);
    return 0;
}
