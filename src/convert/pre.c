/* The name that GGUF has for a byte-level pre-tokenizer: by the patterns that it cuts with. */
#include <stdlib.h>
#include <string.h>

#include "convert/vocab.h"
#include "format/json.h"
#include "text/tokenizer/pre_names.inc"

enum { N_NAMES = sizeof pre_names / sizeof *pre_names };

/* Patterns as tokenizer.json has them, one after the other. */
typedef struct patterns {
    const char *texts[MAX_PATTERNS];
    size_t count;
    bool is_unknown, has_byte_level;
} patterns;

static void add(patterns *p, const char *text) {
    if (p->count == MAX_PATTERNS || text == NULL)
        p->is_unknown = true;
    else
        p->texts[p->count++] = text;
}

static bool is_type(const json_t *step, const char *type) {
    const char *found = json_string_value(json_object_get(step, "type"));
    return found != NULL && strcmp(found, type) == 0;
}

static void collect(const json_t *step, patterns *p) {
    size_t i;
    json_t *inner;
    if (is_type(step, "Sequence")) {
        json_array_foreach(json_object_get(step, "pretokenizers"), i, inner) {
            /* nothing nests deeper than this */
            if (is_type(inner, "Sequence"))
                p->is_unknown = true;
            else
                collect(inner, p);
        }
    } else if (is_type(step, "Split")) {
        add(p, json_string_value(ln_json_find(step, "pattern.Regex")));
    } else if (is_type(step, "Digits")) {
        if (json_is_true(json_object_get(step, "individual_digits")))
            add(p, "\\p{N}");
    } else if (is_type(step, "Punctuation")) {
        add(p, "[\\p{P}\\$\\+<=>\\^~\\|`]+");
    } else if (is_type(step, "ByteLevel")) {
        p->has_byte_level = true;
        p->is_unknown |= json_is_true(json_object_get(step, "add_prefix_space"));
        if (!json_is_false(json_object_get(step, "use_regex")))
            add(p, GPT2);
    } else {
        p->is_unknown = true;
    }
}

/* Our patterns escape what lies past ASCII as \x{...}; tokenizer.json writes it out. */
static bool same_pattern(const char *ours, const char *theirs) {
    ln_strbuf written;
    ln_strbuf_init(&written);
    while (*ours != '\0') {
        char *end;
        if (strncmp(ours, "\\x{", 3) == 0) {
            ln_strbuf_put_utf8(&written, (uint32_t)strtoul(ours + 3, &end, 16));
            ours = *end == '}' ? end + 1 : end;
        } else {
            ln_strbuf_putc(&written, *ours++);
        }
    }
    bool same = written.data != NULL && strcmp(written.data, theirs) == 0;
    ln_strbuf_free(&written);
    return same;
}

static bool same_patterns(const char *const *ours, const patterns *theirs) {
    for (size_t i = 0; i < MAX_PATTERNS; i++) {
        bool has = i < theirs->count;
        if ((ours[i] != NULL) != has || (has && !same_pattern(ours[i], theirs->texts[i])))
            return false;
    }
    return true;
}

/* Spellings of tokenizer.json that mean the same as patterns of ours. */
static const char *respell(const char *text) {
    static const char *const spellings[][2] = {
        {" ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8"
         "\x8c])]+",
         " ?[^(\\s|.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8"
         "\x8c)]+"},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (strcmp(text, spellings[i][0]) == 0)
            return spellings[i][1];
    return text;
}

ln_status ln_convert_find_pre(ln_convert_vocab *vocab, const json_t *pre, bool ignore_merges) {
    patterns p = {0};
    collect(pre, &p);
    for (size_t i = 0; i < p.count; i++)
        p.texts[i] = respell(p.texts[i]);
    const char *same = NULL;
    for (size_t i = 1; i < N_NAMES && !p.is_unknown && p.has_byte_level; i++) {
        if (!same_patterns(pre_names[i].patterns, &p))
            continue;
        if (pre_names[i].ignore_merges == ignore_merges) {
            vocab->pre = pre_names[i].name;
            return LINNET_OK;
        }
        same = pre_names[i].name;
    }
    const char *pattern = p.count > 0 ? p.texts[0] : "(none)";
    return ln_fail(vocab->err, LINNET_ERR_UNSUPPORTED,
                   "%s: GGUF has no name for %s that begins with the pattern %.160s; "
                   "--no-tokenizer leaves the tokenizer out",
                   vocab->path,
                   same != NULL ? "ignore_merges with a pre-tokenizer" : "a pre-tokenizer",
                   pattern);
}
