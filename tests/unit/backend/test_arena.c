/* The memory by which GPUs of one host exchange, how collectives are cut for it, and which GPUs can
 * be joined: what ranks on GPUs decide without one. */
#include "test.h"

#include <string.h>

#include "backend/cuda/ranks/arena.h"
#include "backend/cuda/ranks/card.h"

static const ln_mesh meshes[] = {
    {.n_tensor = 2, .n_expert = 1, .n_stages = 1}, {.n_tensor = 1, .n_expert = 4, .n_stages = 1},
    {.n_tensor = 1, .n_expert = 1, .n_stages = 3}, {.n_tensor = 2, .n_expert = 2, .n_stages = 2},
    {.n_tensor = 4, .n_expert = 1, .n_stages = 2},
};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

typedef struct place {
    size_t begin, bytes;
} place;

static size_t find_places(const ln_mesh *mesh, place *places) {
    unsigned n_groups = ln_ipc_count_groups(mesh);
    size_t n = 0;
    places[n++] = (place){0, LN_IPC_HEAD_BYTES};
    for (unsigned group = 0; group < n_groups; group++)
        for (unsigned half = 0; half < 2; half++) {
            places[n++] = (place){ln_ipc_data_at(group, 6 + half), LN_IPC_PART_BYTES};
            places[n++] = (place){ln_ipc_sums_at(group, 6 + half), LN_IPC_PART_BYTES / 2};
            for (unsigned rank = 0; rank < LN_IPC_RANKS; rank++)
                places[n++] =
                    (place){ln_ipc_pushed_at(group, 6 + half, rank), 2 * LN_IPC_PUSH_BYTES};
        }
    for (unsigned i = 0; i < LN_IPC_CHANNELS * LN_IPC_SLOTS && mesh->n_stages > 1; i++)
        places[n++] = (place){ln_ipc_slot_at(n_groups, i / LN_IPC_SLOTS, 20 + i % LN_IPC_SLOTS),
                              LN_IPC_SLOT_BYTES};
    return n;
}

/* All that is written at once has a place of its own, and the arena ends behind the last. */
static void places_do_not_overlap(void **state) {
    (void)state;
    for (size_t m = 0; m < N_MESHES; m++) {
        place places[96];
        size_t n = find_places(&meshes[m], places), total = 0;
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(places[i].begin % 16, 0);
            for (size_t k = 0; k < i; k++)
                assert_true(places[i].begin + places[i].bytes <= places[k].begin ||
                            places[k].begin + places[k].bytes <= places[i].begin);
            total += places[i].bytes;
        }
        assert_int_equal(ln_ipc_arena_bytes(&meshes[m]), total);
    }
    assert_int_equal(ln_ipc_arena_bytes(&(ln_mesh){0}), 0);
    assert_int_equal(ln_ipc_arena_bytes(&(ln_mesh){1, 1, 1, 0}), 0);
}

/* Neighbouring numbers of a group never share a half, nor of a channel a slot, also where they
 * wrap around; and a flag that is one ahead has come. */
static void numbers_wrap_around(void **state) {
    (void)state;
    for (unsigned i = 0, number = (unsigned)-5; i < 10; i++, number++) {
        assert_true(ln_ipc_data_at(0, number) != ln_ipc_data_at(0, number + 1));
        assert_true(ln_ipc_pushed_at(0, number, 3) != ln_ipc_pushed_at(0, number + 1, 3));
        for (unsigned k = 1; k < LN_IPC_SLOTS; k++)
            assert_true(ln_ipc_slot_at(1, 0, number) != ln_ipc_slot_at(1, 0, number + k));
        assert_true(ln_ipc_has_come(number, number));
        assert_true(ln_ipc_has_come(number + 1, number));
        assert_false(ln_ipc_has_come(number, number + 1));
    }
}

/* Parts follow one another, fit where they lie, and sums of parts fit, too. */
static void cuts_sums(void **state) {
    static const size_t sizes[] = {1, 2048, 4097, 131072, 1048576, 1048577, 5000000};
    (void)state;
    for (size_t n_ranks = 2; n_ranks <= LN_IPC_RANKS; n_ranks++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t done = 0;
            while (done < sizes[s]) {
                ln_ipc_part part = ln_ipc_sum_part(n_ranks, sizes[s], done);
                assert_int_equal(part.begin, done);
                assert_true(part.n > 0 && part.n * sizeof(float) <= LN_IPC_PART_BYTES);
                assert_true(part.n_blocks >= 1 && part.n_blocks <= LN_IPC_BLOCKS);
                if (part.in_two)
                    assert_true((part.n / n_ranks + 4) * sizeof(float) <= LN_IPC_PART_BYTES / 2);
                done += part.n;
            }
            assert_int_equal(done, sizes[s]);
        }
    assert_false(ln_ipc_sum_part(8, 2048, 0).in_two); /* 8 KB */
    assert_true(ln_ipc_sum_part(16, LN_IPC_PUSH_BYTES / 4, 0).pushes);
    assert_false(ln_ipc_sum_part(16, LN_IPC_PUSH_BYTES / 4, 0).in_two);
    assert_false(ln_ipc_sum_part(2, LN_IPC_PUSH_BYTES / 4 + 1, 0).pushes);
    assert_true(ln_ipc_sum_part(8, 262144, 0).in_two);
    assert_false(ln_ipc_sum_part(2, 262144, 0).in_two); /* nothing is read twice */
}

/* Whole rows that a norm follows. */
static void cuts_sums_by_rows(void **state) {
    static const size_t shapes[][2] = {{1, 256}, {64, 4096}, {3000, 8192}, {5000, 768}};
    (void)state;
    for (size_t n_ranks = 2; n_ranks <= LN_IPC_RANKS; n_ranks++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            size_t n_rows = shapes[s][0], dim = shapes[s][1], done = 0;
            while (done < n_rows) {
                ln_ipc_part part = ln_ipc_norm_part(n_ranks, n_rows, dim, done);
                assert_int_equal(part.begin, done);
                assert_true(part.n > 0 && part.n * dim * sizeof(float) <= LN_IPC_PART_BYTES);
                assert_true(part.n_blocks >= 1 && part.n_blocks <= LN_IPC_BLOCKS);
                assert_true(part.n_blocks <= part.n);
                if (part.in_two)
                    assert_true((part.n / n_ranks + 1) * dim * sizeof(float) <=
                                LN_IPC_PART_BYTES / 2);
                done += part.n;
            }
            assert_int_equal(done, n_rows);
        }
    assert_true(ln_ipc_norm_part(4, 4, 4096, 0).pushes);
    assert_false(ln_ipc_norm_part(4, 5, 4096, 0).pushes);
    assert_true(ln_ipc_norm_part(4, 64, 4096, 0).in_two);
}

static void cuts_rows_and_messages(void **state) {
    (void)state;
    ln_ipc_part part = ln_ipc_gather_part(64, 128256 / 2, 0);
    assert_true(part.n > 0 && part.n * (128256 / 2) * sizeof(float) <= LN_IPC_PART_BYTES);
    part = ln_ipc_gather_part(64, 128256 / 2, 60);
    assert_true(part.begin == 60 && part.n <= 4);
    assert_int_equal(ln_ipc_gather_part(1, LN_IPC_PART_BYTES, 0).n, 0);
    part = ln_ipc_pass_part(LN_IPC_SLOT_BYTES, LN_IPC_SLOT_BYTES / 4);
    assert_int_equal(part.n, LN_IPC_SLOT_BYTES / 4);
}

/* Of two stages of one rank, each way has a channel of its own; both ends name the same one. */
static void channels_have_two_ends(void **state) {
    (void)state;
    assert_int_equal(ln_ipc_find_channel(0, 1, true), LN_IPC_TO_NEXT);
    assert_int_equal(ln_ipc_find_channel(1, 0, false), LN_IPC_TO_NEXT);
    assert_int_equal(ln_ipc_find_channel(1, 0, true), LN_IPC_TO_FIRST);
    assert_int_equal(ln_ipc_find_channel(0, 1, false), LN_IPC_TO_FIRST);
    assert_int_equal(ln_ipc_find_channel(3, 5, true), ln_ipc_find_channel(5, 3, false));
}

static ln_rank_card card(const char *host, const char *bus, bool has_nccl) {
    ln_rank_card c = {.has_handle = true, .has_nccl = has_nccl};
    strcpy(c.host, host);
    strcpy(c.bus, bus);
    return c;
}

static void chooses_how_gpus_are_joined(void **state) {
    const char *why;
    (void)state;
    ln_rank_card shared[] = {card("a", "0", true), card("a", "0", true)};
    ln_rank_card two[] = {card("a", "0", true), card("a", "1", true)};
    ln_rank_card hosts[] = {card("a", "0", true), card("b", "0", true)};
    ln_rank_card bare[] = {card("a", "0", true), card("b", "0", false)};
    assert_int_equal(ln_cards_choose(shared, 2, false, &why), LN_CARDS_BY_IPC);
    assert_null(why);
    assert_int_equal(ln_cards_choose(shared, 2, true, &why), LN_CARDS_APART);
    assert_string_equal(why, "NCCL does not join ranks that share a GPU");
    assert_int_equal(ln_cards_choose(two, 2, true, &why), LN_CARDS_BY_NCCL);
    assert_int_equal(ln_cards_choose(hosts, 2, false, &why), LN_CARDS_BY_NCCL);
    assert_string_equal(why, "they are in several hosts");
    assert_int_equal(ln_cards_choose(bare, 2, false, &why), LN_CARDS_APART);
    two[1].wants_nccl = true;
    assert_int_equal(ln_cards_choose(two, 2, false, &why), LN_CARDS_BY_NCCL);
    shared[1].has_handle = false;
    assert_int_equal(ln_cards_choose(shared, 2, false, &why), LN_CARDS_APART);
}

static void ranks_take_devices_in_turn(void **state) {
    (void)state;
    assert_int_equal(ln_card_device(0, 4), 0);
    assert_int_equal(ln_card_device(5, 4), 1);
    assert_int_equal(ln_card_sharers(2, 1, 1), 2);
    assert_int_equal(ln_card_sharers(5, 0, 4), 2);
    assert_int_equal(ln_card_sharers(5, 1, 4), 1);
    assert_int_equal(ln_card_sharers(0, 0, 1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_do_not_overlap),
        cmocka_unit_test(numbers_wrap_around),
        cmocka_unit_test(cuts_sums),
        cmocka_unit_test(cuts_sums_by_rows),
        cmocka_unit_test(cuts_rows_and_messages),
        cmocka_unit_test(channels_have_two_ends),
        cmocka_unit_test(chooses_how_gpus_are_joined),
        cmocka_unit_test(ranks_take_devices_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
