#include "text/regex/regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/utf8.h"

enum {
    LONGEST_PATTERN = 1 << 16,
    MATCH_LIMIT = 50 * 1000 * 1000,
    DEPTH_LIMIT = 1000 * 1000,
    HEAP_LIMIT_KIB = 512 << 10,
    STACK_BYTES = 64 << 10,
    LARGEST_STACK_BYTES = 256 << 20
};

struct ln_regex {
    pcre2_code *code;
};

static ln_status compile(const char *pattern, size_t n_bytes, pcre2_code **code, ln_error *err) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL)
        return ln_fail_memory(err, "a regular expression");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int number = 0;
    PCRE2_SIZE offset = 0;
    *code = pcre2_compile((PCRE2_SPTR)pattern, n_bytes,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                          &number, &offset, context);
    pcre2_compile_context_free(context);
    if (*code == NULL) {
        PCRE2_UCHAR text[160];
        pcre2_get_error_message(number, text, sizeof text);
        return ln_fail(err, LINNET_ERR_FORMAT, "%s at byte %zu of its translation", (char *)text,
                       (size_t)offset);
    }
    (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE); /* else it is interpreted */
    return LINNET_OK;
}

ln_status ln_regex_compile(const char *pattern, size_t n_bytes, ln_regex **regex, ln_error *err) {
    *regex = NULL;
    if (n_bytes > LONGEST_PATTERN)
        return ln_fail(err, LINNET_ERR_LIMIT, "a regular expression has %zu bytes, more than %d",
                       n_bytes, LONGEST_PATTERN);
    ln_strbuf translated;
    ln_strbuf_init(&translated);
    pcre2_code *code = NULL;
    ln_status status = LINNET_OK;
    if (!ln_utf8_check(pattern, n_bytes))
        status = ln_fail(err, LINNET_ERR_FORMAT, "it is not valid UTF-8");
    if (status == LINNET_OK)
        status = ln_regex_translate(pattern, n_bytes, &translated, err);
    if (status == LINNET_OK && translated.failed)
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK)
        status = compile(translated.data ? translated.data : "", translated.len, &code, err);
    ln_strbuf_free(&translated);
    if (status == LINNET_OK) {
        *regex = malloc(sizeof **regex);
        if (*regex == NULL) {
            pcre2_code_free(code);
            return ln_fail_memory(err, "a regular expression");
        }
        (*regex)->code = code;
        return LINNET_OK;
    }
    char prefix[240];
    int shown = n_bytes < 200 ? (int)n_bytes : 200;
    snprintf(prefix, sizeof prefix, "regular expression \"%.*s\"", shown, pattern);
    return ln_error_prefix(err, status, prefix);
}

void ln_regex_free(ln_regex *regex) {
    if (regex == NULL)
        return;
    pcre2_code_free(regex->code);
    free(regex);
}

size_t ln_regex_bytes(const ln_regex *regex) {
    size_t code_bytes = 0, jit_bytes = 0;
    pcre2_pattern_info(regex->code, PCRE2_INFO_SIZE, &code_bytes);
    pcre2_pattern_info(regex->code, PCRE2_INFO_JITSIZE, &jit_bytes);
    return sizeof *regex + code_bytes + jit_bytes;
}

void ln_regex_work_free(ln_regex_work *work) {
    pcre2_match_data_free(work->match_data);
    pcre2_match_context_free(work->context);
    pcre2_jit_stack_free(work->stack);
    *work = (ln_regex_work){0};
}

static bool prepare(ln_regex_work *work) {
    if (work->match_data == NULL)
        work->match_data = pcre2_match_data_create(1, NULL);
    if (work->context == NULL) {
        work->context = pcre2_match_context_create(NULL);
        if (work->context == NULL)
            return false;
        pcre2_set_match_limit(work->context, MATCH_LIMIT);
        pcre2_set_depth_limit(work->context, DEPTH_LIMIT);
        pcre2_set_heap_limit(work->context, HEAP_LIMIT_KIB);
    }
    return work->match_data != NULL;
}

static int match(const ln_regex *regex, ln_regex_work *work, const char *text, size_t n_bytes,
                 size_t from) {
    int result = pcre2_match(regex->code, (PCRE2_SPTR)text, n_bytes, from, PCRE2_NO_UTF_CHECK,
                             work->match_data, work->context);
    if (result != PCRE2_ERROR_JIT_STACKLIMIT || work->stack != NULL)
        return result;
    work->stack = pcre2_jit_stack_create(STACK_BYTES, LARGEST_STACK_BYTES, NULL);
    if (work->stack == NULL)
        return result;
    pcre2_jit_stack_assign(work->context, NULL, work->stack);
    return pcre2_match(regex->code, (PCRE2_SPTR)text, n_bytes, from, PCRE2_NO_UTF_CHECK,
                       work->match_data, work->context);
}

ln_status ln_regex_find(const ln_regex *regex, ln_regex_work *work, const char *text,
                        size_t n_bytes, size_t from, size_t *begin, size_t *end, bool *found,
                        ln_error *err) {
    *found = false;
    if (!prepare(work))
        return ln_fail_memory(err, "tokens");
    int result = match(regex, work, text, n_bytes, from);
    if (result == PCRE2_ERROR_NOMATCH)
        return LINNET_OK;
    if (result < 0) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(result, message, sizeof message);
        return ln_fail(err, result == PCRE2_ERROR_NOMEMORY ? LINNET_ERR_NOMEM : LINNET_ERR_LIMIT,
                       "a regular expression of the tokenizer gave up at byte %zu of the text: %s",
                       from, (char *)message);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(work->match_data);
    if (span[0] > span[1] || span[1] > n_bytes || span[0] < from)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "a regular expression of the tokenizer matches backwards");
    *begin = span[0];
    *end = span[1];
    *found = true;
    return LINNET_OK;
}

ln_status ln_regex_next(const ln_regex *regex, ln_regex_work *work, ln_regex_walk *walk,
                        const char *text, size_t n_bytes, size_t *begin, size_t *end, bool *found,
                        ln_error *err) {
    *found = false;
    while (walk->at <= n_bytes) {
        bool hit;
        LN_TRY(ln_regex_find(regex, work, text, n_bytes, walk->at, begin, end, &hit, err));
        if (!hit)
            return LINNET_OK;
        if (*begin == *end && walk->matched && walk->last_end == *end) {
            walk->at += walk->at < n_bytes ? ln_utf8_length((unsigned char)text[walk->at]) : 1;
            continue;
        }
        walk->at = walk->last_end = *end;
        walk->matched = *found = true;
        return LINNET_OK;
    }
    return LINNET_OK;
}

/* All code points but surrogates, in order; NULL: no memory. */
static char *list_code_points(size_t *n_bytes) {
    char *text = malloc((size_t)0x110000 * 4);
    *n_bytes = 0;
    for (uint32_t c = 0; text != NULL && c < 0x110000; c++)
        if (c < 0xd800 || c >= 0xe000)
            *n_bytes += ln_utf8_encode(c, text + *n_bytes);
    return text;
}

/* Walks over the runs of members that `code` finds in the list. */
static ln_status mark_members(pcre2_code *code, ln_regex_work *work, const char *text,
                              size_t n_bytes, ln_char_set *set, ln_error *err) {
    const ln_regex regex = {code};
    uint32_t c = 0;
    for (size_t at = 0, begin, end = 0;;) {
        bool found;
        LN_TRY(ln_regex_find(&regex, work, text, n_bytes, end, &begin, &end, &found, err));
        if (!found)
            return LINNET_OK;
        for (; at < end; c = c == 0xd7ff ? 0xe000 : c + 1) {
            if (at >= begin)
                set->bits[c / 8] |= (unsigned char)(1u << c % 8);
            at += ln_utf8_length((unsigned char)text[at]);
        }
    }
}

ln_status ln_regex_class_members(const char *items, ln_char_set *set, ln_error *err) {
    ln_strbuf pattern;
    ln_regex_work work = {0};
    size_t n_bytes;
    pcre2_code *code = NULL;
    ln_strbuf_init(&pattern);
    ln_strbuf_printf(&pattern, "[%s]++", items);
    char *text = list_code_points(&n_bytes);
    ln_status status = pattern.failed || text == NULL || !prepare(&work)
                           ? ln_fail_memory(err, "a character class")
                           : compile(pattern.data, pattern.len, &code, err);
    if (status == LINNET_OK)
        status = mark_members(code, &work, text, n_bytes, set, err);
    free(text);
    ln_strbuf_free(&pattern);
    ln_regex_work_free(&work);
    pcre2_code_free(code);
    return status;
}
