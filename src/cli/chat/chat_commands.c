#include "cli/chat/chat_commands.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

typedef struct chat_command {
    const char *name, *argument, *summary;     /* `argument` NULL: it takes none */
    int (*run)(ln_chat *chat, char *argument); /* returns a status; NULL: lists the commands */
} chat_command;

static int clear(ln_chat *chat, char *argument) {
    (void)argument;
    ln_conversation_clear(&chat->conversation);
    chat->n_forgotten = 0;
    return 0;
}

static int set_system(ln_chat *chat, char *argument) {
    return ln_conversation_set_system(&chat->conversation, argument)
               ? 0
               : ln_cli_fail("/system needs a text in UTF-8");
}

static int save(ln_chat *chat, char *argument) {
    if (*argument == '\0')
        return ln_cli_fail("/save needs a file");
    int status = ln_conversation_save(&chat->conversation, argument);
    if (status == 0)
        fprintf(stderr, "saved to %s\n", argument);
    return status;
}

static int load(ln_chat *chat, char *argument) {
    if (*argument == '\0')
        return ln_cli_fail("/load needs a file");
    int status = ln_conversation_load(&chat->conversation, argument);
    if (status != 0)
        return status;
    chat->n_forgotten = 0;
    fprintf(stderr, "%s\n",
            ln_cli_count_text(json_array_size(chat->conversation.messages), "message").text);
    return 0;
}

static int retry(ln_chat *chat, char *argument) {
    (void)argument;
    chat->sampling.seed++;
    if (!ln_conversation_drop_last(&chat->conversation, "assistant"))
        return ln_cli_fail("there is no answer to try again");
    chat->quits = !ln_chat_answer(chat);
    return 0; /* ln_chat_answer keeps what failed */
}

static int print_stats(ln_chat *chat, char *argument) {
    (void)argument;
    const ln_cli_generation *last = &chat->answered;
    double prompt_s = (double)last->prompt_ns / 1e9;
    double output_s = (double)last->output_ns / 1e9;
    fprintf(stderr, "conversation  %s, %zu of %zu tokens\n",
            ln_cli_count_text(json_array_size(chat->conversation.messages), "message").text,
            last->n_prompt_tokens + last->n_output_tokens, chat->ctx_tokens);
    if (prompt_s > 0)
        fprintf(stderr, "prompt        %s in %.2f s\n",
                ln_cli_count_text(last->n_prompt_tokens, "token").text, prompt_s);
    if (output_s > 0 && last->n_output_tokens > 1)
        fprintf(stderr, "answer        %zu tokens, %.1f tokens/s\n", last->n_output_tokens,
                (double)(last->n_output_tokens - 1) / output_s);
    return 0;
}

static int quit(ln_chat *chat, char *argument) {
    (void)argument;
    chat->quits = true;
    return 0;
}

/* "temp 0.8": an option of sampling, and the value that it has now. */
static void print_setting(const linnet_sampling *sampling, const char *name, const char *meaning) {
    char value[32];
    ln_cli_sampling_value(sampling, name, value, sizeof value);
    if (*meaning)
        fprintf(stderr, "  %-18s %-10s %s\n", name, value, meaning);
    else
        fprintf(stderr, "  %s %s\n", name, value);
}

static void list_settings(const linnet_sampling *sampling) {
    for (const struct argp_option *o = ln_cli_sampling_argp.options; o->name; o++) {
        if (o->flags & OPTION_ALIAS)
            continue;
        char meaning[128];
        snprintf(meaning, sizeof meaning, "%s", o->doc);
        char *initial = strstr(meaning, " ("); /* what holds at the start */
        if (initial)
            *initial = '\0';
        print_setting(sampling, o->name, meaning);
    }
}

/* The sampling options of the command line read the value, with their ranges and messages. */
static int set(ln_chat *chat, char *argument) {
    char *value = argument + strcspn(argument, " ");
    if (*value != '\0')
        *value++ = '\0';
    value += strspn(value, " ");
    const struct argp_option *option = ln_cli_sampling_argp.options;
    while (option->name && strcmp(option->name, argument) != 0)
        option++;
    if (*argument == '\0') {
        list_settings(&chat->sampling);
        return 0;
    }
    if (!option->name)
        return ln_cli_fail("there is no option '%s'; /set lists them", argument);
    while (option->flags & OPTION_ALIAS) /* of the option in front */
        option--;
    if (*value == '\0') {
        print_setting(&chat->sampling, option->name, "");
        return 0;
    }
    char *message = NULL, name[] = "linnet";
    size_t n_bytes = 0;
    FILE *errors = open_memstream(&message, &n_bytes);
    if (!errors)
        return ln_cli_fail("out of memory");
    linnet_sampling sampling = chat->sampling;
    struct argp_state state = {.root_argp = &ln_cli_sampling_argp,
                               .flags = ARGP_NO_EXIT | ARGP_NO_HELP,
                               .input = &sampling,
                               .name = name,
                               .err_stream = errors,
                               .out_stream = errors};
    ln_cli_sampling_argp.parser(option->key, value, &state);
    fclose(errors);
    if (n_bytes == 0) {
        chat->sampling = sampling;
        print_setting(&sampling, option->name, "");
    } else {
        fprintf(stderr, "%.*s\n", (int)strcspn(message, "\n"), message);
    }
    free(message);
    return n_bytes == 0 ? 0 : LN_EXIT_FAILURE;
}

static const chat_command commands[] = {
    {"help", NULL, "list the commands", NULL},
    {"clear", NULL, "forget the conversation, not the system message", clear},
    {"system", "TEXT", "set the system message; without TEXT remove it", set_system},
    {"retry", NULL, "answer the last message again, from another seed; /regen, too", retry},
    {"save", "FILE", "write the conversation as JSON", save},
    {"load", "FILE", "continue a conversation that was saved", load},
    {"stats", NULL, "show how long the conversation is, and how fast the last answer came",
     print_stats},
    {"set", "NAME VALUE", "set a sampling option; without VALUE or NAME show what is set", set},
    {"quit", NULL, "end (Ctrl-D, /bye and /exit do, too)", quit},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Names that other programs have for them. */
static const char *const aliases[][2] = {
    {"bye", "quit"}, {"exit", "quit"}, {"regen", "retry"}, {"?", "help"}};
enum { N_ALIASES = sizeof aliases / sizeof *aliases };

/* Whether the word of `length` bytes is the command's name or an alias of it. */
static bool is_named(const chat_command *command, const char *word, size_t length) {
    for (size_t i = 0; i < N_ALIASES; i++)
        if (strlen(aliases[i][0]) == length && memcmp(aliases[i][0], word, length) == 0)
            return strcmp(aliases[i][1], command->name) == 0;
    return strlen(command->name) == length && memcmp(command->name, word, length) == 0;
}

static void list_commands(void) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char usage[32];
        snprintf(usage, sizeof usage, "/%s %s", commands[i].name,
                 commands[i].argument ? commands[i].argument : "");
        fprintf(stderr, "  %-16s %s\n", usage, commands[i].summary);
    }
    fputs("A line that ends in \\ goes on in the next one; lines between two \"\"\" are one "
          "message.\nCtrl-C stops an answer.\n",
          stderr);
}

static int run_command(ln_chat *chat, char *line) {
    size_t length = strcspn(line + 1, " \n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (!is_named(&commands[i], line + 1, length))
            continue;
        char *argument = line + 1 + length;
        argument += strspn(argument, " \n");
        if (*argument != '\0' && !commands[i].argument)
            return ln_cli_fail("/%s takes no argument", commands[i].name);
        if (commands[i].run)
            return commands[i].run(chat, argument);
        list_commands();
        return 0;
    }
    return ln_cli_fail("there is no command '/%.*s'; /help lists them", (int)length, line + 1);
}

void ln_chat_command(ln_chat *chat, char *line) {
    chat->failed |= run_command(chat, line) != 0;
}
