/* libedit does the editing. While a line is typed Ctrl-C and Ctrl-Z are keys, otherwise signals. */
#include "cli/chat/line_reader.h"

#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HISTORY_LINES = 1000 };

struct ln_line_reader {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    char *history_path; /* NULL: nowhere to keep it */
    char prompt[64];
    bool discarded;
    char *line; /* of getline */
    size_t capacity;
};

/* ---- the history's file ----------------------------------------------------------------- */

/* $XDG_STATE_HOME/linnet/chat_history, or the same below ~/.local/state; its folder is made. */
static char *find_history(void) {
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    ln_strbuf path;
    ln_strbuf_init(&path);
    if (state && *state == '/')
        ln_strbuf_puts(&path, state);
    else if (home && *home == '/')
        ln_strbuf_printf(&path, "%s/.local/state", home);
    else
        return NULL;
    ln_strbuf_puts(&path, "/linnet/chat_history");
    for (size_t i = 1; !path.failed && i < path.len; i++) {
        if (path.data[i] != '/')
            continue;
        path.data[i] = '\0';
        mkdir(path.data, 0700); /* it may be there */
        path.data[i] = '/';
    }
    return ln_strbuf_take(&path);
}

static void save_history(const ln_line_reader *reader) {
    HistEvent event;
    mode_t mask = umask(0077); /* what was said is nobody else's business */
    if (reader->history_path)
        history(reader->history, &event, H_SAVE, reader->history_path);
    umask(mask);
}

/* ---- libedit ---------------------------------------------------------------------------- */

static char *get_prompt(EditLine *edit) {
    static char none[] = "";
    ln_line_reader *reader = NULL;
    el_get(edit, EL_CLIENTDATA, &reader);
    return reader ? reader->prompt : none;
}

static unsigned char discard_line(EditLine *edit, int key) {
    (void)key;
    ln_line_reader *reader = NULL;
    el_get(edit, EL_CLIENTDATA, &reader);
    reader->discarded = true;
    return CC_NEWLINE;
}

static unsigned char suspend(EditLine *edit, int key) {
    (void)key;
    el_set(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_set(edit, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
}

static bool start_editing(ln_line_reader *reader) {
    HistEvent event;
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    reader->history = history_init();
    reader->edit = el_init("linnet", stdin, stdout, stderr);
    if (!reader->history || !reader->edit)
        return false;
    history(reader->history, &event, H_SETSIZE, HISTORY_LINES);
    history(reader->history, &event, H_SETUNIQUE, 1);
    reader->history_path = find_history();
    if (reader->history_path)
        history(reader->history, &event, H_LOAD, reader->history_path);
    el_set(reader->edit, EL_CLIENTDATA, reader);
    el_set(reader->edit, EL_PROMPT_ESC, get_prompt, '\1');
    el_set(reader->edit, EL_EDITOR, "emacs");
    el_set(reader->edit, EL_HIST, history, reader->history);
    el_set(reader->edit, EL_ADDFN, "linnet-discard", "discard the line", discard_line);
    el_set(reader->edit, EL_ADDFN, "linnet-suspend", "suspend the program", suspend);
    el_set(reader->edit, EL_SETTY, "-d", "-isig", NULL);
    el_set(reader->edit, EL_BIND, "^C", "linnet-discard", NULL);
    el_set(reader->edit, EL_BIND, "^Z", "linnet-suspend", NULL);
    el_set(reader->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(reader->edit, NULL); /* the user's ~/.editrc */
    return true;
}

/* ---- the reader ------------------------------------------------------------------------- */

ln_line_reader *ln_line_reader_create(bool editing) {
    ln_line_reader *reader = calloc(1, sizeof *reader);
    if (reader && editing && !start_editing(reader)) {
        ln_line_reader_destroy(reader);
        return NULL;
    }
    return reader;
}

void ln_line_reader_destroy(ln_line_reader *reader) {
    if (!reader)
        return;
    if (reader->edit) {
        save_history(reader);
        el_end(reader->edit);
    }
    if (reader->history)
        history_end(reader->history);
    free(reader->history_path);
    free(reader->line);
    free(reader);
}

static ln_line_result read_edited(ln_line_reader *reader, ln_strbuf *line) {
    int length = 0;
    reader->discarded = false;
    const char *text = el_gets(reader->edit, &length);
    if (reader->discarded) {
        el_reset(reader->edit);
        fputs("^C\n", stdout);
        return LN_LINE_DISCARDED;
    }
    if (!text || length <= 0)
        return LN_LINE_END;
    if (text[length - 1] == '\n')
        length--;
    ln_strbuf_append(line, text, (size_t)length);
    return LN_LINE_OK;
}

static ln_line_result read_plain(ln_line_reader *reader, ln_strbuf *line) {
    ssize_t length = getline(&reader->line, &reader->capacity, stdin);
    if (length < 0)
        return LN_LINE_END;
    if (length > 0 && reader->line[length - 1] == '\n')
        length--;
    ln_strbuf_append(line, reader->line, (size_t)length);
    return LN_LINE_OK;
}

ln_line_result ln_line_reader_read(ln_line_reader *reader, const char *prompt, ln_strbuf *line) {
    snprintf(reader->prompt, sizeof reader->prompt, "%s", prompt);
    return reader->edit ? read_edited(reader, line) : read_plain(reader, line);
}

void ln_line_reader_remember(ln_line_reader *reader, const char *text) {
    HistEvent event;
    if (reader->edit)
        history(reader->history, &event, H_ENTER, text);
}
