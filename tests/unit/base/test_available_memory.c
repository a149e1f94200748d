/* base/host/available_memory: the kernel's figure, and the limits of cgroups from the process's own
 * to the root, in a made-up folder. */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/host/available_memory.h"

enum { KIB = 1024, MIB = 1024 * 1024, PATH_BYTES = 512 };

static char root[64];

static void setup_root(void) {
    snprintf(root, sizeof root, "/tmp/linnet-memory-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static void remove_root(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    assert_int_equal(system(command), 0);
}

/* Writes a file below the root, and makes its folders. */
static void put(const char *name, const char *text) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_meminfo(const char *available) {
    char text[128];
    snprintf(text, sizeof text, "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable: %s kB\n",
             available);
    put("/proc/meminfo", text);
}

static size_t available(void) {
    return ln_host_available_memory(root);
}

static void the_kernel_says_how_much(void **state) {
    (void)state;
    setup_root();
    assert_true(available() == SIZE_MAX); /* nothing is there */
    put_meminfo("2000");
    assert_int_equal(available(), 2000 * KIB);
    put("/proc/self/cgroup", "no colons\n0::\n0::/\n");
    assert_int_equal(available(), 2000 * KIB);
    remove_root();
}

static void limits_of_version_2_bind(void **state) {
    (void)state;
    setup_root();
    put_meminfo("8000000");
    put("/proc/self/cgroup", "0::/box/shop/job\n");
    put("/sys/fs/cgroup/box/shop/job/memory.max", "max\n");
    put("/sys/fs/cgroup/box/shop/memory.max", "104857600\n"); /* 100 MiB */
    put("/sys/fs/cgroup/box/memory.max", "209715200\n");
    assert_int_equal(available(), 100 * MIB); /* the smallest on the path */
    put("/sys/fs/cgroup/box/shop/memory.current", "73400320\n");
    assert_int_equal(available(), 30 * MIB);
    put("/sys/fs/cgroup/box/shop/memory.stat",
        "anon 41943040\nfile 31457280\ninactive_file 10485760\nactive_file 5242880\nshmem 7\n");
    assert_int_equal(available(), 45 * MIB); /* caches of files count as free */
    put("/sys/fs/cgroup/box/memory.max", "20971520\n");
    put("/sys/fs/cgroup/box/memory.current", "10485760\n");
    assert_int_equal(available(), 10 * MIB); /* the outer one is tighter now */
    put("/sys/fs/cgroup/box/memory.current", "20971521\n");
    assert_int_equal(available(), 0);
    put("/sys/fs/cgroup/other/memory.max", "1\n"); /* not on the path */
    put("/sys/fs/cgroup/box/memory.max", "max\n");
    put_meminfo("1000");
    assert_int_equal(available(), 1000 * KIB);
    remove_root();
}

static void limits_of_version_1_bind(void **state) {
    (void)state;
    setup_root();
    put_meminfo("8000000");
    put("/proc/self/cgroup", "9:name=systemd:/box\n8:pids,mem,memory_x:/no\n4:cpu,memory:/box/job\n"
                             "0::/unified\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n");
    put("/sys/fs/cgroup/memory/no/memory.limit_in_bytes", "1\n");
    assert_int_equal(available(), (size_t)8000000 * KIB);
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "83886080\n");
    put("/sys/fs/cgroup/memory/box/memory.stat",
        "inactive_file 1\ntotal_inactive_file 20971520\ntotal_active_file 10485760\n");
    assert_int_equal(available(), 50 * MIB);
    put("/sys/fs/cgroup/unified/unified/memory.max", "1048576\n"); /* both are mounted */
    assert_int_equal(available(), 1 * MIB);
    remove_root();
}

/* In a container the path may be the host's: only the end of it is mounted, at the root. */
static void the_mounted_end_of_a_path_binds(void **state) {
    (void)state;
    setup_root();
    put_meminfo("8000000");
    put("/sys/fs/cgroup/memory.max", "52428800\n");
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(available(), 50 * MIB);
    put("/proc/self/cgroup", "0::/docker/1234\n");
    assert_int_equal(available(), 50 * MIB);
    put("/proc/self/cgroup", "0::/../outside\n");
    put("/sys/fs/outside/memory.max", "1\n");
    assert_int_equal(available(), 50 * MIB);
    remove_root();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_says_how_much),
        cmocka_unit_test(limits_of_version_2_bind),
        cmocka_unit_test(limits_of_version_1_bind),
        cmocka_unit_test(the_mounted_end_of_a_path_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
