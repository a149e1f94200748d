/* base/hashmap: what was added first stays, and a full map says so. */
#include "test.h"

#include <string.h>

#include "base/arena.h"
#include "base/hashmap.h"

static void hashmap_keeps_the_first_value(void **state) {
    (void)state;
    ln_arena arena;
    ln_arena_init(&arena);
    ln_hashmap map;
    assert_true(ln_hashmap_init(&map, &arena, 1000));
    char keys[1000][8];
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        assert_true(ln_hashmap_add(&map, keys[i], strlen(keys[i]), i));
    }
    assert_false(ln_hashmap_add(&map, "k7", 2, 99));
    assert_false(ln_hashmap_add(&map, "full", 4, 1));
    uint32_t value = 0;
    assert_true(ln_hashmap_get(&map, "k7", 2, &value));
    assert_int_equal(value, 7);
    assert_false(ln_hashmap_get(&map, "k", 1, &value));
    ln_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashmap_keeps_the_first_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
