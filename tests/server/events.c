#include "server/events.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const char *type_of(const json_t *event) {
    const char *type = json_string_value(json_object_get(event, "type"));
    return type ? type : "";
}

/* A line "event: NAME" before the data names the data's type. */
static void check_name(const char *body, const char *data, const json_t *event) {
    static const char mark[] = "event: ";
    const char *line = data;
    while (line > body && strncmp(line, mark, strlen(mark)) != 0 && strncmp(line, "\n\n", 2) != 0)
        line--;
    if (strncmp(line, mark, strlen(mark)) != 0)
        return;
    line += strlen(mark);
    size_t n_bytes = strcspn(line, "\n");
    assert_int_equal(n_bytes, strlen(type_of(event)));
    assert_memory_equal(line, type_of(event), n_bytes);
}

json_t *events_read(const http_response *response) {
    static const char mark[] = "data: ";
    json_t *events = json_array();
    for (const char *at = response->body; (at = strstr(at, mark)) != NULL;) {
        const char *data = at;
        at += strlen(mark);
        if (strncmp(at, "[DONE]", 6) == 0)
            break;
        json_t *event = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        if (!event)
            fail_msg("no JSON: %.200s", at);
        check_name(response->body, data, event);
        assert_int_equal(json_array_append_new(events, event), 0);
    }
    return events;
}

char *events_join(const json_t *events, const char *type, const char *inner, const char *name) {
    size_t index, n_bytes = 0;
    json_t *event;
    char *joined = calloc(1, 1 << 16);
    assert_non_null(joined);
    json_array_foreach(events, index, event) {
        const json_t *holder = inner ? json_object_get(event, inner) : event;
        const char *text = json_string_value(json_object_get(holder, name));
        if (strcmp(type_of(event), type) != 0 || !text)
            continue;
        assert_true(n_bytes + strlen(text) + 1 < 1 << 16);
        memcpy(joined + n_bytes, text, strlen(text));
        n_bytes += strlen(text);
    }
    return joined;
}

char *events_types(const json_t *events) {
    size_t index;
    json_t *event;
    const char *last = "";
    char *types = calloc(1, 1 << 16);
    assert_non_null(types);
    json_array_foreach(events, index, event) {
        const char *type = type_of(event);
        if (strcmp(type, last) != 0) {
            assert_true(strlen(types) + strlen(type) + 2 < 1 << 16);
            strcat(strcat(types, type), " ");
        }
        last = type;
    }
    return types;
}
