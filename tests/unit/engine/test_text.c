/* engine/: text of a request, stop strings, chats, stop ids, a chosen context. */
#include "text_test.h"

#include <stdio.h>

#include "engine/request/text_stream.h"

#define TEMPLATE                                                                                   \
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"  \
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

static text_folder folder;
static golden g; /* its model is of `folder` */

static void write_template(const char *source) {
    text_folder_write(&folder, "tokenizer_config.json",
                      json_pack("{s:s,s:{s:s},s:s}", "bos_token", "<s>", "eos_token", "content",
                                "<|im_end|>", "chat_template", source));
}

static void write_generation(const char *eos) {
    text_folder_write(&folder, "generation_config.json",
                      json_pack("{s:o}", "eos_token_id", json_loads(eos, JSON_DECODE_ANY, NULL)));
}

static int setup(void **state) {
    (void)state;
    text_folder_make(&folder, "llama");
    write_template(TEMPLATE);
    write_generation("[7, 2, 250, 7]");
    golden_open(&g, "llama");
    linnet_model_close(g.model);
    g.model = text_folder_open(&folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    linnet_model_close(g.model);
    text_folder_remove(&folder);
    return 0;
}

/* ---- streams ---------------------------------------------------------------------------- */

typedef struct stream_bench {
    ln_text_stream stream;
    ln_stop_string stops[4];
    uint32_t borders[4][32];
    void *memory;
} stream_bench;

static void stream_open(stream_bench *b, const char *const *stops, size_t n_stops) {
    size_t longest = 0;
    for (size_t i = 0; i < n_stops; i++) {
        size_t n_bytes = strlen(stops[i]);
        ln_stop_string_init(&b->stops[i], stops[i], n_bytes, b->borders[i]);
        longest = n_bytes > longest ? n_bytes : longest;
    }
    ln_layout layout = {0};
    assert_int_equal(ln_text_stream_plan(&layout, g.model->tokenizer, n_stops, longest), 0);
    b->memory = calloc(1, layout.bytes);
    ln_text_stream_init(&b->stream, g.model->tokenizer, false, b->stops, n_stops, longest,
                        b->memory);
}

/* Where the text ends: before the longest stop string that is complete first. */
static size_t expected_end(const char *text, const char *const *stops, size_t n_stops,
                           bool *stopped) {
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (size_t i = 0; i < n_stops; i++) {
            size_t n = strlen(stops[i]);
            if (n <= end && memcmp(text + end - n, stops[i], n) == 0 && n > longest)
                longest = n;
        }
        if (longest > 0) {
            *stopped = true;
            return end - longest;
        }
    }
    *stopped = false;
    return strlen(text);
}

static void check_stream(const char *text, const char *const *stops, size_t n_stops) {
    stream_bench b;
    bool stopped;
    size_t end = expected_end(text, stops, n_stops, &stopped), given = 0, n_bytes, at = 0;
    stream_open(&b, stops, n_stops);
    for (; text[at] != '\0' && !b.stream.stopped; at++) {
        const char *part = ln_text_stream_push(&b.stream, 3 + (unsigned char)text[at], &n_bytes);
        assert_true(given + n_bytes <= end);
        assert_memory_equal(part, text + given, n_bytes);
        given += n_bytes;
    }
    assert_int_equal(b.stream.stopped, stopped);
    const char *rest = ln_text_stream_finish(&b.stream, &n_bytes);
    assert_memory_equal(rest, text + given, n_bytes);
    assert_int_equal(given + n_bytes, end);
    free(b.memory);
}

static void stop_strings_are_cut(void **state) {
    (void)state;
    check_stream("hello world", (const char *const[]){"wor"}, 1);
    check_stream("hello wo", (const char *const[]){"wor"}, 1);
    check_stream("aaab", (const char *const[]){"aab"}, 1);
    check_stream("abc", (const char *const[]){"abcd", "bc"}, 2);
    check_stream("abcd", (const char *const[]){"bcd", "d", "abcd"}, 3);
    check_stream("gr\xc3\xbc\xc3\x9f dich", (const char *const[]){"\xc3\x9f d"}, 1);
    srand(3);
    for (int turn = 0; turn < 3000; turn++) {
        char text[40] = "", stop[3][8] = {""};
        const char *const stops[] = {stop[0], stop[1], stop[2]};
        for (int i = rand() % 39; i > 0; i--)
            text[i - 1] = rand() % 2 ? 'a' : 'b';
        size_t n_stops = (size_t)rand() % 4;
        for (size_t s = 0; s < n_stops; s++)
            for (int i = 1 + rand() % 6; i > 0; i--)
                stop[s][i - 1] = rand() % 2 ? 'a' : 'b';
        check_stream(text, stops, n_stops);
    }
}

static void code_points_come_whole(void **state) {
    (void)state;
    stream_bench b;
    size_t n_bytes;
    stream_open(&b, NULL, 0);
    ln_text_stream_push(&b.stream, 3 + 0xe2, &n_bytes);
    assert_int_equal(n_bytes, 0);
    ln_text_stream_push(&b.stream, 3 + 0x82, &n_bytes);
    assert_int_equal(n_bytes, 0);
    const char *text = ln_text_stream_push(&b.stream, 3 + 0xac, &n_bytes);
    assert_int_equal(n_bytes, 3);
    assert_memory_equal(text, "\xe2\x82\xac", 3);
    ln_text_stream_push(&b.stream, 3 + 0xe2, &n_bytes);
    text = ln_text_stream_finish(&b.stream, &n_bytes);
    assert_int_equal(n_bytes, 3);
    assert_memory_equal(text, "\xef\xbf\xbd", 3);
    free(b.memory);
}

/* ---- generation ------------------------------------------------------------------------- */

typedef struct outcome {
    char text[1024];
    size_t n_bytes, n_ids;
    linnet_finish finish;
} outcome;

static void generate(linnet_engine *engine, const char *stop, outcome *out) {
    linnet_request_options options = greedy_options(&g, 2);
    linnet_event event;
    options.stop = &stop;
    options.n_stop = stop != NULL;
    linnet_request *request = submit(engine, &options);
    out->n_bytes = 0;
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        assert_true(ln_utf8_check(event.text, event.text_bytes));
        assert_true(out->n_bytes + event.text_bytes < sizeof out->text);
        memcpy(out->text + out->n_bytes, event.text, event.text_bytes);
        out->n_bytes += event.text_bytes;
    } while (event.finish == LINNET_FINISH_NONE);
    out->text[out->n_bytes] = '\0';
    out->n_ids = event.n_output_tokens;
    out->finish = event.finish;
    linnet_request_close(request);
}

static void the_engine_stops_at_strings(void **state) {
    (void)state;
    linnet_engine *engine = engine_on(&g, exact_options(128, 1, 64, 1));
    outcome whole, cut;
    generate(engine, NULL, &whole);
    assert_int_equal(whole.finish, LINNET_FINISH_LENGTH);
    assert_int_equal(whole.n_ids, GOLDEN_OUTPUT);
    char *decoded;
    size_t n_bytes;
    assert_int_equal(
        linnet_model_decode(g.model, g.greedy[2], GOLDEN_OUTPUT, false, &decoded, &n_bytes, NULL),
        LINNET_OK);
    assert_int_equal(n_bytes, whole.n_bytes);
    assert_memory_equal(decoded, whole.text, n_bytes);
    linnet_free(decoded);

    size_t from = whole.n_bytes / 2;
    while (from > 0 && ((unsigned char)whole.text[from] & 0xc0) == 0x80)
        from--;
    size_t length = 4;
    while (((unsigned char)whole.text[from + length] & 0xc0) == 0x80)
        length++;
    char stop[16] = "";
    memcpy(stop, whole.text + from, length);
    generate(engine, stop, &cut);
    assert_int_equal(cut.finish, LINNET_FINISH_STOP);
    assert_in_range(cut.n_ids, 1, GOLDEN_OUTPUT - 1);
    assert_int_equal(cut.n_bytes, strstr(whole.text, stop) - whole.text);
    assert_memory_equal(cut.text, whole.text, cut.n_bytes);
    linnet_engine_destroy(engine);
}

/* Two tokens, each a word with the space before it, as SentencePiece has them; the text of a
 * request that answers with them, which is over before when it meets `stop`. */
static void say_words(linnet_engine *engine, const char *stop, bool continues, const char *text,
                      linnet_finish finish) {
    linnet_request_options options = greedy_options(&g, 2);
    linnet_logit_bias bias = {FIRST_BYTE_ID, 100};
    linnet_event event = {0};
    char said[64] = "";
    options.logit_bias = &bias;
    options.n_logit_bias = 1;
    options.max_tokens = 2;
    options.n = 2;
    options.stop = &stop;
    options.n_stop = stop != NULL;
    options.continues_prompt = continues;
    linnet_request *request = submit(engine, &options);
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        if (event.index == 1)
            strncat(said, event.text, event.text_bytes);
        if (event.finish != LINNET_FINISH_NONE)
            assert_int_equal(event.finish, finish);
    } while (event.finish == LINNET_FINISH_NONE || event.n_open > 0);
    assert_string_equal(said, text);
    linnet_request_close(request);
}

static void an_output_may_go_on_from_the_prompt(void **state) {
    (void)state;
    text_folder words;
    char piece[16];
    json_t *vocab = json_object(), *space;
    text_folder_make(&words, "llama");
    for (int id = 0; id < FIRST_BYTE_ID + 253; id++) {
        snprintf(piece, sizeof piece, id == FIRST_BYTE_ID ? "\xe2\x96\x81w" : "\xe2\x96\x81x%d",
                 id);
        json_object_set_new(vocab, piece, json_integer(id));
    }
    space = json_pack("{s:s,s:s,s:s,s:b}", "type", "Metaspace", "replacement", "\xe2\x96\x81",
                      "prepend_scheme", "always", "split", 0);
    text_folder_write(&words, "tokenizer.json",
                      json_pack("{s:s,s:[],s:n,s:O,s:n,s:o,s:{s:s,s:o,s:[]}}", "version", "1.0",
                                "added_tokens", "normalizer", "pre_tokenizer", space,
                                "post_processor", "decoder", space, "model", "type", "BPE", "vocab",
                                vocab, "merges"));
    linnet_model *model = text_folder_open(&words);
    linnet_engine *engine;
    linnet_engine_options options = exact_options(128, 2, 64, 1);
    assert_int_equal(linnet_engine_create(model, &options, &engine, NULL), LINNET_OK);
    say_words(engine, NULL, false, "w w", LINNET_FINISH_LENGTH);
    say_words(engine, NULL, true, " w w", LINNET_FINISH_LENGTH);
    say_words(engine, " w", false, "w", LINNET_FINISH_STOP);
    say_words(engine, " w", true, "", LINNET_FINISH_STOP);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    text_folder_remove(&words);
}

static void stop_ids_are_the_union(void **state) {
    (void)state;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(g.model, &info);
    assert_int_equal(info.n_stop_ids,
                     3); /* 2 of config.json, the list, and <|im_end|>, which is 2 */
    assert_memory_equal(info.stop_ids, ((int32_t[]){2, 7, 250}), 3 * sizeof(int32_t));
    assert_int_equal(info.n_vocab, N_VOCAB);
    assert_true(info.has_tokenizer && info.has_chat_template);
    assert_string_equal(info.name, strrchr(folder.path, '/') + 1);
    assert_string_equal(info.architecture, "llama");

    linnet_model *model;
    linnet_error err = {0};
    write_generation("[2, 256, 7]"); /* 256 cannot be sampled */
    assert_int_equal(linnet_model_open(folder.path, &model, &err), LINNET_OK);
    linnet_model_get_info(model, &info);
    assert_int_equal(info.n_stop_ids, 2);
    assert_memory_equal(info.stop_ids, ((int32_t[]){2, 7}), 2 * sizeof(int32_t));
    linnet_model_close(model);
    model = NULL;
    write_generation("[2, -1]");
    assert_int_equal(linnet_model_open(folder.path, &model, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, "eos_token_id in generation_config.json is -1"));
    write_generation("\"two\"");
    assert_int_equal(linnet_model_open(folder.path, &model, &err), LINNET_ERR_FORMAT);
    assert_null(model);
    write_generation("2");
}

/* ---- what generation_config.json forbids ------------------------------------------------- */

static void write_forbidden(const char *words, const char *tokens) {
    text_folder_write(&folder, "generation_config.json",
                      json_pack("{s:i,s:o,s:o}", "eos_token_id", 2, "bad_words_ids",
                                json_loads(words, JSON_DECODE_ANY, NULL), "suppress_tokens",
                                json_loads(tokens, JSON_DECODE_ANY, NULL)));
}

static void refuse_forbidden(const char *words, const char *tokens, const char *why) {
    linnet_model *model = NULL;
    linnet_error err = {0};
    write_forbidden(words, tokens);
    assert_int_equal(linnet_model_open(folder.path, &model, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, why));
    assert_null(model);
}

/* Greedy tokens of the first prompt: two of those that come without rules are forbidden, the
 * second behind the first alone. */
static void forbidden_words_never_come(void **state) {
    (void)state;
    char words[128], tokens[32];
    int32_t first = g.greedy[0][0], second = g.greedy[0][1], ids[MAX_IDS];
    linnet_engine_options options = exact_options(0, 1, 0, 1);
    linnet_request_options o = greedy_options(&g, 0);
    linnet_finish finish;
    linnet_model *plain = g.model;
    (void)snprintf(words, sizeof words, "[[2], [%d, %d], [7, 256], [-1]]", first, second);
    (void)snprintf(tokens, sizeof tokens, "[256, -1]");
    for (int round = 0; round < 2; round++) {
        write_forbidden(words, tokens);
        g.model = text_folder_open(&folder);
        linnet_engine *engine = engine_on(&g, options);
        assert_int_equal(receive(submit(engine, &o), ids, &finish), GOLDEN_OUTPUT);
        linnet_engine_destroy(engine);
        linnet_model_close(g.model);
        g.model = plain;
        assert_true(round == 0 ? ids[0] == first : ids[0] != first);
        for (size_t i = 1; i < GOLDEN_OUTPUT; i++)
            assert_true(ids[i - 1] != first || ids[i] != second);
        (void)snprintf(tokens, sizeof tokens, "[%d]", first);
    }
    refuse_forbidden("[[1], 2]", "null", "bad_words_ids: an entry is no list of 1 to 256 ids");
    refuse_forbidden("[[]]", "null", "bad_words_ids: an entry is no list of 1 to 256 ids");
    refuse_forbidden("[[1, \"a\"]]", "null", "bad_words_ids: an entry is no token id");
    refuse_forbidden("null", "[1.5]", "suppress_tokens: an entry is no token id");
    refuse_forbidden("7", "null", "bad_words_ids is no list of at most 65536 entries");
    write_generation("2");
}

/* A checkpoint made for more than memory holds gets what fits. */
static void a_chosen_context_fits_free_memory(void **state) {
    (void)state;
    char path[256];
    text_folder_path(&folder, path, "config.json");
    json_t *config = json_load_file(path, 0, NULL);
    json_object_set_new(config, "max_position_embeddings", json_integer(1 << 30));
    unlink(path);
    text_folder_write(&folder, "config.json", config);
    linnet_model *model;
    linnet_error err = {0};
    linnet_engine_options options = exact_options(0, 1, 0, 1);
    linnet_memory_plan plan = {.struct_bytes = sizeof plan}, crowd = plan, given = plan;
    if (linnet_model_open(folder.path, &model, &err) != LINNET_OK ||
        linnet_plan_memory(model, &options, &plan, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    size_t pages = (size_t)sysconf(_SC_PHYS_PAGES), page = (size_t)sysconf(_SC_PAGESIZE);
    assert_in_range(plan.ctx_tokens, 512, 1 << 30);
    assert_true(plan.ctx_tokens == 1 << 30 || plan.ctx_tokens % 256 == 0);
    assert_true(plan.total_bytes <= pages * page / 2);
    options.max_seqs = 16;
    assert_int_equal(linnet_plan_memory(model, &options, &crowd, &err), LINNET_OK);
    assert_true(crowd.ctx_tokens < plan.ctx_tokens);
    options.ctx_tokens = crowd.ctx_tokens; /* given, the same context takes the same bytes */
    assert_int_equal(linnet_plan_memory(model, &options, &given, &err), LINNET_OK);
    assert_memory_equal(&given, &crowd, sizeof given);
    linnet_model_close(model);
    unlink(path);
    text_folder_link(&folder, "llama", "config.json");
}

/* ---- chats ------------------------------------------------------------------------------ */

/* The ids of text where \1 and \2 stand for control tokens 1 and 2, and \3 for 0. */
static size_t ids_of(const char *text, int32_t *ids) {
    size_t n = 0;
    for (; *text != '\0'; text++)
        ids[n++] = *text > 3 ? 3 + *text : *text % 3;
    return n;
}

static void chats_keep_contents_text(void **state) {
    (void)state;
    int32_t *ids, expected[MAX_IDS];
    size_t n_ids;
    linnet_error err = {0};
    linnet_status status = linnet_model_encode_chat(
        g.model, "[{\"role\": \"user\", \"content\": \"Hi<|im_end|><s>\"}]", &ids, &n_ids, &err);
    if (status != LINNET_OK)
        fail_msg("%s", err.message);
    assert_int_equal(n_ids, ids_of("\3\1user\nHi<|im_end|><s>\2\n\1assistant\n", expected));
    assert_memory_equal(ids, expected, n_ids * sizeof *ids);
    linnet_free(ids);
    /* a control token that begins in a content and ends in the template is none */
    assert_int_equal(linnet_model_encode_chat(g.model,
                                              "[{\"role\": \"<|im_end|\", \"content\": "
                                              "\"<|im_start|\"}]",
                                              &ids, &n_ids, &err),
                     LINNET_OK);
    assert_int_equal(n_ids, ids_of("\3\1<|im_end|\n<|im_start|\2\n\1assistant\n", expected));
    assert_memory_equal(ids, expected, n_ids * sizeof *ids);
    linnet_free(ids);
}

static void refuse_chat(const linnet_model *model, const char *messages, linnet_status status,
                        const char *part) {
    int32_t *ids;
    size_t n_ids;
    linnet_error err = {0};
    assert_int_equal(linnet_model_encode_chat(model, messages, &ids, &n_ids, &err), status);
    assert_null(ids);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void chats_are_refused_with_a_reason(void **state) {
    (void)state;
    refuse_chat(g.model, "[{\"role\": ", LINNET_ERR_ARGUMENT, "messages: line 1");
    refuse_chat(g.model, "{}", LINNET_ERR_ARGUMENT, "array of objects");
    refuse_chat(g.model, "[{}, 3]", LINNET_ERR_ARGUMENT, "array of objects");

    linnet_model *model;
    linnet_error err = {0};
    write_template("{% for m in %}");
    if (linnet_model_open(folder.path, &model, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    assert_false(info.has_chat_template);
    int32_t *ids;
    size_t n_ids;
    assert_int_not_equal(linnet_model_encode_chat(model, "[]", &ids, &n_ids, &err), LINNET_OK);
    assert_non_null(strstr(err.message, "chat template"));
    linnet_model_close(model);

    write_template("{{ raise_exception('roles must alternate') }}");
    assert_int_equal(linnet_model_open(folder.path, &model, &err), LINNET_OK);
    refuse_chat(model, "[]", LINNET_ERR_ARGUMENT, "roles must alternate");
    linnet_model_close(model);
    write_template(TEMPLATE);

    golden plain;
    golden_open(&plain, "llama");
    refuse_chat(plain.model, "[]", LINNET_ERR_STATE, "has no tokenizer");
    linnet_model_close(plain.model);
}

static void text_goes_to_ids_and_back(void **state) {
    (void)state;
    int32_t *ids, expected[MAX_IDS];
    size_t n_ids, n_bytes;
    char *text;
    linnet_error err = {0};
    assert_int_equal(linnet_model_encode(g.model, "a<s>b", 5, false, false, &ids, &n_ids, &err), 0);
    assert_int_equal(n_ids, ids_of("a<s>b", expected));
    assert_memory_equal(ids, expected, n_ids * sizeof *ids);
    linnet_free(ids);
    assert_int_equal(linnet_model_encode(g.model, "a<s>b", 5, false, true, &ids, &n_ids, &err), 0);
    assert_int_equal(n_ids, ids_of("a\3b", expected));
    assert_memory_equal(ids, expected, n_ids * sizeof *ids);
    assert_int_equal(linnet_model_decode(g.model, ids, n_ids, true, &text, &n_bytes, &err), 0);
    assert_string_equal(text, "a<s>b");
    linnet_free(text);
    assert_int_equal(linnet_model_decode(g.model, ids, n_ids, false, &text, &n_bytes, &err), 0);
    assert_string_equal(text, "ab");
    assert_int_equal(n_bytes, 2);
    linnet_free(text);
    assert_int_equal(linnet_model_decode(g.model, ids, 0, false, &text, &n_bytes, &err), 0);
    assert_string_equal(text, "");
    linnet_free(text);
    linnet_free(ids);
}

/* What comes before a grammar's text is a field of the request, for any grammar; equal texts with
 * other reasoning are other grammars. */
static void reasoning_comes_before_grammars(void **state) {
    (void)state;
    static const struct {
        linnet_reasoning reasoning;
        bool begins; /* '<' is the likeliest */
        linnet_finish finish;
        const char *text; /* NULL: no matter, of max_tokens */
    } cases[] = {
        {LINNET_REASONING_OPEN, false, LINNET_FINISH_LENGTH, NULL},
        {LINNET_REASONING_NONE, false, LINNET_FINISH_STOP, "77"},
        {LINNET_REASONING_NONE, true, LINNET_FINISH_STOP, "77"},
        {LINNET_REASONING_MAY_COME, true, LINNET_FINISH_LENGTH, "<think>"},
        {LINNET_REASONING_MAY_COME, false, LINNET_FINISH_STOP, "77"},
    };
    int32_t less[2], ids[MAX_IDS];
    assert_int_equal(ids_of("<7", less), 2);
    linnet_engine *engine = engine_on(&g, exact_options(96, 1, 64, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const linnet_logit_bias bias = {less[cases[i].begins ? 0 : 1], 100};
        linnet_request_options o = greedy_options(&g, 0);
        linnet_finish finish;
        linnet_error err = {0};
        char *text;
        size_t n_bytes;
        o.max_tokens = 7;
        o.logit_bias = &bias;
        o.n_logit_bias = 1;
        o.grammar_kind = LINNET_GRAMMAR_REGEX;
        o.grammar = cases[i].begins ? "7[7]" : "[0-9]{2}";
        o.grammar_bytes = strlen(o.grammar);
        o.reasoning = cases[i].reasoning;
        size_t n_ids = receive(submit(engine, &o), ids, &finish);
        assert_int_equal(finish, cases[i].finish);
        assert_int_equal(linnet_model_decode(g.model, ids, n_ids, true, &text, &n_bytes, &err),
                         LINNET_OK);
        if (cases[i].text != NULL)
            assert_string_equal(text, cases[i].text);
        linnet_free(text);
    }
    linnet_engine_destroy(engine);
}

/* The ids of one pair, as a line. */
static char *pair_ids(const linnet_model *model) {
    int32_t *ids;
    size_t n_ids, n_first;
    linnet_error err = {0};
    if (linnet_model_encode_pair(model, "a b", 3, "c", 1, 0, &ids, &n_ids, &n_first, &err) !=
        LINNET_OK)
        fail_msg("%s", err.message);
    ln_strbuf line;
    ln_strbuf_init(&line);
    for (size_t i = 0; i < n_ids; i++)
        ln_strbuf_printf(&line, "%d ", (int)ids[i]);
    linnet_free(ids);
    return ln_strbuf_take(&line);
}

static void pairs_follow_the_chat_template(void **state) {
    (void)state;
    static const char both[] = "{{ messages[-2].content }}?{{ messages[-1].content }}",
                      one[] = "{{ messages[-1].content }}", none[] = "{{ raise_exception('no') }}";
    linnet_model *model;
    assert_int_equal(
        linnet_model_open(TEST_SOURCE_DIR "/tests/golden/embeddings/qwen3_reranker", &model, NULL),
        LINNET_OK);
    assert_int_equal(linnet_model_set_chat_template(model, both, sizeof both - 1, NULL), LINNET_OK);
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(linnet_model_encode(model, "a b?c", 5, false, false, &ids, &n_ids, NULL),
                     LINNET_OK);
    char *short_line = pair_ids(model), *usual, *again;
    assert_int_equal(atoi(short_line), ids[0]);
    linnet_free(ids);
    assert_int_equal(linnet_model_set_chat_template(model, one, sizeof one - 1, NULL), LINNET_OK);
    usual = pair_ids(model);
    assert_true(strlen(usual) > 5 * strlen(short_line)); /* it asks */
    assert_int_equal(linnet_model_set_chat_template(model, none, sizeof none - 1, NULL), LINNET_OK);
    again = pair_ids(model);
    assert_string_equal(again, usual);
    free(again);
    assert_int_equal(linnet_model_set_chat_template(model, both, sizeof both - 1, NULL), LINNET_OK);
    again = pair_ids(model);
    assert_string_equal(again, short_line);
    free(again);
    free(usual);
    free(short_line);
    linnet_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_strings_are_cut),
        cmocka_unit_test(code_points_come_whole),
        cmocka_unit_test(the_engine_stops_at_strings),
        cmocka_unit_test(an_output_may_go_on_from_the_prompt),
        cmocka_unit_test(stop_ids_are_the_union),
        cmocka_unit_test(forbidden_words_never_come),
        cmocka_unit_test(a_chosen_context_fits_free_memory),
        cmocka_unit_test(chats_keep_contents_text),
        cmocka_unit_test(chats_are_refused_with_a_reason),
        cmocka_unit_test(text_goes_to_ids_and_back),
        cmocka_unit_test(reasoning_comes_before_grammars),
        cmocka_unit_test(pairs_follow_the_chat_template),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
