#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "hub/files.h"

/* "-00002-of-00005.gguf" at the end of a part of a split file. */
typedef struct split_ending {
    unsigned number, count;
    size_t stem; /* bytes in front of it */
} split_ending;

static bool ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), n = strlen(ending);
    return length >= n && strcasecmp(path + length - n, ending) == 0;
}

static bool find_split(const char *path, split_ending *ending) {
    enum { ENDING = sizeof "-00001-of-00002.gguf" - 1 };
    size_t length = strlen(path);
    int n_read = 0;
    if (length <= ENDING)
        return false;
    ending->stem = length - ENDING;
    return sscanf(path + ending->stem, "-%5u-of-%5u.gguf%n", &ending->number, &ending->count,
                  &n_read) == 2 &&
           n_read == ENDING;
}

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A GGUF file with a language model of its own, not a projector of images or a matrix of
 * importances. */
static bool is_gguf_model(const char *path) {
    const char *name = base_of(path);
    return ends_with(path, ".gguf") && strncasecmp(name, "mmproj", 6) != 0 &&
           !strcasestr(name, "-mmproj") && !strcasestr(name, "imatrix");
}

static bool is_edge(char c) {
    return !isalnum((unsigned char)c) && c != '_';
}

/* Whether `quant` stands in the path as words of their own, in any case. */
static bool has_quant(const char *path, const char *quant) {
    size_t length = strlen(quant);
    for (const char *at = path; (at = strcasestr(at, quant)) != NULL; at++)
        if ((at == path || is_edge(at[-1])) && is_edge(at[length]))
            return true;
    return false;
}

static size_t stem_of(const char *path) {
    split_ending ending;
    if (find_split(path, &ending))
        return ending.stem;
    return strlen(path) - (ends_with(path, ".gguf") ? 5 : 0);
}

static bool is_tag(const char *text, size_t n_bytes) {
    static const char *const types[] = {"F16", "F32", "BF16", "MXFP4"};
    const char *number = text + (toupper((unsigned char)*text) == 'I' ? 1 : 0);
    if (toupper((unsigned char)*number) == 'Q' && isdigit((unsigned char)number[1]))
        return true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (n_bytes >= strlen(types[i]) && strncasecmp(text, types[i], strlen(types[i])) == 0)
            return true;
    return toupper((unsigned char)*text) == 'T' && toupper((unsigned char)text[1]) == 'Q';
}

void ln_hub_file_tag(const char *path, char tag[LN_HUB_NAME_BYTES]) {
    const char *name = base_of(path);
    size_t stem = stem_of(path) - (size_t)(name - path), begin = stem;
    while (begin > 0 && name[begin - 1] != '-' && name[begin - 1] != '.')
        begin--;
    if (!is_tag(name + begin, stem - begin))
        begin = 0;
    snprintf(tag, LN_HUB_NAME_BYTES, "%.*s", (int)(stem - begin), name + begin);
}

bool ln_hub_file_has_tag(const char *path, const char *text) {
    const char *name = base_of(path);
    char tag[LN_HUB_NAME_BYTES];
    size_t n_stem = stem_of(path) - (size_t)(name - path), n_text = strlen(text);
    ln_hub_file_tag(path, tag);
    if (n_text < strlen(tag) || n_text > n_stem)
        return false;
    size_t begin = n_stem - n_text;
    return strncasecmp(name + begin, text, n_text) == 0 && (begin == 0 || is_edge(name[begin - 1]));
}

/* The first file, by the order of names, that `quant` is in; the first parts of split ones count.
 * *n_found is how many there are. */
static const char *find_gguf(const ln_hub_files *files, const char *quant, size_t *n_found) {
    const char *best = NULL;
    split_ending ending;
    *n_found = 0;
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i].path;
        if (!is_gguf_model(path) || (*quant != '\0' && !has_quant(path, quant)) ||
            (find_split(path, &ending) && ending.number != 1))
            continue;
        ++*n_found;
        /* Q4_K_M is also a word of UD-Q4_K_M: the shorter name is meant */
        if (!best || strlen(path) < strlen(best) ||
            (strlen(path) == strlen(best) && strcmp(path, best) < 0))
            best = path;
    }
    return best;
}

static ln_status choose_gguf(ln_hub_files *files, const char *first, ln_error *err) {
    split_ending ending, own;
    size_t n_parts = 0;
    bool is_split = find_split(first, &ending);
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i].path;
        files->items[i].is_chosen =
            strcmp(path, first) == 0 ||
            (is_split && find_split(path, &own) && own.count == ending.count &&
             own.stem == ending.stem && strncmp(path, first, own.stem) == 0);
        n_parts += files->items[i].is_chosen;
    }
    if (is_split && n_parts != ending.count)
        return ln_fail(err, LINNET_ERR_FORMAT, "%.200s has %zu of its %u parts", first, n_parts,
                       ending.count);
    return LINNET_OK;
}

/* Files beside safetensors that describe a model, its tokenizer or its modules; no copies of the
 * weights in other layouts. */
static bool belongs_to_folder(const char *path) {
    static const char *const endings[] = {".json",  ".safetensors", ".model", ".txt",
                                          ".jinja", ".tiktoken",    ".spm"};
    static const char *const others[] = {"original/", "onnx/",        "openvino/",
                                         "metal/",    "coreml/",      "figures/",
                                         "assets/",   "consolidated", "."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(path, others[i], strlen(others[i])) == 0)
            return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(path, endings[i]))
            return true;
    return false;
}

static bool has_safetensors(const ln_hub_files *files) {
    for (size_t i = 0; i < files->count; i++)
        if (!strchr(files->items[i].path, '/') && ends_with(files->items[i].path, ".safetensors") &&
            belongs_to_folder(files->items[i].path))
            return true;
    return false;
}

ln_status ln_hub_files_choose(ln_hub_files *files, const ln_hub_name *name, const char **main,
                              ln_error *err) {
    static const char *const preferred[] = {"Q4_K_M", "Q4_K_S", "Q4_0", "Q8_0", ""};
    size_t n_found;
    *main = NULL;
    if (name->quant[0] == '\0' && has_safetensors(files)) {
        for (size_t i = 0; i < files->count; i++)
            files->items[i].is_chosen = belongs_to_folder(files->items[i].path);
        return LINNET_OK;
    }
    if (name->quant[0] != '\0')
        *main = find_gguf(files, name->quant, &n_found);
    else
        for (size_t i = 0; !*main && i < sizeof preferred / sizeof *preferred; i++)
            *main = find_gguf(files, preferred[i], &n_found);
    if (*main)
        return choose_gguf(files, *main, err);
    if (name->quant[0] == '\0')
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s has no GGUF file and no safetensors",
                       name->repo);
    char list[LN_HUB_NAME_BYTES * 2] = "", tag[LN_HUB_NAME_BYTES];
    for (size_t i = 0, used = 0; i < files->count; i++) {
        split_ending ending;
        if (!is_gguf_model(files->items[i].path) ||
            (find_split(files->items[i].path, &ending) && ending.number != 1))
            continue;
        ln_hub_file_tag(files->items[i].path, tag);
        int n = snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", tag);
        if (n < 0 || used + (size_t)n >= sizeof list)
            break;
        used += (size_t)n;
    }
    return ln_fail(err, LINNET_ERR_ARGUMENT, "%s has no '%s'%s%s", name->repo, name->quant,
                   *list ? ", but " : " and no GGUF file", list);
}
