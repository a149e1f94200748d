/* Any bytes as a tokenizer's regular expression: it is refused with one sentence, or walks over a
 * text, and its matches lie behind one another. */
#include <stddef.h>
#include <stdint.h>

#include "text/regex/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char text[] = "Hello, w\xc3\xb6rld  \xe4\xbd\xa0\xe5\xa5\xbd 12345 don't\r\n\n"
                           "\xf0\x9f\x99\x82 \xe2\x96\x81 aaaaaaaaaaaaaaaaaaaaaaaaaaaab\0\x01[CLS]"
                           "e\xcc\x81 \xef\xac\x81 \xe3\x8d\xbf ## x\t";

static void walk(const ln_regex *regex) {
    ln_regex_work work = {0};
    ln_regex_walk at = {0};
    linnet_error err = {0};
    size_t begin, end, last = 0;
    for (bool found = true; found;) {
        if (ln_regex_next(regex, &work, &at, text, sizeof text - 1, &begin, &end, &found, &err) !=
            LINNET_OK) {
            if (err.message[0] == '\0')
                __builtin_trap();
            break;
        }
        if (found && (begin < last || end < begin || end > sizeof text - 1))
            __builtin_trap();
        last = found ? end : last;
    }
    ln_regex_work_free(&work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ln_regex *regex;
    linnet_error err = {0};
    if (ln_regex_compile((const char *)data, bytes, &regex, &err) == LINNET_OK) {
        walk(regex);
        ln_regex_free(regex);
    } else if (err.message[0] == '\0') {
        __builtin_trap(); /* a failure has a sentence */
    }
    return 0;
}
