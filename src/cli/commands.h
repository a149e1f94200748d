/* The commands of the program. Each parses its own arguments and returns the exit status. */
#ifndef LN_CLI_COMMANDS_H
#define LN_CLI_COMMANDS_H

/* Exit statuses beside 0. */
enum {
    LN_EXIT_FAILURE = 1,      /* a broken model, or something failed while running */
    LN_EXIT_USAGE = 2,        /* an unknown option, a bad value */
    LN_EXIT_INTERRUPTED = 130 /* SIGINT; what was written stays */
};

/* argv[0] is the name for messages, such as "linnet run". */
int ln_cli_run(int argc, char **argv);
int ln_cli_chat(int argc, char **argv);
int ln_cli_serve(int argc, char **argv);
int ln_cli_pull(int argc, char **argv);
int ln_cli_list(int argc, char **argv);
int ln_cli_rm(int argc, char **argv);
int ln_cli_inspect(int argc, char **argv);
int ln_cli_show(int argc, char **argv);
int ln_cli_plan(int argc, char **argv);
int ln_cli_tokenize(int argc, char **argv);
int ln_cli_detokenize(int argc, char **argv);
int ln_cli_grammar(int argc, char **argv);
int ln_cli_template(int argc, char **argv);
int ln_cli_logits(int argc, char **argv);
int ln_cli_embed(int argc, char **argv);
int ln_cli_bench(int argc, char **argv);
int ln_cli_merge(int argc, char **argv);
int ln_cli_quantize(int argc, char **argv);
int ln_cli_convert(int argc, char **argv);
int ln_cli_doctor(int argc, char **argv);
int ln_cli_eval(int argc, char **argv);

#endif
