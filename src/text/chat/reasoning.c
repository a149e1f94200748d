#include "text/chat/reasoning.h"

#include <string.h>

static const ln_reasoning_format formats[] = {
    {.name = "think", .begin = LN_THINK_BEGIN, .end = LN_THINK_END},
    {.name = "answer",
     .begin = LN_THINK_BEGIN,
     .end = LN_THINK_END,
     .dropped = {"<answer>", "</answer>"}},
    {.name = "mistral", .begin = "[THINK]", .end = "[/THINK]"},
    {.name = "seed", .begin = "<seed:think>", .end = "</seed:think>"},
    {.name = "gemma",
     .begin = "<|channel>thought\n",
     .end = "<channel|>",
     .dropped = {"<|channel>thought\n<channel|>", "<|channel>thought<channel|>", "<channel|>",
                 "<|channel><|channel>thought\n<channel|>"}},
    {.name = "apriel",
     .begin = "Here are my reasoning steps:",
     .end = "[BEGIN FINAL RESPONSE]",
     .dropped = {"[END FINAL RESPONSE]"}},
    {.name = "command",
     .begin = "<|START_THINKING|>",
     .end = "<|END_THINKING|>",
     .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
    {.name = "granite", .begin = "Here is my thought process:", .end = "Here is my response:"},
    {.name = "harmony",
     .begin = "<|channel|>analysis<|message|>",
     .end = "<|end|><|start|>assistant",
     .messages = LN_MESSAGES_CHANNELS},
    {.name = "muse",
     .begin = " to=self<|message|>",
     .end = "<|eom|><|start|>assistant",
     .dropped = {"<|eom|>", "<|eot|>"},
     .messages = LN_MESSAGES_ADDRESSED},
    {.name = "recipients",
     .begin = "",
     .end = "",
     .messages = LN_MESSAGES_RECIPIENTS,
     .is_none = true},
    {.name = "kimi_k3",
     .begin = "<|open|>think<|sep|>",
     .end = "<|close|>think<|sep|>",
     .also_end = "<|open|>response<|sep|>",
     .dropped = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"}},
    {.name = "hunyuan", .begin = "<think:opensource>", .end = "</think:opensource>"},
    {.name = "solar",
     .begin = "<|think|>",
     .end = "<|end|>",
     .dropped = {"<|begin|>assistant", "<|content|>"}},
    {.name = "minimax_m3", .begin = "<mm:think>", .end = "</mm:think>"},
    {.name = "kimi",
     .begin = "\xe2\x97\x81think\xe2\x96\xb7",
     .end = "\xe2\x97\x81/think\xe2\x96\xb7"},
};

/* What a template has in it; the most special ones first. */
static const struct {
    const char *shown[2], *name;
} templates[] = {
    {{"<|channel|>", "<|message|>"}, "harmony"},
    {{"<|START_THINKING|>", NULL}, "command"},
    {{"<atem:function_calls>", "to=self<|message|>"}, "muse"},
    {{">>>${recipient}", NULL}, "recipients"},
    {{"<seed:think>", NULL}, "seed"},
    {{"<mm:think>", NULL}, "minimax_m3"},
    {{"[THINK]", NULL}, "mistral"},
    {{"<|channel>thought", NULL}, "gemma"},
    {{"<|channel>", "<channel|>"}, "gemma"},
    {{"Here is my thought process:", NULL}, "granite"},
    {{"[BEGIN FINAL RESPONSE]", "reasoning steps:"}, "apriel"},
    {{"<|open|>", "open_tag('think')"}, "kimi_k3"},
    {{"<think{}>", ":opensource"}, "hunyuan"},
    {{LN_THINK_END, "<answer>"}, "answer"},
    {{LN_THINK_BEGIN, NULL}, "think"},
    {{LN_THINK_END, NULL}, "think"},
    {{"\xe2\x97\x81think\xe2\x96\xb7", NULL}, "kimi"},
};

const ln_reasoning_format *ln_reasoning_think(void) {
    return &formats[0];
}

static bool contains(const char *text, size_t n_bytes, const char *part) {
    return part == NULL || memmem(text, n_bytes, part, strlen(part)) != NULL;
}

const ln_reasoning_format *ln_reasoning_detect(const char *chat_template, size_t n_bytes) {
    if (chat_template == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (contains(chat_template, n_bytes, templates[i].shown[0]) &&
            contains(chat_template, n_bytes, templates[i].shown[1]))
            return ln_reasoning_find(templates[i].name);
    return NULL;
}

const ln_reasoning_format *ln_reasoning_find(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return &formats[i];
    return NULL;
}

/* White space at the ends counts for nothing. */
static bool ends_with(const char *text, size_t n_bytes, const char *part) {
    size_t n_part = strlen(part);
    while (n_part > 0 && part[n_part - 1] == '\n')
        n_part--;
    return n_bytes >= n_part && memcmp(text + n_bytes - n_part, part, n_part) == 0;
}

ln_reasoning ln_reasoning_of_prompt(const ln_reasoning_format *format, const char *prompt,
                                    size_t n_bytes) {
    if (format->messages != LN_MESSAGES_NONE)
        return LN_REASONING_MAY_COME;
    while (n_bytes > 0 && strchr(" \n\r\t", prompt[n_bytes - 1]) != NULL)
        n_bytes--;
    if (ends_with(prompt, n_bytes, format->begin))
        return LN_REASONING_OPEN;
    return ends_with(prompt, n_bytes, format->end) ? LN_REASONING_NONE : LN_REASONING_MAY_COME;
}
