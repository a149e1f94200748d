/* linnet chat on a terminal: a person types, and looks at what comes. */
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

static const char demo[] = TEST_SOURCE_DIR "/models/demo.gguf";
#define PROMPT "\033[1;36m>\033[0m "

/* A chat template without the beginning of an answer. */
#define TURNS                                                                                      \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

enum { MAX_BYTES = 1 << 20, TIMEOUT_MS = 60000 };

typedef struct terminal {
    pid_t pid;
    int fd;
    char *shown;            /* [n_shown], NUL-terminated: all that came */
    size_t n_shown, n_read; /* what `wait_for` has gone past */
    bool has_ended;
    const char *prompt;
} terminal;

/* Runs linnet with its terminal; a NULL ends the arguments. Its history lies in `folder`. */
static terminal open_terminal(const char *folder, const char *no_colour,
                              const char *const *arguments) {
    terminal opened = {.shown = calloc(1, MAX_BYTES), .prompt = no_colour ? "> " : PROMPT};
    const char *argv[32] = {TEST_LINNET};
    for (int i = 0; i < 30 && arguments[i]; i++)
        argv[i + 1] = arguments[i];
    assert_non_null(opened.shown);
    struct winsize size = {.ws_row = 40, .ws_col = 100};
    opened.pid = forkpty(&opened.fd, NULL, NULL, &size);
    assert_true(opened.pid >= 0);
    if (opened.pid == 0) {
        setenv("TERM", "xterm", 1);
        setenv("XDG_STATE_HOME", folder, 1);
        setenv("HOME", folder, 1);
        setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* libedit never frees the names of keys */
        unsetenv("NO_COLOR");
        if (no_colour)
            setenv("NO_COLOR", no_colour, 1);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return opened;
}

/* Waits until the text comes, behind what came before; false when the program ends first. */
static bool comes(terminal *in, const char *text) {
    for (;;) {
        const char *found = strstr(in->shown + in->n_read, text);
        if (found) {
            in->n_read = (size_t)(found - in->shown) + strlen(text);
            return true;
        }
        struct pollfd poll_fd = {.fd = in->fd, .events = POLLIN};
        if (in->n_shown + 1 == MAX_BYTES || poll(&poll_fd, 1, TIMEOUT_MS) <= 0)
            return false;
        ssize_t n = read(in->fd, in->shown + in->n_shown, MAX_BYTES - 1 - in->n_shown);
        in->has_ended = n <= 0;
        if (n <= 0)
            return false;
        in->n_shown += (size_t)n;
    }
}

static void wait_for(terminal *in, const char *text) {
    if (!comes(in, text)) {
        kill(in->pid, SIGKILL);
        fail_msg("'%s' does not come behind byte %zu of '%s'", text, in->n_read, in->shown);
    }
}

static void press(terminal *in, const char *keys) {
    assert_int_equal(write(in->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Types where a line is read. The prompt shows a moment before keys are keys: until then Ctrl-C
 * would be a signal, and Ctrl-D nothing. */
static void type(terminal *in, const char *keys) {
    struct termios modes;
    for (int times = 0; times < TIMEOUT_MS; times++) {
        assert_int_equal(tcgetattr(in->fd, &modes), 0);
        if (!(modes.c_lflag & ICANON)) {
            press(in, keys);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    kill(in->pid, SIGKILL);
    fail_msg("no line is read behind '%s'", in->shown);
}

/* Ctrl-D at the prompt, and the end: the exit status. */
static int close_terminal(terminal *in) {
    int status;
    wait_for(in, in->prompt);
    type(in, "\x04");
    if (comes(in, "nothing that comes") || !in->has_ended)
        kill(in->pid, SIGKILL);
    assert_int_equal(waitpid(in->pid, &status, 0), in->pid);
    close(in->fd);
    free(in->shown);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define OPEN(folder, ...)                                                                          \
    open_terminal(folder, NULL, (const char *const[]){"chat", demo, __VA_ARGS__, NULL})

static char *file_of(const char *folder, const char *name) {
    size_t n_bytes;
    return read_file(path_in(folder, name), &n_bytes);
}

static void change_settings(terminal *chat) {
    /* the arrow goes back in history: /stats again */
    type(chat, "\033[A\n");
    wait_for(chat, "conversation  4 messages, ");
    wait_for(chat, PROMPT);
    type(chat, "/clear\n");
    wait_for(chat, PROMPT);
    type(chat, "/system Be brief.\n");
    wait_for(chat, PROMPT);
    type(chat, "/set temp 0.5\n");
    wait_for(chat, PROMPT);
    type(chat, "/set temp cold\n");
    wait_for(chat, "--temp: 'cold'");
    wait_for(chat, PROMPT);
    type(chat, "/set top-k 1\n");
    wait_for(chat, PROMPT);
}

static void test_talk(void **state) {
    (void)state;
    char *folder = temp_create(), keys[512];
    terminal chat = OPEN(folder, "--temp", "0", "--threads", "1");
    wait_for(&chat, "/help lists the commands");
    wait_for(&chat, PROMPT);
    type(&chat, "2+3=\n");
    wait_for(&chat, "\r\n5\r\n" PROMPT);
    type(&chat, "/help\n");
    wait_for(&chat, "/save FILE");
    wait_for(&chat, "Ctrl-C stops an answer.");
    wait_for(&chat, PROMPT);
    /* what is being typed can be mended, or given up */
    type(&chat, "4+9\x7f"
                "4=\n");
    wait_for(&chat, "\r\n8\r\n" PROMPT);
    type(&chat, "rubbish\x03");
    wait_for(&chat, "^C");
    wait_for(&chat, PROMPT);
    type(&chat, "/stats\n");
    wait_for(&chat, "conversation  4 messages, ");
    wait_for(&chat, " of 1024 tokens");
    wait_for(&chat, PROMPT);
    change_settings(&chat);
    /* lines between fences, and lines that go on, are one message */
    type(&chat, "\"\"\"1\n");
    wait_for(&chat, ". ");
    type(&chat, "+1=\n");
    wait_for(&chat, ". ");
    type(&chat, "\"\"\"\n");
    wait_for(&chat, "\r\n" PROMPT);
    type(&chat, "2+\\\n");
    wait_for(&chat, ". ");
    type(&chat, "2=\n");
    wait_for(&chat, "\r\n" PROMPT);
    snprintf(keys, sizeof keys, "/save %s\n", path_in(folder, "chat.json"));
    type(&chat, keys);
    wait_for(&chat, "saved to ");
    wait_for(&chat, PROMPT);
    snprintf(keys, sizeof keys, "/load %s\n", path_in(folder, "chat.json"));
    type(&chat, keys);
    wait_for(&chat, "5 messages");
    assert_int_equal(close_terminal(&chat), 0);
    char *saved = file_of(folder, "chat.json");
    assert_non_null(strstr(saved, "\"content\": \"Be brief.\""));
    assert_non_null(strstr(saved, "\"content\": \"1\\n+1=\\n\""));
    assert_non_null(strstr(saved, "\"content\": \"2+\\n2=\""));
    free(saved);
    temp_remove(folder);
}

/* An answer that would go on for many thousand tokens ends at Ctrl-C, and the talk goes on. */
static void test_stop(void **state) {
    (void)state;
    static const char endless[] = TURNS "<|im_start|>assistant";
    char *folder = temp_create(), keys[512];
    const char *file = path_in(folder, "endless.jinja");
    write_file(file, endless, sizeof endless - 1);
    terminal chat =
        OPEN(folder, "--temp", "0", "--threads", "1", "--ctx", "60000", "--chat-template", file);
    wait_for(&chat, PROMPT);
    type(&chat, "2+3=\n");
    wait_for(&chat, "assistantassistant");
    press(&chat, "\x03");
    wait_for(&chat, "\r\n" PROMPT);
    snprintf(keys, sizeof keys, "/save %s\n", path_in(folder, "chat.json"));
    type(&chat, keys);
    wait_for(&chat, "saved to ");
    wait_for(&chat, PROMPT);
    char *saved = file_of(folder, "chat.json");
    assert_non_null(strstr(saved, "assistantassistant")); /* what came of it counts */
    assert_true(strlen(saved) < 100000);
    free(saved);
    type(&chat, "/stats\n");
    wait_for(&chat, "conversation  2 messages, ");
    assert_int_equal(close_terminal(&chat), 0);
    temp_remove(folder);
}

/* One Ctrl-D ends a text that is typed. */
static void test_typed_text(void **state) {
    (void)state;
    char *folder = temp_create();
    terminal in =
        open_terminal(folder, NULL, (const char *const[]){"tokenize", demo, "--no-special", NULL});
    wait_for(&in, "ends it.\r\n");
    press(&in, "a\n\x04");
    wait_for(&in, "]\r\n");
    int status;
    assert_int_equal(waitpid(in.pid, &status, 0), in.pid);
    assert_int_equal(status, 0);
    close(in.fd);
    free(in.shown);
    temp_remove(folder);
}

static void test_colour(void **state) {
    (void)state;
    static const char thinks[] = TURNS "<|im_start|>assistant\n<think>{##}";
    char *folder = temp_create();
    const char *file = path_in(folder, "thinks.jinja");
    write_file(file, thinks, sizeof thinks - 1);
    terminal chat =
        OPEN(folder, "--temp", "0", "--threads", "1", "-n", "8", "--chat-template", file);
    wait_for(&chat, PROMPT);
    type(&chat, "What is it?\n");
    wait_for(&chat, "\r\n\033[2m"); /* a thought that does not end */
    wait_for(&chat, "\033[0m\r\n");
    assert_int_equal(close_terminal(&chat), 0);
    chat = open_terminal(folder, "1",
                         (const char *const[]){"chat", demo, "--temp", "0", "-n", "8", "-q",
                                               "--chat-template", file, NULL});
    wait_for(&chat, "> ");
    type(&chat, "What is it?\n");
    wait_for(&chat, "?\r\n");
    wait_for(&chat, "\r\n");
    assert_null(strstr(chat.shown, "\033["));
    assert_int_equal(close_terminal(&chat), 0);
    temp_remove(folder);
}

/* `run' without a prompt is a chat; with options of a single answer it is not. */
static void test_run_is_a_chat(void **state) {
    (void)state;
    char *folder = temp_create();
    terminal chat = open_terminal(
        folder, NULL, (const char *const[]){"run", demo, "--temp", "0", "-t", "1", NULL});
    wait_for(&chat, "/help lists the commands");
    wait_for(&chat, PROMPT);
    type(&chat, "2+3=\n");
    wait_for(&chat, "\r\n5\r\n" PROMPT);
    type(&chat, "/stats\n");
    assert_int_equal(close_terminal(&chat), 0);
    terminal run = open_terminal(
        folder, NULL, (const char *const[]){"run", demo, "--stop", "x", "-n", "2", NULL});
    wait_for(&run, "Type the prompt");
    kill(run.pid, SIGKILL);
    waitpid(run.pid, NULL, 0);
    close(run.fd);
    free(run.shown);
    temp_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_talk), cmocka_unit_test(test_stop), cmocka_unit_test(test_typed_text),
        cmocka_unit_test(test_colour), cmocka_unit_test(test_run_is_a_chat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
