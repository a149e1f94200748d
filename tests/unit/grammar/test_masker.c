/* Masks of tokens: equal to what trying every token gives, valid texts out of
 * random tokens, states that are copied, gone back to and forgotten. */
#include "grammar_test.h"

#include <jansson.h>
#include <math.h>

#include "base/rng.h"
#include "grammar/compiled.h"

static const char arithmetic[] = "root ::= term ([-+] term)*\n"
                                 "term ::= [0-9]+ | \"(\" root \")\" | [^0-9()+\\x2d]{2}\n";
static const char rich[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", "
    "\"minLength\": 2, "
    "\"maxLength\": 5}, \"a\": {\"type\": \"array\", \"items\": {\"type\": "
    "[\"integer\", "
    "\"null\"]}}, \"b\": {\"type\": \"string\"}, \"x\": {\"$ref\": \"#\"}}, "
    "\"required\": "
    "[\"name\"], \"additionalProperties\": {\"type\": \"number\"}}";

static const struct {
    linnet_grammar_kind kind;
    const char *text;
} grammars[] = {
    {LINNET_GRAMMAR_JSON, NULL},
    {LINNET_GRAMMAR_JSON_SCHEMA, rich},
    {LINNET_GRAMMAR_JSON_SCHEMA, "{\"type\": \"array\", \"items\": {\"type\": \"string\", "
                                 "\"maxLength\": 1}}"},
    {LINNET_GRAMMAR_JSON_SCHEMA, "{\"type\": \"array\", \"items\": {\"type\": "
                                 "\"string\", \"minLength\": 20, "
                                 "\"maxLength\": 40}, \"minItems\": 1}"},
    {LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"object\", \"properties\": {\"name\": {\"pattern\": \"^[a-c]+1$\", \"type\": "
     "\"string\", \"maxLength\": 4}, \"a\": {\"type\": \"integer\"}, \"abc\": {\"not\": {\"type\": "
     "[\"object\", \"array\", \"boolean\", \"string\"]}}}, \"additionalProperties\": {\"type\": "
     "[\"number\", \"array\"], \"maxItems\": 0}, \"required\": [\"a\"], \"maxProperties\": 3, "
     "\"patternProperties\": {\"^b\": {\"multipleOf\": 3, \"type\": \"integer\"}}}"},
    {LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"array\", \"items\": {\"enum\": [\"a\", \"ab\", \"abc\", 12]}, \"uniqueItems\": "
     "true}"},
    {LINNET_GRAMMAR_GBNF, arithmetic},
    {LINNET_GRAMMAR_REGEX, "(\xc3\xa9|[a-c]{1,4}\"?)*.\\{"},
    {LINNET_GRAMMAR_CHOICE, "[\"abc\", \"a\", \"name\\\": {\"]"},
    {LINNET_GRAMMAR_GBNF, "root ::= (. | \"a\" [^a])* \"}\""},
    {LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"type\": [\"string\", \"null\"], "
     "\"pattern\": \"^[abc]{0,2}$\"}}"},
    {LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"type\": \"string\"}}"},
    {LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"type\": [\"number\", "
     "\"null\"]}}"},
    {LINNET_GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"array\", \"uniqueItems\": "
     "true, "
     "\"minItems\": 2, \"maxItems\": 6, \"items\": {\"type\": \"integer\", \"minimum\": 1, "
     "\"maximum\": 15}}}"},
};
/* Of the last, whose items differ, a token that ends an item and begins another may be missing. */
enum { N_UNIQUE = 4 };
enum { N_GRAMMARS = sizeof grammars / sizeof *grammars, MAX_TEXT = 4096, MAX_TOKENS = 200 };

typedef struct text_so_far {
    int32_t tokens[MAX_TOKENS];
    size_t n_tokens;
    char bytes[MAX_TEXT];
    size_t n_bytes;
} text_so_far;

static void push(text_so_far *text, int32_t id) {
    ln_token_text token = test_text(NULL, id);
    assert_true(text->n_bytes + token.n_bytes < MAX_TEXT);
    memcpy(text->bytes + text->n_bytes, token.data, token.n_bytes);
    text->n_bytes += token.n_bytes;
    text->tokens[text->n_tokens++] = id;
}

static bool has(const uint64_t *mask, int32_t id) {
    return (mask[id / 64] >> id % 64 & 1) != 0;
}

/* Tries every token behind the text, with a grammar of its own. */
static void check_mask(ln_grammar *oracle, const text_so_far *text, const uint64_t *mask,
                       bool may_end, bool is_unique) {
    char bytes[MAX_TEXT + 16];
    size_t n_accepted;
    bool complete;
    ln_error err = {0};
    memcpy(bytes, text->bytes, text->n_bytes);
    assert_int_equal(ln_grammar_match(oracle, bytes, text->n_bytes, &n_accepted, &complete, &err),
                     LINNET_OK);
    assert_int_equal(n_accepted, text->n_bytes);
    assert_int_equal(complete, may_end);
    for (int32_t id = 0; id < N_TEST_VOCAB; id++) {
        ln_token_text token = test_text(NULL, id);
        bool expected = false;
        if (token.n_bytes > 0 && !token.is_special &&
            memchr(token.data, 0xff, token.n_bytes) == NULL) {
            memcpy(bytes + text->n_bytes, token.data, token.n_bytes);
            size_t n_bytes = text->n_bytes + token.n_bytes;
            assert_int_equal(ln_grammar_match(oracle, bytes, n_bytes, &n_accepted, &complete, &err),
                             LINNET_OK);
            expected = n_accepted == n_bytes;
        }
        if (is_unique && !has(mask, id) && token.n_bytes > 1 &&
            memchr(token.data, ',', token.n_bytes) != NULL)
            continue;
        if (has(mask, id) != expected)
            fail_msg("after \"%.*s\": token %d \"%.*s\" is %s", (int)text->n_bytes, text->bytes,
                     (int)id, (int)token.n_bytes, token.data, expected ? "missing" : "allowed");
    }
}

/* A token of the mask by the n-th random number, or -1. */
static int32_t draw(const uint64_t *mask, uint64_t seed, size_t n) {
    int32_t allowed[N_TEST_VOCAB];
    size_t n_allowed = 0;
    for (int32_t id = 0; id < N_TEST_VOCAB; id++)
        if (has(mask, id))
            allowed[n_allowed++] = id;
    if (n_allowed == 0)
        return -1;
    size_t at = (size_t)(ln_rng_uniform(seed, 0, (uint32_t)n, 0) * (float)n_allowed);
    return allowed[at < n_allowed ? at : n_allowed - 1];
}

static void masks_are_what_trying_gives(void **state) {
    (void)state;
    ln_masker masker;
    void *memory = make_masker(&masker);
    ln_grammar *common;
    ln_error failure = {0};
    assert_int_equal(ln_grammar_share(&masker.trie, &common, &failure), LINNET_OK);
    for (size_t g = 0; g < 2 * N_GRAMMARS;
         g++) { /* with tables of their own, and with shared ones */
        masker.trie.common = g < N_GRAMMARS ? NULL : common;
        const char *source = grammars[g % N_GRAMMARS].text;
        ln_grammar *grammar = compile(grammars[g % N_GRAMMARS].kind, source, &masker.trie);
        ln_grammar *oracle = compile(grammars[g % N_GRAMMARS].kind, source, NULL);
        for (uint64_t seed = 0; seed < 30; seed++) {
            text_so_far text = {0};
            ln_grammar_state where = {0};
            for (size_t n = 0; n < 40; n++) {
                const uint64_t *mask;
                bool may_end;
                ln_error err = {0};
                if (ln_masker_get(&masker, grammar, &where, text.tokens, text.n_tokens, &mask,
                                  &may_end, &err) != LINNET_OK)
                    fail_msg("%s", err.message);
                check_mask(oracle, &text, mask, may_end, g % N_GRAMMARS >= N_GRAMMARS - N_UNIQUE);
                int32_t id = draw(mask, seed, n);
                if (id < 0) {
                    if (!may_end)
                        fail_msg("nothing may follow %.*s", (int)text.n_bytes, text.bytes);
                    break;
                }
                push(&text, id);
            }
        }
        ln_grammar_release(grammar);
        ln_grammar_release(oracle);
    }
    assert_true(masker.n_found > 0);
    ln_grammar_release(common);
    free(memory);
}

/* ---- random texts ---------------------------------------------------------------------------- */

static void check_rich(const json_t *value) {
    const char *key;
    json_t *member;
    size_t i;
    json_t *item;
    assert_true(json_is_object(value));
    assert_true(json_is_string(json_object_get(value, "name")));
    json_object_foreach((json_t *)value, key, member) {
        if (strcmp(key, "name") == 0) {
            size_t n = 0;
            for (const char *at = json_string_value(member); *at != '\0'; at++)
                n += ((unsigned char)*at & 0xc0) != 0x80;
            assert_in_range(n, 2, 5);
        } else if (strcmp(key, "a") == 0) {
            assert_true(json_is_array(member));
            json_array_foreach(member, i, item)
                assert_true(json_is_integer(item) || json_is_null(item));
        } else if (strcmp(key, "b") == 0) {
            assert_true(json_is_string(member));
        } else if (strcmp(key, "x") == 0) {
            check_rich(member);
        } else {
            assert_true(json_is_number(member));
        }
    }
}

/* Random tokens; where the text may end, it often does. */
static bool generate(ln_masker *masker, ln_grammar *grammar, uint64_t seed, text_so_far *text) {
    ln_grammar_state where = {0};
    int32_t stops[] = {TEST_EMPTY};
    for (size_t n = 0; n < MAX_TOKENS; n++) {
        float logits[N_TEST_VOCAB];
        bool ended;
        ln_error err = {0};
        for (int32_t id = 0; id < N_TEST_VOCAB; id++)
            logits[id] = ln_rng_uniform(seed, (uint32_t)id, (uint32_t)n, 1);
        for (int32_t id = 0; id < N_TEST_PIECES; id++) /* what ends things is likely */
            if (strpbrk(test_pieces[id], "]}\"") != NULL)
                logits[id] += 0.3f;
        if (ln_masker_apply(masker, grammar, &where, text->tokens, text->n_tokens, stops, 1, logits,
                            &ended, &err) != LINNET_OK)
            fail_msg("%s after %.*s", err.message, (int)text->n_bytes, text->bytes);
        if (ended || (logits[TEST_EMPTY] > -INFINITY && n % 2 == 0))
            return true;
        int32_t best = -1;
        for (int32_t id = 0; id < N_TEST_VOCAB; id++)
            if (id != TEST_EMPTY && logits[id] > -INFINITY &&
                (best < 0 || logits[id] > logits[best]))
                best = id;
        if (best < 0)
            return true;
        if (text->n_tokens == 0)
            assert_true(test_text(NULL, best).is_plain);
        push(text, best);
    }
    return false;
}

static void random_texts_are_valid(void **state) {
    (void)state;
    ln_masker masker;
    void *memory = make_masker(&masker);
    for (size_t g = 0; g < 4; g++) {
        ln_grammar *grammar = compile(grammars[g].kind, grammars[g].text, &masker.trie);
        size_t n_complete = 0;
        for (uint64_t seed = 0; seed < 400; seed++) {
            text_so_far text = {0};
            if (!generate(&masker, grammar, seed, &text))
                continue;
            json_error_t where;
            json_t *value = json_loadb(text.bytes, text.n_bytes, 0, &where);
            if (value == NULL)
                fail_msg("%s: %.*s", where.text, (int)text.n_bytes, text.bytes);
            if (g == 1)
                check_rich(value);
            n_complete++;
            json_decref(value);
        }
        assert_true(n_complete > 100);
        ln_grammar_release(grammar);
    }
    free(memory);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void states_are_copied_and_gone_back_to(void **state) {
    (void)state;
    ln_masker masker;
    void *memory = make_masker(&masker);
    ln_grammar *grammar = compile(LINNET_GRAMMAR_JSON, NULL, &masker.trie);
    text_so_far text = {0};
    ln_grammar_state states[40] = {0};
    uint64_t masks[40][8];
    const uint64_t *mask;
    bool may_end;
    ln_error err = {0};
    size_t n_words = masker.trie.n_words, n = 0;
    assert_true(n_words <= 8);
    for (; n < 40; n++) {
        if (n > 0)
            states[n] = states[n - 1];
        assert_int_equal(ln_masker_get(&masker, grammar, &states[n], text.tokens, text.n_tokens,
                                       &mask, &may_end, &err),
                         LINNET_OK);
        memcpy(masks[n], mask, n_words * sizeof *mask);
        int32_t id = draw(mask, 11, n);
        if (id < 0 || may_end)
            break;
        push(&text, id);
    }
    assert_true(n > 5);
    for (int forgets = 0; forgets < 2; forgets++) {
        for (size_t i = n; i-- > 0;) {
            ln_grammar_state copy = states[n - 1]; /* ahead: goes back */
            if (forgets)
                ln_automaton_keep(&grammar->automaton, ln_automaton_start(&grammar->automaton));
            assert_int_equal(
                ln_masker_get(&masker, grammar, &states[i], text.tokens, i, &mask, &may_end, &err),
                LINNET_OK);
            assert_memory_equal(mask, masks[i], n_words * sizeof *mask);
            assert_int_equal(
                ln_masker_get(&masker, grammar, &copy, text.tokens, i, &mask, &may_end, &err),
                LINNET_OK);
            assert_memory_equal(mask, masks[i], n_words * sizeof *mask);
        }
    }
    ln_grammar_release(grammar);
    free(memory);
}

/* Sequences that fill the automaton's memory over and over, each with a text of
 * its own. */
static void full_memory_forgets_and_goes_on(void **state) {
    (void)state;
    ln_masker masker;
    void *memory = make_masker(&masker);
    ln_grammar *grammar = compile(LINNET_GRAMMAR_JSON_SCHEMA,
                                  "{\"type\": \"string\", \"minLength\": 8000}", &masker.trie);
    ln_grammar *nested = compile(LINNET_GRAMMAR_GBNF, "root ::= \"a\" root \"b\" | \"c\"", NULL);
    ln_error err = {0};
    bool complete;
    size_t n_accepted;
    char *text = malloc(8192);
    assert_non_null(text);
    memset(text, 'x', 8192);
    text[0] = text[8191] = '"';
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ln_grammar_match(grammar, text, 8192, &n_accepted, &complete, &err),
                         LINNET_OK);
        assert_int_equal(n_accepted, 8192);
        assert_true(complete);
    }
    assert_true(grammar->automaton.generation > 1);
    memset(text, 'a', 8192); /* deeper than stacks may be: not allowed, and no more */
    assert_int_equal(ln_grammar_match(nested, text, 8192, &n_accepted, &complete, &err), LINNET_OK);
    assert_in_range(n_accepted, 100, LN_AUTOMATON_DEPTH);
    free(text);
    ln_grammar_release(grammar);
    ln_grammar_release(nested);
    free(memory);
}

static void ends_are_where_the_grammar_ends(void **state) {
    (void)state;
    ln_masker masker;
    void *memory = make_masker(&masker);
    ln_grammar *grammar = compile(LINNET_GRAMMAR_REGEX, "a(bc)?", &masker.trie);
    int32_t a = -1, ab = -1, abc = -1, stops[] = {TEST_SPECIAL};
    for (int32_t id = 0; id < N_TEST_PIECES; id++) {
        a = strcmp(test_pieces[id], "a") == 0 ? id : a;
        ab = strcmp(test_pieces[id], "ab") == 0 ? id : ab;
        abc = strcmp(test_pieces[id], "abc") == 0 ? id : abc;
    }
    const struct {
        int32_t token; /* -1: none yet */
        bool may_stop, ended;
    } cases[] = {{-1, false, false}, {a, true, false}, {ab, false, false}, {abc, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float logits[N_TEST_VOCAB] = {0};
        bool ended;
        ln_error err = {0};
        ln_grammar_state where = {0};
        assert_int_equal(ln_masker_apply(&masker, grammar, &where, &cases[i].token,
                                         cases[i].token >= 0, stops, 1, logits, &ended, &err),
                         LINNET_OK);
        assert_int_equal(ended, cases[i].ended);
        if (!ended)
            assert_int_equal(logits[TEST_SPECIAL] == 0, cases[i].may_stop);
    }
    ln_grammar_release(grammar);
    /* no token begins with it */
    grammar = compile(LINNET_GRAMMAR_REGEX, "\\x01", &masker.trie);
    float logits[N_TEST_VOCAB] = {0};
    bool ended;
    ln_error err = {0};
    ln_grammar_state where = {0};
    assert_int_equal(
        ln_masker_apply(&masker, grammar, &where, NULL, 0, stops, 1, logits, &ended, &err),
        LINNET_ERR_COMPUTE);
    ln_grammar_release(grammar);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_trying_gives),
        cmocka_unit_test(random_texts_are_valid),
        cmocka_unit_test(states_are_copied_and_gone_back_to),
        cmocka_unit_test(full_memory_forgets_and_goes_on),
        cmocka_unit_test(ends_are_where_the_grammar_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
