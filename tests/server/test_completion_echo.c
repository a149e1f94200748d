/* Where the tokens of an echoed prompt begin in it, by tokenizers that add, drop, change and lack
 * characters of a text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "server/completions/completion_echo.h"
#include "test.h"

#define FOLDER TEST_SOURCE_DIR "/tests/golden/tokenizers/"

typedef struct echo_case {
    const char *tokenizer, *text;
    int64_t truncates; /* 0: not */
    bool truncates_end;
    const char *parts; /* what begins at each token, with '|' between them */
} echo_case;

static const echo_case cases[] = {
    {"llama2", "Hello world", 0, false, "|H|ell|o |wor|l|d"},
    {"llama2", "<s>Hello</s> there", 0, false, "|<s>|H|ell|o|</s>| |ther|e"},
    {"llama2", "Hello world", 2, false, "l|d"},
    {"llama2", "Hello world", 3, true, "|H|ell"},
    {"spm_unigram", "two  spaces\there ", 0, false, "|two|  sp|a|ce|s|\there "},
    {"unigram", "line\nbreak", 0, false, "|line|\n|b|re|a|k|"}, /* it has no newline */
    {"unigram", "\xc3\x9c \xf0\x9f\x99\x82 a", 0, false, "|\xc3\x9c| |\xf0\x9f\x99\x82| a|"},
    {"wordpiece", "Hello  World", 0, false, "|He|ll|o|  World|"},
};

/* The prompt's text, cut where tokens begin. */
static char *join_parts(const ln_prompt *prompt) {
    ln_strbuf parts;
    size_t n_chars = 0, at = 0;
    ln_strbuf_init(&parts);
    for (size_t i = 1; i <= prompt->n_ids; i++) {
        for (; n_chars < prompt->offsets[i]; n_chars++)
            do
                ln_strbuf_putc(&parts, prompt->text[at++]);
            while (((unsigned char)prompt->text[at] & 0xc0) == 0x80);
        if (i < prompt->n_ids)
            ln_strbuf_putc(&parts, '|');
    }
    assert_int_equal(at, prompt->text_bytes);
    return ln_strbuf_take(&parts);
}

static void check(const echo_case *c) {
    char path[256];
    ln_error err = {0};
    linnet_model model = {0};
    ln_prompt prompt = {0};
    ln_api_error error = {0};
    ln_shown_ids shown;
    const ln_generation_request request = {.echoes = true,
                                           .truncates = c->truncates > 0 ? c->truncates : INT64_MAX,
                                           .truncates_end = c->truncates_end};
    snprintf(path, sizeof path, FOLDER "%s", c->tokenizer);
    if (ln_checkpoint_open(path, true, &model.checkpoint, &err) != LINNET_OK ||
        ln_tokenizer_open(model.checkpoint, &model.tokenizer, &err) != LINNET_OK)
        fail_msg("%s: %s", path, err.message);
    json_t *text = json_string(c->text);
    assert_int_equal(linnet_model_encode(&model, c->text, strlen(c->text), true, true, &prompt.ids,
                                         &prompt.n_ids, &err),
                     LINNET_OK);
    assert_true(ln_completion_echo_find(&model, text, &prompt, &shown, &error));
    assert_true(ln_completion_echo_keep(&model, text, shown, &request, &prompt, &error));
    ln_prompt_truncate(&prompt, &request, 1000);
    char *parts = join_parts(&prompt);
    if (strcmp(parts, c->parts) != 0)
        fail_msg("%s: %s is cut into %s, not %s", c->tokenizer, c->text, parts, c->parts);
    free(parts);
    json_decref(text);
    linnet_free(prompt.ids);
    free(prompt.text);
    free(prompt.offsets);
    ln_tokenizer_close(model.tokenizer);
    ln_checkpoint_close(model.checkpoint);
}

static void places_tokens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

/* What is normalised is not looked for far behind an unknown character. */
static void stays_near_unknown_characters(void **state) {
    (void)state;
    enum { N_FILLERS = 2000 };
    static const char head[] = "\n\xef\xbc\x9a"; /* unknown, and a wide colon */
    char text[sizeof head + N_FILLERS + 1], parts[2 * sizeof text + 8];
    memcpy(text, head, sizeof head - 1);
    memset(text + sizeof head - 1, 'k', N_FILLERS);
    strcpy(text + sizeof head - 1 + N_FILLERS, ":");
    size_t n = (size_t)snprintf(parts, sizeof parts, "||\n\xef\xbc\x9a");
    for (size_t i = 0; i < N_FILLERS; i++, n += 2)
        memcpy(parts + n, "|k", 2);
    strcpy(parts + n, "|:|");
    check(&(echo_case){"unigram", text, 0, false, parts});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_tokens),
                                       cmocka_unit_test(stays_near_unknown_characters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
