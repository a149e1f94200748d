/* The shortest use of linnet: opens a model, continues a prompt, streams the text.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs linnet)
 *     ./hello model.gguf "Once upon a time"
 */
#include <linnet.h>
#include <stdio.h>
#include <string.h>

static linnet_status run(const linnet_model *model, linnet_engine *engine, const char *prompt,
                         linnet_error *err) {
    linnet_request_options options;
    linnet_request *request = NULL;
    linnet_event event = {0};
    int32_t *ids;
    size_t n_ids;
    linnet_status status =
        linnet_model_encode(model, prompt, strlen(prompt), true, false, &ids, &n_ids, err);
    if (status != LINNET_OK)
        return status;
    linnet_request_options_init(&options);
    options.prompt_ids = ids;
    options.n_prompt_ids = n_ids;
    options.max_tokens = 64;
    status = linnet_request_submit(engine, &options, &request, err);
    linnet_free(ids);
    while (status == LINNET_OK && event.finish == LINNET_FINISH_NONE) {
        status = linnet_request_next(request, -1, &event, err);
        fwrite(event.text, 1, event.text_bytes, stdout);
        fflush(stdout);
    }
    putchar('\n');
    if (event.finish == LINNET_FINISH_ERROR) {
        snprintf(err->message, sizeof err->message, "%s", event.error);
        status = LINNET_ERR_COMPUTE;
    }
    linnet_request_close(request);
    return status;
}

int main(int argc, char **argv) {
    linnet_model *model = NULL;
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [PROMPT]\n", argv[0]);
        return 2;
    }
    linnet_status status = linnet_model_open(argv[1], &model, &err);
    if (status == LINNET_OK)
        status = linnet_engine_create(model, NULL, &engine, &err); /* default options */
    if (status == LINNET_OK)
        status = run(model, engine, argc > 2 ? argv[2] : "Once upon a time", &err);
    if (status != LINNET_OK)
        fprintf(stderr, "%s: %s\n", argv[0], err.message);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return status == LINNET_OK ? 0 : 1;
}
