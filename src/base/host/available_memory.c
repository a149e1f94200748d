#include "base/host/available_memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The files of a hierarchy of cgroups that limits memory. */
typedef struct hierarchy {
    const char *mounts[3]; /* below the root: where systemd mounts it, until NULL */
    const char *limit, *usage;
    const char *caches[3]; /* of memory.stat: what the kernel takes back when memory is short */
} hierarchy;

static const hierarchy unified = {
    .mounts = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
    .limit = "memory.max",
    .usage = "memory.current",
    .caches = {"inactive_file", "active_file", "slab_reclaimable"},
};

static const hierarchy legacy = {
    .mounts = {"/sys/fs/cgroup/memory"},
    .limit = "memory.limit_in_bytes",
    .usage = "memory.usage_in_bytes",
    .caches = {"total_inactive_file", "total_active_file"},
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static FILE *open_at(const char *root, const char *folder, const char *name) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

/* The number of a file; SIZE_MAX: "max", or it has none. */
static size_t read_number(const char *root, const char *folder, const char *name) {
    unsigned long long value = 0;
    FILE *file = open_at(root, folder, name);
    bool is_number = file != NULL && fscanf(file, "%llu", &value) == 1;
    if (file != NULL)
        fclose(file);
    return is_number && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
}

/* Of a file of lines "name number": the sum of the numbers whose names are wanted, in bytes. */
static size_t sum_caches(const hierarchy *h, const char *root, const char *folder) {
    enum { N_CACHES = sizeof h->caches / sizeof *h->caches };
    char line[128], name[64];
    unsigned long long value;
    size_t sum = 0;
    FILE *file = open_at(root, folder, "memory.stat");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%63s %llu", name, &value) != 2)
            continue;
        for (size_t i = 0; i < N_CACHES && h->caches[i] != NULL; i++)
            if (strcmp(name, h->caches[i]) == 0 && value < SIZE_MAX - sum)
                sum += (size_t)value;
    }
    if (file != NULL)
        fclose(file);
    return sum;
}

/* What the limit of one cgroup leaves; SIZE_MAX: it has none. */
static size_t left_by(const hierarchy *h, const char *root, const char *folder) {
    size_t limit = read_number(root, folder, h->limit);
    if (limit == SIZE_MAX)
        return SIZE_MAX;
    size_t usage = read_number(root, folder, h->usage);
    size_t caches = sum_caches(h, root, folder);
    if (usage == SIZE_MAX) /* nobody says */
        return limit;
    size_t held = usage > caches ? usage - caches : 0;
    return limit > held ? limit - held : 0;
}

/* The least that the cgroups from `path` to the root leave. In a container the path may be the
 * host's, of which only the end is mounted: folders that are not there have no limit. */
static size_t left_on_path(const hierarchy *h, const char *root, const char *mount,
                           const char *path) {
    char folder[PATH_MAX];
    size_t left = SIZE_MAX, n_mount = strlen(mount);
    int n = snprintf(folder, sizeof folder, "%s%s", mount, strstr(path, "..") ? "" : path);
    if (n < 0 || (size_t)n >= sizeof folder)
        return SIZE_MAX;
    for (;;) {
        left = least(left, left_by(h, root, folder));
        char *slash = strrchr(folder + n_mount, '/');
        if (slash == NULL)
            return left;
        *slash = '\0';
    }
}

/* Whether a list with commas has "memory". */
static bool has_memory(const char *controllers) {
    for (const char *at = controllers; *at != '\0'; at += strspn(at, ",")) {
        size_t n = strcspn(at, ",");
        if (n == strlen("memory") && memcmp(at, "memory", n) == 0)
            return true;
        at += n;
    }
    return false;
}

/* A line of /proc/self/cgroup is "id:controllers:path"; v2 has no controllers. */
static size_t left_by_line(const char *root, char *line) {
    size_t left = SIZE_MAX;
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return SIZE_MAX;
    *path++ = '\0';
    controllers++;
    if (*controllers != '\0' && !has_memory(controllers))
        return SIZE_MAX;
    const hierarchy *h = *controllers == '\0' ? &unified : &legacy;
    for (size_t i = 0; h->mounts[i] != NULL; i++)
        left = least(left, left_on_path(h, root, h->mounts[i], path));
    return left;
}

static size_t left_by_cgroups(const char *root) {
    size_t capacity = 0, left = SIZE_MAX;
    char *line = NULL;
    FILE *file = open_at(root, "/proc/self", "cgroup");
    while (file != NULL && getline(&line, &capacity, file) > 0)
        left = least(left, left_by_line(root, line));
    free(line);
    if (file != NULL)
        fclose(file);
    return left;
}

size_t ln_host_available_memory(const char *root) {
    size_t kib = SIZE_MAX;
    char line[128];
    FILE *file = open_at(root, "/proc", "meminfo");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return least(kib < SIZE_MAX / 1024 ? kib * 1024 : SIZE_MAX, left_by_cgroups(root));
}
