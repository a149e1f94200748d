/* Regular expressions: Oniguruma's Ruby syntax as Hugging Face tokenizers uses it. The expected
 * matches are that library's. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "text/regex/regex.h"

/* The matches of a pattern as "[a][b]". */
static char *matches(const char *pattern, const char *text) {
    ln_regex *regex;
    ln_error err = {0};
    if (ln_regex_compile(pattern, strlen(pattern), &regex, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    ln_regex_work work = {0};
    ln_regex_walk walk = {0};
    ln_strbuf out;
    ln_strbuf_init(&out);
    for (;;) {
        size_t begin, end;
        bool found;
        assert_int_equal(
            ln_regex_next(regex, &work, &walk, text, strlen(text), &begin, &end, &found, &err),
            LINNET_OK);
        if (!found)
            break;
        ln_strbuf_printf(&out, "[%.*s]", (int)(end - begin), text + begin);
    }
    assert_true(ln_regex_bytes(regex) > 0);
    ln_regex_work_free(&work);
    ln_regex_free(regex);
    return ln_strbuf_take(&out);
}

static void patterns_match_as_in_oniguruma(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text, *expected;
    } cases[] = {
        {"(?m:.)+", "a\nb", "[a\nb]"},
        {".+", "a\nb", "[a][b]"},
        {"^.", "ab\ncd", "[a][c]"},
        {"\\p{N}{1,2}+", "1234567 12", "[1234567][12]"},
        {"a{2}?", "aaaa", "[aa][aa]"},
        {"a{1,2}?", "aaaa", "[a][a][a][a]"},
        {"a{,2}", "aaaaa", "[aa][aa][a]"},
        {"x{a", "x{a", "[x{a]"},
        {"[\\p{L}&&[^\\p{Han}]]+",
         "abc\xe6\xbc\xa2\xe5\xad\x97"
         "def",
         "[abc][def]"},
        {"[\\w&&[^b]&&[^d]]+", "abcde", "[a][c][e]"},
        {"[a[bc]]+", "abcd", "[abc]"},
        {"[a[^b]]+", "abc", "[a][c]"},
        {"[]a]+", "x]a", "[]a]"},
        {"[^]a]+", "x]a", "[x]"},
        {"[a\\-z]+", "a-z-b", "[a-z-]"},
        {"\\h+", "abz19", "[ab][19]"},
        {"\\p{^L}+", "ab1!", "[1!]"},
        {"\\P{L}+", "ab1!", "[1!]"},
        {"\\p{Letter}+|\\p{alpha}+", "ab1", "[ab]"},
        {"[[:alpha:]]+", "ab1", "[ab]"},
        {"[[:^alpha:]]+", "ab1", "[1]"},
        {"[[:punct:]]+", "a+b", "[+]"},
        {"\\p{Punct}+", "a+b,", "[,]"},
        {"\\s+", "a\xe1\xa0\x8e \xe2\x80\x8b\xe3\x80\x80", "[ ][\xe3\x80\x80]"}, /* no U+180E */
        {"[^\\S ]+", "a\n \t", "[\n][\t]"},
        {"\\v", "\v\n", "[\v]"},
        {"(?i:'s|k)", "'S \xe2\x84\xaa", "['S][\xe2\x84\xaa]"}, /* the Kelvin sign */
        {"a(?i)b|c", "aB aC ab", "[aB][aC][ab]"},               /* a(?i:b|c) */
        {"(?<word>\\w)\\x{62}|\\u0063", "ab c", "[ab][c]"},
        {"\\bcat\\b", "cat concat cat", "[cat][cat]"},
        {"x*", "axxb", "[][xx][]"},
        {"(?=b)", "abab", "[][]"},
        {"\\p{L}+", "\xf0\x93\x91\xa0 \xf0\xb1\x8d\x90", /* letters of Unicode 16 and 15 */
         "[\xf0\x93\x91\xa0][\xf0\xb1\x8d\x90]"},
        {"\\s+(?!\\S)|\\s+", "a   b", "[  ][ ]"},
        {"a++b|[^a]?+c", "aab c", "[aab][ c]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *actual = matches(cases[i].pattern, cases[i].text);
        if (strcmp(actual, cases[i].expected) != 0)
            fail_msg("/%s/ in \"%s\" matches %s, not %s", cases[i].pattern, cases[i].text, actual,
                     cases[i].expected);
        free(actual);
    }
}

static void what_is_not_understood_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        ln_status status;
    } cases[] = {
        {"(", LINNET_ERR_FORMAT},
        {")", LINNET_ERR_FORMAT},
        {"[a", LINNET_ERR_FORMAT},
        {"[b-a]", LINNET_ERR_FORMAT},
        {"\\", LINNET_ERR_FORMAT},
        {"\\p{", LINNET_ERR_FORMAT},
        {"\\p{Klingon}", LINNET_ERR_UNSUPPORTED},
        {"(a)\\1", LINNET_ERR_UNSUPPORTED},
        {"(*NO_JIT)a", LINNET_ERR_UNSUPPORTED},
        {"(?R)", LINNET_ERR_UNSUPPORTED},
        {"(?C1)a", LINNET_ERR_UNSUPPORTED},
        {"*", LINNET_ERR_FORMAT},
        {"a{100000}", LINNET_ERR_FORMAT},
        {"(?<=a+)b", LINNET_ERR_FORMAT},
        {"\xff", LINNET_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ln_regex *regex;
        ln_error err = {0};
        ln_status status =
            ln_regex_compile(cases[i].pattern, strlen(cases[i].pattern), &regex, &err);
        if (status != cases[i].status)
            fail_msg("/%s/ gives %d (%s), not %d", cases[i].pattern, status, err.message,
                     cases[i].status);
        assert_null(regex);
    }
    char *deep = malloc(100001);
    memset(deep, '(', 100000);
    deep[100000] = '\0';
    ln_regex *regex;
    assert_int_equal(ln_regex_compile(deep, 100000, &regex, NULL), LINNET_ERR_LIMIT);
    assert_int_equal(ln_regex_compile(deep, 10000, &regex, NULL), LINNET_ERR_UNSUPPORTED);
    free(deep);
}

/* Sets of code points take time to compute: 6,000 of them would take minutes. */
static void many_sets_are_refused(void **state) {
    (void)state;
    enum { N_CLASSES = 6000 };
    static const char class[] = "[a&&[^b]]";
    size_t n_class = sizeof class - 1;
    char *bomb = malloc(N_CLASSES * n_class);
    ln_regex *regex;
    ln_error err = {0};
    assert_non_null(bomb);
    for (size_t i = 0; i < N_CLASSES; i++)
        memcpy(bomb + i * n_class, class, n_class);
    assert_int_equal(ln_regex_compile(bomb, N_CLASSES * n_class, &regex, &err), LINNET_ERR_LIMIT);
    assert_non_null(strstr(err.message, "more than 64 sets"));
    assert_int_equal(ln_regex_compile(bomb, 20 * n_class, &regex, &err), LINNET_OK);
    ln_regex_free(regex);
    free(bomb);
}

/* A group repeated over a long text needs a stack that grows. */
static void groups_repeat_over_long_texts(void **state) {
    (void)state;
    enum { N = 300000 };
    char *text = malloc(N + 1);
    memset(text, 'a', N);
    text[N] = '\0';
    char *actual = matches("(?:\\p{L}\\p{M}*)+", text);
    assert_int_equal(strlen(actual), N + 2);
    free(actual);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_oniguruma),
        cmocka_unit_test(what_is_not_understood_is_refused),
        cmocka_unit_test(many_sets_are_refused),
        cmocka_unit_test(groups_repeat_over_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
