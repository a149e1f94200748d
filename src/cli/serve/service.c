#include "cli/serve/service.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "model/model.h"
#include "server/kv_events/publisher.h"
#include "text/jinja/template.h"

static bool is_loopback(const char *host) {
    struct in_addr address;
    if (strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0)
        return true;
    return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

/* An address that clients on this machine can call: all addresses are not one. */
static const char *host_to_call(const char *host) {
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ? "localhost" : host;
}

/* A request that the model can answer, for a shell. */
static void print_try(const linnet_model_info *info, const ln_server_options *server,
                      unsigned port) {
    const char *path = "/v1/completions", *body = "{\"prompt\": \"Once\", \"max_tokens\": 50}";
    if (info->embeds_only) {
        path = "/v1/embeddings";
        body = info->has_tokenizer ? "{\"input\": \"Hello\"}" : "{\"input\": [1, 2, 3]}";
    } else if (!info->has_tokenizer) {
        body = "{\"prompt\": [1, 2, 3], \"max_tokens\": 50, \"return_token_ids\": true}";
    } else if (info->has_chat_template) {
        path = "/v1/chat/completions";
        body = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}";
    }
    const char *host = host_to_call(server->address.host);
    bool needs_brackets = strchr(host, ':') != NULL;
    fprintf(stderr, "try       curl %shttp%s://%s%s%s:%u%s%s -d '%s'\n",
            server->address.certificate ? "-k " : "", server->address.certificate ? "s" : "",
            needs_brackets ? "[" : "", host, needs_brackets ? "]" : "", port, path,
            server->read_keys != NULL ? " -H \"Authorization: Bearer $KEY\"" : "", body);
}

/* Where the checkpoint has a chat template that does not compile, chats are refused. */
static void check_template(const linnet_model *model) {
    ln_jinja_template *template = NULL;
    linnet_error err = {0};
    if (model->chat_source != NULL &&
        ln_jinja_compile(model->chat_source, strlen(model->chat_source), "chat template", &template,
                         &err) != LINNET_OK)
        ln_cli_warn("chats are refused: %s; --chat-template replaces it", err.message);
    ln_jinja_free(template);
}

void ln_cli_print_service(const linnet_model *model, const char *path,
                          const linnet_memory_plan *plan, const ln_server_options *server,
                          unsigned port) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    ln_cli_print_settings(path, &info, plan);
    fputs(info.embeds_only
              ? "APIs      OpenAI (/v1/embeddings), Jina and Cohere (/v1/rerank), vLLM (/v1/score, "
                "/classify), Ollama (/api/embed)\n"
              : "APIs      OpenAI (/v1/chat/completions, /v1/responses, /v1/completions, "
                "/v1/embeddings), Anthropic (/v1/messages), Ollama (/api/chat)\n",
          stderr);
    if (server->has_web_page)
        fputs(info.embeds_only ? "pages     /status\n" : "pages     / (a chat), /status\n", stderr);
    if (server->kv_events != NULL)
        fprintf(stderr, "KV events %s\n", ln_kv_publisher_endpoint(server->kv_events));
    print_try(&info, server, port);
    if (!info.embeds_only) /* which answers no chats */
        check_template(model);
    if (server->read_keys == NULL && !is_loopback(server->address.host))
        ln_cli_warn("whoever reaches %s can use the server: --api-key or --api-key-file asks for "
                    "a key",
                    server->address.host);
}
