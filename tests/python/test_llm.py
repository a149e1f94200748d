"""LLM with the demo model, and against reference answers of transformers."""

import gc
import json
import os
import re
import threading
import time
import unittest
from unittest import mock

from support import DEMO, ROOT, golden, numpy

from linnet import (
    LLM, ArgumentError, BeamSearchParams, InputOutputError, LimitError, LinnetError, LoRARequest, RequestOutputKind,
    SamplingParams, StateError, StructuredOutputsParams, UnsupportedError)
from linnet._engine import Queue
from linnet._request import PendingGeneration

GREEDY = {"temperature": 0}


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(DEMO, threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def text(self, prompt, **params):
        return self.llm.generate(prompt, SamplingParams(**params))[0].outputs[0].text

    def test_a_batch_comes_in_the_order_of_its_prompts(self):
        prompts = ["Once upon a time", "The cat", "My name is"] * 8
        outputs = self.llm.generate(prompts, SamplingParams(max_tokens=12, **GREEDY))
        self.assertEqual([o.prompt for o in outputs], prompts)
        self.assertEqual(len({o.request_id for o in outputs}), len(prompts))
        for o in outputs:
            self.assertTrue(o.finished and o.outputs[0].finished())
            self.assertEqual(o.outputs[0].text, self.text(o.prompt, max_tokens=12, **GREEDY))
        self.assertEqual(outputs[0].outputs[0].finish_reason, "length")
        self.assertEqual(len(outputs[0].outputs[0].token_ids), 12)
        self.assertGreater(outputs[0].metrics.last_token_time, outputs[0].metrics.first_token_time)

    def test_forms_of_prompts_are_the_same(self):
        ids = self.llm.get_tokenizer().encode("The cat")
        texts = {self.text(p, max_tokens=8, **GREEDY)
                 for p in ("The cat", ids, {"prompt": "The cat"}, {"prompt_token_ids": ids})}
        self.assertEqual(len(texts), 1)

    def test_each_prompt_has_its_params(self):
        short, long = self.llm.generate(["A", "B"], [SamplingParams(max_tokens=2), SamplingParams(max_tokens=5)])
        self.assertEqual([len(o.outputs[0].token_ids) for o in (short, long)], [2, 5])
        with self.assertRaises(ValueError):
            self.llm.generate(["A", "B"], [SamplingParams()])

    def test_seeds_repeat_and_outputs_differ(self):
        params = SamplingParams(n=4, seed=7, max_tokens=10)
        first, second = (self.llm.generate("Once upon", params)[0].outputs for _ in range(2))
        self.assertEqual([o.text for o in first], [o.text for o in second])
        self.assertEqual([o.index for o in first], [0, 1, 2, 3])
        self.assertGreater(len({o.text for o in first}), 1)

    def test_logprobs(self):
        o = self.llm.generate("The cat", SamplingParams(max_tokens=6, logprobs=2, prompt_logprobs=1, **GREEDY))[0]
        out = o.outputs[0]
        self.assertEqual(len(out.logprobs), 6)
        for token, choices in zip(out.token_ids, out.logprobs):
            self.assertEqual((len(choices), choices[token].rank), (2, 1))
            self.assertEqual(max(choices, key=lambda t: choices[t].logprob), token)
        self.assertAlmostEqual(sum(c[t].logprob for t, c in zip(out.token_ids, out.logprobs)), out.cumulative_logprob)
        self.assertEqual("".join(c[t].decoded_token for t, c in zip(out.token_ids, out.logprobs)), out.text)
        self.assertIsNone(o.prompt_logprobs[0])
        self.assertEqual([set(entry) >= {token} for token, entry in zip(o.prompt_token_ids[1:], o.prompt_logprobs[1:])],
                         [True] * (len(o.prompt_token_ids) - 1))
        self.assertIsNone(self.llm.generate("The cat", SamplingParams())[0].outputs[0].logprobs)

    def test_stop_strings(self):
        whole = self.text("Once upon a time", max_tokens=30, **GREEDY)
        word = whole.split()[4]
        for include in (False, True):
            params = SamplingParams(max_tokens=30, stop=["never to come", word], include_stop_str_in_output=include,
                                    **GREEDY)
            out = self.llm.generate("Once upon a time", params)[0].outputs[0]
            self.assertEqual((out.finish_reason, out.stop_reason), ("stop", word))
            self.assertEqual(out.text, whole[:whole.index(word) + len(word) * include])

    def test_structured_outputs(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"],
                  "additionalProperties": False}
        text = self.text("A man of", max_tokens=60, structured_outputs=StructuredOutputsParams(json=schema))
        value = json.loads(text)
        self.assertEqual(list(value), ["age"])
        self.assertIsInstance(value["age"], int)
        text = self.text("Call", max_tokens=30, structured_outputs=StructuredOutputsParams(regex=r"\d{3}-\d{4}"))
        self.assertTrue(re.fullmatch(r"\d{3}-\d{4}", text), text)
        text = self.text("It is", structured_outputs=StructuredOutputsParams(choice=["good", "bad"]))
        self.assertIn(text, ("good", "bad"))
        with self.assertRaises(LinnetError):
            self.text("x", structured_outputs=StructuredOutputsParams(regex="("))

    def test_streams_are_the_whole_in_pieces(self):
        params = {"max_tokens": 12, "logprobs": 0, **GREEDY}
        whole = self.llm.generate("The cat", SamplingParams(**params))[0].outputs[0]
        pieces = list(self.llm.stream("The cat", SamplingParams(**params)))
        self.assertEqual("".join(o.outputs[0].text for o in pieces), whole.text)
        self.assertEqual(sum((o.outputs[0].token_ids for o in pieces), []), whole.token_ids)
        self.assertEqual(sum((o.outputs[0].logprobs for o in pieces), []), whole.logprobs)
        self.assertEqual([o.finished for o in pieces], [False] * (len(pieces) - 1) + [True])
        grown = list(self.llm.stream("The cat", SamplingParams(output_kind=RequestOutputKind.CUMULATIVE, **params)))
        self.assertEqual(grown[-1].outputs[0].text, whole.text)
        self.assertTrue(all(whole.text.startswith(o.outputs[0].text) for o in grown))
        last = list(self.llm.stream("The cat", SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **params)))
        self.assertEqual([o.outputs[0].text for o in last], [whole.text])

    def test_a_stream_that_is_left_ends_its_request(self):
        for _ in self.llm.stream("Once upon a time", SamplingParams(n=8, max_tokens=900, ignore_eos=True)):
            break  # of seconds of work
        gc.collect()
        begin = time.monotonic()
        while self.llm.stats()["n_running"] > 0 and time.monotonic() < begin + 30:
            time.sleep(0.001)  # statistics follow a step later
        self.assertLess(self.llm.stats()["n_output_tokens"], 7000)

    def test_chat(self):
        messages = [{"role": "user", "content": "Hello"}]
        one = self.llm.chat(messages, SamplingParams(max_tokens=20, **GREEDY))
        two = self.llm.chat([messages, messages], SamplingParams(max_tokens=20, **GREEDY))
        self.assertEqual([o.outputs[0].text for o in two], [one[0].outputs[0].text] * 2)
        ids = self.llm.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True)
        self.assertEqual(one[0].prompt_token_ids, ids)
        streamed = "".join(o.outputs[0].text for o in
                           self.llm.stream_chat(messages, SamplingParams(max_tokens=20, **GREEDY)))
        self.assertEqual(streamed, one[0].outputs[0].text)
        bare = self.llm.chat(messages, SamplingParams(max_tokens=1), chat_template="{{ messages[0].content }}")
        self.assertEqual(bare[0].prompt, "Hello")

    def test_beam_search(self):
        beams = self.llm.beam_search(["The cat", "A dog"], BeamSearchParams(beam_width=3, max_tokens=6))
        self.assertEqual([len(b.sequences) for b in beams], [3, 3])
        for b in beams:
            scores = [s.cum_logprob for s in b.sequences]
            self.assertEqual(scores, sorted(scores, reverse=True))

    def test_tokenizer(self):
        tokenizer = self.llm.get_tokenizer()
        ids = tokenizer.encode("Grüße, 世界", add_special_tokens=False)
        self.assertEqual(tokenizer.decode(ids), "Grüße, 世界")
        self.assertIn(0, tokenizer.eos_token_ids + [tokenizer.bos_token_id])

    def test_failures_are_exceptions_with_the_librarys_words(self):
        with self.assertRaisesRegex(LimitError, "5000 tokens"):
            self.llm.generate([1] * 5000)
        with self.assertRaisesRegex(InputOutputError, "/no/such.gguf"):
            LLM("/no/such.gguf")
        with self.assertRaisesRegex(ArgumentError, "no backend"):
            LLM(DEMO, device="tpu")
        with self.assertRaises(TypeError):
            LLM(DEMO, max_modle_len=5)
        with self.assertRaisesRegex(TypeError, "kv_tokns"):
            LLM(DEMO, engine_options={"kv_tokns": 64})
        self.assertTrue(issubclass(InputOutputError, OSError) and issubclass(LimitError, ValueError))
        # a prompt that is refused takes none of the others along, and leaves none behind
        with self.assertRaises(LinnetError):
            self.llm.generate(["good", [1] * 5000, "good"], SamplingParams(max_tokens=4))
        self.assertTrue(self.text("good", max_tokens=4))

    def test_wrong_types_are_named(self):
        user = {"role": "user", "content": "Hi"}
        tokenizer = self.llm.get_tokenizer()
        for expected, call, *args in (
                ("a prompt is a text, token ids.* int$", self.llm.generate, 5),
                ("a prompt is a text, token ids.* bytes$", self.llm.generate, b"a"),
                ("a prompt is a text, token ids.* NoneType$", self.llm.generate, ["a", None]),
                ("a prompt is a text, token ids.* NoneType$", self.llm.generate, {"text": "a"}),
                (r"this is \[1\.5\] of type list", self.llm.generate, {"prompt_token_ids": [1.5]}),
                ("SamplingParams are expected.* dict$", self.llm.generate, "a", GREEDY),
                ("SamplingParams are expected.* str$", self.llm.generate, ["a"], ["greedy"]),
                ("a prompt is a text", lambda p: next(self.llm.stream(p)), 5),
                ("SamplingParams are expected", lambda p: next(self.llm.stream("a", p)), GREEDY),
                ("a conversation is a list", self.llm.chat, 5),
                ("a conversation is a list", self.llm.chat, "Hi"),
                ("a conversation is a list", self.llm.chat, user),
                ("a conversation is a list", self.llm.chat, [user, "Hi"]),
                ("a conversation is a list", tokenizer.apply_chat_template, "Hi"),
                ("BeamSearchParams are expected", self.llm.beam_search, "a", SamplingParams()),
                ("a prompt is a text", self.llm.embed, 5),
                ("texts are expected.* int$", self.llm.score, "a", 5),
                ("texts are expected.* int$", self.llm.score, "a", ["b", 5]),
                ("a prompt is a text", self.llm.logits, 5, print),
                ("a text is expected.* int$", tokenizer.encode, 5),
                ("token ids are a list of whole numbers", tokenizer.decode, 5),
                ("token ids are a list of whole numbers", tokenizer.decode, "ab"),
                ("int$", LLM, 5)):
            with self.subTest(call=call, args=args), self.assertRaisesRegex(TypeError, expected):
                call(*args)

    def test_other_threads_run_during_a_call(self):
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(self.text("The cat", max_tokens=40, **GREEDY)))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(texts, [texts[0]] * 4)

    @unittest.skipIf(numpy is None, "there is no NumPy")
    def test_logits_are_those_that_tokens_are_chosen_by(self):
        ids = self.llm.get_tokenizer().encode("Once upon a")
        rows = self.llm.logits(ids)
        self.assertEqual((rows.shape, rows.dtype), ((len(ids), 4096), numpy.float32))
        out = self.llm.generate(ids, SamplingParams(max_tokens=1, **GREEDY))[0].outputs[0]
        self.assertEqual(int(rows[-1].argmax()), out.token_ids[0])
        seen = []
        self.assertIsNone(self.llm.logits(ids, lambda position, row: seen.append((position, float(row.max())))))
        self.assertEqual(seen, [(i, float(row.max())) for i, row in enumerate(rows)])
        with self.assertRaises(ZeroDivisionError):
            self.llm.logits(ids, lambda position, row: 1 / 0)

    def test_a_closed_engine_is_refused(self):
        with LLM(DEMO, threads=1) as llm:
            vectors = llm.embed(["a", "b"])
        self.assertRaises(StateError, llm.generate, "x")
        self.assertEqual(len(vectors[1].outputs.embedding), 256)  # outlives the engine
        del llm
        gc.collect()
        self.assertEqual(len(vectors[1].outputs.embedding), 256)


class Outputs(unittest.TestCase):
    def test_more_outputs_than_a_step_holds_are_those_of_a_wide_one(self):
        params = SamplingParams(n=7, seed=5, max_tokens=12, logprobs=2, prompt_logprobs=1)
        with LLM(DEMO, threads=1, max_num_seqs=7) as llm:
            wide = llm.generate("Once upon", params)[0]
        with LLM(DEMO, threads=1, max_num_seqs=3) as llm:
            narrow = llm.generate(["Once upon", "The"], params)[0]
            self.assertEqual(narrow.outputs, wide.outputs)
            self.assertEqual((narrow.prompt_logprobs, narrow.finished), (wide.prompt_logprobs, True))
            texts = [""] * 7
            for delta in llm.stream("Once upon", params):
                for out in delta.outputs:
                    texts[out.index] += out.text
            self.assertTrue(delta.finished)
            self.assertEqual(texts, [out.text for out in wide.outputs])
            with self.assertRaises(LimitError):  # those beyond n have to be compared
                llm.generate("Once upon", SamplingParams(n=2, best_of=4))
            self.assertEqual(llm.stats()["n_running"] + llm.stats()["n_waiting"], 0)


class Arguments(unittest.TestCase):
    """Of vLLM's, with the values that programs give them."""

    def test_a_quantised_folder_may_be_called_so(self):
        prompt = {"prompt_token_ids": [1, 2, 3]}
        for folder, methods in (("llama_awq", ("awq", "awq_marlin")), ("llama_gptq", ("gptq", "gptq_marlin")),
                                ("llama_int8", ("compressed-tensors", "compressed_tensors"))):
            path = os.path.join(ROOT, "tests", "golden", "models", folder)
            ids = []
            for method in (None, *methods):
                with LLM(path, threads=1, max_model_len=64, quantization=method) as llm:
                    ids.append(llm.generate(prompt, SamplingParams(max_tokens=8, **GREEDY))[0].outputs[0].token_ids)
            self.assertEqual(ids, ids[:1] * len(ids))
        with LLM(DEMO, threads=1, quantization="gguf") as llm:
            self.assertEqual(llm.max_model_len, 1024)
        with self.assertRaisesRegex(ArgumentError, "awq"):  # nothing makes it of another checkpoint
            LLM(os.path.join(ROOT, "tests", "golden", "models", "llama"), quantization="awq")

    def test_methods_of_speculation(self):
        for config in ({"method": "ngram", "num_speculative_tokens": 3},
                       {"method": "draft_model", "model": DEMO, "num_speculative_tokens": 2},
                       {"model": DEMO, "num_speculative_tokens": 2}):
            with LLM(DEMO, threads=1, max_model_len=64, speculative_config=config) as llm:
                llm.generate("1, 2, 3, 1, 2, 3, 1, 2,", SamplingParams(max_tokens=12, **GREEDY))
                self.assertGreater(llm.stats()["n_draft_tokens"], 0, config)
        with self.assertRaisesRegex(UnsupportedError, "medusa"):
            LLM(DEMO, speculative_config={"method": "medusa", "num_speculative_tokens": 3})


class Adapters(unittest.TestCase):
    PROMPT = {"prompt_token_ids": [1, 2, 3]}
    MODEL = os.path.join(ROOT, "tests", "golden", "models", "llama")
    ADAPTER = os.path.join(ROOT, "tests", "golden", "adapter")

    def ids(self, llm, *lora):
        params = SamplingParams(max_tokens=8, **GREEDY)
        output, = llm.generate(self.PROMPT, params, lora_request=LoRARequest(*lora) if lora else None)
        return output.outputs[0].token_ids

    def test_more_adapters_than_places_take_turns(self):
        adapter = self.ADAPTER
        with LLM(self.MODEL, threads=1, max_num_seqs=1, enable_lora=True, max_loras=2) as llm:
            bare, full = self.ids(llm), self.ids(llm, "a", 1, adapter)
            self.assertNotEqual(bare, full)
            for name in ("b", "c", "a"):
                self.assertEqual(self.ids(llm, name, 1, adapter), full)
            self.assertEqual(self.ids(llm, "a", 1, adapter, 0.0), bare)  # another one of that name
            mixed = llm.generate([self.PROMPT] * 3, SamplingParams(max_tokens=8, **GREEDY),
                                 lora_request=[LoRARequest("b", 1, adapter), None, LoRARequest("a", 1, adapter, 0.0)])
            self.assertEqual([o.outputs[0].token_ids for o in mixed], [full, bare, bare])
            for wrong in ([None], ["b"] * 3):
                with self.assertRaises((TypeError, ValueError)):
                    llm.generate([self.PROMPT] * 3, lora_request=wrong)
            self.assertRaises(InputOutputError, self.ids, llm, "a", 1, os.path.join(adapter, "none"))
            self.assertEqual(self.ids(llm, "a", 1, adapter), full)
            queue, long = Queue(), SamplingParams(max_tokens=400, ignore_eos=True)
            held = [llm._submit(queue, self.PROMPT, long, LoRARequest(name, 1, adapter)) for name in "ab" * 100]
            llm._waits = False
            with self.assertRaises(StateError):  # both places are in use, for some seconds
                llm._submit(queue, self.PROMPT, long, LoRARequest("c", 1, adapter))
            for pending in held:
                pending.close()

    def test_prompts_wait_for_the_place_of_their_adapter(self):
        a, b = (LoRARequest(name, 1, self.ADAPTER) for name in "ab")
        params = SamplingParams(max_tokens=8, **GREEDY)
        with LLM(self.MODEL, threads=1, enable_lora=True) as llm:
            bare, full = self.ids(llm), self.ids(llm, "a", 1, self.ADAPTER)
            mixed = llm.generate([self.PROMPT] * 5, params, lora_request=[a, b, None, b, a])
            self.assertEqual([o.outputs[0].token_ids for o in mixed], [full, full, bare, full, full])
            next(llm.stream(self.PROMPT, SamplingParams(ignore_eos=True), lora_request=a))  # is left, and ends soon
            self.assertEqual(self.ids(llm, "b", 1, self.ADAPTER), full)
        with LLM(self.MODEL, threads=1) as llm, self.assertRaises(StateError):
            self.ids(llm, "a", 1, self.ADAPTER)

    def test_one_in_use_that_changes_takes_the_place_of_an_idle_one(self):
        queue, long = Queue(), SamplingParams(max_tokens=400, ignore_eos=True)
        with LLM(self.MODEL, threads=1, max_num_seqs=1, enable_lora=True, max_loras=2) as llm:
            self.ids(llm, "b", 1, self.ADAPTER)
            llm._waits = False
            held = [llm._submit(queue, self.PROMPT, long, LoRARequest("a", 1, self.ADAPTER)) for _ in range(100)]
            held.append(llm._submit(queue, self.PROMPT, long, LoRARequest("a", 1, self.ADAPTER, 0.5)))
            for pending in held:
                pending.close()

    def test_one_stays_until_its_request_has_it(self):
        queue, params, threads = Queue(), SamplingParams(max_tokens=1), []

        def submit(name):
            llm._submit(queue, self.PROMPT, params, LoRARequest(name, 1, self.ADAPTER)).close()

        def submit_late(*args):
            if not threads:
                threads.append(threading.Thread(target=submit, args="b"))
                threads[0].start()
                threads[0].join(0.2)
            return PendingGeneration(*args)

        with LLM(self.MODEL, threads=1, enable_lora=True) as llm:
            with mock.patch("linnet.llm.PendingGeneration", submit_late):
                submit("a")
            threads[0].join()


class Reference(unittest.TestCase):
    """What transformers says of small random models."""

    def check(self, name, **options):
        folder, answers, floats = golden("models", name)
        with LLM(folder, dtype="float32", threads=1, max_model_len=128, **options) as llm:
            outputs = llm.generate(answers["prompts"], SamplingParams(max_tokens=32, ignore_eos=True, **GREEDY))
            for output, ids, gaps in zip(outputs, answers["greedy"], answers["gaps"]):
                sure = next((i for i, gap in enumerate(gaps) if gap < 1e-3), len(gaps))
                self.assertEqual(output.outputs[0].token_ids[:sure], ids[:sure])
            if numpy is not None and not answers["encoder_decoder"]:
                n = answers["logits_rows"][0]
                expected = numpy.array(floats[:n * answers["vocab"]]).reshape(n, -1)
                error = numpy.linalg.norm(llm.logits(answers["prompts"][0]) - expected) / numpy.linalg.norm(expected)
                self.assertLess(error, 1e-5)

    def test_a_decoder(self):
        self.check("opt")

    def test_an_encoder_and_a_decoder(self):
        self.check("t5")


if __name__ == "__main__":
    unittest.main()
