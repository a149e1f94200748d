/* What a chat writes of an answer, event by event: thoughts are dimmed on a terminal. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat/chat_printer.h"
#include "model/model.h"
#include "test.h"

#define DEMO  TEST_SOURCE_DIR "/models/demo.gguf"
#define DIM   "\033[2m"
#define PLAIN "\033[0m"

/* What a printer answer in pieces of `n_each` bytes writes to stdout; *kept is what stays of it. */
static char *speak(const linnet_model *model, const char *prompt, const char *text, size_t n_each,
                   bool has_colour, char **kept) {
    ln_chat_printer printer;
    int pipe_fds[2], out = dup(STDOUT_FILENO);
    fflush(stdout);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_true(dup2(pipe_fds[1], STDOUT_FILENO) >= 0);
    ln_chat_printer_init(&printer, model->tokenizer, prompt, has_colour);
    size_t n_bytes = strlen(text);
    bool is_open = true;
    for (size_t i = 0; i < n_bytes; i += n_each) {
        linnet_event event = {.token = 50,
                              .text = text + i,
                              .text_bytes = n_each < n_bytes - i ? n_each : n_bytes - i};
        is_open = is_open && printer.sink.take(printer.sink.user, &event);
    }
    is_open = is_open && ln_chat_printer_finish(&printer);
    dup2(out, STDOUT_FILENO);
    close(out);
    close(pipe_fds[1]);
    assert_true(is_open);
    *kept = strdup(printer.text.data);
    ln_chat_printer_free(&printer);
    char *written = calloc(1, 4096);
    assert_non_null(written);
    for (ssize_t n, at = 0; (n = read(pipe_fds[0], written + at, 4095 - (size_t)at)) > 0;)
        at += n;
    close(pipe_fds[0]);
    return written;
}

static void dims_thoughts(void **state) {
    static const struct {
        const char *prompt, *text, *shown;
    } cases[] = {
        {"assistant\n", "Plain.", "Plain."},
        {"assistant\n", "<think>\nHm.\n</think>\n\nYes.", DIM "Hm.\n" PLAIN "Yes."},
        {"assistant\n", "<think>so</think>Yes.", DIM "so" PLAIN "\nYes."},
        {"assistant\n<think>\n", "Hm, 1 < 2.</think>Yes.", DIM "Hm, 1 < 2." PLAIN "\nYes."},
        {"assistant\n<think>\n", "No end", DIM "No end" PLAIN},
        {"<think>\n\n</think>\n\n", "Yes, <think> is a word.", "Yes, <think> is a word."},
        {"assistant\n", "I say <think>.", "I say <think>."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n_each = 1; n_each < 30; n_each += 4) {
            char *kept;
            char *shown = speak(*state, cases[i].prompt, cases[i].text, n_each, true, &kept);
            assert_string_equal(shown, cases[i].shown);
            assert_string_equal(kept, cases[i].text); /* the conversation has all of it */
            free(shown);
            free(kept);
            shown = speak(*state, cases[i].prompt, cases[i].text, n_each, false, &kept);
            assert_string_equal(shown, cases[i].text); /* a pipe gets it as it is */
            assert_string_equal(kept, cases[i].text);
            free(shown);
            free(kept);
        }
}

static int open_model(void **state) {
    linnet_error err = {0};
    linnet_model *model;
    if (linnet_model_open(DEMO, &model, &err) != LINNET_OK)
        return -1;
    *state = model;
    return 0;
}

static int close_model(void **state) {
    linnet_model_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dims_thoughts)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
