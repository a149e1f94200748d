/* Beam search with logprobs, grammars and stop strings. tests/golden/test_beams.c holds the search
 * itself to its reference. */
#include "text_test.h"

#include <math.h>

enum { WIDTH = 4, LENGTH = 24, STOP_ID = 2 };

static text_folder folder;
static golden g; /* its model is of `folder` */
static linnet_engine *engine;

static int setup(void **state) {
    (void)state;
    golden_open(&g, "llama");
    linnet_model_close(g.model);
    text_folder_make(&folder, "llama");
    g.model = text_folder_open(&folder);
    engine = engine_on(&g, exact_options(128, WIDTH, 64, 1));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
    text_folder_remove(&folder);
    return 0;
}

typedef struct beam {
    int32_t ids[LENGTH];
    float logprobs[LENGTH];
    linnet_logprob best[LENGTH]; /* the likeliest token */
    char text[LENGTH * 4 + 1];
    size_t n_ids;
    float score;
    linnet_finish finish;
} beam;

static void search(const linnet_request_options *o, beam *beams) {
    linnet_request *request = submit(engine, o);
    linnet_event event;
    memset(beams, 0, o->n * sizeof *beams);
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        beam *b = &beams[event.index];
        strncat(b->text, event.text, event.text_bytes);
        if (event.token >= 0) {
            b->ids[b->n_ids] = event.token;
            b->logprobs[b->n_ids] = event.logprob;
            if (event.top_logprobs != NULL)
                b->best[b->n_ids] = event.top_logprobs[0];
            b->n_ids++;
        } else {
            b->score = event.score;
            b->finish = event.finish;
        }
    } while (event.n_open > 0);
    linnet_request_close(request);
    for (size_t i = 1; i < o->n; i++)
        assert_true(beams[i].score <= beams[i - 1].score);
}

static linnet_request_options beam_options(uint32_t width) {
    linnet_request_options o = greedy_options(&g, 1);
    o.max_tokens = LENGTH;
    o.beam_width = o.n = width;
    return o;
}

static void assert_close(double value, double expected) {
    if (!(fabs(value - expected) < 1e-4 * (1 + fabs(expected))))
        fail_msg("%g instead of %g", value, expected);
}

/* A score is the mean of its tokens' logprobs. A search of one beam is greedy, to the bit. */
static void logprobs_are_those_of_the_tokens(void **state) {
    (void)state;
    beam beams[WIDTH], one, greedy;
    linnet_request_options o = beam_options(WIDTH);
    o.logprobs = o.prompt_logprobs = true;
    o.top_logprobs = 3;
    search(&o, beams);
    for (size_t i = 0; i < WIDTH; i++) {
        double sum = 0;
        assert_int_equal(beams[i].n_ids, LENGTH);
        for (size_t at = 0; at < LENGTH; at++) {
            bool is_best = beams[i].best[at].id == beams[i].ids[at];
            sum += (double)beams[i].logprobs[at];
            assert_true(is_best ? beams[i].logprobs[at] == beams[i].best[at].logprob
                                : beams[i].logprobs[at] <= beams[i].best[at].logprob);
        }
        assert_close((double)beams[i].score, sum / LENGTH);
    }
    o = beam_options(1);
    o.logprobs = true;
    o.top_logprobs = 1;
    search(&o, &one);
    o.beam_width = 0;
    search(&o, &greedy);
    assert_memory_equal(one.ids, greedy.ids, sizeof one.ids);
    assert_memory_equal(one.logprobs, greedy.logprobs, sizeof one.logprobs);
    assert_memory_equal(one.best, greedy.best, sizeof one.best);
}

/* The mean of the logprobs of `text` after the prompt, and of a stop id when there is one. */
static double score_of(const char *text, bool stops) {
    int32_t ids[MAX_IDS];
    size_t n = g.n_prompts[1], n_said = 0;
    memcpy(ids, g.prompts[1], n * sizeof *ids);
    for (; text[n_said] != '\0'; n_said++)
        ids[n + n_said] = FIRST_BYTE_ID + (unsigned char)text[n_said];
    if (stops)
        ids[n + n_said++] = STOP_ID;
    linnet_request_options o = greedy_options(&g, 1);
    o.prompt_ids = ids;
    o.n_prompt_ids = n + n_said;
    o.max_tokens = 1;
    o.prompt_logprobs = true;
    linnet_request *request = submit(engine, &o);
    linnet_event event;
    double sum = 0;
    do
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    while (event.n_open > 0);
    for (size_t i = 0; i < n_said; i++)
        sum += (double)event.prompt_logprobs[n + i];
    linnet_request_close(request);
    return sum / (double)n_said;
}

/* With few texts to choose from, a search finds them all, each with its score, and no more. */
static void a_grammar_leaves_what_it_allows(void **state) {
    (void)state;
    static const char choices[] = "[\"ab\", \"abc\", \"xyz\"]";
    static const char *const texts[] = {"ab", "abc", "xyz"};
    static const int32_t stop_id = STOP_ID;
    beam beams[WIDTH];
    size_t n_found = 0;
    linnet_request_options o = beam_options(WIDTH);
    o.grammar_kind = LINNET_GRAMMAR_CHOICE;
    o.grammar = choices;
    o.grammar_bytes = strlen(choices);
    o.stop_ids = &stop_id;
    o.n_stop_ids = 1;
    search(&o, beams);
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 3; j++) {
            if (strcmp(beams[j].text, texts[i]) != 0)
                continue;
            n_found++;
            assert_int_equal(beams[j].finish, LINNET_FINISH_STOP);
            assert_close((double)beams[j].score, score_of(texts[i], i == 0));
        }
    }
    assert_int_equal(n_found, 3);
    assert_int_equal(beams[3].n_ids, 0);
    assert_true(beams[3].score == -INFINITY);
}

/* Each beam keeps to what its own beginning asks for, whatever places beams take. */
static void grammars_follow_their_beams(void **state) {
    (void)state;
    static const char alike[] = "[a-i][a-z]{6}[a-i]|[j-r][a-z]{6}[j-r]|[s-z][a-z]{6}[s-z]";
    for (size_t prompt = 1; prompt < GOLDEN_PROMPTS; prompt++)
        for (size_t turn = 0; turn < 8; turn++) {
            beam beams[WIDTH];
            linnet_request_options o = beam_options(WIDTH);
            o.prompt_ids = g.prompts[prompt];
            o.n_prompt_ids = g.n_prompts[prompt] - turn;
            o.grammar_kind = LINNET_GRAMMAR_REGEX;
            o.grammar = alike;
            o.grammar_bytes = strlen(alike);
            search(&o, beams);
            for (size_t i = 0; i < WIDTH; i++) {
                const char *text = beams[i].text;
                assert_int_equal(strlen(text), 8);
                assert_int_equal((text[0] - 'a') / 9, (text[7] - 'a') / 9);
            }
        }
}

/* A beam that says the stop string ends with it; its text does not show it. Returns whether it did.
 */
static bool check_stop(const beam *b, const char stop[3]) {
    size_t n_before = 0; /* tokens before the stop string */
    for (; n_before + 2 <= b->n_ids; n_before++)
        if (b->ids[n_before] == FIRST_BYTE_ID + stop[0] &&
            b->ids[n_before + 1] == FIRST_BYTE_ID + stop[1])
            break;
    assert_null(strstr(b->text, stop));
    if (b->finish == LINNET_FINISH_LENGTH) {
        assert_int_equal(n_before, LENGTH - 1);
        return false;
    }
    assert_int_equal(b->finish, LINNET_FINISH_STOP);
    assert_int_equal(n_before + 2, b->n_ids);
    assert_int_equal(strlen(b->text) + 2, b->n_ids);
    return true;
}

static void stop_strings_end_beams(void **state) {
    (void)state;
    static const char printable[] = "[ -~]{24}";
    beam free_beams[WIDTH], beams[WIDTH];
    size_t n_stopped = 0;
    linnet_request_options o = beam_options(WIDTH);
    o.grammar_kind = LINNET_GRAMMAR_REGEX;
    o.grammar = printable;
    o.grammar_bytes = strlen(printable);
    search(&o, free_beams);
    for (size_t at = 1; at + 2 < LENGTH; at++)
        for (size_t from = 0; from < WIDTH; from++) {
            char stop[3] = {free_beams[from].text[at], free_beams[from].text[at + 1], '\0'};
            const char *const stops[] = {stop, "never said"};
            o.stop = stops;
            o.n_stop = 2;
            o.length_penalty = 0;
            search(&o, beams);
            for (size_t i = 0; i < WIDTH; i++)
                n_stopped += check_stop(&beams[i], stop);
        }
    assert_true(n_stopped > 0);
}

/* Words that would only come with a score of minus infinity do not come. */
static void what_is_forbidden_never_comes(void **state) {
    (void)state;
    enum { ALLOWED = 2 };
    static linnet_logit_bias never[N_VOCAB];
    beam beams[WIDTH];
    linnet_request_options o = beam_options(WIDTH);
    for (int32_t id = 0; id + ALLOWED < N_VOCAB; id++)
        never[o.n_logit_bias++] = (linnet_logit_bias){.id = id, .bias = -INFINITY};
    o.logit_bias = never;
    o.max_tokens = 1;
    search(&o, beams);
    for (size_t i = 0; i < WIDTH; i++) {
        assert_int_equal(beams[i].n_ids, i < ALLOWED);
        assert_true(i >= ALLOWED || beams[i].ids[0] >= N_VOCAB - ALLOWED);
    }
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logprobs_are_those_of_the_tokens),
        cmocka_unit_test(a_grammar_leaves_what_it_allows),
        cmocka_unit_test(grammars_follow_their_beams),
        cmocka_unit_test(stop_strings_end_beams),
        cmocka_unit_test(what_is_forbidden_never_comes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
