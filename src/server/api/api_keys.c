#include "server/api/api_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ------------------------------------------------------------------------------ */

static bool is_printable(const char *text) {
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    return *text != '\0';
}

/* The number behind "name="; false: the word is another, or no number of 1 to `most`. */
static bool read_limit(const char *word, const char *name, unsigned long most,
                       unsigned long *value) {
    size_t n_bytes = strlen(name);
    char *end;
    if (strncmp(word, name, n_bytes) != 0 || word[n_bytes] < '0' || word[n_bytes] > '9')
        return false;
    errno = 0;
    *value = strtoul(word + n_bytes, &end, 10);
    return errno == 0 && *end == '\0' && *value > 0 && *value <= most;
}

static ln_status read_word(ln_api_key_spec *spec, const char *word, const char *culprit,
                           ln_error *err) {
    enum { MOST = 1 << 20 };
    unsigned long value;
    if (read_limit(word, "max-sequences=", MOST, &value))
        spec->max_sequences = value;
    else if (read_limit(word, "requests-per-minute=", MOST, &value))
        spec->requests_per_minute = (uint32_t)value;
    else if (spec->name[0] != '\0' || strchr(word, '=') != NULL || !is_printable(word) ||
             strlen(word) > LN_API_KEY_NAME_BYTES)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "%s: \"%.64s\" is neither a name of up to %d bytes nor max-sequences=N or "
                       "requests-per-minute=N with N from 1 to %d",
                       culprit, word, LN_API_KEY_NAME_BYTES, MOST);
    else
        memcpy(spec->name, word, strlen(word) + 1);
    return LINNET_OK;
}

static ln_status read_line(ln_api_key_spec *spec, char *line, const char *culprit, ln_error *err) {
    char *rest = line;
    const char *key = strsep(&rest, " \t");
    if (strlen(key) > LN_API_KEY_BYTES || !is_printable(key))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "%s: a key is not 1 to %d characters of printable ASCII", culprit,
                       LN_API_KEY_BYTES);
    memcpy(spec->text, key, strlen(key) + 1);
    for (const char *word; (word = strsep(&rest, " \t")) != NULL;)
        if (*word != '\0')
            LN_TRY(read_word(spec, word, culprit, err));
    return LINNET_OK;
}

ln_status ln_api_key_list_add(ln_api_key_list *list, const char *line, const char *culprit,
                              ln_error *err) {
    ln_api_key_spec spec = {0};
    if (list->count == LN_API_KEY_MAX)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s: more than %d keys", culprit, LN_API_KEY_MAX);
    char *copy = strdup(line);
    ln_status status = copy != NULL ? read_line(&spec, copy, culprit, err)
                                    : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    free(copy);
    LN_TRY(status);
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].text, spec.text) == 0)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "%s: the key is there twice", culprit);
    ln_api_key_spec *items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (items == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    list->items = items;
    items[list->count++] = spec;
    return LINNET_OK;
}

ln_status ln_api_key_list_read(ln_api_key_list *list, const char *text, const char *culprit,
                               ln_error *err) {
    char *copy = strdup(text), *rest = copy, place[512];
    size_t before = list->count, number = 0;
    ln_status status = copy != NULL ? LINNET_OK : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    for (char *line; status == LINNET_OK && (line = strsep(&rest, "\n")) != NULL;) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        if (*line == '\0' || *line == '#')
            continue;
        snprintf(place, sizeof place, "%.400s: line %zu", culprit, number);
        status = ln_api_key_list_add(list, line, place, err);
    }
    free(copy);
    if (status == LINNET_OK && list->count == before)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s has no key", culprit);
    return status;
}

void ln_api_key_list_free(ln_api_key_list *list) {
    free(list->items);
    *list = (ln_api_key_list){0};
}

/* ---- the table -------------------------------------------------------------------------- */

/* By text and name, which workers read, and which so never change. */
static ln_api_key *find(ln_api_key *const *items, size_t count, const ln_api_key_spec *spec) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(items[i]->spec.text, spec->text) == 0 &&
            strcmp(items[i]->spec.name, spec->name) == 0)
            return items[i];
    return NULL;
}

static void set_limits(ln_api_key *key, const ln_api_key_spec *spec) {
    if (key->spec.requests_per_minute != spec->requests_per_minute)
        key->n_allowed = spec->requests_per_minute;
    key->spec.requests_per_minute = spec->requests_per_minute;
    key->spec.max_sequences = spec->max_sequences;
    atomic_store(&key->admission.limit, spec->max_sequences > 0 ? spec->max_sequences : SIZE_MAX);
}

static ln_api_key *create(const ln_api_key_spec *spec, ln_admission *server) {
    ln_api_key *key = calloc(1, sizeof *key);
    if (key == NULL)
        return NULL;
    ln_admission_init(&key->admission, server);
    memcpy(key->spec.text, spec->text, sizeof spec->text);
    memcpy(key->spec.name, spec->name, sizeof spec->name);
    key->admission.name = spec->name[0] != '\0' ? key->spec.name : "without a name";
    set_limits(key, spec);
    return key;
}

/* Keys of the list that were not there before; the others are NULL. */
static bool create_new(const ln_api_keys *keys, const ln_api_key_list *list, ln_admission *server,
                       ln_api_key **made) {
    for (size_t i = 0; i < list->count; i++)
        if (find(keys->items, keys->count, &list->items[i]) == NULL &&
            (made[i] = create(&list->items[i], server)) == NULL)
            return false;
    return true;
}

/* A key that comes back after it was away is made anew; the old one stays with its requests. */
ln_status ln_api_keys_replace(ln_api_keys *keys, const ln_api_key_list *list, ln_admission *server,
                              ln_error *err) {
    ln_api_key **items = calloc(list->count + 1, sizeof(ln_api_key *));
    ln_api_key **past = calloc(keys->n_past + keys->count + 1, sizeof(ln_api_key *));
    if (items == NULL || past == NULL || !create_new(keys, list, server, items)) {
        for (size_t i = 0; items != NULL && i < list->count; i++)
            free(items[i]);
        free(items);
        free(past);
        return ln_fail_memory(err, "API keys");
    }
    for (size_t i = 0; i < list->count; i++) {
        if (items[i] == NULL)
            items[i] = find(keys->items, keys->count, &list->items[i]);
        set_limits(items[i], &list->items[i]);
    }
    if (keys->n_past > 0)
        memcpy(past, keys->past, keys->n_past * sizeof(ln_api_key *));
    for (size_t i = 0; i < keys->count; i++)
        if (find(items, list->count, &keys->items[i]->spec) == NULL)
            past[keys->n_past++] = keys->items[i];
    free(keys->items);
    free(keys->past);
    keys->items = items;
    keys->count = list->count;
    keys->past = past;
    return LINNET_OK;
}

/* Compares with every key, each over the longest possible length, so that the time says nothing
 * of where they differ. */
ln_api_key *ln_api_keys_find(const ln_api_keys *keys, const char *given) {
    char padded[LN_API_KEY_BYTES] = {0};
    size_t n_given = strlen(given);
    ln_api_key *found = NULL;
    memcpy(padded, given, n_given < sizeof padded ? n_given : sizeof padded);
    for (size_t i = 0; i < keys->count; i++) {
        const char *text = keys->items[i]->spec.text; /* zeros follow it */
        volatile unsigned char difference = strlen(text) != n_given;
        for (size_t j = 0; j < sizeof padded; j++)
            difference = (unsigned char)(difference | (padded[j] ^ text[j]));
        if (difference == 0)
            found = keys->items[i];
    }
    return found;
}

/* A token bucket that holds a minute's requests. */
bool ln_api_key_take(ln_api_key *key, uint64_t now_ns, unsigned *wait_s) {
    double a_minute = key->spec.requests_per_minute;
    if (a_minute == 0)
        return true;
    key->n_allowed += (double)(now_ns - key->since_ns) * a_minute / 60e9;
    key->since_ns = now_ns;
    if (key->n_allowed > a_minute)
        key->n_allowed = a_minute;
    if (key->n_allowed < 1) {
        *wait_s = 1 + (unsigned)((1 - key->n_allowed) * 60 / a_minute);
        return false;
    }
    key->n_allowed -= 1;
    return true;
}

void ln_api_keys_free(ln_api_keys *keys) {
    for (size_t i = 0; i < keys->count; i++)
        free(keys->items[i]);
    for (size_t i = 0; i < keys->n_past; i++)
        free(keys->past[i]);
    free(keys->items);
    free(keys->past);
    *keys = (ln_api_keys){0};
}
