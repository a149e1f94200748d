/* linnet doctor: what this machine can do, and what is missing. */
#include <argp.h>
#include <jansson.h>
#include <linnet.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "backend/cpu/sets.h"
#include "backend/registry.h"
#include "base/module.h"
#include "cli/commands.h"
#include "cli/hub/environment.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "hub/cache.h"
#include "hub/pull.h"

enum { TEXT_BYTES = 640 };

static const struct argp_option options[] = {
    {"json", LN_KEYS_COMMAND, NULL, 0, "Print one JSON object", 0}, {0}};

static const struct argp doctor_argp = {
    .options = options,
    .parser = ln_cli_parse_json,
    .doc = "Prints what this machine has for models: processor, memory and how fast it is read, "
           "GPU, what downloads need, and the cache. What is missing is said with its reason. "
           "Measures for a fraction of a second; asks no network.",
};

/* ---- what is found ---------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void say(json_t *report, const char *name,
                                                      const char *format, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_object_set_new(report, name, json_string(text));
}

/* The value of the first line `KEY : VALUE` of a file below /proc; "" when it is not there. */
static void read_value(const char *path, const char *key, char *value, size_t n_bytes) {
    char line[512];
    *value = '\0';
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, n_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
}

static void report_processor(json_t *report) {
    char model[256], sets[256] = "";
    cpu_set_t all;
    read_value("/proc/cpuinfo", "model name", model, sizeof model);
    int count = sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 0;
    say(report, "processor", "%s, %s may be used", *model ? model : "unknown",
        ln_cli_count_text((size_t)count, "thread").text);
    ln_cpu_features processor = ln_cpu_detect();
    const ln_cpu_kernels *set;
    for (size_t i = 0; (set = ln_cpu_set(i)) != NULL; i++) {
        size_t used = strlen(sets);
        if (set->is_usable(&processor))
            snprintf(sets + used, sizeof sets - used, "%s%s", used > 0 ? ", " : "", set->isa);
    }
    if (ln_cpu_choose_set(&processor, "auto", &set, NULL) == LINNET_OK)
        say(report, "kernels", "%s (of %s)", set->isa, sets);
}

/* Memory that is free, and how fast it is read, which bounds how fast tokens come. */
static void report_memory(json_t *report) {
    char total[64];
    ln_backend *backend = NULL;
    ln_ceilings ceilings = {0};
    cpu_set_t all;
    linnet_error err = {0};
    read_value("/proc/meminfo", "MemTotal", total, sizeof total);
    size_t total_bytes = (size_t)strtoull(total, NULL, 10) << 10;
    int count = sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 1;
    const ln_backend_options how = {.isa = "auto", .n_threads = (size_t)count};
    if (ln_backend_create("cpu", &how, &backend, &err) != LINNET_OK) {
        say(report, "memory", "%s", err.message);
        return;
    }
    size_t free_bytes = backend->vtable->available_bytes(backend);
    say(report, "memory", "%s free of %s", ln_cli_size_text(free_bytes).text,
        ln_cli_size_text(total_bytes).text);
    if (backend->vtable->measure && backend->vtable->measure(backend, &ceilings, &err) == LINNET_OK)
        say(report, "memory speed",
            "%.1f GB/s: %.1f tokens/s of 4 GB of weights, at most, for one sequence",
            ceilings.read_bytes / 1e9, ceilings.read_bytes / 4e9);
    backend->vtable->destroy(backend);
}

static void report_gpu(json_t *report) {
    ln_backend *backend = NULL;
    linnet_error err = {0};
    const ln_backend_options how = {.isa = "auto", .n_threads = 1};
    if (ln_backend_create("cuda", &how, &backend, &err) != LINNET_OK) {
        say(report, "GPU", "none: %s", err.message);
        return;
    }
    say(report, "GPU", "%s free", ln_cli_size_text(backend->vtable->available_bytes(backend)).text);
    backend->vtable->destroy(backend);
}

static void add_model(void *user, const ln_hub_entry *entry) {
    uint64_t *sums = user;
    sums[0]++;
    sums[1] += entry->bytes;
}

static void report_hub(json_t *report) {
    ln_cli_hub_environment environment;
    const char *version;
    linnet_error err = {0};
    uint64_t sums[2] = {0}; /* models, bytes */
    struct statvfs disk;
    if (ln_hub_curl_version(&version, &err) == LINNET_OK)
        say(report, "downloads", "libcurl %s", version);
    else
        say(report, "downloads", "none: %s", err.message);
    if (ln_cli_hub_environment_read(&environment, &err) != LINNET_OK) {
        say(report, "hub", "%s", err.message);
    } else {
        const ln_hub_settings *settings = &environment.settings;
        say(report, "hub", "%s, %s token%s", settings->endpoint, settings->token ? "with a" : "no",
            settings->is_offline ? ", offline" : "");
        if (ln_hub_cache_list(settings->cache, add_model, sums, &err) != LINNET_OK)
            say(report, "cache", "%s", err.message);
        else if (statvfs(settings->cache, &disk) != 0)
            say(report, "cache", "%s, not there yet", settings->cache);
        else
            say(report, "cache", "%s: %s of %s, %s free on the disk", settings->cache,
                ln_cli_count_text((size_t)sums[0], "model").text,
                ln_cli_size_text((size_t)sums[1]).text,
                ln_cli_size_text((size_t)disk.f_bavail * disk.f_frsize).text);
    }
    ln_cli_hub_environment_free(&environment);
}

static void report_system(json_t *report) {
    struct utsname system;
    struct rlimit files;
    if (uname(&system) == 0)
        say(report, "system", "%s %s, %s", system.sysname, system.release, system.machine);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        say(report, "open files", "up to %llu, a connection of the server each",
            (unsigned long long)files.rlim_cur);
    int landlock = ln_cli_sandbox_landlock();
    if (landlock > 0)
        say(report, "sandbox", "Landlock %d, of files%s", landlock,
            landlock >= 4 ? " and connections" : "");
    else
        say(report, "sandbox", "none: the kernel has no Landlock");
}

int ln_cli_doctor(int argc, char **argv) {
    bool json = false;
    const char *name;
    json_t *value;
    if (ln_cli_parse(&doctor_argp, argc, argv, &json) != 0)
        return LN_EXIT_USAGE;
    json_t *report = json_object();
    if (!report)
        return ln_cli_fail("out of memory");
    char *demo = ln_cli_find_demo_model();
    say(report, "linnet", "%s (build %s)", linnet_version(), ln_module_id());
    report_system(report);
    report_processor(report);
    report_memory(report);
    report_gpu(report);
    report_hub(report);
    say(report, "demo model", "%s", demo ? demo : "none: models/demo.gguf is not there");
    free(demo);
    if (json)
        return ln_cli_print_json(stdout, report, true);
    json_object_foreach(report, name, value) {
        printf("%-13s %s\n", name, json_string_value(value));
    }
    json_decref(report);
    return 0;
}
