/* Memory that the process can still take: what the kernel says, within the limits of its cgroups.
 */
#ifndef LN_BASE_HOST_AVAILABLE_MEMORY_H
#define LN_BASE_HOST_AVAILABLE_MEMORY_H

#include <stddef.h>

/* Bytes without swapping: the least of MemAvailable of /proc/meminfo and of what the memory limit
 * of each cgroup from the process's own to the root leaves (cgroup v2 and v1), whose file caches
 * count as free. SIZE_MAX: the system does not say. `root` is the folder that has `proc` and `sys`,
 * without a slash behind it: "" but in tests. */
size_t ln_host_available_memory(const char *root);

#endif
