#include "cli/input.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "cli/output.h"

int ln_cli_read_text(const char *path, char **text, size_t *n_bytes) {
    const char *name = path ? path : "standard input";
    FILE *file = path ? fopen(path, "rb") : stdin;
    if (!file)
        return ln_cli_fail("cannot open %s: %s", name, strerror(errno));
    ln_strbuf buf;
    ln_strbuf_init(&buf);
    char chunk[65536];
    size_t n;
    do { /* a terminal's end is not asked for twice */
        n = fread(chunk, 1, sizeof chunk, file);
        ln_strbuf_append(&buf, chunk, n);
    } while (n == sizeof chunk);
    int status = 0;
    if (ferror(file))
        status = ln_cli_fail("cannot read %s: %s", name, strerror(errno));
    if (path)
        fclose(file);
    ln_strbuf_append(&buf, "", 0); /* an empty text is one too */
    *n_bytes = buf.len;
    *text = ln_strbuf_take(&buf);
    if (status == 0 && !*text)
        status = ln_cli_fail("cannot read %s: out of memory", name);
    if (status != 0) {
        free(*text);
        *text = NULL;
    }
    return status;
}

void ln_cli_tell_stdin(const char *what) {
    if (isatty(STDIN_FILENO))
        fprintf(stderr, "Type %s; Ctrl-D on a line of its own ends it.\n", what);
}

int ln_cli_set_chat_template(linnet_model *model, const char *path) {
    char *source = NULL;
    size_t n_bytes = 0;
    linnet_error err = {0};
    int status = ln_cli_read_text(path, &source, &n_bytes);
    if (status == 0 && linnet_model_set_chat_template(model, source, n_bytes, &err) != LINNET_OK)
        status = ln_cli_fail("%s: %s", path, err.message);
    free(source);
    return status;
}

char *ln_cli_find_demo_model(void) {
    /* beside the program; in the source tree, from build/; installed, from bin/ */
    static const char *const places[] = {"models", "../models", "../share/linnet/models"};
    char folder[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length <= 0)
        return NULL;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s/demo.gguf", folder, places[i]) < 0)
            return NULL;
        if (access(path, R_OK) == 0) {
            char *shortest = realpath(path, NULL);
            if (!shortest)
                return path;
            free(path);
            return shortest;
        }
        free(path);
    }
    return NULL;
}
