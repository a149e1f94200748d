"""SamplingParams on their way to the C API, and what is refused on the way."""

import math
import os
import random
import tempfile
import unittest
from unittest import mock

import support  # noqa: F401  (finds the package)

from linnet import SamplingParams, StructuredOutputsParams, UnsupportedError
from linnet._engine import Model
from linnet._native import number
from linnet._request import INT32_MAX, Prompt, generate_options, is_one_prompt, messages_of
from linnet.hub import find_model
from linnet.llm import _quantization_on_load


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = Model(support.DEMO)

    def options(self, **params):
        return generate_options(self.model, Prompt(self.model, [1, 2, 3]), SamplingParams(**params), random.Random(0))

    def test_the_defaults_are_those_of_vllm(self):
        o = self.options()
        self.assertEqual((o.max_tokens, o.sampling.temperature, o.sampling.top_k, o.sampling.top_p), (16, 1, 0, 1))
        self.assertEqual((o.sampling.repeat_penalty, o.sampling.repeat_last_n), (1, INT32_MAX))
        self.assertEqual((o.n, o.logprobs, o.prompt_logprobs, o.keep_special), (1, False, False, False))

    def test_fields_reach_the_request(self):
        o = self.options(n=2, best_of=3, temperature=0.5, top_k=7, top_p=0.5, min_p=0.25, repetition_penalty=1.5,
                         frequency_penalty=0.5, presence_penalty=-0.5, seed=99, max_tokens=None, min_tokens=4,
                         ignore_eos=True, skip_special_tokens=False, logprobs=3, timeout=1.5, priority=-2,
                         xtc_probability=0.5, dry_multiplier=0.75, mirostat_tau=5, cache_salt="s")
        s = o.sampling
        self.assertEqual((o.n, o.best_of, o.max_tokens, o.min_tokens), (2, 3, 0, 4))
        self.assertEqual((s.temperature, s.top_k, s.top_p, s.min_p, s.seed), (0.5, 7, 0.5, 0.25, 99))
        self.assertEqual((s.repeat_penalty, s.frequency_penalty, s.presence_penalty), (1.5, 0.5, -0.5))
        self.assertEqual((s.xtc_probability, s.dry_multiplier, s.mirostat_tau), (0.5, 0.75, 5))
        self.assertEqual((o.logprobs, o.top_logprobs, o.timeout_ms, o.priority), (True, 3, 1500, -2))
        self.assertEqual((o.ignore_eos, o.keep_special, o.cache_salt), (True, True, b"s"))

    def test_lists_reach_the_request(self):
        o = self.options(stop="END", stop_token_ids=[5, 6], logit_bias={7: -100.0, 8: 1.5}, bad_words=["cat"])
        self.assertEqual((o.stop[:o.n_stop], o.stop_ids[:o.n_stop_ids]), ([b"END"], [5, 6]))
        self.assertEqual([(b.id, b.bias) for b in o.logit_bias[:o.n_logit_bias]], [(7, -100), (8, 1.5)])
        words = [o.bad_words[i].ids[:o.bad_words[i].n_ids] for i in range(o.n_bad_words)]
        self.assertEqual([self.model.decode(ids) for ids in words], ["cat", " cat"])

    def test_seeds_that_are_not_given_differ(self):
        seeds = random.Random(0)
        prompt = Prompt(self.model, [1])
        first, second = (generate_options(self.model, prompt, SamplingParams(), seeds) for _ in range(2))
        self.assertNotEqual(first.sampling.seed, second.sampling.seed)

    def test_grammars_reach_the_request(self):
        for kind, params in (
                ("GRAMMAR_JSON_SCHEMA", {"json": {"type": "object"}}), ("GRAMMAR_REGEX", {"regex": "a+"}),
                ("GRAMMAR_CHOICE", {"choice": ["a", "b"]}), ("GRAMMAR_JSON", {"json_object": True}),
                ("GRAMMAR_GBNF", {"grammar": 'root ::= "a"'}), ("GRAMMAR_LARK", {"grammar": 'start: "a"'})):
            o = self.options(structured_outputs=StructuredOutputsParams(**params))
            self.assertEqual(o.grammar_kind, number(kind))
        o = self.options(guided_decoding=StructuredOutputsParams(json="{}", disable_any_whitespace=True))
        self.assertEqual((o.grammar, o.grammar_bytes, o.json_form), (b"{}", 2, number("JSON_COMPACT")))

    def test_allowed_ids_forbid_all_others(self):
        o = self.options(allowed_token_ids=[5, 9], logit_bias={5: 1.5})
        biases = [(b.id, b.bias) for b in o.logit_bias[:o.n_logit_bias]]
        self.assertEqual(biases[0], (5, 1.5))
        self.assertEqual(biases[1:], [(i, -math.inf) for i in range(self.model.info.n_vocab) if i not in (5, 9)])
        with self.assertRaises(ValueError):
            self.options(allowed_token_ids=[])

    def test_numbers_are_not_cut_to_their_fields(self):
        for params in ({"min_tokens": -1}, {"n": 2**32}, {"max_tokens": 2**64}, {"top_k": 2**31},
                       {"priority": -2**31 - 1}, {"stop_token_ids": [2**32]}, {"logit_bias": {2**32: 1}},
                       {"timeout": 2**33}):
            with self.assertRaises(ValueError, msg=params):
                self.options(**params)
        with self.assertRaises(ValueError):
            generate_options(self.model, Prompt(self.model, [2**32 + 5]), SamplingParams(), random.Random(0))
        with self.assertRaisesRegex(TypeError, "min_tokens is a whole number, not 1.5 of type float"):
            self.options(min_tokens=1.5)

    def test_messages_are_shaped_for_templates(self):
        call = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        given = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                 {"role": "assistant", "content": None, "tool_calls": [call]}]
        user, assistant = messages_of(given)
        self.assertEqual(user["content"], "a\nb")
        self.assertEqual(assistant["tool_calls"][0]["function"], {"name": "f", "arguments": {"a": 1}})
        self.assertEqual(call["function"]["arguments"], '{"a": 1}')  # the caller's stays as it is
        for wrong in ({"content": [{"type": "image_url"}]},
                      {"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}):
            with self.assertRaises(ValueError, msg=wrong):
                messages_of([{"role": "user", **wrong}])

    def test_prompts_of_encoders_have_any_form(self):
        model = mock.Mock(info=mock.Mock(has_encoder=True), encode=lambda text: [len(text)])
        for form in ("abc", {"prompt": "abc"}, [3], {"prompt_token_ids": [3]}):
            for prompt in (form, {"encoder_prompt": form}, {"encoder_prompt": form, "decoder_prompt": None}):
                made = Prompt(model, prompt)
                self.assertEqual((made.encoder_ids, made.ids), ([3], []))
            made = Prompt(model, {"encoder_prompt": [7], "decoder_prompt": form})
            self.assertEqual((made.encoder_ids, made.ids), ([7], [3]))

    def test_all_of_a_prompt_counts(self):
        for form in ({"prompt": "a", "cache_salt": "s"}, {"prompt_token_ids": [1], "cache_salt": "s"}):
            prompt = Prompt(self.model, {**form, "multi_modal_data": {}})
            salts = [generate_options(self.model, prompt, params, random.Random(0)).cache_salt
                     for params in (SamplingParams(), SamplingParams(cache_salt="t"))]
            self.assertEqual(salts, [b"s", b"t"])
        for field in ("multi_modal_data", "prompt_embeds"):
            with self.assertRaisesRegex(UnsupportedError, field):
                Prompt(self.model, {"prompt": "a", field: {"image": "x"}})

    def test_a_folder_need_not_name_its_quantisation(self):
        with tempfile.TemporaryDirectory() as folder:
            for own, made in (("null", b"awq"), ('{"quant_method": null}', b"awq"), ('{"quant_method": "awq"}', None)):
                with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                    file.write('{"quantization_config": %s}' % own)
                self.assertEqual(_quantization_on_load(folder, "awq"), made)

    def test_what_makes_no_sense_is_refused(self):
        for params in ({"n": 0}, {"n": 2, "best_of": 1}, {"temperature": -1}, {"top_p": 0}, {"top_k": -2},
                       {"max_tokens": 0}):
            with self.assertRaises(ValueError, msg=params):
                SamplingParams(**params)
        with self.assertRaises(ValueError):
            self.options(logprobs=65)
        for params in ({}, {"regex": "a", "choice": ["b"]}):
            with self.assertRaises(ValueError):
                StructuredOutputsParams(**params)

    def test_one_prompt_is_told_from_many(self):
        self.assertTrue(all(is_one_prompt(p) for p in ("a", [1, 2], {"prompt": "a"})))
        self.assertFalse(any(is_one_prompt(p) for p in (["a"], [[1, 2]], [{"prompt": "a"}], [])))


class Hub(unittest.TestCase):
    def test_names_are_found_in_the_hubs_cache(self):
        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"HF_HUB_CACHE": cache}):
            folder = os.path.join(cache, "models--facebook--opt-125m")
            os.makedirs(os.path.join(folder, "snapshots", "abc"))
            os.makedirs(os.path.join(folder, "refs"))
            with open(os.path.join(folder, "refs", "main"), "w", encoding="utf-8") as file:
                file.write("abc")
            self.assertEqual(find_model("facebook/opt-125m"), os.path.join(folder, "snapshots", "abc"))
            self.assertEqual(find_model(support.DEMO), support.DEMO)
            for file in ("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-IQ4_NL_XL.gguf", "mmproj-Q4_0.gguf"):
                open(os.path.join(folder, "snapshots", "abc", file), "w", encoding="utf-8").close()
            for name, file in (("", "m-Q4_K_M.gguf"), (":Q8_0", "m-Q8_0.gguf"), (":iq4_nl_xl", "m-IQ4_NL_XL.gguf")):
                self.assertEqual(os.path.basename(find_model("facebook/opt-125m" + name)), file)
            with mock.patch.dict("sys.modules", {"huggingface_hub": None}):
                for name in ("facebook/opt-125m:IQ4_NL", "facebook/opt-350m"):
                    with self.assertRaisesRegex(FileNotFoundError, f"linnet pull {name}`"):
                        find_model(name)

    def test_files_are_chosen_as_linnet_does(self):
        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"HF_HUB_CACHE": cache}):
            folder = os.path.join(cache, "models--org--m", "snapshots", "main")
            for file in ("config.json", "Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf"):
                os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
                open(os.path.join(folder, file), "w", encoding="utf-8").close()
            first = os.path.join(folder, "Q8_0", "m-Q8_0-00001-of-00002.gguf")
            self.assertEqual((find_model("org/m"), find_model("org/m:q8_0")), (first, first))
            open(os.path.join(folder, "model.safetensors"), "w", encoding="utf-8").close()
            self.assertEqual((find_model("org/m"), find_model("org/m:Q8_0")), (folder, first))

    def test_only_what_a_model_needs_is_downloaded(self):
        quants = ["README.md", "config.json", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf",
                  "f16/m-F16-00001-of-00002.gguf", "f16/m-F16-00002-of-00002.gguf"]
        asked = []

        def download(repo, revision, allow_patterns):
            asked.append((repo, revision, allow_patterns))
            folder = os.path.join(os.environ["HF_HUB_CACHE"], "got")
            for file in allow_patterns:
                os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
                open(os.path.join(folder, file), "w", encoding="utf-8").close()
            return folder

        for files, name, revision, wanted in (
                (quants, "a/b", None, ["m-Q4_K_M.gguf"]),
                (quants, "a/b:q8_0@v1", "v1", ["m-Q8_0.gguf"]),
                (quants, "a/b:F16", None, quants[5:]),
                (["config.json", "model.safetensors", "x.gguf"], "a/b@abc", "abc", ["config.json", "model.safetensors"])):
            with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"HF_HUB_CACHE": cache}):
                hub = mock.Mock(list_repo_files=lambda repo, revision, files=files: files, snapshot_download=download)
                with mock.patch.dict("sys.modules", {"huggingface_hub": hub}):
                    path = find_model(name)
                self.assertEqual(asked.pop(), ("a/b", revision, wanted))
                self.assertTrue(os.path.exists(path))
                if wanted[0].endswith(".gguf"):
                    self.assertEqual(os.path.relpath(path, os.path.join(cache, "got")), wanted[0])


if __name__ == "__main__":
    unittest.main()
