"""lm-eval over completions, with the server's own tokenizer. usage: lm-eval_calls.py URL"""
import json
import os
import sys
import tempfile

import lm_eval
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

os.environ["OPENAI_API_KEY"] = "key"
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "sums.json"), "w") as file:
    for a, b in (2, 3), (4, 4), (1, 6), (5, 2):
        file.write(json.dumps({"question": f"{a}+{b}=", "answer": str(a + b)}) + "\n")
DATA = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": file.name}},
        "test_split": "test", "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}"}
GENERATE = DATA | {"task": "sums", "output_type": "generate_until", "generation_kwargs": {
    "until": ["\n"], "max_gen_toks": 8}, "metric_list": [{"metric": "exact_match"}]}
CHOOSE = DATA | {"task": "choices", "output_type": "multiple_choice",
                 "doc_to_text": "Once upon a", "doc_to_choice": ["time", "stone", "xylophone"],
                 "doc_to_target": 0, "metric_list": [{"metric": "acc"}]}
ROLL = DATA | {"task": "rolled", "output_type": "loglikelihood_rolling", "doc_to_text": "",
               "doc_to_target": "Once upon a time there was a {{question}}",
               "metric_list": [{"metric": "word_perplexity"}]}


def evaluate(model, task, **options):
    return lm_eval.simple_evaluate(model, tasks=[task], bootstrap_iters=0, log_samples=False,
                                   **options)["results"][task["task"]]


completions = LocalCompletionsAPI(base_url=sys.argv[1] + "/v1/completions", model="demo",
                                  tokenizer_backend="remote", num_concurrent=2, max_length=512)
chats = LocalChatCompletion(base_url=sys.argv[1] + "/v1/chat/completions", model="demo",
                            num_concurrent=2)


def chooses():
    assert evaluate(completions, CHOOSE)["acc,none"] == 1


def rolls():
    assert 1 < evaluate(completions, ROLL)["word_perplexity,none"] < 1e6


def continues():
    prompt = completions.tokenizer.apply_chat_template([{"role": "user", "content": "QUESTION"}])
    task = GENERATE | {"doc_to_text": prompt.replace("QUESTION", "{{question}}")}
    assert evaluate(completions, task)["exact_match,none"] == 1


def generates():
    assert evaluate(chats, GENERATE, apply_chat_template=True)["exact_match,none"] == 1


for test in chooses, rolls, continues, generates:
    test()
    print("ok", test.__name__)
