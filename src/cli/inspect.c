/* linnet inspect: what a checkpoint holds. */
#include <argp.h>
#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json/load.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"

enum { KEY_TENSORS = LN_KEYS_COMMAND, KEY_JSON };

typedef struct inspect_args {
    const char *model;
    bool tensors, json;
} inspect_args;

static const struct argp_option options[] = {
    {"tensors", KEY_TENSORS, NULL, 0, "List every tensor: name, type, shape, bytes", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    inspect_args *args = state->input;
    switch (key) {
    case KEY_TENSORS: args->tensors = true; break;
    case KEY_JSON: args->json = true; break;
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->model; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp inspect_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .doc = "Prints what a checkpoint holds: files and sizes, architecture, tokenizer, metadata, "
           "tensor types. Reads headers only. Long arrays of metadata are counted, not printed.",
    .children = ln_cli_model_children,
};

/* ---- the JSON object as text ------------------------------------------------------------ */

/* Text of a file with its control characters escaped, so that it cannot play with the terminal:
 * those of ASCII, and U+0080 to U+009F, which some terminals obey too. */
static size_t print_text(const char *text, size_t n_bytes) {
    size_t n_printed = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool is_c1 = byte == 0xc2 && i + 1 < n_bytes && ((unsigned char)text[i + 1] & 0xe0) == 0x80;
        if (byte < 0x20 || byte == 0x7f || is_c1)
            n_printed += (size_t)printf("\\x%02x", is_c1 ? (unsigned char)text[++i] : byte);
        else
            n_printed += putchar(byte) != EOF;
    }
    return n_printed;
}

static void print_key(const char *key, int width) {
    for (size_t n = print_text(key, strlen(key)); n < (size_t)width; n++)
        putchar(' ');
}

/* A scalar without quotes; long strings are cut. */
static void print_scalar(const char *key, const json_t *value) {
    enum { MAX_SHOWN_BYTES = 200 };
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t n_bytes = json_string_length(value);
        size_t shown = n_bytes <= MAX_SHOWN_BYTES ? n_bytes : MAX_SHOWN_BYTES;
        while (shown < n_bytes && ((unsigned char)text[shown] & 0xc0) == 0x80)
            shown--; /* not inside a code point */
        print_text(text, shown);
        if (shown < n_bytes)
            printf("... (%zu bytes)", n_bytes);
    } else if (json_is_integer(value)) {
        long long number = json_integer_value(value);
        printf("%lld", number);
        size_t key_length = strlen(key);
        if (key_length >= 5 && strcmp(key + key_length - 5, "bytes") == 0 && number >= 1024)
            printf(" (%s)", ln_cli_size_text((size_t)number).text);
    } else if (json_is_real(value)) {
        printf("%g", json_real_value(value));
    } else {
        fputs(json_is_true(value) ? "yes" : (json_is_false(value) ? "no" : "none"), stdout);
    }
}

static bool is_scalar(const json_t *value) {
    return !json_is_object(value) && !json_is_array(value);
}

/* An object or array on one line: "key value, key value". */
static void print_line(json_t *value) {
    const char *key;
    json_t *item;
    size_t index;
    const char *comma = "";
    if (json_is_object(value)) {
        json_object_foreach(value, key, item) {
            fputs(comma, stdout);
            print_key(key, 0);
            putchar(' ');
            if (is_scalar(item)) {
                print_scalar(key, item);
            } else {
                fputs(json_is_object(item) ? "(" : "", stdout);
                print_line(item);
                fputs(json_is_object(item) ? ")" : "", stdout);
            }
            comma = ", ";
        }
    } else {
        putchar('[');
        json_array_foreach(value, index, item) {
            fputs(comma, stdout);
            if (is_scalar(item))
                print_scalar("", item);
            else
                print_line(item);
            comma = ", ";
        }
        putchar(']');
    }
}

/* Width of the keys' column: the longest key, within reason. */
static int key_width(json_t *object) {
    enum { MAX_WIDTH = 36 };
    size_t width = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        size_t length = strlen(key);
        if (length > width)
            width = length;
    }
    return width < MAX_WIDTH ? (int)width : MAX_WIDTH;
}

/* A member per line; arrays of objects have a line for each. */
static void print_object(json_t *object, int indent) {
    int width = key_width(object);
    const char *key;
    json_t *value, *item;
    size_t index;
    json_object_foreach(object, key, value) {
        printf("%*s", indent, "");
        if (is_scalar(value)) {
            print_key(key, width);
            fputs("  ", stdout);
            print_scalar(key, value);
            putchar('\n');
        } else if (json_is_object(value)) {
            print_key(key, 0);
            putchar('\n');
            print_object(value, indent + 2);
        } else if (json_array_size(value) > 0 && json_is_object(json_array_get(value, 0))) {
            print_key(key, 0);
            putchar('\n');
            json_array_foreach(value, index, item) {
                printf("%*s", indent + 2, "");
                print_line(item);
                putchar('\n');
            }
        } else {
            print_key(key, width);
            fputs("  ", stdout);
            print_line(value);
            putchar('\n');
        }
    }
}

int ln_cli_inspect(int argc, char **argv) {
    inspect_args args = {0};
    if (ln_cli_parse(&inspect_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;

    int exit_status = 0;
    linnet_model *model = NULL;
    ln_checkpoint *own = NULL;
    linnet_error err = {0}, ignored = {0};
    linnet_status status = ln_cli_resolve_model(&args.model, &err);
    if (status == LINNET_OK)
        status = linnet_model_open(args.model, &model, &err);
    if (status == LINNET_ERR_UNSUPPORTED)
        ln_checkpoint_open(args.model, false, &own, &ignored);
    if (!model && !own)
        return ln_cli_fail("%s", err.message);

    json_t *report = ln_cli_report(model ? model->checkpoint : own, model, err.message,
                                   args.tensors || args.json);
    if (args.json || !report || ln_json_memory_failed()) {
        exit_status = ln_cli_print_json(stdout, report, true);
    } else {
        print_object(report, 0);
        json_decref(report);
    }
    linnet_model_close(model);
    ln_checkpoint_close(own);
    return exit_status;
}

int ln_cli_show(int argc, char **argv) {
    return ln_cli_inspect(argc, argv);
}
