#include "cli/hub/environment.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/file.h"

enum { MAX_TOKEN_BYTES = 2048, N_PARALLEL = 4, PART_BYTES = 32 << 20 };

static linnet_status out_of_memory(linnet_error *err) {
    return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
}

/* A variable that is set and not empty, otherwise NULL. */
static const char *get(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_on(const char *name) {
    static const char *const words[] = {"1", "on", "yes", "true"};
    const char *value = get(name);
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

/* The folder of Hugging Face's files. */
static bool find_home(ln_strbuf *home) {
    const char *value;
    if ((value = get("HF_HOME")) != NULL)
        return ln_strbuf_puts(home, value);
    if ((value = get("XDG_CACHE_HOME")) != NULL)
        return ln_strbuf_printf(home, "%s/huggingface", value);
    if ((value = get("HOME")) != NULL)
        return ln_strbuf_printf(home, "%s/.cache/huggingface", value);
    return false;
}

static linnet_status read_endpoint(ln_strbuf *endpoint, linnet_error *err) {
    const char *value = get("HF_ENDPOINT");
    ln_strbuf_puts(endpoint, value ? value : "https://huggingface.co");
    if (endpoint->failed)
        return out_of_memory(err);
    while (endpoint->len > 0 && endpoint->data[endpoint->len - 1] == '/')
        endpoint->data[--endpoint->len] = '\0';
    bool is_url =
        strncmp(endpoint->data, "http://", 7) == 0 || strncmp(endpoint->data, "https://", 8) == 0;
    for (const char *c = endpoint->data; *c; c++)
        is_url = is_url && *c > ' ' && *c < 0x7f;
    return is_url ? LINNET_OK
                  : ln_fail(err, LINNET_ERR_ARGUMENT, "HF_ENDPOINT is not the URL of a hub: %s",
                            endpoint->data);
}

/* The token of the variable, or of the file that `hf auth login' writes. */
static linnet_status read_token(const char *home, ln_strbuf *token, linnet_error *err) {
    const char *value = get("HF_TOKEN"), *path = get("HF_TOKEN_PATH");
    char *own = path ? strdup(path) : ln_path_join(home, "token");
    linnet_status status = own ? LINNET_OK : out_of_memory(err);
    if (value)
        ln_strbuf_puts(token, value);
    else if (own && ln_file_exists(own))
        status = ln_file_read(own, MAX_TOKEN_BYTES, token, err);
    free(own);
    while (token->len > 0 && strchr(" \t\r\n", token->data[token->len - 1]))
        token->data[--token->len] = '\0';
    for (size_t i = 0; status == LINNET_OK && i < token->len; i++)
        if (token->data[i] <= ' ' || token->data[i] >= 0x7f)
            status = ln_fail(err, LINNET_ERR_ARGUMENT,
                             "the hub's token has characters other than printable ASCII");
    return token->failed ? out_of_memory(err) : status;
}

linnet_status ln_cli_hub_environment_read(ln_cli_hub_environment *environment, linnet_error *err) {
    ln_strbuf home;
    *environment = (ln_cli_hub_environment){0};
    ln_strbuf_init(&environment->endpoint);
    ln_strbuf_init(&environment->cache);
    ln_strbuf_init(&environment->token);
    ln_strbuf_init(&home);
    const char *cache = get("HF_HUB_CACHE");
    if (!find_home(&home)) {
        ln_strbuf_free(&home);
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "there is no place for the hub's cache: neither HF_HOME nor HOME is set");
    }
    if (cache)
        ln_strbuf_puts(&environment->cache, cache);
    else
        ln_strbuf_printf(&environment->cache, "%s/hub", home.data);
    while (environment->cache.len > 1 && environment->cache.data[environment->cache.len - 1] == '/')
        environment->cache.data[--environment->cache.len] = '\0';
    linnet_status status =
        environment->cache.failed ? out_of_memory(err) : read_endpoint(&environment->endpoint, err);
    if (status == LINNET_OK)
        status = read_token(home.data, &environment->token, err);
    ln_strbuf_free(&home);
    environment->settings = (ln_hub_settings){
        .endpoint = environment->endpoint.data,
        .cache = environment->cache.data,
        .token = environment->token.len > 0 ? environment->token.data : NULL,
        .is_offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE"),
        .n_parallel = N_PARALLEL,
        .part_bytes = PART_BYTES,
    };
    return status;
}

void ln_cli_hub_environment_free(ln_cli_hub_environment *environment) {
    ln_strbuf_free(&environment->endpoint);
    ln_strbuf_free(&environment->cache);
    ln_strbuf_free(&environment->token);
}
