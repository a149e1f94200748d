#include "hub/name.h"

#include <ctype.h>
#include <string.h>

enum { MAX_PATH_BYTES = 1024, MAX_COMPONENT_BYTES = 240 };

/* Letters, digits and what `others` has, beginning with a letter, a digit or '_'; no "..". */
static bool is_word(const char *text, size_t n_bytes, const char *others) {
    if (n_bytes == 0 || n_bytes >= LN_HUB_NAME_BYTES ||
        (!isalnum((unsigned char)*text) && *text != '_'))
        return false;
    for (size_t i = 0; i < n_bytes; i++) {
        if (!isalnum((unsigned char)text[i]) && (text[i] == '\0' || !strchr(others, text[i])))
            return false;
        if (text[i] == '.' && i + 1 < n_bytes && text[i + 1] == '.')
            return false;
    }
    return true;
}

typedef struct name_parts {
    size_t org, repo, quant, revision; /* lengths; 0: not given */
    const char *quant_at, *revision_at;
} name_parts;

static bool split(const char *text, name_parts *parts) {
    *parts = (name_parts){.repo = strcspn(text, ":@"), .org = strcspn(text, "/")};
    if (parts->org >= parts->repo || parts->repo >= LN_HUB_NAME_BYTES ||
        !is_word(text, parts->org, "-_.") ||
        !is_word(text + parts->org + 1, parts->repo - parts->org - 1, "-_."))
        return false;
    const char *rest = text + parts->repo;
    if (*rest == ':') {
        parts->quant_at = rest + 1;
        parts->quant = strcspn(rest + 1, "@");
        if (!is_word(rest + 1, parts->quant, "-_./"))
            return false;
        rest += 1 + parts->quant;
    }
    if (*rest == '@') {
        parts->revision_at = rest + 1;
        parts->revision = strlen(rest + 1);
        if (!is_word(rest + 1, parts->revision, "-_./"))
            return false;
        rest += 1 + parts->revision;
    }
    return *rest == '\0';
}

bool ln_hub_is_name(const char *text) {
    static const char ending[] = ".gguf";
    size_t n_bytes = strlen(text), n_ending = sizeof ending - 1;
    name_parts parts;
    bool is_file = n_bytes >= n_ending && strcmp(text + n_bytes - n_ending, ending) == 0;
    return !is_file && split(text, &parts);
}

static void take(char out[LN_HUB_NAME_BYTES], const char *text, size_t n_bytes) {
    memcpy(out, text, n_bytes);
    out[n_bytes] = '\0';
}

ln_status ln_hub_name_parse(const char *text, ln_hub_name *name, ln_error *err) {
    name_parts parts;
    *name = (ln_hub_name){.revision = "main"};
    if (!split(text, &parts))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "'%.200s' is not the name of a model: ORG/NAME[:QUANT][@REVISION]", text);
    take(name->repo, text, parts.repo);
    if (parts.quant > 0)
        take(name->quant, parts.quant_at, parts.quant);
    if (parts.revision > 0)
        take(name->revision, parts.revision_at, parts.revision);
    return LINNET_OK;
}

bool ln_hub_is_commit(const char *text) {
    return strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40;
}

bool ln_hub_is_safe_path(const char *path) {
    size_t n_bytes = strlen(path);
    if (n_bytes == 0 || n_bytes > MAX_PATH_BYTES)
        return false;
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\')
            return false;
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0 || length > MAX_COMPONENT_BYTES || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += length;
        if (*part == '\0')
            return true;
    }
}
