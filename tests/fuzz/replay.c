/* Runs a fuzz target once over every file of a folder, without libFuzzer: the regression test of
 * the inputs that crashed once. A folder that is missing is an empty one. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replay_file(const char *folder, const char *name) {
    enum { MAX_BYTES = 64 << 20 };
    char *path = ln_path_join(folder, name);
    linnet_error err = {0};
    ln_strbuf text;
    ln_strbuf_init(&text);
    int result = -1;
    if (path && ln_file_read(path, MAX_BYTES, &text, &err) == LINNET_OK) {
        /* a copy of just this size, so that a sanitizer sees a read past the end */
        uint8_t *data = malloc(text.len + !text.len);
        if (data) {
            if (text.len > 0)
                memcpy(data, text.data, text.len);
            LLVMFuzzerTestOneInput(data, text.len);
            result = 0;
        }
        free(data);
    }
    if (result != 0)
        fprintf(stderr, "%s/%s: %s\n", folder, name, err.message);
    ln_strbuf_free(&text);
    free(path);
    return result;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (!folder) {
        printf("%s: %s, nothing to replay\n", argv[1], strerror(errno));
        return errno == ENOENT ? 0 : 1;
    }
    int n_files = 0, failed = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        failed |= replay_file(argv[1], entry->d_name);
        n_files++;
    }
    closedir(folder);
    printf("%d inputs replayed\n", n_files);
    return failed ? 1 : 0;
}
