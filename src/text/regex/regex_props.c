/* Properties of Oniguruma as items of PCRE2 character classes. */
#include <string.h>

#include "text/regex/regex.h"

static const struct addition {
    const char *property, *items;
} additions[] = {
#include "text/regex/regex_props.inc"
};

const char ln_regex_space_items[] =
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";

/* Names as Oniguruma compares them (lower case, without space, hyphen and underscore), and what
 * they are made of: categories, or a binary property, or a script. */
static const struct name {
    const char *name, *parts;
} names[] = {
#include "text/regex/regex_names.inc"
};

static const char *const categories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                         "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                         "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So",
                                         "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co"};

/* \p{..} of PCRE2, and what its tables may lack; a category of one letter is all of its kinds. */
static void put_part(ln_strbuf *items, const char *part, size_t n_bytes) {
    bool is_set = part[0] == '\\' || part[0] == '0';
    if (is_set) {
        ln_strbuf_append(items, part, n_bytes);
        return;
    }
    ln_strbuf_printf(items, "\\p{%.*s}", (int)n_bytes, part);
    if (n_bytes > 3 && memcmp(part, "sc:", 3) == 0) {
        part += 3;
        n_bytes -= 3;
    }
    for (size_t i = 0; i < sizeof additions / sizeof additions[0]; i++) {
        const char *property = additions[i].property;
        bool is_kind = n_bytes == 1 && strlen(property) == 2 && property[0] == part[0];
        if (is_kind || (strlen(property) == n_bytes && memcmp(property, part, n_bytes) == 0))
            ln_strbuf_puts(items, additions[i].items);
    }
}

static void put_parts(ln_strbuf *items, const char *parts) {
    while (*parts != '\0') {
        size_t n = strcspn(parts, " ");
        put_part(items, parts, n);
        parts += n + (parts[n] == ' ');
    }
}

bool ln_regex_bracket(ln_strbuf *items, const char *name, size_t n_bytes) {
    static const struct name brackets[] = {
        /* where they differ from \\p{..} */
        {"punct", "P S"},
        {"word", "Alphabetic M Nd Pc"},
        {"ascii", "\\x{0}-\\x{7f}"},
    };
    for (size_t i = 0; i < sizeof brackets / sizeof brackets[0]; i++) {
        if (strlen(brackets[i].name) == n_bytes && memcmp(name, brackets[i].name, n_bytes) == 0) {
            put_parts(items, brackets[i].parts);
            return true;
        }
    }
    return ln_regex_property(items, name, n_bytes);
}

bool ln_regex_property(ln_strbuf *items, const char *name, size_t n_bytes) {
    char plain[32];
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = name[i];
        if (c == ' ' || c == '_' || c == '-')
            continue;
        if (n + 1 >= sizeof plain)
            return false;
        plain[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    plain[n] = '\0';
    if (strcmp(plain, "space") == 0 || strcmp(plain, "whitespace") == 0)
        return ln_strbuf_puts(items, ln_regex_space_items);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(plain, names[i].name) == 0) {
            put_parts(items, names[i].parts);
            return true;
        }
    }
    for (size_t i = 0; n <= 2 && i < sizeof categories / sizeof categories[0]; i++) {
        const char *category = categories[i];
        bool same = strlen(category) == n && (category[0] | 32) == plain[0] &&
                    (n == 1 || category[1] == plain[1]);
        if (same) {
            put_part(items, category, n);
            return true;
        }
    }
    return false;
}
