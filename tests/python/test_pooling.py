"""Vectors, classes and scores against reference answers of transformers."""

import math
import unittest

from support import DEMO, golden, numpy

from linnet import LLM, PoolingParams, UnsupportedError
from linnet.pooling import cosine, sigmoid, softmax


class Vectors(unittest.TestCase):
    def test_vectors_of_a_bert(self):
        folder, answers, floats = golden("embeddings", "bert")
        dim, single = answers["dim"], [i for i, n in enumerate(answers["first"]) if n == 0]  # else pairs of texts
        with LLM(folder, dtype="float32", threads=1) as llm:
            for pooling, at in (("cls", 0), ("mean", 1), ("last", 2)):
                prompts = [answers["prompts"][i] for i in single]
                outputs = llm.embed(prompts, pooling_params=PoolingParams(pooling=pooling, normalize=False))
                self.assertEqual([o.prompt_token_ids for o in outputs], prompts)
                for i, output in zip(single, outputs):
                    begin = (3 * i + at) * dim
                    for a, b in zip(output.outputs.embedding, floats[begin:begin + dim]):
                        self.assertAlmostEqual(a, b, delta=2e-5)

    def test_vectors_are_the_librarys_memory(self):
        with LLM(DEMO, threads=1) as llm:
            output = llm.embed("The cat", pooling_params=PoolingParams(dimensions=8, normalize=True))[0].outputs
            self.assertEqual(output.hidden_size, 8)
            self.assertAlmostEqual(math.fsum(x * x for x in output.embedding), 1, places=5)
            if numpy is not None:
                self.assertEqual((output.data.dtype, output.data.flags.owndata, output.data.flags.writeable),
                                 (numpy.float32, False, False))

    def test_all_of_a_prompt_counts(self):
        with LLM(DEMO, threads=1) as llm:
            ids = [o.prompt_token_ids for o in llm.embed([{"prompt": "The cat"}, {"prompt_token_ids": [5, 6]}])]
            self.assertEqual(ids, [llm.embed("The cat")[0].prompt_token_ids, [5, 6]])
            with self.assertRaisesRegex(UnsupportedError, "multi_modal_data"):
                llm.embed({"prompt": "The cat", "multi_modal_data": {"image": "x"}})

    def test_classes(self):
        folder, answers, floats = golden("embeddings", "bert_classes")
        dim, labels = answers["dim"], answers["labels"]
        single = [i for i, n in enumerate(answers["first"]) if n == 0]
        with LLM(folder, dtype="float32", threads=1) as llm:
            outputs = llm.classify([answers["prompts"][i] for i in single])
        row = 3 * dim + labels
        for i, output in zip(single, outputs):
            expected = softmax(floats[i * row + 3 * dim:(i + 1) * row])
            self.assertEqual(output.outputs.num_classes, labels)
            for a, b in zip(output.outputs.probs, expected):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def test_scores_are_cosines_of_vectors(self):
        with LLM(DEMO, threads=1) as llm:
            scores = [o.outputs.score for o in llm.score("The cat", ["The cat", "A ship sails"])]
            a, b = (o.outputs.data for o in llm.embed(["The cat", "A ship sails"]))
        self.assertAlmostEqual(scores[0], 1, places=6)
        self.assertAlmostEqual(scores[1], cosine(a, b), places=6)

    def test_functions(self):
        self.assertAlmostEqual(sigmoid(0.5) + sigmoid(-0.5), 1)
        self.assertEqual((sigmoid(-1000), sigmoid(1000)), (0, 1))
        self.assertAlmostEqual(math.fsum(softmax([1000, 1001, 1002])), 1)


if __name__ == "__main__":
    unittest.main()
