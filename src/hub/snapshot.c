#include "hub/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"

enum { MAX_DEPTH = 16, MAX_ENTRIES = 20000, MAX_REF_BYTES = 256 };

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void ln_hub_names_free(ln_hub_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (ln_hub_names){0};
}

static ln_status add_name(ln_hub_names *names, const char *name, ln_error *err) {
    if (names->count == MAX_ENTRIES)
        return ln_fail(err, LINNET_ERR_LIMIT, "more than %d entries", MAX_ENTRIES);
    char **items = realloc(names->items, (names->count + 1) * sizeof *items);
    if (!items)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    names->items = items;
    items[names->count] = strdup(name);
    if (!items[names->count])
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    names->count++;
    return LINNET_OK;
}

ln_status ln_hub_names_read(const char *folder, ln_hub_names *names, ln_error *err) {
    ln_status status = LINNET_OK;
    *names = (ln_hub_names){0};
    DIR *entries = opendir(folder);
    if (!entries && (errno == ENOENT || errno == ENOTDIR))
        return LINNET_OK;
    if (!entries)
        return ln_fail(err, LINNET_ERR_IO, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; status == LINNET_OK && (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.')
            status = add_name(names, entry->d_name, err);
    closedir(entries);
    if (status != LINNET_OK) {
        ln_hub_names_free(names);
        return ln_error_prefix(err, status, folder);
    }
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, compare);
    return LINNET_OK;
}

bool ln_hub_snapshot_commit(const char *repo_path, const char *revision,
                            char commit[LN_HUB_COMMIT_BYTES]) {
    ln_strbuf path, text;
    ln_strbuf_init(&path);
    ln_strbuf_init(&text);
    ln_strbuf_printf(&path, "%s/refs/%s", repo_path, revision);
    if (ln_hub_is_commit(revision))
        ln_strbuf_puts(&text, revision);
    else if (!path.failed && ln_file_read(path.data, MAX_REF_BYTES, &text, NULL) == LINNET_OK &&
             ln_strbuf_putc(&text, '\0'))
        text.data[strcspn(text.data, " \r\n")] = '\0';
    bool is_commit = !text.failed && text.data && ln_hub_is_commit(text.data);
    if (is_commit)
        memcpy(commit, text.data, LN_HUB_COMMIT_BYTES);
    ln_strbuf_free(&path);
    ln_strbuf_free(&text);
    return is_commit;
}

static void note_blob(const char *path, ln_hub_file *file) {
    char target[1024];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    const char *hash = slash ? slash + 1 : target;
    if (strlen(hash) < LN_HUB_HASH_BYTES)
        memcpy(file->hash, hash, strlen(hash) + 1);
}

/* Adds what lies in the folder `below` of the snapshot, "" for itself. */
static ln_status read_folder(const char *folder, const char *below, int depth, ln_hub_files *files,
                             ln_error *err) {
    ln_hub_names names;
    char *here = *below ? ln_path_join(folder, below) : strdup(folder);
    if (!here)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    ln_status status = ln_hub_names_read(here, &names, err);
    for (size_t i = 0; status == LINNET_OK && i < names.count; i++) {
        struct stat about;
        char *path = *below ? ln_path_join(below, names.items[i]) : strdup(names.items[i]);
        char *whole = path ? ln_path_join(folder, path) : NULL;
        ln_hub_file *file = NULL;
        if (!whole)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        else if (files->count >= MAX_ENTRIES || depth > MAX_DEPTH)
            status = ln_fail(err, LINNET_ERR_LIMIT, "%s has too many files", folder);
        else if (lstat(whole, &about) == 0 && S_ISDIR(about.st_mode))
            status = read_folder(folder, path, depth + 1, files, err);
        else if (stat(whole, &about) == 0 && S_ISREG(about.st_mode) &&
                 !(file = ln_hub_files_add(files, path)))
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        if (file) {
            file->bytes = (uint64_t)about.st_size;
            note_blob(whole, file);
        }
        free(whole);
        free(path);
    }
    ln_hub_names_free(&names);
    free(here);
    return status;
}

ln_status ln_hub_snapshot_read(const char *folder, ln_hub_files *files, ln_error *err) {
    *files = (ln_hub_files){0};
    ln_status status = read_folder(folder, "", 0, files, err);
    if (status != LINNET_OK)
        ln_hub_files_free(files);
    return status;
}
