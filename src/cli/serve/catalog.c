#include "cli/serve/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/hash/siphash.h"
#include "base/json/load.h"
#include "cli/hub/environment.h"
#include "cli/hub/resolve.h"
#include "cli/options.h"
#include "hub/cache.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_KEEP_S = 1000000000 };

static linnet_status fail_memory(linnet_error *err) {
    return ln_fail_memory(err, "the list of models");
}

/* ---- one model -------------------------------------------------------------------------- */

static linnet_status open_offer(void *user, linnet_model **model, linnet_error *err) {
    const ln_cli_offer *offer = user;
    LN_TRY(linnet_model_open(offer->path, model, err));
    if (offer->template == NULL)
        return LINNET_OK;
    return linnet_model_set_chat_template(*model, offer->template, strlen(offer->template), err);
}

static void free_offer(ln_cli_offer *offer) {
    if (offer == NULL)
        return;
    for (size_t i = 0; i < offer->n_arguments; i++)
        free(offer->arguments[i]);
    free(offer->arguments);
    free(offer->name);
    free(offer->path);
    free(offer->template);
    free(offer);
}

/* A file, or the files of a folder together. */
typedef struct file_sums {
    size_t n_bytes;
    int64_t modified_s; /* of the newest, seconds since 1970 */
    int64_t changed_ns; /* likewise, by the time when the system last wrote to it or renamed it */
    uint64_t identity;  /* the sum of a number for each, whatever their order */
} file_sums;

static void measure_file(const struct stat *info, file_sums *sums) {
    int64_t changed_ns = info->st_ctim.tv_sec * INT64_C(1000000000) + info->st_ctim.tv_nsec;
    const uint64_t parts[] = {info->st_dev, info->st_ino, (uint64_t)info->st_size,
                              (uint64_t)info->st_mtim.tv_sec, (uint64_t)info->st_mtim.tv_nsec};
    static const uint64_t key[2];
    sums->identity += ln_siphash(key, parts, sizeof parts);
    sums->n_bytes += (size_t)info->st_size;
    sums->modified_s = info->st_mtime > sums->modified_s ? info->st_mtime : sums->modified_s;
    sums->changed_ns = changed_ns > sums->changed_ns ? changed_ns : sums->changed_ns;
}

/* All parts of a split GGUF file, of which path is one, up to the first that is not there. */
static bool measure_parts(const char *path, file_sums *sums) {
    static const char form[] = "-%5u-of-%5u.gguf%n";
    const size_t ending = sizeof "-00001-of-00002.gguf" - 1, length = strlen(path);
    unsigned number, count;
    int n_read = 0;
    if (length <= ending || sscanf(path + length - ending, form, &number, &count, &n_read) != 2 ||
        (size_t)n_read != ending || number < 1 || number > count)
        return false;
    struct stat info;
    bool is_there = true;
    for (unsigned i = 1; i <= count && is_there; i++) {
        char *part;
        if (asprintf(&part, "%.*s-%05u-of-%05u.gguf", (int)(length - ending), path, i, count) < 0)
            part = NULL; /* it is undefined */
        is_there = part != NULL && stat(part, &info) == 0;
        if (is_there)
            measure_file(&info, sums);
        free(part);
    }
    return true;
}

static file_sums measure(const char *path) {
    file_sums sums = {0};
    struct stat info;
    if (measure_parts(path, &sums))
        return sums;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        if (stat(path, &info) == 0)
            measure_file(&info, &sums);
        return sums;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char *inner = ln_path_join(path, entry->d_name);
        if (inner != NULL && stat(inner, &info) == 0 && S_ISREG(info.st_mode))
            measure_file(&info, &sums);
        free(inner);
    }
    closedir(folder);
    return sums;
}

static file_sums measure_offer(ln_cli_offer *offer) {
    file_sums sums = measure(offer->path);
    offer->spec.file_bytes = sums.n_bytes;
    offer->spec.modified_s = sums.modified_s;
    return sums;
}

static bool has_config(const char *path) {
    char *config = ln_path_join(path, "config.json");
    bool found = config != NULL && ln_file_exists(config);
    free(config);
    return found;
}

/* Takes name and path, which are malloc'd; NULL: memory was out. */
static linnet_status add(ln_cli_catalog *catalog, char *name, char *path, ln_cli_offer **out,
                         linnet_error *err) {
    ln_cli_offer *offer = calloc(1, sizeof *offer);
    ln_cli_offer **offers =
        realloc(catalog->offers, (catalog->count + 1) * sizeof *catalog->offers);
    if (offers != NULL)
        catalog->offers = offers;
    if (offer == NULL || offers == NULL || name == NULL || path == NULL) {
        free(offer);
        free(name);
        free(path);
        return fail_memory(err);
    }
    *offer = (ln_cli_offer){.name = name, .path = path};
    offer->spec = (ln_model_spec){.name = name,
                                  .open = open_offer,
                                  .user = offer,
                                  .options = catalog->engine,
                                  .keep_ms = catalog->keep_ms};
    offer->has_config = has_config(path);
    measure_offer(offer);
    for (size_t i = 0; i < catalog->count; i++) {
        if (catalog->offers[i]->is_gone || strcmp(catalog->offers[i]->name, name) != 0)
            continue;
        ln_status status = ln_fail(err, LINNET_ERR_ARGUMENT, "two models have the name %s: %s, %s",
                                   name, catalog->offers[i]->path, path);
        free_offer(offer);
        return status;
    }
    if (catalog->count == LN_MAX_MODELS) {
        free_offer(offer);
        return ln_fail(err, LINNET_ERR_LIMIT, "more than %d models", LN_MAX_MODELS);
    }
    catalog->offers[catalog->count++] = offer;
    if (out != NULL)
        *out = offer;
    return LINNET_OK;
}

/* What a path calls a model, without ".gguf" and the number of a part. */
static char *name_path(const char *path) {
    size_t n_bytes;
    const char *called = ln_path_model_name(path, &n_bytes);
    char *name = strndup(called, n_bytes);
    if (name == NULL)
        return NULL;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0)
        name[n - 5] = '\0';
    char *part = strstr(name, "-00001-of-");
    if (part != NULL && part[10 + strspn(part + 10, "0123456789")] == '\0')
        *part = '\0';
    return name;
}

static linnet_status add_named(ln_cli_catalog *catalog, const char *name, const char *model,
                               ln_cli_offer **out, linnet_error *err) {
    const char *path = model, *hub_name = ln_cli_model_name(model);
    LN_TRY(ln_cli_resolve_model(&path, err));
    const char *own = name != NULL ? name : hub_name;
    return add(catalog, own != NULL ? strdup(own) : name_path(path), strdup(path), out, err);
}

linnet_status ln_cli_catalog_add_model(ln_cli_catalog *catalog, const char *model,
                                       linnet_error *err) {
    ln_cli_offer *offer;
    LN_TRY(add_named(catalog, NULL, model, &offer, err));
    if (!ln_file_exists(offer->path))
        return ln_fail(err, LINNET_ERR_IO, "cannot open %s: %s", offer->path, strerror(errno));
    return LINNET_OK;
}

/* ---- a folder --------------------------------------------------------------------------- */

/* Whether the entry is a model: a GGUF file, of several parts the first, or a folder. */
static bool is_model(const char *path, const char *name) {
    size_t n = strlen(name);
    const char *part = strstr(name, "-of-");
    if (*name == '.')
        return false;
    if (n <= 5 || strcmp(name + n - 5, ".gguf") != 0)
        return ln_file_is_folder(path) && has_config(path);
    bool is_later = part != NULL && part - name > 6 && part[-6] == '-' &&
                    strspn(part - 5, "0123456789") == 5 && strncmp(part - 5, "00001", 5) != 0;
    return !is_later && strncasecmp(name, "mmproj", 6) != 0 && strcasestr(name, "-mmproj") == NULL;
}

static bool has_name(const ln_cli_catalog *catalog, const char *name) {
    bool found = false;
    for (size_t i = 0; i < catalog->count; i++)
        found |= !catalog->offers[i]->is_gone && strcmp(catalog->offers[i]->name, name) == 0;
    return found;
}

static bool has_path(const ln_cli_catalog *catalog, const char *path) {
    bool found = false;
    for (size_t i = 0; i < catalog->count; i++)
        found |= !catalog->offers[i]->is_gone && strcmp(catalog->offers[i]->path, path) == 0;
    return found;
}

/* Of two that would have one name, such as a folder and a file, the later keeps its whole name. */
static linnet_status add_entry(ln_cli_catalog *catalog, const char *path, const char *name,
                               linnet_error *err) {
    char *own = name_path(path);
    if (own != NULL && has_name(catalog, own)) {
        free(own);
        own = strdup(name);
    }
    return add(catalog, own, strdup(path), NULL, err);
}

/* What cannot be added, as another has its name, does not hide what follows: the first error counts
 * in the end. */
static linnet_status add_folder(ln_cli_catalog *catalog, const char *folder, linnet_error *err) {
    struct dirent **entries;
    int n_entries = scandir(folder, &entries, NULL, alphasort);
    linnet_status status = LINNET_OK;
    if (n_entries < 0)
        return ln_fail(err, LINNET_ERR_IO, "cannot read the folder %s", folder);
    for (int i = 0; i < n_entries; i++) {
        char *path = ln_path_join(folder, entries[i]->d_name);
        linnet_error *why = status == LINNET_OK ? err : NULL;
        linnet_status added = LINNET_OK;
        if (path == NULL)
            added = fail_memory(why);
        else if (is_model(path, entries[i]->d_name) && !has_path(catalog, path))
            added = add_entry(catalog, path, entries[i]->d_name, why);
        status = status == LINNET_OK ? added : status;
        free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- a file of names and options -------------------------------------------------------- */

/* "--KEY=VALUE", or "--KEY" for true; NULL: no memory, or no such value. */
static char *format_argument(const char *key, const json_t *value) {
    char *text = NULL;
    int n = -1;
    if (json_is_string(value))
        n = asprintf(&text, "--%s=%s", key, json_string_value(value));
    else if (json_is_integer(value))
        n = asprintf(&text, "--%s=%lld", key, (long long)json_integer_value(value));
    else if (json_is_real(value))
        n = asprintf(&text, "--%s=%.17g", key, json_real_value(value));
    else if (json_is_true(value))
        n = asprintf(&text, "--%s", key);
    return n >= 0 ? text : NULL;
}

/* The options are those of the engine, by their names on the command line. */
static linnet_status read_options(ln_cli_offer *offer, const char *file, const json_t *options,
                                  linnet_error *err) {
    const char *key;
    json_t *value;
    if (options == NULL)
        return LINNET_OK;
    offer->arguments = calloc(json_object_size(options) + 1, sizeof *offer->arguments);
    if (offer->arguments == NULL)
        return fail_memory(err);
    json_object_foreach((json_t *)(uintptr_t)options, key, value) {
        linnet_error why = {0};
        char *argument = format_argument(key, value);
        if (argument == NULL)
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "%s: options.%s of %s is not a string, a number or true", file, key,
                           offer->name);
        offer->arguments[offer->n_arguments++] = argument;
        linnet_status status = ln_cli_set_engine_option(argument, &offer->spec.options, &why);
        if (status != LINNET_OK)
            return ln_fail(err, status, "%s: options of %s: %s", file, offer->name, why.message);
    }
    if (offer->spec.options.max_adapters > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: max-adapters of %s: only with a server of one model", file,
                       offer->name);
    return ln_cli_resolve_model(&offer->spec.options.draft_model, err);
}

static linnet_status read_template(ln_cli_offer *offer, const char *path, linnet_error *err) {
    ln_strbuf text;
    if (path == NULL)
        return LINNET_OK;
    ln_strbuf_init(&text);
    ln_status status = ln_file_read(path, MAX_FILE_BYTES, &text, err);
    ln_strbuf_append(&text, "", 0);
    offer->template = ln_strbuf_take(&text);
    if (status == LINNET_OK && offer->template == NULL)
        status = fail_memory(err);
    return status;
}

static linnet_status add_item(ln_cli_catalog *catalog, const char *file, json_t *item,
                              linnet_error *err) {
    const char *name = NULL, *model = NULL, *template = NULL;
    json_t *options = NULL;
    double keep_s = 0;
    json_error_t why;
    ln_cli_offer *offer;
    if (json_unpack_ex(item, &why, JSON_STRICT, "{s?s, s:s, s?s, s?o, s?F}", "name", &name, "model",
                       &model, "chat-template", &template, "options", &options, "keep-alive",
                       &keep_s) != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: a model: %s", file, why.text);
    if (options != NULL && !json_is_object(options))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: options of %s is not an object", file, model);
    LN_TRY(add_named(catalog, name, model, &offer, err));
    if (json_object_get(item, "keep-alive") != NULL)
        offer->spec.keep_ms = keep_s < 0 ? -1 : (int64_t)(fmin(keep_s, MAX_KEEP_S) * 1000);
    LN_TRY(read_template(offer, template, err));
    return read_options(offer, file, options, err);
}

static linnet_status add_file(ln_cli_catalog *catalog, const char *file, linnet_error *err) {
    json_error_t why;
    json_t *item;
    ln_strbuf text;
    size_t index;
    ln_strbuf_init(&text);
    linnet_status status = ln_file_read(file, MAX_FILE_BYTES, &text, err);
    if (status != LINNET_OK || !ln_strbuf_append(&text, "", 0)) {
        ln_strbuf_free(&text);
        return status != LINNET_OK ? status : fail_memory(err);
    }
    json_t *root = ln_json_load_bytes(text.data, text.len, JSON_REJECT_DUPLICATES, &why);
    const json_t *models = json_object_get(root, "models");
    ln_strbuf_free(&text);
    if (root == NULL && json_error_code(&why) == json_error_out_of_memory)
        status = fail_memory(err);
    else if (root == NULL)
        status = ln_fail(err, LINNET_ERR_FORMAT, "%s, line %d: %s", file, why.line, why.text);
    else if (!json_is_array(models))
        status = ln_fail(err, LINNET_ERR_FORMAT, "%s: \"models\" is missing or not a list", file);
    json_array_foreach(models, index, item) {
        if (status == LINNET_OK)
            status = add_item(catalog, file, item, err);
    }
    json_decref(root);
    return status;
}

linnet_status ln_cli_catalog_add_path(ln_cli_catalog *catalog, const char *path,
                                      linnet_error *err) {
    return ln_file_is_folder(path) ? add_folder(catalog, path, err) : add_file(catalog, path, err);
}

/* ---- the hub's cache -------------------------------------------------------------------- */

typedef struct cache_search {
    ln_cli_catalog *catalog;
    linnet_status status;
    linnet_error *err;
} cache_search;

static void see(void *user, const ln_hub_entry *entry) {
    cache_search *search = user;
    char name[3 * LN_HUB_NAME_BYTES];
    bool is_main = strcmp(entry->revision, "main") == 0;
    if (search->status != LINNET_OK)
        return;
    snprintf(name, sizeof name, "%s%s%s%s%s", entry->repo, *entry->tag ? ":" : "", entry->tag,
             is_main ? "" : "@", is_main ? "" : entry->revision);
    ln_cli_offer *offer = NULL;
    if (!has_name(search->catalog, name))
        search->status =
            add(search->catalog, strdup(name), strdup(entry->path), &offer, search->err);
    if (offer != NULL)
        offer->is_cached = true;
}

static linnet_status find_cache(ln_cli_catalog *catalog, linnet_error *err) {
    ln_cli_hub_environment environment;
    linnet_status status = ln_cli_hub_environment_read(&environment, err);
    if (status == LINNET_OK && (catalog->cache = strdup(environment.settings.cache)) == NULL)
        status = fail_memory(err);
    ln_cli_hub_environment_free(&environment);
    return status;
}

linnet_status ln_cli_catalog_add_cache(ln_cli_catalog *catalog, linnet_error *err) {
    cache_search search = {catalog, LINNET_OK, err};
    if (catalog->cache == NULL) /* later a sandbox may forbid to read the hub's token */
        LN_TRY(find_cache(catalog, err));
    LN_TRY(ln_hub_cache_list(catalog->cache, see, &search, err));
    return search.status;
}

/* ---- what is gone ------------------------------------------------------------------------ */

/* What cannot be looked at for other reasons is there. */
static bool is_missing(const ln_cli_offer *offer) {
    struct stat info;
    if (stat(offer->path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return offer->has_config && !has_config(offer->path);
}

void ln_cli_catalog_check(ln_cli_catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++) {
        ln_cli_offer *offer = catalog->offers[i];
        bool was_gone = offer->is_gone;
        offer->is_gone = is_missing(offer) || (was_gone && has_name(catalog, offer->name));
        if (was_gone && !offer->is_gone)
            measure_offer(offer);
    }
}

/* The revision that the name stands for may be another commit than it was. */
static void follow_name(const ln_cli_catalog *catalog, ln_cli_offer *offer) {
    ln_hub_name name;
    char *path = NULL;
    if (!offer->is_cached || ln_hub_name_parse(offer->name, &name, NULL) != LINNET_OK ||
        ln_hub_cache_find(catalog->cache, &name, &path, NULL) != LINNET_OK || path == NULL)
        return;
    free(offer->path);
    offer->path = path;
}

uint64_t ln_cli_catalog_identify(ln_cli_catalog *catalog, size_t i, bool *is_written) {
    enum { QUIET_NS = 1000000000 };
    struct timespec now;
    follow_name(catalog, catalog->offers[i]);
    file_sums sums = measure_offer(catalog->offers[i]);
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - sums.changed_ns;
    bool is_missing = sums.changed_ns == 0; /* as between two commands that replace a file */
    *is_written = is_missing || (age_ns >= 0 && age_ns < QUIET_NS);
    return sums.identity;
}

/* ---- the end ---------------------------------------------------------------------------- */

void ln_cli_catalog_free(ln_cli_catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++)
        free_offer(catalog->offers[i]);
    free(catalog->offers);
    free(catalog->cache);
    *catalog = (ln_cli_catalog){0};
}
