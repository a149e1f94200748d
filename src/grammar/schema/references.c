/* Where references lead: the URIs, anchors and pointers of a document. */
#include <stdio.h>
#include <string.h>

#include "grammar/schema/schema.h"

enum { MAX_URI = 2048 };

/* ---- URIs --------------------------------------------------------------------------------------
 */

static size_t scheme_length(const char *uri) {
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 0 && uri[n] == ':' ? n + 1 : 0;
}

/* Where the path of a URI begins. */
static size_t path_at(const char *uri) {
    size_t n = scheme_length(uri);
    if (strncmp(uri + n, "//", 2) == 0)
        n += 2 + strcspn(uri + n + 2, "/?#");
    return n;
}

/* Takes "./" and "x/../" out of a path (RFC 3986, 5.2.4, as far as references need it). */
static void normalise(char *path) {
    for (char *at; (at = strstr(path, "/./")) != NULL;)
        memmove(at, at + 2, strlen(at + 2) + 1);
    for (char *at; (at = strstr(path, "/../")) != NULL;) {
        char *begin = at;
        while (begin > path && begin[-1] != '/')
            begin--;
        if (begin == at || begin == path)
            begin = path + (path[0] == '/');
        memmove(begin, at + 4, strlen(at + 4) + 1);
    }
}

/* What `reference` means where `base` is the URI; false: too long. */
static bool join(const char *base, const char *reference, char uri[MAX_URI]) {
    int n;
    size_t kept = strcspn(base, "#");
    if (scheme_length(reference) > 0) {
        n = snprintf(uri, MAX_URI, "%s", reference);
    } else {
        size_t path = path_at(base);
        if (reference[0] == '/') {
            kept = path;
        } else if (reference[0] != '#' && reference[0] != '\0') {
            kept = strcspn(base, "?#");
            while (kept > path && base[kept - 1] != '/')
                kept--;
        }
        n = snprintf(uri, MAX_URI, "%.*s%s", (int)kept, base, reference);
        if (n >= 0 && n < MAX_URI && reference[0] != '#')
            normalise(uri + path_at(uri));
    }
    return n >= 0 && n < MAX_URI;
}

/* ---- the document ------------------------------------------------------------------------------
 */

static bool is_any_of(const char *word, const char *list) {
    size_t n = strlen(word);
    if (n == 0 || strchr(word, ' ') != NULL) /* strstr finds "" behind the end, too */
        return false;
    for (const char *at = list; (at = strstr(at, word)) != NULL; at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static void index_schema(ln_schema *s, json_t *schema, const char *base, unsigned depth);

static void index_children(ln_schema *s, json_t *value, const char *base, unsigned depth) {
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach(value, key, child) {
        index_schema(s, child, base, depth + 1);
    }
    json_array_foreach(value, i, child) {
        index_schema(s, child, base, depth + 1);
    }
}

static void add_resource(ln_schema *s, const char *base, const char *anchor, json_t *schema) {
    char uri[MAX_URI];
    int n = snprintf(uri, sizeof uri, "%.*s%s%s", (int)strcspn(base, "#"), base,
                     anchor != NULL ? "#" : "", anchor != NULL ? anchor : "");
    if (n > 0 && n < MAX_URI && json_object_get(s->resources, uri) == NULL)
        json_object_set(s->resources, uri, schema);
}

static void note_base(ln_schema *s, json_t *schema, const char *base) {
    char key[64];
    snprintf(key, sizeof key, "base %p", (void *)schema);
    json_object_set_new(s->known, key, json_string(base));
}

static void index_names(ln_schema *s, json_t *schema, const char *base) {
    const char *anchor = json_string_value(json_object_get(schema, "$anchor"));
    const char *dynamic = json_string_value(json_object_get(schema, "$dynamicAnchor"));
    char marked[MAX_URI];
    if (anchor != NULL)
        add_resource(s, base, anchor, schema);
    if (dynamic == NULL)
        return;
    add_resource(s, base, dynamic, schema);
    int n = snprintf(marked, sizeof marked, "dynamic %s", dynamic);
    json_t *known = json_object_get(s->known, marked);
    if (n < MAX_URI)
        json_object_set_new(s->known, marked, json_integer(json_integer_value(known) + 1));
}

static void index_schema(ln_schema *s, json_t *schema, const char *base, unsigned depth) {
    const char *id = json_string_value(json_object_get(schema, "$id")), *key;
    char uri[MAX_URI];
    json_t *child;
    if (depth > 1000 || (!json_is_object(schema) && !json_is_array(schema)))
        return;
    if (id == NULL)
        id = json_string_value(json_object_get(schema, "id"));
    if (id != NULL && id[0] == '#' && id[1] != '\0') {
        add_resource(s, base, id + 1, schema);
    } else if (id != NULL && join(base, id, uri)) {
        uri[strcspn(uri, "#")] = '\0';
        base = uri;
        add_resource(s, base, NULL, schema);
    }
    if (json_is_object(schema))
        index_names(s, schema, base);
    if (json_object_get(schema, "$ref") != NULL || json_object_get(schema, "$dynamicRef") != NULL ||
        json_object_get(schema, "$recursiveRef") != NULL)
        note_base(s, schema, base);
    if (json_is_array(schema))
        index_children(s, schema, base, depth);
    json_object_foreach(schema, key, child) {
        if (is_any_of(key, "properties patternProperties $defs definitions dependentSchemas "
                           "dependencies"))
            index_children(s, child, base, depth);
        else if (!is_any_of(key, "enum const default examples example"))
            index_schema(s, child, base, depth + 1);
    }
}

void ln_schema_index(ln_schema *s) {
    const char *dialect = json_string_value(json_object_get(s->root, "$schema"));
    s->keeps_beside_ref = dialect == NULL ||
                          (strstr(dialect, "draft-0") == NULL && strstr(dialect, "draft0") == NULL);
    s->annotates_formats = dialect != NULL && (strstr(dialect, "2019-09") != NULL ||
                                               strstr(dialect, "2020-12") != NULL);
    json_object_set(s->resources, "", s->root);
    index_schema(s, s->root, "", 0);
}

/* ---- following ---------------------------------------------------------------------------------
 */

static int hex_digit(char c) {
    const char *digits = "0123456789abcdefABCDEF", *found = c != '\0' ? strchr(digits, c) : NULL;
    return found == NULL ? -1 : (int)(found - digits) - (found - digits > 15 ? 6 : 0);
}

/* The member or item that a part of a pointer in a URI names: ~0 is ~, ~1 is a slash, %XX a byte.
 */
static json_t *step_into(json_t *at, const char *name, size_t n_bytes) {
    char key[1024];
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = name[i];
        if (n + 1 == sizeof key)
            return NULL;
        if (c == '%' && i + 2 < n_bytes && hex_digit(name[i + 1]) >= 0 &&
            hex_digit(name[i + 2]) >= 0) {
            c = (char)(hex_digit(name[i + 1]) << 4 | hex_digit(name[i + 2]));
            i += 2;
            if (c == '\0') /* no key has it */
                return NULL;
        }
        if (c == '~' && i + 1 < n_bytes)
            c = name[++i] == '0' ? '~' : '/';
        key[n++] = c;
    }
    key[n] = '\0';
    if (json_is_array(at)) {
        size_t index = 0;
        for (size_t i = 0; i < n && index < 1000000; i++)
            index = key[i] >= '0' && key[i] <= '9' ? index * 10 + (size_t)(key[i] - '0') : 1000000;
        return json_array_get(at, index);
    }
    return json_object_get(at, key);
}

/* What a reference without its base means; NULL: nothing. */
static json_t *find(ln_schema *s, const char *base, const char *reference) {
    char uri[MAX_URI];
    if (!join(base, reference, uri))
        return NULL;
    size_t end = strcspn(uri, "#");
    const char *fragment = uri[end] == '#' ? uri + end + 1 : "";
    if (fragment[0] != '\0' && fragment[0] != '/')
        return json_object_get(s->resources, uri);
    uri[end] = '\0';
    json_t *at = json_object_get(s->resources, uri);
    for (const char *part = fragment; *part == '/' && at != NULL;) {
        size_t n_bytes = strcspn(part + 1, "/");
        at = step_into(at, part + 1, n_bytes);
        part += 1 + n_bytes;
    }
    return at;
}

/* A reference that leads to an anchor which the outermost document may set again. */
static json_t *follow_dynamic(ln_schema *s, const char *reference, json_t *target) {
    const char *anchor = json_string_value(json_object_get(target, "$dynamicAnchor"));
    const char *fragment = strchr(reference, '#');
    const char *id = json_string_value(json_object_get(s->root, "$id"));
    char key[MAX_URI], own[MAX_URI];
    if (anchor == NULL || fragment == NULL || strcmp(fragment + 1, anchor) != 0)
        return target;
    int n = snprintf(key, sizeof key, "dynamic %s", anchor);
    int m = snprintf(own, sizeof own, "#%s", anchor);
    if (n >= MAX_URI || m >= MAX_URI || json_integer_value(json_object_get(s->known, key)) <= 1)
        return target;
    json_t *outermost = find(s, id != NULL ? id : "", own);
    if (json_object_get(outermost, "$dynamicAnchor") != NULL)
        return outermost;
    ln_schema_unsupported(s, "a $dynamicRef whose anchor several schemas set, but not the root");
    return target;
}

json_t *ln_schema_follow(ln_schema *s, json_t *schema, const char *keyword) {
    const char *reference = json_string_value(json_object_get(schema, keyword));
    char key[64];
    snprintf(key, sizeof key, "base %p", (void *)schema);
    const char *base = json_string_value(json_object_get(s->known, key));
    if (reference == NULL) {
        ln_schema_malformed(s, keyword, "a string");
        return NULL;
    }
    json_t *target = find(s, base != NULL ? base : "", reference);
    if (target == NULL) /* the identifiers of older documents are often no bases */
        target = find(s, "", reference);
    if (target == NULL) {
        ln_grammar_fail(s->builder,
                        reference[0] == '#' ? LINNET_ERR_ARGUMENT : LINNET_ERR_UNSUPPORTED,
                        reference[0] == '#' ? "JSON schema: %s \"%.80s\" leads nowhere"
                                            : "JSON schema: %s \"%.80s\" leads to another document",
                        keyword, reference);
    } else if (strcmp(keyword, "$dynamicRef") == 0) {
        target = follow_dynamic(s, reference, target);
    } else if (strcmp(keyword, "$recursiveRef") == 0 &&
               json_is_true(json_object_get(target, "$recursiveAnchor")) &&
               json_is_true(json_object_get(s->root, "$recursiveAnchor"))) {
        target = s->root;
    }
    return target;
}

bool ln_schema_get_reference(ln_schema *s, json_t *schema, json_t **target) {
    static const char *const keywords[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    *target = NULL;
    for (size_t i = 0; i < 3; i++) {
        if (json_object_get(schema, keywords[i]) == NULL)
            continue;
        *target = ln_schema_follow(s, schema, keywords[i]);
        return true;
    }
    return false;
}
